"""The prover's rounding model for one head in kernel "dot": scores by dot products, softmax, mix of values; and in
kernel "anchor": powers of one exponential, mix of values, one division.

For a query s (a float) the exact scores are z_j = k_j s + c_j, the weights p_j and the output
g = sum p_j v_j. What a machine computes differs by three things, derived in docs/certificates.md:
scores and exponentials are off (the weights move), sums are taken in some order, products round.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weightwright.claims.certificate import LARGEST_KEY
from weightwright.enclosures.intervals.intervals import ONE, Interval, exp, tanh, up
from weightwright.numbers import SMALLEST, UNIT, Floats
from weightwright.prover.machine import DIVISION_UNITS, EXP_UNITS, PRODUCT_UNITS

#: What products with queries below the normal range lose at most, for keys of at most LARGEST_KEY; per dtype.
LOST_SCORE = {name: 2 * LARGEST_KEY * smallest for name, smallest in SMALLEST.items()}
#: Weights that are off by less together, and sums of weights that round by less, are taken to first order.
SMALL = 0.25
#: An error that is taken off all logarithms of weights also scales what underflows: by less than 2.
SHARED = 0.6
#: Units roundoff in a product with a normalised weight, and in a product of which a sum is divided once.
DOT, WINDOW = (float(PRODUCT_UNITS + DIVISION_UNITS[kernel]) for kernel in ("dot", "anchor"))


@dataclass(frozen=True)
class HeadOnBox:
    """Upper bounds that hold for every s of a box; arrays are (boxes, anchors) unless noted."""

    query: Floats  # (boxes, 1): |s|
    slopes: Floats  # |k_j|
    scores: Floats  # |z_j|
    gaps: Floats  # max_i z_i - z_j
    weights: Floats  # p_j
    deviations: Floats  # |v_j - g|
    values: Floats  # |v_j|
    roundings: Floats  # units roundoff that a product p_j v_j can be off by: in v_j, itself, and in normalising it
    output: Floats  # (boxes, 1): |g|
    top: np.ndarray[tuple[int], np.dtype[np.int64]]  # (boxes,): the index of a key with a large weight


def moved_by(box: HeadOnBox, errors: Interval, dtype: str) -> Floats:
    """(boxes,): an upper bound on |computed output - g|, NaN where the model does not apply. The best of three ways
    from errors of the weights' logarithms, (boxes, anchors), to an error of the output."""
    from_top = _relative_to_top(box, errors)
    return np.fmin(np.fmin(_fine(box, errors, dtype), _fine(box, from_top, dtype)), coarse(box, errors, dtype))


def _relative_to_top(box: HeadOnBox, errors: Interval) -> Interval:
    """An error that all logarithms share changes nothing: take the top one's off everywhere."""
    rows = np.arange(len(box.top))
    shared = errors.hi[rows, box.top][:, None]
    hi = np.where(shared <= SHARED, (errors + Interval.exact(shared)).hi, np.nan)
    hi[rows, box.top] = np.where(shared[:, 0] <= SHARED, 0.0, np.nan)
    return Interval(np.zeros_like(hi), hi)


def _fine(box: HeadOnBox, errors: Interval, dtype: str) -> Floats:
    """For weights that are hardly off: every term to first order."""
    u, tiny = Interval.exact(UNIT[dtype]), Interval.exact(SMALLEST[dtype])
    growth = _growth(errors)
    moved, mass = _weight_error(box, growth, tiny)
    # Computed weights are at most p_j e^{d_j} / (1 - mass), and their own roundings more.
    most = _column(Interval.exact(1.0 + 8 * UNIT[dtype]) / (ONE - mass))
    inflated = Interval.exact(box.weights) * (ONE + growth) * most
    products = inflated * Interval.exact(box.values)
    sum_of_weights = any_order(inflated, u)
    sum_of_products = any_order(products, u)
    each = Interval.exact(box.roundings) * u * Interval.exact(1.0 + 8 * UNIT[dtype]) * products
    output = Interval.exact(box.output[:, 0]) + moved
    summed = (sum_of_products + each.sum() + output * sum_of_weights) / (ONE - sum_of_weights)
    total = moved + summed + underflow(box.values, dtype)
    return np.where((mass.hi < SMALL) & (sum_of_weights.hi < SMALL), total.hi, np.nan)


def _column(x: Interval) -> Interval:
    return Interval(x.lo[:, None], x.hi[:, None])


