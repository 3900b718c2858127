"""A torch callable as an expression: it is called once with a symbol that records what is done to it."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import torch
from torch.nn import functional

from weightwright.certificates.claims import constant
from weightwright.errors import UnsupportedOperation
from weightwright.expressions import Apply, Expression, Variable
from weightwright.expressions.nodes import count_nodes, soft_threshold
from weightwright.expressions.parse import MAX_NODES

_INSTEAD = (
    "write it with + - * / **, or torch.exp, log, sqrt, sin, cos, tan, atan, tanh, sigmoid, erf, abs, relu, maximum,"
    " minimum, clamp, sign, nn.functional.softplus, gelu, silu, softshrink, leaky_relu, hardtanh"
)


def trace(function: Callable[..., Any], names: Sequence[str] = ("x",)) -> Expression:
    """The expression in these variables that a function of so many tensors computes elementwise."""
    result = function(*(Symbol(Variable(name)) for name in names))
    expression = _expression(result, "the returned value")
    nodes = count_nodes(expression)
    if nodes > MAX_NODES:
        raise UnsupportedOperation(
            f"the traced function has {nodes} operations written out; at most {MAX_NODES} are taken"
        )
    return expression


class Symbol:
    """Stands for the input tensor; every operation on it builds an expression."""

    def __init__(self, expression: Expression) -> None:
        self.expression = expression

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Symbol:
        handler = _TORCH.get(func)
        if handler is None:
            raise UnsupportedOperation(f"{getattr(func, '__name__', func)!r} cannot be traced; {_INSTEAD}")
        return Symbol(handler(*args, **(kwargs or {})))

    def __add__(self, other: Any) -> Symbol:
        return Symbol(_binary("add")(self, other))

    def __radd__(self, other: Any) -> Symbol:
        return Symbol(_binary("add")(other, self))

    def __sub__(self, other: Any) -> Symbol:
        return Symbol(_subtract(self, other))

    def __rsub__(self, other: Any) -> Symbol:
        return Symbol(_subtract(other, self))

    def __mul__(self, other: Any) -> Symbol:
        return Symbol(_binary("mul")(self, other))

    def __rmul__(self, other: Any) -> Symbol:
        return Symbol(_binary("mul")(other, self))

    def __truediv__(self, other: Any) -> Symbol:
        return Symbol(_binary("div")(self, other))

    def __rtruediv__(self, other: Any) -> Symbol:
        return Symbol(_binary("div")(other, self))

    def __pow__(self, other: Any) -> Symbol:
        return Symbol(_binary("pow")(self, other))

    def __rpow__(self, other: Any) -> Symbol:
        return Symbol(_binary("pow")(other, self))

    def __neg__(self) -> Symbol:
        return Symbol(_unary("neg")(self))

    def __abs__(self) -> Symbol:
        return Symbol(_unary("abs")(self))

    def __bool__(self) -> bool:
        raise UnsupportedOperation(
            "the function decides by the value of its input (an if, a while, a comparison); use torch.maximum,"
            " minimum, clamp or relu instead"
        )

    def _compared(self, other: Any) -> bool:
        raise UnsupportedOperation(
            "a comparison cannot be traced; use torch.maximum, torch.minimum, torch.clamp or relu instead"
        )

    __lt__ = __le__ = __gt__ = __ge__ = _compared
    __eq__ = __ne__ = _compared
    __hash__ = None  # type: ignore[assignment]

    def __float__(self) -> float:
        raise UnsupportedOperation(f"a plain number was asked for (math.sin and the like do that); {_INSTEAD}")

    __int__ = __index__ = __float__

    def __getattr__(self, name: str) -> Callable[..., Symbol]:
        method = getattr(torch.Tensor, name, None)
        if method is None or name.startswith("__"):
            raise AttributeError(name)
        if method not in _TORCH:
            raise UnsupportedOperation(f".{name} cannot be traced; {_INSTEAD}")
        return lambda *args, **kwargs: Symbol(_TORCH[method](self, *args, **kwargs))


def _expression(value: Any, what: str) -> Expression:
    if isinstance(value, Symbol):
        return value.expression
    if isinstance(value, torch.Tensor) and value.numel() == 1:
        value = value.item()
    if isinstance(value, builtins.int | builtins.float | Fraction) and not isinstance(value, builtins.bool):
        try:
            return constant(Fraction(value))
        except (ValueError, OverflowError):
            raise UnsupportedOperation(f"{what} is {value!r}, which is not finite") from None
    raise UnsupportedOperation(f"{what} is {type(value).__name__}, not a number or the traced input")


def _unary(op: str) -> Callable[..., Expression]:
    def build(input: Any, inplace: bool = False) -> Expression:
        return Apply(op, (_expression(input, f"the argument of {op}"),))

    return build


def _binary(op: str) -> Callable[..., Expression]:
    def build(input: Any, other: Any) -> Expression:
        return Apply(op, (_expression(input, f"an argument of {op}"), _expression(other, f"an argument of {op}")))

    return build


def _subtract(input: Any, other: Any, alpha: Any = 1) -> Expression:
    return _binary("sub")(input, other if alpha == 1 else Symbol(_binary("mul")(alpha, other)))


def _add(input: Any, other: Any, alpha: Any = 1) -> Expression:
    return _binary("add")(input, other if alpha == 1 else Symbol(_binary("mul")(alpha, other)))


def _clamp(input: Any, min: Any = None, max: Any = None) -> Expression:
    if min is not None and max is not None:
        return Apply("clip", tuple(_expression(v, "an argument of clamp") for v in (input, min, max)))
    if min is None and max is None:
        raise UnsupportedOperation("clamp needs min or max")
    return _binary("max")(input, min) if max is None else _binary("min")(input, max)


def _power(input: Any, exponent: Any) -> Expression:
    return _binary("pow")(input, exponent)


def _gelu(input: Any, approximate: str = "none") -> Expression:
    if approximate != "none":
        raise UnsupportedOperation(f"gelu with approximate={approximate!r}: only the erf form, approximate='none'")
    return _unary("gelu")(input)


def _softplus(input: Any, beta: float = 1, threshold: float = 20) -> Expression:
    """The smooth softplus log(1 + e^x). torch itself switches to x above 20, off by up to 2.1e-9 there."""
    if beta == 1:
        return _unary("softplus")(input)
    scaled = Symbol(_unary("softplus")(Symbol(_binary("mul")(beta, input))))
    return _binary("div")(scaled, beta)


def _softshrink(input: Any, lambd: float = 0.5) -> Expression:
    return soft_threshold(_expression(input, "the argument of softshrink"), _expression(lambd, "lambd"))


def _leaky_relu(input: Any, negative_slope: float = 0.01, inplace: bool = False) -> Expression:
    """x above 0, slope x below: slope x + (1 - slope) relu(x)."""
    slope = Fraction(negative_slope)
    return _binary("add")(Symbol(_binary("mul")(slope, input)), Symbol(_binary("mul")(1 - slope, torch.relu(input))))


def _hardtanh(input: Any, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Expression:
    return _clamp(input, min_val, max_val)


def _names(*pairs: tuple[str, Callable[..., Expression]]) -> dict[Any, Callable[..., Expression]]:
    """Each handler under torch.<name>, torch.Tensor.<name> and torch.nn.functional.<name>, where they exist."""
    return {
        getattr(home, name): handler
        for name, handler in pairs
        for home in (torch, torch.Tensor, functional, torch.special)
        if hasattr(home, name)
    }


_TORCH = _names(
    *((name, _unary(name)) for name in ("exp", "log", "sqrt", "sin", "cos", "tan", "atan", "tanh", "sigmoid")),
    *((name, _unary(name)) for name in ("erf", "abs", "relu", "silu", "neg", "sign")),
    ("arctan", _unary("atan")),
    ("absolute", _unary("abs")),
    ("negative", _unary("neg")),
    ("expit", _unary("sigmoid")),
    ("square", lambda input: _binary("pow")(input, 2)),
    ("reciprocal", lambda input: _binary("div")(1, input)),
    ("rsqrt", lambda input: _binary("div")(1, Symbol(_unary("sqrt")(input)))),
    ("add", _add),
    ("sub", _subtract),
    ("subtract", _subtract),
    ("rsub", lambda input, other: _subtract(other, input)),
    ("mul", _binary("mul")),
    ("multiply", _binary("mul")),
    ("div", _binary("div")),
    ("divide", _binary("div")),
    ("true_divide", _binary("div")),
    ("pow", _power),
    ("maximum", _binary("max")),
    ("minimum", _binary("min")),
    ("clamp", _clamp),
    ("clip", _clamp),
    ("gelu", _gelu),
    ("softshrink", _softshrink),
    ("leaky_relu", _leaky_relu),
    ("hardtanh", _hardtanh),
    ("relu6", lambda input, inplace=False: _clamp(input, 0, 6)),
    ("softplus", _softplus),
    *(
        (f"__{name}__", _binary(op))
        for name, op in (("add", "add"), ("mul", "mul"), ("truediv", "div"), ("pow", "pow"))
    ),
    *(
        (f"__r{name}__", lambda a, b, op=op: _binary(op)(b, a))
        for name, op in (("add", "add"), ("mul", "mul"), ("truediv", "div"), ("pow", "pow"))
    ),
    ("__sub__", _subtract),
    ("__rsub__", lambda input, other: _subtract(other, input)),
)
