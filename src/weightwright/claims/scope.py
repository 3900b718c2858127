"""What every claim says about itself: what its bound bounds, and where it says nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from typing import Literal

#: What the bound of a claim is about. "output": |network(x) - formula(x)|, for every input x. "pass": the states after
#: one pass of an algorithm; errors of several passes may add up to more. "label": the stored labels of a memory.
#: "norm": an L_p norm of the error, which says nothing about a single input. "nothing": no bound is claimed.
Subject = Literal["output", "pass", "label", "norm", "nothing"]

#: What follows from it for whoever reads the bound, next to `bounded_in_words` of a certificate.
HENCE: dict[Subject, str] = {
    "output": "; for every input of the domain",
    "pass": "; errors of several passes may add up to more",
    "label": "; nothing is said of tokens that are not stored",
    "norm": "; nothing is said of a single input",
    "nothing": "",
}
#: What follows the bound in a short line.
OF_SUBJECT: dict[Subject, str] = {
    "output": "",
    "pass": " of one pass",
    "label": " of stored labels",
    "norm": " of a norm",
    "nothing": "",
}
#: `why` of a certificate of a `MeasuredClaim` that comes from a file or a pickle.
AS_TOLD = "as the file says; nobody here has measured it"


@dataclass(frozen=True)
class DeadZone:
    """An open interval of a number in which nothing is claimed.

    lo: where it begins.
    hi: where it ends.
    of: the number, in words: "x", or "the argument of sign(x)".
    share: the share of the domain that it covers at most, between 0 and 1; None where that is unknown.

    >>> print(DeadZone(-0.5, 0.5, "x", 0.5))
    x does not lie between -0.5 and 0.5 (50% of the domain)
    """

    lo: float
    hi: float
    of: str
    share: float | None

    def __str__(self) -> str:
        share = covered([self])
        at_most = "" if self.of == "x" or self.share is None else "at most "
        return f"{self.of} does not lie between {self.lo!r} and {self.hi!r} ({at_most}{share})"


def covered(zones: Sequence[DeadZone]) -> str:
    """What zones cover together, in words.

    >>> covered([DeadZone(-0.1, 0.1, "x", 0.1), DeadZone(0.2, 0.3, "x", 0.05)])
    '15% of the domain'
    """
    share = total_share(zones)
    return "an unknown share of the domain" if share is None else f"{percent(share)} of the domain"


def total_share(zones: Sequence[DeadZone]) -> float | None:
    """The share of the domain that the zones cover together at most; None where that is unknown."""
    known = [zone.share for zone in zones if zone.share is not None]
    return min(sum(known), 1.0) if len(known) == len(zones) else None


def percent(share: float) -> str:
    """A share in per cent, with the digits that matter.

    >>> percent(0.999), percent(0.99999), percent(1e-6)
    ('99.9%', '99.999%', '0.0001%')
    """
    digits = next((n for n in range(3, 17) if share >= 1 or float(f"{100 * share:.{n}g}") < 100), 17)
    return f"{Decimal(f'{100 * share:.{digits}g}').normalize():f}%"


def dead_zones_of_x(zones: Sequence[tuple[float, float]], lo: float, hi: float) -> tuple[DeadZone, ...]:
    """The zones of x on the domain from lo to hi, each with the share that it covers.

    >>> [zone.share for zone in dead_zones_of_x([(-0.5, 0.5)], -1.0, 1.0)]
    [0.5]
    """
    found = []
    for start, end in zones:
        inside = max(0.0, min(end, hi) - max(start, lo))
        found.append(DeadZone(float(start), float(end), "x", inside / (hi - lo) if 0 < hi - lo < math.inf else None))
    return tuple(found)


def status_in_words(status: str, why: str) -> str:
    """The status, and in the same line what it is conditional on, where it holds, or what was edited: everywhere the
    same.

    >>> status_in_words("CONDITIONAL", "the states stay in the domain")
    'CONDITIONAL: assuming that the states stay in the domain'
    """
    before = {"CONDITIONAL": "assuming that ", "PROVEN": "where "}.get(status, "")
    return f"{status}: {before}{why}" if why else status


def round_up(bound: float, digits: int = 3) -> str:
    """A bound in few digits that is still a bound.

    >>> round_up(1.132231889107435e-09)
    '1.14e-09'
    """
    context = Context(prec=digits, rounding=ROUND_CEILING)
    short = context.create_decimal(Decimal(bound)).normalize()
    if not short.is_finite() or -5 < short.adjusted() < digits:
        return f"{short:f}"
    mantissa, _, exponent = f"{short:e}".partition("e")
    return f"{mantissa}e{int(exponent):+03d}"  # as floats are written
