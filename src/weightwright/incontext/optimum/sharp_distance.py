"""How far coefficients are from the optimum of scikit-learn's objective on exactly the data given: proven, and sharp.

The optimum itself is enclosed in balls, in as many bits as it takes; the bound is the distance to the far side of the
enclosure. So it does not matter how the coefficients were computed, nor in which coordinates, nor how badly the data
are scaled, and the bound is hardly above the true distance.
"""

from __future__ import annotations

import math

import numpy as np
from flint import arb, ctx

from weightwright.enclosures.balls.linear_algebra import Balls, balls, float_above
from weightwright.enclosures.balls.series import working_precision
from weightwright.incontext.errors.distance import Distance
from weightwright.incontext.optimum.enclosure import (
    BITS,
    Enclosure,
    Method,
    far_side,
    fitted_numbers,
    nowhere,
    sharpest,
)
from weightwright.incontext.optimum.huber_optimum import HuberDistance, huber_distance
from weightwright.incontext.optimum.lasso import enclosed_sparse
from weightwright.incontext.optimum.least_squares import enclosed_least_squares
from weightwright.incontext.optimum.multinomial_optimum import multinomial_distance
from weightwright.incontext.optimum.newton import enclosed_minimum
from weightwright.incontext.optimum.objective import Objective
from weightwright.incontext.optimum.smooth import SmoothLandscape
from weightwright.incontext.problem.loss_kinks import has_jumps
from weightwright.numbers import Floats

__all__ = ["HuberDistance", "Objective", "distance", "huber_distance", "multinomial_distance"]

#: From this condition number on it is said that X has full rank by the rounding of its entries only.
NEARLY_DEPENDENT = 1e13


def distance(objective: Objective, coef: Floats, intercept: float = 0.0) -> Distance:
    """An upper bound of |(coef, intercept) - optimum|_2, of coef alone without an intercept; infinite, and why, where
    none can be proven.

    Where least squares has many optima, it is the one with the smallest |w|, as scikit-learn's LinearRegression has it.
    Of the other fields only `gradient` is used: the length of the shortest subgradient at the given coefficients.

    >>> from weightwright.incontext import loss
    >>> line = Objective([[0.0], [1.0], [2.0]], [1.0, 3.0, 5.0], loss("squared"), [1.0, 1.0, 1.0])
    >>> round(distance(line, [2.0], 1.25).bound, 12)
    0.25
    """
    numbers = [fitted_numbers("coef", coef, (objective.d,)), fitted_numbers("intercept", intercept, ())]
    given = np.concatenate(numbers)[: objective.size]
    if not np.isfinite(given).all():
        return nowhere("the coefficients are not finite")
    refusal = _refusal(objective)
    if refusal:
        return nowhere(refusal)
    found = sharpest(_method(objective), given, objective.size)
    with working_precision(BITS[0]):
        gradient = float_above(objective.subgradient_length(balls(given)))
    if found.box is None:
        return nowhere(found.why, gradient)
    return Distance(far_side(given, found.box), 0.0, 0.0, gradient, math.inf, found.why)


def _refusal(objective: Objective) -> str:
    """Why nothing can be said, before anything is computed."""
    name = objective.loss.name
    if not len(objective.counted):
        return "all weights are zero; give one sample a weight"
    if not objective.loss.convex:
        return f"the loss {name} is not known to be convex, so a better optimum may lie elsewhere"
    if objective.l1 and not objective.loss.is_quadratic:
        return f"with an l1 penalty only the squared loss can be enclosed, not {name}; take a ridge penalty"
    return f"the slope of {name} is written with jumps; smooth it" if has_jumps(objective.loss.slope_expression) else ""


def _method(objective: Objective) -> Method:
    if objective.l1:
        return lambda start, is_sharp: _sparse(objective, start)
    if objective.loss.is_quadratic:
        return lambda start, is_sharp: _least_squares(objective)
    landscape, zero = SmoothLandscape(objective), [arb(0)] * objective.size
    return lambda start, is_sharp: enclosed_minimum(landscape, (start, zero), is_sharp)


def _sparse(objective: Objective, start: Balls) -> Enclosure:
    box = enclosed_sparse(objective, start)
    if box is not None:
        return Enclosure(box, "support and signs of the optimum are known, and it was computed in balls")
    why = "no support with its signs could be verified: the optimum may not be unique; add a ridge penalty"
    return Enclosure(None, why, hopeless=ctx.prec > BITS[0])  # a singular system stays singular


def _least_squares(objective: Objective) -> Enclosure:
    box, rank = enclosed_least_squares(objective)
    if box is None:
        return Enclosure(None, "the normal equations are singular within the bits that are tried; add a ridge penalty")
    which = "" if rank == objective.d else f" with the smallest |w| ({rank} of {objective.d} columns are independent)"
    return Enclosure(box, f"the optimum{which} was computed in balls" + _caution(objective, rank))


def _caution(objective: Objective, rank: int) -> str:
    """Columns that are dependent up to rounding only are independent; people should know where the optimum then is."""
    if objective.ridge or not rank:
        return ""
    X = objective.X[objective.counted]
    shifted = X - X.mean(axis=0) if objective.intercept else X
    lengths = np.linalg.norm(shifted, axis=0)
    spread = np.linalg.svd(shifted / np.where(lengths > 0, lengths, 1.0), compute_uv=False)
    if spread[rank - 1] * NEARLY_DEPENDENT > spread[0]:
        return ""
    return (
        "; but for rounding of their entries more columns of X are dependent, so this optimum may be far from what is"
        " meant: drop columns or add a ridge penalty"
    )
