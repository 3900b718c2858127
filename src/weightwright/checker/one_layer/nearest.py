"""The checker's rule "nearest": two anchors hold the weight, the rest is leakage.

The score lines of all heads together, sorted by slope, with crossings x_j of neighbours and cell j between x_{j-1} and
x_j. Every head has a run of neighbouring lines. On the half of the cell next to x_j only lines j and j+1 come near the
top; a head that has neither sits on that end of its run which is nearer. docs/certificates.md has the lemma.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

from flint import arb

from weightwright.checker.core.machine import Machine
from weightwright.checker.core.rounding import LOST_SCORE, SMALLEST, UNIT, StoredHead, coarse, exp_error, underflow
from weightwright.checker.one_layer.head import Found
from weightwright.claims.certificate import MAX_TOKENS
from weightwright.enclosures.balls.midrad import SPARE
from weightwright.enclosures.balls.series import largest, series, smallest
from weightwright.expressions import Expression
from weightwright.limits import tick

#: Weights that are off by less together are bounded to first order.
SMALL = arb(1) / 4

Hole = tuple[arb, arb]


def examine_nearest(
    heads: Sequence[StoredHead], formula: Expression, lo: arb, hi: arb, holes: Sequence[Hole] = ()
) -> Found:
    """Bounds on the sum of the heads on [lo, hi] outside the holes; all NaN where the lemma's conditions fail. The
    slope is not bounded here."""
    if any(head.window is not None or any(tilt != 0 for tilt in head.tilts) for head in heads):
        return _nothing()
    runs = _Runs.of(heads)
    if runs is None:
        return _nothing()
    q = (-smallest(runs.steps) * runs.h / 2).exp()
    tau = q / (1 - q**3) + q**2 / (1 - q**4)
    approximation, apart = _worst_half_cell(runs, formula, lo, hi, holes)
    spreads = [abs(head.weight) * (largest(head.values) - smallest(head.values)) for head in heads]
    leakage = tau * sum(spreads, arb(0))
    for head in heads:
        if head.hidden is not None:
            weight = 2 * MAX_TOKENS * (head.hidden - smallest(_envelope(head, lo, hi))).exp()
            leakage += weight * abs(head.weight) * largest(abs(v) for v in head.values)
    moved = apart / 2 + 2 * tau * sum(spreads, arb(0))
    rounding = _rounding(heads, abs(lo).max(abs(hi)), tau, moved)
    return Found(approximation, leakage.upper(), rounding, arb.nan())


def _nothing() -> Found:
    return Found(arb.nan(), arb.nan(), arb.nan(), arb.nan())


class _Runs:
    """The lines of all heads, and for two neighbours what the heads add up to where one or the other is on top."""

    def __init__(self, lines: list[tuple[arb, arb]], runs: list[tuple[int, list[arb]]]) -> None:
        self.slopes, offsets = [k for k, _ in lines], [c for _, c in lines]
        self.runs = runs  # (first line, weighted values)
        self.steps = [b - a for a, b in pairwise(self.slopes)]
        self.crossings = [(a - b) / step for (a, b), step in zip(pairwise(offsets), self.steps, strict=True)]
        self.h = smallest(b - a for a, b in pairwise(self.crossings))
        self.on_line: list[list[int]] = [[] for _ in lines]
        before, after = [arb(0)] * (len(lines) + 1), [arb(0)] * (len(lines) + 1)
        for index, (first, values) in enumerate(runs):
            tick()
            for j in range(first, first + len(values)):
                self.on_line[j].append(index)
            before[first + len(values)] += values[-1]
            after[first] += values[0]
        #: what heads add whose runs end before line j, and what those add whose runs begin at line j or after it
        self.before = list(accumulate(before))
        self.after = list(accumulate(reversed(after)))[::-1]

    @classmethod
    def of(cls, heads: Sequence[StoredHead]) -> _Runs | None:
        """None unless every head has a run of the common lines, in order, and the crossings stand apart."""
        own = [list(zip(map(float, head.slopes), map(float, head.offsets), strict=True)) for head in heads]
        for head, floats in zip(heads, own, strict=True):
            if any(arb(k) != a or arb(c) != b for (k, c), a, b in zip(floats, head.slopes, head.offsets, strict=True)):
                return None
        lines = sorted({line for floats in own for line in floats})
        place = {line: j for j, line in enumerate(lines)}
        for floats in own:
            if [place[line] for line in floats] != list(range(place[floats[0]], place[floats[0]] + len(floats))):
                return None
        if len(lines) < 3 or any(a == b for (a, _), (b, _) in pairwise(lines)):
            return None
        values = [[head.weight * v for v in head.values] for head in heads]
        runs = cls(
            [(arb(k), arb(c)) for k, c in lines],
            [(place[floats[0]], v) for floats, v in zip(own, values, strict=True)],
        )
        return runs if runs.h > 0 else None

    def values(self, j: int, other: int) -> tuple[arb, arb, arb]:
        """What the heads add up to where line j is on top, where its neighbour is, and how far apart the values are of
        those heads that have both."""
        low, high = min(j, other), max(j, other)
        at_j = at_other = self.before[low] + self.after[high + 1]
        apart = arb(0)
        for index in {*self.on_line[j], *self.on_line[other]}:
            first, values = self.runs[index]
            here, there = (i - first if first <= i < first + len(values) else None for i in (j, other))
            at_j += values[there if here is None else here]  # type: ignore[index]
            at_other += values[here if there is None else there]  # type: ignore[index]
            if here is not None and there is not None:
                apart += abs(values[here] - values[there])
        return at_j, at_other, apart


def _worst_half_cell(runs: _Runs, formula: Expression, lo: arb, hi: arb, holes: Sequence[Hole]) -> tuple[arb, arb]:
    """The largest error of a mean of the two values of a half cell, and the largest distance between them. Where a hole
    keeps s away from the crossing, the other line weighs little."""
    worst = farthest = arb(0)
    last, x, h = len(runs.slopes) - 1, runs.crossings, runs.h
    for j in range(last + 1):
        left = x[j - 1] if j else lo.min(x[0] - h)
        right = x[j] if j < last else hi.max(x[-1] + h)
        split = x[0] - h / 2 if j == 0 else x[-1] + h / 2 if j == last else (left + right) / 2
        for start, end, other in ((left, split, max(j - 1, 0)), (split, right, min(j + 1, last))):
            tick()
            if end < lo or start > hi:
                continue
            here, there, apart = runs.values(j, other)
            farthest = farthest.max(apart)
            for a, b in _pieces(start.max(lo), end.min(hi), holes):
                target = series(formula, a.union(b), 0)[0]
                error, neighbour = abs(here - target), abs(there - target)
                near = (x[j] - b if other > j else a - x[j - 1]).max(arb(0)).lower() if other != j else arb(0)
                weight = 1 / (1 + (abs(runs.slopes[other] - runs.slopes[j]) * near).exp())
                worst = worst.max(error.max(neighbour).min(error + weight * abs(there - here)))
    return worst.upper(), farthest.upper()  # a NaN stays one


def _pieces(a: arb, b: arb, holes: Sequence[Hole]) -> Iterator[tuple[arb, arb]]:
    """What the holes leave of [a, b], rounded outward."""
    for start, end in holes:
        tick()
        if start < b and end > a:
            if not start < a:
                yield from _pieces(a, start.max(a), holes[1:])
            if not end > b:
                yield from _pieces(end, b, holes[1:])
            return
        holes = holes[1:]
    yield a, b


def _envelope(head: StoredHead, lo: arb, hi: arb) -> list[arb]:
    """Scores that bound the top score from below: it is convex, so lowest at a crossing or an end."""
    k, c = head.slopes, head.offsets
    crossings = [(a - b) / (d - e) for (a, b), (e, d) in zip(pairwise(c), pairwise(k), strict=True)]
    at_crossings = [k[j] * x + c[j] for j, x in enumerate(crossings) if not (x < lo or x > hi)]
    ends = [max((k * s + c for k, c in zip(k, c, strict=True)), key=float) for s in (lo, hi)]
    return [*at_crossings, *ends]


def _rounding(heads: Sequence[StoredHead], s: arb, tau: arb, moved: arb) -> arb:
    """moved bounds the sum over all heads of the mean distance of a value from the output."""
    worst, total = arb(0), arb(0)
    for head in heads:
        u, tiny, count = UNIT[head.dtype], SMALLEST[head.dtype], len(head.slopes)
        largest_value = largest(abs(v) for v in head.values)
        product = largest(abs(k) for k in head.slopes) * s
        score = product + largest(abs(c) for c in head.offsets)
        delta = u * (1 + u) * product + u * score + LOST_SCORE[head.dtype]
        if head.off is not None:
            delta = largest(head.off)
        d = delta + u * (1 + u) * 2 * (score + delta) + exp_error(head.dtype)
        growth = (d.expm1() + 2 * count * tiny).upper()
        slack = (1 + growth) / (1 - growth) * (1 + 4 * count * u)  # (1 + u)^n <= 1 + 4 n u for n u <= 1
        summing = (u + tau).min((count + 2) * u) * slack**2  # two heavy terms and light ones, or any at all
        if growth < SMALL and summing < SMALL:
            worst = worst.max(growth)
            machine = Machine(head.dtype)
            units = machine.row("matrix product").units + machine.row("division").units
            products = SPARE * (units + (head.off is not None))  # and the value's own rounding
            here = largest_value * (2 * summing * slack / (1 - summing) + products * u * slack)
            here += underflow(count, largest_value, head.dtype)
        else:
            here = coarse(head, [d.upper()] * count, [abs(v).upper() for v in head.values])
        total += abs(head.weight) * here
    return (total + worst * moved / (1 - worst)).upper()
