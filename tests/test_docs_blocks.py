"""Every block of README and docs runs as printed: in the order of its page, in one namespace, in an empty folder.

A fence must say what its block is: `python`; `text`, what the block before it prints; `sh`, commands; `console`,
commands and what they print, where `...` stands for anything; `pycon`, run by a test of that page's own. Marks stand on
the lines before a fence: `<!-- slow -->` leaves it to the slow suite, and the blocks after it must do without it;
`<!-- file: NAME -->` also writes it to a file; `<!-- not run: WHY -->` leaves it alone, and all of these are counted
here. Commands in the running text are held against the programs that they name."""

from __future__ import annotations

import contextlib
import doctest
import io
import re
import shlex
import sys
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import click
import pytest
from support.command_line import command_group, printed, weightwright
from support.with_papers import needs_papers

ROOT = Path(__file__).parents[1]
FILES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
_BLOCK = re.compile(r"((?:^<!-- .* -->\n)*)^```(.*)\n((?:.*\n)*?)^```$", re.MULTILINE)
_MARK = re.compile(r"<!-- (slow|file|not run)(?:: (.+))? -->")
_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE

#: Blocks that nothing here runs: pip needs a network, the rest are no programs.
NOT_RUN = {
    "README.md: pip": 1,
    "docs/install.md: pip": 1,
    "docs/architecture.md: a drawing": 3,
    "docs/exports.md: a part of a file": 1,
    "docs/in_context_learning.md: 20 minutes of training": 1,
}
#: Pages with `pycon` blocks, and the test that runs them.
PYCON = {
    "docs/algorithms.md": "tests/compiler/test_algorithms.py",
    "docs/estimators.md": "tests/docs/test_estimators_page.py",
    "docs/incontext.md": "tests/docs/test_incontext_page.py",
    "docs/reference.md": "tests/docs/test_reference_page.py",
}
#: Pages that speak of what the papers add: constructions, tasks, the commands `theorems` and `reproduce`.
OF_PAPERS = {
    f"docs/{name}.md"
    for name in (
        "command_line", "constructions", "errata", "in_context_learning", "install", "memory", "modules",
        "reference", "reproduction", "theorems", "using",
    )
}  # fmt: skip


@dataclass(frozen=True)
class Block:
    kind: str
    text: str
    marks: dict[str, str]
    prints: str | None = None  # of python: the text block after it

    @property
    def slow(self) -> bool:
        return "slow" in self.marks


def blocks_of(text: str) -> list[Block]:
    found: list[Block] = []
    end = 0
    for match in _BLOCK.finditer(text):
        marks = dict(_MARK.findall(match[1]))
        if match[2] == "text" and not marks:
            before = found.pop()
            assert before.kind == "python", f"nothing prints\n{match[3]}"
            assert text[end : match.start()].strip() == "", f"what prints this stands farther up:\n{match[3]}"
            found.append(Block("python", before.text, before.marks, match[3]))
        else:
            found.append(Block(match[2], match[3], marks))
        end = match.end()
    return found


def needs(name: str) -> list[pytest.MarkDecorator]:
    """Marks of a page's tests."""
    return [needs_papers] if name in OF_PAPERS else []


#: Pages that take most of a second or more: `make test-all` runs their blocks.
DEAR = {
    f"docs/{name}.md"
    for name in (
        "approximate", "causal_learner", "circuits", "compiler", "in_context_learning", "interpreter", "memory",
        "one_pass", "using",
    )
}  # fmt: skip


PAGES = {path.relative_to(ROOT).as_posix(): blocks_of(path.read_text()) for path in FILES}
CASES = [
    pytest.param(
        name,
        slow,
        id=f"{name}{', slow' * slow}",
        marks=[*[pytest.mark.slow] * (slow or name in DEAR), *needs(name)],
    )
    for name, blocks in PAGES.items()
    for slow in sorted({block.slow for block in blocks if block.kind in ("python", "sh", "console")})
]


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")  # torch.compile's own
@pytest.mark.parametrize(("name", "slow"), CASES)
def test_the_blocks_of_a_page_run_as_printed(name: str, slow: bool, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in PAGES[name]:
        if "not run" in block.marks or (block.slow and not slow):
            continue
        if "file" in block.marks:
            (tmp_path / block.marks["file"]).write_text(block.text)
        if block.kind == "python":
            run_python(name, block, namespace)
        elif block.kind in ("sh", "console"):
            for command, said in commands(block):
                run_command(command, said)
    for module in [
        name for name, one in sys.modules.items() if str(tmp_path) in (getattr(one, "__file__", None) or "")
    ]:
        del sys.modules[module]  # what was imported from the folder goes with it


def run_python(name: str, block: Block, namespace: dict[str, Any]) -> None:
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(block.text, f"<{name}>", "exec"), namespace)
    assert block.prints is None or printed.getvalue() == block.prints, block.text


def commands(block: Block) -> list[tuple[str, str | None]]:
    """The commands of a block; in a console with what they print."""
    if block.kind == "sh":
        return [(line, None) for line in block.text.splitlines() if line.strip()]
    first, *parts = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
    assert not first, f"a console begins with a prompt, not with {first!r}"
    return [(command, said) for command, _, said in (part.partition("\n") for part in parts)]


