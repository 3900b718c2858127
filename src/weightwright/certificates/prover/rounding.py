"""The prover's rounding model for one head in kernel "dot": scores by dot products, softmax, mix of values.

For a query s (a float) the exact scores are z_j = k_j s + c_j, the weights p_j and the output
g = sum p_j v_j. What a machine computes differs by three things, derived in docs/certificates.md:
scores and exponentials are off (the weights move), sums are taken in some order, products round.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weightwright.certificates.claims import EXP_ULPS
from weightwright.certificates.prover.intervals import ONE, Interval, tanh, up
from weightwright.network.layers import Floats

#: Unit roundoff and the largest absolute error of an underflow, per dtype.
UNIT = {"float64": 2.0**-53, "float32": 2.0**-24, "bfloat16": 2.0**-8}
UNDERFLOW = {"float64": 2.0**-1022, "float32": 2.0**-126, "bfloat16": 2.0**-126}
#: Relative errors of weights below this let 1.001 p_j bound every computed weight.
NEGLIGIBLE = 2.0**-13


@dataclass(frozen=True)
class HeadOnBox:
    """Upper bounds that hold for every s of a box; arrays are (boxes, anchors) unless noted."""

    query: Floats  # (boxes, 1): |s|
    slopes: Floats  # (anchors,): |k_j|
    scores: Floats  # |z_j|
    gaps: Floats  # max_i z_i - z_j
    weights: Floats  # p_j
    deviations: Floats  # |v_j - g|
    values: Floats  # (anchors,): |v_j|
    output: Floats  # (boxes, 1): |g|


def rounding_bound(box: HeadOnBox, dtype: str) -> Floats:
    """(boxes,): an upper bound on |computed output - g|; NaN where the model does not apply."""
    return moved_by(box, _score_errors(box, dtype), dtype)


def moved_by(box: HeadOnBox, errors: Interval, dtype: str) -> Floats:
    """The same, given how far the logarithm of each weight can be off."""
    return np.fmin(_fine(box, errors, dtype), coarse(box, errors, dtype))


def _fine(box: HeadOnBox, errors: Interval, dtype: str) -> Floats:
    """For errors of the weights below a thousandth: every term to first order."""
    u, tiny = Interval.exact(UNIT[dtype]), Interval.exact(UNDERFLOW[dtype])
    moved = _weight_error(box, errors, tiny)
    p = Interval.exact(box.weights)
    # Computed weights exceed p_j by less than a thousandth whenever the weight error is defined.
    inflated = p * Interval.exact(1.001)
    products = inflated * Interval.exact(box.values)
    sum_of_weights = any_order(inflated, u)
    sum_of_products = any_order(products, u)
    # normalising (2u) and multiplying (u)
    each = Interval.exact(3.0) * u * products.sum() + underflow(box.values, dtype)
    output = Interval.exact(box.output[:, 0]) + moved
    total = moved + sum_of_products + each + output * sum_of_weights * Interval.exact(1.001)
    return np.where(sum_of_weights.hi < NEGLIGIBLE, total.hi, np.nan)


def coarse(box: HeadOnBox, errors: Interval, dtype: str) -> Floats:
    """For errors of any size: weights whose logarithms move by at most d move a mean by spread * tanh(d/2)."""
    u, count = Interval.exact(UNIT[dtype]), float(box.weights.shape[-1])
    lost = Interval.exact(4.0 * count * UNDERFLOW[dtype])
    half = Interval.exact(0.5) * Interval.exact(errors.hi.max(axis=-1))
    largest = Interval.exact(box.values.max())
    spread = Interval.exact(2.0) * largest
    # n terms in any order, n products, the normalisation and the sum of weights: less than 2 n + 4 roundings
    roundings = Interval.exact(2.0 * count + 4.0) * u
    summing = largest * roundings / (ONE - roundings)
    total = spread * (tanh(half) + lost) + summing + underflow(box.values, dtype)
    return np.where(roundings.hi < 0.5, total.hi, np.nan)


def underflow(values: Floats, dtype: str) -> Interval:
    """What weights, products and sums below the normal range can lose: so much each, values multiplied in."""
    count, largest = len(values), Interval.exact(np.abs(values).max())
    return Interval.exact((4.0 * count + 8.0) * UNDERFLOW[dtype]) * (ONE + largest)


def _score_errors(box: HeadOnBox, dtype: str) -> Interval:
    """(boxes, anchors): how far the logarithm of each weight can be off: score, shift, exponential."""
    u, tiny = Interval.exact(UNIT[dtype]), Interval.exact(UNDERFLOW[dtype])
    products = Interval.exact(up(box.slopes * box.query))
    score = u * (ONE + u) * products + u * Interval.exact(box.scores) + tiny
    worst = Interval.exact(score.hi.max(axis=-1, keepdims=True))
    shift = u * (ONE + u) * (Interval.exact(box.gaps) + Interval.exact(2.0) * worst)
    exponential = Interval.exact(2.0 * EXP_ULPS[dtype]) * u
    return score + shift + exponential / (ONE - exponential)  # -ln(1-e) <= e/(1-e)


def _weight_error(box: HeadOnBox, d: Interval, tiny: Interval) -> Interval:
    """sum p_j |v_j - g| (e^{d_j} - 1) / (1 - sum p_j (e^{d_j} - 1)), d_j the error of log weight j."""
    growth = d * (ONE + d)  # e^d - 1 <= d + d^2 for d <= 1
    p = Interval.exact(box.weights)
    # An exponential may underflow: at most `tiny` beside the largest one, which is 1.
    lost = Interval.exact(float(2 * box.weights.shape[-1])) * tiny
    mass = (p * growth).sum() + lost
    moved = (p * Interval.exact(box.deviations) * growth).sum() + lost * Interval.exact(box.deviations.max(-1))
    error = moved / (ONE - mass)
    applies = (mass.hi < NEGLIGIBLE) & (d.hi.max(-1) < NEGLIGIBLE)
    return Interval(np.zeros_like(error.hi), np.where(applies, error.hi, np.nan))


def any_order(terms: Interval, u: Interval) -> Interval:
    """(boxes,): error of a sum of terms of these sizes in any order; docs/certificates.md has the proof.

    With the m largest called heavy, t_1 >= t_2 >= ..., and T the sum of the light ones: nodes that join heavy
    subtrees cost at most u (S_2 + ... + S_m + (m-1) T), S_k = t_1 + ... + t_k; adding a subtree of light terms
    costs at most that subtree, T in all. The best m counts.
    """
    size = -np.sort(-terms.hi, axis=-1)
    n = size.shape[-1]
    partial = np.cumsum(size, -1)  # S_1, ..., S_n
    joins = np.cumsum(partial, -1) - partial[..., :1]  # S_2 + ... + S_m
    rest = np.flip(np.cumsum(np.flip(size, -1), -1), -1)
    light = np.concatenate([rest[..., 1:], np.zeros((*rest.shape[:-1], 1))], axis=-1)  # T for m = 1, ..., n
    slack = Interval.exact(1.0 + 8.0 * n * float(u.hi))  # of the sums above, and of computed subtrees
    heavy = Interval.exact(joins) + Interval.exact(np.arange(n, dtype=np.float64)) * Interval.exact(light)
    cost = (u * heavy + Interval.exact(light)) * slack * slack
    return Interval.exact(cost.hi.min(axis=-1))
