"""The prover's terms for heads that pick the nearest anchor, several heads sharing one list of anchors.

Proposed in plain floats with room to spare; the checker's rule "nearest" decides. The lemma is in
docs/certificates.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from weightwright.claims.certificate import Terms
from weightwright.enclosures.intervals.jets import values
from weightwright.expressions import Expression
from weightwright.numbers import SMALLEST, UNIT, Floats
from weightwright.prover.machine import AMPLY, EXP_UNITS, SLIGHTLY, SPARE
from weightwright.prover.rounding import LOST_SCORE, SMALL

SLACK = 1.0 + 2.0**-9


@dataclass(frozen=True)
class Lines:
    """Scores slopes_j s + offsets_j, beta included, sorted by slope; every head has a run (first line, values)."""

    slopes: Floats
    offsets: Floats
    runs: tuple[tuple[int, Floats], ...]

    @property
    def crossings(self) -> Floats:
        return -np.diff(self.offsets) / np.diff(self.slopes)

    def tail(self) -> float:
        """tau: what all anchors but two weigh together at most; infinite where the lemma, which takes three lines, says
        nothing."""
        if len(self.slopes) < 3:
            return math.inf
        step = float(np.diff(self.slopes).min())
        gap = float(np.diff(self.crossings).min()) if step > 0 else 0.0
        q = math.exp(-step * gap / 2) if gap > 0 else 1.0
        return q / (1 - q**3) + q**2 / (1 - q**4) if q < 1 else math.inf

    def values_of_cells(self) -> tuple[Floats, Floats, Floats]:
        """For j and j+1: what the heads add up to where j is on top, where j+1 is, and how far apart values are."""
        count = len(self.slopes) - 1
        left, right, apart = np.zeros((3, count))
        for first, own in self.runs:
            last = first + len(own) - 1
            inner = slice(first, last)
            left[:first] += own[0]
            right[:first] += own[0]
            left[inner] += own[:-1]
            right[inner] += own[1:]
            apart[inner] += np.abs(np.diff(own))
            left[last:] += own[-1]
            right[last:] += own[-1]
        return left, right, apart


def propose_nearest(lines: Lines, formula: Expression, lo: float, hi: float, zones: Floats, dtype: str) -> Terms:
    """Terms on [lo, hi] outside the zones, which stand around crossings."""
    x, steps, tau = lines.crossings, np.diff(lines.slopes), lines.tail()
    left, right, apart = lines.values_of_cells()
    h = float(np.diff(x).min())
    middles = np.concatenate([[x[0] - h / 2], (x[:-1] + x[1:]) / 2, [x[-1] + h / 2]])
    near = np.zeros(len(x))
    for start, end in zones:
        inside = (x > start) & (x < end)
        near[inside] = np.minimum(x[inside] - start, end - x[inside]) * (1 - 1e-3)
    weight = 1 / (1 + np.exp(np.minimum(steps * near, 700.0)))
    worst = _beyond(formula, float(left[0]), lo, min(middles[0], hi)) if lo < middles[0] else 0.0
    worst = max(worst, _beyond(formula, float(right[-1]), max(middles[-1], lo), hi) if hi > middles[-1] else 0.0)
    for side, (here, there) in ((-1, (left, right)), (1, (right, left))):
        crossing_end = x + side * near
        outer = middles[:-1] if side < 0 else middles[1:]
        a, b = np.clip(np.minimum(crossing_end, outer), lo, hi), np.clip(np.maximum(crossing_end, outer), lo, hi)
        used = (np.maximum(crossing_end, outer) >= lo) & (np.minimum(crossing_end, outer) <= hi)
        if not used.any():
            continue
        inner = (b - a) * 1e-9
        targets = [values(formula, np.clip(s, lo, hi)) for s in (a + inner, (a + b) / 2, b - inner)]
        error = np.max([np.abs(here - target) for target in targets], axis=0)
        other = np.max([np.abs(there - target) for target in targets], axis=0)
        piece = np.minimum(np.maximum(error, other), error + weight * np.abs(there - here))
        worst = max(worst, float(piece[used].max()))
    spread = sum(float(np.ptp(own)) for _, own in lines.runs)
    rounding = _rounding(lines, max(abs(lo), abs(hi)), tau, float(apart.max()) / 2 + 2 * tau * spread, dtype)
    return Terms(worst * SLACK + 1e-12 * (hi - lo), tau * spread * SLACK + 1e-300, rounding * SLACK)


def _beyond(formula: Expression, value: float, a: float, b: float) -> float:
    """Where one anchor alone is near the top: the first or the last."""
    return float(np.abs(values(formula, np.linspace(a, b, 257)) - value).max())


def _rounding(lines: Lines, s: float, tau: float, moved: float, dtype: str) -> float:
    u = UNIT[dtype]
    total = worst = 0.0
    for first, own in lines.runs:
        run = slice(first, first + len(own))
        product = float(np.abs(lines.slopes[run]).max()) * s
        score = product + float(np.abs(lines.offsets[run]).max())
        delta = u * (product + score) * SPARE + LOST_SCORE[dtype]
        d = delta + 2 * u * SPARE * (score + delta) + AMPLY * EXP_UNITS["dot"][dtype] * u
        largest, count = float(np.abs(own).max()), len(own)
        growth = math.expm1(min(d, 0.5)) * SLIGHTLY
        slack = (1 + growth) / (1 - growth) * (SLIGHTLY**2 + 4 * count * u)
        summing = min(u + tau, (count + 2) * u) * slack**2
        if max(growth, summing) < SMALL / SLIGHTLY:
            worst = max(worst, growth)
            total += largest * (2 * summing * slack / (1 - summing) + 3.2 * u * slack)
            total += (4 * count + 12) * SMALLEST[dtype] * (1 + largest)
        else:
            roundings = (2 * count + 6) * u
            total += largest * (2 * math.tanh(d / 2) + roundings / (1 - roundings)) if roundings < 0.5 else math.inf
    return (total + worst * moved / (1 - worst)) * AMPLY
