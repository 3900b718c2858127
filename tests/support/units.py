"""Units of several layers on registers, by hand: with values that the checker must refuse."""

from __future__ import annotations

from typing import Any

import numpy as np

from weightwright.approximation.faithful_tables import propose_faithful
from weightwright.heads.registers import on_registers
from weightwright.network import Attention


def identity_unit(
    names: tuple[str, ...], values: np.ndarray, first: int = 2, dtype: str = "float64", **options: Any
) -> tuple[Any, np.ndarray, Any]:
    """(unit, registers, layer) of heads that look these values up at 65 anchors from -1 to 1, said to be x itself.

    The query is the first coordinate, the result is added to the last one; the keys, offsets and values of the table
    are in the three coordinates from `first` on. options: what `propose_faithful` takes besides.
    """
    unit = propose_faithful("x", np.linspace(-1, 1, 65), [(0, values)], 2.0**16, -1.01, 1.01, dtype, **options)
    registers, at = on_registers(unit.tables, [first], len(names))
    return unit, registers, Attention(names, tuple(unit.heads(names, 0, 1, first, at, len(names) - 1)))
