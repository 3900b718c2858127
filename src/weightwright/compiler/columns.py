"""Building a graph of columns: equal columns are built once, and what is constant is folded."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from weightwright.certificates.graphs import AFFINE, INPUT, MIX, PRODUCT, SOFTMAX, SQUARE, Graph, Node
from weightwright.certificates.prover.jets import values
from weightwright.errors import FormulaError
from weightwright.expressions import Expression, parse, to_text
from weightwright.network.layers import Floats


class Columns:
    """The columns of a function of `tokens` tokens (None: each token by itself). A column is known by its number."""

    def __init__(self, tokens: int | None) -> None:
        self.tokens = tokens
        self.nodes: list[Node] = []
        self.matrices: list[Floats] = []
        self._known: dict[Any, int] = {}

    def input(self, feature: int) -> int:
        return self._add(Node(INPUT, index=feature, label=f"x[{feature}]"))

    def constant(self, values: Floats | float) -> int:
        """The same number on every token, or one for each."""
        return self._add(Node(AFFINE, constants=_shortest(values), label="constant"))

    def constant_of(self, column: int) -> Floats | None:
        """What a column holds if it does not depend on the input: (1,) or (tokens,)."""
        node = self.nodes[column]
        return node.constants if node.op == AFFINE and not node.of else None

    def affine(
        self, of: Sequence[int], weights: Sequence[float] | Floats, constants: Floats | float = 0.0, label: str = ""
    ) -> int:
        """The sum of weights times columns, plus constants; equal columns are taken together where that is exact."""
        total, terms = _shortest(constants), dict[int, Fraction]()
        rest: list[tuple[int, float]] = []
        for column, weight in zip(of, np.asarray(weights, dtype=np.float64).tolist(), strict=True):
            known = self.constant_of(column)
            if known is not None:
                total = _shortest(total + weight * known)
            elif weight:
                together = terms.get(column, Fraction(0)) + Fraction(weight)
                if Fraction(float(together)) == together:
                    terms[column] = together
                else:
                    rest.append((column, weight))
        pairs = sorted([*((c, float(w)) for c, w in terms.items() if w), *rest])
        if len(pairs) == 1 and pairs[0][1] == 1.0 and not total.any():
            return pairs[0][0]
        return self._add(Node(AFFINE, tuple(c for c, _ in pairs), np.array([w for _, w in pairs]), total, label=label))

    def apply(self, formula: str | Expression, column: int, label: str = "") -> int:
        """A function of one number, as a formula in x."""
        expression = parse(formula, ("x",)) if isinstance(formula, str) else formula
        text, known = to_text(expression), self.constant_of(column)
        if known is not None:
            folded = np.asarray(values(expression, known), dtype=np.float64)
            if not np.isfinite(folded).all():
                raise FormulaError(f"{text} is not finite at {known.tolist()}")
            return self.constant(folded)
        return column if text == "x" else self._add(Node(text, (column,), label=label or text))

    def product(self, a: int, b: int, label: str = "") -> int:
        for factor, other in ((a, b), (b, a)):
            known = self.constant_of(factor)
            if known is not None:
                return self._scaled(known, other, label)
        if a == b:
            return self.apply(SQUARE, a, label)
        return self._add(Node(PRODUCT, (min(a, b), max(a, b)), label=label or "product"))

    def softmax(self, of: Sequence[int], label: str = "") -> list[int]:
        return [
            self._add(Node(SOFTMAX, tuple(of), index=index, label=label or f"softmax[{index}]"))
            for index in range(len(of))
        ]

    def mix(self, matrix: Floats, column: int, label: str = "") -> int:
        """A constant matrix on the tokens."""
        known = self.constant_of(column)
        if known is not None:
            return self.constant(matrix @ np.broadcast_to(known, len(matrix)))
        if (matrix == np.eye(len(matrix))).all():
            return column
        found = [i for i, known in enumerate(self.matrices) if (known == matrix).all()]
        if not found:
            self.matrices.append(np.array(matrix, dtype=np.float64))
        return self._add(Node(MIX, (column,), index=(found or [len(self.matrices) - 1])[0], label=label or "mix"))

    def graph(self, name: str, outputs: Sequence[int]) -> Graph:
        """The columns that the outputs need, numbered anew."""
        needed, stack = set[int](), list(outputs)
        while stack:
            column = stack.pop()
            if column not in needed:
                needed.add(column)
                stack.extend(self.nodes[column].of)
        places = {column: place for place, column in enumerate(sorted(needed))}
        nodes = []
        for column in sorted(needed):
            node = self.nodes[column]
            of = tuple(places[c] for c in node.of)
            nodes.append(Node(node.op, of, node.weights, node.constants, node.index, node.label))
        return Graph(name, tuple(nodes), tuple(places[c] for c in outputs), tuple(self.matrices), self.tokens)

    def _scaled(self, factors: Floats, column: int, label: str) -> int:
        if len(factors) == 1:
            return self.affine([column], factors, label=label)
        return self.mix(np.diag(factors), column, label)

    def _add(self, node: Node) -> int:
        key = (node.op, node.of, node.weights.tobytes(), node.constants.tobytes(), node.index)
        if key not in self._known:
            self._known[key] = len(self.nodes)
            self.nodes.append(node)
        return self._known[key]


def _shortest(values: Floats | float) -> Floats:
    """One number where all are the same."""
    array = np.atleast_1d(np.asarray(values, dtype=np.float64))
    return array[:1] if (array == array[0]).all() else array
