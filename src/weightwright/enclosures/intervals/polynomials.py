"""The prover's Taylor polynomials in several variables: an expression's coefficients at points.

A polynomial is an Interval of shape (monomials, points): one row for every multi-index of total degree at most
`degree`, lowest degree first. A function of one argument is expanded at the argument's value (by the rules of
`jets`) and composed with the rest of the argument, which starts at degree one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import product
from math import comb
from typing import Any

import numpy as np
import numpy.typing as npt

from weightwright.enclosures.intervals import intervals as iv
from weightwright.enclosures.intervals import jets
from weightwright.enclosures.intervals.intervals import TINY, Interval, down, up
from weightwright.expressions import Expression, Number, Variable, fold
from weightwright.expressions.quotients import take_out_quotients
from weightwright.numbers import Floats

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Monomials:
    """The multi-indices up to a degree, and which two make which: entry k has the pairs starts[k] to starts[k+1]."""

    exponents: Indices  # (monomials, variables)
    degrees: Indices  # (monomials,)
    first: Indices  # (pairs,)
    second: Indices  # (pairs,)
    starts: Indices  # (monomials,)
    nilpotent: tuple[Indices, Indices, Indices]  # the same without second == 0 and without monomial 0

    @property
    def degree(self) -> int:
        return int(self.degrees[-1])


@cache
def monomials(variables: int, degree: int) -> Monomials:
    """Sorted by degree; the constant is number 0, the variables follow."""
    every = [e for e in product(range(degree + 1), repeat=variables) if sum(e) <= degree]
    every.sort(key=lambda e: (sum(e), [-i for i in e]))
    number = {e: k for k, e in enumerate(every)}
    pairs: list[list[tuple[int, int]]] = [[] for _ in every]
    for e in every:
        for factor in product(*(range(i + 1) for i in e)):
            rest = tuple(a - b for a, b in zip(e, factor, strict=True))
            pairs[number[e]].append((number[factor], number[rest]))
    strict = [[(a, b) for a, b in part if b] for part in pairs[1:]]
    exponents = np.array(every, dtype=np.int64)
    return Monomials(exponents, exponents.sum(1), *_table(pairs), nilpotent=_table(strict))


def _table(pairs: list[list[tuple[int, int]]]) -> tuple[Indices, Indices, Indices]:
    flat = np.array([pair for part in pairs for pair in part], dtype=np.int64).reshape(-1, 2)
    counts = np.array([len(part) for part in pairs], dtype=np.int64)
    return flat[:, 0], flat[:, 1], np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.int64)


def coefficients(expression: Expression, names: Sequence[str], at: Floats, degree: int) -> Interval:
    """(monomials, points): Taylor coefficients of the expression at the points, (points, variables)."""
    table = monomials(len(names), degree)

    taken = take_out_quotients(expression)

    def leaf(node: Number | Variable) -> Interval:
        if not isinstance(node, Variable):
            return _constant(Interval.rational(node.value), table, len(at))
        if node.name in taken.quotients:
            quotient = taken.quotients[node.name]
            axis = list(names).index(quotient.variable)
            return _of_one(jets.jet_of_quotient(quotient, Interval.exact(at[:, axis]), degree), axis, table)
        axis = list(names).index(node.name)
        own = np.zeros((len(table.degrees), len(at)))
        own[0] = at[:, axis]
        if degree:
            own[1 + axis] = 1.0
        return Interval.exact(own)

    def node(op: str, args: Sequence[Interval]) -> Interval:
        return _apply(op, args, table) if args else _constant(jets.apply(op, [], 0)[0], table, len(at))

    with np.errstate(all="ignore"):
        return fold(taken.rest, leaf, node)


def _of_one(jet: jets.Jet, axis: int, table: Monomials) -> Interval:
    """A function of one of the variables."""
    lo, hi = (np.zeros((len(table.degrees), *jet[0].lo.shape)) for _ in range(2))
    alone = np.flatnonzero(table.exponents[:, axis] == table.degrees)
    for place in alone:
        lo[place], hi[place] = jet[table.degrees[place]].lo, jet[table.degrees[place]].hi
    return Interval(lo, hi)


def multiply(a: Interval, b: Interval, table: Monomials) -> Interval:
    """The product, cut off at the degree."""
    return _segments(a[table.first] * b[table.second], table.starts)


def _segments(terms: Interval, starts: Indices) -> Interval:
    """Sums of consecutive rows, with what the additions may lose."""
    longest = int(np.diff(np.append(starts, len(terms.lo))).max(initial=1))
    sizes = np.add.reduceat(terms.magnitude(), starts, axis=0)
    slack = up(up(2.0 * longest * 2.0**-53 * sizes) + longest * TINY)
    lo, hi = (np.add.reduceat(end, starts, axis=0) for end in (terms.lo, terms.hi))
    return Interval(down(lo - slack), up(hi + slack))


def largest_on_box(polynomial: Interval, r: Floats, table: Monomials) -> Floats:
    """(points,): an upper bound on |polynomial| for all t with |t_i| <= r_i, by its Bernstein coefficients.

    They are averages of the coefficients with weights of at most 1 in size, so plain floats lose little: a few
    roundings of the sum of |coefficient| r^alpha, which is added.
    """
    d, n = table.exponents.shape[1], table.degree + 1
    scale = np.ones((len(table.degrees), len(r)))
    for k, exponents in enumerate(table.exponents):
        scale[k] = np.prod(r**exponents, axis=1) * (1.0 + 2.0**-40)  # up to 40 roundings and more
    middle = polynomial.middle()
    dense = np.zeros((*[n] * d, len(r)))
    dense[tuple(table.exponents.T)] = middle * scale
    for _ in range(d):  # each step moves the first axis behind the others
        dense = np.tensordot(dense, _bernstein(n - 1), (0, 0))
    dense = np.moveaxis(dense, 0, -1)
    sizes = (np.abs(middle) * scale).sum(axis=0)
    doubt = ((polynomial.hi - polynomial.lo) * scale).sum(axis=0)
    slack = (sizes + doubt) * (2.0**-40 + len(scale) * 2.0**-50) + len(scale) * TINY
    return up(up(np.abs(dense).max(axis=tuple(range(d))) + up(doubt * (1.0 + 2.0**-40))) + slack)


@cache
def _bernstein(n: int) -> Floats:
    """(n+1, n+1): row k holds the Bernstein coefficients of t^k on [-1, 1], each at most 1 in size."""
    rows = [
        [
            sum(Fraction(comb(k, i) * 2**i * (-1) ** (k - i) * comb(j, i), comb(n, i)) for i in range(min(j, k) + 1))
            for j in range(n + 1)
        ]
        for k in range(n + 1)
    ]
    return np.array(rows, dtype=np.float64)


def compose(outer: Sequence[Interval], inner: Interval, table: Monomials) -> Interval:
    """outer_0 + outer_1 n + outer_2 n^2 + ..., n the inner polynomial without its constant.

    n^k touches no degree below k, so an outer coefficient that is unknown spoils no lower degree.
    """
    first, second, starts = table.nilpotent
    total = _constant(outer[table.degree], table, inner.lo.shape[1])
    for k in range(table.degree - 1, -1, -1):
        higher = _segments(total[first] * inner[second], starts)
        constant = _spread(outer[k], inner.lo.shape[1])
        total = Interval(*(np.concatenate([a, b]) for a, b in ((constant.lo, higher.lo), (constant.hi, higher.hi))))
    return total


def _spread(x: Interval, points: int) -> Interval:
    return Interval(np.broadcast_to(x.lo, (1, points)), np.broadcast_to(x.hi, (1, points)))


def _constant(value: Interval, table: Monomials, points: int) -> Interval:
    lo, hi = np.zeros((len(table.degrees), points)), np.zeros((len(table.degrees), points))
    lo[0], hi[0] = value.lo, value.hi
    return Interval(lo, hi)


def _apply(op: str, args: Sequence[Interval], table: Monomials) -> Interval:
    if op in _EXACT:
        return _EXACT[op](*args)
    if op == "mul":
        return multiply(args[0], args[1], table)
    if op in _DERIVED:
        return _DERIVED[op](lambda op, *inner: _apply(op, inner, table), *args)
    if op == "pow":
        return _power(args[0], args[1], table)
    return _function(op, args[0], table)


def _function(op: str, argument: Interval, table: Monomials) -> Interval:
    order = table.degree
    start = jets.line(argument[0], iv.ONE, order)
    outer = jets.div(jets.constant(iv.ONE, order), start) if op == "reciprocal" else jets.apply(op, [start], order)
    return compose(outer, argument, table)


def _power(base: Interval, exponent: Interval, table: Monomials) -> Interval:
    """Whole constants by multiplication; anything else as exp(exponent log(base)), base > 0."""
    n = exponent.lo.flat[0]
    constant = bool((exponent.lo[0] == n).all() and (exponent.hi[0] == n).all() and not exponent.magnitude()[1:].any())
    if not constant or not float(n).is_integer() or abs(n) > 1024:
        return _function("exp", multiply(exponent, _function("log", base, table), table), table)
    power = _whole_power(base, abs(int(n)), table)
    return power if n >= 0 else _function("reciprocal", power, table)


def _whole_power(base: Interval, n: int, table: Monomials) -> Interval:
    if n == 0:  # 1 where the base is defined at all
        defined = np.isfinite(base.lo[0]) & np.isfinite(base.hi[0])
        return _constant(Interval.exact(np.where(defined, 1.0, np.nan)), table, base.lo.shape[1])
    if n % 2:
        return base if n == 1 else multiply(base, _whole_power(base, n - 1, table), table)
    half = _whole_power(base, n // 2, table)
    return multiply(half, half, table)


_EXACT: dict[str, Any] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "neg": lambda a: -a,
}
#: Operations by others. A maximum is b + relu(a - b): one kink to look at.
_DERIVED: dict[str, Any] = {
    "div": lambda do, a, b: do("mul", a, do("reciprocal", b)),
    "max": lambda do, a, b: b + do("relu", a - b),
    "min": lambda do, a, b: a - do("relu", a - b),
    "clip": lambda do, a, lo, hi: do("min", do("max", a, lo), hi),
}
