"""How convex a problem is around a point: curvatures of all samples at once, and the Hessian's eigenvalues."""

from __future__ import annotations

import numpy as np
from flint import arb

from weightwright.certificates.prover.intervals import ZERO, Interval
from weightwright.certificates.prover.jets import jet_along
from weightwright.incontext.arithmetic import Balls, float_above, float_below
from weightwright.incontext.problem import Problem
from weightwright.incontext.spectrum import largest_eigenvalue, smallest_eigenvalue, weighted_gram
from weightwright.network.layers import Floats

#: An interval is cut into so many parts until lower and upper bounds agree to NARROW.
PARTS, NARROW = (1, 16, 128), 0.01


def curvatures(problem: Problem, w: Balls, radius: float) -> tuple[Floats, Floats]:
    """Lower and upper bounds of every sample's l'' for all weights within the radius of w; infinite if unknown.

    They come from the slope's derivative in interval arithmetic, which at a kink holds those of both sides.
    """
    lo, hi = argument_ranges(problem, w, radius)
    for parts in PARTS:
        least, most = _enclosed(problem, lo, hi, parts)
        if (most - least <= NARROW * np.abs(most)).all():
            break
    unknown = np.isnan(least) | np.isnan(most)
    least, most = np.where(unknown, -np.inf, least), np.where(unknown, np.inf, most)
    return (np.maximum(least, 0.0) if problem.loss.convex else least), most


def argument_ranges(problem: Problem, w: Balls, radius: float) -> tuple[Floats, Floats]:
    """Floats between which every sample's argument (residual, margin or w.x) lies for weights within the radius."""
    arguments = problem.arguments(w)["x"]
    reach = [arb(radius) * length for length in problem.row_lengths]
    lo = [float_below(x - r) for x, r in zip(arguments, reach, strict=True)]
    hi = [float_above(x + r) for x, r in zip(arguments, reach, strict=True)]
    return np.array(lo), np.array(hi)


def _enclosed(problem: Problem, lo: Floats, hi: Floats, parts: int) -> tuple[Floats, Floats]:
    shares = np.arange(parts + 1) / parts
    with np.errstate(all="ignore"):
        cuts = np.clip(lo + shares[:, None] * (hi - lo), lo, hi)  # (parts + 1, n)
    cuts[-1] = hi
    place = {"x": Interval(cuts[:-1], cuts[1:]), "y": Interval.exact(problem.y)}
    slope = jet_along(problem.loss.slope_expression, place, {"x": Interval.exact(1.0), "y": ZERO}, 1)[1]
    shape = (parts, problem.n)
    least, most = np.broadcast_to(slope.lo, shape), np.broadcast_to(slope.hi, shape)
    return least.min(axis=0), most.max(axis=0)


def strong_convexity(problem: Problem, w: Balls, radius: float) -> float:
    """mu: the smooth part is mu-strongly convex within the radius of w; 0 if nothing positive can be proven."""
    least, _ = curvatures(problem, w, radius)
    if not np.isfinite(least).all():
        return 0.0
    return smallest_eigenvalue(weighted_gram(problem.rows, _weighted(problem, least), problem.ridge))


def smoothness(problem: Problem, w: Balls, radius: float) -> float:
    """L_f: no slope of the gradient within the radius of w is above; infinite if nothing can be proven."""
    least, most = curvatures(problem, w, radius)
    sizes = np.maximum(np.abs(least), np.abs(most))
    if not np.isfinite(sizes).all():
        return float("inf")
    return largest_eigenvalue(weighted_gram(problem.rows, _weighted(problem, sizes), problem.ridge))


def _weighted(problem: Problem, curvature: Floats) -> Balls:
    return [c * arb(float(k)) for c, k in zip(problem.sample_weights(), curvature, strict=True)]
