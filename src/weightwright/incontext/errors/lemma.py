"""The lemma on composed steps (the source's Lemma D.4): errors of single steps add up, and no more.

If F is convex and L_f-smooth on the ball of radius R, eta <= 2/L_f, w_0 = 0, R >= 2 |w*|, and every step is off by at
most eps in the Euclidean norm, then after t <= T <= R/(2 eps) steps the weights are within t eps of exact gradient
descent. For x -> x - eta grad F(x) is nonexpansive there and leaves w* in its place, and so does a soft threshold after
it: exact descent stays within |w*| of w*, and the steps within |w*| + t eps.

Every condition is checked in balls. Three things are stricter than the source: its step error is in the largest norm,
and has to be multiplied by sqrt(d); the steps stay in the ball of radius 2 |w*| + T eps only, which may be larger than
its R (here R is at least 2 |w*| + 2 T eps, which satisfies everything, and T eps is at most |w*|, as with R = 2 |w*|:
a bound above |w*| would say nothing); and every token holds weights of its own, which
sums that round differently may drive apart, so that a step is not quite that of one w.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from flint import arb

from weightwright.enclosures.balls.linear_algebra import Balls, balls, evaluate, float_above, float_below, norm
from weightwright.enclosures.balls.series import largest, working_precision
from weightwright.incontext.errors.convexity import curvatures, smoothness
from weightwright.incontext.errors.distance import BITS, to_optimum
from weightwright.incontext.problem.method import Method
from weightwright.incontext.problem.problem import Problem
from weightwright.numbers import Floats

#: The length of w up to which a step is stable, unless another radius is asked for.
USUAL_RADIUS = 1024.0
#: R has room for this many times the error that was counted when it was chosen.
ROOM = 1.25


@dataclass(frozen=True)
class Composed:
    """What the errors of single steps add up to."""

    bounds: tuple[float, ...] | None  # after t = 0..steps steps, in the Euclidean norm; None where a condition failed
    failed: str | None  # the condition that did, in words
    step_error: float  # of one step, with everything that counts
    radius: float  # of the ball that all states stay in


def composed_error(
    problem: Problem, method: Method, step: float, step_bound: float, steps: int, near: Floats, apart: float = 0.0
) -> Composed:
    """Bounds of the distance to exact gradient descent (or proximal descent, with l1) with this step from w_0
    = 0, and of that to the same steps with the method's floats.

    step: its size.
    steps: how many.
    step_bound: what is proven of one pass, in the largest norm, against the exact pass with the method's
    floats. Those floats (step times weight times x, rounded) are not exactly a gradient's; what that makes is
    added. (It is linear in how far w can be, so it covers what they do to a distance of two sequences, too.)
    near: weights near the optimum, from which |w*| is bounded.
    apart: how far the weights of other tokens are from those that the bounds are about, at most, at any step.
    """
    step = float(step)
    for name, number in (("step_bound", step_bound), ("apart", apart)):
        if not (math.isfinite(number) and number >= 0):
            raise ValueError(f"{name}={number!r}: a finite number that is not negative is needed")
    with working_precision(BITS):
        zero = [arb(0)] * problem.size
        refused = _other_method(problem, method)
        optimum = to_optimum(problem, near)
        if refused is None and math.isinf(optimum.bound):
            refused = f"|w*| has no bound: {optimum.why}"
        if refused is not None:
            return Composed(None, refused, math.inf, math.inf)
        size = norm(balls(near)) + arb(optimum.bound)
        eps = arb(problem.size).sqrt() * arb(step_bound)
        R, total = 2 * float_above(size), eps
        for _ in range(2):  # the floats' part depends on R, and R on the error of T steps
            R = float_above(2 * size + 2 * ROOM * steps * total + arb(apart))
            total = eps + _data_rounding(problem, method, step, zero, R) + _apart(problem, method, zero, R, apart)
        e = float_above(total)
        failed = _failed(problem, step, size, arb(apart), steps * total, R, zero)
        bounds = tuple(float_above(t * arb(e)) for t in range(steps + 1)) if failed is None else None
        return Composed(bounds, failed, e, R)


def _other_method(problem: Problem, method: Method) -> str | None:
    mix = [[0, 1, 0, 0]] if problem.has_l1 else [[1, 0, 0, 0]]
    middle = "threshold" if problem.has_l1 else "none"
    only = method.passes[0]
    if len(method.passes) == 1 and only.method.tolist() == mix and only.middle == middle:
        return None
    return "the lemma is about plain gradient or proximal steps; this method has another form (momentum)"


def _failed(problem: Problem, step: float, size: arb, apart: arb, all_steps: arb, R: float, zero: Balls) -> str | None:
    """size: |w*| at most."""
    if not all_steps.is_finite():
        loss, ball = problem.loss.name, f"|w| <= 2 |w*|, which is at most {2 * float_above(size):.3g}"
        return f"smoothness: no bound of the curvature of the loss {loss} is known for {ball}"
    if not all_steps <= size:
        return (
            f"number of steps: their errors add up to {float_above(all_steps):.3g}, and |w*| is at most"
            f" {float_above(size):.3g}: with R = 2 |w*| there may be R/(2 eps) steps, and more say nothing"
        )
    least, most = curvatures(problem, zero, R)
    where = f"for |w| <= R = {R:.3g}"
    if not np.isfinite(np.maximum(np.abs(least), np.abs(most))).all():
        return f"smoothness: no bound of the curvature of the loss {problem.loss.name} is known {where}"
    if not (least >= 0).all():
        i = int(np.argmin(least))
        return f"convexity: the loss {problem.loss.name} may have a curvature of {least[i]:.3g} at sample {i} {where}"
    L = smoothness(problem, zero, R)
    if not arb(step) * arb(L) <= 2:
        return f"step size: eta = {step!r} is above 2/L_f = {_two_over(L):.6g} on |w| <= R = {R:.3g}"
    if not 2 * size + apart + 2 * all_steps <= arb(R):
        return f"number of steps: their errors add up to {float_above(all_steps):.3g} and leave the ball of R = {R:.3g}"
    return None


def _data_rounding(problem: Problem, method: Method, step: float, zero: Balls, R: float) -> arb:
    """How far the method's floats move one step from the exact gradient's, on |w| <= R: alpha, the u_i and tau."""
    eta = arb(step)
    slopes = evaluate(problem.loss.slope_expression, problem.arguments(zero))
    steepest = _steepest(problem, zero, R)
    alphas = balls(np.broadcast_to(method.passes[0].alpha, (problem.size,)))
    # what has a factor for every feature moves no point by more than its length times the largest of them
    factors = (alpha - (1 - eta * ridge) for alpha, ridge in zip(alphas, problem.ridge_balls(), strict=True))
    moved = arb(R) * largest(abs(factor) for factor in factors)
    for i, (c, slope) in enumerate(zip(problem.sample_weights(), slopes, strict=True)):
        row = balls(problem.rows[i])
        off = norm(u - eta * c * a for u, a in zip(balls(method.values[i]), row, strict=True))
        moved += off * (abs(slope) + steepest[i] * arb(R) * problem.row_lengths[i])
    if method.thresholds is not None:
        both = zip(balls(method.thresholds), problem.l1_balls(), strict=True)
        moved += norm(tau - eta * l1 for tau, l1 in both)
    return moved


def _apart(problem: Problem, method: Method, zero: Balls, R: float, apart: float) -> arb:
    """How far a step moves if every sample's slope is taken at weights that are so far from the others."""
    if not apart:
        return arb(0)
    lengths = [norm(balls(u)) for u in method.values]
    steepest = _steepest(problem, zero, R)
    parts = zip(lengths, steepest, problem.row_lengths, strict=True)
    return arb(apart) * sum((u * k * x for u, k, x in parts), arb(0))


