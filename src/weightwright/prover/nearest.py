"""The prover's rule for heads that pick the nearest anchor (the papers' choice of beta).

Sorted by slope, score lines j and j+1 cross at x_j; between x_{j-1} and x_j line j is on top. If the
crossings are at least h apart and the slopes at least kappa, then on the right half of that cell the
lines j+i (i >= 2) and j-i (i >= 1) are at least kappa h i(i-1)/2 and kappa h i^2/2 below the top: all but
two anchors share a weight of at most tau = q/(1-q^3) + q^2/(1-q^4) with q = e^{-kappa h/2}.
"""

from __future__ import annotations

import numpy as np

from weightwright.claims.certificate import MAX_TOKENS, Terms
from weightwright.enclosures.intervals.intervals import ONE, Interval, exp
from weightwright.enclosures.intervals.jets import jet
from weightwright.expressions import Expression
from weightwright.numbers import SMALLEST, UNIT
from weightwright.prover.head_sums import Anchors, Proof
from weightwright.prover.machine import EXP_UNITS, SLIGHTLY
from weightwright.prover.rounding import LOST_SCORE, underflow
from weightwright.prover.taylor import SLACK

_SLOPE_BOXES = 64
#: Weights that are off by less let 1.001 p_j bound every computed weight.
NEGLIGIBLE = 2.0**-13


def prove_nearest(anchors: Anchors, formula: Expression, lo: float, hi: float, dtype: str) -> Proof:
    """Approximation by the two nearest values, leakage by everything else. Needs increasing slopes."""
    with np.errstate(all="ignore"):
        crossings, h, kappa = _crossings(anchors)
        approximation = _nearest_values(anchors, formula, lo, hi, crossings, h)
        v = Interval.exact(anchors.values)
        spread = Interval.exact(v.hi.max()) - Interval.exact(v.lo.min())
        q = exp(-(kappa * h * Interval.exact(0.5)))
        tau = q / (ONE - q * q * q) + q * q / (ONE - q * q * q * q)
        leak = tau * (spread + approximation) + _hidden(anchors, crossings, lo, hi)
        rounding = _rounding(anchors, max(abs(lo), abs(hi)), tau, spread, approximation + leak, dtype)
        edges = np.linspace(lo, hi, _SLOPE_BOXES + 1)
        boxes = np.stack([edges[:-1], edges[1:]], axis=1)
        slope = np.broadcast_to(jet(formula, Interval(boxes[:, 0], boxes[:, 1]), 1)[1].magnitude(), len(boxes))
    terms = Terms(*(float(term.hi) * SLACK for term in (approximation, leak, rounding)))
    return Proof(boxes, terms, 2.0 * float(slope.max()))


def _crossings(anchors: Anchors) -> tuple[Interval, Interval, Interval]:
    k, c = Interval.exact(anchors.slopes), Interval.exact(anchors.offsets)
    steps = k[1:] - k[:-1]
    crossings = (c[:-1] - c[1:]) / steps
    gaps = crossings[1:] - crossings[:-1]
    least = gaps.lo.min() if len(gaps.lo) else np.inf
    if not (steps.lo.min() > 0 and least > 0):
        return crossings, Interval.exact(np.nan), Interval.exact(np.nan)
    return crossings, Interval.exact(least), Interval.exact(steps.lo.min())


def _nearest_values(
    anchors: Anchors, formula: Expression, lo: float, hi: float, crossings: Interval, h: Interval
) -> Interval:
    """The largest |v - F(s)| over half cells, v being the value of the cell or of the neighbour on that side."""
    middle = crossings.middle()
    inner = middle[:-1] / 2 + middle[1:] / 2
    splits = np.concatenate([middle[:1] - h.hi / 2, inner, middle[-1:] + h.hi / 2])
    edges = np.sort(np.concatenate([middle, splits]))  # split, crossing, split, ..., split
    starts, ends = np.concatenate([[-np.inf], edges]), np.concatenate([edges, [np.inf]])
    cell = np.arange(len(starts)) // 2
    neighbour = np.clip(np.where(np.arange(len(starts)) % 2, cell + 1, cell - 1), 0, len(anchors.values) - 1)
    inside = (ends >= lo) & (starts <= hi)
    width = np.spacing(np.abs(middle).max()) * 8 + h.hi * 2.0**-20  # crossings are known only so well
    boxes = Interval(np.clip(starts[inside] - width, lo, hi), np.clip(ends[inside] + width, lo, hi))
    target = jet(formula, boxes, 0)[0]
    both = [(Interval.exact(anchors.values[index[inside]]) - target).magnitude() for index in (cell, neighbour)]
    return Interval.exact(np.maximum(*both).max())


def _hidden(anchors: Anchors, crossings: Interval, lo: float, hi: float) -> Interval:
    """The envelope of the scores is convex: it is lowest at a crossing or at an end."""
    points = np.concatenate([[lo, hi], np.clip(crossings.middle(), lo, hi)])
    j = np.clip(np.searchsorted(crossings.middle(), points), 0, len(anchors.slopes) - 1)
    scores = Interval.exact(anchors.slopes[j]) * Interval.exact(points) + Interval.exact(anchors.offsets[j])
    lowest = Interval.exact(scores.lo.min() - 1.0)  # the crossings are known far better than that
    weight = exp(Interval.exact(anchors.hidden) - lowest)
    return weight * Interval.exact(2.0 * MAX_TOKENS * np.abs(anchors.values).max())


def _rounding(anchors: Anchors, s: float, tau: Interval, spread: Interval, error: Interval, dtype: str) -> Interval:
    """The rounding model with one error for all scores and two heavy weights."""
    u, count = Interval.exact(UNIT[dtype]), float(len(anchors.slopes))
    product = Interval.exact(float(np.abs(anchors.slopes).max())) * Interval.exact(s)
    score = product + Interval.exact(float(np.abs(anchors.offsets).max()))
    delta = u * (ONE + u) * product + u * score + Interval.exact(LOST_SCORE[dtype])
    two = Interval.exact(2.0)
    d = delta + u * (ONE + u) * two * (score + delta) + Interval.exact(EXP_UNITS["dot"][dtype] * SLIGHTLY) * u
    growth = d * (ONE + d)
    lost = Interval.exact(2.0 * count * SMALLEST[dtype])
    moved = (growth + lost) * (two * error + two * tau * (spread + error)) / (ONE - growth - lost)
    slack = Interval.exact(SLIGHTLY + 8.0 * count * float(u.hi))
    summing = (u + tau) * slack * slack
    largest = Interval.exact(float(np.abs(anchors.values).max()))
    total = moved + largest * (two * summing * slack + Interval.exact(3.1) * u) + underflow(anchors.values, dtype)
    applies = bool(growth.hi < NEGLIGIBLE) and bool(summing.hi < NEGLIGIBLE)
    return total if applies else Interval.exact(np.nan)
