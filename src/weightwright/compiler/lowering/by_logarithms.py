"""Products f g(V) of a sum of squares V that holds f^2, for few bits: by logarithms instead of squares.

With A(f) = d (softplus(f / d) + c), which is positive, A(f) - A(-f) = f. So f g = exp(log A(f) + log g) -
exp(log A(-f) + log g): numbers of the size of f g and of d g, where squares would be as large as the largest f^2 and
g^2 together.
Nothing is proven of this: what keeps the exponentials small is that f is small where g is large.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from weightwright.claims.certificate import constant
from weightwright.claims.graph import AFFINE, Graph, Node
from weightwright.compiler.lowering.affine_forms import Forms
from weightwright.compiler.lowering.fusing import fuse
from weightwright.compiler.lowering.ranges import ColumnRanges, Limit
from weightwright.compiler.lowering.undefined import defined_ranges
from weightwright.expressions import Apply, parse, to_text
from weightwright.expressions.nodes import Expression, Variable
from weightwright.numbers import Floats

#: d, of the largest |f|, and c: smaller ones need more keys, larger ones make A larger where f is 0.
WIDTH, LEAST = 2.0**-5, 2.0**-4


def by_logarithms(graph: Graph, lo: Floats, hi: Floats) -> tuple[Graph, dict[int, Limit]] | None:
    """The graph with such products rewritten, and limits of columns that ranges alone do not show; None if there
    are none. lo, hi: (tokens, features)."""
    plan = fuse(graph)
    ranges = defined_ranges(Forms(graph, plan, lo.shape[1]), lo, hi)[0]
    chosen = {p for p, lemma in ranges.lemmas.items() if float(ranges.of(graph.nodes[p].of[lemma.index])[0].min()) > 0}
    if not chosen:
        return None
    writer = _LogWriter(graph, ranges)
    for column in range(len(graph.nodes)):
        writer.product(column) if column in chosen else writer.copy(column)
    outputs = tuple(writer.place[column] for column in graph.outputs)
    return Graph(graph.name, tuple(writer.nodes), outputs, graph.matrices, graph.tokens), writer.limits


class _LogWriter:
    def __init__(self, graph: Graph, ranges: ColumnRanges) -> None:
        self.graph, self.ranges = graph, ranges
        self.nodes: list[Node] = []
        self.place: dict[int, int] = {}
        self.limits: dict[int, Limit] = {}
        self._functions: dict[tuple[str, int], int] = {}

    def copy(self, column: int) -> None:
        node = self.graph.nodes[column]
        of = tuple(self.place[k] for k in node.of)
        self.place[column] = self._add(Node(node.op, of, node.weights, node.constants, node.index, node.label))

    def product(self, column: int) -> None:
        node, lemma = self.graph.nodes[column], self.ranges.lemmas[column]
        g, f = node.of[lemma.index], node.of[1 - lemma.index]
        function = self.ranges.forms.plan.functions[g]
        largest = float(np.abs(self.ranges.of(f)).max())
        d = 2.0 ** math.floor(math.log2(WIDTH * largest))
        size = self._apply(Apply("log", (parse(function.formula, ("x",)),)), self.place[function.base], node.label)
        most = math.log(float(lemma.value.max()) + d * (math.log(2) + LEAST) * float(self.ranges.of(g)[1].max()))
        signs = []
        for sign in (1.0, -1.0):
            side = self.place[f] if sign > 0 else self._add(Node(AFFINE, (self.place[f],), np.array([-1.0])))
            side = self._apply(_logarithm(d), side, node.label)
            exponent = self._add(Node(AFFINE, (side, size), np.ones(2), np.array([math.log(d)]), label=node.label))
            self.limits[exponent] = -math.inf, most
            signs.append(self._add(Node("exp(x)", (exponent,), label=node.label)))
        self.place[column] = self._add(Node(AFFINE, tuple(signs), np.array([1.0, -1.0]), label=node.label))

    def _apply(self, formula: Expression, of: int, label: str) -> int:
        """Equal functions of equal columns are written once."""
        key = to_text(formula), of
        if key not in self._functions:
            self._functions[key] = self._add(Node(key[0], (key[1],), label=label))
        return self._functions[key]

    def _add(self, node: Node) -> int:
        self.nodes.append(node)
        return len(self.nodes) - 1


def _logarithm(d: float) -> Expression:
    """log(softplus(x / d) + c), d a power of two."""
    ratio = Apply("div", (Variable("x"), constant(Fraction(d))))
    return Apply("log", (Apply("add", (Apply("softplus", (ratio,)), constant(Fraction(LEAST)))),))
