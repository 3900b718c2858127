"""The prover's rounding model for a head of several variables: scores are sums of d products and an offset.

docs/certificates.md derives what such a sum can be off by; from there on the model is that of one variable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from weightwright.claims.certificate import Terms
from weightwright.enclosures.intervals.intervals import ONE, Interval, up
from weightwright.numbers import SMALLEST, UNIT, Floats
from weightwright.prover.machine import EXP_UNITS, FLUSHED
from weightwright.prover.rounding import HeadOnBox, coarse


@dataclass(frozen=True)
class VectorAnchors:
    """A head on registers, as stored: scores z_j = slopes_j . s + offsets_j (beta included), values v_j."""

    slopes: Floats  # (p, d)
    keys: Floats  # (p, d): the slopes without beta
    offsets: Floats  # (p,)
    values: Floats  # (p,)
    hidden: float


def score_errors(anchors: VectorAnchors, s: Floats, scores: Interval, dtype: str) -> Interval:
    """(boxes, anchors): what scores of at most these sizes can be off by, for queries of at most s, (boxes, d)."""
    u, tiny = Interval.exact(UNIT[dtype]), Interval.exact(SMALLEST[dtype])
    d = s.shape[1]
    products = (Interval.exact(np.abs(anchors.slopes)) * Interval.exact(s[:, None, :])).sum()
    partial = products + Interval.exact(np.abs(anchors.offsets)) + scores
    nodes = products + Interval.exact((d - 1) / 2) * partial + scores
    growth = ONE
    for _ in range(d):
        growth = growth * (ONE + u)
    lost = Interval.exact(d + up(np.abs(anchors.keys).sum(axis=1) * (1.0 + 2.0**-40))) * tiny
    return u * growth * nodes + lost


def log_errors(off: Interval, gaps: Floats, dtype: str) -> Interval:
    """(boxes, anchors): how far the logarithm of each weight can be off: score, shift, exponential."""
    u = Interval.exact(UNIT[dtype])
    worst = Interval.exact(off.hi.max(axis=-1, keepdims=True))
    shift = u * (ONE + u) * (Interval.exact(gaps) + Interval.exact(2.0) * worst)
    exponential = Interval.exact(float(EXP_UNITS["dot"][dtype])) * u
    return off + shift + exponential / (ONE - exponential)  # -ln(1-e) <= e/(1-e)


def rounding_anywhere(anchors: VectorAnchors, lo: Floats, hi: Floats, dtype: str) -> float:
    """A crude bound for every query of the domain: all scores as large as the largest, all weights off by as much."""
    s = np.maximum(np.abs(lo), np.abs(hi))[None]
    products = (Interval.exact(np.abs(anchors.slopes)) * Interval.exact(s[:, None, :])).sum()
    scores = products + Interval.exact(np.abs(anchors.offsets))
    size = float(scores.hi.max())
    off = score_errors(anchors, s, scores, dtype)
    errors = log_errors(off, np.full_like(off.hi, up(np.float64(2.0 * size))), dtype)
    nothing = np.zeros_like(off.hi)
    head = HeadOnBox(
        query=np.zeros((1, 1)),
        slopes=nothing[0],
        scores=nothing,
        gaps=nothing,
        weights=nothing,
        deviations=nothing,
        values=np.abs(anchors.values)[None],
        roundings=nothing,
        output=np.zeros((1, 1)),
        top=np.zeros(1, dtype=np.int64),
    )
    return float(coarse(head, errors, dtype)[0])


@dataclass(frozen=True)
class QueryAxis:
    """Where the queries of one axis lie, whether shifting them rounds, and the slope along it. lost: what they can be
    off by for numbers below the normal range; None where they are exact."""

    lo: float
    hi: float
    shifted: bool
    lipschitz: float
    lost: float | None


def vector_terms(
    head: Terms, axes: Sequence[QueryAxis], values: Floats, mean: float, dtype: str
) -> tuple[Terms, float]:
    """The terms of mean + head(s), and their sum, rounded up: each query may round once, adding the mean once."""
    u = Interval.exact(UNIT[dtype])
    rounding = Interval.exact(head.rounding) + Interval.exact(2 * FLUSHED[dtype])  # head and output enter a product
    for axis in axes:
        if axis.lost is None:
            continue
        size = max(abs(axis.lo), abs(axis.hi)) if axis.shifted else 0.0
        rounding = rounding + Interval.exact(axis.lipschitz) * (u * Interval.exact(size) + Interval.exact(axis.lost))
    if mean:
        largest = Interval.exact(abs(mean)) + Interval.exact(np.abs(values).max()) + Interval.exact(head.rounding)
        rounding = rounding + u * largest
    terms = Terms(head.approximation, head.leakage, float(rounding.hi))
    total = up(up(np.float64(terms.approximation) + terms.leakage) + terms.rounding)
    return terms, float(up(total))
