"""The checker's rule "nearest": two anchors hold the weight, the rest is leakage.

Lines sorted by slope, crossings x_j of neighbours, cell j between x_{j-1} and x_j. On the half of the cell
next to x_j only lines j and j+1 come near the top; docs/certificates.md has the lemma.
"""

from __future__ import annotations

from itertools import pairwise

from flint import arb

from weightwright.certificates.checker.balls import largest, series, smallest
from weightwright.certificates.checker.head import Found
from weightwright.certificates.checker.rounding import SMALLEST, UNIT, StoredHead, underflow
from weightwright.certificates.claims import EXP_ULPS, LARGEST_KEY, MAX_TOKENS
from weightwright.expressions import Expression

#: Weights that are off by less let 1.001 p_j bound every computed weight.
NEGLIGIBLE = arb(2) ** -13


def examine_nearest(head: StoredHead, formula: Expression, lo: arb, hi: arb) -> Found:
    """Bounds on the whole of [lo, hi]; all NaN where the lemma's conditions fail. The slope is not bounded here."""
    k, c, v = head.slopes, head.offsets, head.values
    steps = [b - a for a, b in pairwise(k)]
    if head.hidden is None or head.weight != 1 or any(tilt != 0 for tilt in head.tilts):
        return _nothing()
    if len(k) < 3 or not all(step > 0 for step in steps):
        return _nothing()
    crossings = [(a - b) / step for a, b, step in zip(c, c[1:], steps, strict=False)]
    gaps = [b - a for a, b in pairwise(crossings)]
    h = smallest(gaps)
    if not h > 0:
        return _nothing()
    q = (-smallest(steps) * h / 2).exp()
    tau = q / (1 - q**3) + q**2 / (1 - q**4)
    approximation = _worst_half_cell(head, formula, lo, hi, crossings, h)
    spread = largest(v) - smallest(v)
    lowest = smallest(_envelope(head, crossings, lo, hi))
    largest_value = largest(abs(x) for x in v)
    leakage = tau * (spread + approximation) + 2 * MAX_TOKENS * (head.hidden - lowest).exp() * largest_value
    rounding = _rounding(head, abs(lo).max(abs(hi)), tau, spread, approximation + leakage, largest_value)
    return Found(approximation, leakage.upper(), rounding, arb.nan())


def _nothing() -> Found:
    return Found(arb.nan(), arb.nan(), arb.nan(), arb.nan())


def _worst_half_cell(head: StoredHead, formula: Expression, lo: arb, hi: arb, crossings: list[arb], h: arb) -> arb:
    """The largest |v - F(s)| for the anchor of the cell and its neighbour on that side."""
    worst = arb(0)
    last = len(head.values) - 1
    for j in range(last + 1):
        left = crossings[j - 1] if j else lo.min(crossings[0] - h)
        right = crossings[j] if j < last else hi.max(crossings[-1] + h)
        split = crossings[0] - h / 2 if j == 0 else crossings[-1] + h / 2 if j == last else (left + right) / 2
        for start, end, neighbour in ((left, split, max(j - 1, 0)), (split, right, min(j + 1, last))):
            if end < lo or start > hi:
                continue
            target = series(formula, start.max(lo).union(end.min(hi)), 0)[0]
            worst = worst.max(abs(head.values[j] - target)).max(abs(head.values[neighbour] - target))
    return worst.upper()  # a NaN stays one


def _envelope(head: StoredHead, crossings: list[arb], lo: arb, hi: arb) -> list[arb]:
    """Scores that bound the top score from below: it is convex, so lowest at a crossing or an end."""
    at_crossings = [head.slopes[j] * x + head.offsets[j] for j, x in enumerate(crossings) if x >= lo and x <= hi]
    ends = [max((k * s + c for k, c in zip(head.slopes, head.offsets, strict=True)), key=float) for s in (lo, hi)]
    return [*at_crossings, *ends]


def _rounding(head: StoredHead, s: arb, tau: arb, spread: arb, error: arb, largest_value: arb) -> arb:
    u, tiny, count = UNIT[head.dtype], SMALLEST[head.dtype], len(head.slopes)
    product = largest(abs(k) for k in head.slopes) * s
    score = product + largest(abs(c) for c in head.offsets)
    delta = u * (1 + u) * product + u * score + tiny * arb(LARGEST_KEY)
    d = delta + u * (1 + u) * 2 * (score + delta) - (1 - 2 * EXP_ULPS[head.dtype] * u).log()
    growth = d.expm1() + 2 * count * tiny
    if not growth < NEGLIGIBLE:
        return arb.nan()
    moved = growth * (2 * error + 2 * tau * (spread + error)) / (1 - growth)
    slack = arb(1.001) + 4 * count * u
    summing = (u + tau) * slack**2
    if not summing < NEGLIGIBLE:
        return arb.nan()
    return (
        moved + largest_value * (2 * summing * slack + arb(3.1) * u) + underflow(count, largest_value, head.dtype)
    ).upper()