def _steepest(problem: Problem, zero: Balls, R: float) -> Balls:
    """For every sample the largest |l''| on |w| <= R."""
    least, most = curvatures(problem, zero, R)
    return balls(np.maximum(np.abs(least), np.abs(most)))


def largest_stable_step(problem: Problem, radius: float = USUAL_RADIUS) -> float:
    """2/L_f on |w| <= radius, rounded down: with smaller steps gradient descent cannot diverge there."""
    with working_precision(BITS):
        L = smoothness(problem, [arb(0)] * problem.size, radius)
    if math.isinf(L):
        raise ValueError(
            f"radius={radius!r}: the curvature of {problem.loss.name} has no bound for |w| <= {radius:.6g}; give a"
            " smaller radius, or scale the data down"
        )
    return _two_over(L)


def require_stable(problem: Problem, step: float, radius: float = USUAL_RADIUS) -> None:
    """ValueError that names the largest stable step, if this one is larger."""
    step, stable = float(step), largest_stable_step(problem, radius)
    if not 0 < step <= stable:
        raise ValueError(
            f"step={step!r}: gradient descent on these data is stable for steps in (0, {stable:.6g}] only (2 over the"
            f" largest curvature, for |w| <= {radius:.6g}); a larger one may diverge. Take step={0.5 * stable:.6g}"
        )


def _two_over(L: float) -> float:
    """Rounded down; never below 0."""
    return max(float_below(2 / arb(L)), 0.0) if L > 0 else math.inf
