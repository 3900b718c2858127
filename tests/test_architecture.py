"""Who may import whom: only downwards, and the checker nothing of the prover's."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "weightwright"

#: From the bottom up. A module may import from its own floor and from floors below.
FLOORS = [
    ["errors", "box"],
    ["expressions"],
    ["network"],
    ["certificates"],
    ["runtime"],
    ["export"],
    ["heads"],
    ["compiler", "adversary"],
    ["constructions"],
    ["incontext", "memory"],
    ["report"],
    ["cli"],
]
#: The one look upwards: `net.to_onnx(path)` is a method of the module, so the module asks for the export when called.
UPWARDS = {
    ("runtime/module.py", "weightwright.export.lens"),
    ("runtime/module.py", "weightwright.export.onnx"),
    ("runtime/module.py", "weightwright.export.torch_source"),
}
HEIGHT = {name: height for height, floor in enumerate(FLOORS) for name in floor}
MODULES = sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")


def imports(path: Path) -> list[str]:
    names = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names.append(node.module or "")
        elif isinstance(node, ast.Import):
            names.extend(alias.name for alias in node.names)
    return [name for name in names if name.split(".")[0] == "weightwright"]


def floor(dotted: str) -> str:
    parts = dotted.split(".")
    return parts[1] if len(parts) > 1 else ""


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_go_downwards(path: Path) -> None:
    own = path.relative_to(SOURCE).with_suffix("").parts[0]
    for name in imports(path):
        if name == "weightwright":
            assert own == "cli", f"{path}: imports the whole package"
            continue
        if (path.relative_to(SOURCE).as_posix(), name) in UPWARDS:
            continue
        assert HEIGHT[floor(name)] <= HEIGHT[own], f"{path} imports {name}, which stands above it"


@pytest.mark.parametrize(("program", "other"), [("checker", "prover"), ("prover", "checker")])
def test_prover_and_checker_share_no_code(program: str, other: str) -> None:
    for path in (SOURCE / "certificates" / program).glob("*.py"):
        for name in imports(path):
            assert not name.startswith(f"weightwright.claims.{other}")
            allowed = {"errors", "box", "expressions", "network", "certificates"}
            assert floor(name) in allowed


def test_the_network_knows_no_framework() -> None:
    for path in (SOURCE / "network").glob("*.py"):
        text = path.read_text()
        assert "import torch" not in text
        assert "import scipy" not in text


def test_files_are_small() -> None:
    for path in MODULES:
        assert len(path.read_text().splitlines()) <= 400, f"{path} has more than one subject"
