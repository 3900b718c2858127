"""Piecewise-linear formulas as one hidden layer of ReLUs: an affine part and multiples of relu(affine), exactly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import gcd, lcm

from weightwright.errors import FormulaError
from weightwright.expressions import Expression, Number, Variable, fold

_MINUS = Fraction(-1)


@dataclass(frozen=True)
class Layer:
    """affine . (x, 1) + sum of units[a] relu(a . (x, 1)).

    The factors of a are whole numbers without a common divisor, the first of them positive; its constant is free.
    """

    affine: tuple[Fraction, ...]  # (N + 1,)
    units: dict[tuple[Fraction, ...], Fraction]

    def __add__(self, other: Layer) -> Layer:
        units = {a: self.units.get(a, Fraction()) + other.units.get(a, Fraction()) for a in self.units | other.units}
        affine = tuple(a + b for a, b in zip(self.affine, other.affine, strict=True))
        return Layer(affine, {a: c for a, c in units.items() if c})

    def __mul__(self, factor: Fraction) -> Layer:
        return Layer(tuple(a * factor for a in self.affine), {a: c * factor for a, c in self.units.items() if factor})

    def __sub__(self, other: Layer) -> Layer:
        return self + other * _MINUS

    @property
    def constant(self) -> Fraction | None:
        """Its value, if it has only one."""
        return None if self.units or any(self.affine[:-1]) else self.affine[-1]


def layer(expression: Expression, names: Sequence[str]) -> Layer:
    """The formula as a layer; FormulaError names the operation that is none."""
    N = len(names)

    def leaf(node: Number | Variable) -> Layer:
        if isinstance(node, Number):
            return Layer((*[Fraction()] * N, node.value), {})
        return Layer(tuple(Fraction(int(i == names.index(node.name))) for i in range(N + 1)), {})

    return fold(expression, leaf, _apply)


def _apply(op: str, args: Sequence[Layer]) -> Layer:
    if op in _OPERATIONS:
        return _OPERATIONS[op](*args)
    if op == "mul" and any(arg.constant is not None for arg in args):
        a, b = args if args[1].constant is not None else args[::-1]
        return a * (b.constant or Fraction())
    if op == "div" and args[1].constant:
        return args[0] * (1 / args[1].constant)
    if all(arg.constant is not None for arg in args):
        raise FormulaError(f"{op} of constants is no exact number here; write the number")
    raise FormulaError(
        f"{op} of these arguments is not piecewise linear: an exact ReLU network takes sums, multiples, max, min, abs,"
        " relu and clip of affine functions"
    )


def _relu(op: str, g: Layer) -> Layer:
    """relu(g) as one layer: g is affine, or a function of one number along which alone it bends."""
    directions = {a[:-1] for a in g.units}
    if g.constant is not None:
        return Layer((*g.affine[:-1], max(g.constant, Fraction())), {})
    if not directions:
        directions = {_along(g.affine[:-1])[0]}
    direction = next(iter(directions))
    slope = _ratio(g.affine[:-1], direction)
    if len(directions) > 1 or slope is None:
        raise FormulaError(
            f"{op} of a function that bends along several directions needs a second hidden layer (like the maximum of"
            " three numbers); one hidden layer takes max, min, abs, relu and clip of affine functions, and their sums"
        )
    return _bent(g, direction, slope)


def _bent(g: Layer, direction: tuple[Fraction, ...], slope: Fraction) -> Layer:
    """relu of g = affine + sum of c relu(t - q), where t = direction . x: its line between any two corners."""
    corners = sorted((-a[-1], c) for a, c in g.units.items())
    lines = [(slope, g.affine[-1])]  # slope, and value at t = 0
    for q, c in corners:
        slope, height = lines[-1]
        lines.append((slope + c, height - c * q))
    places = sorted({q for q, _ in corners} | {-height / slope for slope, height in lines if slope})
    inside = [places[0] - 1, *((a + b) / 2 for a, b in pairwise(places)), places[-1] + 1]
    kept = []
    for t in inside:
        slope, height = lines[sum(q < t for q, _ in corners)]
        kept.append((slope, height) if slope * t + height > 0 else (Fraction(), Fraction()))
    turns = [after[0] - before[0] for before, after in pairwise(kept)]
    units = {(*direction, -q): turn for q, turn in zip(places, turns, strict=True) if turn}
    return Layer((*(kept[0][0] * x for x in direction), kept[0][1]), units)


def _along(factors: Sequence[Fraction]) -> tuple[tuple[Fraction, ...], Fraction]:
    """(direction, factor): whole numbers without a common divisor, the first of them positive, times the factor."""
    scale = lcm(*(x.denominator for x in factors))
    whole = [int(x * scale) for x in factors]
    divisor = gcd(*whole)
    if next(x for x in whole if x) < 0:
        divisor = -divisor
    return tuple(Fraction(x // divisor) for x in whole), Fraction(divisor, scale)


def _ratio(factors: Sequence[Fraction], direction: Sequence[Fraction]) -> Fraction | None:
    if not any(factors):
        return Fraction()
    own, factor = _along(factors)
    return factor if own == tuple(direction) else None


def _maximum(op: str, a: Layer, b: Layer) -> Layer:
    return b + _relu(op, a - b)


def _minimum(op: str, a: Layer, b: Layer) -> Layer:
    return a - _relu(op, a - b)


_OPERATIONS: dict[str, Callable[..., Layer]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "neg": lambda a: a * _MINUS,
    "relu": lambda a: _relu("relu", a),
    "abs": lambda a: _relu("abs", a) * Fraction(2) - a,
    "max": lambda a, b: _maximum("max", a, b),
    "min": lambda a, b: _minimum("min", a, b),
    "clip": lambda a, lo, hi: _minimum("clip", _maximum("clip", a, lo), hi),
}
