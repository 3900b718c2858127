"""Numbers in balls for whole lists at once: formulas, products with matrices, and floats on the safe side."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from flint import arb, arb_mat, fmpq

from weightwright.expressions import Expression, Number, Variable, fold
from weightwright.network.layers import Floats

Balls = list[arb]


def evaluate(expression: Expression, at: Mapping[str, Balls]) -> Balls:
    """The expression at every place of the lists; NaN where it is undefined. Sharp for narrow balls only."""
    count = len(next(iter(at.values())))

    def leaf(node: Number | Variable) -> Balls:
        if isinstance(node, Variable):
            return at[node.name]
        return [arb(fmpq(node.value.numerator, node.value.denominator))] * count

    def node(op: str, args: Sequence[Balls]) -> Balls:
        rule = _RULES[op]
        return [rule(*items) for items in zip(*args, strict=True)] if args else [rule()] * count

    return fold(expression, leaf, node)


def balls(array: Floats | Iterable[float]) -> Balls:
    """Floats, exactly."""
    return [arb(float(x)) for x in array]


def matrix(array: Floats) -> arb_mat:
    return arb_mat(np.asarray(array, dtype=np.float64).tolist())


def product(A: arb_mat, x: Balls) -> Balls:
    """A x, entry by entry."""
    column: Balls = (A * arb_mat([[entry] for entry in x])).entries()
    return column


def norm(x: Iterable[arb]) -> arb:
    """The Euclidean length."""
    return sum((entry * entry for entry in x), arb(0)).nonnegative_part().sqrt()


def float_above(x: arb) -> float:
    """A float that is not below any number of the ball; infinity where nothing is known."""
    if x.is_nan():
        return math.inf
    top = x.upper()
    nearest = float(top)
    return nearest if math.isinf(nearest) or arb(nearest) >= top else math.nextafter(nearest, math.inf)


def float_below(x: arb) -> float:
    return -float_above(-x)


def _quotient(a: arb, b: arb) -> arb:
    return arb.nan() if b.contains(0) else a / b


def _sigmoid(a: arb) -> arb:
    return 1 / (1 + (-a).exp())


def _sign(a: arb) -> arb:
    """Any value between where the sign is not known."""
    if a > 0:
        return arb(1)
    if a < 0:
        return arb(-1)
    return arb.nan() if a.is_nan() else arb(0, 1)


_RULES: dict[str, Callable[..., arb]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": _quotient,
    "pow": lambda a, b: a**b,
    "neg": lambda a: -a,
    "pi": arb.pi,
    "e": arb.const_e,
    "exp": arb.exp,
    "log": arb.log,
    "sqrt": arb.sqrt,
    "sin": arb.sin,
    "cos": arb.cos,
    "tan": arb.tan,
    "atan": arb.atan,
    "tanh": arb.tanh,
    "sigmoid": _sigmoid,
    "softplus": lambda a: a.exp().log1p(),
    "gelu": lambda a: a * (1 + (a / arb(2).sqrt()).erf()) / 2,
    "silu": lambda a: a * _sigmoid(a),
    "erf": arb.erf,
    "abs": abs,
    "relu": lambda a: a.max(arb(0)),
    "sign": _sign,
    "step": lambda a: (1 + _sign(a)) / 2,
    "max": lambda a, b: a.max(b),
    "min": lambda a, b: a.min(b),
    "clip": lambda a, lo, hi: a.max(lo).min(hi),
}
