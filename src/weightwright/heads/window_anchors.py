"""The windowed spectral head: anchors on whole numbers, only those near the query have weight.

In units of the spacing D the query is t and the weights are exp(-c (t - L)^2) for the 2 M + 1 whole numbers L nearest
to t. They are powers of one exponential (`window_kernel`), so that a token costs the same however many anchors there
are, and the grid can be as fine as the function asks for.

Choices, and what follows from them: D and c are powers of two, so that t, t - L and 2 c (t - L) are exact. The grid has
M spare anchors on both sides: every query of the domain sees a whole window. What lies outside the window would weigh
e^(-c M (M + 1)) at most, about the unit roundoff or a little more; since it is not there, the output jumps by about
that much where the window moves, and the values are fitted to both sides of every jump. On the uniform grid a
function is reproduced up to e^(-pi^2 / c): c = 1/4 for float64, 1/2 for float32. The fit is ridge least squares
by an orthogonal factorisation that stays banded: its work grows with the number of anchors, not with its cube.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_banded

from weightwright.heads.registers import Table
from weightwright.numbers import UNIT, Floats, rounded
from weightwright.prover.machine import EXP_UNITS

TEMPERATURES = (1.0, 0.5, 0.25, 0.125)
NODES = 8  # of the fit, in every cell; more where there are few cells
RIDGE = 1e-2  # times the tolerance: what the fit may give up for smaller values
LEAST_RIDGE = 1e-15
GROUP = 16  # cells in one step of the fit
FINEST = 40  # halvings of the spacing


@dataclass(frozen=True)
class WindowFit:
    """A windowed table for queries t = factor * s, and its error as measured, an estimate of rounding included."""

    table: Table
    factor: float  # 1 / D
    error: float


class WindowDesigner:
    """Finds the windowed head with the coarsest grid for f on [lo, hi]; remembers what it has fitted.

    >>> designer = WindowDesigner(lambda s: np.sin(5 * s), -1.0, 1.0, tol=1e-11, most=4096, dtype="float64")
    >>> fit = next(designer.candidates(1e-11))
    >>> len(fit.table.keys), fit.table.window, fit.factor
    (31, 11, 4.0)
    """

    def __init__(self, f: Callable[[Floats], Floats], lo: float, hi: float, tol: float, most: int, dtype: str) -> None:
        self.f, self.lo, self.hi, self.most, self.dtype = f, lo, hi, most, dtype
        self.range = float(np.ptp(f(np.linspace(lo, hi, 2049))))
        self.ridge = float(np.clip(RIDGE * tol / (self.range or 1.0), LEAST_RIDGE, 1e-4))
        self._fits: dict[int, list[WindowFit]] = {}

    def candidates(self, aim: float) -> Iterator[WindowFit]:
        """Fits in the order in which to try to prove them, spacing halved from one to the next.

        From every spacing that seems to meet `aim` the narrowest window; where none does, the best fits of all.
        """
        met = 0
        for level in self._levels():
            good = [fit for fit in self.fits(level) if fit.error <= aim]
            if good:
                yield min(good, key=lambda fit: (fit.table.window, fit.error))
                met += 1
            if met == 3 or self._flat(level):
                break
        if not met:
            best = [min(fits, key=lambda fit: fit.error) for fits in self._fits.values() if fits]
            yield from sorted(best, key=lambda fit: fit.error)[:3]

    def fits(self, level: int) -> list[WindowFit]:
        """Every temperature and window on the grid of spacing 2^-level; none where the dtype or `most` is too small."""
        if level not in self._fits:
            attempts = (
                fit_values(self.f, self.lo, self.hi, math.ldexp(1.0, level), c, M, self.ridge, self.dtype)
                for c in TEMPERATURES
                for M in windows(c, self.dtype)
                if self._cells(level) + 2 * M <= self.most
            )
            self._fits[level] = [fit for fit in attempts if fit is not None]
        return self._fits[level]

    def _levels(self) -> Iterator[int]:
        level = math.floor(-math.log2(self.hi - self.lo)) if self.hi > self.lo else 0
        for finer in range(level, level + FINEST):
            if not self.fits(finer):
                return
            yield finer

    def _cells(self, level: int) -> int:
        return int(np.rint(math.ldexp(self.hi, level)) - np.rint(math.ldexp(self.lo, level))) + 1

    def _flat(self, level: int) -> bool:
        """Whether halving the spacing stopped helping: rounding rules, or a kink that falls like 1/p."""
        if self._cells(level) < 64:
            return False
        before, now = (min(fit.error for fit in self.fits(it)) for it in (level - 1, level))
        return 0.4 * before < now < 0.1 * self.range


def windows(c: float, dtype: str) -> tuple[int, ...]:
    """The least M that leaves out no more than the unit roundoff, than 256 times that, and than its square root.

    >>> windows(0.25, "float64"), windows(0.5, "float32")
    ((9, 11, 12), (4, 5, 6))
    """
    u = UNIT[dtype]
    return tuple(sorted({_least_window(c, tail) for tail in (u, 256 * u, math.sqrt(u))}))


def _least_window(c: float, tail: float) -> int:
    M = 1
    while math.exp(-c * M * (M + 1)) > tail:
        M += 1
    return M


def fit_values(
    f: Callable[[Floats], Floats], lo: float, hi: float, factor: float, c: float, M: int, ridge: float, dtype: str
) -> WindowFit | None:
    """The head for f(s), s in [lo, hi], on the grid of spacing 1/factor; None if the dtype cannot hold its keys."""
    first, last = (int(np.rint(end * factor)) for end in (lo, hi))
    L = np.arange(first - M, last + M + 1, dtype=np.float64)
    keys, offsets = rounded(2 * L, dtype), rounded(-(L**2), dtype)
    if (keys != 2 * L).any() or not np.isfinite(offsets).all():
        return None
    cells = _Cells(L[M:-M], lo * factor, hi * factor, c, M)
    t, W = cells.rows(NODES + 128 // len(cells.i))
    values = rounded(_solve(W, f(t / factor), ridge), dtype)
    t, W = cells.rows(2 * NODES + 3 + 512 // len(cells.i))  # other points
    output = _mix(W, values)
    error = np.abs(output - f(t / factor)).max() + _rounding_estimate(W, values, output, dtype)
    return WindowFit(Table(keys, offsets, values, c, window=M), factor, float(np.nan_to_num(error, nan=np.inf)))


@dataclass(frozen=True)
class _Cells:
    """The cells [i - 1/2, i + 1/2] of the anchors i, cut off at lo and hi."""

    i: Floats  # (cells,)
    lo: float
    hi: float
    c: float
    M: int

    def rows(self, nodes: int) -> tuple[Floats, Floats]:
        """`nodes` queries t in every cell, both ends included, and their weights, (cells, nodes, 2 M + 1)."""
        left, right = np.maximum(self.i - 0.5, self.lo), np.minimum(self.i + 0.5, self.hi)
        along = (1 - np.cos(np.linspace(0, np.pi, nodes))) / 2
        t = left[:, None] + (right - left)[:, None] * along  # (cells, nodes)
        m = np.arange(-self.M, self.M + 1)
        f = (t - self.i[:, None])[..., None]
        W = np.exp(self.c * m * (2 * f - m))
        return t, W / W.sum(axis=-1, keepdims=True)


def _mix(W: Floats, values: Floats) -> Floats:
    """The head's output in every cell: (cells, nodes)."""
    seen = np.lib.stride_tricks.sliding_window_view(values, W.shape[2])  # (cells, 2 M + 1)
    return np.einsum("cnm,cm->cn", W, seen)


