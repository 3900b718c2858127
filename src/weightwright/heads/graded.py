"""Graded keys: soft anchors that crowd towards a singularity just outside the interval, or towards its middle.

A uniform grid needs a spacing as small as the distance to the singularity of f, everywhere. Here the spacing is
proportional to that distance d, up to a width: anchors are evenly spaced in t = log d + d / width, or, for one
singularity on each side, in the logarithm of the ratio of the distances. Scores are lines again, k_j s + c_j: the
slopes of neighbours differ by 2 c over their spacing, and they cross half way. The widest anchors have slope 0, for
rounding of a score grows with its slope; a steep line is only seen where s, counted from the singularity, is small.
Values are solved for, as on a uniform grid.

With spacing h in t the weights add up to about s^(-2c/h) before they are normalised, so the head fits functions that
times this power are sums of exponentials: powers, logarithms, and what is made of them. The error falls exponentially
with 1/h, and the number of keys grows with the logarithm of (length of the interval / distance of the singularity).

A function that does something in the middle of a long interval and little else (gelu on [-100, 100]) has its
singularities beside the middle, off the line: anchors evenly spaced in arsinh((s - centre) / width) are as far apart as
the width in the middle, and ever farther outside.

The square in few bits, accurate relative to x^2 + tiny: two heads whose keys crowd towards 0, one from each side.

A uniform grid squares with an absolute error of about 1e-6 R^2 in float32 for |x| <= R, also where x is small: a
variance of small numbers drowns in it. Here the right head is about relu(x)^2 and the left one its mirror image. Left
of 0 the right head's steepest key, of value next to 0, has all the weight; right of it only keys as wide as x itself
have weight, so that scores are of order 1 and rounding is relative to x^2. The values are solved for relative to
x^2 + FLOOR R^2.

What is proven is absolute, about 5e-6 R^2 in float32, twice that of a uniform grid. What is measured there: at most
4e-6 (x^2 + 1e-7 R^2), and at most 5e-7 R^2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
from scipy.special import expit, wrightomega

from weightwright.heads.one_sided import fit_together
from weightwright.heads.registers import Design, Query, Table
from weightwright.heads.spectral import LEAST_RIDGE, RIDGE, solve
from weightwright.numbers import Floats

SPACINGS = (0.8, 0.6, 0.5, 0.4, 0.33, 0.27, 0.22, 0.18, 0.15, 0.12, 0.1)  # in t
#: (c, anchors outside the interval on each side): sharper weights need fewer outside.
SHAPES = ((0.2, 2), (0.2, 4), (0.15, 6), (0.1, 8), (0.2, 8), (0.05, 11))
PROVABLE = 2  # fits to hand out for one aim
RESOLVED = 1e-3  # times the range of f
_PER_KEY = 4  # samples
_FIRST, _LINEAR = 5, 0.2  # the first ratio of Taylor coefficients that counts, and how far they may be off a line


@dataclass(frozen=True)
class Grading:
    """Anchors crowd towards two points outside the interval, of which one may be infinitely far; a width is for one."""

    left: float
    right: float
    width: float = math.inf

    @property
    def flat(self) -> int | None:
        """Which of the two keys beside the widest gap has slope 0; the middle key where it is None."""
        return int(not math.isfinite(self.right))

    def level(self, s: float) -> float:
        """t, in which anchors are evenly spaced."""
        below = math.log(s - self.left) + (s - self.left) / self.width if math.isfinite(self.left) else 0.0
        above = math.log(self.right - s) + (self.right - s) / self.width if math.isfinite(self.right) else 0.0
        return below - above

    def place(self, t: Floats) -> Floats:
        """The s of a level."""
        if math.isfinite(self.left) and math.isfinite(self.right):
            return self.left + (self.right - self.left) * np.asarray(expit(t))
        return self.left + self._distance(t) if math.isfinite(self.left) else self.right - self._distance(-t)

    def _distance(self, t: Floats) -> Floats:
        """The d with log d + d / width = t."""
        if not math.isfinite(self.width):
            return np.exp(t)
        return self.width * np.asarray(wrightomega(t - math.log(self.width)))


@dataclass(frozen=True)
class FromMiddle:
    """Anchors are `width` apart around the centre, for a spacing of 1, and farther and farther away from it."""

    centre: float
    width: float

    @property
    def flat(self) -> int | None:
        return None

    def level(self, s: float) -> float:
        return math.asinh((s - self.centre) / self.width)

    def place(self, t: Floats) -> Floats:
        return self.centre + self.width * np.sinh(t)


AnyGrading = Grading | FromMiddle


def places(grading: AnyGrading, lo: float, hi: float, shares: Floats) -> Floats:
    """lo, hi, and what stands at these shares of the way from one to the other in t."""
    first, last = grading.level(lo), grading.level(hi)
    inside = np.clip(grading.place(first + (last - first) * shares), lo, hi)
    return np.unique(np.concatenate([[lo], inside, [hi]]))


@dataclass(frozen=True)
class GradedFit:
    """A table, how its anchors stand, and its error as measured on samples, an estimate of rounding included."""

    table: Table
    grading: AnyGrading
    error: float


class GradedDesigner:
    """Finds a graded head for f on [lo, hi] with few keys; remembers what it has fitted."""

    def __init__(
        self,
        f: Callable[[Floats], Floats],
        lo: float,
        hi: float,
        gradings: Sequence[AnyGrading],
        tol: float,
        most: int,
        dtype: str,
    ) -> None:
        self.f, self.lo, self.hi, self.most, self.dtype = f, lo, hi, most, dtype
        self.gradings = gradings
        self.range = float(np.ptp(f(places(gradings[0], lo, hi, np.linspace(0.0, 1.0, 129)))))
        self.ridge = float(np.clip(RIDGE * tol / (self.range or math.inf), LEAST_RIDGE, 1.0))
        self._fits: dict[tuple[AnyGrading, float], list[GradedFit]] = {}

    def candidates(self, aim: float) -> list[GradedFit]:
        """Fits in the order in which to try to prove them: fewest keys that seem to meet `aim` first.

        Where none seems to, the best fit of all.
        """
        found = [fit for grading in self.gradings for fit in islice(self._good(grading, aim), PROVABLE)]
        if not found:
            return sorted((fit for fits in self._fits.values() for fit in fits), key=lambda fit: fit.error)[:1]
        return sorted(found, key=lambda fit: fit.table.size)[:PROVABLE]

    @property
    def resolves(self) -> bool:
        """Whether a fit so far is near f, compared with its range."""
        return any(fit.error <= RESOLVED * self.range for fits in self._fits.values() for fit in fits)

    def _good(self, grading: AnyGrading, aim: float) -> Iterator[GradedFit]:
        """For every spacing with fits that meet the aim the one with the smallest values: rounding grows with them."""
        for spacing in SPACINGS:
            good = [fit for fit in self.fits(grading, spacing) if fit.error <= aim]
            if good:
                yield min(good, key=lambda fit: float(np.abs(fit.table.values).max()))

    def fits(self, grading: AnyGrading, spacing: float) -> list[GradedFit]:
        """One for every shape that takes no more keys than there may be."""
        if (grading, spacing) not in self._fits:
            tables = [graded_keys(self.lo, self.hi, grading, spacing, *shape) for shape in SHAPES]
            with np.errstate(all="ignore"):
                fits = [self._fit(table, grading) for table in tables if table.size <= self.most]
            self._fits[grading, spacing] = fits
        return self._fits[grading, spacing]

    def _fit(self, table: Table, grading: AnyGrading) -> GradedFit:
        shares = (
            1 - np.cos(np.linspace(0.0, np.pi, _PER_KEY * table.size))
        ) / 2  # closer at the ends, where errors are
        fitted = fit_together([table], self.f, places(grading, self.lo, self.hi, shares), self.ridge, self.dtype)
        return GradedFit(fitted.tables[0], grading, fitted.error)


def graded_keys(lo: float, hi: float, grading: AnyGrading, spacing: float, c: float, pad: int) -> Table:
    """Keys for [lo, hi], `pad` of them outside on each side; the values are still 0."""
    first, last = grading.level(lo), grading.level(hi)
    count = math.ceil((last - first) / spacing)
    anchors = grading.place(first + (last - first) / count * np.arange(-pad, count + pad + 1, dtype=np.float64))
    steps, middles = np.diff(anchors), anchors[:-1] / 2 + anchors[1:] / 2
    slopes = np.append(0.0, np.cumsum(2 * c / steps))
    flat = len(slopes) // 2 if grading.flat is None else int(steps.argmax()) + grading.flat
    slopes -= slopes[flat]
    offsets = np.append(0.0, np.cumsum(-np.diff(slopes) * middles))
    return Table(slopes, offsets - offsets[flat], np.zeros(len(slopes)))


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


WIDTH = 3e-4  # over R: the keys next to 0 are about so far apart
SPACING, SHARPNESS, PAD = 0.3, 0.4, 3
FLOOR = 1e-7
_RIDGE = 1e-8
_SAMPLES = 700
_LEAST = 1e-6  # over R: the smallest sample beside 0
_KEYS_IN_A_BOX = 2


def graded_square(reach: float, dtype: str) -> Design:
    """Two heads that add up to x^2 for |x| <= reach, in numbers of the dtype.

    >>> [table.size for table in graded_square(3.0, "float32").tables]
    [35, 35]
    """
    if not (math.isfinite(reach) and reach > 0):
        raise ValueError(f"reach must be a positive finite number, not {reach!r}")
    query = Query.covering(-reach, reach, dtype)
    grading = Grading(-WIDTH, math.inf)
    right = graded_keys(0.0, 1.0, grading, SPACING, SHARPNESS, PAD).rounded(dtype)
    values = _values(right) / query.scale**2
    right = replace(right, values=values).rounded(dtype)
    left = replace(right, keys=-right.keys)
    half = places(grading, 0.0, 1.0, np.linspace(0.0, 1.0, right.size // _KEYS_IN_A_BOX))
    roles = tuple(f"x**2 for x {side} 0, {right.size} graded anchors" for side in (">", "<"))
    return Design((right, left), roles, 0.0, query=query, edges=np.unique(np.append(-half, half)))


def _values(right: Table) -> Floats:
    """For which the head and its mirror image add up to s^2."""
    s = np.append(0.0, np.geomspace(_LEAST, 1.0, _SAMPLES))
    weights = np.zeros((len(s), right.size))
    for side in (s, -s):
        scores = side[:, None] * right.keys + right.offsets
        w = np.exp(scores - scores.max(axis=1, keepdims=True))
        weights += w / w.sum(axis=1, keepdims=True)
    relative = 1 / (s**2 + FLOOR)
    return solve(weights * relative[:, None], s**2 * relative, _RIDGE)
