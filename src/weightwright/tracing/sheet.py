"""Tensors of columns, as arrays of codes. A code says which column an element is, and on which token.

Moving elements about costs nothing this way: columns are built only where something is computed, and then for a whole
line of elements along the axis of the tokens at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from weightwright.claims.graph import Graph
from weightwright.enclosures.intervals.intervals import Interval
from weightwright.numbers import Floats
from weightwright.tracing.columns import Columns, Unfolded
from weightwright.tracing.user_source import short_place

Codes = np.ndarray[Any, np.dtype[np.int64]]
#: Some columns in, some columns out.
Build = Callable[[Sequence[int]], Sequence[int]]
#: Where a line of elements takes its column: on each element's own token, or wherever; t + 1: on token t.
OWN, EVERYWHERE = -1, 0


#: What people call an operator whose second operand is the traced one.
REVERSED = {"radd": "add", "rsub": "sub", "rmul": "mul", "rdiv": "div", "rpow": "pow", "rmatmul": "matmul"}


#: While a function is followed whose domain is known: intervals (1, tokens) for all columns of a graph.
COLUMN_RANGES: ContextVar[Callable[[Graph, int], Sequence[Interval]]] = ContextVar("column_ranges")


class Sheet:
    """The columns of one function of n tokens. free: each token by itself, n being an example only. unfolded: one
    column for every step of the function, and `steps` lists what every operation returned.

    A code is column * (n + 1), plus t + 1 if the element is the column on token t; plus nothing if the column holds
    the same number on every token. Column 0 is the number 0, so that code 0 is 0, as torch fills with.
    """

    def __init__(self, n: int, free: bool, unfolded: bool = False) -> None:
        self.n = n
        self.free = free
        self.columns = (Unfolded if unfolded else Columns)(None if free else n)
        self.steps: list[tuple[str, list[Codes]]] | None = [] if unfolded else None
        self.columns.constant(0.0)
        self.ends: list[tuple[int, float, str]] = []  # of softplus: a column, the number it may not exceed, the line
        self.shared: set[int] = set()  # inputs and held columns that hold the same number on every token
        self.label = ""

    @contextmanager
    def operation(self, name: str) -> Iterator[None]:
        """Columns made inside are labelled with the operation and its line; those of the outermost one count."""
        outer, self.label = self.label, self.label or REVERSED.get(name, name) + short_place()
        try:
            yield
        finally:
            self.label = outer

    def name(self, label: str, codes: Codes, token_axis: int | None, called: str = "") -> None:
        """Tell the columns that an operation labelled by their places in its result, or in what it calls so."""
        shape = [1 if axis == token_axis else size for axis, size in enumerate(codes.shape)]
        firsts = codes[tuple(slice(size) for size in shape)] // (self.n + 1)
        for place in np.ndindex(*shape):
            numbers = [str(i) for i, size in zip(place, shape, strict=True) if size > 1]
            self.columns.rename(int(firsts[place]), label, _placed(label, called, ", ".join(numbers)))

    def graph(self) -> Graph:
        """All columns, also those that no output needs."""
        return Graph("", tuple(self.columns.nodes), (0,), tuple(self.columns.matrices), self.columns.tokens)

    def range_of(self, column: int) -> tuple[float, float] | None:
        """About where a column lies on the domain, rounded outward; None where no domain is known."""
        enclose = COLUMN_RANGES.get(None)
        found = None if enclose is None else enclose(self.graph(), self.n)[column]
        return None if found is None else (float(np.min(found.lo)), float(np.max(found.hi)))

    def input(self, features: int) -> Codes:
        columns = np.array([self.columns.input(feature) for feature in range(features)])
        return self._on_tokens(columns, np.full(features, OWN))

    def constants(self, values: Floats) -> Codes:
        different, places = np.unique(values, return_inverse=True)
        columns = np.array([self.columns.constant(value) for value in different], dtype=np.int64)
        return columns[places].reshape(values.shape) * (self.n + 1)

    def linear(
        self, codes: Codes, weights: Floats, constants: Floats, axis: int | None, in_steps: bool = False
    ) -> Codes:
        """codes, weights (..., k), constants (...): the sums over k of weights times elements, plus the constants.

        axis: the one of the tokens. in_steps: the sum is part of a longer one in the user's source.
        """
        shape = np.broadcast_shapes(codes.shape[:-1], weights.shape[:-1], constants.shape)
        k = codes.shape[-1]
        lines = _flat(np.broadcast_to(codes, (*shape, k)), axis)
        factors = _flat(np.broadcast_to(weights, (*shape, k)), axis)
        totals = _flat(np.broadcast_to(constants, shape)[..., None], axis)[..., 0]
        made = [self._sum(lines[:, i], factors[:, i], totals[:, i], in_steps) for i in range(lines.shape[1])]
        return self._restored([column for column, _ in made], [place for _, place in made], shape, axis)

    def pointwise(self, build: Build, codes: Codes, axis: int | None) -> Codes:
        """codes (..., k) to (..., m): what `build` makes of the k columns, on every token."""
        lines = _flat(codes, axis)
        made, places = [], []
        for line in np.moveaxis(lines, 1, 0):
            place = self._common_token(line)
            if place == 0 or (place > 0 and self.free):  # of a fixed token alone: others may lie outside the domain
                made.append(build((line[0] // (self.n + 1)).tolist()))
                places.append(place)
                continue
            operands = [self._column(line[:, j]) for j in range(line.shape[1])]
            made.append(build([column for column, _ in operands]))
            places.append(EVERYWHERE if all(place == EVERYWHERE for _, place in operands) else OWN)
        results = [
            self._restored([columns[j] for columns in made], places, codes.shape[:-1], axis)
            for j in range(len(made[0]))
        ]
        return np.stack(results, axis=-1)

    def on_own_tokens(self, columns: Sequence[int]) -> Codes:
        """(n, columns): every column on every token."""
        return self._on_tokens(np.array(columns, dtype=np.int64), np.full(len(columns), OWN))

    def settled(self, codes: Codes, axis: int | None) -> list[int]:
        """The columns of the lines along the axis, or of the elements."""
        lines = _flat(codes[..., None], axis)
        return [self._column(lines[:, i, 0])[0] for i in range(lines.shape[1])]

    def is_line_of_tokens(self, codes: Codes, axis: int) -> bool:
        """Whether the elements along an axis are a column on token 0, 1, ..., everywhere."""
        columns, tokens = np.divmod(np.moveaxis(codes, axis, -1), self.n + 1)
        return bool((columns == columns[..., :1]).all() and (tokens == np.arange(1, codes.shape[axis] + 1)).all())

    def _restored(self, columns: list[int], places: list[int], shape: Sequence[int], axis: int | None) -> Codes:
        """The codes of one column for every line."""
        made, where = np.array(columns, dtype=np.int64), np.array(places, dtype=np.int64)
        if axis is None:
            return (made * (self.n + 1) + where).reshape(tuple(shape))
        rest = [length for place, length in enumerate(shape) if place != axis]
        return np.moveaxis(self._on_tokens(made, where).reshape(self.n, *rest), 0, axis)

    def _on_tokens(self, columns: Codes, places: Codes) -> Codes:
        """(lines,), (lines,) to (n, lines)"""
        own = np.arange(1, self.n + 1)[:, None] if self.n > 1 else np.zeros((1, 1), dtype=np.int64)
        return columns * (self.n + 1) + np.where(places == OWN, own, places)

    def _common_token(self, codes: Codes) -> int:
        """(rows, k): EVERYWHERE or t + 1 if all rows are one, of columns on token t; otherwise OWN."""
        tokens = codes[0] % (self.n + 1)
        token = int(tokens.max())
        one = ((tokens == token) | (tokens == 0)).all() and (codes == codes[0]).all()
        return token if one else OWN

    def _column(self, codes: Codes) -> tuple[int, int]:
        """The column that holds element t on token t, and whether it holds the same number EVERYWHERE."""
        columns, tokens = np.divmod(codes, self.n + 1)
        if (columns == columns[0]).all():
            if not tokens.any():
                return int(columns[0]), EVERYWHERE
            if len(codes) > 1 and (tokens == np.arange(1, len(codes) + 1)).all():
                return int(columns[0]), OWN
        terms = self._mixed(columns[:, None], tokens[:, None], np.ones((len(codes), 1)))
        column = self.columns.affine([c for c, _ in terms], [w for _, w in terms], label=self.label)
        return column, EVERYWHERE if (codes == codes[0]).all() else OWN

    def _sum(self, codes: Codes, weights: Floats, constants: Floats, in_steps: bool) -> tuple[int, int]:
        """(rows, k), (rows, k), (rows,): on token t the sum of row t. One row stands for all tokens.

        Of a single token the sum is taken on all tokens: who needs it selects it, not all of its terms.
        """
        add = self.columns.combined if in_steps else self.columns.affine
        columns, tokens = np.divmod(codes, self.n + 1)
        same = bool((weights == weights[0]).all() and (constants == constants[0]).all())
        common = self._common_token(codes) if same else OWN
        if common != OWN:
            return add(columns[0].tolist(), weights[0], constants[0], self.label), common
        alike = (columns == columns[0]).all(axis=0) & (weights == weights[0]).all(axis=0)
        own = (tokens == np.arange(1, len(codes) + 1)[:, None]).all(axis=0) if len(codes) > 1 else np.zeros_like(alike)
        plain = alike & (own | (tokens == 0).all(axis=0))
        terms = [*zip(columns[0, plain].tolist(), weights[0, plain].tolist(), strict=True)]
        if not plain.all():
            terms += self._mixed(columns[:, ~plain], tokens[:, ~plain], weights[:, ~plain])
        total = add([column for column, _ in terms], [weight for _, weight in terms], constants, self.label)
        return total, EVERYWHERE if same and (codes == codes[0]).all() else OWN

    def _mixed(self, columns: Codes, tokens: Codes, weights: Floats) -> list[tuple[int, float]]:
        """Terms that differ from token to token: one matrix on the tokens for each column that they take."""
        shape = (self.n, columns.shape[1])
        columns, tokens = np.broadcast_to(columns, shape), np.broadcast_to(tokens, shape)
        weights = np.broadcast_to(weights, shape)
        rows = np.broadcast_to(np.arange(self.n)[:, None], columns.shape)
        matrices, scales = dict[int, Floats](), dict[int, Floats]()
        for column in dict.fromkeys(columns[tokens > 0].tolist()):  # in the order in which they come
            one = (columns == column) & (tokens > 0)
            matrices[column] = np.zeros((self.n, self.n))
            np.add.at(matrices[column], (rows[one], tokens[one] - 1), weights[one])
        for column in dict.fromkeys(columns[tokens == 0].tolist()):
            one = (columns == column) & (tokens == 0)
            scales[column] = np.zeros(self.n)
            np.add.at(scales[column], rows[one], weights[one])
        groups = dict[bytes, list[int]]()
        for column, matrix in matrices.items():
            groups.setdefault(matrix.tobytes(), []).append(column)
        terms = []
        for together in groups.values():
            total = self.columns.affine(together, np.ones(len(together)), label=self.label)
            terms.append((self.columns.mix(matrices[together[0]], total, self.label), 1.0))
        for column, scale in scales.items():
            terms.append((self.columns.product(self.columns.constant(scale), column, self.label), 1.0))
        return terms


def _flat(array: Any, axis: int | None) -> Any:
    """(..., k) to (n, lines, k) with the axis of the tokens first; without one to (1, lines, k)."""
    if axis is None:
        return array.reshape(1, -1, array.shape[-1])
    moved = np.moveaxis(array, axis, 0)
    return moved.reshape(len(moved), -1, array.shape[-1])


def _placed(label: str, called: str, numbers: str) -> str:
    """The label of an operation with the place in its result: "tanh[3], file:20", "neuron 3 of module 0 (Linear)"."""
    operation, _, place = label.partition(", ")
    if operation == "linear" and place.startswith("module ") and numbers and not called:
        return f"neuron {numbers} of {place}"
    return (called or operation) + (f"[{numbers}]" if numbers else "") + (f", {place}" if place else "")