def run_command(command: str, said: str | None) -> None:
    program, *words = shlex.split(command, comments=True)
    assert program == "weightwright", f"{command}: mark what cannot be run here with <!-- not run: WHY -->"
    result = weightwright(*words)
    refused = said is not None and said.startswith("error:")
    assert (result.exit_code != 0) == refused, f"{command}\n{result.output}"
    if said is not None:
        assert doctest.OutputChecker().check_output(said, result.output, _FLAGS), f"{command}\n{result.output}"


def test_no_block_is_left_out_silently() -> None:
    counts: dict[str, int] = {}
    for name, blocks in PAGES.items():
        text = (ROOT / name).read_text()
        assert len(re.findall(r"^\s*```", text, re.MULTILINE)) == 2 * len(_BLOCK.findall(text)), f"{name}: a fence"
        for block in blocks:
            if "not run" in block.marks:
                key = f"{name}: {block.marks['not run']}"
                counts[key] = counts.get(key, 0) + 1
            elif block.kind == "pycon":
                assert "pycon" in (ROOT / PYCON[name]).read_text()
            else:
                assert block.kind in ("python", "sh", "console"), f"{name}: a block of {block.kind or 'nothing'}"
    assert counts == NOT_RUN


def named_commands() -> list[tuple[str, str]]:
    """Every command in the running text, and those of blocks that are not run, with their page."""
    found = []
    for path in (*FILES, ROOT / "CONTRIBUTING.md"):
        name, text = path.relative_to(ROOT).as_posix(), path.read_text()
        spans = re.findall(r"(?<!`)`((?:weightwright|make|python|pytest|pip|uv) [^`]+)`(?!`)", _BLOCK.sub("", text))
        left = [block for block in PAGES.get(name, []) if block.kind == "sh" and "not run" in block.marks]
        found += [(name, span) for span in [*spans, *(line for block in left for line in block.text.splitlines())]]
    return found


@pytest.mark.parametrize("name", [pytest.param(name, marks=needs(name)) for name in sorted(dict(named_commands()))])
def test_commands_in_the_text_are_there(name: str) -> None:
    for command in [command for page, command in named_commands() if page == name]:
        program, *words = shlex.split(command, comments=True)
        CHECKS[program](words, command)


def check_weightwright(words: list[str], said: str) -> None:
    group: Any = command_group()
    if "|" in words:  # a list of them
        assert {word for word in words if word != "|"} <= set(group.commands), said
        return
    command: click.Command = group
    if not words[0].startswith("-") and words[0] != "COMMAND":
        assert words[0] in group.commands, said
        command = group.commands[words[0]]
    known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
    options = {word.partition("=")[0] for word in words if re.match(r"--\w", word)}
    assert options <= known, f"{said}: no option {options - known}"
    ids = {word for word in words if re.fullmatch(r"[A-Z]{2}-\d+", word)}
    assert not ids or ids <= theorem_ids(), said


@cache
def theorem_ids() -> set[str]:
    return set(re.findall(r"\b[A-Z]{2}-\d+\b", printed("theorems")))


def check_make(words: list[str], said: str) -> None:
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert {word for word in words if "=" not in word} <= set(targets), said


def check_paths(words: list[str], said: str) -> None:
    for word in words:
        if "/" in word:
            assert (ROOT / word.partition("::")[0]).exists(), said


def check_pip(words: list[str], said: str) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert words[0] == "install", said
    for word in words:
        if match := re.fullmatch(r"(?:\.|weightwright)\[(.+)\]", word):
            assert set(match[1].split(",")) <= set(extras), said


def check_uv(words: list[str], said: str) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert words[0] == "sync", said
    assert set(words[2::2]) <= set(extras), said
    assert set(words[1::2]) <= {"--extra"}, said


CHECKS = {
    "uv": check_uv,
    "weightwright": check_weightwright,
    "make": check_make,
    "python": check_paths,
    "pytest": check_paths,
    "pip": check_pip,
}


def test_the_test_command_of_the_readme_is_what_ci_runs() -> None:
    assert "\nmake test " in (ROOT / "README.md").read_text()
    assert "\nmake test\n" in (ROOT / ".ci" / "run").read_text()


def test_links_and_pictures_are_there() -> None:
    for path in FILES:
        for link in re.findall(r"\]\(([^)\s]+)\)", _BLOCK.sub("", path.read_text()).replace(r"]\(", "")):
            if not link.startswith(("http", "#")):
                assert (path.parent / link.partition("#")[0]).exists(), f"{path.name}: {link}"


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    for path in (ROOT / "docs").glob("*.md"):
        assert path.name == "README.md" or f"({path.name})" in index, f"docs/README.md leaves out {path.name}"


def test_the_readme_is_short_and_names_its_words() -> None:
    """Half as long as it was before (issue 18), and read aloud in three minutes: 450 words beside blocks and tables."""
    text = (ROOT / "README.md").read_text()
    assert len(text) <= 15352 // 2
    prose = [line for line in _BLOCK.sub("", text).splitlines() if not line.startswith(("|", "!", "<!--"))]
    assert len(" ".join(prose).split()) <= 450
    for word in ("register", "key", "anchor"):
        first = text.index(f"**{word}")
        assert word not in re.sub(r"`[^`]*`", "", _BLOCK.sub("", text[:first])), f"{word} is used before it is defined"
    for status in ("PROVEN", "CONDITIONAL", "MEASURED"):
        assert f"| **{status}** | " in text
