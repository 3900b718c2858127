"""A torch callable as an expression: it is called with a symbol that records what is done to it, and once more to see
that it is the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from fractions import Fraction
from typing import Any

import torch

from weightwright.box import Box
from weightwright.errors import UnsupportedOperation
from weightwright.expressions import Apply, Expression, Number, Variable
from weightwright.expressions.nodes import count_nodes
from weightwright.expressions.parser import MAX_NODES
from weightwright.expressions.switches import switch
from weightwright.tracing.elementary import ELEMENTARY, clamped, end_of_softplus, number, torch_name
from weightwright.tracing.guard.confirm_formula import FormulaStep, confirm_formula, stay_below_ends
from weightwright.tracing.repeated import expressions_differ, keep_randomness, place_of, repeated
from weightwright.tracing.user_source import boundary, line, refuse, swallow_nothing

_INSTEAD = (
    "write it with + - * / **, or torch.exp, log, sqrt, sin, cos, tan, atan, tanh, sigmoid, erf, abs, relu, maximum,"
    " minimum, clamp, sign, where, nn.functional.softplus, gelu, silu, elu, softshrink, leaky_relu, hardtanh"
)


#: Where a function is compared with its formula if its domain is not known yet: what is undefined there is left out.
_ANYWHERE = (-4.0, 4.0)


def trace(function: Callable[..., Any], names: Sequence[str] = ("x",), box: Box | None = None) -> Expression:
    """The expression in these variables that a function of as many tensors computes elementwise; on the box, or where
    it is not known yet near 0, it is compared with the function itself."""
    found = repeated(lambda: _traced(function, names), expressions_differ, place_of(function))
    steps: list[FormulaStep] = []
    ends: list[tuple[Expression, float, str]] = []
    token = _RECORDED.set((steps, ends))
    try:
        with keep_randomness():
            _traced(function, names)
    finally:
        _RECORDED.reset(token)
    if box is None:
        box = Box(*([end] * len(names) for end in _ANYWHERE))
    else:
        stay_below_ends(ends, names, box)
    confirm_formula(function, found, names, box, steps)
    return found


#: While a function is followed once more: what its operations made, and where its softplus ends.
_RECORDED: ContextVar[tuple[list[FormulaStep], list[tuple[Expression, float, str]]]] = ContextVar("recorded")


@boundary
def _traced(function: Callable[..., Any], names: Sequence[str]) -> Expression:
    with swallow_nothing():
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

    def overwrite(self, expression: Expression) -> Symbol:
        """This very tensor with new numbers, as operations in place leave it."""
        self.expression = expression
        return self

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Symbol:
        return _called(torch_name(func), f"{getattr(func, '__name__', func)!r}", args, kwargs or {})

    def __bool__(self) -> bool:
        raise refuse(
            "the function decides by the value of its input (an if, a while, a comparison)",
            "use torch.maximum, minimum, clamp or relu instead",
        )

    def _compared(self, other: Any) -> bool:
        raise refuse("a comparison cannot be traced", "use torch.maximum, torch.minimum, torch.clamp or relu instead")

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
    in_place = kwargs.pop("inplace", False)
    expression = _TORCH[name](*args, **kwargs)
    steps, ends = _RECORDED.get(([], []))
    steps.append((name, expression))
    if name == "softplus":
        ends.append((_expression(args[0], "an argument"), end_of_softplus(*args[1:], **kwargs), line()))
    return args[0].overwrite(expression) if in_place else Symbol(expression)


def _operator(name: str) -> Callable[..., Symbol]:
    return lambda *args: _called(name, name, args, {})


def _in_place(name: str) -> Callable[..., Symbol]:
    return lambda self, other: self.overwrite(_called(name, name, (self, other), {}).expression)


for _name in ("add", "sub", "mul", "truediv", "pow"):
    setattr(Symbol, f"__{_name}__", _operator(torch_name(_name)))
    setattr(Symbol, f"__r{_name}__", _operator(torch_name(f"r{_name}")))
    setattr(Symbol, f"__i{_name}__", _in_place(torch_name(_name)))
for _name in ("neg", "abs", "lt", "le", "gt", "ge"):
    setattr(Symbol, f"__{_name}__", _operator(_name))


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


def _above(input: Any, other: Any) -> Expression:
    """1 where the first is larger, 0 where it is smaller."""
    return Apply("step", (_subtract(input, other),))


def _where(condition: Any, input: Any, other: Any) -> Expression:
    found = condition.expression if isinstance(condition, Symbol) else None
    if not isinstance(found, Apply) or found.op != "step":
        raise refuse("torch.where with a condition that is no comparison cannot be traced", "write x > c")
    return switch(found.args[0], *(_expression(side, "an argument of where") for side in (input, other)))


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
    **dict.fromkeys(("gt", "ge", "greater", "greater_equal"), _above),
    **dict.fromkeys(("lt", "le", "less", "less_equal"), lambda input, other: _above(other, input)),
    "where": _where,
    "zeros_like": lambda input: Number(Fraction(0)),
    "ones_like": lambda input: Number(Fraction(1)),
}
