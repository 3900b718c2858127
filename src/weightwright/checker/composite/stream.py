"""What a network's stream holds, token by token: an affine form in the inputs and units, and how far off it may be.

Linear maps act on the forms in mid-radius arithmetic; what they round when they are run is counted in `err`.

Affine combinations of forms of one coordinate, many at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from weightwright.checker.core.complaints import LEAST, must
from weightwright.checker.core.machine import Machine
from weightwright.enclosures.balls.midrad import LOST, Balls, U, above, gamma, power_of_two, product_of_balls
from weightwright.limits import count_tokens, hold, tick
from weightwright.network import Linear, Term
from weightwright.numbers import Floats

T = TypeVar("T")

#: The three kinds of error, in this order.
APPROXIMATION, LEAKAGE, ROUNDING = range(3)
#: Nothing that is computed may be larger: far below the largest number of every dtype.
LARGE = 2.0**100
#: What an input takes: its two ends, in arrays and as numbers of Python's in lists, which take 32 bytes each.
BYTES_OF_AN_INPUT = 2 * (8 + 32)
#: Arrays of the size of a map's result that are there at the same time while it is walked through.
_ARRAYS = 12


class Basis:
    """What forms are affine in: 1, the inputs, the units, each with an interval that holds it."""

    def __init__(self, lo: Floats, hi: Floats) -> None:
        self.lo, self.hi = [1.0, *lo.tolist()], [1.0, *hi.tolist()]

    def add(self, lo: float, hi: float) -> int:
        self.lo.append(lo)
        self.hi.append(hi)
        return len(self.lo) - 1

    def over(self, ids: tuple[int, ...]) -> tuple[Floats, Floats]:
        """Middles, and radii rounded up."""
        lo, hi = np.array([self.lo[i] for i in ids]), np.array([self.hi[i] for i in ids])
        middle = lo / 2 + hi / 2
        return middle, np.where(lo == hi, 0.0, above(np.maximum(hi - middle, middle - lo), 2))


@dataclass(frozen=True)
class Row:
    """One token: coordinate c is the sum over i of forms[i, c] times the basis function ids[i]. ids[0] is 0, the 1."""

    ids: tuple[int, ...]
    forms: Balls  # (number of ids, coordinates)

    def column(self, coordinate: int) -> Row:
        """The form of one coordinate."""
        return Row(self.ids, Balls(self.forms.mid[:, [coordinate]], self.forms.rad[:, [coordinate]]))

    @classmethod
    def constant(cls, values: Floats) -> Row:
        return cls((0,), Balls.exact(values[None]))

    def times(self, A: Floats) -> Row:
        return Row(self.ids, product_of_balls(self.forms, Balls.exact(A)))

    def scaled(self, S: Floats) -> Row:
        """Every coordinate times its factor."""
        return Row(self.ids, product_of_balls(self.forms, Balls.exact(np.diag(S))))

    def spread(self, ids: tuple[int, ...]) -> Balls:
        """The forms over more basis functions."""
        hold(2 * len(ids) * self.forms.mid.shape[1])
        mid, rad = np.zeros((2, len(ids), self.forms.mid.shape[1]))
        places = [ids.index(i) for i in self.ids] if len(ids) < 64 else np.searchsorted(ids, self.ids)
        mid[places], rad[places] = self.forms.mid, self.forms.rad
        return Balls(mid, rad)

    def plus(self, other: Row) -> Row:
        ids = tuple(sorted({*self.ids, *other.ids}))
        return Row(ids, self.spread(ids) + other.spread(ids))

    def range(self, basis: Basis) -> tuple[Floats, Floats]:
        """Ends of an interval for each coordinate."""
        tick()
        middle, radius = basis.over(self.ids)
        centre = product_of_balls(Balls.exact(middle[None]), self.forms)
        size = self.forms.magnitude()
        varies = ((radius != 0).astype(float) @ (size != 0)) > 0
        half = above(radius @ size + centre.rad[0] + np.where(varies, LOST, 0.0), len(self.ids) + 3)
        lo, hi = centre.mid[0] - half, centre.mid[0] + half
        exact = half == 0
        return np.where(exact, lo, np.nextafter(lo, -np.inf)), np.where(exact, hi, np.nextafter(hi, np.inf))

    @property
    def constants(self) -> Floats:
        """The coordinates that are known numbers; NaN where they are not."""
        known = ~self.forms.mid[1:].any(axis=0) & ~self.forms.rad.any(axis=0)
        return np.where(known, self.forms.mid[0], np.nan)


def mixed(weights: Balls, rows: list[Row]) -> Row:
    """The sum of weights[t] rows[t]."""
    used = [t for t in range(len(rows)) if weights.mid[t] != 0 or weights.rad[t] != 0]
    if not used:
        return Row.constant(np.zeros(rows[0].forms.mid.shape[1]))
    ids = tuple(sorted({i for t in used for i in rows[t].ids}))
    parts = [rows[t].spread(ids) for t in used]
    shape = parts[0].mid.shape
    hold(2 * len(parts) * parts[0].mid.size)
    stacked = Balls(*(np.stack([getattr(p, end).ravel() for p in parts]) for end in ("mid", "rad")))
    total = product_of_balls(Balls(weights.mid[used][None], weights.rad[used][None]), stacked)
    return Row(ids, Balls(total.mid.reshape(shape), total.rad.reshape(shape)))


@dataclass(frozen=True)
class Stream:
    """The tokens' forms, and what the computed numbers are off by at most: err (3, tokens, coordinates)."""

    rows: list[Row]
    err: Floats
    _known: dict[str, Floats] = field(default_factory=dict)

    @cached_property
    def total(self) -> Floats:
        return above(self.err.sum(axis=0), 3)

    def sizes(self, basis: Basis) -> Floats:
        """(tokens, coordinates): upper bounds on the computed numbers. Asked with one basis only, which grows."""
        if "sizes" not in self._known:
            ends = np.array(each(self.rows, lambda row: row.range(basis)))  # (tokens, 2, coordinates)
            self._known["sizes"] = above(np.abs(ends).max(axis=1) + self.total, 2)
        return self._known["sizes"]

    def entering(self, machine: Machine) -> Stream:
        """The same as it enters a product of matrices: what may be subnormal, may be taken for 0."""
        if not machine.flushed:
            return self
        known = self.constants
        kept = (known == 0) | (np.abs(known) >= machine.smallest)  # NaN is not
        err = self.err.copy()
        err[ROUNDING] += np.where(kept, 0.0, machine.flushed)
        return Stream(self.rows, above(err, 1))

    @cached_property
    def constants(self) -> Floats:
        """(tokens, coordinates): numbers that are known and computed exactly; NaN elsewhere."""
        known = np.array([row.constants for row in self.rows])
        return np.where(self.total == 0, known, np.nan)


