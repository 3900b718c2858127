"""How well a Hopfield memory retrieves: an upper bound from the stored numbers, in ball arithmetic.

For a query within r of pattern i the score of i leads that of j by at least beta g_j,
    g_j = x_i . x_i - x_i . x_j - r |x_i - x_j|,
so pattern j weighs at most q_j = e^(-beta g_j) times what i weighs. With d_j = |v_j - v_i| the result is off by
    sum rho_j d_j / (1 + sum rho_j) for some 0 <= rho_j <= q_j.
Every f with sum_j q_j max(d_j - f, 0) <= f bounds that: sum rho_j (d_j - f) <= f. The least such f is the largest
value there is; a number just above it is taken, and that inequality is checked in balls.

Rounding, in any order of summation: scores are off by gamma_(dim+4) beta |xi| |x_j|, the shift by the largest score
by a unit of the gap, exp by a few units: logarithms of weights are off by at most e. That takes 2 e from every lead,
and moves a mean by at most the spread of the values times tanh(e/2). The smaller of both counts. The sums and the
division cost (2 N + 6) u of the largest value.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from flint import arb, arb_mat

from weightwright.checker.core.complaints import LARGEST
from weightwright.checker.core.rounding import SMALLEST, UNIT, exp_error
from weightwright.claims.certificate import round_up
from weightwright.enclosures.balls.series import largest, working_precision
from weightwright.errors import ToleranceError
from weightwright.numbers import Floats

#: Candidates are taken this much above what they should be, so that their inequality can be checked.
_ROOM = 1 + arb(2) ** -60


@dataclass(frozen=True)
class Recall:
    """For every query within `radius` of a pattern, `steps` steps end within `bound` of its value (Euclidean norm).

    bound is the sum of `softmax`, what the other patterns weigh in exact arithmetic at the last step, and `rounding`.
    pattern: the one that the bound is about, or the worst of all. It holds for `retrieve` and for `network`, on the
    assumption that exp is within a few units in the last place (`checker.core.machine`) and that torch
    multiplies in the memory's dtype.
    """

    bound: float  # the distance at most; softmax and rounding together
    softmax: float  # what the other patterns weigh in exact arithmetic at the last step
    rounding: float  # what the dtype makes of it
    pattern: int
    radius: float  # of the queries that it is about
    steps: int  # of the retrieval

    def __repr__(self) -> str:
        parts = f"softmax {round_up(self.softmax)}, rounding {round_up(self.rounding)}"
        return f"Recall(bound {round_up(self.bound)}: {parts}; pattern {self.pattern}, radius {self.radius:g})"


@dataclass(frozen=True)
class Stored:
    """What a memory holds. values: None where the patterns are the values."""

    patterns: Floats  # (N, dim)
    values: Floats | None  # (N, size of a value)
    beta: float
    dtype: str


def recall_bound(stored: Stored, radius: float, steps: int, pattern: int | None) -> Recall:
    """The worst of the patterns, or one of them."""
    N = len(stored.patterns)
    with working_precision():
        if not (2 * N + 6) * UNIT[stored.dtype] < arb(0.5):
            raise ToleranceError(f"nothing can be proven about sums of {N:,} terms in {stored.dtype}; use float64")
        keys = _Table(stored.patterns)
        values = keys if stored.values is None else _Table(stored.values)
        asked = range(N) if pattern is None else (pattern,)
        found = [_one(stored, keys, values, i, radius, steps) for i in asked]
    return max(found, key=lambda recall: recall.bound)


class _Table:
    """Products of the rows with each other, as balls."""

    def __init__(self, rows: Floats) -> None:
        self.rows = rows
        self.columns = arb_mat(rows.T.tolist())
        self.squares = [sum((arb(x) * arb(x) for x in row), arb(0)) for row in rows.tolist()]
        self.longest = largest(self.squares).sqrt().upper()

    def products(self, i: int) -> list[arb]:
        """x_i . x_j for all j."""
        return list((arb_mat([self.rows[i].tolist()]) * self.columns).entries())

    def distances(self, i: int) -> list[arb]:
        """|x_i - x_j| for all j, rounded up."""
        products = self.products(i)
        squares = (self.squares[i] + other - 2 * p for other, p in zip(self.squares, products, strict=True))
        return [square.nonnegative_part().sqrt().upper() for square in squares]


def _one(stored: Stored, keys: _Table, values: _Table, i: int, radius: float, steps: int) -> Recall:
    reach = arb(radius)
    for _ in range(steps - 1):
        exact, rounding = _terms(stored, keys, keys, i, reach)
        reach = (exact + rounding).upper()
    exact, rounding = _terms(stored, keys, values, i, reach)
    return Recall(_up(exact + rounding), _up(exact), _up(rounding), i, radius, steps)


def _terms(stored: Stored, keys: _Table, values: _Table, i: int, reach: arb) -> tuple[arb, arb]:
    """What one step can be off by: in exact arithmetic, and by rounding."""
    _fits(stored, keys, values, i, reach)
    products, apart, away = keys.products(i), keys.distances(i), values.distances(i)
    others = [j for j in range(len(products)) if j != i]
    leads = [arb(stored.beta) * (keys.squares[i] - products[j] - reach * apart[j]) for j in others]
    d, off = [away[j] for j in others], _logarithms_off(stored, keys, i, reach)
    exact = _others_move(leads, d)
    by_spread = 2 * values.longest * (off / 2).tanh()
    by_leads = _others_move([lead - 2 * off for lead in leads], d) - exact
    return exact, (by_spread.min(by_leads) + _sums(stored, values)).upper()


def _fits(stored: Stored, keys: _Table, values: _Table, i: int, reach: arb) -> None:
    """Queries, scores and results stay far from overflow: an infinite score makes every weight NaN."""
    query = keys.squares[i].sqrt() + reach
    for size in (query, stored.beta * query, stored.beta * query * keys.longest, values.longest):
        if not 2 * size < LARGEST[stored.dtype]:
            raise ToleranceError(
                f"a query near pattern {i}, its scores or its result may be as large as {float(size):.3g}, which may"
                f" overflow {stored.dtype}: scale the patterns down, take a smaller radius, or use float64"
            )


def _others_move(leads: list[arb], d: list[arb]) -> arb:
    """How far the other patterns, by how much less they lead and how far away their values are, move the result."""
    if not leads:
        return arb(0)
    q, top = [(-lead).exp().upper() for lead in leads], largest(d)
    candidate = (_best_of_prefixes(q, d) * _ROOM).upper()
    excess = sum((qj * (dj - candidate).nonnegative_part() for qj, dj in zip(q, d, strict=True)), arb(0))
    return candidate if candidate < top and excess <= candidate else top


def _best_of_prefixes(q: list[arb], d: list[arb]) -> arb:
    """The largest sum q_j d_j / (1 + sum q_j) over the patterns that are farther away than some distance."""
    weighted, total, best = arb(0), arb(1), arb(0)
    for j in sorted(range(len(d)), key=lambda j: -float(d[j])):
        weighted, total = weighted + q[j] * d[j], total + q[j]
        best = best.max(weighted / total)
    return best.upper()


def _logarithms_off(stored: Stored, keys: _Table, i: int, reach: arb) -> arb:
    """How far the logarithm of a weight, before they are normalised, can be from that of the exact one."""
    u, dim = UNIT[stored.dtype], keys.rows.shape[1]
    gamma = (dim + 4) * u / (1 - (dim + 4) * u)
    steepest = arb(stored.beta) * (keys.squares[i].sqrt() + reach) * keys.longest  # of all scores, in size
    score = gamma * steepest + (dim + 1) * SMALLEST[stored.dtype] * (2 + keys.longest)
    off = score + u * (1 + u) * (2 * steepest + 2 * score) + exp_error(stored.dtype)
    return off.upper()


def _sums(stored: Stored, values: _Table) -> arb:
    """What the sums, the division and numbers below the normal range lose."""
    u, tiny, (N, size) = UNIT[stored.dtype], SMALLEST[stored.dtype], values.rows.shape
    share = (2 * N + 6) * u
    below = 8 * N * tiny * values.longest + (4 * N + 10) * tiny * (1 + values.longest) * arb(size).sqrt()
    return values.longest * share / (1 - share) + below


def _up(number: arb) -> float:
    """A float that is not below."""
    return float(np.nextafter(float(number.upper()), math.inf))
