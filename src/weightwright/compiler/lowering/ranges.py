"""Intervals that hold every column on a box of inputs, token by token; plain floats, rounded outward a little.

A column is an affine form in the inputs and in what functions, products and softmaxes return; its range adds up the
intervals of these. The checker does the same in its own arithmetic; where it sees less, its ranges are wider than
these, and `checked` asks for its ranges of functions in the place of ours.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from weightwright.checker.composite.units import profile_range
from weightwright.claims.graph import ATTENTION, PRODUCT, SOFTMAX, SQUARE, attended, sees
from weightwright.compiler.lowering.affine_forms import Form, Forms, mixes
from weightwright.enclosures.balls.series import working_precision
from weightwright.enclosures.intervals.formulas import OUTWARD, enclose
from weightwright.enclosures.intervals.intervals import Interval
from weightwright.enclosures.intervals.jets import jet
from weightwright.errors import CertificateError
from weightwright.expressions import parse
from weightwright.numbers import Floats

#: The lemma's supremum is taken on LEMMA_HALVINGS intervals that halve, each cut into LEMMA_PIECES.
LEMMA_HALVINGS, LEMMA_PIECES = 64, 8
#: Factor by which the supremum is taken larger.
LEMMA_ROOM = 1.0001

#: A square alone is at most this multiple of the product of the factors' sizes: balances are powers of two.
SQUARES_ALONE = 1.5
#: Of a column, as the caller knows it better than ranges show.
Limit = tuple[float, float]


class Undefined(Exception):  # noqa: N818  (found on the way, never shown)
    """A function is undefined or unbounded somewhere on the range [lo, hi] of its argument, on this token."""

    def __init__(self, unit: int, token: int, lo: float, hi: float) -> None:
        super().__init__(unit, token, lo, hi)
        self.unit, self.token, self.lo, self.hi = unit, token, lo, hi


@dataclass(frozen=True)
class Lemma:
    """A product f g(V) with V = e + c f^2 + (what is at least 0): see `ProductClaim`. One of each for every token."""

    index: int  # of g(V) among the factors
    value: Floats  # sup sqrt((V - e) / c) |g(V)|
    slope: Floats  # sup sqrt((V - e) / c) |g'(V)|


@dataclass
class ColumnRanges:
    """The intervals on one box: of the basis (inputs and units), and of any column."""

    forms: Forms
    wide: WideForms
    lo: Floats  # (tokens, d + units)
    hi: Floats
    lemmas: dict[int, Lemma] = field(default_factory=dict)
    limits: Mapping[int, Limit] = field(default_factory=dict)  # columns that are known to reach less far than it looks
    outward: float = OUTWARD
    ablatable: bool = False  # any head may return 0 instead
    checked: bool = False  # the ranges of functions are those that the checker finds

    def of(self, column: int) -> tuple[Floats, Floats]:
        """Ends of the column's range on every token."""
        form = self.forms[column]
        middle, radius, size = (self.lo + self.hi) / 2, (self.hi - self.lo) / 2, np.maximum(abs(self.lo), abs(self.hi))
        rows = self.wide.row(form)
        if rows is None:
            w = form.weights
            centre, half, large = middle @ w, radius @ abs(w), size @ abs(w)
        else:
            centre, half, large = (rows[0] @ middle.ravel(), *(abs(rows[0]) @ x.ravel() for x in (radius, size)))
        constants = form.constants if rows is None else rows[1]
        half = half + self.outward * (large + np.where(half > 0, abs(constants), 0.0))
        return self._limited(column, centre + constants - half, centre + constants + half)

    def hold(self, unit: int, lo: Floats, hi: Floats) -> None:
        """Take down the range of a unit, token by token."""
        place = self.forms.place[unit]
        if self.ablatable:
            lo, hi = np.minimum(lo, 0.0), np.maximum(hi, 0.0)
        self.lo[:, place], self.hi[:, place] = self._limited(unit, lo, hi)

    def _limited(self, column: int, lo: Floats, hi: Floats) -> tuple[Floats, Floats]:
        """Never empty: on a part of the domain that the limits leave out, the nearest end."""
        ends = self.limits.get(column)
        return (lo, hi) if ends is None else (np.clip(lo, *ends), np.clip(hi, *ends))


