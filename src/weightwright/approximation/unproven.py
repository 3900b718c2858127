"""Why nothing could be proven of a function on an interval: what to do, and what that rests on."""

from __future__ import annotations

import math

import numpy as np

from weightwright.enclosures.intervals.formulas import PARTS, enclose
from weightwright.numbers import Floats, counted

#: Points on a line at which turns are counted: four for each of the most anchors that are spread evenly.
POINTS = 2048
#: A function that turns more than once for FEW anchors is too much for them. Polynomials through n points turn n - 2
#: times at most, and soft anchors reach about a quarter of that before their weights lose all digits.
FEW = 4


def uneven_points(lo: float, hi: float) -> Floats:
    """POINTS increasing numbers, one at random in each of as many equal parts: at even steps a fast wave may look like
    a slow one."""
    return lo + (hi - lo) * ((np.arange(POINTS) + np.random.default_rng(0).random(POINTS)) / POINTS)


def count_turns(values: Floats) -> int:
    """How often a continuous function with these values, at points in their order, changes between rising and falling
    at least.

    >>> count_turns(np.array([0.0, 1.0, 1.0, 0.5, 2.0]))
    2
    """
    with np.errstate(invalid="ignore"):
        directions = np.sign(np.diff(values[np.isfinite(values)]))
    directions = directions[directions != 0]
    return int(np.count_nonzero(directions[1:] != directions[:-1]))


def largest_slope(formula: str, lo: float, hi: float) -> float:
    """About the largest size of a formula's slope, in x between lo and hi; infinite where it is undefined, unbounded or
    could not be enclosed."""
    with np.errstate(all="ignore"):
        slope = enclose(formula, np.array(lo), np.array(hi), order=1, parts=16 * PARTS)
        largest = float(np.maximum(abs(slope[0]), abs(slope[1])))
    return largest if math.isfinite(largest) else math.inf


def advise(values: Floats, slope: float, anchors: int) -> str:
    """What to do where no bound could be proven.

    values: of the function on lines across the domain, (lines, points). slope: the largest, infinite if that is not
    known. anchors: how many there may be.
    """
    turns = max(count_turns(line) for line in np.atleast_2d(values))
    if FEW * turns > anchors:
        times = counted(turns, "time")
        return f"take a smaller domain: on this one the function turns {times} or more, too often for {anchors} anchors"
    if math.isfinite(slope):
        return "take a larger tol, a smaller domain or more bits: the slope is bounded, but no head is near enough"
    return (
        "take a domain away from points where the function is undefined or its slope unbounded, or a smaller one: no"
        " bound on the slope could be found"
    )