def coarse(box: HeadOnBox, errors: Interval, dtype: str) -> Floats:
    """For errors of any size: weights whose logarithms move by at most d move a mean by spread * tanh(d/2)."""
    u, count = Interval.exact(UNIT[dtype]), float(box.weights.shape[-1])
    lost = Interval.exact(4.0 * count * SMALLEST[dtype])
    half = Interval.exact(0.5) * Interval.exact(errors.hi.max(axis=-1))
    largest = Interval.exact(box.values.max(axis=-1))
    spread = Interval.exact(2.0) * largest
    # n terms in any order, n products, the normalisation, the sum of weights and a computed value: 2 n + 6 at most
    roundings = Interval.exact(2.0 * count + 6.0) * u
    summing = largest * roundings / (ONE - roundings)
    total = spread * (tanh(half) + lost) + summing + underflow(box.values, dtype)
    return np.where(roundings.hi < 0.5, total.hi, np.nan)


def underflow(values: Floats, dtype: str) -> Interval:
    """What weights, products and sums below the normal range can lose: SMALLEST each, values multiplied in."""
    count, largest = values.shape[-1], Interval.exact(np.abs(values).max(axis=-1))
    return Interval.exact((4.0 * count + 10.0) * SMALLEST[dtype]) * (ONE + largest)


def score_errors(box: HeadOnBox, dtype: str) -> Interval:
    """(boxes, anchors): how far the logarithm of each weight can be off: score, shift, exponential."""
    u, lost = Interval.exact(UNIT[dtype]), Interval.exact(LOST_SCORE[dtype])
    products = Interval.exact(up(box.slopes * box.query))
    score = u * (ONE + u) * products + u * Interval.exact(box.scores) + lost
    worst = Interval.exact(score.hi.max(axis=-1, keepdims=True))
    shift = u * (ONE + u) * (Interval.exact(box.gaps) + Interval.exact(2.0) * worst)
    exponential = Interval.exact(float(EXP_UNITS["dot"][dtype])) * u
    return score + shift + exponential / (ONE - exponential)  # -ln(1-e) <= e/(1-e)


def window_errors(M: int, dtype: str, boxes: int) -> Interval:
    """(boxes, 2 M + 1): how far the logarithm of e_m z^m can be off: z by its exponential, 1/z by its division, every
    power by one product more, e_m by its exponential, their product."""
    u = Interval.exact(UNIT[dtype])
    units = EXP_UNITS["anchor"][dtype], DIVISION_UNITS["anchor"], PRODUCT_UNITS
    relative = [Interval.exact(float(count)) * u for count in units]
    exponential, division, product = (e / (ONE - e) for e in relative)  # -ln(1-e) <= e/(1-e)
    m = np.abs(np.arange(-M, M + 1, dtype=np.float64))
    each = Interval.exact(m) * (exponential + division + product) + exponential + product
    hi = np.where(m == 0, 0.0, each.hi)  # the nearest anchor weighs 1 exactly
    return Interval.exact(np.broadcast_to(hi, (boxes, 2 * M + 1)))


def _growth(d: Interval) -> Interval:
    """e^d - 1, from above: d + d^2 for d <= 1."""
    small = d * (ONE + d)
    return Interval(d.lo, np.where(d.hi <= 1.0, small.hi, exp(d).hi))


def _weight_error(box: HeadOnBox, growth: Interval, tiny: Interval) -> tuple[Interval, Interval]:
    """sum p_j |v_j - g| (e^{d_j} - 1) / (1 - mass), mass = sum p_j (e^{d_j} - 1), d_j the error of log weight j."""
    p = Interval.exact(box.weights)
    # An exponential may underflow: at most `tiny` beside the largest one, which is 1.
    lost = Interval.exact(float(4 * box.weights.shape[-1])) * tiny
    mass = (p * growth).sum() + lost
    moved = (p * Interval.exact(box.deviations) * growth).sum() + lost * Interval.exact(box.deviations.max(-1))
    error = moved / (ONE - mass)
    return Interval(np.zeros_like(error.hi), error.hi), Interval.exact(mass.hi)


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
    slack = 1.0 + 8.0 * n * float(u.hi)  # of the sums above, and of computed subtrees
    heavy = up(joins + up(np.arange(n, dtype=np.float64) * light))  # upper ends: nothing here is negative
    cost = up(up(up(up(u.hi * heavy) + light) * slack) * slack)
    return Interval.exact(cost.min(axis=-1))
