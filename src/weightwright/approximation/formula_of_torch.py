"""A torch callable as an expression: it is called with a symbol that records what is done to it, and once more to see
that it is the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from weightwright.errors import UnsupportedOperation
from weightwright.expressions import Apply, Expression, Variable
from weightwright.expressions.nodes import count_nodes
from weightwright.expressions.parser import MAX_NODES
from weightwright.tracing.elementary import ELEMENTARY, clamped, number, torch_name
from weightwright.tracing.repeated import expressions_differ, place_of, repeated
from weightwright.tracing.user_source import boundary, refuse

_INSTEAD = (
    "write it with + - * / **, or torch.exp, log, sqrt, sin, cos, tan, atan, tanh, sigmoid, erf, abs, relu, maximum,"
    " minimum, clamp, sign, nn.functional.softplus, gelu, silu, elu, softshrink, leaky_relu, hardtanh"
)


def trace(function: Callable[..., Any], names: Sequence[str] = ("x",)) -> Expression:
    """The expression in these variables that a function of as many tensors computes elementwise."""
    return repeated(lambda: _traced(function, names), expressions_differ, place_of(function))


@boundary
def _traced(function: Callable[..., Any], names: Sequence[str]) -> Expression:
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
        return _called(torch_name(func), f"{getattr(func, '__name__', func)!r}", args, kwargs or {})

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
        return Symbol(_power(self, other))

    def __rpow__(self, other: Any) -> Symbol:
        return Symbol(_power(other, self))

    def __neg__(self) -> Symbol:
        return Symbol(Apply("neg", (self.expression,)))

    def __abs__(self) -> Symbol:
        return Symbol(Apply("abs", (self.expression,)))

    def __bool__(self) -> bool:
        raise refuse(
            "the function decides by the value of its input (an if, a while, a comparison)",
            "use torch.maximum, minimum, clamp or relu instead",
        )

    def _compared(self, other: Any) -> bool:
        raise refuse("a comparison cannot be traced", "use torch.maximum, torch.minimum, torch.clamp or relu instead")

    __lt__ = __le__ = __gt__ = __ge__ = _compared
    __eq__ = __ne__ = _compared
    __hash__ = None  # type: ignore[assignment]

    def __float__(self) -> float:
        raise refuse("a plain number was asked for (math.sin and the like do that)", _INSTEAD)

    __int__ = __index__ = __float__

    def __getattr__(self, name: str) -> Callable[..., Symbol]:
        if name.startswith("__") or not hasattr(torch.Tensor, name):
            raise AttributeError(name)
        if torch_name(name) not in _TORCH:
            raise refuse(f".{name} cannot be traced", _INSTEAD)
        return lambda *args, **kwargs: _called(torch_name(name), name, (self, *args), kwargs)


def _called(name: str, shown: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Symbol:
    if name not in _TORCH:
        raise refuse(f"{shown} cannot be traced", _INSTEAD)
    kwargs.pop("inplace", None)
    return Symbol(_TORCH[name](*args, **kwargs))


def _expression(value: Any, what: str) -> Expression:
    if isinstance(value, Symbol):
        return value.expression
    if isinstance(value, torch.Tensor) and value.numel() == 1:
        value = value.item()
    return number(value, what)


def _elementary(name: str) -> Callable[..., Expression]:
    def build(input: Any, *args: Any, **kwargs: Any) -> Expression:
        return ELEMENTARY[name](_expression(input, f"the argument of {name}"), *args, **kwargs)

    return build


def _binary(op: str) -> Callable[..., Expression]:
    def build(input: Any, other: Any) -> Expression:
        return Apply(op, (_expression(input, f"an argument of {op}"), _expression(other, f"an argument of {op}")))

    return build


def _subtract(input: Any, other: Any, alpha: Any = 1) -> Expression:
    return _binary("sub")(input, other if alpha == 1 else Symbol(_binary("mul")(alpha, other)))


def _add(input: Any, other: Any, alpha: Any = 1) -> Expression:
    return _binary("add")(input, other if alpha == 1 else Symbol(_binary("mul")(alpha, other)))


def _power(input: Any, exponent: Any) -> Expression:
    return _binary("pow")(input, exponent)


def _clamp(input: Any, min: Any = None, max: Any = None) -> Expression:
    low, high = (None if end is None else _expression(end, "an argument of clamp") for end in (min, max))
    return clamped(_expression(input, "an argument of clamp"), low, high)


#: By the name that `torch_name` gives.
_TORCH: dict[str, Callable[..., Expression]] = {
    **{name: _elementary(name) for name in ELEMENTARY},
    "add": _add,
    "radd": lambda input, other: _add(other, input),
    "sub": _subtract,
    "rsub": lambda input, other: _subtract(other, input),
    "mul": _binary("mul"),
    "rmul": lambda input, other: _binary("mul")(other, input),
    "div": _binary("div"),
    "rdiv": lambda input, other: _binary("div")(other, input),
    "pow": _power,
    "rpow": lambda input, other: _power(other, input),
    "maximum": _binary("max"),
    "minimum": _binary("min"),
    "clamp": _clamp,
}
