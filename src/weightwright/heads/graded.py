"""Graded keys: soft anchors that crowd towards a singularity just outside the interval.

A uniform grid needs a spacing as small as the distance to the singularity of f, everywhere. Here the spacing is
proportional to that distance: anchors are evenly spaced in t = log(s - left), or log((s - left) / (right - s)) for one
on each side. Scores are lines again, k_j s + c_j: the slopes of neighbours differ by 2 c over their spacing, and they
cross half way. The widest anchors have slope 0, for rounding of a score grows with its slope; a steep line is only seen
where s, counted from the singularity, is small. Values are solved for, as on a uniform grid.

With spacing h in t the weights add up to about s^(-2c/h) before they are normalised, so the head fits functions that
times this power are sums of exponentials: powers, logarithms, and what is made of them. The error falls exponentially
with 1/h, and the number of keys grows with the logarithm of (length of the interval / distance of the singularity).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from weightwright.heads.assemble import Table
from weightwright.heads.one_sided import Fitted, fit_together
from weightwright.heads.spectral import LEAST_RIDGE, RIDGE
from weightwright.network.layers import Floats

SPACINGS = (0.8, 0.6, 0.5, 0.4, 0.33, 0.27, 0.22, 0.18, 0.15)  # in t
#: (c, anchors outside the interval on each side): sharper weights need fewer outside.
SHAPES = ((0.2, 2), (0.2, 4), (0.15, 6), (0.1, 8), (0.2, 8), (0.05, 11))
PROVABLE = 3  # fits to hand out for one aim
HOPELESS = 30.0  # times the aim: a finer spacing lowers the error by less
_PER_KEY = 4  # samples
_FIRST, _LINEAR = 5, 0.2  # the first ratio of Taylor coefficients that counts, and how far they may be off a line


@dataclass(frozen=True)
class Grading:
    """Anchors crowd towards two points outside the interval, of which one may be infinitely far."""

    left: float
    right: float

    def level(self, s: float) -> float:
        """t, in which anchors are evenly spaced."""
        below = math.log(s - self.left) if math.isfinite(self.left) else 0.0
        return below - (math.log(self.right - s) if math.isfinite(self.right) else 0.0)

    def place(self, t: Floats) -> Floats:
        """The s of a level."""
        if not math.isfinite(self.right):
            return self.left + np.exp(t)
        if not math.isfinite(self.left):
            return self.right - np.exp(-t)
        return self.left + (self.right - self.left) * np.asarray(expit(t))

    def even(self, lo: float, hi: float, count: int) -> Floats:
        """So many points from lo to hi, evenly spaced in t."""
        inside = self.place(np.linspace(self.level(lo), self.level(hi), count)[1:-1])
        return np.unique(np.concatenate([[lo], np.clip(inside, lo, hi), [hi]]))


class Designer:
    """Finds a graded head for f on [lo, hi] with few keys; remembers what it has fitted."""

    def __init__(
        self, f: Callable[[Floats], Floats], lo: float, hi: float, grading: Grading, tol: float, most: int, dtype: str
    ) -> None:
        self.f, self.lo, self.hi, self.grading, self.most, self.dtype = f, lo, hi, grading, most, dtype
        spread = float(np.ptp(f(grading.even(lo, hi, 129))))
        self.ridge = float(np.clip(RIDGE * tol / (spread or math.inf), LEAST_RIDGE, 1.0))
        self._fits: dict[float, list[Fitted]] = {}

    def candidates(self, aim: float) -> Iterator[Fitted]:
        """Fits in the order in which to try to prove them: fewest keys that seem to meet `aim` first.

        Where none seems to, the best fit of all.
        """
        met = 0
        for spacing in SPACINGS:
            good = [fit for fit in self.fits(spacing) if fit.error <= aim]
            if good:  # the smallest values: rounding grows with them
                yield min(good, key=lambda fit: float(np.abs(fit.tables[0].values).max()))
                met += 1
            if met == PROVABLE:
                return
        if not met:
            yield from sorted((fit for fits in self._fits.values() for fit in fits), key=lambda fit: fit.error)[:1]

    def fits(self, spacing: float) -> list[Fitted]:
        """One for every shape that takes no more keys than there may be."""
        if spacing not in self._fits:
            tables = [graded_keys(self.lo, self.hi, self.grading, spacing, *shape) for shape in SHAPES]
            with np.errstate(all="ignore"):
                self._fits[spacing] = [self._fit(table) for table in tables if table.size <= self.most]
        return self._fits[spacing]

    def _fit(self, table: Table) -> Fitted:
        s = self.grading.even(self.lo, self.hi, _PER_KEY * table.size)
        return fit_together([table], self.f, s, self.ridge, self.dtype)


def graded_keys(lo: float, hi: float, grading: Grading, spacing: float, c: float, pad: int) -> Table:
    """Keys for [lo, hi], so many of them outside on each side; the values are still 0."""
    first, last = grading.level(lo), grading.level(hi)
    count = math.ceil((last - first) / spacing)
    t = first + (last - first) / count * np.arange(-pad, count + pad + 1)
    anchors = grading.place(t)
    steps, middles = np.diff(anchors), anchors[:-1] / 2 + anchors[1:] / 2
    slopes = np.append(0.0, np.cumsum(2 * c / steps))
    widest = int(steps.argmax()) + (not math.isfinite(grading.right))
    slopes -= slopes[widest]
    offsets = np.append(0.0, np.cumsum(-np.diff(slopes) * middles))
    return Table(slopes, offsets - offsets[widest], np.zeros(len(slopes)))


def singularity(coefficients: Floats) -> float:
    """How far the nearest singularity is from where f has these Taylor coefficients: positive to the right, negative
    to the left; infinite where none on the line is seen.

    For (t - d)^a and the like the ratio of neighbouring coefficients is (1 - (a + 1) / n) / d, a line in 1 / n.

    >>> round(singularity(np.array([3.0**n for n in range(15)])), 12)  # 1 / (1 - 3 t)
    0.333333333333
    """
    n = np.arange(_FIRST, len(coefficients))
    with np.errstate(all="ignore"):
        ratios = coefficients[n] / coefficients[n - 1]
    if not np.isfinite(ratios).all():
        return math.inf
    slope, limit = np.polyfit(1 / n, ratios, 1)
    off = np.abs(ratios - limit - slope / n).max()
    one_sided = bool((ratios * limit > 0).all())
    return float(1 / limit) if one_sided and off <= _LINEAR * abs(limit) else math.inf
