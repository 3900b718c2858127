"""What a compiled network computes, and how its heads do it, as data.

The target is a `Graph` of columns. A column holds one number for every token, and is defined by earlier columns. In
words a graph is the formula that its columns make, where that is short, else its digest: its name is free text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from weightwright.claims.kinds import Target
from weightwright.claims.texts import short_digest
from weightwright.errors import FormulaError
from weightwright.expressions import Apply, Expression, Number, Variable, parse, shortened, substitute, to_text
from weightwright.expressions.nodes import count_nodes
from weightwright.limits import tick
from weightwright.network.layers import Frozen
from weightwright.numbers import Bools, Floats, counted

#: The kinds of column that are no function of one number.
INPUT, AFFINE, PRODUCT, SOFTMAX, MIX, ATTENTION = "input", "affine", "product", "softmax", "mix", "attention"
KINDS = (INPUT, AFFINE, PRODUCT, SOFTMAX, MIX, ATTENTION)
SQUARE = "x**2"
#: Columns of a graph, nodes of a formula and characters of its text that are still told one by one.
MOST_COLUMNS, MOST_NODES, MOST_CHARACTERS = 64, 48, 100
#: The functions that jump, both at 0; what they compute may be left open near it.
JUMPS = ("step(x)", "sign(x)")


@dataclass(frozen=True, eq=False)
class Node(Frozen):
    """One column. Every stored number is meant exactly.

    "input": feature `index` of the input.
    "affine": the sum of weights_i times column of_i, plus the constants: one for all tokens, or one for each.
    "product": column of_0 times column of_1, token by token.
    "softmax": entry `index` of the softmax over the columns `of`, token by token.
    "mix": on token i the sum over j of matrices[index][i, j] times column of_0 on token j.
    "attention": on token i the mean of column of_2h over the tokens j that it sees, weighed by the softmax over j of
    the sum over r < h of column of_r on i times column of_(h + r) on j: queries, keys, a value. It sees all tokens if
    the index is -1, else those where matrices[index][i, j] is 1, and not where it is 0.
    Any other op is a formula in x: the function of column of_0, token by token.
    """

    op: str  # the kind of column, or a formula in x
    of: tuple[int, ...] = ()  # columns that it takes
    weights: Floats = field(default_factory=lambda: np.zeros(0))  # of an affine column
    constants: Floats = field(default_factory=lambda: np.zeros(1))  # of an affine column: one, or one for each token
    index: int = 0  # of a feature, an entry or a matrix
    label: str = ""  # for people: what the column is, in words


@dataclass(frozen=True, eq=False)
class Graph(Target):
    """The target: a column takes earlier columns only. Output feature m is column outputs_m."""

    name: str  # free text, shown as a name
    nodes: tuple[Node, ...]  # all columns, each after those that it takes
    outputs: tuple[int, ...]  # the column of every output
    matrices: tuple[Floats, ...] = ()  # (tokens, tokens) each
    tokens: int | None = None  # None: any number, each token by itself

    @property
    def title(self) -> str:
        return self.name

    def in_words(self) -> str:
        return graph_in_words(self)

    def __repr__(self) -> str:
        return f"Graph({self.name}: {counted(len(self.nodes), 'column')}, {counted(len(self.outputs), 'output')})"


@dataclass(frozen=True)
class Fused:
    """Column `node` is computed as a function of the single earlier column `base`, all between them being done at
    once."""

    node: int  # the column that is computed
    base: int  # the column that it is a function of


@dataclass(frozen=True)
class ProductClaim:
    """Column `node`, the product of a and b, is computed by two squares:

    q+ and q- = (scale (balance (a - x) +- (b - y) / balance))^2, so that
    a b = (q+ - q-) / (4 scale^2) + x b + y a - x y. balance and scale are powers of two.

    lemma 0 or 1 (-1: none): this factor is a function g(V) of a column V = e + c f^2 + (what is at least 0), c > 0,
    f being the other factor. Then |f| <= sqrt((V - e) / c), so that errors of V count with
    sup sqrt((V - e) / c) |g'(V)|, and not with the largest |f| times the largest |g'|.
    """

    node: int  # the product
    balance: float  # a power of two that makes both factors alike
    scale: float  # a power of two that brings the squares into [-1, 1]
    x: float  # middle of a's range
    y: float  # middle of b's range
    lemma: int = -1  # which factor, 0 or 1, the lemma on sums of squares is for; -1: none


@dataclass(frozen=True)
class SoftmaxClaim:
    """A head whose scores are numbers of the stream and whose values are one-hot: its weights are the result. nodes:
    the columns in the order of the values."""

    layer: int  # number of the layer
    head: int  # its number in it
    nodes: tuple[int, ...]  # the columns in the order of the values


@dataclass(frozen=True)
class AttentionClaim:
    """A head between data tokens that computes these columns, one for each of its values: all are "attention" with the
    same queries, keys and tokens that are seen. What it does not see is hidden by its scores."""

    layer: int  # number of the layer
    head: int  # its number in it
    nodes: tuple[int, ...]  # the columns that its values hold


def attended(node: Node) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """The queries, keys and the value of an "attention"."""
    h = (len(node.of) - 1) // 2
    return node.of[:h], node.of[h : 2 * h], node.of[-1]


def sees(graph: Graph, node: Node, first: int = 0, last: int | None = None) -> Bools:
    """(last - first, tokens): which tokens these tokens attend to in an "attention"; by default all of them."""
    n = graph.tokens or 1
    rows = slice(first, n if last is None else last)
    if node.index != -1:
        return graph.matrices[node.index][rows] != 0
    return np.ones((rows.stop - first, n), dtype=bool)


def square_units(graph: Graph, product: int, token: int) -> tuple[int, int]:
    """What `TableClaim.units` calls the two squares of a product on a token."""
    n, K = graph.tokens or 1, len(graph.nodes)
    return (K + 2 * product) * n + token, (K + 2 * product + 1) * n + token


def units(graph: Graph, node: int) -> Sequence[int]:
    """What `TableClaim.units` calls a column, token by token."""
    n = graph.tokens or 1
    return range(node * n, (node + 1) * n)


@lru_cache(maxsize=16)
def graph_in_words(graph: Graph) -> str:
    """What the columns of a graph compute, whatever the graph is called."""
    try:
        formula = _formula(graph)
    except (LookupError, TypeError, ValueError, ArithmeticError):  # a file that was not checked may hold anything
        formula = None
    if formula is not None:
        return formula
    unnamed = replace(graph, name="", nodes=tuple(replace(node, label="") for node in graph.nodes))
    return f"a graph of {len(graph.nodes):,} columns, {short_digest(unnamed)}"


def _formula(graph: Graph) -> str | None:
    """The outputs as formulas of the inputs; None where they are too long, or more than formulas of one token."""
    if len(graph.nodes) > MOST_COLUMNS:
        return None
    inputs = 1 + max((node.index for node in graph.nodes if node.op == INPUT), default=0)
    columns: list[Expression | None] = []
    for node in graph.nodes:
        columns.append(_column(node, columns, inputs))
    outputs = [columns[i] for i in graph.outputs]
    texts = []
    for output in outputs:
        if output is None or count_nodes(output) > MOST_NODES:
            return None
        texts.append(shortened(to_text(output)))
    text = texts[0] if len(texts) == 1 else f"({', '.join(texts)})"
    return text if len(text) <= MOST_CHARACTERS else None


def _column(node: Node, columns: list[Expression | None], inputs: int) -> Expression | None:
    if node.op == INPUT:
        return Variable("x" if inputs == 1 else f"x[{node.index}]")
    if any(not 0 <= i < len(columns) for i in node.of):
        raise ValueError("a column takes earlier columns only")
    taken = [columns[i] for i in node.of]
    if any(one is None or count_nodes(one) > MOST_NODES for one in taken):
        return None
    of: list[Any] = taken
    if node.op == AFFINE:
        return _affine(node, of)
    if node.op == PRODUCT:
        return Apply("mul", (of[0], of[1]))
    if node.op in KINDS:
        return None
    try:
        return substitute(parse(node.op, ("x",)), "x", of[0])
    except FormulaError:
        return None


def _affine(node: Node, of: list[Expression]) -> Expression | None:
    if len(node.constants) != 1:
        return None
    constant = Fraction(float(node.constants[0]))
    terms = [(Fraction(float(weight)), one) for weight, one in zip(node.weights, of, strict=True) if weight]
    total: Expression | None = None
    for weight, one in terms:
        tick()
        size = one if abs(weight) == 1 else Apply("mul", (Number(abs(weight)), one))
        if total is None:
            total = Apply("neg", (size,)) if weight < 0 else size
        else:
            total = Apply("sub" if weight < 0 else "add", (total, size))
    if total is None:
        return Apply("neg", (Number(-constant),)) if constant < 0 else Number(constant)
    if not constant:
        return total
    return Apply("sub" if constant < 0 else "add", (total, Number(abs(constant))))
