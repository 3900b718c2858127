"""Expressions as text that `parse` reads back to the same expression."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal, localcontext
from fractions import Fraction

from weightwright.errors import FormulaError
from weightwright.expressions.nodes import Expression, Number, Variable, fold

#: Binary operators: how they are written, and how tightly they bind.
INFIX = {"add": (" + ", 1), "sub": (" - ", 1), "mul": ("*", 2), "div": ("/", 2), "pow": ("**", 4)}
_UNARY_MINUS, _ATOM = 3, 5
_NUMBER = re.compile(r"(?<![\w.])(\d+\.?\d*)(?:e[+-]?\d+)?")
_DIGITS = 6  # of a number that is shown


def to_text(expression: Expression) -> str:
    """
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
