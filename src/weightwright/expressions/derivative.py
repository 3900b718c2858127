"""Derivatives of expressions, as expressions. Constants are folded, and what is 0 or 1 times something goes away.

At a kink the derivative is a combination of `step` and `sign`, which is right on both sides of it; a jump's own
derivative counts as 0, so the caller has to know that the function is continuous.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from weightwright.expressions.nodes import Apply, Expression, Number, Variable, fold

ZERO, ONE, TWO = (Number(Fraction(i)) for i in range(3))
#: An expression and its derivative.
Pair = tuple[Expression, Expression]


def differentiate(expression: Expression, name: str = "x") -> Expression:
    """The derivative in this variable; other variables are constants.

    >>> from weightwright.expressions import parse, to_text
    >>> to_text(differentiate(parse("x**2/2 + log(1 + exp(-x))")))
    'x - exp(-x)/(1 + exp(-x))'
    >>> to_text(differentiate(parse("relu(x)**2")))
    '2*relu(x)'
    """

    def leaf(node: Number | Variable) -> Pair:
        return node, (ONE if isinstance(node, Variable) and node.name == name else ZERO)

    def node(op: str, args: Sequence[Pair]) -> Pair:
        whole = Apply(op, tuple(arg for arg, _ in args))
        if all(slope == ZERO for _, slope in args):
            return whole, ZERO
        return whole, _RULES[op](whole, *args)

    return fold(expression, leaf, node)[1]


def plus(a: Expression, b: Expression) -> Expression:
    if isinstance(a, Number) and isinstance(b, Number):
        return Number(a.value + b.value)
    if ZERO in (a, b):
        return b if a == ZERO else a
    return _collected(a, b, 1) or (minus(a, negative(b)) if _is_negative(b) else Apply("add", (a, b)))


def minus(a: Expression, b: Expression) -> Expression:
    if isinstance(a, Number) and isinstance(b, Number):
        return Number(a.value - b.value)
    if b == ZERO:
        return a
    if a == ZERO:
        return negative(b)
    return _collected(a, b, -1) or (plus(a, negative(b)) if _is_negative(b) else Apply("sub", (a, b)))


def _collected(a: Expression, b: Expression, sign: int) -> Expression | None:
    """a + sign b as one multiple, if both are multiples of the same."""
    sign_a, number_a, rest_a = _factors(a)
    sign_b, number_b, rest_b = _factors(b)
    alike = rest_a is rest_b or (isinstance(rest_a, Variable) and rest_a == rest_b)
    if not alike or rest_a == ONE:
        return None
    return times(Number(sign_a * number_a + sign * sign_b * number_b), rest_a)


def negative(a: Expression) -> Expression:
    if isinstance(a, Number):
        return Number(-a.value)
    return _inner(a) if _is(a, "neg") else Apply("neg", (a,))


def times(a: Expression, b: Expression) -> Expression:
    """The product, with its number in front and its sign before that."""
    if ZERO in (a, b):
        return ZERO
    sign_a, number_a, rest_a = _factors(a)
    sign_b, number_b, rest_b = _factors(b)
    number, rest = number_a * number_b, _without_ones(rest_a, rest_b)
    if rest == ONE:
        product: Expression = Number(number)
    else:
        product = rest if number == 1 else Apply("mul", (Number(number), rest))
    return product if sign_a == sign_b else negative(product)


def over(a: Expression, b: Expression) -> Expression:
    if a == ZERO or b == ONE:
        return a
    sign_a, number_a, rest_a = _factors(a)
    sign_b, number_b, rest_b = _factors(b)
    if number_b == 0 or not is_decimal(number_a / number_b):
        return Apply("div", (a, b))
    number = Number(sign_a * sign_b * number_a / number_b)
    return times(number, rest_a if rest_b == ONE else _quotient(rest_a, rest_b))


def _quotient(a: Expression, b: Expression) -> Expression:
    """a / b; (exp(t) - exp(-t)) / (exp(t) + exp(-t)) as tanh(t), which does not overflow."""
    if isinstance(a, Apply) and isinstance(b, Apply) and (a.op, b.op) == ("sub", "add") and a.args == b.args:
        up, down = a.args
        if _is(up, "exp") and _is(down, "exp") and _inner(down) == negative(_inner(up)):
            return Apply("tanh", (_inner(up),))
    return Apply("div", (a, b))


def power(a: Expression, exponent: Expression) -> Expression:
    if exponent == ZERO:
        return ONE
    return a if exponent == ONE else Apply("pow", (a, exponent))


def is_decimal(value: Fraction) -> bool:
    """Whether the fraction has a finite decimal, so that it can be written down."""
    rest = value.denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    return rest == 1


def _is(a: Expression, op: str) -> bool:
    return isinstance(a, Apply) and a.op == op


def _is_negative(a: Expression) -> bool:
    """Written with a minus in front."""
    return a.value < 0 if isinstance(a, Number) else _is(a, "neg")


def _inner(a: Expression) -> Expression:
    assert isinstance(a, Apply)
    return a.args[0]


def _factors(a: Expression) -> tuple[int, Fraction, Expression]:
    """a = sign * number * rest, with a number that is not negative."""
    sign = 1
    while _is(a, "neg"):
        sign, a = -sign, _inner(a)
    if isinstance(a, Number):
        return (sign if a.value >= 0 else -sign), abs(a.value), ONE
    if isinstance(a, Apply) and a.op == "mul" and isinstance(a.args[0], Number):
        value = a.args[0].value
        return (sign if value >= 0 else -sign), abs(value), a.args[1]
    if isinstance(a, Apply) and a.op == "div" and isinstance(a.args[1], Number):
        value = a.args[1].value
        if value != 0 and is_decimal(1 / value):
            return (sign if value > 0 else -sign), abs(1 / value), a.args[0]
    return sign, Fraction(1), a


def _without_ones(a: Expression, b: Expression) -> Expression:
    """The product of two factors, shorter where one of them is 1 or switches the other on."""
    if ONE in (a, b):
        return b if a == ONE else a
    for switch, factor in ((a, b), (b, a)):
        if not isinstance(factor, Apply) or not isinstance(switch, Apply) or not _same(factor.args, switch.args):
            continue
        if switch.op == "step" and factor.op in ("relu", "step"):
            return factor
        if switch.op == "sign" and factor.op == "abs":
            return factor.args[0]
    return Apply("mul", (a, b))


def _same(a: tuple[Expression, ...], b: tuple[Expression, ...]) -> bool:
    """The very same objects. (Comparing what they hold would recurse as deep as the expressions are.)"""
    return len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True))


def _of(op: str, *args: Expression) -> Expression:
    return Apply(op, args)


def _power_rule(whole: Expression, base: Pair, exponent: Pair) -> Expression:
    (a, da), (b, db) = base, exponent
    if db == ZERO:
        return times(times(b, power(a, minus(b, ONE))), da)
    if da == ZERO:
        return times(times(whole, _of("log", a)), db)
    return times(whole, plus(times(db, _of("log", a)), over(times(b, da), a)))


def _gelu_rule(whole: Expression, inner: Pair) -> Expression:
    a, da = inner
    normal = over(_of("exp", negative(over(power(a, TWO), TWO))), _of("sqrt", _of("mul", TWO, _of("pi"))))
    below = over(plus(ONE, _of("erf", over(a, _of("sqrt", TWO)))), TWO)
    return times(plus(below, times(a, normal)), da)


def _silu_rule(whole: Expression, inner: Pair) -> Expression:
    a, da = inner
    s = _of("sigmoid", a)
    return times(plus(s, times(whole, minus(ONE, s))), da)


def _larger_rule(a: Pair, b: Pair) -> Expression:
    """Of max(a, b): a's slope where a is above, b's where b is."""
    gap = minus(a[0], b[0])
    return plus(times(_of("step", gap), a[1]), times(_of("step", negative(gap)), b[1]))


def _clip_rule(whole: Expression, inner: Pair, lo: Pair, hi: Pair) -> Expression:
    a, da = inner
    above, below = _of("step", minus(a, lo[0])), _of("step", minus(hi[0], a))
    inside = times(times(above, below), da)
    outside = plus(times(_of("step", minus(lo[0], a)), lo[1]), times(_of("step", minus(a, hi[0])), hi[1]))
    return plus(inside, outside)


def _chain(outer: Callable[[Expression, Expression], Expression]) -> Callable[..., Expression]:
    """The rule of a function of one argument, from its slope (given the whole and the argument)."""
    return lambda whole, inner: times(outer(whole, inner[0]), inner[1])


_RULES: dict[str, Callable[..., Expression]] = {
    "add": lambda whole, a, b: plus(a[1], b[1]),
    "sub": lambda whole, a, b: minus(a[1], b[1]),
    "mul": lambda whole, a, b: plus(times(a[1], b[0]), times(a[0], b[1])),
    "div": lambda whole, a, b: minus(over(a[1], b[0]), over(times(a[0], b[1]), power(b[0], TWO))),
    "pow": _power_rule,
    "neg": lambda whole, a: negative(a[1]),
    "exp": _chain(lambda whole, a: whole),
    "log": lambda whole, a: over(a[1], a[0]),
    "sqrt": lambda whole, a: over(a[1], times(TWO, whole)),
    "sin": _chain(lambda whole, a: _of("cos", a)),
    "cos": _chain(lambda whole, a: negative(_of("sin", a))),
    "tan": _chain(lambda whole, a: plus(ONE, power(whole, TWO))),
    "atan": lambda whole, a: over(a[1], plus(ONE, power(a[0], TWO))),
    "tanh": _chain(lambda whole, a: minus(ONE, power(whole, TWO))),
    "sigmoid": _chain(lambda whole, a: times(whole, minus(ONE, whole))),
    "softplus": _chain(lambda whole, a: _of("sigmoid", a)),
    "gelu": _gelu_rule,
    "silu": _silu_rule,
    "erf": _chain(lambda whole, a: over(times(TWO, _of("exp", negative(power(a, TWO)))), _of("sqrt", _of("pi")))),
    "abs": _chain(lambda whole, a: _of("sign", a)),
    "relu": _chain(lambda whole, a: _of("step", a)),
    "sign": lambda whole, a: ZERO,
    "step": lambda whole, a: ZERO,
    "max": lambda whole, a, b: _larger_rule(a, b),
    "min": lambda whole, a, b: _larger_rule((negative(a[0]), a[1]), (negative(b[0]), b[1])),
    "clip": _clip_rule,
}