def each(rows: list[Row], function: Callable[[Row], T]) -> list[T]:
    """What a function says of every row; a row that several tokens share is looked at once."""
    known: dict[int, T] = {}
    for row in rows:
        if id(row) not in known:
            known[id(row)] = function(row)
    return [known[id(row)] for row in rows]


def linear(stream: Stream, map: Linear, basis: Basis, machine: Machine) -> Stream:
    """X -> sum of R (S * X) A, plus C, as it is run: products with A first, then with R, then the sum."""
    stream, unit, smallest = stream.entering(machine), machine.unit, machine.smallest
    sizes = stream.sizes(basis)
    T, width = _tokens_out(stream, map), len(map.coordinates)
    count_tokens(T)
    hold(_ARRAYS * T * width)
    alike = [Row.constant(code) for code in map.C]
    rows = [alike[min(t, len(map.C) - 1)] for t in range(T)]
    err, size, lost = np.zeros((3, T, width)), np.abs(np.broadcast_to(map.C, (T, width))), np.zeros((T, width))
    products, roundings = (np.broadcast_to(map.C != 0, (T, width)).astype(float) for _ in range(2))
    factors_exact = np.ones((T, width), dtype=bool)
    for term in map.terms:
        hold(0 if term.tokens is None else 3 * T * len(stream.rows))
        A, R = np.abs(term.A), None if term.tokens is None else np.abs(term.tokens.matrix(len(stream.rows)))
        S = np.ones((1, term.A.shape[0])) if term.S is None else np.abs(term.S) * np.ones((1, term.A.shape[0]))
        moved = _moved(stream.rows, term)
        rows = _added(rows, moved)
        err = err + np.stack([_on_tokens(R, _scaled(S, e, A)) for e in stream.err])
        scaled = above((S * sizes) @ A, A.shape[0] + 1)
        must(bool((S * sizes < LARGE).all() and (scaled < LARGE).all()), "a number of a linear map may overflow")
        size = size + _on_tokens(R, scaled)
        in_column = (A != 0).sum(axis=0)
        in_row = np.ones((T, 1)) if R is None else (R != 0).sum(axis=1)[:, None]
        products = products + in_column * in_row
        roundings = roundings + in_column + in_row + 2
        exact = _exact(A).all(axis=0) & _exact(S).all() & (True if R is None else bool(_exact(R).all()))
        factors_exact = factors_exact & (exact | (in_column * in_row == 0))
        reach = 1.0 if R is None else float(R.sum(axis=1).max())
        lost = lost + smallest * (in_column + in_row + 2) * (1 + reach) * (1 + A.sum(axis=0))
    must(bool((size < LARGE).all()), "a number of a linear map may overflow")
    exact = (products <= 1) & factors_exact
    err[ROUNDING] = err[ROUNDING] + np.where(exact, 0.0, gamma(roundings + len(map.terms) + 1, unit) * size + lost)
    return Stream(rows, above(err, 4 + 2 * len(map.terms)))


