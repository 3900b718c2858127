"""Building a graph of columns: equal columns are built once, and what is constant is folded."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from weightwright.claims.graph import AFFINE, ATTENTION, INPUT, MIX, PRODUCT, SOFTMAX, SQUARE, Graph, Node
from weightwright.enclosures.intervals.jets import values
from weightwright.errors import FormulaError
from weightwright.expressions import Expression, parse, shortened, to_text
from weightwright.numbers import Bools, Floats
from weightwright.tracing.user_source import refuse

#: A column that holds what another one does, and that no gradient passes: what is differentiated by, or detached. None
#: is left in a finished graph.
HELD = "held"
_FIXED = "where the function is made for a fixed number n of tokens, pass tokens=n"


class Columns:
    """The columns of a function of `tokens` tokens (None: each token by itself). A column is known by its number."""

    def __init__(self, tokens: int | None) -> None:
        self.tokens = tokens
        self.nodes: list[Node] = []
        self.matrices: list[Floats] = []
        self._known: dict[Any, int] = {}
        self._places: dict[bytes, int] = {}  # of the matrices
        self._constants: set[int] = set()
        self._loose: set[int] = set()  # sums that later sums may take apart
        self._held = 0  # columns held so far

    def input(self, feature: int) -> int:
        return self._add(Node(INPUT, index=feature, label=f"x[{feature}]"))

    def constant(self, values: Floats | float) -> int:
        """The same number on every token, or one for each."""
        if self.tokens is None and len(_shortest(values)) > 1:
            raise refuse("the function adds or multiplies different constants on different tokens", _FIXED)
        return self._add(Node(AFFINE, constants=_shortest(values), label="constant"))

    def rename(self, column: int, label: str, better: str) -> None:
        """Give a column that is labelled so a better label."""
        if self.nodes[column].label == label:
            self.nodes[column] = replace(self.nodes[column], label=better)

    def constant_of(self, column: int) -> Floats | None:
        """What a column holds if it does not depend on the input: (1,) or (tokens,)."""
        return self.nodes[column].constants if column in self._constants else None

    def affine(
        self, of: Sequence[int], weights: Sequence[float] | Floats, constants: Floats | float = 0.0, label: str = ""
    ) -> int:
        """The sum of weights times columns, plus constants; equal columns are taken together where that is exact."""
        columns, factors, total = np.asarray(of, dtype=np.int64), _floats(weights), _shortest(constants)
        if len(set(of)) < len(of) or not self._constants.isdisjoint(of):
            columns, factors, total = self._collected(of, factors, total)
        kept = np.flatnonzero(factors)
        kept = kept[np.lexsort((factors[kept], columns[kept]))]
        if len(kept) == 1 and factors[kept[0]] == 1.0 and not total.any():
            return int(columns[kept[0]])
        return self._add(Node(AFFINE, tuple(columns[kept].tolist()), factors[kept], total, label=label))

    def combined(
        self, of: Sequence[int], weights: Sequence[float] | Floats, constants: Floats | float = 0.0, label: str = ""
    ) -> int:
        """The same for a sum that is written in steps: sums so built become terms of the new one, where that is
        exact, so that a loop over terms leaves one column."""
        places, factors, total = list[int](), list[float](), _shortest(constants)
        alone = sum(self.constant_of(column) is None for column in of) == 1
        for column, weight in zip(of, _floats(weights).tolist(), strict=True):
            inner = self.nodes[column]
            loose = column in self._loose or alone or len(inner.of) == 1
            parts = _scaled_exactly(inner, weight, total) if inner.op == AFFINE and inner.of and loose else None
            if parts is None:
                places, factors = [*places, column], [*factors, weight]
            else:
                places, factors, total = [*places, *inner.of], [*factors, *parts[0]], parts[1]
        made = self.affine(places, factors, total, label)
        self._loose.add(made)
        return made

    def apply(self, formula: str | Expression, column: int, label: str = "") -> int:
        """A function of one number, as a formula in x."""
        expression = parse(formula, ("x",)) if isinstance(formula, str) else formula
        text, known = to_text(expression), self.constant_of(column)
        if known is not None:
            folded = np.asarray(values(expression, known), dtype=np.float64)
            if not np.isfinite(folded).all():
                raise FormulaError(f"{shortened(text)} is not finite at x = {known[~np.isfinite(folded)][0]}")
            return self.constant(folded)
        return column if text == "x" else self._add(Node(text, (column,), label=label or text))

    def product(self, a: int, b: int, label: str = "") -> int:
        """Token by token. Constant factors stand outside, so that products that differ by them only are one column."""
        for factor, other in ((a, b), (b, a)):
            known = self.constant_of(factor)
            if known is not None:
                return self._scaled(known, other, label)
            node = self.nodes[factor]
            if node.op == AFFINE and len(node.of) == 1 and not node.constants.any():
                return self._scaled(node.weights, self.product(node.of[0], other, label), label)
        if a == b:
            return self.apply(SQUARE, a, label)
        return self._add(Node(PRODUCT, (min(a, b), max(a, b)), label=label or "product"))

    def softmax(self, of: Sequence[int], label: str = "") -> list[int]:
        known = [self.constant_of(column) for column in of]
        if len(of) == 1:
            return [self.constant(1.0)]
        if all(numbers is not None for numbers in known):
            table = np.stack([np.broadcast_to(numbers, self.tokens or 1) for numbers in known if numbers is not None])
            powers = np.exp(table - table.max(axis=0))
            return [self.constant(row) for row in powers / powers.sum(axis=0)]
        return [
            self._add(Node(SOFTMAX, tuple(of), index=index, label=f"entry {index} of {label or 'softmax'}"))
            for index in range(len(of))
        ]

    def mix(self, matrix: Floats, column: int, label: str = "") -> int:
        """A constant matrix on the tokens."""
        known = self.constant_of(column)
        if known is not None:
            return self.constant(matrix @ np.broadcast_to(known, len(matrix)))
        if self.tokens is None:
            raise refuse("the function mixes tokens, or treats them differently", _FIXED)
        matrix = np.array(matrix, dtype=np.float64) + 0.0  # -0 becomes 0, so that equal matrices have equal bytes
        if (matrix == np.diag(np.full(len(matrix), matrix[0, 0]))).all():
            return self.affine([column], matrix[0, :1], label=label)
        return self._add(Node(MIX, (column,), index=self._matrix(matrix), label=label or "mix"))

    def attention(
        self, queries: Sequence[int], keys: Sequence[int], value: int, seen: Bools | None, label: str = ""
    ) -> int:
        """The mean of a column over the tokens that are seen, weighed by queries times keys. Keys that are the same on
        all tokens change no weight."""
        known = [self.constant_of(key) for key in keys]
        kept = [r for r, numbers in enumerate(known) if numbers is None or len(numbers) > 1]
        fixed = self.constant_of(value)
        if fixed is not None and len(fixed) == 1:
            return value
        matrix = None if seen is None else seen.astype(np.float64)
        if not kept:
            n = self.tokens or 1
            even = np.ones((n, n)) if matrix is None else matrix
            return self.mix(even / even.sum(axis=1, keepdims=True), value, label)
        of = (*(queries[r] for r in kept), *(keys[r] for r in kept), value)
        index = -1 if matrix is None else self._matrix(matrix)
        return self._add(Node(ATTENTION, of, index=index, label=label or "attention"))

    def hold(self, column: int, label: str = "") -> int:
        """A column of its own that holds the same."""
        self._held += 1
        return self._add(Node(HELD, (column,), index=self._held, label=label))

    def release(self, outputs: Sequence[int], held: Collection[int] | None = None) -> list[int]:
        """The same columns with what they hold in place of these held ones, in place of all if None."""
        places = dict[int, int]()
        for column in sorted(self._needed(outputs)):
            node = self.nodes[column]
            of = [places[k] for k in node.of]
            if node.op == HELD and (held is None or column in held):
                places[column] = of[0]
            else:
                places[column] = column if of == list(node.of) else self._again(column, of)
        return [places[column] for column in outputs]

    def _again(self, column: int, of: list[int]) -> int:
        """The operation that made a column, on other columns."""
        node = self.nodes[column]
        if node.op == AFFINE:
            add = self.combined if column in self._loose else self.affine
            return add(of, node.weights, node.constants, node.label)
        if node.op == PRODUCT:
            return self.product(of[0], of[1], node.label)
        if node.op == SOFTMAX:
            return self.softmax(of, node.label.partition(" of ")[2])[node.index]
        if node.op == MIX:
            return self.mix(self.matrices[node.index], of[0], node.label)
        if node.op == ATTENTION:
            h = len(of) // 2
            seen = None if node.index == -1 else self.matrices[node.index] != 0
            return self.attention(of[:h], of[h:-1], of[-1], seen, node.label)
        if node.op == HELD:
            return self._add(replace(node, of=tuple(of)))
        return self.apply(node.op, of[0], node.label)

    def _needed(self, outputs: Sequence[int]) -> set[int]:
        """The columns that these are computed from, themselves included."""
        needed, stack = set[int](), list(outputs)
        while stack:
            column = stack.pop()
            if column not in needed:
                needed.add(column)
                stack.extend(set(self.nodes[column].of) - needed)
        return needed

    def _matrix(self, matrix: Floats) -> int:
        """The number of a matrix, each stored once."""
        place = self._places.setdefault(matrix.tobytes(), len(self.matrices))
        if place == len(self.matrices):
            self.matrices.append(matrix)
        return place

    def graph(self, name: str, outputs: Sequence[int]) -> Graph:
        """The columns that the outputs need, numbered anew."""
        if self._held:
            outputs = self.release(outputs)
        needed = self._needed(outputs)
        places = np.zeros(len(self.nodes), dtype=np.int64)
        places[sorted(needed)] = np.arange(len(needed))
        used = sorted({self.nodes[column].index for column in needed if _has_matrix(self.nodes[column])})
        nodes = []
        for column in sorted(needed):
            node = self.nodes[column]
            of = tuple(places[list(node.of)].tolist())
            index = used.index(node.index) if _has_matrix(node) else node.index
            nodes.append(Node(node.op, of, node.weights, node.constants, index, node.label))
        matrices = tuple(self.matrices[place] for place in used)
        return Graph(name, tuple(nodes), tuple(places[list(outputs)].tolist()), matrices, self.tokens)

    def _collected(self, of: Sequence[int], weights: Floats, total: Floats) -> tuple[Any, Floats, Floats]:
        """Columns, weights and constants, with known columns among the constants and equal columns together."""
        terms, rest = dict[int, float](), list[tuple[int, float]]()
        for column, weight in zip(of, weights.tolist(), strict=True):
            known = self.constant_of(column)
            if known is not None:
                with np.errstate(over="ignore"):  # what is not finite is refused below
                    total = _shortest(total + weight * known)
            elif _is_exact_sum(terms.get(column, 0.0), weight):
                terms[column] = terms.get(column, 0.0) + weight
            else:
                rest.append((column, weight))
        pairs = [*terms.items(), *rest]
        return np.array([c for c, _ in pairs], dtype=np.int64), _floats([w for _, w in pairs]), total

    def _scaled(self, factors: Floats, column: int, label: str) -> int:
        if len(factors) == 1:
            return self.combined([column], factors, label=label)
        return self.mix(np.diag(factors), column, label)

    def _add(self, node: Node) -> int:
        key = (node.op, node.of, node.weights.tobytes(), node.constants.tobytes(), node.index)
        if key not in self._known:
            for numbers in (node.weights, node.constants):
                if not np.isfinite(numbers).all():
                    raise FormulaError(f"{node.label or node.op} has the constant {numbers[~np.isfinite(numbers)][0]}")
            self._known[key] = len(self.nodes)
            if node.op == AFFINE and not node.of:
                self._constants.add(len(self.nodes))
            self.nodes.append(node)
        return self._known[key]


class Unfolded(Columns):
    """The same operations, one column for each: sums are not put together, factors not taken out. What every column
    may be off by in floats is then what the function's own steps may be off by."""

    def affine(
        self, of: Sequence[int], weights: Sequence[float] | Floats, constants: Floats | float = 0.0, label: str = ""
    ) -> int:
        if all(self.constant_of(column) is not None for column in of):
            return super().affine(of, weights, constants, label)
        factors, total = _floats(weights), _shortest(constants)
        kept = np.flatnonzero(factors)
        if len(kept) == 1 and factors[kept[0]] == 1.0 and not total.any():
            return int(of[kept[0]])
        return self._add(Node(AFFINE, tuple(of[k] for k in kept.tolist()), factors[kept], total, label=label))

    combined = affine

    def product(self, a: int, b: int, label: str = "") -> int:
        for factor, other in ((a, b), (b, a)):
            known = self.constant_of(factor)
            if known is not None:
                return self._scaled(known, other, label)
        return self.apply(SQUARE, a, label) if a == b else self._add(Node(PRODUCT, (a, b), label=label))


