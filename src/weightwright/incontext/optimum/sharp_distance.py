"""How far coefficients are from the optimum of a problem on exactly the data given: proven, and sharp.

The optimum itself is enclosed in balls, in as many bits as it takes; the bound is the distance to the far
side of the enclosure. So it does not matter how the coefficients were computed, nor in which coordinates, nor
how badly the data are scaled, and the bound is hardly above the true distance.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from flint import arb, ctx

from weightwright.enclosures.balls.linear_algebra import Balls, balls, float_above, norm
from weightwright.enclosures.balls.series import working_precision
from weightwright.incontext.errors.distance import Distance, duality_gap
from weightwright.incontext.optimum.enclosure import (
    BITS,
    NO_WEIGHT,
    Enclosure,
    Method,
    enclose_sharply,
    far_side,
    nowhere,
    read_numbers,
)
from weightwright.incontext.optimum.huber_optimum import HuberDistance, huber_distance
from weightwright.incontext.optimum.lasso import enclose_sparse
from weightwright.incontext.optimum.least_squares import enclose_least_squares
from weightwright.incontext.optimum.multinomial_optimum import multinomial_distance
from weightwright.incontext.optimum.newton import enclose_minimum
from weightwright.incontext.optimum.smooth import SmoothLandscape
from weightwright.incontext.problem.loss_kinks import has_jumps
from weightwright.incontext.problem.problem import Problem, rational, shortest_subgradient
from weightwright.numbers import Floats

__all__ = ["HuberDistance", "distance", "gap_above", "huber_distance", "multinomial_distance"]

#: From this condition number on, people are told that the columns of X are independent through rounding only.
NEARLY_DEPENDENT = 1e13


def distance(problem: Problem, coef: Floats, intercept: float = 0.0) -> Distance:
    """An upper bound of |(coef, intercept) - optimum|_2, of coef alone without an intercept; infinite, and why, where
    none can be proven.

    Where least squares has many optima, it is the one with the smallest |w|, as scikit-learn's LinearRegression has it.
    Of the other fields only `gradient` is used: the length of the shortest subgradient at the given coefficients.

    >>> from weightwright.incontext import Problem, loss
    >>> line = Problem([[0.0], [1.0], [2.0]], [1.0, 3.0, 5.0], loss("squared"), intercept=True)
    >>> round(distance(line, [2.0], 1.25).bound, 12)
    0.25
    """
    numbers = [read_numbers("coef", coef, (problem.d,)), read_numbers("intercept", intercept, ())]
    given = np.concatenate(numbers)[: problem.size]
    if not np.isfinite(given).all():
        return nowhere("the coefficients are not finite")
    refusal = _refusal(problem)
    if refusal:
        return nowhere(refusal)
    problem = problem.without_idle_samples()
    found = enclose_sharply(_method(problem), given, problem.size)
    with working_precision(BITS[0]):
        v = balls(given)
        gradient = float_above(norm(shortest_subgradient(problem.gradient(v), v, problem.l1_balls())))
    if found.box is None:
        return nowhere(found.why, gradient)
    return Distance(far_side(given, found.box), 0.0, 0.0, gradient, math.inf, found.why)


def enclose_optimum(problem: Problem, near: Floats) -> Enclosure:
    """The optimum in balls, as narrow as the problem's own numbers are known; its box is None where nothing is proven.

    near: numbers to start from.
    """
    if refusal := _refusal(problem):
        return Enclosure(None, refusal)
    widths: list[float] = []

    def is_sharp(box: Balls) -> bool:
        """Whether one more step made it hardly narrower."""
        widths.append(float_above(norm(entry.rad() for entry in box)))
        return len(widths) > 1 and widths[-1] > widths[-2] / 2

    with working_precision(BITS[0]):
        return _method(problem.without_idle_samples())(balls(near), is_sharp)


def gap_above(problem: Problem, v: Floats, total: Fraction) -> float:
    """A float above (F(v) - min F) / total, by a dual point; infinite where none is found. v: all fitted numbers."""
    with working_precision(BITS[0]):
        gap = duality_gap(problem.without_idle_samples(), balls(v)).nonnegative_part() / rational(total)
        return float_above(gap) if gap.is_finite() else math.inf


def _refusal(problem: Problem) -> str:
    """Why nothing can be said, before anything is computed."""
    name = problem.loss.name
    if not problem.plain_weights.any():
        return NO_WEIGHT
    if not problem.loss.convex:
        return f"the loss {name} is not known to be convex, so a better optimum may lie elsewhere"
    if problem.has_l1 and not problem.loss.is_quadratic:
        return f"with an l1 penalty only the squared loss can be enclosed, not {name}; take a ridge penalty"
    return f"the slope of {name} is written with jumps; smooth it" if has_jumps(problem.loss.slope_expression) else ""


def _method(problem: Problem) -> Method:
    if problem.has_l1:
        return lambda start, is_sharp: _sparse(problem, start)
    if problem.loss.is_quadratic:
        return lambda start, is_sharp: _least_squares(problem)
    landscape, zero = SmoothLandscape(problem), [arb(0)] * problem.size
    return lambda start, is_sharp: enclose_minimum(landscape, (start, zero), is_sharp)


def _sparse(problem: Problem, start: Balls) -> Enclosure:
    box = enclose_sparse(problem, start)
    if box is not None:
        return Enclosure(box, "support and signs of the optimum are known, and it was computed in balls")
    why = "no support with its signs could be verified: the optimum may not be unique; add a ridge penalty"
    return Enclosure(None, why, hopeless=ctx.prec > BITS[0])  # a singular system stays singular


def _least_squares(problem: Problem) -> Enclosure:
    box, rank = enclose_least_squares(problem)
    if box is None:
        return Enclosure(None, "the normal equations are singular within the bits that are tried; add a ridge penalty")
    which = "" if rank == problem.d else f" with the smallest |w| ({rank} of {problem.d} columns are independent)"
    return Enclosure(box, f"the optimum{which} was computed in balls" + _caution(problem, rank))


def _caution(problem: Problem, rank: int) -> str:
    """Columns that are dependent up to rounding only are independent; people should know where the optimum then is."""
    if problem.has_ridge or not rank:
        return ""
    shifted = problem.X - problem.X.mean(axis=0) if problem.intercept else problem.X
    lengths = np.linalg.norm(shifted, axis=0)
    spread = np.linalg.svd(shifted / np.where(lengths > 0, lengths, 1.0), compute_uv=False)
    if spread[rank - 1] * NEARLY_DEPENDENT > spread[0]:
        return ""
    return (
        "; but for rounding of their entries more columns of X are dependent, so this optimum may be far from what is"
        " meant: drop columns or add a ridge penalty"
    )
