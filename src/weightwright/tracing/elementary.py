"""The functions of one number that torch has a name for, as expressions."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from weightwright.claims.certificate import constant
from weightwright.errors import UnsupportedOperation
from weightwright.expressions import Apply, Expression, parse
from weightwright.expressions.nodes import soft_threshold, substitute
from weightwright.tracing.user_source import refuse

#: What the language calls by torch's name.
_SAME = (
    *("exp", "log", "sqrt", "sin", "cos", "tan", "atan", "tanh", "sigmoid", "erf", "abs", "relu", "silu", "neg"),
    "sign",
)
#: What the language can write. The key is torch's name.
_FORMULAS = {
    "positive": "x",
    "arctan": "atan(x)",
    "absolute": "abs(x)",
    "negative": "-x",
    "sgn": "sign(x)",
    "expit": "sigmoid(x)",
    "square": "x**2",
    "reciprocal": "1/x",
    "sinc": "sinc(x)",
    "rsqrt": "1/sqrt(x)",
    "log1p": "log1p(x)",
    "expm1": "expm1(x)",
    "log2": "log(x)/log(2)",
    "log10": "log(x)/log(10)",
    "exp2": "2**x",
    "sinh": "sinh(x)",
    "cosh": "cosh(x)",
    "asinh": "log(x + sqrt(x**2 + 1))",
    "atanh": "log((1 + x)/(1 - x))/2",
    "logit": "log(x/(1 - x))",
    "erfc": "1 - erf(x)",
    "ndtr": "(1 + erf(x/sqrt(2)))/2",
    "log_sigmoid": "-softplus(-x)",
    "tanhshrink": "x - tanh(x)",
    "softsign": "x/(1 + abs(x))",
    "relu6": "clip(x, 0, 6)",
    "hardsigmoid": "clip(x + 3, 0, 6)/6",
    "hardswish": "x*clip(x + 3, 0, 6)/6",
    "mish": "x*tanh(softplus(x))",
    "selu": "1.0507009873554804934193349852946*(relu(x) + 1.6732632423543772848170429916717*(exp(min(x, 0)) - 1))",
}


def number(value: Any, what: str) -> Expression:
    """A plain finite number, exactly."""
    if isinstance(value, builtins.int | builtins.float | Fraction) and not isinstance(value, builtins.bool):
        try:
            return constant(Fraction(value))
        except (ValueError, OverflowError):
            raise refuse(f"{what} is {value!r}, which is not finite", "use a finite number") from None
    raise refuse(f"{what} is {type(value).__name__}, not a number or the traced input", "use a plain number")


def _written(text: str, x: Expression, **numbers: Any) -> Expression:
    expression = parse(text, ("x", *numbers))
    for name, value in numbers.items():
        expression = substitute(expression, name, number(value, f"an argument ({name})"))
    return substitute(expression, "x", x)


def _same(name: str) -> Callable[[Expression], Expression]:
    return lambda input: Apply(name, (input,))


def _formula(text: str) -> Callable[[Expression], Expression]:
    return lambda input: _written(text, input)


def _gelu(input: Expression, approximate: str = "none") -> Expression:
    if approximate != "none":
        raise refuse(
            f"gelu with approximate={approximate!r} cannot be traced", "use the erf form, gelu(approximate='none')"
        )
    return Apply("gelu", (input,))


def _softplus(input: Expression, beta: float = 1, threshold: float = 20) -> Expression:
    """The smooth softplus log(1 + e^x). torch itself switches to x: `end_of_softplus` says from where on."""
    return Apply("softplus", (input,)) if beta == 1 else _written("softplus(b*x)/b", input, b=beta)


#: In units of beta x: from here on softplus and x are the same float64, since e^-36 / 36 is below 2^-53.
_SAME_FLOAT = 36.0


def end_of_softplus(beta: float = 1, threshold: float = 20) -> float:
    """torch's softplus(x) is x above this, which is a jump, of 2.1e-9 with its own threshold of 20."""
    if not beta > 0:
        raise refuse(f"softplus with beta={beta!r} cannot be traced", "use a beta above 0")
    return math.inf if threshold >= _SAME_FLOAT else threshold / beta


def beyond_softplus(end: float, highest: float, place: str) -> UnsupportedOperation:
    return UnsupportedOperation(
        f"softplus{place}: torch's softplus jumps to x itself above {end:g}, and its argument may reach {highest:g};"
        " write nn.functional.softplus(x, threshold=40), which is smooth, or take a smaller domain"
    )


def _softshrink(input: Expression, lambd: float = 0.5) -> Expression:
    return soft_threshold(input, number(lambd, "lambd"))


def _leaky_relu(input: Expression, negative_slope: float = 0.01) -> Expression:
    """x above 0, slope x below: slope x + (1 - slope) relu(x)."""
    slope = Fraction(negative_slope)
    return _written("a*x + b*relu(x)", input, a=slope, b=1 - slope)


def _elu(input: Expression, alpha: float = 1.0) -> Expression:
    return _written("relu(x) + a*(exp(min(x, 0)) - 1)", input, a=alpha)


def _celu(input: Expression, alpha: float = 1.0) -> Expression:
    return _written("relu(x) + a*(exp(min(x, 0)/a) - 1)", input, a=alpha)


def _hardtanh(input: Expression, min_val: float = -1.0, max_val: float = 1.0) -> Expression:
    return _written("clip(x, a, b)", input, a=min_val, b=max_val)


def clamped(input: Expression, low: Expression | None, high: Expression | None) -> Expression:
    if low is not None and high is not None:
        return Apply("clip", (input, low, high))
    if low is not None:
        return Apply("max", (input, low))
    if high is not None:
        return Apply("min", (input, high))
    raise refuse("clamp needs min or max", "write torch.clamp(x, min=...) or torch.clamp(x, max=...)")


#: By torch's name: the expression of the function, given that of its argument and torch's further arguments.
ELEMENTARY: dict[str, Callable[..., Expression]] = {
    **{name: _same(name) for name in _SAME},
    **{name: _formula(text) for name, text in _FORMULAS.items()},
    "gelu": _gelu,
    "softplus": _softplus,
    "softshrink": _softshrink,
    "leaky_relu": _leaky_relu,
    "elu": _elu,
    "celu": _celu,
    "hardtanh": _hardtanh,
}

_RENAMED = {
    "subtract": "sub",
    "multiply": "mul",
    "divide": "div",
    "true_divide": "div",
    "clip": "clamp",
    "logsigmoid": "log_sigmoid",
    "arctanh": "atanh",
    "arcsinh": "asinh",
    "float_power": "pow",
    "concat": "cat",
    "concatenate": "cat",
    "truediv": "div",
    "rtruediv": "rdiv",
}


def torch_name(function: Any) -> str:
    """One name for torch.f, torch.Tensor.f, torch.special.f and nn.functional.f, and for an operator.

    >>> import torch
    >>> torch_name(torch.special.expit), torch_name(torch.Tensor.__rsub__), torch_name(torch.divide)
    ('expit', 'rsub', 'div')
    """
    name = str(getattr(function, "__name__", function)) if not isinstance(function, str) else function
    name = name.removeprefix("special_")
    if name.startswith("__") and name.endswith("__"):
        name = name[2:-2]
    return _RENAMED.get(name, name)
