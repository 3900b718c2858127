"""Piecewise linear functions as sums of relu: every kink a column of its own, so that a head is one named function.

With kinks t_1 < ... < t_m and slopes s_0, ..., s_m between them,

    p(x) = p(t_1) - s_0 relu(t_1 - x) + s_1 relu(x - t_1) + sum over i > 1 of (s_i - s_(i-1)) relu(x - t_i)

Where a number of this is no float, a function stays as it is: the columns of a graph are meant exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np

from weightwright.claims.graph import AFFINE, KINDS, Graph, Node
from weightwright.expressions import Expression, Number, Variable, parse

RELU = "relu(x)"


def split_kinks(graph: Graph) -> Graph:
    """The same function; abs(x) is relu(x) + relu(-x), and so on."""
    nodes: list[Node] = []
    place: list[int] = []  # of the old columns
    for node in graph.nodes:
        of = tuple(place[c] for c in node.of)
        moved = Node(node.op, of, node.weights, node.constants, node.index, node.label)
        terms = None if node.op in KINDS or node.op == RELU else _terms(parse(node.op, ("x",)))
        if terms is None:
            nodes.append(moved)
        else:
            weights, columns = [], []
            for weight, side, shift in terms.kinks:
                where = f"{node.label or node.op}, {'above' if side > 0 else 'below'} {-side * shift + 0.0:g}"
                nodes.append(Node(AFFINE, of, np.array([side]), np.array([shift]), label=where))
                nodes.append(Node(RELU, (len(nodes) - 1,), label=where))
                weights.append(weight)
                columns.append(len(nodes) - 1)
            nodes.append(Node(AFFINE, tuple(columns), np.array(weights), np.array([terms.constant]), label=node.label))
        place.append(len(nodes) - 1)
    return Graph(graph.name, tuple(nodes), tuple(place[m] for m in graph.outputs), graph.matrices, graph.tokens)


@dataclass(frozen=True)
class _Terms:
    """constant + the sum of weight relu(side x + shift)."""

    constant: float
    kinks: list[tuple[float, float, float]]


def _terms(formula: Expression) -> _Terms | None:
    line = _piecewise(formula)
    if line is None or not line.points:
        return None
    first, slopes = line.points[0], line.slopes
    kinks = [(-slopes[0], Fraction(-1), first), (slopes[1], Fraction(1), -first)]
    steps = zip(slopes[2:], slopes[1:-1], line.points[1:], strict=True)
    kinks += [(after - before, Fraction(1), -at) for after, before, at in steps]
    numbers = [line.at(first), *(x for kink in kinks for x in kink)]
    if any(Fraction(float(x)) != x for x in numbers):
        return None
    return _Terms(float(numbers[0]), [(float(w), float(side), float(b)) for w, side, b in kinks if w])


@dataclass(frozen=True)
class _PiecewiseLinear:
    """Kinks in order, the slopes before, between and after them, and the value at 0."""

    points: tuple[Fraction, ...]
    slopes: tuple[Fraction, ...]
    origin: Fraction

    def at(self, x: Fraction) -> Fraction:
        lo, hi = sorted((Fraction(0), x))
        total = self.origin
        for a, b in pairwise([lo, *(p for p in self.points if lo < p < hi), hi]):
            total += (b - a) * self.slope((a + b) / 2) * (1 if x > 0 else -1)
        return total

    def slope(self, x: Fraction) -> Fraction:
        """Where it is not at a kink."""
        return self.slopes[sum(p < x for p in self.points)]

    def zeros(self) -> Iterator[Fraction]:
        """Where it changes its sign between kinks."""
        ends = [None, *self.points, None]
        for lo, hi, slope in zip(ends[:-1], ends[1:], self.slopes, strict=True):
            start = lo if lo is not None else (hi if hi is not None else Fraction(0))
            zero = start - self.at(start) / slope if slope else None
            if zero is not None and (lo is None or zero > lo) and (hi is None or zero < hi):
                yield zero


def _joined(points: set[Fraction], slope: Iterator[Fraction], origin: Fraction) -> _PiecewiseLinear:
    """Without the kinks that are none."""
    slopes, kept, before = list(slope), list[Fraction](), list[Fraction]()
    for place, point in enumerate(sorted(points)):
        if slopes[place] != slopes[place + 1]:
            kept.append(point)
            before.append(slopes[place])
    return _PiecewiseLinear(tuple(kept), (*before, slopes[-1]), origin)


def _middles(points: set[Fraction]) -> list[Fraction]:
    """A point in every piece."""
    edges = sorted(points)
    if not edges:
        return [Fraction(0)]
    inner = [(a + b) / 2 for a, b in pairwise(edges)]
    return [edges[0] - 1, *inner, edges[-1] + 1]


def _piecewise(formula: Expression) -> _PiecewiseLinear | None:
    """None where it is not piecewise linear, or not seen to be."""
    if isinstance(formula, Variable):
        return _PiecewiseLinear((), (Fraction(1),), Fraction(0))
    if isinstance(formula, Number):
        return _PiecewiseLinear((), (Fraction(0),), formula.value)
    args = [_piecewise(arg) for arg in formula.args]
    parts = [arg for arg in args if arg is not None]
    return _apply(formula.op, parts) if len(parts) == len(args) else None


def _apply(op: str, args: list[_PiecewiseLinear]) -> _PiecewiseLinear | None:
    one, minus = _PiecewiseLinear((), (Fraction(0),), Fraction(1)), Fraction(-1)
    constant = [not arg.points and not arg.slopes[0] for arg in args]
    match op:
        case "neg":
            return _times(args[0], minus)
        case "add":
            return _plus(args[0], args[1])
        case "sub":
            return _plus(args[0], _times(args[1], minus))
        case "mul" if any(constant):
            factor, other = (args[0], args[1]) if constant[0] else (args[1], args[0])
            return _times(other, factor.origin)
        case "div" if constant[1] and args[1].origin:
            return _times(args[0], one.origin / args[1].origin)
        case "relu":
            return _relu(args[0])
        case "abs":
            return _plus(_relu(args[0]), _relu(_times(args[0], minus)))
        case "max":
            return _plus(args[1], _relu(_plus(args[0], _times(args[1], minus))))
        case "min":
            return _plus(args[0], _times(_relu(_plus(args[0], _times(args[1], minus))), minus))
        case "clip":
            above = _apply("max", [args[0], args[1]])
            return None if above is None else _apply("min", [above, args[2]])
        case _:
            return None


def _plus(a: _PiecewiseLinear, b: _PiecewiseLinear) -> _PiecewiseLinear:
    points = {*a.points, *b.points}
    return _joined(points, (a.slope(x) + b.slope(x) for x in _middles(points)), a.origin + b.origin)


def _times(a: _PiecewiseLinear, factor: Fraction) -> _PiecewiseLinear:
    return _joined(set(a.points), (factor * slope for slope in a.slopes), factor * a.origin)


def _relu(a: _PiecewiseLinear) -> _PiecewiseLinear:
    points = {*a.points, *a.zeros()}
    slopes = (a.slope(x) if a.at(x) > 0 else Fraction(0) for x in _middles(points))
    return _joined(points, slopes, max(a.origin, Fraction(0)))
