"""The dead zones of arguments: whether they leave anything, and at most which share of the domain they cover."""

from __future__ import annotations

import numpy as np

from weightwright.checker.composite.stream import Row
from weightwright.checker.core.complaints import require
from weightwright.claims.graph import JUMPS
from weightwright.claims.scope import DeadZone
from weightwright.claims.target import TableClaim
from weightwright.enclosures.balls.midrad import above
from weightwright.limits import tick
from weightwright.numbers import Floats


class Lost:
    """What the dead zones of all arguments cover of a domain, the box from lo to hi.

    Of an argument that is affine in the inputs the share is bounded: where the inputs are spread evenly, its density is
    at most 1/w, w being the widest interval that a single input moves it through. Of others the share is unknown.
    """

    def __init__(self, lo: Floats, hi: Floats) -> None:
        self.widths = np.nextafter(hi - lo, -np.inf)
        self._shares: dict[tuple[float, float, str], dict[bytes, float]] = {}  # of each zone, by argument

    def add(self, zones: Floats, argument: Row, lo: float, hi: float, profile: str) -> None:
        """The zones of a profile's argument, which lies between lo and hi; refused if nothing is left of it."""
        _leave_something(zones, lo, hi)
        for start, end in zones.tolist():
            tick()
            width = min(end, hi) - max(start, lo)
            if width > 0:
                spread = self._spread(argument)
                share = float(above(np.array(width / spread), 3)) if spread > 0 else np.inf
                shares = self._shares.setdefault((start, end, f"the argument of {profile}"), {})
                shares[repr(argument.ids).encode() + argument.forms.mid.tobytes()] = share

    def zones(self) -> tuple[DeadZone, ...]:
        """Each with what it covers at most, for all tokens and heads together; no share where that is unknown."""
        found = []
        for (lo, hi, of), shares in self._shares.items():
            share = float(above(np.array(sum(shares.values())), len(shares)))
            found.append(DeadZone(lo, hi, of, share if share < 1 else None))
        return tuple(found)

    def _spread(self, argument: Row) -> float:
        """The widest interval that a single input moves the argument through; 0 if more than inputs moves it."""
        forms, ids = argument.forms, np.array(argument.ids)
        coefficients = np.abs(forms.mid[:, 0]) - forms.rad[:, 0]
        moved = (forms.mid[:, 0] != 0) | (forms.rad[:, 0] != 0)
        if (moved & (ids > len(self.widths))).any():
            return 0.0
        inputs = ids > 0
        moves = np.nextafter(coefficients[inputs] * self.widths[ids[inputs] - 1], -np.inf)
        return float(moves.max(initial=0.0))


def _leave_something(zones: Floats, lo: float, hi: float) -> None:
    """The dead zones do not cover all that a token's argument can be."""
    reached = lo
    for start, end in sorted(zones.tolist()):
        reached = max(reached, end) if start <= reached else reached
    require(not len(zones) or reached < hi, "the dead zones leave nothing of the domain")


def only_around_jumps(part: TableClaim, profiles: set[str]) -> None:
    """In a graph only a jump at 0 may be left open, since every unit has a separate argument."""
    jumps = profiles <= set(JUMPS) and all(start < 0 < end for start, end in part.zones.tolist())
    require(jumps or not len(part.zones), f"a dead zone of {sorted(profiles)} is not around a jump")
