"""How convex a problem is around a point: curvatures of all samples at once, and the Hessian's eigenvalues."""

from __future__ import annotations

import functools

import numpy as np
from flint import arb

from weightwright.enclosures.balls.linear_algebra import Balls, float_above, float_below
from weightwright.enclosures.balls.spectrum import largest_eigenvalue, smallest_eigenvalue
from weightwright.enclosures.intervals.intervals import ONE, ZERO, Interval
from weightwright.enclosures.intervals.jets import Jet, jet_along
from weightwright.errors import FormulaError
from weightwright.incontext.problem.loss import Loss
from weightwright.incontext.problem.loss_kinks import has_jumps
from weightwright.incontext.problem.problem import Problem
from weightwright.numbers import Floats

#: Numbers of parts that an interval is cut into, one after the other, until lower and upper bounds of the
#: curvature differ by at most the share NARROW of the upper one.
PARTS, NARROW = (1, 16, 128), 0.01
#: Where the bounds of a sample's curvature differ by more than this share of the upper one, bounds for all
#: samples together are looked up, which takes longer.
WIDE = 0.5


def curvatures(problem: Problem, w: Balls, radius: float) -> tuple[Floats, Floats]:
    """Lower and upper bounds of every sample's l'' for all weights within the radius of w; infinite if unknown.

    They come from the slope's derivative in interval arithmetic, which at a kink holds those of both sides.
    """
    lo, hi = argument_ranges(problem, w, radius)
    with np.errstate(all="ignore"):  # what overflows is infinite or NaN, and then unknown
        for parts in PARTS:
            least, most = _enclosed(problem, lo, hi, parts)
            if (most - least <= NARROW * np.abs(most)).all():
                break
    unknown = np.isnan(least) | np.isnan(most)
    least, most = np.where(unknown, -np.inf, least), np.where(unknown, np.inf, most)
    smooth = problem.loss.form in ("residual", "margin") and not has_jumps(problem.loss.slope_expression)
    if smooth and np.isfinite(lo).all() and np.isfinite(hi).all():
        least, most = _at_most_anywhere(problem.loss, float(lo.min()), float(hi.max()), least, most)
    return (np.maximum(least, 0.0) if problem.loss.convex else least), most


def _at_most_anywhere(loss: Loss, lo: float, hi: float, least: Floats, most: Floats) -> tuple[Floats, Floats]:
    """The bounds, none outside what holds on [lo, hi]: there cuts are where they are needed, so wide ranges are sharp.

    Looked up only where a sample's own bounds differ much, since it takes longer.
    """
    if (most - least <= WIDE * np.abs(most)).all():
        return least, most
    try:
        lowest, highest = _anywhere(loss, lo, hi)
    except FormulaError:
        return least, most
    return np.maximum(least, lowest), np.minimum(most, highest)


@functools.lru_cache(maxsize=64)
def _anywhere(loss: Loss, lo: float, hi: float) -> tuple[float, float]:
    return loss.curvature_bounds(lo, hi)


def argument_ranges(problem: Problem, w: Balls, radius: float) -> tuple[Floats, Floats]:
    """Floats between which every sample's argument (residual, margin or w.x) lies for weights within the radius."""
    arguments = problem.arguments(w)["x"]
    reach = [arb(radius) * length for length in problem.row_lengths]
    lo = [float_below(x - r) for x, r in zip(arguments, reach, strict=True)]
    hi = [float_above(x + r) for x, r in zip(arguments, reach, strict=True)]
    return np.array(lo), np.array(hi)


def _enclosed(problem: Problem, lo: Floats, hi: Floats, parts: int) -> tuple[Floats, Floats]:
    shares = np.arange(parts + 1) / parts
    cuts = np.clip(lo + shares[:, None] * (hi - lo), lo, hi)  # (parts + 1, n)
    cuts[-1] = hi
    box, middle = Interval(cuts[:-1], cuts[1:]), Interval.exact(cuts[:-1] / 2 + cuts[1:] / 2)
    on_box, at_middle = (_slope_jet(problem, x, order) for x, order in ((box, 2), (middle, 1)))
    # by the mean value theorem; NaN, and then not used, where a kink may lie in the box
    centred = at_middle[1] + Interval.exact(2.0) * on_box[2] * (box - middle)
    shape = (parts, problem.n)
    least, centred_least = np.broadcast_to(on_box[1].lo, shape), np.broadcast_to(centred.lo, shape)
    most, centred_most = np.broadcast_to(on_box[1].hi, shape), np.broadcast_to(centred.hi, shape)
    least = np.where(centred_least > least, centred_least, least)
    most = np.where(centred_most < most, centred_most, most)
    return least.min(axis=0), most.max(axis=0)


def _slope_jet(problem: Problem, x: Interval, order: int) -> Jet:
    along = {"x": ONE, "y": ZERO}
    return jet_along(problem.loss.slope_expression, {"x": x, "y": Interval.exact(problem.y)}, along, order)


def strong_convexity(problem: Problem, w: Balls, radius: float) -> float:
    """mu: the smooth part is mu-strongly convex within the radius of w; 0 if nothing positive can be proven."""
    least, _ = curvatures(problem, w, radius)
    if not np.isfinite(least).all():
        return 0.0
    return smallest_eigenvalue(problem.gram(_weighted(problem, least)))


def smoothness(problem: Problem, w: Balls, radius: float) -> float:
    """L_f: no slope of the gradient within the radius of w is above; infinite if nothing can be proven."""
    least, most = curvatures(problem, w, radius)
    sizes = np.maximum(np.abs(least), np.abs(most))
    if not np.isfinite(sizes).all():
        return float("inf")
    return largest_eigenvalue(problem.gram(_weighted(problem, sizes)))


def _weighted(problem: Problem, curvature: Floats) -> Balls:
    return [c * arb(float(k)) for c, k in zip(problem.sample_weights(), curvature, strict=True)]
