"""Numbers over seeds, and readers of a table's columns: from the numbers of a row to what stands in the column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weightwright.papers.experiments.machinery.study_units import Json


def mean_of(values: Any) -> float:
    """The mean over seeds."""
    return float(np.mean(values))


def spread_of(values: Any) -> float | None:
    """The sample standard deviation over seeds; None of one seed, or of a number that was not measured over seeds."""
    array = np.asarray(values, float)
    return float(array.std(ddof=1)) if array.ndim and len(array) > 1 else None


def show(values: Any) -> str:
    """Mean and standard deviation over seeds, as text; of one seed there is no deviation."""
    spread = spread_of(values)
    return f"{mean_of(values):.3g}" + (f" ± {spread:.2g}" if spread is not None else "")


def show_power(value: float) -> str:
    """A number by its order of magnitude, as text; "-" if there is none."""
    return f"{value:.1e}" if np.isfinite(value) else "-"


def stack(parts: Sequence[Sequence[float]]) -> Any:
    """Numbers of seeds for each value of a parameter, as an array (seeds, values)."""
    return np.array(parts).T


def mean(key: str) -> Callable[[Json], float | None]:
    """A reader of a column: the mean over seeds of a number of a cell; None where the cell has none."""
    return lambda cell: None if cell.get(key) is None else mean_of(cell[key])


def mean_and_spread(key: str) -> Callable[[Json], str | None]:
    """A reader of a column: mean and standard deviation over seeds of a number of a cell, as text."""
    return lambda cell: None if cell.get(key) is None else show(cell[key])


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
