"""The units of a target as the walk meets them: which basis function each is, and what the stream should hold.

`graph_columns` has those of graphs; extensions register those of other targets.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Protocol

import numpy as np
from flint import arb

from weightwright.checker.composite.stream import ROUNDING, Basis, Row
from weightwright.checker.core.complaints import require
from weightwright.claims.graph import SQUARE
from weightwright.enclosures.balls.midrad import Balls
from weightwright.enclosures.balls.series import series
from weightwright.expressions import Expression, to_text
from weightwright.limits import tick
from weightwright.numbers import Floats

#: Equal parts of an interval on which a profile's range is enclosed.
PARTS_OF_A_RANGE = 16
#: Most halvings of a part on which nothing can be said.
HALVINGS = 8


class Units(Protocol):
    """What the walk asks about a target."""

    basis: Basis
    takes_zones: bool  # whether arguments may have dead zones

    @property
    def count(self) -> int:
        """Units are numbered below this."""

    def profile(self, unit: int) -> str: ...

    def id(self, unit: int) -> int:
        """The basis function of a unit whose argument is known."""

    def argument(self, unit: int) -> Row:
        """The argument of a unit, as it is declared."""

    def argument_range(self, unit: int, held: Row) -> tuple[float, float]:
        """An interval for the argument of a unit; held: what the coordinate holds that should be it."""

    def apart(self, held: Row, unit: int) -> Floats:
        """(3,): how far what a coordinate holds is from the argument of a unit."""

    def output_apart(self, held: Row, token: int, column: int, shape: tuple[int, int]) -> Floats:
        """(3,): how far what an output holds is from its target. shape: (tokens, outputs)."""

    def waits(self, unit: int) -> bool:
        """Whether errors of this unit's argument are left to the products that take it."""

    def wait(self, unit: int, errors: Floats) -> None:
        """They are (3,) at most."""


def one_range(row: Row, basis: Basis) -> tuple[float, float]:
    """The range of a row of one coordinate."""
    lo, hi = row.range(basis)
    return float(lo[0]), float(hi[0])


def difference(held: Row, declared: Row, basis: Basis) -> Floats:
    """(3,): how far two forms of one coordinate are apart at most; counts as rounding."""
    lo, hi = one_range(held.plus(Row(declared.ids, Balls(-declared.forms.mid, declared.forms.rad))), basis)
    apart = np.zeros(3)
    apart[ROUNDING] = np.maximum(abs(lo), abs(hi))
    require(bool(np.isfinite(apart).all()), "how far a form is from the declared one is not bounded")
    return apart


def profile_range(profile: Expression, lo: float, hi: float) -> tuple[float, float]:
    """An interval that holds the profile over [lo, hi]. Where its slope has one sign, the ends say it all."""
    if to_text(profile) == SQUARE:
        least = 0.0 if lo <= 0 <= hi else math.nextafter(min(lo * lo, hi * hi), -math.inf)
        return least, math.nextafter(max(lo * lo, hi * hi), math.inf)
    edges = np.linspace(lo, hi, PARTS_OF_A_RANGE + 1)
    edges[0], edges[-1] = lo, hi
    over = [_over(profile, arb(a), arb(b)) for a, b in pairwise(edges.tolist())]
    ends = [float(x.lower()) for x in over], [float(x.upper()) for x in over]
    require(all(map(math.isfinite, (*ends[0], *ends[1]))), f"a profile is unbounded on [{lo!r}, {hi!r}]")
    return math.nextafter(min(ends[0]), -math.inf), math.nextafter(max(ends[1]), math.inf)


def _over(profile: Expression, a: arb, b: arb, halvings: int = HALVINGS) -> arb:
    """A ball that holds the profile over [a, b]; halves are looked at where the whole says nothing."""
    tick()
    value, slope = series(profile, a.union(b), 1)
    if not value.is_finite() and halvings:
        middle = ((a + b) / 2).mid()
        return _over(profile, a, middle, halvings - 1).union(_over(profile, middle, b, halvings - 1))
    if slope > 0 or slope < 0:
        value = series(profile, a, 0)[0].union(series(profile, b, 0)[0])
    return value


def interval_product(a: tuple[float, float], b: tuple[float, float]) -> tuple[float, float]:
    """What the product of two numbers of these intervals lies between."""
    ends = [x * y for x in a for y in b]
    return float(np.nextafter(min(ends), -np.inf)), float(np.nextafter(max(ends), np.inf))
