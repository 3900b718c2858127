"""Numbers known up to a radius, as arrays: |x - mid| <= rad. Plain float64 with every rounding counted.

For what is affine in thousands of numbers, where one ball at a time would be slow. A product or a sum that is exact in
float64 (a copy, a power of two) keeps radius 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from weightwright.limits import hold, tick
from weightwright.numbers import Bools, Floats

U = 2.0**-53
#: More than anything that products and sums of this length can lose below the normal range.
LOST = 2.0**-1000
#: More than (1 + 2 U)^n for every n up to 2^38: what a short computation in float64 can be off by, relatively.
ROOM = 1.0001
#: The same for n up to 2^10, where the difference counts.
CLOSE = 1.0 + 2.0**-40
#: More than (1 + u)^2 ROOM for the unit roundoff u of every dtype, of which bfloat16's, 2^-8, is the largest.
SPARE = 1.01
#: Arrays of the size of a product that are there at the same time while it is computed.
_ARRAYS = 8


def above(x: Floats, roundings: int) -> Floats:
    """At least the exact value of nonnegative x that was computed with at most `roundings` roundings of each part."""
    return x * (1.0 + 4.0 * (roundings + 2) * U)


def gamma(roundings: npt.ArrayLike, unit: float = U) -> Floats:
    """n u / (1 - n u), rounded up; infinite where n u is no longer small."""
    small = np.asarray(roundings, dtype=np.float64) * unit
    return np.where(small < 0.25, above(small / (1.0 - np.minimum(small, 0.25)), 4), np.inf)


def power_of_two(x: Floats) -> npt.NDArray[np.bool_]:
    """Whether a product with x is exact, as long as nothing underflows: 0 or a power of two."""
    return (x == 0) | (np.abs(np.frexp(x)[0]) == 0.5)


@dataclass(frozen=True)
class Balls:
    """Arrays of equal shape; rad is at least 0, or infinite or NaN where nothing is known."""

    mid: Floats
    rad: Floats

    @classmethod
    def exact(cls, values: Floats) -> Balls:
        return cls(values, np.zeros_like(values))

    def magnitude(self) -> Floats:
        return above(np.abs(self.mid) + self.rad, 1)

    def __add__(self, other: Balls) -> Balls:
        mid = self.mid + other.mid
        exact = (self.mid == 0) | (other.mid == 0) | (mid == 0)  # what cancels to 0 cancels exactly
        rad = np.where(exact, 0.0, U * np.abs(mid) + LOST)
        return Balls(mid, _sum_of_radii(self.rad, other.rad, rad))

    def __sub__(self, other: Balls) -> Balls:
        return self + Balls(-other.mid, other.rad)


def _sum_of_radii(*parts: Floats) -> Floats:
    total = sum(parts[1:], parts[0])
    return np.where(total == 0, 0.0, above(total, len(parts)))


def product_of_balls(A: Balls, X: Balls) -> Balls:
    """A @ X. Every entry is a sum of `count` products of numbers that are not 0, in any order. What underflows is
    made up for by LOST, wherever a product is not 0."""
    hold(_ARRAYS * A.mid.shape[0] * X.mid.shape[-1])
    count = _products(A.mid != 0, X.mid != 0)
    inexact = _products((A.mid != 0) & ~power_of_two(A.mid), (X.mid != 0) & ~power_of_two(X.mid))
    uncertain = _products(A.mid != 0, X.rad != 0) + _products(A.rad != 0, (X.mid != 0) | (X.rad != 0))
    mid = A.mid @ X.mid
    size = np.abs(A.mid) @ np.abs(X.mid)
    exact = (count == 0) | ((count == 1) & (inexact == 0) & (size > LOST))
    own = np.where(exact, 0.0, gamma(count) * size + LOST)
    rad = np.abs(A.mid) @ X.rad + A.rad @ (np.abs(X.mid) + X.rad) + own + np.where(uncertain > 0, LOST, 0.0)
    return Balls(mid, np.where(rad == 0, 0.0, above(rad, A.mid.shape[1] + 4)))


def _products(a: Bools, b: Bools) -> Floats:
    """How many products of the sum in every entry are of this kind."""
    tick()
    count: Floats = a.astype(np.float64) @ b.astype(np.float64)
    return count
