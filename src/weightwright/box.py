"""A box of inputs: an interval for every feature, or for every token and feature."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, SupportsFloat

import numpy as np
import numpy.typing as npt

from weightwright.errors import DomainError
from weightwright.limits import hold

Floats = npt.NDArray[np.float64]
End = SupportsFloat | str | Fraction

_DECIMAL = r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
#: A sign, a factor, a constant, a divisor: -pi/2, 2*pi, 1/3.
_END = re.compile(rf"\s*([+-]?)\s*({_DECIMAL})?\s*\*?\s*(pi|e)?\s*(?:/\s*({_DECIMAL}))?\s*", re.ASCII)
#: Decimals just below and just above the constants.
_CONSTANTS = {
    "pi": (Fraction("3.14159265358979323846"), Fraction("3.14159265358979323847")),
    "e": (Fraction("2.71828182845904523536"), Fraction("2.71828182845904523537")),
}


@dataclass(frozen=True)
class Box:
    """All inputs with lo <= x <= hi, feature by feature.

    lo: the lower ends, one for each feature, or (tokens, features).
    hi: the upper ends, of the same shape, each above its lower one.

    Ends may be numbers, exact fractions, or texts: decimals, fractions, and multiples of pi and e, as in "0.1", "1/3",
    "-pi/2" or "2*e". An end that is no float is rounded outward, so that the box contains everything that was asked
    for.

    >>> Box("0.1", "pi")  # the float nearest to one tenth lies above it, that nearest to pi below it
    Box([0.09999999999999999], [3.1415926535897936])
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
                f" and hi = {float(hi_array[index])!r}{_by_feature(lo_array, hi_array)}"
            )
        object.__setattr__(self, "lo", lo_array)
        object.__setattr__(self, "hi", hi_array)

    @classmethod
    def of(cls, domain: Box | tuple[End, End]) -> Box:
        """A box from what arguments called domain take.

        domain: a box, or a pair (lo, hi) that makes one.
        """
        if isinstance(domain, Box):
            return domain
        try:
            if isinstance(domain, str | set):
                raise TypeError
            lo, hi = domain
        except (TypeError, ValueError):
            said = f"domain: a pair (lo, hi) or a Box was expected, not {domain!r}"
            raise DomainError(f"{said}; write (-1, 1), or Box([-1, 0], [1, 2]) for two features") from None
        return cls(lo, hi)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Box) and np.array_equal(self.lo, other.lo) and np.array_equal(self.hi, other.hi)

    def __hash__(self) -> int:
        return hash((self.lo.tobytes(), self.hi.tobytes()))

    def __repr__(self) -> str:
        """What makes the box; of one with many ends, how many there are."""
        whole = f"Box({self.lo.tolist()}, {self.hi.tolist()})"
        if len(whole) < 120:
            return whole
        shape = " x ".join(map(str, self.lo.shape))
        return f"Box({shape} intervals inside [{self.lo.min()!r}, {self.hi.max()!r}])".replace("np.float64", "")


#: What an array of ends takes: a copy, and the comparison with the other ends.
_COPIES = 3


def _ends(name: str, ends: Any, outward: float) -> Floats:
    """An array of floats: (features,) or (tokens, features)."""
    if isinstance(ends, np.ndarray) and ends.dtype == np.float64 and ends.ndim and np.isfinite(ends).all():
        hold(_COPIES * ends.size)
        own = np.array(ends)
        own.flags.writeable = False
        return own

    if isinstance(ends, np.ndarray) and ends.dtype == np.float64 and ends.ndim:
        _end(name, ends[tuple(np.argwhere(~np.isfinite(ends))[0])], outward)

    def rounded(item: Any) -> Any:
        listed = isinstance(item, list | tuple | np.ndarray) and np.ndim(item) > 0
        return [rounded(inner) for inner in item] if listed else _end(name, item, outward)

    try:
        array = np.atleast_1d(np.array(rounded(ends), dtype=np.float64))
    except ValueError as error:
        raise error if isinstance(error, DomainError) else DomainError(f"domain: {name} is ragged: {ends!r}") from None
    array.flags.writeable = False
    return array


def _by_feature(lo: Floats, hi: Floats) -> str:
    """Advice where each feature's ends were given as a pair: the lower ends come first, then the upper ones."""
    pairs = np.stack([lo, hi])
    if pairs.ndim != 2 or pairs.shape[1] != 2 or not (pairs[:, 0] < pairs[:, 1]).all():
        return ""
    return f"; for an interval for each feature write {Box(pairs[:, 0], pairs[:, 1])!r}"


def _end(name: str, end: End, outward: float) -> float:
    try:
        if isinstance(end, str):
            exact = _read_end(end, outward)
        else:
            exact = Fraction(end if isinstance(end, int | Fraction) else float(end))
        nearest = float(exact)
    except (ValueError, OverflowError, TypeError, ArithmeticError):
        advice = "; as a text it may be a decimal, a fraction or a multiple of pi or e" if isinstance(end, str) else ""
        raise DomainError(f"domain: {name} must be a finite number, not {end!r}{advice}") from None
    inside = exact < Fraction(nearest) if outward < 0 else exact > Fraction(nearest)
    return math.nextafter(nearest, outward) if inside else nearest


def _read_end(text: str, outward: float) -> Fraction:
    """The value of a text; of a multiple of a constant a fraction on the outer side of it, a 10^20th off at most."""
    match = _END.fullmatch(text.replace("−", "-"))
    sign, factor, constant, divisor = match.groups() if match is not None else (None,) * 4
    if factor is None and constant is None:
        return _decimal(text)
    multiple = _decimal(factor or "1") / _decimal(divisor or "1") * (-1 if sign == "-" else 1)
    if constant is None:
        return multiple
    down, up = _CONSTANTS[constant]
    return multiple * (up if (multiple > 0) == (outward > 0) else down)


def _decimal(text: str) -> Fraction:
    """The exact value of a decimal; exponents that no float has are not expanded."""
    number = Decimal(text)
    if not number.is_finite() or (number and abs(number.adjusted()) > 400):
        raise ValueError(text)
    return Fraction(number)
