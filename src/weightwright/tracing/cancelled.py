"""Products and quotients whose poles cancel, as one function of the column that both sides come from: sin(x) / x."""

from __future__ import annotations

from weightwright.claims.chain import compose_chain
from weightwright.claims.graph import ATTENTION, INPUT, MIX, SOFTMAX, Graph
from weightwright.errors import FormulaError
from weightwright.expressions import Apply
from weightwright.expressions.nodes import count_nodes
from weightwright.expressions.poles import join_poles
from weightwright.expressions.quotients import take_out_quotients
from weightwright.tracing.columns import Columns

#: How functions with poles are written; beside others nothing can cancel.
_POLES = ("/", "**-", "**(-")
#: Operations of both sides together, written out: longer ones are left as they are.
LONGEST = 200


def quotient_with_limit(columns: Columns, a: int, b: int, label: str) -> int | None:
    """a / b as one column, if both are 0 at a point where the quotient has a limit; None otherwise."""
    return _joined(columns, "div", a, b, label)


def product_with_limit(columns: Columns, a: int, b: int, label: str) -> int | None:
    """The same for a * b, where one of them has a pole."""
    ops = [columns.nodes[column].op for column in (a, b)]
    return _joined(columns, "mul", a, b, label) if any(pole in op for op in ops for pole in _POLES) else None


def _joined(columns: Columns, op: str, a: int, b: int, label: str) -> int | None:
    base = _common_column(columns, a, b)
    if base is None:
        return None
    graph = Graph("", tuple(columns.nodes), ())
    try:
        sides = tuple(compose_chain(graph, column, base) for column in (a, b))
    except FormulaError:  # a constant for every token
        return None
    if sum(map(count_nodes, sides)) > LONGEST:
        return None
    whole = join_poles(Apply(op, sides))
    return columns.apply(whole, base, label) if take_out_quotients(whole).quotients else None


def _common_column(columns: Columns, a: int, b: int) -> int | None:
    """The last column that both depend on alone. The later of two is taken apart until one is left."""
    left = {a, b}
    while len(left) > 1:
        last = max(left)
        node = columns.nodes[last]
        if node.op in (INPUT, SOFTMAX, MIX, ATTENTION):
            return None
        left.remove(last)
        left.update(column for column in node.of if columns.constant_of(column) is None)
    return left.pop() if left else None
