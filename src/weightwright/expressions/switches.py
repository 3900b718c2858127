"""One expression above a threshold and another below it: a kink where the two meet, a jump where they do not."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from weightwright.expressions.derivative import ZERO, is_decimal, minus, negative, plus, times
from weightwright.expressions.nodes import Apply, Expression, Number, Variable, fold, substitute
from weightwright.expressions.quotients import exact_series, polynomial, rational_roots, variables


def switch(gap: Expression, above: Expression, below: Expression) -> Expression:
    """`above` where the gap is positive, `below` where it is negative.

    >>> from weightwright.expressions import parse, to_text
    >>> to_text(switch(parse("x"), parse("x"), parse("exp(x) - 1")))
    'exp(min(x, 0)) - 1 + max(x, 0)'
    >>> to_text(switch(parse("x"), parse("1 + x"), parse("x**2")))
    'x**2 + step(x)*(1 + x - x**2)'
    """
    bent = bend(gap, above, below)
    return plus(below, times(Apply("step", (gap,)), minus(above, below))) if bent is None else bent


def bend(gap: Expression, above: Expression, below: Expression) -> Expression | None:
    """The same without a step, if both are equal, exactly, wherever the gap is 0: all of one variable, and the gap a
    polynomial in it, or in its absolute value, whose zeros are rational.

    Each side is taken on its pieces, between one zero c and the next: the sum of side(clip(x, c, c')), less what both
    are at every c.
    """
    if len(variables(gap) | variables(above) | variables(below)) != 1 or not variables(gap):
        return None
    zeros = _zeros(gap)
    if zeros is None or any(exact_series(minus(above, below), c)[0] != 0 for c in zeros):
        return None
    x = Variable(variables(gap).pop())
    total: Expression = ZERO
    for left, right in zip([None, *zeros], [*zeros, None], strict=True):
        sign = exact_series(gap, _between(left, right))[0]
        if not sign:
            return None
        total = plus(total, substitute(above if sign > 0 else below, x.name, _clipped(x, left, right)))
    for c in zeros:
        value = exact_series(above, c)[0]
        total = minus(total, substitute(above, x.name, _number(c)) if value is None else _number(value))
    return total


def _zeros(gap: Expression) -> list[Fraction] | None:
    """All of them, in order; None where they are not known."""
    found = set[Fraction]()
    for side in (1, -1):
        line = polynomial(_on_side(gap, side))
        roots = None if line is None else rational_roots(line)
        if roots is None:
            return None
        found |= {root for root in roots if root * side >= 0}
    return sorted(found) or None


def _on_side(gap: Expression, side: int) -> Expression:
    """The gap where x is positive, or negative: without |x|."""

    def node(op: str, args: Sequence[Expression]) -> Expression:
        if op == "abs" and isinstance(args[0], Variable):
            return args[0] if side > 0 else negative(args[0])
        return Apply(op, tuple(args))

    return fold(gap, lambda leaf: leaf, node)


def _between(left: Fraction | None, right: Fraction | None) -> Fraction:
    """Not the middle, which is where |x| bends."""
    if left is not None and right is not None:
        return (2 * left + right) / 3
    return left + 1 if left is not None else right - 1 if right is not None else Fraction(0)


def _clipped(x: Variable, left: Fraction | None, right: Fraction | None) -> Expression:
    result: Expression = x
    for op, end in (("max", left), ("min", right)):
        result = result if end is None else Apply(op, (result, _number(end)))
    return result


def _number(value: Fraction) -> Expression:
    if is_decimal(value):
        return Number(value)
    return Apply("div", (Number(Fraction(value.numerator)), Number(Fraction(value.denominator))))
