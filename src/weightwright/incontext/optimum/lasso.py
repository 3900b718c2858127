"""The optimum of least squares with an l1 penalty, in balls: the right support and signs, then a linear system.

The support is looked for by an active-set method from the given coefficients, as Lawson and Hanson's for nonnegative
least squares: on a support with signs the optimum solves a linear system; a sign that would change is stopped at zero
and leaves the support; the steepest slope above l1 joins it. That the end is the optimum is proven in balls from the
end alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from flint import arb, arb_mat

from weightwright.enclosures.balls.linear_algebra import Balls, box_around, inverse, length, product, solve
from weightwright.incontext.optimum.least_squares import normal_equations
from weightwright.incontext.problem.problem import Problem, shortest_subgradient

#: The most changes of the support in the search for it: per penalised number, and in any case.
MOST_CHANGES = (4, 20)


@dataclass(frozen=True)
class Quadratic:
    """v^T G v / 2 - b.v + sum of l1_r |v_r|. Numbers without an l1 penalty, as the intercept, are always in
    the support."""

    G: arb_mat
    b: Balls
    l1: Balls

    @cached_property
    def penalised(self) -> list[int]:
        return [j for j, size in enumerate(self.l1) if size != 0]

    @cached_property
    def free(self) -> list[int]:
        return [j for j, size in enumerate(self.l1) if size == 0]

    def slopes(self, v: Balls) -> Balls:
        return [g - b for g, b in zip(product(self.G, v), self.b, strict=True)]

    def on(self, signs: dict[int, int]) -> Balls | None:
        """The optimum among those with this support, if the signs are kept."""
        used = [*sorted(signs), *self.free]
        if not used:
            return [arb(0)] * len(self.b)
        rows = self.G.table()
        reduced = arb_mat([[rows[i][j] for j in used] for i in used])
        found = solve(reduced, [self.b[j] - self.l1[j] * signs.get(j, 0) for j in used])
        if found is None:
            return None
        whole = [arb(0)] * len(self.b)
        for j, entry in zip(used, found, strict=True):
            whole[j] = entry
        return whole


def enclose_sparse(problem: Problem, start: Balls) -> Balls | None:
    """The optimum of the squared loss with an l1 penalty; None if it cannot be proven with these bits."""
    quadratic = Quadratic(*normal_equations(problem), problem.l1_balls())
    nowhere = [arb(0)] * problem.size
    for first in (start, nowhere):
        reached = _active_set(quadratic, first)
        if reached is None:
            continue
        signs, found = reached
        proven = found if _is_optimal(quadratic, signs, found) else box_from_subgradient(quadratic, found)
        if proven is not None:
            return proven
    return None


def _active_set(quadratic: Quadratic, start: Balls) -> tuple[dict[int, int], Balls] | None:
    """Signs of a support and the optimum there, likely that of all. They are decided by midpoints: nothing is
    proven here. None where the first systems are singular."""
    at, signs = list(start), {j: _sign(start[j]) for j in quadratic.penalised if start[j] != 0}
    reached, joined = None, None
    for _ in range(max(MOST_CHANGES[0] * len(quadratic.penalised), MOST_CHANGES[1])):
        aim = quadratic.on(signs)
        if aim is None:
            return reached
        crossing = [j for j, sign in signs.items() if not sign * aim[j].mid() > 0]
        if crossing:  # go as far as all signs are kept
            shares = {j: (at[j] / (at[j] - aim[j])).mid() if at[j] != 0 else arb(0) for j in crossing}
            first = min(crossing, key=lambda j: float(shares[j]))
            if first == joined:  # its slope is l1 within rounding: it may stay outside
                return reached
            at = [(a + shares[first] * (b - a)).mid() for a, b in zip(at, aim, strict=True)]
            at[first], joined = arb(0), None
            del signs[first]
            continue
        reached, at = (dict(signs), aim), [entry.mid() for entry in aim]
        slopes = quadratic.slopes(at)
        excess = {j: abs(slopes[j]).mid() - quadratic.l1[j] for j in quadratic.penalised if j not in signs}
        joined = max(excess, key=lambda j: float(excess[j]), default=None)
        if joined is None or not excess[joined] > 0:
            break
        signs[joined] = -_sign(slopes[joined])
    return reached


def _is_optimal(quadratic: Quadratic, signs: dict[int, int], found: Balls) -> bool:
    """Strictly: the signs are right and all other slopes are below l1. Then there is no other optimum.

    (Any optimum has the same slopes, so the same support or less, where G is nonsingular.)
    """
    slopes = quadratic.slopes(found)
    return all(signs[j] * found[j] > 0 if j in signs else abs(slopes[j]) < quadratic.l1[j] for j in quadratic.penalised)


def box_from_subgradient(quadratic: Quadratic, found: Balls) -> Balls | None:
    """The optimum v* from a point v that need not be it: with a subgradient r at v, r.(v - v*) >= |v - v*|_G^2, so
    |v - v*|_G <= |r|_{G^-1}. None where G is not proven to be nonsingular."""
    inverted = inverse(quadratic.G)
    if inverted is None:
        return None
    v = [entry.mid() for entry in found]
    r = shortest_subgradient(quadratic.slopes(v), v, quadratic.l1)
    return box_around(v, inverted, length(r, inverted))


def _sign(x: arb) -> int:
    return 1 if x.mid() > 0 else -1
