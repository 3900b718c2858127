"""The prover's Taylor coefficients: an expression's jet F_0, ..., F_K on intervals.

On a point they are the function's Taylor coefficients there; on an interval they enclose the
coefficients at every point of it, which bounds the remainder. A kink inside the interval leaves
F_0 and F_1 (slopes of both sides) and nothing beyond.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from weightwright.enclosures.intervals import intervals as iv
from weightwright.enclosures.intervals.intervals import Interval
from weightwright.enclosures.intervals.removable import along, quotient_jet
from weightwright.expressions import Expression, Number, Variable, fold
from weightwright.expressions.quotients import Quotient, take_out_quotients
from weightwright.numbers import Floats

Jet = list[Interval]


def jet(expression: Expression, at: Interval, order: int) -> Jet:
    """Coefficients 0..order of the expression in its one variable, at the points or boxes `at`."""
    return _jet(expression, lambda name: (at, iv.ONE), order)


def jet_along(expression: Expression, at: Mapping[str, Interval], step: Mapping[str, Interval], order: int) -> Jet:
    """Coefficients 0..order in tau of the expression at at + tau step, variable by variable.

    Where the step is a box, every coefficient holds those of all directions in it.
    """
    return _jet(expression, lambda name: (at[name], step[name]), order)


def _jet(expression: Expression, places: Callable[[str], tuple[Interval, Interval]], order: int) -> Jet:
    """places: where every variable is, and its step."""
    taken = take_out_quotients(expression)

    def leaf(node: Number | Variable) -> Jet:
        if isinstance(node, Number):
            return constant(Interval.rational(node.value), order)
        if node.name in taken.quotients:
            quotient = taken.quotients[node.name]
            at, step = places(quotient.variable)
            return along(jet_of_quotient(quotient, at, order), step)
        return line(*places(node.name), order)

    with np.errstate(all="ignore"):
        return fold(taken.rest, leaf, lambda op, args: apply(op, args, order))


def jet_of_quotient(quotient: Quotient, at: Interval, order: int) -> Jet:
    """The jet of one that is 0 / 0 at some point, in its own variable."""

    def parts(where: Interval, upto: int) -> tuple[Jet, Jet]:
        return jet(quotient.numerator, where, upto), jet(quotient.denominator, where, upto)

    with np.errstate(all="ignore"):
        return quotient_jet(quotient.zeros, parts, div, at, order)


def line(start: Interval, step: Interval, order: int) -> Jet:
    """The jet of start + tau step."""
    return [start, step, *[iv.ZERO] * (order - 1)][: order + 1]


def values(expression: Expression, at: Floats) -> Floats:
    """Plain numbers, for fitting and plotting: the middle of a narrow enclosure."""
    enclosed = jet(expression, Interval.exact(at), 0)[0]
    with np.errstate(all="ignore"):
        return np.broadcast_to(enclosed.middle(), np.shape(at)).copy()


def values_at(expression: Expression, names: Sequence[str], at: Floats) -> Floats:
    """The same for several variables, at points of shape (points, variables)."""
    place = {name: Interval.exact(at[:, i]) for i, name in enumerate(names)}
    enclosed = jet_along(expression, place, dict.fromkeys(names, iv.ZERO), 0)[0]
    with np.errstate(all="ignore"):
        return np.broadcast_to(enclosed.middle(), len(at)).copy()


def constant(value: Interval, order: int) -> Jet:
    return [value, *[iv.ZERO] * order]


def apply(op: str, args: Sequence[Jet], order: int) -> Jet:
    """One operation on jets."""
    if op in _SIMPLE:
        return _SIMPLE[op](*args)
    if op == "pi":
        return constant(iv.PI, order)
    if op == "e":
        return constant(iv.EULER, order)
    return _power(args[0], args[1])


def add(a: Jet, b: Jet) -> Jet:
    return [x + y for x, y in zip(a, b, strict=True)]


def sub(a: Jet, b: Jet) -> Jet:
    return [x - y for x, y in zip(a, b, strict=True)]


def neg(a: Jet) -> Jet:
    return [-x for x in a]


def scale(factor: float, a: Jet) -> Jet:
    return [Interval.exact(factor) * x for x in a]


def _convolve(a: Sequence[Interval], b: Sequence[Interval]) -> Interval:
    total = iv.ZERO
    for x, y in zip(a, reversed(b), strict=True):
        total = total + x * y
    return total


def mul(a: Jet, b: Jet) -> Jet:
    return [_convolve(a[: k + 1], b[: k + 1]) for k in range(len(a))]


def _square(a: Jet) -> Jet:
    size = a[0].absolute()
    return [size * size, *mul(a, a)[1:]]


def div(a: Jet, b: Jet) -> Jet:
    out: Jet = []
    for k in range(len(a)):
        known = _convolve(out, b[1 : k + 1]) if k else iv.ZERO
        out.append((a[k] - known) / b[0])
    return out


def sqrt(a: Jet) -> Jet:
    out = [iv.sqrt(a[0])]
    for k in range(1, len(a)):
        known = _convolve(out[1:], out[1:]) if k > 1 else iv.ZERO
        out.append((a[k] - known) / (Interval.exact(2.0) * out[0]))
    return out


def _integral(start: Interval, slope_so_far: Callable[[Jet], Interval], a: Jet) -> Jet:
    """The jet of y with y' = g a': y_k = (1/k) sum of i a_i g_{k-i}; g may depend on y so far."""
    out, slopes = [start], []
    for k in range(1, len(a)):
        slopes.append(slope_so_far(out))
        total = iv.ZERO
        for i in range(1, k + 1):
            total = total + Interval.exact(float(i)) * a[i] * slopes[k - i]
        out.append(total / Interval.exact(float(k)))
    return out


def _known_slope(start: Interval, slope: Jet, a: Jet) -> Jet:
    return _integral(start, lambda out: slope[len(out) - 1], a)


def exp(a: Jet) -> Jet:
    return _integral(iv.exp(a[0]), lambda out: out[-1], a)


def log(a: Jet) -> Jet:
    return _known_slope(iv.log(a[0]), div(constant(iv.ONE, len(a) - 1), a), a)


def _sin_cos(a: Jet) -> tuple[Jet, Jet]:
    sines, cosines = [iv.sin(a[0])], [iv.cos(a[0])]
    for k in range(1, len(a)):
        s = c = iv.ZERO
        for i in range(1, k + 1):
            weight = Interval.exact(float(i)) * a[i]
            s, c = s + weight * cosines[k - i], c - weight * sines[k - i]
        sines.append(s / Interval.exact(float(k)))
        cosines.append(c / Interval.exact(float(k)))
    return sines, cosines


def tan(a: Jet) -> Jet:
    return _integral(iv.tan(a[0]), lambda y: (iv.ONE if len(y) == 1 else iv.ZERO) + _convolve(y, y), a)


def tanh(a: Jet) -> Jet:
    return _integral(iv.tanh(a[0]), lambda y: (iv.ONE if len(y) == 1 else iv.ZERO) - _convolve(y, y), a)


def sigmoid(a: Jet) -> Jet:
    return _integral(iv.sigmoid(a[0]), lambda y: y[-1] - _convolve(y, y), a)


def atan(a: Jet) -> Jet:
    one = constant(iv.ONE, len(a) - 1)
    return _known_slope(iv.atan(a[0]), div(one, add(one, _square(a))), a)


def softplus(a: Jet) -> Jet:
    return _known_slope(iv.softplus(a[0]), sigmoid(a), a)


def erf(a: Jet) -> Jet:
    peak = Interval.exact(2.0) / iv.sqrt(iv.PI)
    return _known_slope(iv.erf(a[0]), [peak * x for x in exp(neg(_square(a)))], a)


def gelu(a: Jet) -> Jet:
    root = iv.ONE / iv.sqrt(Interval.exact(2.0))
    half = scale(0.5, erf([root * x for x in a]))
    return mul(a, [Interval.exact(0.5) + half[0], *half[1:]])


def silu(a: Jet) -> Jet:
    return mul(a, sigmoid(a))


def maximum(a: Jet, b: Jet) -> Jet:
    """One of the two where they are apart; where they may cross, values and slopes of both."""
    a_above, b_above = a[0].lo > b[0].hi, b[0].lo > a[0].hi  # at a tie either could be the function nearby
    top = Interval(np.maximum(a[0].lo, b[0].lo), np.maximum(a[0].hi, b[0].hi))
    crossing = [top, *(x.hull(y) for x, y in zip(a[1:2], b[1:2], strict=True)), *[iv.UNKNOWN] * (len(a) - 2)]
    return [x.where(a_above, y.where(b_above, c)) for x, y, c in zip(a, b, crossing, strict=False)][: len(a)]


def minimum(a: Jet, b: Jet) -> Jet:
    return neg(maximum(neg(a), neg(b)))


def absolute(a: Jet) -> Jet:
    both = maximum(a, neg(a))
    return [a[0].absolute(), *both[1:]]


def relu(a: Jet) -> Jet:
    return maximum(a, constant(iv.ZERO, len(a) - 1))


def sign(a: Jet) -> Jet:
    """1 or -1 where the sign is known; where it is not, a value between, and no slope."""
    above, below = a[0].lo > 0, a[0].hi < 0
    either = [Interval.exact(0.0).hull(iv.ONE).hull(-iv.ONE), *[iv.UNKNOWN] * (len(a) - 1)]
    return [
        Interval.exact(1.0 - float(i > 0)).where(above, Interval.exact(float(i > 0) - 1.0).where(below, unknown))
        for i, unknown in enumerate(either)
    ]


def step(a: Jet) -> Jet:
    jump = scale(0.5, sign(a))
    return [Interval.exact(0.5) + jump[0], *jump[1:]]


def _power(base: Jet, exponent: Jet) -> Jet:
    """Whole constants by multiplication; anything else as exp(exponent log(base)), base > 0."""
    value = exponent[0]
    varies = any(np.any(x.lo != 0) or np.any(x.hi != 0) for x in exponent[1:])
    whole = np.ndim(value.lo) == 0 and value.lo == value.hi and float(value.lo).is_integer() and abs(value.lo) <= 1024
    if varies or not whole:
        power = exp(mul(exponent, log(base)))
        return power if varies or not np.all(value.lo > 0) else [_from_zero(power[0], base[0], value), *power[1:]]
    n = int(value.lo)
    power = _whole_power(base, abs(n))
    return power if n >= 0 else div(constant(iv.ONE, len(base) - 1), power)


def _from_zero(power: Interval, base: Interval, exponent: Interval) -> Interval:
    """A power with a positive exponent is 0 at 0, where the logarithm is undefined; its slopes may not be bounded."""
    largest = iv.exp(exponent * iv.log(Interval.exact(np.maximum(base.hi, iv.TINY)))).hi
    return power.where(base.lo != 0, Interval(np.zeros_like(base.lo), largest))


def _whole_power(base: Jet, n: int) -> Jet:
    if n == 0:  # 1 where the base is defined at all
        defined = np.isfinite(base[0].lo) & np.isfinite(base[0].hi)
        return constant(Interval.exact(np.where(defined, 1.0, np.nan)), len(base) - 1)
    if n % 2:
        return base if n == 1 else mul(base, _whole_power(base, n - 1))
    return _square(_whole_power(base, n // 2))


_SIMPLE: dict[str, Callable[..., Jet]] = {
    "add": add,
    "sub": sub,
    "mul": mul,
    "div": div,
    "neg": neg,
    "exp": exp,
    "log": log,
    "sqrt": sqrt,
    "sin": lambda a: _sin_cos(a)[0],
    "cos": lambda a: _sin_cos(a)[1],
    "tan": tan,
    "atan": atan,
    "tanh": tanh,
    "sigmoid": sigmoid,
    "softplus": softplus,
    "gelu": gelu,
    "silu": silu,
    "erf": erf,
    "abs": absolute,
    "relu": relu,
    "sign": sign,
    "step": step,
    "max": maximum,
    "min": minimum,
    "clip": lambda a, lo, hi: minimum(maximum(a, lo), hi),
}
