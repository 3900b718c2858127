"""docs/modules.md says what the docstrings say; every file and every room has one."""

from __future__ import annotations

from pathlib import Path

from house import FLOORS, SOURCE, describe, write_page

PAGE = Path(__file__).parents[2] / "docs" / "modules.md"


def test_the_page_is_what_the_docstrings_say() -> None:
    assert PAGE.read_text() == write_page(), "run `make docs`, or benchmarks/house.py --write docs/modules.md"


def test_every_folder_is_a_floor() -> None:
    folders = {path.parent.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py")}
    beside = {path.stem for path in SOURCE.glob("*.py")} - {"__init__"}
    assert folders - {"."} | beside == set(FLOORS) | {"enclosures"}


def test_every_file_says_what_it_holds() -> None:
    silent = [path for path in SOURCE.rglob("*.py") if path.name != "__main__.py" and not describe(path)]
    assert not silent