class WideForms:
    """Forms over the basis of all tokens, with mixed columns written out: (tokens, tokens * basis)."""

    def __init__(self, forms: Forms) -> None:
        self.forms = forms
        self.mixed = np.zeros(forms.size, dtype=bool)
        # by their places: which of the basis they hold, (tokens, tokens, as many), and constants
        self._rows: dict[int, tuple[list[int], Floats, Floats]] = {}
        for unit in mixes(forms.graph, forms.plan):
            node = forms.graph.nodes[unit]
            A = forms.graph.matrices[node.index]
            rows, constants = self.always(forms[node.of[0]])
            mixed = (A @ rows).reshape(forms.n, forms.n, forms.size)
            held = np.flatnonzero(mixed.any(axis=(0, 1))).tolist()
            self._rows[forms.place[unit]] = held, mixed[:, :, held], A @ constants
            self.mixed[forms.place[unit]] = True

    def row(self, form: Form) -> tuple[Floats, Floats] | None:
        """The form over all tokens; None where a token needs its own basis only."""
        return self.always(form) if form.weights[self.mixed].any() else None

    def always(self, form: Form) -> tuple[Floats, Floats]:
        n, B = self.forms.n, self.forms.size
        own, constants = np.zeros((n, n, B)), form.constants.copy()
        own[range(n), range(n)] = np.where(self.mixed, 0.0, form.weights)
        for place in np.flatnonzero(self.mixed & (form.weights != 0)):
            held, weights, shift = self._rows[int(place)]
            own[:, :, held] += form.weights[place] * weights
            constants = constants + form.weights[place] * shift
        return own.reshape(n, n * B), constants


class Evaluator:
    """Ranges on boxes, one box after the other; what does not depend on the box is prepared once."""

    def __init__(
        self,
        forms: Forms,
        limits: Mapping[int, Limit] = {},
        outward: float = OUTWARD,
        ablatable: bool = False,
        checked: bool = False,
    ) -> None:
        self.forms, self.wide, self.limits, self.outward = forms, WideForms(forms), limits, outward
        self.ablatable, self.checked = ablatable, checked
        self.groups = _groups(forms)

    def on(self, lo: Floats, hi: Floats) -> ColumnRanges:
        """lo, hi: (tokens, d). Raises Undefined."""
        ends = np.zeros((2, self.forms.n, self.forms.size))
        ends[0, :, : self.forms.d], ends[1, :, : self.forms.d] = lo, hi
        how = self.limits, self.outward, self.ablatable, self.checked
        ranges = ColumnRanges(self.forms, self.wide, ends[0], ends[1], {}, *how)
        for units in self.groups:
            if units[0] in self.forms.plan.functions:
                _functions(ranges, units)
            elif self.forms.graph.nodes[units[0]].op == SOFTMAX:
                _softmax(ranges, units)
            elif self.forms.graph.nodes[units[0]].op == ATTENTION:
                _attention(ranges, units[0])
            else:
                _product(ranges, units[0])
        return ranges


def _groups(forms: Forms) -> list[list[int]]:
    """The units in an order in which they can be bounded, those of one depth and one formula together."""
    depth = forms.depths()
    groups = defaultdict[tuple[int, str, int], list[int]](list)
    for unit in forms.plan.units:
        function, node = forms.plan.functions.get(unit), forms.graph.nodes[unit]
        if function is not None:
            groups[depth[unit], function.formula, 0].append(unit)
        elif node.op == SOFTMAX:
            groups[depth[unit], SOFTMAX, forms.plan.units.index(unit)].append(unit)
        elif node.op in (PRODUCT, ATTENTION):
            groups[depth[unit], node.op, unit].append(unit)
    return [units for _, units in sorted(groups.items(), key=lambda item: item[0][0])]


def _functions(ranges: ColumnRanges, units: list[int]) -> None:
    """The same formula of several columns."""
    functions = ranges.forms.plan.functions
    lo, hi = (np.array(ends) for ends in zip(*(ranges.of(functions[u].base) for u in units), strict=True))
    formula = functions[units[0]].formula
    least, most = _enclose_as_checker(formula, lo, hi) if ranges.checked else enclose(formula, lo, hi)
    bad = np.argwhere(~(np.isfinite(least) & np.isfinite(most)))
    if len(bad):
        i, t = bad[0]
        raise Undefined(units[i], int(t), float(lo[i, t]), float(hi[i, t]))
    for unit, *ends in zip(units, least, most, strict=True):
        ranges.hold(unit, *ends)


