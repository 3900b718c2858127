"""The checker's piecewise-linear functions, exactly: an affine part and multiples of |affine|, in Fractions.

Every function of one layer of kinks has one such form: |h| for different hyperplanes h = 0 are independent, and the
sign and the length of h are fixed by its first coefficient, which is 1. So two functions are the same if and only if
their forms are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from weightwright.errors import CertificateError
from weightwright.expressions import Expression, Number, Variable, fold
from weightwright.limits import tick

Affine = tuple[Fraction, ...]  # the factors of x0, x1, ..., then the constant
_HALF, _ZERO = Fraction(1, 2), Fraction(0)


@dataclass(frozen=True)
class KinkedTarget:
    """affine + the sum of bends[h] |h|; every h has a first nonzero factor of 1, no bend is 0."""

    affine: Affine
    bends: dict[Affine, Fraction]

    def plus(self, other: KinkedTarget, factor: Fraction = Fraction(1)) -> KinkedTarget:
        tick()
        bends = dict(self.bends)
        for h, c in other.bends.items():
            bends[h] = bends.get(h, _ZERO) + factor * c
        affine = tuple(a + factor * b for a, b in zip(self.affine, other.affine, strict=True))
        return KinkedTarget(affine, {h: c for h, c in bends.items() if c})

    def times(self, factor: Fraction) -> KinkedTarget:
        return KinkedTarget(tuple(_ZERO for _ in self.affine), {}).plus(self, factor)

    def constant(self) -> Fraction | None:
        return None if self.bends or any(self.affine[:-1]) else self.affine[-1]

    def largest(self, lo: Sequence[Fraction], hi: Sequence[Fraction]) -> Fraction:
        """An upper bound on the absolute value for all x from lo to hi: the sum of its parts'."""
        return reach(self.affine, lo, hi) + sum((abs(c) * reach(h, lo, hi) for h, c in self.bends.items()), _ZERO)


def reach(h: Affine, lo: Sequence[Fraction], hi: Sequence[Fraction]) -> Fraction:
    """The largest |h| from lo to hi: exact, at two corners."""
    return max(abs(end) for end in ends(h, lo, hi))


def ends(h: Affine, lo: Sequence[Fraction], hi: Sequence[Fraction]) -> tuple[Fraction, Fraction]:
    """The smallest and the largest h from lo to hi."""
    products = [sorted((a * x, a * y)) for a, x, y in zip(h[:-1], lo, hi, strict=True)]
    return h[-1] + sum((p[0] for p in products), _ZERO), h[-1] + sum((p[1] for p in products), _ZERO)


def absolute(g: KinkedTarget) -> KinkedTarget:
    """|g|: of an affine g, or of one that bends along one direction only and so is a function of one number."""
    if not g.bends:
        return _absolute_affine(g.affine)
    direction = next(iter(g.bends))[:-1]
    slope = _multiple(g.affine[:-1], direction)
    if slope is None or any(h[:-1] != direction for h in g.bends):
        raise CertificateError("a kink of a kinked function of several variables is not one layer of kinks")
    # with s = direction . x: g = start + slope s + sum of c |s + k|; each kink stands at s = -k
    kinks = sorted((-h[-1], c) for h, c in g.bends.items())

    def value(s: Fraction) -> Fraction:
        tick()
        return g.affine[-1] + slope * s + sum((c * abs(s - q) for q, c in kinks), _ZERO)

    places = {q for q, _ in kinks}
    steepness = slope - sum((c for _, c in kinks), _ZERO)  # left of the first kink
    edges: list[Fraction | None] = [None, *(q for q, _ in kinks), None]
    for left, right, turn in zip(edges, edges[1:], [*(c for _, c in kinks), _ZERO], strict=False):
        known = right if right is not None else left
        assert known is not None
        if steepness:
            zero = known - value(known) / steepness
            if (left is None or zero > left) and (right is None or zero < right):
                places.add(zero)
        steepness += 2 * turn
    return _through(sorted(places), lambda s: abs(value(s)), direction)


def _through(places: list[Fraction], value: Callable[[Fraction], Fraction], direction: Affine) -> KinkedTarget:
    """The function of s = direction . x that has these values and bends at these places only."""
    points = [places[0] - 1, *places, places[-1] + 1]
    slopes = [(value(b) - value(a)) / (b - a) for a, b in pairwise(points)]
    bends = {(*direction, -q): (b - a) / 2 for q, a, b in zip(places, slopes, slopes[1:], strict=False) if a != b}
    slope = (slopes[0] + slopes[-1]) / 2
    rest = sum((c * abs(places[0] + h[-1]) for h, c in bends.items()), _ZERO)
    start = value(places[0]) - slope * places[0] - rest
    return KinkedTarget((*(slope * a for a in direction), start), bends)


def _absolute_affine(h: Affine) -> KinkedTarget:
    nothing = tuple(_ZERO for _ in h)
    first = next((a for a in h[:-1] if a), None)
    if first is None:
        return KinkedTarget((*nothing[:-1], abs(h[-1])), {})
    return KinkedTarget(nothing, {tuple(a / first for a in h): abs(first)})


def _multiple(a: Affine, direction: Affine) -> Fraction | None:
    """The factor that makes the direction a, if there is one."""
    place = next(i for i, x in enumerate(direction) if x)
    factor = a[place] / direction[place]
    return factor if all(x == factor * y for x, y in zip(a, direction, strict=True)) else None


def relu_of(h: Affine) -> KinkedTarget:
    """relu(h) = (h + |h|) / 2."""
    return KinkedTarget(h, {}).plus(_absolute_affine(h)).times(_HALF)


def read(expression: Expression, names: Sequence[str]) -> KinkedTarget:
    """The expression's form; CertificateError if it has none."""
    count = len(names)

    def leaf(node: Number | Variable) -> KinkedTarget:
        if isinstance(node, Number):
            return KinkedTarget((*[_ZERO] * count, node.value), {})
        return KinkedTarget(tuple(Fraction(int(name == node.name)) for name in (*names, "")), {})

    return fold(expression, leaf, _apply)


def _apply(op: str, args: Sequence[KinkedTarget]) -> KinkedTarget:
    if op == "mul":
        for a, b in (args, args[::-1]):
            factor = a.constant()
            if factor is not None:
                return b.times(factor)
    if op == "div":
        divisor = args[1].constant()
        if divisor:
            return args[0].times(1 / divisor)
    if op in _RULES:
        return _RULES[op](*args)
    raise CertificateError(f"{op} of these arguments is not piecewise linear in exact numbers")


def _larger(a: KinkedTarget, b: KinkedTarget) -> KinkedTarget:
    """(a + b + |a - b|) / 2."""
    return a.plus(b).plus(absolute(a.plus(b, Fraction(-1)))).times(_HALF)


def _smaller(a: KinkedTarget, b: KinkedTarget) -> KinkedTarget:
    return a.plus(b).plus(absolute(a.plus(b, Fraction(-1))), Fraction(-1)).times(_HALF)


_RULES: dict[str, Callable[..., KinkedTarget]] = {
    "add": lambda a, b: a.plus(b),
    "sub": lambda a, b: a.plus(b, Fraction(-1)),
    "neg": lambda a: a.times(Fraction(-1)),
    "abs": absolute,
    "relu": lambda a: a.plus(absolute(a)).times(_HALF),
    "max": _larger,
    "min": _smaller,
    "clip": lambda a, lo, hi: _smaller(_larger(a, lo), hi),
}
