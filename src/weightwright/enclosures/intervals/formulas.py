"""The range of a formula, or of its slope, over intervals of any shape: enclosed on equal parts of each."""

from __future__ import annotations

import numpy as np

from weightwright.enclosures.intervals.intervals import TINY, Interval
from weightwright.enclosures.intervals.jets import jet
from weightwright.expressions import parse
from weightwright.numbers import Floats

#: Ranges are rounded outward by this share of the size of what is added up.
OUTWARD = 1e-12
#: Number of equal parts of an interval on which a function's range is enclosed; the checker takes as many.
PARTS = 16


def enclose(formula: str, lo: Floats, hi: Floats, order: int = 0, parts: int = PARTS) -> tuple[Floats, Floats]:
    """Ends of a formula's Taylor coefficient of this order (1: its slope) over intervals of any shape; not finite where
    it is undefined or unbounded."""
    steps = np.linspace(0.0, 1.0, parts + 1)
    edges = lo[..., None] + (hi - lo)[..., None] * steps
    edges[..., -1] = hi
    over = jet(parse(formula, ("x",)), Interval(edges[..., :-1], edges[..., 1:]), order)[order]
    shape = edges[..., :-1].shape
    with np.errstate(all="ignore"):
        least, most = np.broadcast_to(over.lo, shape).min(axis=-1), np.broadcast_to(over.hi, shape).max(axis=-1)
        slack = OUTWARD * np.maximum(abs(least), abs(most))
        # a square is not negative, whatever rounding made of it
        return np.where(abs(least) < TINY, 0.0, least - slack), most + slack
