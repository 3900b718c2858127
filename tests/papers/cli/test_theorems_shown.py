"""Theorems on the command line, at 80 and 120 columns: whole words, nothing cut; and how they are named."""

from __future__ import annotations

import io

import pytest
from papers.support.measuring import shown_theorem
from rich.console import Console
from support.command_line import helps_in_whole_words, weightwright

from weightwright.papers.pages.theorem_tables import tables, theorem_table
from weightwright.papers.theorems.registry import find


def at(columns: int, what: object) -> str:
    shown = io.StringIO()
    Console(width=columns, file=shown).print(what)
    return shown.getvalue()


@pytest.mark.parametrize("columns", [80, 120])
def test_tables_of_a_theorem_break_no_word(columns: int) -> None:
    shown = shown_theorem("UA-1")
    text = at(columns, theorem_table(shown))
    assert max(map(len, text.splitlines())) <= columns
    for _, headings, rows in tables(shown):
        words = {word for line in (headings, *rows) for cell in line for word in cell.split()}
        assert words <= set(text.split())


def test_theorems_are_found_without_their_hyphen() -> None:
    assert [find(id).id for id in ("ua3", "UA-3", "ae_13")] == ["UA-3", "UA-3", "AE-13"]


def test_help_shows_flags_as_flags_and_whole_choices() -> None:
    helps_in_whole_words("theorems")


def test_intervals_in_texts_are_shown() -> None:
    """Brackets are not styles for the terminal."""
    shown = " ".join(weightwright("theorems", "UA-11").stdout.split())
    assert "one head with p anchors on [a, b] computes" in shown
