"""The prover's arithmetic: numpy arrays of intervals, every operation rounded outward.

+ - * / and sqrt are correctly rounded by IEEE arithmetic, so one step outward is enough. The library's
exp, log, sin, ... are taken to be within LIBRARY_ULPS; the checker, which decides, relies on none of this.
A NaN end means that nothing is known: every comparison with it fails, so it never proves anything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from scipy import special

from weightwright.numbers import Bools, Floats

LIBRARY_ULPS = 8
TINY = 2.0**-1022


#: As arrays: a number would be made one in every call.
_LOWEST, _HIGHEST = np.array(-np.inf), np.array(np.inf)


def down(x: Floats | np.float64) -> Floats:
    return np.nextafter(x, _LOWEST)


def up(x: Floats | np.float64) -> Floats:
    return np.nextafter(x, _HIGHEST)


@dataclass(frozen=True, eq=False)
class Interval:
    """All reals between lo and hi, entry by entry."""

    lo: Floats
    hi: Floats

    @classmethod
    def exact(cls, x: Floats | float) -> Interval:
        array = np.asarray(x, dtype=np.float64)
        return cls(array, array)

    @classmethod
    def rational(cls, value: Fraction) -> Interval:
        try:
            nearest = np.float64(float(value))
        except OverflowError:
            return UNKNOWN
        if Fraction(float(nearest)) == value:
            return cls.exact(nearest)
        return cls(down(nearest), up(nearest))

    def __neg__(self) -> Interval:
        return Interval(-self.hi, -self.lo)

    def __add__(self, other: Interval) -> Interval:
        return Interval(down(self.lo + other.lo), up(self.hi + other.hi))

    def __sub__(self, other: Interval) -> Interval:
        return Interval(down(self.lo - other.hi), up(self.hi - other.lo))

    def __mul__(self, other: Interval) -> Interval:
        if other.lo is other.hi:
            self, other = other, self
        a, b = self.lo * other.lo, self.lo * other.hi
        least, most = np.minimum(a, b), np.maximum(a, b)
        if self.lo is not self.hi:  # of an exact number the other two products are the same
            c, d = self.hi * other.lo, self.hi * other.hi
            least, most = np.minimum(least, np.minimum(c, d)), np.maximum(most, np.maximum(c, d))
        return Interval(down(least), up(most))

    def __truediv__(self, other: Interval) -> Interval:
        through_zero = (other.lo <= 0) & (other.hi >= 0)
        lo, hi = np.where(through_zero, np.nan, other.lo), np.where(through_zero, np.nan, other.hi)
        return self * Interval(down(1 / hi), up(1 / lo))

    def __getitem__(self, index: Any) -> Interval:
        return Interval(self.lo[index], self.hi[index])

    def sum(self) -> Interval:
        """The sum over the last axis, in whatever order numpy takes."""
        n = self.lo.shape[-1]
        slack = up(up(2.0 * n * 2.0**-53 * self.magnitude().sum(-1)) + n * TINY)
        return Interval(down(self.lo.sum(-1) - slack), up(self.hi.sum(-1) + slack))

    def magnitude(self) -> Floats:
        """The largest absolute value."""
        return np.maximum(np.abs(self.lo), np.abs(self.hi))

    def absolute(self) -> Interval:
        through_zero = (self.lo <= 0) & (self.hi >= 0)
        least = np.minimum(np.abs(self.lo), np.abs(self.hi))
        return Interval(np.where(through_zero, 0.0, least), self.magnitude())

    def hull(self, other: Interval) -> Interval:
        return Interval(np.minimum(self.lo, other.lo), np.maximum(self.hi, other.hi))

    def where(self, condition: Bools, other: Interval) -> Interval:
        return Interval(np.where(condition, self.lo, other.lo), np.where(condition, self.hi, other.hi))

    def middle(self) -> Floats:
        return self.lo / 2 + self.hi / 2


ZERO, ONE = Interval.exact(0.0), Interval.exact(1.0)
PI = Interval(np.array(np.pi), up(np.float64(np.pi)))  # the float below pi, and the next one
EULER = Interval(np.array(np.e), up(np.float64(np.e)))
UNKNOWN = Interval.exact(np.nan)


def line_difference(k: Floats, k_0: Floats, c: Floats, c_0: Floats, m: Floats) -> Interval:
    """(k - k_0) m + (c - c_0) for floats, as sharp as if it were computed exactly and rounded: where steep lines cross,
    the two parts cancel. The roundings of sums and products are themselves floats (Knuth, Dekker); a NaN where one
    overflows."""
    slope, slope_rest = _exact_sum(k, -k_0)
    height, height_rest = _exact_sum(c, -c_0)
    product, product_rest = _exact_product(slope, m)
    total, total_rest = _exact_sum(product, height)
    rest = Interval.exact(slope_rest) * Interval.exact(m) + Interval.exact(height_rest)
    rest = rest + Interval.exact(product_rest) + Interval.exact(total_rest)
    known = np.isfinite(rest.lo) & np.isfinite(rest.hi) & (np.abs(product) < 1e290)
    # below the normal range a product's rest is not exact
    tiny = Interval(np.full_like(total, -TINY), np.full_like(total, TINY))
    enclosed = Interval.exact(total) + rest + tiny
    return Interval(np.where(known, enclosed.lo, np.nan), np.where(known, enclosed.hi, np.nan))


def _exact_sum(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """The rounded sum and what rounding took off."""
    total = a + b
    shadow = total - a
    return total, (a - (total - shadow)) + (b - shadow)


def _exact_product(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """The rounded product and what rounding took off, unless something overflows or underflows."""
    product = a * b
    a_hi, a_lo = _halves(a)
    b_hi, b_lo = _halves(b)
    return product, ((a_hi * b_hi - product) + a_hi * b_lo + a_lo * b_hi) + a_lo * b_lo


def _halves(x: Floats) -> tuple[Floats, Floats]:
    """Two floats of half the bits each that add up to x."""
    scaled = x * 134217729.0  # 2^27 + 1
    high = scaled - (scaled - x)
    return high, x - high


def _increasing(function: Callable[[Floats], Floats], lowest: float, highest: float) -> Callable[[Interval], Interval]:
    """The interval version of an increasing library function with values in [lowest, highest]."""

    def outward(x: Interval) -> Interval:
        lo, hi = function(x.lo), function(x.hi)
        lo = lo - LIBRARY_ULPS * np.spacing(np.abs(lo)) - TINY
        hi = hi + LIBRARY_ULPS * np.spacing(np.abs(hi)) + TINY
        return Interval(np.maximum(lo, lowest), np.minimum(hi, highest))

    return outward


exp = _increasing(np.exp, 0.0, np.inf)
atan = _increasing(np.arctan, -2.0, 2.0)
tanh = _increasing(np.tanh, -1.0, 1.0)
sigmoid = _increasing(special.expit, 0.0, 1.0)
softplus = _increasing(lambda x: np.logaddexp(0.0, x), 0.0, np.inf)
erf = _increasing(special.erf, -1.0, 1.0)


def log(x: Interval) -> Interval:
    positive = Interval(np.where(x.lo > 0, x.lo, np.nan), x.hi)
    return _increasing(np.log, -np.inf, np.inf)(positive)


def sqrt(x: Interval) -> Interval:
    return Interval(np.maximum(down(np.sqrt(np.where(x.lo >= 0, x.lo, np.nan))), 0.0), up(np.sqrt(x.hi)))


def cos(x: Interval) -> Interval:
    """Ends, and the turning points k pi inside (or so near that rounding hides the answer)."""
    slack = 1e-12 * (1 + x.magnitude())
    a, b = np.cos(x.lo), np.cos(x.hi)
    lo, hi = np.minimum(a, b) - 1e-15, np.maximum(a, b) + 1e-15
    first, last = (x.lo - slack) / np.pi, (x.hi + slack) / np.pi
    top = np.floor(last / 2) >= np.ceil(first / 2)  # an even multiple of pi
    bottom = np.floor((last - 1) / 2) >= np.ceil((first - 1) / 2)
    known = x.magnitude() < 1e6  # beyond, the library's reduction is not relied on
    return Interval(
        np.where(bottom | ~known, -1.0, np.maximum(lo, -1.0)),
        np.where(top | ~known, 1.0, np.minimum(hi, 1.0)),
    )


def sin(x: Interval) -> Interval:
    return cos(x - PI / Interval.exact(2.0))


def tan(x: Interval) -> Interval:
    """Increasing between two poles; unknown where a pole may lie inside."""
    slack = 1e-12 * (1 + x.magnitude())
    branch = np.floor((x.lo - slack) / np.pi + 0.5) == np.floor((x.hi + slack) / np.pi + 0.5)
    known = branch & (x.magnitude() < 1e6)
    ends = Interval(np.where(known, x.lo, np.nan), np.where(known, x.hi, np.nan))
    return _increasing(np.tan, -np.inf, np.inf)(ends)
