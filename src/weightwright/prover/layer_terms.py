"""From the heads' terms to the network's: the query may round once, adding up rounds a few times."""

from __future__ import annotations

import math

import numpy as np

from weightwright.claims.certificate import Terms
from weightwright.enclosures.intervals.intervals import ONE, ZERO, Interval, up
from weightwright.numbers import SMALLEST, UNIT
from weightwright.prover.head_sums import Sum
from weightwright.prover.machine import FLUSHED


def roundings(mean: float, slope: float, weights: list[float]) -> tuple[int, list[int]]:
    """How many roundings the start of the coordinate, slope x + mean, and each weighted head may go through."""
    additions = len(weights) - 1 + bool(mean or slope)
    start = additions + (not _scales_exactly(slope)) + bool(mean and slope)
    return start, [additions + (not _scales_exactly(weight)) for weight in weights]


def _scales_exactly(factor: float) -> bool:
    return factor == 0 or abs(math.frexp(factor)[0]) == 0.5


def network_terms(
    head: Terms,
    lipschitz: float,
    layer: Sum,
    *,
    centre: float,
    scale: float,
    lost: float | None,
    mean: float,
    lo: float,
    hi: float,
    dtype: str,
) -> tuple[Terms, float]:
    """The terms of mean + slope s + heads for queries s in [lo, hi], and their sum, rounded up.

    lipschitz bounds the slope of what the layer computes. lost: what a query can be off by for numbers below the normal
    range; None where it is exact.
    """
    u, tiny = Interval.exact(UNIT[dtype]), Interval.exact(SMALLEST[dtype])
    s = Interval.exact(max(abs(lo), abs(hi)))
    # the start of the output and a token's own value take x as it is, while formula and scores take the rounded query
    moves = Interval.exact(lipschitz) + Interval.exact(abs(layer.slope))
    for anchors in layer.heads:
        moves = moves + Interval.exact(abs(anchors.weight)) * Interval.exact(np.abs(anchors.tilts).max())
    slip = ZERO if lost is None else moves * ((u * s if centre else ZERO) + Interval.exact(lost))
    start, each = roundings(mean, layer.slope, [anchors.weight for anchors in layer.heads])
    # the terms that are added up, as computed, each with the number of roundings it may go through
    total = Interval.exact(float(start)) * (Interval.exact(abs(layer.slope)) * s + Interval.exact(abs(mean)))
    for anchors, count in zip(layer.heads, each, strict=True):
        value = Interval.exact(np.abs(anchors.values).max()) + Interval.exact(np.abs(anchors.tilts).max()) * s
        computed = Interval.exact(abs(anchors.weight)) * value + Interval.exact(head.rounding)
        total = total + Interval.exact(float(count)) * computed
    final = u * total * Interval.exact(1.0 + 16.0 * (len(layer.heads) + 2) * UNIT[dtype])
    below = tiny * Interval.exact(
        float(2 * len(layer.heads) + 2)
    )  # also a power of two may lead below the normal range
    enters = ONE + Interval.exact(abs(layer.slope)) * Interval.exact(
        scale
    )  # x, the heads' results and the output enter products
    for anchors in layer.heads:
        enters = enters + Interval.exact(abs(anchors.weight))
    below = below + Interval.exact(FLUSHED[dtype]) * enters
    rounding = float((Interval.exact(head.rounding) + slip + final + below).hi)
    terms = Terms(head.approximation, head.leakage, rounding)
    whole = up(up(np.float64(terms.approximation) + terms.leakage) + terms.rounding)
    return terms, float(up(whole))
