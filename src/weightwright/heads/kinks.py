"""Where a formula bends or jumps, found in plain floats: it steers a design and proves nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from weightwright.enclosures.intervals.intervals import Interval
from weightwright.enclosures.intervals.jets import jet, values
from weightwright.expressions import Apply, Expression
from weightwright.numbers import Floats

_GRID = 4096  # two kinks closer than the domain over this are seen as one, or not at all
_ASIDE = 2.0**-30  # of the domain: where both sides of a kink are looked at
_ORDERS = 4  # a kink in a higher derivative is no kink
_SAME = 1e-6  # relative difference of coefficients that is noise


@dataclass(frozen=True)
class Kink:
    """A point where the formula's value (jump) or slope (bend) or a higher derivative changes at once."""

    at: float
    jump: float
    bend: float
    only_jumps: bool  # all derivatives go on


def kinks(formula: Expression, lo: float, hi: float) -> list[Kink]:
    """All kinks of the formula in s between lo and hi, in order."""
    grid = np.linspace(lo, hi, _GRID + 1)
    points = {point for switch in _switches(formula) for point in _roots(switch, grid)}
    found: list[Kink] = []
    for point in sorted(points):
        kink = _both_sides(formula, point, hi - lo)
        if kink is not None and not (found and point - found[-1].at < 4 * _ASIDE * (hi - lo)):
            found.append(kink)
    return found


def piecewise_linear(formula: Expression, lo: float, hi: float) -> bool:
    """Whether the formula seems to be linear between its kinks."""
    s = np.linspace(lo, hi, 257)[1:-1] + (hi - lo) * 2.0**-21
    second = jet(formula, Interval.exact(s), 2)[2]
    curved = np.broadcast_to(second.magnitude(), s.shape)
    return bool((curved * (hi - lo) ** 2 <= 1e-12 * np.abs(values(formula, s)).max()).all())


def slope_at(formula: Expression, s: float) -> float:
    """The formula's slope at a point where it has one."""
    return float(jet(formula, Interval.exact(np.array(s)), 1)[1].middle())


def _switches(formula: Expression) -> Iterator[Expression]:
    """Sub-expressions where the formula changes over when they pass 0."""
    stack, seen = [formula], set()
    while stack:
        node = stack.pop()
        if not isinstance(node, Apply) or id(node) in seen:
            continue
        seen.add(id(node))
        stack.extend(node.args)
        if node.op in ("abs", "relu", "sign", "step"):
            yield node.args[0]
        elif node.op in ("max", "min"):
            yield Apply("sub", node.args)
        elif node.op == "clip":
            yield from (Apply("sub", (node.args[0], end)) for end in node.args[1:])


def _roots(switch: Expression, grid: Floats) -> Iterator[float]:
    """Where the switch changes its sign, or touches 0 on a grid point inside."""
    y = values(switch, grid)
    signs = np.sign(y)
    yield from grid[1:-1][(y[1:-1] == 0) & (signs[:-2] * signs[2:] <= 0)].tolist()
    for i in np.flatnonzero(signs[:-1] * signs[1:] < 0).tolist():
        yield _bisect(switch, grid[i], grid[i + 1], y[i])


def _bisect(switch: Expression, a: float, b: float, at_a: float) -> float:
    for _ in range(64):
        middle = a / 2 + b / 2
        y = values(switch, np.array([middle]))[0]
        if y == 0:
            return middle
        a, b = (middle, b) if y * at_a > 0 else (a, middle)
    plain = float(f"{b:.12g}")  # a decimal that was written is a better guess than its neighbour
    return plain if values(switch, np.array([plain]))[0] == 0 else b


def _both_sides(formula: Expression, point: float, width: float) -> Kink | None:
    """None where the coefficients on both sides agree."""
    sides = np.array([point - _ASIDE * width, point + _ASIDE * width])
    coefficients = jet(formula, Interval.exact(sides), _ORDERS)
    left_right = np.array([np.broadcast_to(c.middle(), (2,)) for c in coefficients])
    scaled = left_right * (width ** np.arange(_ORDERS + 1))[:, None]
    noise = _SAME * max(float(np.abs(scaled).max()), 1e-300)
    different = np.abs(scaled[:, 1] - scaled[:, 0]) > noise
    if not different.any():
        return None
    jump, bend = (left_right[:, 1] - left_right[:, 0])[:2].tolist()
    return Kink(point, jump if different[0] else 0.0, bend, not different[1:].any())
