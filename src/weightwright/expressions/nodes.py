"""The three kinds of node, the table of operations, and the one way to walk an expression."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

T = TypeVar("T")

#: Every operation and the number of its arguments. `gelu` is the erf form; `clip(x, lo, hi)`; `sign(0)` is 0 and
#: `step` is 0 below 0, 1 above, 1/2 at 0.
OPERATIONS: dict[str, int] = {
    "add": 2,
    "sub": 2,
    "mul": 2,
    "div": 2,
    "pow": 2,
    "neg": 1,
    "pi": 0,
    "e": 0,
    **dict.fromkeys(("exp", "log", "sqrt", "sin", "cos", "tan", "atan", "tanh", "sigmoid"), 1),
    **dict.fromkeys(("softplus", "gelu", "silu", "erf", "abs", "relu", "sign", "step"), 1),
    "max": 2,
    "min": 2,
    "clip": 3,
}


@dataclass(frozen=True)
class Number:
    """An exact rational constant: the decimal that was written, or the float that was traced."""

    value: Fraction


@dataclass(frozen=True)
class Variable:
    name: str


@dataclass(frozen=True)
class Apply:
    """An operation of `OPERATIONS` applied to its arguments."""

    op: str
    args: tuple[Expression, ...]


Expression = Number | Variable | Apply


def fold(expression: Expression, leaf: Callable[[Number | Variable], T], node: Callable[[str, Sequence[T]], T]) -> T:
    """Compute bottom-up, without recursion (a sum of a thousand terms is a thousand deep).

    A node object that stands in several places is computed once.
    """
    results: dict[int, T] = {}
    stack: list[tuple[Expression, bool]] = [(expression, False)]
    while stack:
        current, arguments_done = stack.pop()
        if id(current) in results:
            continue
        if not isinstance(current, Apply):
            results[id(current)] = leaf(current)
        elif arguments_done:
            results[id(current)] = node(current.op, [results[id(arg)] for arg in current.args])
        else:
            stack.append((current, True))
            stack.extend((arg, False) for arg in current.args)
    return results[id(expression)]


def soft_threshold(x: Expression, threshold: Expression) -> Expression:
    """x moved towards 0 by the threshold: relu(x - t) - relu(-x - t)."""
    beyond = (Apply("sub", (side, threshold)) for side in (x, Apply("neg", (x,))))
    right, left = (Apply("relu", (part,)) for part in beyond)
    return Apply("sub", (right, left))


def substitute(expression: Expression, name: str, replacement: Expression) -> Expression:
    """The expression with every occurrence of the variable replaced."""

    def leaf(node: Number | Variable) -> Expression:
        return replacement if isinstance(node, Variable) and node.name == name else node

    return fold(expression, leaf, lambda op, args: Apply(op, tuple(args)))


def count_nodes(expression: Expression) -> int:
    """The number of nodes when written out as a tree (shared nodes count each time)."""
    return fold(expression, lambda node: 1, lambda op, args: 1 + sum(args))
