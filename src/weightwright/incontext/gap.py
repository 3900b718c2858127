"""The duality gap of a problem with penalties: an upper bound of F(w) - min F from a dual point.

F(w) = sum_i c_i phi_i(w.x_i) + Omega(w) with Omega(w) = sum_r (ridge_r/2 w_r^2 + l1_r |w_r|). For every u,

    F(w) - min F <= sum_i c_i (phi_i(m_i) + phi_i*(u_i)) + Omega(w) + Omega*(-g),    m_i = w.x_i, g = sum_i c_i u_i x_i,

where Omega*(v) is the sum of soft(v_r, l1_r)^2 / (2 ridge_r). Without a ridge penalty a summand is 0 where
|v_r| <= l1_r, and infinite elsewhere: u must be such that it is not.
"""

from __future__ import annotations

import numpy as np
from flint import arb, arb_mat

from weightwright.incontext.arithmetic import Balls, balls, evaluate, float_below, matrix, product
from weightwright.incontext.problem import Problem
from weightwright.incontext.spectrum import weighted_gram


def duality_gap(problem: Problem, w: Balls) -> arb:
    """An upper bound of F(w) - min F from the slopes u = phi'(m); infinite where there is none.

    As phi(m) + phi*(phi'(m)) = m phi'(m), any convex loss has one if these slopes will do; if they have to be changed,
    the conjugate itself is needed, and the loss must be squared.
    """
    loss = problem.loss
    if not loss.convex:
        return arb.pos_inf()
    arguments, weights = problem.arguments(w), problem.sample_weights()
    slopes = evaluate(loss.slope_expression, arguments)
    penalties = list(zip(w, balls(problem.ridges), balls(problem.l1s), strict=True))
    own = sum((ridge / 2 * w_r * w_r + l1 * abs(w_r) for w_r, ridge, l1 in penalties), arb(0))
    pulls = [g_r - ridge * w_r for g_r, (w_r, ridge, _) in zip(problem.gradient(w), penalties, strict=True)]
    at_these = _conjugate(problem, pulls)
    if at_these.is_finite():
        offset = balls(problem.y) if loss.form == "residual" else [arb(0)] * problem.n
        parts = zip(weights, arguments["x"], offset, slopes, strict=True)
        return sum((c * (x + b) * u for c, x, b, u in parts), arb(0)) + own + at_these
    return own + _squared(problem, slopes, pulls) if loss.is_quadratic else arb.pos_inf()


def _squared(problem: Problem, slopes: Balls, pulls: Balls) -> arb:
    """The gap of the squared loss without Omega(w), from slopes that are made to fit: phi = u^2/2 at m, and
    phi*(v) = v^2/2 + v y.

    A feature without any penalty needs a pull of 0: the slopes' part along such features is taken away. What is left
    is scaled down until no feature with l1 alone is pulled by more.
    """
    free = np.flatnonzero((problem.ridges == 0) & (problem.l1s == 0))
    dual = slopes
    if len(free):
        projected = _without(problem, slopes, pulls, free)
        if projected is None:
            return arb.pos_inf()
        dual, pulls = projected
    scale = 1.0
    for r in np.flatnonzero((problem.ridges == 0) & (problem.l1s > 0)):
        l1 = arb(float(problem.l1s[r]))
        if not abs(pulls[r]) <= l1:
            scale = min(scale, float_below(l1 / abs(pulls[r])))
    met = zip(problem.sample_weights(), slopes, dual, balls(problem.y), strict=True)
    total = sum((c * (u * u / 2 + scale * v * (scale * v / 2 + y)) for c, u, v, y in met), arb(0))
    return total + _conjugate(problem, [scale * pull for pull in pulls])


def _without(problem: Problem, slopes: Balls, pulls: Balls, free: np.ndarray) -> tuple[Balls, Balls] | None:
    """Slopes less their part along these features, and what they pull: 0 there. None where the features are dependent.

    The part is X_f a with (X_f^T C X_f) a = X_f^T C u, the pulls of the features.
    """
    weights, columns = problem.sample_weights(), problem.rows[:, free]
    gram = weighted_gram(columns, weights, np.zeros(len(free)))
    try:
        part = gram.solve(arb_mat([[pulls[r]] for r in free])).entries()
    except ZeroDivisionError:
        return None
    dual = [u - along for u, along in zip(slopes, product(matrix(columns), part), strict=True)]
    moved = product(matrix(problem.rows.T), [c * v for c, v in zip(weights, dual, strict=True)])
    return dual, [arb(0) if r in free else pull for r, pull in enumerate(moved)]


def _conjugate(problem: Problem, pulls: Balls) -> arb:
    """Omega*(-pulls); infinite where a feature without ridge may be pulled by more than its l1."""
    total = arb(0)
    ridges, l1s = balls(problem.ridges), balls(problem.l1s)
    for ridge, l1, pull, excess in zip(ridges, l1s, pulls, soft_threshold(pulls, l1s), strict=True):
        if ridge > 0:
            total += excess * excess / (2 * ridge)
        elif not abs(pull) <= l1:
            return arb.pos_inf()
    return total


def soft_threshold(z: Balls, taus: Balls) -> Balls:
    nothing = arb(0)
    return [(z_r - tau).max(nothing) - (-z_r - tau).max(nothing) for z_r, tau in zip(z, taus, strict=True)]
