"""The prover's jet of a quotient that is 0 / 0 at a point c, and has a limit there.

If f has a zero of order m at c, f(x) / (x - c)^m is a mean of f's Taylor coefficient number m between c and x, and its
k-th coefficient at x a mean of f's coefficient number k + m. So the jet of a quotient of two such functions is that of
their jets shifted by m, on an interval that holds c; and Taylor's theorem for it at c makes it narrow near c.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import comb

import numpy as np

from weightwright.enclosures.intervals.intervals import ONE, Interval
from weightwright.expressions.quotients import Zero

Jet = list[Interval]
#: Taylor's theorem at c is used up to this order at least: 0.1 from c its remainder is then below 1e-16 or so of the
#: coefficient itself; where fewer digits are asked for the quotient itself has them.
LEAST_ORDER = 16
#: Orders beyond those that are asked for.
MORE_ORDERS = 6


def quotient_jet(
    zeros: Sequence[Zero],
    parts: Callable[[Interval, int], tuple[Jet, Jet]],
    divide: Callable[[Jet, Jet], Jet],
    at: Interval,
    order: int,
) -> Jet:
    """Coefficients 0..order at the points or boxes `at`: the narrowest of all enclosures.

    parts: the jets of numerator and denominator at points or boxes, up to an order.
    """
    found = divide(*parts(at, order))
    for zero in zeros:
        found = [_narrower(x, y) for x, y in zip(found, _beside(zero, parts, divide, at, order), strict=True)]
    return found


def _beside(
    zero: Zero,
    parts: Callable[[Interval, int], tuple[Jet, Jet]],
    divide: Callable[[Jet, Jet], Jet],
    at: Interval,
    order: int,
) -> Jet:
    """By the jets at the zero and on the way there."""
    last = max(order + MORE_ORDERS, LEAST_ORDER)
    c = Interval.rational(zero.at)

    def shifted(where: Interval) -> Jet:
        return divide(*(jet[zero.order :] for jet in parts(where, last + zero.order)))

    here, between, step = shifted(c), shifted(at.hull(c)), at - c
    powers = [ONE]
    for _ in range(last):
        powers.append(powers[-1] * step)
    beside = []
    for k in range(order + 1):
        total = Interval.exact(float(comb(last, k))) * between[last] * powers[last - k]
        for j in range(k, last):
            total = total + Interval.exact(float(comb(j, k))) * here[j] * powers[j - k]
        beside.append(_narrower(total, between[k]))
    return beside


def _narrower(a: Interval, b: Interval) -> Interval:
    """What lies in both; of an end that is no number nothing is known."""
    unknown = [np.isnan(x.lo) | np.isnan(x.hi) for x in (a, b)]
    lo = np.fmax(np.where(unknown[0], np.nan, a.lo), np.where(unknown[1], np.nan, b.lo))
    hi = np.fmin(np.where(unknown[0], np.nan, a.hi), np.where(unknown[1], np.nan, b.hi))
    return Interval(lo, hi)


def along(jet: Jet, step: Interval) -> Jet:
    """The jet in tau of a function of x, where x = at + tau step."""
    power, result = ONE, list[Interval]()
    for coefficient in jet:
        result.append(coefficient * power)
        power = power * step
    return result
