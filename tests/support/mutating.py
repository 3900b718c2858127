"""All small changes of a value made of dataclasses, tuples, numbers, texts and arrays: one field at a time."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from support.forging import Path_

#: Of a long tuple these many items are changed.
ITEMS = 3
#: The path to what is changed, the kind of change, the new value.
Mutation = tuple[Path_, str, Any]


def mutations(value: Any, path: Path_ = ()) -> Iterator[Mutation]:
    """Every number that a value holds moved, every text and tuple longer or shorter."""
    if dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from mutations(getattr(value, field.name), (*path, field.name))
        return
    if isinstance(value, tuple):
        for place, item in enumerate(value[:ITEMS]):
            yield from mutations(item, (*path, place))
    for kind, new in _others(value):
        yield path, kind, new


def _others(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, bool):
        yield "flipped", not value
    elif isinstance(value, int):
        yield "one more", value + 1
        yield "one less", value - 1
    elif isinstance(value, float):
        yield "zero", 0.0 if value else 1.0
        yield "half", value / 2 if value else -1.0
        yield "twice", value * 2 if value else 2.0
        yield "no number", math.nan
    elif isinstance(value, str):
        yield "more text", value + " + 1"
    elif isinstance(value, np.ndarray) and value.size:
        for place in sorted({0, value.size // 2, value.size - 1}):
            yield "moved", with_flat(value, place, value.flat[place] + 0.25)
        yield "no number", with_flat(value, 0, math.nan)
        yield "shorter", value[:-1]
    elif isinstance(value, tuple) and value:
        yield "shorter", value[:-1]
        yield "longer", (value[0], *value)


def with_flat(array: np.ndarray, place: int, entry: float) -> np.ndarray:
    """The array with one entry, counted row by row, replaced."""
    new = np.array(array, dtype=float)
    new.flat[place] = entry
    return new
