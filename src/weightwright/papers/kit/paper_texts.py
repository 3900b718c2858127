"""Texts of theorems and studies: Markdown files in the folder texts/ of a package, read as sections, parts and tables.

A section has the heading "## ID: title", its statement below, and then parts with headings "### name".
"""

from __future__ import annotations

import re
from importlib.resources import files


def read_sections(package: str) -> dict[str, dict[str, str]]:
    """All sections of the texts of a package, by id, as `split_sections` has them."""
    found = {}
    for page in files(package).joinpath("texts").iterdir():
        found.update(split_sections(page.read_text(encoding="utf-8")))
    return found


def split_sections(page: str) -> dict[str, dict[str, str]]:
    """The sections of a page by id: the parts of each by name, with those named "title" and "statement"."""
    found = {}
    for section in page.split("\n## ")[1:]:
        heading, *parts = section.split("\n### ")
        first, statement = heading.split("\n", 1)
        id, title = first.split(": ", 1)
        found[id] = {"title": title, "statement": statement, **dict(part.split("\n", 1) for part in parts)}
    return found


def join_lines(text: str) -> str:
    """A paragraph without its line breaks; items of a list on a line each."""
    return "\n".join(" ".join(item.split()) for item in re.split(r"^- ", text, flags=re.MULTILINE) if item.strip())


def read_table(text: str) -> list[dict[str, str]]:
    r"""The rows of a Markdown table by the names of its columns; a bar in a cell is written \|.

    >>> read_table("| setting | taken |\n|---|---|\n| \\|b - a\\| | 2 |")
    [{'setting': '|b - a|', 'taken': '2'}]
    """
    header, _, *rows = (re.split(r"(?<!\\)\|", line)[1:-1] for line in text.strip().splitlines())
    names = [name.strip() for name in header]
    return [dict(zip(names, (cell.strip().replace("\\|", "|") for cell in row), strict=True)) for row in rows]
