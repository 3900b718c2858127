"""Poles that cancel, written as one quotient: 1/x - 1/sin(x) becomes (sin(x) - x)/(x*sin(x)), which is 0 / 0 at 0."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from weightwright.expressions.derivative import ONE, minus, negative, plus, power, times
from weightwright.expressions.nodes import Apply, Expression, Number, fold
from weightwright.expressions.quotients import has_zero, zeros_of_quotient


@dataclass(frozen=True)
class _Part:
    """An expression; one with a pole that nothing has cancelled yet is above / below."""

    whole: Expression
    above: Expression
    below: Expression = ONE

    @property
    def has_pole(self) -> bool:
        return self.below is not ONE


def join_poles(expression: Expression) -> Expression:
    """The same function wherever the expression is defined; where its poles cancel, one quotient.

    >>> from weightwright.expressions import parse, to_text
    >>> to_text(join_poles(parse("1/x - 1/sin(x)")))
    '(sin(x) - x)/(x*sin(x))'
    >>> to_text(join_poles(parse("sin(x)*x**-1 + 1/(1 + x**2)")))
    'sin(x)/x + 1/(1 + x**2)'
    """
    return fold(expression, lambda leaf: _Part(leaf, leaf), _join).whole


def _join(op: str, args: Sequence[_Part]) -> _Part:
    whole: Expression = Apply(op, tuple(arg.whole for arg in args))
    fraction = _fraction(op, args)
    if fraction is None:
        return _Part(whole, whole)
    above, below = fraction
    if op == "div" and not any(arg.has_pole for arg in args):
        above, below = args[0].whole, args[1].whole  # as it was written
    if zeros_of_quotient(above, below):
        quotient = Apply("div", (above, below))
        return _Part(quotient, quotient)
    return _Part(whole, above, below) if has_zero(below) else _Part(whole, whole)


def _fraction(op: str, args: Sequence[_Part]) -> tuple[Expression, Expression] | None:
    """The whole as above / below, where it may have a pole."""
    if op == "div":
        a, b = args
        return times(a.above, b.below), times(a.below, b.above)
    if op == "pow":
        return _power(args[0], args[1].whole)
    if not any(arg.has_pole for arg in args):
        return None
    if op == "neg":
        return negative(args[0].above), args[0].below
    if op == "mul":
        a, b = args
        return times(a.above, b.above), times(a.below, b.below)
    if op in ("add", "sub"):
        return _sum(plus if op == "add" else minus, *args)
    return None


def _power(base: _Part, exponent: Expression) -> tuple[Expression, Expression] | None:
    negated = isinstance(exponent, Apply) and exponent.op == "neg"
    size = exponent.args[0] if isinstance(exponent, Apply) and negated else exponent
    if not isinstance(size, Number) or size.value.denominator != 1:
        return None
    n = -size.value if negated else size.value
    if n >= 0 and not base.has_pole:
        return None
    above, below = (base.above, base.below) if n > 0 else (base.below, base.above)
    return _raised(above, abs(n)), _raised(below, abs(n))


def _raised(part: Expression, n: Fraction) -> Expression:
    return part if isinstance(part, Number) and part == ONE else power(part, Number(n))


def _sum(make: Callable[[Expression, Expression], Expression], a: _Part, b: _Part) -> tuple[Expression, Expression]:
    if a.below is b.below:
        return make(a.above, b.above), a.below
    return make(times(a.above, b.below), times(b.above, a.below)), times(a.below, b.below)