def _has_matrix(node: Node) -> bool:
    return node.op == MIX or (node.op == ATTENTION and node.index >= 0)


def _floats(values: Sequence[float] | Floats) -> Floats:
    return np.asarray(values, dtype=np.float64)


def _shortest(values: Floats | float) -> Floats:
    """One number where all are the same."""
    array = np.atleast_1d(np.asarray(values, dtype=np.float64))
    return array[:1] if (array == array[0]).all() else array


def _is_exact_sum(a: float, b: float) -> bool:
    """Whether a + b is a float: the rounding error of a sum is one itself (Knuth's two-sum)."""
    total = a + b
    rounded = total - a
    return (a - (total - rounded)) + (b - rounded) == 0.0


def _scaled_exactly(inner: Node, weight: float, total: Floats) -> tuple[list[float], Floats] | None:
    """The weights of weight times an affine column, and its constants added to the total, if floats hold them."""
    with np.errstate(over="ignore"):
        weights, shift = weight * inner.weights, weight * inner.constants
        if not np.isfinite([*weights, *(total + shift)]).all():
            return None
    if abs(weight) != 1 and any(
        Fraction(weight) * Fraction(factor) != Fraction(scaled)
        for factor, scaled in [*zip(inner.weights, weights, strict=True), *zip(inner.constants, shift, strict=True)]
    ):
        return None
    if not all(_is_exact_sum(*pair) for pair in zip(*np.broadcast_arrays(total, shift), strict=True)):
        return None
    return weights.tolist(), _shortest(total + shift)
