"""The checker's meaning of an expression: Taylor series with ball coefficients (python-flint)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache, reduce
from math import comb
from threading import RLock
from typing import Any

from flint import arb, arb_series, ctx, fmpq, fmpq_series

from weightwright.expressions import Expression, Number, Variable, fold
from weightwright.expressions.quotients import KEPT, Quotient, Zero, take_out_quotients

PRECISION = 128  # bits
ORDER = 12  # the highest Taylor coefficient used
#: Orders beyond those asked for, near a zero of both parts of a quotient: 2^-26 from it, where a third of the bits are
#: lost in the quotient itself, the remainder is some 2^-100.
MORE_ORDERS = 4
#: Bits of a coefficient of a rational series; those with more are taken as balls, so that powers of powers cost little.
MOST_BITS = 4096


#: flint's precision and series length belong to the whole process, so one thread at a time may set them.
_FLINT = RLock()


@contextmanager
def working_precision(bits: int = PRECISION) -> Iterator[None]:
    """The checker's precision, for one thread at a time; the caller's own settings come back afterwards."""
    with _FLINT:
        precision, cap = ctx.prec, ctx.cap
        ctx.prec = bits
        try:
            yield
        finally:
            ctx.prec, ctx.cap = precision, cap


def largest(numbers: Iterable[arb]) -> arb:
    """An upper bound on all of them. (Comparing float approximations could pick the wrong one.)"""
    return reduce(arb.max, numbers).upper()


def smallest(numbers: Iterable[arb]) -> arb:
    """A lower bound on all of them."""
    return reduce(arb.min, numbers).lower()


def series(expression: Expression, at: arb, order: int) -> list[arb]:
    """Coefficients 0..order of the expression at a point, or enclosures of them over a ball.

    A coefficient is NaN where nothing is known: outside the function's domain, or beyond a kink.
    """

    return _series(expression, lambda name: (at, arb(1)), order)


def series_along(expression: Expression, lines: Mapping[str, tuple[arb, arb]], order: int) -> list[arb]:
    """The same in tau, where every variable moves along its line start + tau slope.

    Where slopes are balls, every coefficient holds those of all directions in them.
    """
    return _series(expression, lambda name: lines[name], order)


def _series(expression: Expression, line: Callable[[str], tuple[arb, arb]], order: int) -> list[arb]:
    taken = take_out_quotients(expression)

    def leaf(node: Number | Variable) -> arb_series:
        if isinstance(node, Number):
            return arb_series([arb(fmpq(node.value.numerator, node.value.denominator))])
        if node.name not in taken.quotients:
            return arb_series(list(line(node.name)))
        at, slope = line(taken.quotients[node.name].variable)
        found = quotient_series(taken.quotients[node.name], at, order)
        ctx.cap = order + 1
        return arb_series([x * power for x, power in zip(found, _powers(slope, order), strict=True)])

    ctx.cap = order + 1
    result = fold(taken.rest, leaf, apply)
    return [result[i] if i < result.prec else arb.nan() for i in range(order + 1)]


def quotient_series(quotient: Quotient, at: arb, order: int) -> list[arb]:
    """Coefficients 0..order of a quotient that is 0 / 0 somewhere, in its own variable: the narrowest enclosures found.

    f(x) / (x - c)^m has as its k-th coefficient at x a mean of those of number k + m of f between c and x, if the first
    m of f at c are 0. Those of the quotient are so enclosed on a ball that holds c; near c by Taylor's theorem at c.
    """
    best = _divided(quotient, at, order, 0)
    for zero in _proven_zeros(quotient):
        c, last = arb(fmpq(zero.at.numerator, zero.at.denominator)), order + MORE_ORDERS
        at_c, between = (_divided(quotient, x, last, zero.order) for x in (c, at.union(c)))
        powers = _powers(at - c, last)
        for k in range(order + 1):
            near = comb(last, k) * between[last] * powers[last - k]
            near += sum((comb(j, k) * at_c[j] * powers[j - k] for j in range(k, last)), arb(0))
            best[k] = min((best[k], between[k], near), key=_width)
    return best


def _divided(quotient: Quotient, at: arb, order: int, shift: int) -> list[arb]:
    """The quotient of the two series without their first coefficients."""
    parts = [series(part, at, order + shift)[shift:] for part in (quotient.numerator, quotient.denominator)]
    ctx.cap = order + 1
    return _coefficients(apply("div", [arb_series(part) for part in parts]))


def _powers(x: arb, last: int) -> list[arb]:
    """x^0, ..., x^last, by products: flint's own power of a ball around 0 is NaN."""
    powers = [arb(1)]
    for _ in range(last):
        powers.append(powers[-1] * x)
    return powers


