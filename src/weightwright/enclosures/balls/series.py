"""The checker's meaning of an expression: Taylor series with ball coefficients (python-flint)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from threading import RLock

from flint import arb, arb_series, ctx, fmpq

from weightwright.expressions import Expression, Number, Variable, fold

PRECISION = 128  # bits
ORDER = 12  # the highest Taylor coefficient used


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
    def leaf(node: Number | Variable) -> arb_series:
        if isinstance(node, Variable):
            return arb_series(list(line(node.name)))
        return arb_series([arb(fmpq(node.value.numerator, node.value.denominator))])

    ctx.cap = order + 1
    result = fold(expression, leaf, apply)
    return [result[i] if i < result.prec else arb.nan() for i in range(order + 1)]


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


def _coefficients(a: arb_series) -> list[arb]:
    """All up to ctx.cap; NaN where the series itself is cut off before."""
    return [a[i] if i < a.prec else arb.nan() for i in range(ctx.cap)]


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


_RULES: dict[str, Callable[..., arb_series]] = {
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