def _enclose_as_checker(formula: str, lo: Floats, hi: Floats) -> tuple[Floats, Floats]:
    """Ends of the formula's range over every interval, as the checker encloses it; not finite where it refuses."""
    profile, ends = parse(formula, ("x",)), np.empty((2, *lo.shape))
    with working_precision():
        for place in np.ndindex(lo.shape):
            try:
                ends[:, *place] = profile_range(profile, float(lo[place]), float(hi[place]))
            except CertificateError:
                ends[:, *place] = -np.inf, np.inf
    return ends[0], ends[1]


def _softmax(ranges: ColumnRanges, units: list[int]) -> None:
    """An entry is largest where its own argument is largest and the others smallest."""
    forms = ranges.forms
    node = forms.graph.nodes[units[0]]
    lo, hi = (np.array(ends) for ends in zip(*(ranges.of(c) for c in node.of), strict=True))  # (k, tokens)
    others = np.arange(len(node.of)) != node.index
    with np.errstate(over="ignore"):
        least = 1 / (1 + np.exp(hi[others] - lo[node.index]).sum(axis=0))
        most = 1 / (1 + np.exp(lo[others] - hi[node.index]).sum(axis=0))
    ranges.hold(units[0], np.maximum(least * (1 - OUTWARD), 0.0), np.minimum(most * (1 + OUTWARD), 1.0))


def _attention(ranges: ColumnRanges, unit: int) -> None:
    """A mean lies between the values that are seen."""
    graph = ranges.forms.graph
    node = graph.nodes[unit]
    seen = sees(graph, node)
    lo, hi = ranges.of(attended(node)[2])
    ranges.hold(unit, np.where(seen, lo, np.inf).min(axis=1), np.where(seen, hi, -np.inf).max(axis=1))


def _product(ranges: ColumnRanges, unit: int) -> None:
    forms = ranges.forms
    a, b = (Interval(*ranges.of(c)) for c in forms.graph.nodes[unit].of)
    interval = a * b
    if ranges.ablatable:  # either of its two squares may be 0: up to the product of the sizes, in balance
        size = a.magnitude() * b.magnitude() * SQUARES_ALONE
        interval = Interval(-size, size)
    slack = OUTWARD * interval.magnitude()
    lo, hi = interval.lo - slack, interval.hi + slack
    lemma = None if ranges.ablatable else _lemma(ranges, unit)
    if lemma is not None:
        ranges.lemmas[unit] = lemma
        lo, hi = np.maximum(lo, -lemma.value), np.minimum(hi, lemma.value)
    ranges.hold(unit, lo, hi)


def _lemma(ranges: ColumnRanges, product: int) -> Lemma | None:
    """Whether one factor is a function of a sum of squares that holds the other's; see `ProductClaim`."""
    forms = ranges.forms
    of = forms.graph.nodes[product].of
    for index, f in ((0, of[1]), (1, of[0])):
        function = forms.plan.functions.get(of[index])
        squares = [u for u, own in forms.plan.functions.items() if forms.graph.nodes[u].op == SQUARE and own.base == f]
        if function is None or not squares:
            continue
        rows, e = ranges.wide.always(forms[function.base])
        c = rows.reshape(forms.n, forms.n, forms.size)[range(forms.n), range(forms.n), forms.place[squares[0]]]
        used = rows != 0
        if (
            (c > 0).all()
            and (rows[used] > 0).all()
            and (np.broadcast_to(ranges.lo.ravel(), rows.shape)[used] >= 0).all()
        ):
            lo, hi = ranges.of(function.base)
            pairs = [_suprema(function.formula, *ends) for ends in zip(lo, hi, e, c, strict=True)]
            value, slope = np.array(pairs).T
            return Lemma(index, value, slope)
    return None


def _suprema(formula: str, lo: float, hi: float, e: float, c: float) -> tuple[float, float]:
    """sup sqrt((V - e) / c) |g(V)|, and the same with g', for V between lo and hi: on pieces that grow from the lower
    end, as the checker does."""
    steps = 2.0 ** (np.arange(LEMMA_PIECES * LEMMA_HALVINGS) / LEMMA_PIECES - LEMMA_HALVINGS)
    edges = np.unique(np.concatenate([[lo], np.minimum(lo + (hi - lo) * steps, hi), [hi]]))
    edges = np.repeat(edges, 2) if len(edges) == 1 else edges  # V is one float: a piece without width
    over = jet(parse(formula, ("x",)), Interval(edges[:-1], edges[1:]), 1)
    root = np.sqrt(np.maximum(edges[1:] - e, 0.0) / c)
    value, slope = (float((root * np.broadcast_to(x.magnitude(), root.shape)).max()) * LEMMA_ROOM for x in over)
    return value, slope
