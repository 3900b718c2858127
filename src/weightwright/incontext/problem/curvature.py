"""Proven bounds of a loss's second derivative on an interval, kinks of the slope included.

Where a kink (of abs, relu, max, ...) may lie in a ball, the function is at every point of it one of the two smooth
branches. A loss with a continuous slope then has a slope whose rise lies between the least and the largest second
derivative of the branches, so all of them are looked at. Wide intervals are cut until the bound is sharp.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from itertools import count

from flint import arb, arb_series, ctx, fmpq

from weightwright.enclosures.balls.linear_algebra import float_above, float_below
from weightwright.enclosures.balls.series import apply, largest, smallest, working_precision
from weightwright.expressions import Expression, Number, Variable, fold

#: A bound is sharp when it is above a value that is taken by at most this share of it.
SHARP = 2.0**-7
#: The most pieces that an interval is cut into for a sharp bound.
MOST_PIECES = 512
#: The most branches of a function in one ball; with more nothing is known of it.
MOST_BRANCHES = 64
_KINKED = ("abs", "relu", "sign", "step", "max", "min", "clip")


def curvature_bounds(
    expression: Expression, lo: float, hi: float, fixed: Mapping[str, float] | None = None
) -> tuple[float, float]:
    """Floats below and above every second derivative in x on [lo, hi]; an infinite one where nothing is known.

    fixed: the values of the other variables.
    """
    with working_precision():
        others = {name: arb(value) for name, value in (fixed or {}).items()}
        least, most = (_extreme(expression, lo, hi, others, side) for side in (-1, 1))
        return -least, most


def is_defined(expression: Expression, lo: float, hi: float, fixed: Mapping[str, float] | None = None) -> bool:
    """Whether the expression is certainly finite on all of [lo, hi]."""
    with working_precision():
        others = {name: arb(value) for name, value in (fixed or {}).items()}
        pieces, width = [(lo, hi)], hi - lo
        while pieces:
            a, b = pieces.pop()
            if all(branch[0].is_finite() for branch in branches(expression, _between(a, b), others, 0)):
                continue
            if b - a <= width / MOST_PIECES or not a < (a + b) / 2 < b:
                return False
            pieces += [(a, (a + b) / 2), ((a + b) / 2, b)]
        return True


def branches(expression: Expression, x: arb, others: Mapping[str, arb], order: int) -> list[list[arb]]:
    """Taylor coefficients 0..order in x of every branch that may be the function somewhere in the ball."""
    found: list[list[arb]] = []
    waiting: list[list[int]] = [[]]
    while waiting:
        if len(found) == MOST_BRANCHES:
            return [[arb.nan()] * (order + 1)]
        start = waiting.pop()
        choices = _Choices(start)
        found.append(_on_branch(expression, x, others, order, choices))
        waiting += [[*choices.taken[:k], 1] for k in range(len(start), len(choices.taken))]
    return found


def is_smooth(expression: Expression, x: arb) -> bool | None:
    """Whether no kink may lie in the ball; None where the function may be undefined in it."""
    choices = _Choices([])
    value = _on_branch(expression, x, {}, 0, choices)[0]
    if choices.taken:
        return False
    return True if value.is_finite() else None


class _Choices:
    """Which side of every open kink is taken: those at the start as told, the others the first."""

    def __init__(self, start: list[int]) -> None:
        self.start, self.taken = start, list[int]()

    def larger(self, a: arb_series, b: arb_series) -> arb_series:
        """One branch of max(a, b)."""
        if a[0] > b[0]:
            return a
        if a[0] < b[0]:
            return b
        self.taken.append(self.start[len(self.taken)] if len(self.taken) < len(self.start) else 0)
        return b if self.taken[-1] else a

    def apply(self, op: str, args: Sequence[arb_series]) -> arb_series:
        if op not in _KINKED or any(not arg[0].is_finite() for arg in args):
            return apply(op, args)
        a = args[0]
        if op == "abs":
            return self.larger(a, -a)
        if op == "relu":
            return self.larger(a, arb_series([0]))
        if op == "max":
            return self.larger(a, args[1])
        if op == "min":
            return -self.larger(-a, -args[1])
        if op == "clip":
            return -self.larger(-self.larger(a, args[1]), -args[2])
        above = self.larger(a, -a) is a  # sign and step
        return arb_series([1 if above else (-1 if op == "sign" else 0)])


def _on_branch(expression: Expression, x: arb, others: Mapping[str, arb], order: int, choices: _Choices) -> list[arb]:
    def leaf(node: Number | Variable) -> arb_series:
        if isinstance(node, Variable):
            return arb_series([others[node.name]]) if node.name in others else arb_series([x, arb(1)])
        return arb_series([arb(fmpq(node.value.numerator, node.value.denominator))])

    ctx.cap = order + 1
    result = fold(expression, leaf, choices.apply)
    return [result[i] if i < result.prec else arb.nan() for i in range(order + 1)]


def _between(lo: float, hi: float) -> arb:
    return arb(lo).union(arb(hi))


def _most(expression: Expression, lo: float, hi: float, others: Mapping[str, arb], side: int) -> float:
    """A float above side times every second derivative on [lo, hi]."""
    x, middle = _between(lo, hi), arb(lo / 2 + hi / 2)
    found = branches(expression, x, others, 3)
    bound = _largest([side * 2 * branch[2] for branch in found])
    if len(found) == 1 and found[0][3].is_finite():  # by the mean value theorem, on the one smooth branch
        centre = branches(expression, middle, others, 2)
        bound = min(bound, _largest([side * (2 * branch[2] + 6 * found[0][3] * (x - middle)) for branch in centre]))
    return bound


def _taken(expression: Expression, at: float, others: Mapping[str, arb], side: int) -> float:
    """A float below side times the second derivative at a point."""
    values = [side * 2 * branch[2] for branch in branches(expression, arb(at), others, 2)]
    return float_below(smallest(values)) if all(value.is_finite() for value in values) else -math.inf


def _largest(values: list[arb]) -> float:
    return float_above(largest(values)) if all(value.is_finite() for value in values) else math.inf


def _extreme(expression: Expression, lo: float, hi: float, others: Mapping[str, arb], side: int) -> float:
    """A float above side times every second derivative on [lo, hi]: the piece with the largest bound is cut first."""
    number, reached = count(), -math.inf
    pieces: list[tuple[float, int, float, float]] = []

    def look(a: float, b: float) -> None:
        nonlocal reached
        heapq.heappush(pieces, (-_most(expression, a, b, others, side), next(number), a, b))
        reached = max(reached, _taken(expression, a / 2 + b / 2, others, side))

    look(lo, hi)
    for _ in range(MOST_PIECES):
        bound, _, a, b = pieces[0]
        middle = a / 2 + b / 2
        if -bound <= reached + SHARP * abs(reached) or not a < middle < b:
            break
        heapq.heappop(pieces)
        look(a, middle)
        look(middle, b)
    return -pieces[0][0]
