"""How far weights are from the exact iterates, and from the optimum. Every number is an upper bound, rounded up.

The bound to the optimum is found afterwards, from the weights alone: it does not matter how they were computed, nor how
many steps it took. If g is a subgradient of F at v, and F is mu-strongly convex within r of v, and |g| < mu r, then F
has a stationary point within r of v (on the sphere the slope outwards is at least mu r - |g| > 0, so the smallest value
on the ball is inside), and it lies within |g|/mu. For a convex loss that is the one optimum; for any other it is a
local one, and a better one may lie elsewhere.

The duality gap of a problem with penalties: an upper bound of F(w) - min F from a dual point.

F(w) = sum_i c_i phi_i(w.x_i) + Omega(w) with Omega(w) = sum_r (ridge_r/2 w_r^2 + l1_r |w_r|). For every u,

    F(w) - min F <= sum_i c_i (phi_i(m_i) + phi_i*(u_i)) + Omega(w) + Omega*(-g),    m_i = w.x_i, g = sum_i c_i u_i x_i,

where Omega*(v) is the sum of soft(v_r, l1_r)^2 / (2 ridge_r). Without a ridge penalty a summand is 0 where
|v_r| <= l1_r, and infinite elsewhere: u must be such that it is not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from flint import arb

from weightwright.enclosures.balls.linear_algebra import (
    Balls,
    balls,
    evaluate,
    float_above,
    float_below,
    matrix,
    norm,
    product,
    solve,
    weighted_rows,
)
from weightwright.enclosures.balls.series import largest, working_precision
from weightwright.incontext.errors.convexity import curvatures, smoothness, strong_convexity
from weightwright.incontext.problem.problem import Problem, soft_threshold
from weightwright.numbers import Floats


def duality_gap(problem: Problem, w: Balls) -> arb:
    """An upper bound of F(w) - min F from the slopes u = phi'(m); infinite where there is none.

    As phi(m) + phi*(phi'(m)) = m phi'(m), any convex loss has one if these slopes will do; if they have to be
    changed, the conjugate itself is needed, and the loss must be squared.
    """
    loss = problem.loss
    if not loss.convex:
        return arb.pos_inf()
    arguments, weights = problem.arguments(w), problem.sample_weights()
    slopes = evaluate(loss.slope_expression, arguments)
    ridges, l1s = problem.ridge_balls(), problem.l1_balls()
    own = sum((r / 2 * w_r * w_r + l1 * abs(w_r) for w_r, r, l1 in zip(w, ridges, l1s, strict=True)), arb(0))
    pulls = [g - ridge for g, ridge in zip(problem.gradient(w), problem.ridge_slopes(w), strict=True)]
    at_these = _conjugate(problem, pulls)
    if at_these.is_finite():
        offset = balls(problem.y) if loss.form == "residual" else [arb(0)] * problem.n
        parts = zip(weights, arguments["x"], offset, slopes, strict=True)
        return sum((c * (x + b) * u for c, x, b, u in parts), arb(0)) + own + at_these
    return own + _squared(problem, slopes, pulls) if loss.is_quadratic else arb.pos_inf()


def _squared(problem: Problem, slopes: Balls, pulls: Balls) -> arb:
    """The gap of the squared loss without Omega(w), from slopes that are made to fit: phi = u^2/2 at m, and
    phi*(v) = v^2/2 + v y.

    A feature without any penalty needs a pull of 0: the slopes' part along such features is taken away. What
    is left is scaled down until no feature with l1 alone is pulled by more.
    """
    free = np.flatnonzero((problem.ridges == 0) & (problem.l1s == 0))
    dual = slopes
    if len(free):
        projected = _without(problem, slopes, pulls, free)
        if projected is None:
            return arb.pos_inf()
        dual, pulls = projected
    scale, l1s = 1.0, problem.l1_balls()
    for r in np.flatnonzero((problem.ridges == 0) & (problem.l1s > 0)):
        if not abs(pulls[r]) <= l1s[r]:
            scale = min(scale, float_below(l1s[r] / abs(pulls[r])))
    met = zip(problem.sample_weights(), slopes, dual, balls(problem.y), strict=True)
    total = sum((c * (u * u / 2 + scale * v * (scale * v / 2 + y)) for c, u, v, y in met), arb(0))
    return total + _conjugate(problem, [scale * pull for pull in pulls])


def _without(problem: Problem, slopes: Balls, pulls: Balls, free: np.ndarray) -> tuple[Balls, Balls] | None:
    """Slopes less their part along these features, and what they pull: 0 there. None where the features are dependent.

    The part is X_f a with (X_f^T C X_f) a = X_f^T C u, the pulls of the features.
    """
    weights, columns = problem.sample_weights(), matrix(problem.rows[:, free])
    part = solve(columns.transpose() * weighted_rows(columns, weights), [pulls[r] for r in free])
    if part is None:
        return None
    dual = [u - along for u, along in zip(slopes, product(columns, part), strict=True)]
    moved = product(problem.transposed, [c * v for c, v in zip(weights, dual, strict=True)])
    return dual, [arb(0) if r in free else pull for r, pull in enumerate(moved)]


def _conjugate(problem: Problem, pulls: Balls) -> arb:
    """Omega*(-pulls); infinite where a feature without ridge may be pulled by more than its l1."""
    total = arb(0)
    ridges, l1s = problem.ridge_balls(), problem.l1_balls()
    for ridge, l1, pull, excess in zip(ridges, l1s, pulls, soft_threshold(pulls, l1s), strict=True):
        if ridge > 0:
            total += excess * excess / (2 * ridge)
        elif not abs(pull) <= l1:
            return arb.pos_inf()
    return total


#: Bits of the working precision.
BITS = 256
#: The radius of the ball on which strong convexity is proven, in multiples of |g|/mu at its centre.
TRIALS = (1.01, 1.5, 3.0, 10.0, 100.0)


_LOCAL = "; the loss is not known to be convex: this is about the local minimum there"


@dataclass(frozen=True)
class Distance:
    """How far weights are from the optimum w*; a local minimum where the loss is not known to be convex."""

    bound: float  # |w - w*|_2 is not above it
    mu: float  # the proven strong convexity, on the ball of this radius
    radius: float  # of that ball, around the point where mu was used
    gradient: float  # the length of the subgradient there
    gap: float  # F(w) - min F is not above it, where a dual point says so
    why: str  # in words, for people

    def __repr__(self) -> str:
        return f"Distance(at most {self.bound:.3g}: {self.why[:60]})"


def to_iterates(states: Floats, exact: Sequence[Balls]) -> tuple[Floats, Floats]:
    """Upper bounds of the largest and of the Euclidean distance, step by step.

    states: (steps, d) of floats.
    exact: balls that hold the exact states.
    """
    states = np.asarray(states, dtype=np.float64)
    if states.ndim != 2 or len(states) != len(exact) or states.shape[1] != len(exact[0]):
        raise ValueError(
            f"states has shape {states.shape}, but there are {len(exact)} exact states of {len(exact[0])} numbers"
        )
    with working_precision(BITS):
        off = [
            [abs(a - b) for a, b in zip(balls(row), centre, strict=True)]
            for row, centre in zip(states, exact, strict=True)
        ]
        return np.array([float_above(largest(row)) for row in off]), np.array([float_above(norm(row)) for row in off])


def to_optimum(problem: Problem, w: Floats) -> Distance:
    """An upper bound of |w - w*|_2, where w* minimises the problem; infinite, and why, where none can be proven.

    w: any weights, (size,).

    Where the loss is not known to be convex (`Loss.convex`), w* is the local minimum near w; `why` says so.
    """
    w = np.asarray(w, dtype=np.float64)
    if w.shape != (problem.size,):
        raise ValueError(f"w has shape {w.shape}; the problem has {problem.size} features")
    if not np.isfinite(w).all():
        return Distance(math.inf, 0.0, 0.0, math.inf, math.inf, "the weights are not finite")
    with working_precision(BITS):
        centre, subgradient, moved = _near(problem, balls(w))
        size = norm(subgradient)
        gap = duality_gap(problem, balls(w)) if problem.has_l1 else arb.pos_inf()
        mu, radius, why = _certified(problem, centre, size)
        if mu == 0.0:
            return Distance(math.inf, 0.0, radius, float_above(size), float_above(gap), why)
        bound = moved + size / arb(mu)
        if math.isinf(radius) and gap.is_finite():  # strongly convex everywhere
            bound = bound.min((2 * gap.nonnegative_part() / arb(mu)).sqrt())
        return Distance(float_above(bound), mu, radius, float_above(size), float_above(gap), why)


def _near(problem: Problem, w: Balls) -> tuple[Balls, Balls, arb]:
    """A point, a subgradient of F at it, and its distance from w.

    With l1 the point is one proximal step on: there the zeros are exactly zero, so the subgradient is small
    near the optimum. (w - v)/step - g(w) is in the subdifferential of the l1 penalty at v.
    """
    slopes = problem.gradient(w)
    if not problem.has_l1:
        return w, slopes, arb(0)
    bound = smoothness(problem, w, 0.0)
    step = arb(1 / bound if 0 < bound < math.inf else 1.0)
    taus = [step * l1 for l1 in problem.l1_balls()]
    v = soft_threshold([w_r - step * g_r for w_r, g_r in zip(w, slopes, strict=True)], taus)
    off = [w_r - v_r for w_r, v_r in zip(w, v, strict=True)]
    subgradient = [o / step - a + b for o, a, b in zip(off, slopes, problem.gradient(v), strict=True)]
    return v, subgradient, norm(off)


def _certified(problem: Problem, centre: Balls, size: arb) -> tuple[float, float, str]:
    """mu and a radius within which it holds, such that |g| < mu r; or mu = 0 and why not."""
    if not size.is_finite():
        return 0.0, 0.0, f"the gradient of {problem.loss.name} is not finite at these weights"
    at_centre = strong_convexity(problem, centre, 0.0)
    if at_centre == 0.0:
        return 0.0, 0.0, _why_flat(problem, centre)
    if problem.loss.is_quadratic:
        return at_centre, math.inf, "strongly convex everywhere"
    nearest = max(float_above(size / arb(at_centre)), 1e-300)
    for trial in TRIALS:
        radius = trial * nearest
        mu = strong_convexity(problem, centre, radius)
        if size < arb(mu) * arb(radius):
            return mu, radius, f"strongly convex within {radius:.3g}{_LOCAL if not problem.loss.convex else ''}"
    why = (
        f"the gradient's length {float_above(size):.3g} is too large here: by mu = {at_centre:.3g} at the weights alone"
        f" the optimum may be {nearest:.3g} away, and so far around no sufficient mu can be proven. Take more steps"
    )
    return 0.0, TRIALS[-1] * nearest, why


def _why_flat(problem: Problem, centre: Balls) -> str:
    least, _ = curvatures(problem, centre, 0.0)
    curved, n, d = int((least > 0).sum()), problem.n, problem.size
    if curved < min(n, d):
        seen = (
            f"the loss {problem.loss.name} is proven to curve upwards at {curved} of {n} samples only, for {d} features"
        )
    else:
        seen = f"the {n} x {d} matrix X is rank-deficient, or nearly so"
    return f"no strong convexity can be proven: {seen}. The optimum may not be unique; add a ridge penalty"