def _width(x: arb) -> float:
    """For choosing among enclosures that all hold."""
    return float(x.rad()) if x.is_finite() else math.inf


@lru_cache(maxsize=KEPT)
def _proven_zeros(quotient: Quotient) -> tuple[Zero, ...]:
    """Those of the proposed zeros where the first coefficients of both parts are exactly 0."""
    parts = quotient.numerator, quotient.denominator
    return tuple(z for z in quotient.zeros if all(_vanishes(part, z) for part in parts))


def _vanishes(expression: Expression, zero: Zero) -> bool:
    """Whether the coefficients below the zero's order are exactly 0: in rational series as far as these go, in balls
    without a radius elsewhere."""
    taken, c = take_out_quotients(expression), fmpq(zero.at.numerator, zero.at.denominator)

    def leaf(node: Number | Variable) -> fmpq_series | arb_series:
        if isinstance(node, Number):
            return fmpq_series([fmpq(node.value.numerator, node.value.denominator)])
        if node.name not in taken.quotients:
            return fmpq_series([c, 1])
        found = quotient_series(taken.quotients[node.name], arb(c), zero.order)
        ctx.cap = zero.order + 1
        return arb_series(found)

    ctx.cap = zero.order + 1
    result = fold(expression if not taken.quotients else taken.rest, leaf, _exactly)
    return all(x == 0 for x in _coefficients(result)[: zero.order])


def _exactly(op: str, args: Sequence[fmpq_series | arb_series]) -> fmpq_series | arb_series:
    """Rational where it can be, with few bits."""
    if op in _RATIONAL and all(isinstance(arg, fmpq_series) for arg in args):
        try:
            result = _RATIONAL[op](*args)
            if all(x.height_bits() <= MOST_BITS for x in result.coeffs()):
                return result
        except (ValueError, ZeroDivisionError):  # flint: exp(1 + x) is no rational series
            pass
    return apply(op, [arb_series(_coefficients(arg)) for arg in args])


def _rational_quotient(a: fmpq_series, b: fmpq_series) -> fmpq_series:
    """Not where the denominator is 0: flint would take the limit by itself."""
    if b[0] == 0:
        raise ZeroDivisionError
    return a / b


def _rational_power(base: fmpq_series, exponent: fmpq_series) -> fmpq_series:
    n = exponent[0]
    if exponent.length() > 1 or n.q != 1 or not 0 <= n <= 64:
        raise ValueError
    return base ** int(n.p)


def apply(op: str, args: Sequence[arb_series]) -> arb_series:
    """One operation on series of the length ctx.cap."""
    if any(not arg[0].is_finite() for arg in args):  # 0 * log(-1) is not 0
        return _unknown()
    if op == "div" and args[1][0].contains(arb(0)):
        return _unknown()
    try:
        return _RULES[op](*args)
    except (ValueError, ZeroDivisionError):  # flint: a denominator that may be zero
        return _unknown()


def _unknown() -> arb_series:
    return arb_series([arb.nan()] * ctx.cap)


def _power(base: arb_series, exponent: arb_series) -> arb_series:
    e = exponent[0]
    if exponent.length() <= 1 and e.is_exact() and e.is_integer() and abs(e) <= 1024:
        n = round(float(e))
        power = _whole_power(base, abs(n))
        return power if n >= 0 else 1 / power
    return (exponent * base.log()).exp()