def exact_numbers(held: Floats, weights: Floats, dtype: str) -> Floats:
    """held @ weights where every sum is one product that is exact in the dtype: a stored number times a power of two.
    NaN elsewhere, and where held is NaN."""
    total = np.full((len(held), weights.shape[1]), np.nan)
    for column in range(weights.shape[1]):
        used = np.flatnonzero(weights[:, column])
        factors, numbers = weights[used, column], held[:, used]
        single = (numbers != 0).sum(axis=1) <= 1  # NaN counts as a number
        products = numbers * factors
        exact = ((power_of_two(factors) | power_of_two(np.nan_to_num(numbers))) | (numbers == 0)).all(axis=1)
        size = np.abs(products).max(axis=1, initial=0.0)
        normal = (size == 0) | ((size > 2.0 ** (LEAST[dtype] + 8)) & (size < 2.0**100))
        total[:, column] = np.where(single & exact & normal, products.sum(axis=1), np.nan)
    return total


def _tokens_out(stream: Stream, map: Linear) -> int:
    for term in map.terms:
        if term.tokens is not None:
            return term.tokens_after(len(stream.rows))
    return len(map.C) if len(map.C) > 1 else len(stream.rows)


def _exact(factors: Floats) -> npt.NDArray[np.bool_]:
    """Products with these are exact and cannot underflow."""
    return power_of_two(factors) & ((factors == 0) | (factors >= 1))


def _added(rows: list[Row], others: list[Row]) -> list[Row]:
    """The sums, pair by pair; equal pairs once."""
    known: dict[tuple[int, int], Row] = {}
    for row, other in zip(rows, others, strict=True):
        tick()
        if (id(row), id(other)) not in known:
            known[id(row), id(other)] = row.plus(other)
    return [known[id(row), id(other)] for row, other in zip(rows, others, strict=True)]


def _moved(rows: list[Row], term: Term) -> list[Row]:
    if term.S is not None:
        rows = [row.scaled(term.S[t] * np.ones(term.A.shape[0])) for t, row in enumerate(rows)]
    new = each(rows, lambda row: row.times(term.A))
    if term.tokens is None:
        return new
    return [mixed(Balls.exact(weights), new) for weights in term.tokens.matrix(len(rows))]


def _scaled(S: Floats, errors: Floats, A: Floats) -> Floats:
    """(S errors) A; what underflows is made up for."""
    return above((S * errors) @ A + LOST * ((errors != 0).astype(float) @ (A != 0)), A.shape[0] + 2)


def _on_tokens(R: Floats | None, per_token: Floats) -> Floats:
    if R is None:
        return per_token
    return above(R @ per_token + LOST * ((R != 0).astype(float) @ (per_token != 0)), R.shape[1] + 1)


def combination(weights: Floats, rows: list[Row], constant: float = 0.0) -> Row:
    """constant + the sum of weights[i] rows[i], each a form of one coordinate."""
    tick()
    ids = np.concatenate([np.zeros(1, dtype=np.int64), *(np.array(row.ids, dtype=np.int64) for row in rows)])
    mid = np.concatenate([[constant], *(w * row.forms.mid[:, 0] for w, row in zip(weights, rows, strict=True))])
    own = np.concatenate([[1.0], *(row.forms.mid[:, 0] for row in rows)])
    rad = np.concatenate([np.zeros(1), *(row.forms.rad[:, 0] for row in rows)])
    factor = np.concatenate([np.ones(1), *(np.full(len(row.ids), w) for w, row in zip(weights, rows, strict=True))])
    exact = ((power_of_two(factor) | power_of_two(own)) & (np.abs(mid) > LOST)) | (own == 0) | (factor == 0)
    exact[0] = True
    rounded = np.where(exact, 0.0, U * np.abs(mid) + LOST)
    spread = np.where((rad == 0) | (factor == 0), 0.0, np.abs(factor) * rad + LOST)
    every, place = np.unique(ids, return_inverse=True)
    total, size, radius = (np.zeros(len(every)) for _ in range(3))
    np.add.at(total, place, mid)
    np.add.at(size, place, np.abs(mid))
    np.add.at(radius, place, rounded + spread)
    count = np.bincount(place, weights=mid != 0, minlength=len(every))
    added = np.where(count > 1, gamma(count) * size, 0.0)
    most = 4 + int(np.bincount(place).max())
    return Row(tuple(every.tolist()), Balls(total[:, None], _up(radius + added, most)[:, None]))


def _up(radius: Floats, roundings: int) -> Floats:
    return np.where(radius == 0, 0.0, above(radius, roundings))


def of_one(id: int) -> Row:
    """The basis function itself."""
    return Row((0, id), Balls.exact(np.array([[0.0], [1.0]])))


def parts_of(basis: Basis, splits: tuple[int, ...]) -> list[Basis]:
    """The parts of the domain; the whole of it where it is not split."""
    if not splits or max(splits) == 1:
        return [basis]
    lo, hi = np.array(basis.lo[1:]), np.array(basis.hi[1:])
    edges = [np.linspace(a, b, parts + 1) for a, b, parts in zip(lo, hi, splits, strict=True)]
    for edge, a, b in zip(edges, lo, hi, strict=True):
        edge[0], edge[-1] = a, b
    cells = []
    for index in np.ndindex(*splits):
        tick()
        ends = [(edge[i], edge[i + 1]) for edge, i in zip(edges, index, strict=True)]
        cells.append(Basis(np.array([a for a, _ in ends]), np.array([b for _, b in ends])))
    return cells
