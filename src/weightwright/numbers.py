"""Arrays of numbers, the dtypes that weights are stored in, and rounding to them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from numbers import Integral, Real
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


def as_fraction(number: Any) -> Fraction:
    """A number of Python's or of numpy's types, exactly.

    >>> as_fraction(np.int64(3)), as_fraction(np.float32(0.5)), as_fraction(0.25)
    (Fraction(3, 1), Fraction(1, 2), Fraction(1, 4))
    """
    if isinstance(number, Fraction):
        return number
    return Fraction(int(number)) if isinstance(number, Integral) else Fraction(float(number))


def is_positive(number: object) -> bool:
    """Whether it is a finite number above 0, of whatever type; True and False are none.

    >>> is_positive(0.5), is_positive(np.float32(2)), is_positive(math.inf), is_positive("1"), is_positive(True)
    (True, True, False, False, False)
    """
    return not isinstance(number, bool) and isinstance(number, Real) and 0.0 < float(number) < math.inf


def counted(count: int, what: str) -> str:
    """
    >>> counted(1, "dead zone"), counted(1200, "anchor")
    ('1 dead zone', '1,200 anchors')
    """
    return f"{count:,} {what}{'' if count == 1 else 's'}"


@dataclass(frozen=True)
class Format:
    """A binary floating-point format, as IEEE 754 has it.

    >>> FORMATS["float32"].unit == 2.0**-24, FORMATS["float32"].smallest == 2.0**-126
    (True, True)
    """

    name: str
    bits: int  # significant bits, the hidden one included
    lowest: int  # exponent of the smallest positive number, which is subnormal
    bytes: int

    @property
    def unit(self) -> float:
        """Unit roundoff: rounding to nearest moves a normal number x by at most unit |x|."""
        return 2.0**-self.bits

    @property
    def smallest(self) -> float:
        """The smallest positive normal number."""
        return 2.0**self.least_exponent

    @property
    def least_exponent(self) -> int:
        """The exponent of the smallest positive normal number."""
        return self.lowest + self.bits - 1


FORMATS = {
    format.name: format
    for format in (Format("float64", 53, -1074, 8), Format("float32", 24, -149, 4), Format("bfloat16", 8, -133, 2))
}
#: Unit roundoff by dtype, relative to a normal number.
UNIT = {name: format.unit for name, format in FORMATS.items()}
#: The smallest positive normal number by dtype: what is smaller may be flushed to 0.
SMALLEST = {name: format.smallest for name, format in FORMATS.items()}


def rounded(array: Floats, dtype: str) -> Floats:
    """Every entry rounded to the nearest number of the dtype (ties to even). In bfloat16 what is below the smallest
    normal number becomes 0: processors may take it for 0 in a product."""
    if dtype == "float64":
        return array
    if dtype == "float32":
        with np.errstate(over="ignore"):
            return array.astype(np.float32).astype(np.float64)
    format = FORMATS[dtype]
    _, exponent = np.frexp(array)
    unit = np.ldexp(1.0, np.maximum(exponent - format.bits, format.lowest))
    nearest = np.round(array / unit) * unit
    nearest = np.where(np.abs(nearest) < format.smallest, 0.0, nearest)
    return np.where(np.abs(nearest) < 2.0**128, nearest, np.copysign(np.inf, nearest))
