"""docs/reproduction.md: the papers' experiments as they came out, from the records in docs/reproduction.

python benchmarks/reproduction.py                             print the page
python benchmarks/reproduction.py --write docs/reproduction.md write it
"""

from __future__ import annotations

from pathlib import Path

from house import write_or_print

from weightwright.papers.experiments.reproduction_page import write_page

RECORDS = Path(__file__).parents[1] / "docs" / "reproduction"


def make_page() -> str:
    """The page of the records of this checkout."""
    return write_page(RECORDS, RECORDS.name)


if __name__ == "__main__":
    write_or_print(__doc__ or "", make_page)
