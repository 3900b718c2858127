"""Which columns get heads of their own, and from which column each is computed: chains of one variable at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Set
from dataclasses import dataclass

from weightwright.claims.chain import compose_chain
from weightwright.claims.graph import AFFINE, ATTENTION, INPUT, KINDS, MIX, PRODUCT, SOFTMAX, Graph, Node
from weightwright.expressions import Expression, fold, to_text
from weightwright.expressions.nodes import count_nodes

#: Formulas are composed up to this size, written out: proving takes time that grows with it.
LONGEST = 600
#: Largest number of different formulas that may replace one shared table; with more the table is cheaper.
DIFFERENT = 8
#: Where these stand inside a chain, the composed function has kinks at places that are hard to find.
KINKED = {"abs", "relu", "sign", "step", "max", "min", "clip"}


@dataclass(frozen=True)
class Function:
    """A column that heads compute as a formula of column `base`."""

    base: int
    formula: str


@dataclass(frozen=True)
class FusingPlan:
    """The columns that heads compute, in order, and how: a function of one column, or the kind of the node."""

    units: tuple[int, ...]
    functions: dict[int, Function]

    def fused(self, graph: Graph) -> tuple[int, ...]:
        """The columns that are computed together with columns between them and their base."""
        return tuple(k for k, f in self.functions.items() if not direct(graph.nodes[k], f.base))


def direct(node: Node, base: int) -> bool:
    """Whether a column is a function of just this column."""
    return node.op not in KINDS and node.of[0] == base


def fuse(graph: Graph, apart: Set[int] = frozenset()) -> FusingPlan:
    """Every column that the outputs need as a head, computed from the lowest column that it depends on alone.

    apart: columns that are computed step by step.
    """
    below = _dominators(graph)
    choices = {k: _lowest(graph, k, below) for k in range(len(graph.nodes)) if k not in apart}
    apart = apart | _too_many(graph, choices)
    needed, functions = set(graph.outputs), dict[int, Function]()
    for k in reversed(range(len(graph.nodes))):
        if k not in needed:
            continue
        node = graph.nodes[k]
        chosen = choices[k] if k not in apart else None
        if chosen is not None:
            functions[k] = chosen
            needed.add(chosen.base)
            continue
        if node.op not in KINDS:
            functions[k] = Function(node.of[0], node.op)
        needed.update(node.of)
    units = tuple(k for k in sorted(needed) if graph.nodes[k].op not in (INPUT, AFFINE))
    return FusingPlan(units, dict(sorted(functions.items())))


def _dominators(graph: Graph) -> list[int | None]:
    """For every column the nearest earlier one that it depends on alone, or None. A column of constants counts as -1:
    it depends on nothing."""
    found: list[int | None] = []
    for node in graph.nodes:
        if node.op in (INPUT, SOFTMAX, MIX, ATTENTION) or (node.op == AFFINE and len(node.constants) > 1):
            found.append(None)
            continue
        sources = [c for c in node.of if found[c] != -1]
        common: int | None = sources[0] if sources else -1
        for column in sources[1:]:
            common = _common(common, column, found)
        found.append(common)
    return found


def _common(a: int | None, b: int | None, found: list[int | None]) -> int | None:
    while a != b:
        if a is None or b is None:
            return None
        a, b = (found[a], b) if a > b else (a, found[b])
    return a


def _lowest(graph: Graph, k: int, below: list[int | None]) -> Function | None:
    """The lowest base that saves a head, if the composed formula is smooth and short; None: step by step."""
    node, base = graph.nodes[k], below[k]
    if node.op in (INPUT, AFFINE, SOFTMAX, MIX, ATTENTION):
        return None
    best: Function | None = None
    heads = 1 if node.op not in KINDS else 0  # a product itself is worth fusing
    while base is not None and base >= 0:
        inside = _heads_between(graph, k, base)
        if inside > heads:
            expression = compose_chain(graph, k, base) if inside <= LONGEST / 4 else None
            if expression is None or count_nodes(expression) > LONGEST or (inside > 1 and not _smooth(expression)):
                break
            best, heads = Function(base, to_text(expression)), inside
        base = below[base]
    return best


def _heads_between(graph: Graph, k: int, base: int) -> int:
    """The number of columns from k down to the base, without it, that are functions or products."""
    seen, stack, count = {base}, [k], 0
    while stack:
        column = stack.pop()
        if column not in seen:
            seen.add(column)
            count += graph.nodes[column].op == PRODUCT or graph.nodes[column].op not in KINDS
            stack.extend(graph.nodes[column].of)
    return count


def _smooth(expression: Expression) -> bool:
    return fold(expression, lambda leaf: True, lambda op, args: op not in KINKED and all(args))


def _too_many(graph: Graph, choices: dict[int, Function | None]) -> set[int]:
    """Columns of one kind that would all be different formulas."""
    formulas, columns = defaultdict[str, set[str]](set), defaultdict[str, set[int]](set)
    for k, choice in choices.items():
        if choice is not None:
            formulas[graph.nodes[k].op].add(choice.formula)
            columns[graph.nodes[k].op].add(k)
    return {k for op in formulas if len(formulas[op]) > DIFFERENT for k in columns[op]}
