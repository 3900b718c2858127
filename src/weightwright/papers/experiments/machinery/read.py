"""Readers of a table's columns: from the numbers that a row is made of to what stands in the column."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weightwright.papers.experiments.machinery.study_units import Json
from weightwright.papers.experiments.machinery.verdicts import mean_of, show_power, spread_of


def mean(key: str) -> Callable[[Json], float | None]:
    """A reader of a column: the mean over seeds of a number of a cell; None where the cell has none."""
    return lambda cell: None if cell.get(key) is None else mean_of(cell[key])


def spread(key: str) -> Callable[[Json], float | None]:
    """A reader of a column: the standard deviation over seeds."""
    return lambda cell: None if cell.get(key) is None else spread_of(cell[key])


def value(*keys: str) -> Callable[[Json], Any]:
    """A reader of a column: a number or text of a cell as it is, or of a part of it; None where it has none."""

    def read_value(cell: Json) -> Any:
        found: Any = cell
        for key in keys:
            found = None if found is None else found.get(key)
        return found

    return read_value


def power(key: str) -> Callable[[Json], str]:
    """A reader of a column: the order of magnitude of a number, as text."""
    return lambda cell: show_power(cell[key])
