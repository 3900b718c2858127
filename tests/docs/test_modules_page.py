"""Pages made from the source: docs/modules.md says what the docstrings say, docs/trusted.md what is believed."""

from __future__ import annotations

from pathlib import Path

import trusted
from house import FLOORS, SOURCE, describe, write_page
from support.with_papers import needs_papers

DOCS = Path(__file__).parents[2] / "docs"


@needs_papers
def test_the_page_is_what_the_docstrings_say() -> None:
    assert (DOCS / "modules.md").read_text() == write_page(), (
        "run `make docs`, or benchmarks/house.py --write docs/modules.md"
    )


@needs_papers
def test_every_folder_is_a_floor() -> None:
    folders = {path.parent.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py")}
    beside = {path.stem for path in SOURCE.glob("*.py")} - {"__init__"}
    assert folders - {"."} | beside == set(FLOORS) | {"enclosures"}


def test_every_file_says_what_it_holds() -> None:
    silent = [path for path in SOURCE.rglob("*.py") if path.name != "__main__.py" and not describe(path)]
    assert not silent


@needs_papers
def test_the_page_of_what_is_believed_is_what_the_imports_say() -> None:
    page = (DOCS / "trusted.md").read_text()
    assert page == trusted.write_page(), "run `make docs`, or benchmarks/trusted.py --write docs/trusted.md"


def test_nothing_of_the_prover_has_to_be_believed() -> None:
    needed = {path.relative_to(SOURCE).parts[0] for path in trusted.closure(SOURCE / "checker" / "check.py")}
    assert not needed & {"prover", "heads", "approximation", "compiler", "runtime", "certify.py"}
