"""The papers' anchor head: beta so large that softmax picks the nearest anchor.

Source: universal approximation paper, Theorem 3.4, Corollary G.6 (UA-2). Anchors L_k = a + k (b-a)/p for
k < p, scores beta (s L_k - L_k^2 / 2), which is -(beta/2)(s - L_k)^2 up to what is common to all k, and

    p = ceil(2 (b-a) / eps),    beta = 2 p^2 / (b-a)^2 (ln(p-2) + ln(2M / eps)),    M = max |f|.

Deviations: the printed W_Q and W_K both carry beta, which would square it (errata UA-2); values are f(L_k)
for any f, p grows with f's slope; beta is rounded up to a power of two, so that it multiplies exactly.
There is no anchor at b, as in the paper: the error there is a whole spacing.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from weightwright.errors import BudgetError
from weightwright.heads.registers import Table
from weightwright.numbers import Floats

_BYTES_PER_ANCHOR = 6 * 8  # one register row


def anchors_needed(width: float, slope: float, tol: float) -> int:
    """p of Corollary G.6 for a function of at most this slope on an interval of this width."""
    return max(3, math.ceil(min(2 * slope * width / tol, 1e300)))


def inverse_temperature(width: float, p: int, largest: float, tol: float) -> float:
    """beta of Corollary G.6, rounded up to a power of two; largest is M."""
    wanted = 2 * p**2 / width**2 * (math.log(p - 2) + math.log(max(2 * largest / tol, math.e)))
    return math.ldexp(1.0, math.ceil(math.log2(wanted)))


def nearest_anchor(
    f: Callable[[Floats], Floats], lo: float, hi: float, slope: float, largest: float, tol: float, most: int
) -> Table:
    """The table for f on [lo, hi]; BudgetError before anything is allocated if it needs more than `most` anchors."""
    p = anchors_needed(hi - lo, slope, tol)
    if p > most:
        size = p * _BYTES_PER_ANCHOR // 10**6
        raise BudgetError(
            f"method='faithful' with tol={tol:g} needs {_many(p)} anchors ({_many(size)} MB of registers),"
            f" more than max_anchors={most:,}; method='spectral' needs far fewer"
        )
    grid = lo + np.arange(p, dtype=np.float64) * ((hi - lo) / p)
    return Table(grid, -(grid**2) / 2, f(grid), inverse_temperature(hi - lo, p, largest, tol))


def _many(count: int) -> str:
    return f"{count:,}" if count < 10**15 else f"{float(count):.3g}"
