"""The units of a graph of columns: functions, products and the squares they are made of, softmax entries.

Every column on every token has two forms. The *declared* one is affine in inputs and units, a product being one unit
with the range of a product. The *expanded* one is what the stream holds: a product is expressed by its two squares.
Declared forms give ranges, expanded ones are compared with the stream.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from flint import arb

from weightwright.checker.composite.graph_well_formed import well_formed
from weightwright.checker.composite.stream import Basis, Row, combination, of_one, parts_of
from weightwright.checker.composite.sum_of_squares import SumOfSquares, steepest
from weightwright.checker.composite.units import difference, interval_product, one_range, profile_range
from weightwright.checker.core.complaints import parse_or_refuse, require
from weightwright.claims.chain import compose_chain
from weightwright.claims.graph import (
    AFFINE,
    ATTENTION,
    INPUT,
    KINDS,
    MIX,
    PRODUCT,
    SOFTMAX,
    SQUARE,
    Graph,
    ProductClaim,
    attended,
    sees,
)
from weightwright.claims.target import Composite
from weightwright.enclosures.balls.midrad import SPARE, above
from weightwright.errors import FormulaError
from weightwright.expressions import Expression, to_text
from weightwright.expressions.nodes import count_nodes
from weightwright.expressions.parser import MAX_NODES
from weightwright.limits import count_boxes, tick
from weightwright.numbers import Floats

Range = tuple[float, float]


@dataclass(frozen=True)
class Held:
    """What the stream holds of a column: its expanded form, and how far that may be from the column, (3,)."""

    form: Row
    extra: Floats


class GraphUnits:
    """Unit k n + t is column k on token t; from K n on come the squares of products, plus and minus in turn."""

    takes_zones = True

    def __init__(self, composite: Composite, basis: Basis, shape: tuple[int, int], tokens: int | None) -> None:
        graph = composite.target
        assert isinstance(graph, Graph)
        well_formed(graph, composite, tokens, shape[1])
        self.graph, self.basis = graph, basis
        self.n, self.d = shape
        self._cells, self._ablatable = parts_of(basis, composite.splits), composite.ablatable
        self._base = {claim.node: claim.base for claim in composite.fused}
        self._products = {claim.node: claim for claim in composite.products}
        waiting = [graph.nodes[p.node].of[p.lemma] for p in composite.products if p.lemma >= 0]
        self._waiting = {node for node in waiting if self._is_function(node)}
        require(len(self._waiting) == len(set(waiting)), "the lemma is about a function of one number")
        self._late: dict[int, Floats] = {}  # units that wait, with the errors of their arguments
        self._ids: dict[int, int] = {}
        self._declared: dict[tuple[int, int], Row] = {}
        self._held: dict[tuple[int, int], Held] = {}
        self._profiles: dict[int, Expression] = {}
        self._ends: dict[int, tuple[Floats, Floats]] = {}  # of columns, see `on_tokens`
        for node in self._base:  # a chain that is none is refused, also where nobody computes it
            self._profile(node)

    @property
    def count(self) -> int:
        return 3 * len(self.graph.nodes) * self.n

    def profile(self, unit: int) -> str:
        return to_text(self._profile(unit // self.n))

    def id(self, unit: int) -> int:
        if unit not in self._ids:
            node, token = divmod(unit, self.n)
            form = self._argument(node, token)
            count_boxes(len(self._cells))
            ranges = [one_range(form, cell) for cell in self._cells]
            if node in self._waiting:
                require(unit in self._late, "a unit that waits was not computed")
                away = SPARE * float(self._late[unit].sum())
                ranges = [(lo - away, hi + away) for lo, hi in ranges]
            profile = self._profile(node)
            self._ids[unit] = self._add([profile_range(profile, lo, hi) for lo, hi in ranges])
        return self._ids[unit]

    def softmax(self, node: int, token: int) -> int:
        """The basis function of an entry of a softmax that was computed."""
        unit = node * self.n + token
        if unit not in self._ids:
            own, others = self.graph.nodes[node].of[self.graph.nodes[node].index], list(self.graph.nodes[node].of)
            others.pop(self.graph.nodes[node].index)
            mine = self.declared(own, token)
            gaps = [combination(np.array([1.0, -1.0]), [self.declared(k, token), mine]) for k in others]
            self._ids[unit] = self._add([_entry([one_range(gap, cell) for gap in gaps]) for cell in self._cells])
        return self._ids[unit]

    def attention(self, node: int, token: int) -> int:
        """The basis function of an attention that was computed: a mean of the values that are seen."""
        unit = node * self.n + token
        if unit not in self._ids:
            lo, hi = self.on_tokens(attended(self.graph.nodes[node])[2])
            (seen,) = sees(self.graph, self.graph.nodes[node], token, token + 1)
            self._ids[unit] = self._add([(a[seen].min(), b[seen].max()) for a, b in zip(lo, hi, strict=True)])
        return self._ids[unit]

    def on_tokens(self, column: int) -> tuple[Floats, Floats]:
        """(cells, tokens) each: between which numbers a column lies."""
        if column not in self._ends:
            rows = [self.declared(column, token) for token in range(self.n)]
            ends = np.array([[one_range(row, cell) for row in rows] for cell in self._cells])
            require(bool(np.isfinite(ends).all()), "the range of a column is not bounded")
            self._ends[column] = ends[..., 0], ends[..., 1]
        return self._ends[column]

    def argument(self, unit: int) -> Row:
        return self._argument(*divmod(unit, self.n))

    def argument_range(self, unit: int, held: Row) -> Range:
        return self.range_of(self.argument(unit))

    def range_of(self, form: Row) -> Range:
        """Over the whole domain, cell by cell."""
        return _hull([one_range(form, cell) for cell in self._cells])

    def apart(self, held: Row, unit: int) -> Floats:
        node, token = divmod(unit, self.n)
        if node < len(self.graph.nodes):
            wanted = self.held(self._base_of(node), token)
        else:
            wanted = self._square(*divmod(node - len(self.graph.nodes), 2), token)
        return difference(held, wanted.form, self.basis) + wanted.extra

    def column_apart(self, held: Row, node: int, token: int) -> Floats:
        """(3,): how far what a coordinate holds is from a column."""
        wanted = self.held(node, token)
        return difference(held, wanted.form, self.basis) + wanted.extra

    def output_apart(self, held: Row, token: int, column: int, shape: tuple[int, int]) -> Floats:
        wanted = (self.n, len(self.graph.outputs))
        require(shape == wanted, f"the target has outputs {wanted} (tokens, features), not {shape}")
        return self.column_apart(held, self.graph.outputs[column], token)

    def waits(self, unit: int) -> bool:
        return unit // self.n in self._waiting

    def wait(self, unit: int, errors: Floats) -> None:
        require(unit not in self._late, "a unit that waits is computed twice, from numbers that may differ")
        self._late[unit] = errors

    def declared(self, node: int, token: int) -> Row:
        """The form of a column in inputs and units."""
        key = (node, token)
        if key not in self._declared:
            stack = [key]
            while stack:  # no recursion: graphs may be deep
                missing = [k for k in self._parents(*stack[-1]) if k not in self._declared]
                if missing:
                    stack.extend(missing)
                    continue
                done = stack.pop()
                if done not in self._declared:
                    self._declared[done] = self._declare(*done)
        return self._declared[key]

    def held(self, node: int, token: int) -> Held:
        """The form of a column that the stream should hold."""
        key = (node, token)
        if key not in self._held:
            stack = [key]
            while stack:
                missing = [k for k in self._parents(*stack[-1]) if k not in self._held]
                if missing:
                    stack.extend(missing)
                    continue
                done = stack.pop()
                if done not in self._held:
                    self._held[done] = self._hold(*done)
        return self._held[key]

    def _is_function(self, node: int) -> bool:
        return self.graph.nodes[node].op not in KINDS or node in self._base

    def _parents(self, node: int, token: int) -> list[tuple[int, int]]:
        """The columns whose forms the form of a column is made of."""
        tick()
        own = self.graph.nodes[node]
        if self._is_function(node) or own.op in (SOFTMAX, ATTENTION, INPUT):
            return []
        if own.op == MIX:
            used = np.flatnonzero(self.graph.matrices[own.index][token]).tolist()
            return [(own.of[0], t) for t in used]
        return [(k, token) for k in own.of]

    def _declare(self, node: int, token: int) -> Row:
        own = self.graph.nodes[node]
        if own.op == PRODUCT and node not in self._base:
            return of_one(self._product(node, token))
        return self._linear(node, token) or of_one(self._known(node, token))

    def _hold(self, node: int, token: int) -> Held:
        own = self.graph.nodes[node]
        if own.op == PRODUCT and node not in self._base:
            return self._expanded(node, token)
        nothing, form = np.zeros(3), self._linear(node, token, expanded=True)
        if form is None:
            unit = node * self.n + token
            extra = nothing if node not in self._waiting else self._slope(node, token) * self._late[unit]
            return Held(of_one(self._known(node, token)), above(extra, 2))
        if own.op == INPUT:
            return Held(form, nothing)
        factors = self.graph.matrices[own.index][token] if own.op == MIX else own.weights
        factors = factors[factors != 0] if own.op == MIX else factors
        extras = [self._held[key].extra for key in self._parents(node, token)]
        extra = sum((abs(w) * e for w, e in zip(factors.tolist(), extras, strict=True)), nothing)
        return Held(form, above(extra, len(extras) + 2))

    def _linear(self, node: int, token: int, expanded: bool = False) -> Row | None:
        """The form of a column that is affine in others; None if it is a unit of its own."""
        own = self.graph.nodes[node]
        if self._is_function(node) or own.op not in (INPUT, AFFINE, MIX):
            return None
        if own.op == INPUT:
            return of_one(1 + token * self.d + own.index)
        parents = self._parents(node, token)
        rows = [self._held[key].form if expanded else self._declared[key] for key in parents]
        if own.op == AFFINE:
            return combination(own.weights, rows, float(own.constants[token % len(own.constants)]))
        factors = self.graph.matrices[own.index][token]
        return combination(factors[factors != 0], rows)

    def _known(self, node: int, token: int) -> int:
        unit = node * self.n + token
        require(unit in self._ids, f"column {node} is used before it is computed")
        return self._ids[unit]

    def _base_of(self, node: int) -> int:
        require(self._is_function(node), f"column {node} is no function of one number")
        return self._base.get(node, self.graph.nodes[node].of[0])

    def _profile(self, node: int) -> Expression:
        if node not in self._profiles:
            text = SQUARE
            if node < len(self.graph.nodes):
                require(self._is_function(node), f"column {node} is no function of one number")
                text = self.graph.nodes[node].op
            if node in self._base:
                try:
                    self._profiles[node] = compose_chain(self.graph, node, self._base[node])
                except FormulaError as error:
                    require(False, f"column {node} is no function of column {self._base[node]}: {error}")
                # as text it would double with every product of a column by itself
                size = count_nodes(self._profiles[node])
                require(size <= MAX_NODES, f"column {node} as one formula has more than {MAX_NODES} operations")
            else:
                self._profiles[node] = parse_or_refuse(text, ("x",), "a profile")
        return self._profiles[node]

    def _argument(self, node: int, token: int) -> Row:
        """The declared form of a unit's argument."""
        if node < len(self.graph.nodes):
            return self.declared(self._base_of(node), token)
        product, minus = divmod(node - len(self.graph.nodes), 2)
        claim = self._claim(product)
        rows = [self.declared(k, token) for k in self.graph.nodes[product].of]
        return combination(*_square_argument(claim, rows, minus))

    def _claim(self, product: int) -> ProductClaim:
        require(product in self._products, f"no claim says how the product {product} is computed")
        return self._products[product]

    def _square(self, product: int, minus: int, token: int) -> Held:
        """What the stream should hold as the argument of a square. What waits is as it was computed: the product takes
        its error."""
        claim = self._claim(product)
        factors = [self._factor(claim, side, token) for side in (0, 1)]
        weights, rows, constant = _square_argument(claim, [factor.form for factor in factors], minus)
        extra = sum((abs(w) * f.extra for w, f in zip(weights[:2].tolist(), factors, strict=True)), np.zeros(3))
        return Held(combination(weights, rows, constant), above(extra, 4))

    def _factor(self, claim: ProductClaim, side: int, token: int) -> Held:
        held = self.held(self.graph.nodes[claim.node].of[side], token)
        return Held(held.form, np.zeros(3)) if side == claim.lemma else held

    def _expanded(self, node: int, token: int) -> Held:
        """a b = (q+ - q-) / (4 scale^2) + x b + y a - x y."""
        claim, K = self._claim(node), len(self.graph.nodes)
        a, b = (self._factor(claim, side, token) for side in (0, 1))
        squares = [of_one(self._known(K + 2 * node + sign, token)) for sign in (0, 1)]
        quarter = 0.25 / claim.scale**2  # powers of two
        weights = np.array([quarter, -quarter, claim.x, claim.y, -claim.x])
        form = combination(weights, [*squares, b.form, a.form, combination(np.zeros(0), [], claim.y)])
        extra = abs(claim.x) * b.extra + abs(claim.y) * a.extra
        if claim.lemma >= 0:
            lemma, (unit, errors) = self._lemma(claim, token), self._waited(claim, token)
            extra = extra + lemma.error_factor(self._range_of_unit(unit), float(errors.sum())) * errors
        return Held(form, above(extra, 6))

    def _waited(self, claim: ProductClaim, token: int) -> tuple[int, Floats]:
        unit = self.graph.nodes[claim.node].of[claim.lemma] * self.n + token
        require(unit in self._late, "a unit that waits was not computed")
        return unit, self._late[unit]

    def _range_of_unit(self, unit: int) -> Range:
        return self.range_of(self._argument(*divmod(unit, self.n)))

    def _slope(self, node: int, token: int) -> float:
        """The steepest slope of a function that waits, for those who read it without the lemma."""
        unit = node * self.n + token
        lo, hi = self._range_of_unit(unit)
        return steepest(self._profile(node), lo, hi, float(self._late[unit].sum()))

    def _lemma(self, claim: ProductClaim, token: int) -> SumOfSquares:
        """V = e + c f^2 + ..., read off the declared form of V."""
        of = self.graph.nodes[claim.node].of
        function, other = of[claim.lemma], of[1 - claim.lemma]
        V = self._argument(function, token)
        squares = [
            self._ids[k * self.n + token]
            for k, node in enumerate(self.graph.nodes)
            if k * self.n + token in self._ids and self._is_function(k) and self._base_of(k) == other
            and to_text(self._profile(k)) == SQUARE
        ]  # fmt: skip
        places = [place for place, id in enumerate(V.ids) if id in squares]
        require(len(places) == 1, f"the lemma about product {claim.node}: no square of column {other}")
        c = float(V.forms.mid[places[0], 0] - SPARE * V.forms.rad[places[0], 0])
        require(c > 0, f"the lemma about product {claim.node}: the square has weight {c!r}")
        keep = [place for place in range(len(V.ids)) if place not in places]
        rest = Row(tuple(V.ids[p] for p in keep), type(V.forms)(V.forms.mid[keep], V.forms.rad[keep]))
        return SumOfSquares(self._profile(function), self.range_of(rest)[0], c)

    def _product(self, node: int, token: int) -> int:
        unit = node * self.n + token
        if unit not in self._ids:
            claim = self._claim(node)
            rows = [self.declared(k, token) for k in self.graph.nodes[node].of]
            ranges = [interval_product(*(one_range(row, cell) for row in rows)) for cell in self._cells]
            if self._ablatable:
                ranges = self._squares_alone(node, token)
            if claim.lemma >= 0:
                lemma, (late, _) = self._lemma(claim, token), self._waited(claim, token)
                size = lemma.largest(self._range_of_unit(late))
                ranges = [(max(lo, -size), min(hi, size)) for lo, hi in ranges]
            self._ids[unit] = self._add(ranges)
        return self._ids[unit]

    def _squares_alone(self, product: int, token: int) -> list[Range]:
        """A product without its shifts is (q+ - q-) / (4 scale^2), and each of the squares may be 0."""
        K, quarter = len(self.graph.nodes), 0.25 / self._claim(product).scale ** 2
        arguments = [self._argument(K + 2 * product + sign, token) for sign in (0, 1)]
        sizes = np.array([[max(map(abs, one_range(form, cell))) for cell in self._cells] for form in arguments])
        plus, minus = (quarter * above(sizes**2, 2)).tolist()
        return [(-lo, hi) for lo, hi in zip(minus, plus, strict=True)]

    def _add(self, ranges: list[Range]) -> int:
        """A basis function with these ranges, cell by cell; where heads may be ablated, 0 is among its values."""
        if self._ablatable:
            ranges = [(min(lo, 0.0), max(hi, 0.0)) for lo, hi in ranges]
        if self._cells[0] is not self.basis:
            for cell, (lo, hi) in zip(self._cells, ranges, strict=True):
                cell.add(lo, hi)
        return self.basis.add(*_hull(ranges))