def _whole_power(base: arb_series, n: int) -> arb_series:
    if n == 0:
        return arb_series([1])
    half = _whole_power(base, n // 2)
    square = half * half
    if square[0].lower() < 0 and half.length():  # a ball around zero: its square is not negative
        square = arb_series([square[0].nonnegative_part(), *square.coeffs()[1:]])
    return square * base if n % 2 else square


def _maximum(a: arb_series, b: arb_series) -> arb_series:
    """One of the two where it is certainly above; else (also at an exact tie, where either could be the function
    nearby) the values and slopes of both, and nothing beyond."""
    if a[0] > b[0]:
        return a
    if a[0] < b[0]:
        return b
    return arb_series([a[0].max(b[0]), a[1].union(b[1]), *[arb.nan()] * ctx.cap])


def _absolute(a: arb_series) -> arb_series:
    result = _maximum(a, -a)
    return arb_series([result[0].nonnegative_part(), *result.coeffs()[1:]])


def _sign(a: arb_series) -> arb_series:
    """Known where 0 is certainly not in the ball; else any value between, and nothing beyond."""
    if a[0] > 0:
        return arb_series([1])
    if a[0] < 0:
        return arb_series([-1])
    return arb_series([arb(0, 1), *[arb.nan()] * ctx.cap])


def _tanh(a: arb_series) -> arb_series:
    """From y' = (1 - y^2) a': over a ball the quotient of exponentials would be far wider."""
    inner, y, slope = _coefficients(a), [a[0].tanh()], []
    for k in range(1, ctx.cap):
        square = sum((y[i] * y[k - 1 - i] for i in range(k)), arb(0))
        slope.append((1 if k == 1 else 0) - square)
        y.append(sum((i * inner[i] * slope[k - i] for i in range(1, k + 1)), arb(0)) / k)
    return arb_series(y)


def _coefficients(a: fmpq_series | arb_series) -> list[arb]:
    """All up to ctx.cap; NaN where the series itself is cut off before."""
    return [arb(a[i]) if i < a.prec else arb.nan() for i in range(ctx.cap)]


def _sigmoid(a: arb_series) -> arb_series:
    return (1 + _tanh(a / 2)) / 2


def _softplus(a: arb_series) -> arb_series:
    """From y' = sigmoid(a) a'."""
    inner, slope = _coefficients(a), _coefficients(_sigmoid(a))
    y = [(1 + a[0].exp()).log()]
    y += [sum((i * inner[i] * slope[k - i] for i in range(1, k + 1)), arb(0)) / k for k in range(1, ctx.cap)]
    return arb_series(y)


def _gelu(a: arb_series) -> arb_series:
    return a * (1 + (a / arb(2).sqrt()).erf()) / 2


_RULES: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "pow": _power,
    "neg": lambda a: -a,
    "pi": lambda: arb_series([arb.pi()]),
    "e": lambda: arb_series([arb.const_e()]),
    "exp": lambda a: a.exp(),
    "log": lambda a: a.log(),
    "sqrt": lambda a: a.sqrt(),
    "sin": lambda a: a.sin(),
    "cos": lambda a: a.cos(),
    "tan": lambda a: a.tan(),
    "atan": lambda a: a.atan(),
    "tanh": _tanh,
    "sigmoid": _sigmoid,
    "softplus": _softplus,
    "gelu": _gelu,
    "silu": lambda a: a * _sigmoid(a),
    "erf": lambda a: a.erf(),
    "abs": _absolute,
    "relu": lambda a: _maximum(a, arb_series([0])),
    "sign": _sign,
    "step": lambda a: (1 + _sign(a)) / 2,
    "max": _maximum,
    "min": lambda a, b: -_maximum(-a, -b),
    "clip": lambda a, lo, hi: -_maximum(-_maximum(a, lo), -hi),
}

#: Those of the rules that flint has for rational series, each where the result is one.
_RATIONAL: dict[str, Callable[..., fmpq_series]] = {
    **{op: _RULES[op] for op in ("add", "sub", "mul", "neg", "exp", "log", "sqrt", "sin", "cos", "tan", "atan")},
    "tanh": lambda a: a.tanh(),
    "div": _rational_quotient,
    "pow": _rational_power,
}
