"""Exact values for tests: formulas evaluated with python-flint's own functions, point by point.

Written apart from the package's prover and checker, so that an error in their rules shows.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flint import arb, ctx, fmpq
from torch import tensor

import weightwright as ww
from weightwright.expressions import Variable, fold, parse

BITS = 200


def _half_erf(a: arb) -> arb:
    return a / 2 * (arb(1) + (a / arb(2).sqrt()).erf())


_MEANING: dict[str, Any] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "pow": lambda a, b: a ** int(float(b)) if b.is_integer() else (a.log() * b).exp(),
    "neg": lambda a: -a,
    "pi": arb.pi,
    "e": arb.const_e,
    "softplus": lambda a: a.exp().log1p(),
    "sigmoid": lambda a: ((a / 2).tanh() + 1) / 2,
    "silu": lambda a: a * ((a / 2).tanh() + 1) / 2,
    "gelu": _half_erf,
    "abs": lambda a: abs(a),
    "relu": lambda a: a.max(arb(0)),
    "sign": lambda a: arb(1) if a > 0 else arb(-1) if a < 0 else arb(0),
    "step": lambda a: arb(1) if a > 0 else arb(0) if a < 0 else arb(0.5),
    "max": lambda a, b: a.max(b),
    "min": lambda a, b: a.min(b),
    "clip": lambda a, lo, hi: a.max(lo).min(hi),
    **{name: getattr(arb, name) for name in ("exp", "log", "sqrt", "sin", "cos", "tan", "atan", "tanh", "erf")},
}


def exact(formula: Any, x: float | tuple[float, ...]) -> arb:
    """The formula at the float x, or at (x, y) or (x, y, z), within about 2^-190."""
    at = dict(zip("xyz", x if isinstance(x, tuple) else (x,), strict=False))
    expression = parse(formula, tuple(at)) if isinstance(formula, str) else formula

    def leaf(node: Any) -> arb:
        if isinstance(node, Variable):
            return arb(at[node.name] if node.name in at else at["x"])
        return arb(fmpq(node.value.numerator, node.value.denominator))

    before = ctx.prec
    ctx.prec = BITS
    try:
        return fold(expression, leaf, lambda op, args: _MEANING[op](*args))
    finally:
        ctx.prec = before


def errors(formula: str, inputs: Iterable[float | tuple[float, ...]], outputs: Iterable[float]) -> list[arb]:
    """|output - formula(input)|, each as a ball of negligible width."""
    expression = parse(formula, tuple("xyz"))
    before = ctx.prec
    ctx.prec = BITS
    try:
        return [abs(arb(y) - exact(expression, x)) for x, y in zip(inputs, outputs, strict=True)]
    finally:
        ctx.prec = before


def worst_error(net: ww.AttentionNetwork, seed: int, seconds: float = 0.05) -> tuple[float, arb]:
    """(input, error) of the largest error that was found, the error recomputed by the tests' own reference."""
    x = ww.search(net, seconds, seed).x
    y = net(tensor([[x]], dtype=net.dtype)).item()
    return x, errors(net.certificate.formula, [x], [y])[0]