def _hull(ranges: list[Range]) -> Range:
    """What holds all of them. A NaN is refused: min and max would pass over it, and over its part of the domain."""
    require(bool(np.isfinite(ranges).all()), "the range of a column is not bounded")
    return min(lo for lo, _ in ranges), max(hi for _, hi in ranges)


def _square_argument(claim: ProductClaim, rows: list[Row], minus: int) -> tuple[Floats, list[Row], float]:
    """scale (balance (a - x) +- (b - y) / balance) as weights, rows and a constant form."""
    first, second = claim.scale * claim.balance, claim.scale / claim.balance * (-1.0 if minus else 1.0)
    shift = combination(np.array([-first, -second]), [combination(np.zeros(0), [], z) for z in (claim.x, claim.y)])
    return np.array([first, second, 1.0]), [*rows, shift], 0.0


def _entry(gaps: list[Range]) -> Range:
    """1 / (1 + the sum of exp(z_i - z_j)), for what the gaps z_i - z_j can be."""
    most, least = (sum((arb(gap[end]).exp() for gap in gaps), arb(1)) for end in (1, 0))
    lo, hi = float((1 / most).lower()), float((1 / least).upper())
    return max(0.0, float(np.nextafter(lo, -1.0))), min(1.0, float(np.nextafter(hi, 2.0)))
