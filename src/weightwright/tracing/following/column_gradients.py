"""The gradient of a column with respect to others, as columns: reverse mode on the graph that was traced so far.

A column is a vector, a number for each token; or one number, where it holds the same on all tokens. With c' for the
derivative of the result with respect to column c, each column hands its own on to those that it takes:

    affine    c = sum of w_i a_i      a_i' gets w_i c'
    product   c = a b                 a' gets c' b, b' gets c' a
    function  c = g(a)                a' gets c' g'(a)
    mix       c = M a                 a' gets M^T c'
    softmax   c_k = e^a_k / sum       a_j' gets q_j - c_j sum of q_k, where q_k = c_k' c_k

Where c is a vector and a one number, the number gets the sum over all tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weightwright.claims.graph import AFFINE, ATTENTION, INPUT, MIX, PRODUCT, SOFTMAX, Node
from weightwright.expressions import Number, parse
from weightwright.expressions.derivative import differentiate
from weightwright.numbers import Floats
from weightwright.tracing.columns import HELD
from weightwright.tracing.rewriting import product_without_jump, take_out_number
from weightwright.tracing.sheet import Sheet
from weightwright.tracing.user_source import refuse

#: What to do where a gradient has no columns.
_WRITE_IT = "write the gradient itself with + - * / and torch's functions of one number"


def column_gradients(sheet: Sheet, result: int, token: int, by: Sequence[int]) -> list[int]:
    """The derivatives of a column on one token (-1: it holds the same on all) with respect to the columns `by`.

    Of a column that holds the same number on all tokens the derivative is one number; of any other it is, on token t,
    the derivative with respect to the column's number on token t.
    """
    return _Backwards(sheet, result, by).gradients(token)


class _Backwards:
    """One walk from the result back to the columns that it is differentiated by."""

    def __init__(self, sheet: Sheet, result: int, by: Sequence[int]) -> None:
        self.sheet, self.columns, self.result, self.by = sheet, sheet.columns, result, by
        self.needed = sorted(self._between(set(by)))
        self.numbers = _same_on_all_tokens(sheet, result)  # columns that are one number
        self.terms: dict[int, list[tuple[int, float, bool]]] = {column: [] for column in self.needed}
        self.shares: dict[int, int] = {}  # of entries of a softmax: q_k

    def _between(self, by: set[int]) -> set[int]:
        """The columns on a way from the result to one of `by`."""
        reaching = set[int]()
        for column, node in enumerate(self.columns.nodes[: self.result + 1]):
            if column in by or (node.op != HELD and any(k in reaching for k in node.of)):
                reaching.add(column)
        return reaching

    def gradients(self, token: int) -> list[int]:
        if self.result in self.terms:
            one = self.result in self.numbers
            seed = np.ones(1) if one or self.sheet.n == 1 else np.eye(self.sheet.n)[max(token, 0)]
            self._give(self.result, self.columns.constant(seed), 1.0, from_number=one)
        found = {}
        for column in reversed(self.needed):
            if self.terms[column]:
                derivative = self._collected(column)
                found[column] = derivative
                if column not in self.by:
                    self._hand_on(column, derivative)
        return [found.get(column, self.columns.constant(0.0)) for column in self.by]

    def _give(self, column: int, derivative: int, weight: float, from_number: bool) -> None:
        if column in self.terms:
            self.terms[column].append((derivative, weight, from_number))

    def _collected(self, column: int) -> int:
        """All that a column was given: to one number, what a vector gives is summed over the tokens."""
        single, vectors = (
            [(k, weight) for k, weight, from_number in self.terms[column] if from_number == kind]
            for kind in (True, False)
        )
        if column not in self.numbers or self.sheet.n == 1:
            return self._sum([*single, *vectors])
        if vectors:
            single.append((self._total(self._sum(vectors)), 1.0))
        return self._sum(single)

    def _sum(self, terms: Sequence[tuple[int, float]]) -> int:
        return self.columns.combined([k for k, _ in terms], [w for _, w in terms], label=self.sheet.label)

    def _total(self, column: int) -> int:
        """The sum over all tokens, on every token."""
        n = self.sheet.n
        known = self.columns.constant_of(column)
        if known is not None:
            return self.columns.constant(float(np.broadcast_to(known, n).sum()))
        if column in _same_on_all_tokens(self.sheet, column):
            return self._sum([(column, float(n))])
        return self.columns.mix(np.ones((n, n)), column, self.sheet.label)

    def _hand_on(self, column: int, derivative: int) -> None:
        node, one = self.columns.nodes[column], column in self.numbers
        if node.op == AFFINE:
            for k, weight in zip(node.of, node.weights.tolist(), strict=True):
                self._give(k, derivative, weight, one)
        elif node.op == PRODUCT:
            for k, other in (node.of, node.of[::-1]):
                if k in self.terms:
                    self._give(k, self._product(derivative, other), 1.0, one)
        elif node.op == MIX:
            self._hand_through(self.columns.matrices[node.index], node.of[0], derivative, one)
        elif node.op == SOFTMAX:
            self._hand_to_scores(column, node, derivative)
        elif node.op == ATTENTION:
            raise refuse("a gradient through attention between tokens cannot be traced", _WRITE_IT)
        elif node.op not in (INPUT, HELD):
            self._give(node.of[0], *self._times_slope(node, derivative), one)

    def _product(self, a: int, b: int) -> int:
        return self.columns.product(a, b, self.sheet.label)

    def _hand_through(self, matrix: Floats, of: int, derivative: int, one: bool) -> None:
        """M^T c'; where c is one number all rows of M are the same, and the first one's weights count."""
        if one and self.sheet.n > 1:
            weights = matrix[0] if of not in self.numbers else np.array([matrix[0].sum()])
            self._give(of, self._product(self.columns.constant(weights), derivative), 1.0, of in self.numbers)
        else:
            self._give(of, self.columns.mix(matrix.T, derivative, self.sheet.label), 1.0, from_number=False)

    def _hand_to_scores(self, column: int, node: Node, derivative: int) -> None:
        """After the first of a softmax's entries, which comes last: then all of them have their derivatives."""
        self.shares[column] = self._product(derivative, column)
        entries = self.columns.softmax(node.of, self.sheet.label)
        given = {j: k for j, k in enumerate(entries) if self.terms.get(k)}
        if column != min(given.values()):
            return
        whole = self._sum([(self.shares[k], 1.0) for k in given.values()])
        for j, score in enumerate(node.of):
            if score in self.terms:
                own = [(self.shares[given[j]], 1.0)] if j in given else []
                others = (self._product(entries[j], whole), -1.0)
                self._give(score, self._sum([*own, others]), 1.0, column in self.numbers)

    def _times_slope(self, node: Node, derivative: int) -> tuple[int, float]:
        """c' g'(a), as a column and a weight."""
        weight, slope = take_out_number(differentiate(parse(node.op, ("x",))))
        if isinstance(slope, Number):
            return derivative, weight * float(slope.value)
        factor = self.columns.apply(slope, node.of[0], self.sheet.label)
        without = product_without_jump(self.columns, derivative, factor, self.sheet.label)
        return (self._product(derivative, factor) if without is None else without), weight


def _same_on_all_tokens(sheet: Sheet, last: int) -> set[int]:
    """The columns up to this one that hold the same number on every token, as far as their operations show it."""
    columns, found = sheet.columns, set[int]()
    if sheet.n == 1:
        return set(range(last + 1))
    for column, node in enumerate(columns.nodes[: last + 1]):
        same = node.op != INPUT and all(k in found for k in node.of)
        if node.op == AFFINE:
            same = same and len(node.constants) == 1
        elif node.op == MIX:
            matrix = columns.matrices[node.index]
            sums = matrix.sum(axis=1)
            same = bool((matrix == matrix[0]).all() or (same and (sums == sums[0]).all()))
        elif node.op == ATTENTION:
            same = False
        if same or column in sheet.shared:
            found.add(column)
    return found
