"""The line that installs an extra: it runs, the pages and notebooks name the same one, and no other."""

from __future__ import annotations

import itertools
import json
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from weightwright.errors import MissingExtraError, install_line

ROOT = Path(__file__).parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
#: Extras whose requirements are installed here: pip has nothing to fetch for them.
INSTALLED = [extra for extra in EXTRAS if extra != "ray"]


def texts() -> dict[str, str]:
    """What users read, by file: the running text and the cells of text."""
    pages = {path: path.read_text() for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))}
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        pages[path] = "\n".join("".join(cell["source"]) for cell in json.loads(path.read_text())["cells"])
    return {path.relative_to(ROOT).as_posix(): text for path, text in pages.items()}


@pytest.mark.few(2)
@pytest.mark.parametrize("extra", INSTALLED)
def test_pip_takes_the_line_and_finds_all_of_it_here(extra: str) -> None:
    words = shlex.split(install_line(extra))
    assert words[:2] == ["pip", "install"]
    command = [sys.executable, "-m", *words, "--dry-run", "--no-index", "--disable-pip-version-check"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    assert "Would install" not in ran.stdout
    assert ran.stdout.count("Requirement already satisfied") >= len(words) - 2


@pytest.mark.parametrize("extra", EXTRAS)
def test_the_line_holds_what_the_extra_requires(extra: str) -> None:
    assert shlex.split(install_line(extra))[2:] == sorted(EXTRAS[extra])
    assert str(MissingExtraError("this needs that", extra)).endswith(install_line(extra))


def test_several_extras_share_what_they_require() -> None:
    both = shlex.split(install_line("sklearn", "experiments"))[2:]
    assert both == sorted({*EXTRAS["sklearn"], *EXTRAS["experiments"]})


def test_an_extra_that_there_is_not_has_no_line() -> None:
    with pytest.raises(ValueError, match="no extras"):
        install_line("plots")


def test_pages_and_notebooks_name_these_lines_only() -> None:
    some = [names for count in (1, 2) for names in itertools.combinations(EXTRAS, count)]
    known = {install_line(*names) for names in some}
    named = {name: re.findall(r'`(pip install (?!"weightwright)[^`]*"[^`]*)`', text) for name, text in texts().items()}
    for name, lines in named.items():
        assert set(lines) <= known, name
    assert {name for name, lines in named.items() if lines} >= {
        "docs/command_line.md",
        "docs/estimators.md",
        "docs/exports.md",
        "notebooks/from_scikit_learn_to_a_transformer.ipynb",
        "notebooks/interpretability.ipynb",
    }


def test_what_an_index_has_is_named_as_such() -> None:
    """`weightwright[extra]` needs an index that has weightwright: one block of docs/install.md says so."""
    for name, text in texts().items():
        found = re.findall(r"pip install .*weightwright.*", text)
        assert all("dist/weightwright-*.whl" in line or name == "docs/install.md" for line in found), f"{name}: {found}"
