"""A box of inputs: an interval for every feature, or for every token and feature."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any, SupportsFloat

import numpy as np
import numpy.typing as npt

from weightwright.errors import DomainError

Floats = npt.NDArray[np.float64]
End = SupportsFloat | str | Fraction


@dataclass(frozen=True)
class Box:
    """All inputs with lo <= x <= hi, feature by feature.

    Ends may be numbers, exact fractions or decimal texts; an end that is no float is rounded
    outward, so that the box contains everything that was asked for.

    >>> Box("0.1", 1)  # the float nearest to one tenth lies above it
    Box([0.09999999999999999], [1.0])
    """

    lo: Floats
    hi: Floats

    def __init__(self, lo: End | Sequence[End] | Floats, hi: End | Sequence[End] | Floats) -> None:
        lo_array = _ends("lo", lo, -math.inf)
        hi_array = _ends("hi", hi, math.inf)
        if lo_array.shape != hi_array.shape:
            raise DomainError(f"domain: lo has shape {lo_array.shape} and hi has shape {hi_array.shape}")
        for index in zip(*np.nonzero(~(lo_array < hi_array)), strict=True):
            raise DomainError(
                f"domain: lo must be below hi, but feature {index[-1]} has lo = {float(lo_array[index])!r}"
                f" and hi = {float(hi_array[index])!r}"
            )
        object.__setattr__(self, "lo", lo_array)
        object.__setattr__(self, "hi", hi_array)

    @classmethod
    def of(cls, domain: Box | tuple[End, End]) -> Box:
        """A box, or a pair (lo, hi) that makes one."""
        if isinstance(domain, Box):
            return domain
        try:
            lo, hi = domain
        except (TypeError, ValueError):
            raise DomainError(f"domain: a pair (lo, hi) or a Box was expected, not {domain!r}") from None
        return cls(lo, hi)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Box) and np.array_equal(self.lo, other.lo) and np.array_equal(self.hi, other.hi)

    def __hash__(self) -> int:
        return hash((self.lo.tobytes(), self.hi.tobytes()))

    def __repr__(self) -> str:
        return f"Box({self.lo.tolist()}, {self.hi.tolist()})"


def _ends(name: str, ends: Any, outward: float) -> Floats:
    """An array of floats: (features,) or (tokens, features)."""
    if isinstance(ends, np.ndarray) and ends.dtype == np.float64 and ends.ndim and np.isfinite(ends).all():
        own = np.array(ends)
        own.flags.writeable = False
        return own

    def rounded(item: Any) -> Any:
        listed = isinstance(item, list | tuple | np.ndarray) and np.ndim(item) > 0
        return [rounded(inner) for inner in item] if listed else _end(name, item, outward)

    try:
        array = np.atleast_1d(np.array(rounded(ends), dtype=np.float64))
    except ValueError as error:
        raise error if isinstance(error, DomainError) else DomainError(f"domain: {name} is ragged: {ends!r}") from None
    array.flags.writeable = False
    return array


def _end(name: str, end: End, outward: float) -> float:
    try:
        exact = (
            _decimal(end) if isinstance(end, str) else Fraction(end if isinstance(end, int | Fraction) else float(end))
        )
        nearest = float(exact)
    except (ValueError, OverflowError, TypeError, InvalidOperation):
        raise DomainError(f"domain: {name} must be a finite number, not {end!r}") from None
    inside = exact < Fraction(nearest) if outward < 0 else exact > Fraction(nearest)
    return math.nextafter(nearest, outward) if inside else nearest


def _decimal(text: str) -> Fraction:
    """The exact value of a decimal; exponents that no float has are not expanded."""
    number = Decimal(text)
    if not number.is_finite() or (number and abs(number.adjusted()) > 400):
        raise ValueError(text)
    return Fraction(number)