def _solve(W: Floats, target: Floats, ridge: float) -> Floats:
    """Values of the least mean squared error plus ridge^2 times the squared values.

    A cell's equations hold 2 M + 1 neighbouring values, so the triangular factor is banded: cells are taken in by
    groups, and what a group leaves to the next are the rows of the 2 M values that both know.
    """
    cells, nodes, width = W.shape
    p, weight = cells + width - 1, ridge * math.sqrt(cells * nodes)
    band, right = np.zeros((width, p)), np.zeros(p)  # band[width - 1 - d, j + d]: entry (j, j + d)
    carried = np.zeros((0, width))  # of 2 M values and their right-hand sides
    for start in range(0, cells, GROUP):
        here, goal = W[start : start + GROUP], target[start : start + GROUP]
        known = 0 if start == 0 else width - 1
        R = _triangle(here, goal, carried, known, weight)
        done = len(here) if start + GROUP < cells else len(R)
        for row in range(done):
            length = min(width, len(R) - row)
            d = np.arange(length)
            band[width - 1 - d, start + row + d] = R[row, row : row + length]
            right[start + row] = R[row, -1]
        carried = R[done:, done:]
    values: Floats = solve_banded((0, width - 1), band, right)
    return values


def _triangle(W: Floats, target: Floats, carried: Floats, known: int, weight: float) -> Floats:
    """The triangular factor of a group of cells, right-hand sides in its last column."""
    cells, nodes, width = W.shape
    columns = cells + width - 1
    rows = np.zeros((cells, nodes, columns + 1))
    for cell in range(cells):
        rows[cell, :, cell : cell + width] = W[cell]
    rows[:, :, -1] = target
    before = np.zeros((len(carried), columns + 1))
    before[:, :known], before[:, -1] = carried[:, :known], carried[:, -1]
    small = weight * np.eye(columns, columns + 1)[known:]  # of the values that are new here
    system = np.concatenate([before, rows.reshape(-1, columns + 1), small])
    R = np.asarray(np.linalg.qr(system, mode="r"))
    return R[:columns]


def _rounding_estimate(W: Floats, values: Floats, output: Floats, dtype: str) -> float:
    """About what a rounding model will say; only steers the choice. Powers carry |m| times the error of exp."""
    u, width = UNIT[dtype], W.shape[2]
    m = np.abs(np.arange(width) - width // 2)
    seen = np.lib.stride_tricks.sliding_window_view(values, width)[:, None, :]
    off = m * (EXP_UNITS["dot"][dtype] + 5) + 2
    moved = (W * np.abs(seen - output[..., None]) * off).sum(axis=-1)
    sums = math.log2(width) * ((W * np.abs(seen)).sum(axis=-1) + np.abs(output))
    return float(u * (moved + sums + 4 * np.abs(output)).max())
