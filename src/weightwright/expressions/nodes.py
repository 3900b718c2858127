"""The three kinds of node, the table of operations, the one way to walk an expression; and expressions as text."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import TypeVar

from weightwright.errors import FormulaError
from weightwright.limits import tick

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
        tick()
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


#: Binary operators: how they are written, and how tightly they bind.
INFIX = {"add": (" + ", 1), "sub": (" - ", 1), "mul": ("*", 2), "div": ("/", 2), "pow": ("**", 4)}
_UNARY_MINUS, _ATOM = 3, 5
_NUMBER = re.compile(r"(?<![\w.])(\d+\.?\d*)(?:e[+-]?\d+)?")
_DIGITS = 6  # of a number that is shown


def to_text(expression: Expression) -> str:
    """The text that `parse` reads back to the same expression.

    >>> from weightwright.expressions import parse
    >>> to_text(parse("-(x+1)**2 / 3e-1"))
    '-(x + 1)**2/0.3'
    """
    return fold(expression, _leaf, _node)[0]


def shortened(text: str) -> str:
    """A formula for people: numbers of many digits, as floats are when written out, end in three dots.

    >>> shortened("1/(sqrt(x) + 0.01000000000000000020816681711721685)")
    '1/(sqrt(x) + 0.01...)'
    """

    def short(number: re.Match[str]) -> str:
        digits = number[1].replace(".", "").strip("0")
        return number[0] if len(digits) <= _DIGITS else f"{float(number[0]):.{_DIGITS}g}..."

    return _NUMBER.sub(short, text)


def _leaf(node: Number | Variable) -> tuple[str, int]:
    if isinstance(node, Variable):
        return node.name, _ATOM
    text = _decimal(node.value)
    return text, (_UNARY_MINUS if text.startswith("-") else _ATOM)


def _node(op: str, args: Sequence[tuple[str, int]]) -> tuple[str, int]:
    def bracket(arg: tuple[str, int], at_least: int) -> str:
        text, strength = arg
        return text if strength >= at_least else f"({text})"

    if op == "neg":
        return f"-{bracket(args[0], _UNARY_MINUS + 1)}", _UNARY_MINUS
    if op == "pow":  # binds to the right, so the left argument needs more
        return f"{bracket(args[0], _ATOM)}**{bracket(args[1], _ATOM)}", INFIX[op][1]
    if op in INFIX:
        sign, strength = INFIX[op]
        return f"{bracket(args[0], strength)}{sign}{bracket(args[1], strength + 1)}", strength
    if not args:
        return op, _ATOM
    return f"{op}({', '.join(text for text, _ in args)})", _ATOM


def _decimal(value: Fraction) -> str:
    """The exact decimal of a fraction whose denominator has only the factors 2 and 5, plain or scientific."""
    with localcontext() as context:
        context.prec = value.denominator.bit_length() + len(str(abs(value.numerator))) + 10
        quotient = (Decimal(value.numerator) / Decimal(value.denominator)).normalize()
        plain, scientific = f"{quotient:f}", str(quotient).replace("E", "e")
    if Fraction(quotient) != value:
        raise FormulaError(f"the constant {value} has no finite decimal")
    return plain if len(plain) <= 24 else min(plain, scientific, key=len)
