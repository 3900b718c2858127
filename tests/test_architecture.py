"""Who may import whom: only downwards, sub-packages and imports for type checking included."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest
from house import FLOORS, SOURCE, walk

TESTS = Path(__file__).parent
BENCHMARKS = TESTS.parent / "benchmarks"

#: The looks upwards, all of them where something is asked for: `net.to_onnx(path)`, `net.check()` are methods, and
#: `ww.incontext` is the public name of the estimators, which need scikit-learn.
UPWARDS = {
    ("runtime/confirming.py", "adversary/comparing.py"),
    ("runtime/module.py", "export/lens.py"),
    ("runtime/module.py", "export/onnx.py"),
    ("runtime/module.py", "export/torch_source.py"),
    ("runtime/module.py", "recheck.py"),
    ("runtime/module.py", "report/drawing/draw.py"),
    ("runtime/module.py", "report/plot.py"),
    ("circuit/circuit.py", "report/drawing/circuit_picture.py"),
    ("runtime/module.py", "adversary/predictions.py"),
    ("interpreter/__init__.py", "interpreter/library/__init__.py"),
    ("incontext/__init__.py", "estimators/huber.py"),
    ("incontext/__init__.py", "estimators/linear.py"),
    ("incontext/__init__.py", "estimators/logistic.py"),
}
HEIGHT = {name: height for height, name in enumerate(FLOORS)}
MODULES = sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")


def named(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def floor(path: Path) -> str:
    """The folder of a module; of one that stands beside the rooms its own name."""
    folder = path.relative_to(SOURCE).parent.as_posix()
    return path.stem if folder == "." else folder


def module(dotted: str) -> Path | None:
    """The file of weightwright.x.y; None if there is none of that name."""
    place = SOURCE.joinpath(*dotted.split(".")[1:])
    for path in (place.with_suffix(".py"), place / "__init__.py"):
        if path.exists() and place != SOURCE:
            return path
    return None


@cache
def imports(path: Path) -> list[Path]:
    """Every module of ours that a file imports, wherever it does."""
    found: list[Path] = []
    for node in walk(path):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            for alias in node.names:
                if (node.module or "").split(".")[0] == "weightwright":
                    target = module(f"{node.module}.{alias.name}") or module(node.module or "")
                    assert target is not None or named(path).startswith("cli/"), f"{path} imports the whole package"
                    found += [] if target is None else [target]
        elif isinstance(node, ast.Import):
            found += [target for alias in node.names if (target := module(alias.name)) is not None]
    return found


@pytest.mark.parametrize("path", MODULES, ids=named)
def test_imports_go_downwards(path: Path) -> None:
    for target in imports(path):
        if (named(path), named(target)) not in UPWARDS:
            assert HEIGHT[floor(target)] <= HEIGHT[floor(path)], f"{named(path)} imports {named(target)} above it"


def test_the_library_knows_nothing_of_the_papers() -> None:
    """Neither an import, inside functions too, nor a text that could be imported by."""
    for path in MODULES:
        if not named(path).startswith("papers/"):
            known = [target for target in imports(path) if named(target).startswith("papers/")]
            texts = [node.value for node in walk(path) if isinstance(node, ast.Constant)]
            assert not known, f"{named(path)} imports {known}"
            assert not any(isinstance(text, str) and "weightwright.papers" in text for text in texts), named(path)


def test_every_look_upwards_is_there() -> None:
    found = {(named(path), named(target)) for path in MODULES for target in imports(path)}
    assert found >= UPWARDS


def test_no_module_imports_itself_through_others() -> None:
    edges = {
        path: {target for target in imports(path) if (named(path), named(target)) not in UPWARDS} for path in MODULES
    }
    while True:
        leaves = {path for path, targets in edges.items() if not targets - {path}}
        if not leaves:
            break
        edges = {path: targets - leaves for path, targets in edges.items() if path not in leaves}
    assert not edges, f"import each other: {sorted(map(named, edges))}"


@pytest.mark.parametrize("program", ["checker", "prover"])
def test_prover_and_checker_share_no_code(program: str) -> None:
    arithmetic = {"checker": "enclosures/balls", "prover": "enclosures/intervals"}[program]
    allowed = {"errors", "limits", "numbers", "box", "expressions", "network", "claims", "extensions", arithmetic}
    allowed |= {"papers/claims", f"papers/{program}"}
    for room in (SOURCE / program, SOURCE / "papers" / program):
        for path in room.rglob("*.py"):
            for target in imports(path):
                assert floor(target) in allowed or floor(target).split("/")[0] == program, f"{path} imports {target}"


def test_balls_and_intervals_share_no_code() -> None:
    for kind in ("balls", "intervals"):
        for path in (SOURCE / "enclosures" / kind).glob("*.py"):
            allowed = {"errors", "limits", "numbers", "expressions", f"enclosures/{kind}"}
            assert {floor(target) for target in imports(path)} <= allowed, path


def test_the_network_knows_no_framework() -> None:
    for path in (SOURCE / "network").glob("*.py"):
        text = path.read_text()
        assert "import torch" not in text
        assert "import scipy" not in text


def test_no_two_files_have_one_name() -> None:
    """But where the checker does what the prover does, in its own arithmetic."""
    homes: dict[str, set[str]] = {}
    for path in MODULES:
        if path.stem not in ("__init__", "__main__"):
            homes.setdefault(path.stem, set()).add(floor(path))
    mirrors = {"checker", "prover", "enclosures"}
    for name, folders in homes.items():
        rooms = [folder.removeprefix("papers/").split("/")[0] for folder in folders]
        mirrored = len(folders) == 2 and set(rooms) <= mirrors and (rooms[0] != rooms[1] or rooms[0] == "enclosures")
        assert len(folders) == 1 or mirrored, f"{name}.py stands in {sorted(folders)}"


def test_no_package_hides_a_module_behind_a_function() -> None:
    for path in MODULES:
        if path.name == "__init__.py":
            given = {
                alias.asname or alias.name
                for node in walk(path)
                if isinstance(node, ast.ImportFrom)
                for alias in node.names
            }
            hidden = {name for name in given if (path.parent / f"{name}.py").exists()}
            assert not hidden, f"{named(path)} hides {hidden}"


def test_what_tests_share_stands_in_support() -> None:
    """No test file imports from another one."""
    for path in TESTS.rglob("*.py"):
        for node in walk(path):
            shared = isinstance(node, ast.ImportFrom) and (node.module or "").startswith("test_")
            assert not shared, f"{path} imports from a test"


def names_of_imports(path: Path) -> list[str]:
    """Of all modules that a file imports, wherever it does."""
    nodes = walk(path)
    named = [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    return named + [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]


def knows_papers(path: Path) -> bool:
    """Whether a test or a script that it imports needs `weightwright/papers`."""
    uses = any(isinstance(node, ast.Attribute) and ast.unparse(node) == "ww.constructions" for node in walk(path))
    names = names_of_imports(path)
    scripts = [script for name in names if (script := BENCHMARKS / f"{name}.py").exists()]
    own = any(re.match(r"(weightwright\.)?papers\b", name) for name in names)
    return uses or own or any(map(knows_papers, scripts))


def test_tests_of_the_library_know_nothing_of_the_papers() -> None:
    """They pass where `weightwright/papers` and `tests/papers` are deleted, nor do scripts that they import know it."""
    library = [path for path in TESTS.rglob("*.py") if not path.is_relative_to(TESTS / "papers")]
    assert [path for path in library if knows_papers(path)] == []
