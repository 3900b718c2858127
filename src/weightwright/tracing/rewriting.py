"""Columns written otherwise: several that come from one as one function of it, where poles cancel (sin(x) / x) or the
sides of a switch meet; quadratic forms as sums of squares."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import combinations_with_replacement, permutations

from weightwright.claims.chain import compose_chain
from weightwright.claims.graph import AFFINE, ATTENTION, INPUT, MIX, PRODUCT, SOFTMAX, SQUARE, Graph, Node
from weightwright.errors import FormulaError
from weightwright.expressions import Apply, Expression, Number, Variable, to_text
from weightwright.expressions.derivative import times
from weightwright.expressions.nodes import count_nodes, substitute
from weightwright.expressions.poles import join_poles
from weightwright.expressions.quotients import take_out_quotients
from weightwright.expressions.switches import bend
from weightwright.tracing.columns import HELD, Columns

#: How functions with poles are written; beside others nothing can cancel.
_POLES = ("/", "**-", "**(-")
#: A square of a sum of columns: its weight, and the columns with theirs.
Square = tuple[Fraction, dict[int, Fraction]]
#: Columns of a quadratic form: with more it is left as it is; of a few every order is tried, since floats may hold one.
MOST_SQUARED, FEW_SQUARED = 16, 4
#: Expressions whose poles were looked for, and that are remembered.
KEPT = 256
#: Operations of all sides together, written out: longer ones are left as they are.
LONGEST = 200


def quotient_with_limit(columns: Columns, a: int, b: int, label: str) -> int | None:
    """a / b as one column, if both are 0 at a point where the quotient has a limit; None otherwise."""
    return _joined(columns, "div", a, b, label)


def product_with_limit(columns: Columns, a: int, b: int, label: str) -> int | None:
    """The same for a * b, where one of them has a pole."""
    ops = [columns.nodes[column].op for column in (a, b)]
    return _joined(columns, "mul", a, b, label) if any(pole in op for op in ops for pole in _POLES) else None


def product_without_jump(columns: Columns, a: int, b: int, label: str) -> int | None:
    """a * b as one column, if b jumps and a is 0 where it does: relu(x) step(x) is relu(x). None otherwise."""
    jumping = columns.nodes[b]
    if not any(jump in jumping.op for jump in ("step", "sign")):
        return None
    if jumping.op == "step(x)" and any(node.op == "relu(x)" and node.of == jumping.of for node in _factors(columns, a)):
        return a
    base, sides = _of_one_column(columns, a, b)
    x = Variable("x")
    whole = times(*(substitute(side, "x", x) for side in sides)) if sides else None
    if whole is None or any(jump in to_text(whole) for jump in ("step", "sign")):
        return None
    weight, rest = take_out_number(whole)
    return columns.combined([columns.apply(rest, base, label)], [weight], label=label)


def _factors(columns: Columns, column: int) -> Iterator[Node]:
    """The columns that a product is made of, numbers left out."""
    node = columns.nodes[column]
    if node.op == PRODUCT or (node.op == AFFINE and len(node.of) == 1 and not node.constants.any()):
        for factor in node.of:
            yield from _factors(columns, factor)
    else:
        yield node


def take_out_number(slope: Expression) -> tuple[float, Expression]:
    """The number in front of a product and the rest, where a float holds it."""
    if isinstance(slope, Number):
        exact = Fraction(float(slope.value)) == slope.value
        return (float(slope.value), Number(Fraction(1))) if exact else (1.0, slope)
    if isinstance(slope, Apply) and slope.op == "neg":
        weight, rest = take_out_number(slope.args[0])
        return -weight, rest
    if isinstance(slope, Apply) and slope.op == "mul" and isinstance(slope.args[0], Number):
        weight, left = take_out_number(slope.args[0])
        return (weight, slope.args[1]) if isinstance(left, Number) and left.value == 1 else (1.0, slope)
    return 1.0, slope


def switch_with_bend(columns: Columns, gap: int, above: int, below: int, label: str) -> int | None:
    """`above` where the gap is positive, `below` where it is not, as one column that bends; None if it jumps."""
    base, sides = _of_one_column(columns, gap, above, below)
    bent = bend(*sides) if sides else None
    return None if bent is None else columns.apply(bent, base, label)


def _joined(columns: Columns, op: str, a: int, b: int, label: str) -> int | None:
    base, sides = _of_one_column(columns, a, b)
    whole = _with_limit(Apply(op, sides)) if sides else None
    return None if whole is None else columns.apply(whole, base, label)


@lru_cache(maxsize=KEPT)
def _with_limit(expression: Apply) -> Expression | None:
    """With poles that cancel joined; None where there are none. A function is traced several times: it asks again."""
    whole = join_poles(expression)
    return whole if take_out_quotients(whole).quotients else None


def _of_one_column(columns: Columns, *given: int) -> tuple[int, tuple[Expression, ...]]:
    """The column that all depend on alone, and each as a formula of it; no formulas where there is none."""
    base = _common_column(columns, *given)
    if base is None:
        return 0, ()
    graph = Graph("", tuple(columns.nodes), ())
    try:
        sides = tuple(compose_chain(graph, column, base) for column in given)
    except FormulaError:  # a constant for every token
        return 0, ()
    return (base, sides) if sum(map(count_nodes, sides)) <= LONGEST else (0, ())


def _common_column(columns: Columns, *given: int) -> int | None:
    """The last column that all depend on alone. The latest of them is taken apart until one is left."""
    left = {column for column in given if columns.constant_of(column) is None}
    while len(left) > 1:
        last = max(left)
        node = columns.nodes[last]
        if node.op in (INPUT, SOFTMAX, MIX, ATTENTION, HELD):
            return None
        left.remove(last)
        left.update(column for column in node.of if columns.constant_of(column) is None)
    return left.pop() if left else None


def as_sum_of_squares(columns: Columns, column: int, label: str) -> int:
    """The same column, if it is a sum with products in it and floats hold it as a sum of squares with positive weights,
    a constant and other columns: then it shows how far it is above 0. Otherwise the column as it is."""
    node = columns.nodes[column]
    if node.op != AFFINE or len(node.constants) != 1 or all(columns.nodes[c].op != PRODUCT for c in node.of):
        return column
    quadratic, linear = _quadratic_part(columns, node)
    names = sorted({c for pair in quadratic for c in pair})
    if len(names) > MOST_SQUARED:
        return column
    for order in permutations(names) if len(names) <= FEW_SQUARED else (names,):
        squares = _completed(dict(quadratic), order)
        if squares is not None:
            break
    else:
        return column
    rows = [columns.affine(list(row), [float(w) for w in row.values()], label=label) for _, row in squares]
    made = [columns.apply(SQUARE, row, label) for row in rows]
    weights = [*(float(weight) for weight, _ in squares), *linear.values()]
    return columns.affine([*made, *linear], weights, node.constants, label)


def _quadratic_part(columns: Columns, node: Node) -> tuple[dict[tuple[int, int], Fraction], dict[int, float]]:
    """The weights of squares and products, by their factors, and of all other columns."""
    quadratic, linear = dict[tuple[int, int], Fraction](), dict[int, float]()
    for column, weight in zip(node.of, node.weights.tolist(), strict=True):
        inner = columns.nodes[column]
        if inner.op in (SQUARE, PRODUCT):
            quadratic[inner.of[0], inner.of[-1]] = Fraction(weight)
        else:
            linear[column] = weight
    return quadratic, linear


def _completed(form: dict[tuple[int, int], Fraction], order: Sequence[int]) -> list[Square] | None:
    """Weights and rows, one square after the other completed; None where one is not positive, or no floats hold it."""
    squares: list[Square] = []
    left = {tuple(sorted(pair)): weight for pair, weight in form.items()}
    for index, first in enumerate(order):
        weight = left.pop((first, first), Fraction(0))
        row = {other: left.pop(tuple(sorted((first, other))), Fraction(0)) for other in order[index + 1 :]}
        if weight <= 0:
            if weight < 0 or any(row.values()):
                return None
            continue
        row = {first: Fraction(1), **{other: w / (2 * weight) for other, w in row.items() if w}}
        if any(Fraction(float(number)) != number for number in (weight, *row.values())):
            return None
        for a, b in combinations_with_replacement([c for c in row if c != first], 2):
            pair = tuple(sorted((a, b)))
            left[pair] = left.get(pair, Fraction(0)) - weight * row[a] * row[b] * (1 if a == b else 2)
        squares.append((weight, row))
    return squares
