"""Newton's method in balls: from any point, and with a proof that the minimum of a convex function is where it ends.

Let M be positive definite and |v|_M its norm. Suppose that wherever |v - p|_M <= r the Hessian differs from M by at
most omega < 1, relative to M, and that the gradient g at p has |g|_{M^-1} = m < (1 - omega) r. Then

- a minimum is within r: on the sphere the slope outwards is at least (1 - omega) r - m > 0. It is the only one.
- It is p - A^-1 g, where A is a mean of Hessians on the way, so it differs from Newton's step p - M^-1 g by at most
  m omega / (1 - omega) in |.|_M, and by that times the root of (M^-1)_jj in coordinate j.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from flint import arb, arb_mat, ctx

from weightwright.enclosures.balls.linear_algebra import Balls, box_around, diagonal, dot, inverse, length, product
from weightwright.incontext.optimum.enclosure import Enclosure

#: With p numbers a Newton step takes about p^3 operations. There are OPERATIONS / p^3 steps, within these limits.
OPERATIONS, LEAST_STEPS, MOST_STEPS = 2**24, 8, 40
#: A step that does not go down far enough is halved at most this many times.
MOST_HALVINGS = 40
#: A step goes down far enough if it reaches this share of the decrease that its slope promises.
DECREASE = 0.1
#: A singular model gets this share of its diagonal added to it.
SOFT = 2.0**-10
#: Below this omega, more steps do not make the enclosure sharper: more bits would.
FINEST = 2.0**-64


_ENCLOSED = "the optimum was enclosed by Newton's method in balls"
_SINGULAR = (
    "no strong convexity can be proven: the Hessian is singular, or nearly so. The optimum may not be unique; add a"
    " ridge penalty"
)
_UNDEFINED = "the loss is undefined, or too large, at the coefficients"
_NOT_THERE = "Newton's method did not arrive: there may be no optimum{where}, or it is far from the given coefficients"


class Place(Protocol):
    """A convex function around an exact point."""

    @property
    def gradient(self) -> Balls: ...

    @property
    def model(self) -> arb_mat:
        """A positive semidefinite matrix near the Hessian: M."""

    def change(self, inverse: arb_mat, radius: arb) -> arb:
        """Not below omega for this radius; infinite or NaN where nothing is known. inverse: of the model."""


class Landscape(Protocol):
    """A convex function with a continuous gradient."""

    @property
    def without_optimum(self) -> str:
        """For which data there is none, and what to do, in words that follow "there may be no optimum"."""

    def at(self, v: Balls) -> Place | None:
        """None outside the domain; otherwise gradient and model are finite."""

    def value(self, v: Balls) -> arb:
        """NaN outside the domain."""


def enclose_minimum(landscape: Landscape, starts: Iterable[Balls], is_sharp: Callable[[Balls], bool]) -> Enclosure:
    """The minimum as balls, sharp if these bits suffice."""
    result = Enclosure(None, "")
    for start in starts:
        result = _from(landscape, [entry.mid() for entry in start], is_sharp)
        if result.box is not None:
            break
    return result


def _from(landscape: Landscape, v: Balls, is_sharp: Callable[[Balls], bool]) -> Enclosure:
    found: Balls | None = None
    not_there = _NOT_THERE.format(where=landscape.without_optimum)
    why = not_there
    steps = max(min(OPERATIONS // len(v) ** 3, MOST_STEPS), LEAST_STEPS)
    for _ in range(steps):
        place = landscape.at(v)
        if place is None:
            why = _UNDEFINED
            break
        inverted = inverse(place.model)
        why = _SINGULAR if inverted is None else not_there
        if inverted is None:
            further = _downhill(landscape, v, place.gradient, inverse(_softened(place.model)))
        else:
            decrement = length(place.gradient, inverted)
            omega = place.change(inverted, 2 * decrement + arb(2) ** -ctx.prec).upper()
            if omega < 0.5:
                aim = _aim(v, place.gradient, inverted)
                found = box_around(aim, inverted, decrement * omega / (1 - omega))
                if omega < FINEST or is_sharp(found):
                    break
                further = aim
            else:
                further = _downhill(landscape, v, place.gradient, inverted)
        if further is None:
            break
        v = [entry.mid() for entry in further]
    return Enclosure(found, _ENCLOSED) if found else Enclosure(None, why, hopeless=True)


def _aim(v: Balls, gradient: Balls, inverted: arb_mat, share: arb | int = 1) -> Balls:
    """v - share M^-1 g."""
    return [a - share * b for a, b in zip(v, product(inverted, gradient), strict=True)]


def _softened(model: arb_mat) -> arb_mat:
    """The model with a larger diagonal: where it is singular, a step along it still goes down."""
    entries = [row[j].mid() for j, row in enumerate(model.table())]
    least = max(entries, key=float) * SOFT * SOFT
    return model + diagonal([SOFT * entry + least for entry in entries])


def _downhill(landscape: Landscape, v: Balls, gradient: Balls, inverted: arb_mat | None) -> Balls | None:
    """A point with a smaller value on the way that Newton's step goes."""
    if inverted is None:
        return None
    share, before, promised = arb(1), landscape.value(v).mid(), dot(gradient, product(inverted, gradient)).mid()
    for _ in range(MOST_HALVINGS):
        there = [entry.mid() for entry in _aim(v, gradient, inverted, share)]
        after = landscape.value(there)
        if after.is_finite() and after.mid() < before - DECREASE * share * promised:
            return there
        share = share / 2
    return None
