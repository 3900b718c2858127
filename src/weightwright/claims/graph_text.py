"""A graph of columns in words: the formula that its columns make, where that is short, else its digest.

The name of a graph is free text; this is what the checker follows.
"""

from __future__ import annotations

import dataclasses
import json
from fractions import Fraction
from functools import lru_cache
from typing import Any

from weightwright.claims.graph import AFFINE, INPUT, KINDS, PRODUCT, Graph, Node
from weightwright.errors import FormulaError
from weightwright.expressions import Apply, Expression, Number, Variable, parse, shortened, substitute, to_text
from weightwright.expressions.nodes import count_nodes
from weightwright.limits import tick
from weightwright.network.storage import ArrayWriter, digest, encode

#: Columns of a graph, nodes of a formula and characters of its text that are still told one by one.
MOST_COLUMNS, MOST_NODES, MOST_CHARACTERS = 64, 48, 100
#: Hexadecimal digits of a digest that are shown.
DIGITS = 16


def quoted(name: str) -> str:
    """Free text that is seen to be some: in quotes, on one line, and without marks that a screen obeys."""
    return on_one_line(json.dumps(name, ensure_ascii=False))


def on_one_line(text: str) -> str:
    """Free text between words of ours: no line break, and no mark that a screen obeys.

    >>> print(on_one_line("x" + chr(27) + "[2K"))
    x\\u001b[2K
    """
    return "".join(mark if mark.isprintable() else json.dumps(mark)[1:-1] for mark in text)


@lru_cache(maxsize=16)
def followed(graph: Graph) -> str:
    """What is computed, whatever the graph is called."""
    try:
        formula = _formula(graph)
    except (LookupError, TypeError, ValueError, ArithmeticError):  # a file that was not checked may hold anything
        formula = None
    if formula is not None:
        return formula
    unnamed = dataclasses.replace(
        graph, name="", nodes=tuple(dataclasses.replace(node, label="") for node in graph.nodes)
    )
    return f"a graph of {len(graph.nodes):,} columns, {short_digest(unnamed)}"


def short_digest(value: Any) -> str:
    """The digest of stored data, as its file would hold it."""
    arrays = ArrayWriter()
    structure = encode(value, arrays)
    return f"sha256 {digest({'value': structure, 'arrays': arrays.rows}, arrays.pools())[:DIGITS]}"


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
