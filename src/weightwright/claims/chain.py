"""What a chain of columns computes of the single column that it starts from, as one formula in x."""

from __future__ import annotations

from fractions import Fraction

from weightwright.claims.certificate import constant
from weightwright.claims.graph import AFFINE, ATTENTION, INPUT, MIX, PRODUCT, SOFTMAX, Graph, Node
from weightwright.errors import FormulaError
from weightwright.expressions import Apply, Expression, Variable, parse, substitute


def compose_chain(graph: Graph, node: int, base: int) -> Expression:
    """Column `node` as a function of column `base`, which is x; FormulaError where it depends on anything else.

    A function replaces its x, a product is a product, and an affine column is the sum of its weights times its columns
    in the order of `Node.of`, then its constant; a weight of 1 and a constant of 0 are not written. Equal columns are
    one object, so that the size of the result grows with the number of columns; its text may be far longer.

    >>> from weightwright.claims.graph import Graph, Node
    >>> from weightwright.expressions import to_text
    >>> nodes = (Node("input"), Node("exp(x)", (0,)), Node("affine", (1, 0), [1, -0.5], [2]), Node("product", (1, 2)))
    >>> to_text(compose_chain(Graph("", nodes, (3,)), 3, 0))
    'exp(x)*(exp(x) + -0.5*x + 2)'
    """
    found: dict[int, Expression] = {base: Variable("x")}
    stack = [node]
    while stack:
        column = stack[-1]
        missing = [c for c in graph.nodes[column].of if c not in found] if column not in found else []
        if missing and not _ends(graph.nodes[column]):
            stack.extend(missing)
            continue
        stack.pop()
        if column not in found:
            found[column] = _one(graph, column, base, found)
    return found[node]


def _ends(node: Node) -> bool:
    """Whether a column is no function of the columns before it on the same token."""
    return node.op in (INPUT, SOFTMAX, MIX, ATTENTION)


def _one(graph: Graph, column: int, base: int, found: dict[int, Expression]) -> Expression:
    node = graph.nodes[column]
    if _ends(node):
        raise FormulaError(f"column {column} ({node.label or node.op}) is no function of column {base} alone")
    if node.op == PRODUCT:
        return Apply("mul", (found[node.of[0]], found[node.of[1]]))
    if node.op != AFFINE:
        return substitute(parse(node.op, ("x",)), "x", found[node.of[0]])
    if len(node.constants) != 1:
        raise FormulaError(f"column {column} ({node.label or node.op}) has a constant for every token")
    terms = [_term(float(weight), found[c]) for c, weight in zip(node.of, node.weights, strict=True)]
    if node.constants[0] or not terms:
        terms.append(constant(Fraction(float(node.constants[0]))))
    total = terms[0]
    for term in terms[1:]:
        total = Apply("add", (total, term))
    return total


def _term(weight: float, column: Expression) -> Expression:
    return column if weight == 1 else Apply("mul", (constant(Fraction(weight)), column))
