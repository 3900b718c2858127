"""Following a torch function: symbolic tensors, and what every torch operation does to them.

A torch function or module of (tokens, features) as a graph of columns: it is called with a symbolic tensor, and once
more to see that it is the same.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

import weightwright.tracing.attention
import weightwright.tracing.following.losses
import weightwright.tracing.moves  # noqa: F401  (register their operations)
from weightwright.claims.graph import Graph
from weightwright.errors import NotRepeatable, UnsupportedOperation, WeightwrightError
from weightwright.tracing.advice import advice
from weightwright.tracing.following.torch_gradients import follow_gradients
from weightwright.tracing.operands import as_traced
from weightwright.tracing.repeated import graphs_differ, repeated
from weightwright.tracing.running import run
from weightwright.tracing.sheet import Sheet
from weightwright.tracing.symbolic import Traced
from weightwright.tracing.user_source import boundary, line_of, refuse, swallow_nothing

#: How many tokens a function is traced with that should treat each by itself.
_EXAMPLES = (2, 3)
_RETURN = "return (tokens, outputs), (tokens,), (outputs,) or a number"


def trace_function(
    function: Callable[..., Any] | nn.Module, features: int, tokens: int | None, name: str | None = None
) -> Graph:
    """The columns of a function of one tensor (tokens, features).

    It returns (tokens, outputs); or (tokens,), which is one output; or (outputs,) or a number, which every token gets.
    tokens=None: any number of tokens, each treated by itself. Python loops unroll, every number is meant exactly.

    >>> trace_function(lambda x: torch.tanh(x[:, 0] * x[:, 1]), features=2, tokens=None, name="t").nodes[-1].op
    'tanh(x)'
    """
    _check_arguments(function, features, tokens)
    shown = name or getattr(function, "__name__", None) or type(function).__name__

    def on(n: int, free: bool) -> Graph:
        return repeated(lambda: trace_on(Sheet(n, free), function, features, shown), graphs_differ, shown)

    if tokens is not None:
        return on(tokens, free=False)
    try:
        first, second = (on(n, free=True) for n in _EXAMPLES)
    except NotRepeatable:
        raise
    except UnsupportedOperation:
        # what is refused for any number of tokens is worth telling first: an if, an operation without counterpart
        on(_EXAMPLES[0], free=False)
        raise
    if graphs_differ(first, second):
        raise UnsupportedOperation(
            f"{shown} is another function for {_EXAMPLES[0]} tokens than for {_EXAMPLES[1]}, so it does not treat each"
            " token by itself; pass tokens=n, the number it is meant for"
        )
    return first


def _check_arguments(function: Any, features: int, tokens: int | None) -> None:
    if not callable(function):
        raise UnsupportedOperation(f"{function!r} is {type(function).__name__}; pass a function or an nn.Module")
    called = function.forward if isinstance(function, nn.Module) else function
    try:
        inspect.signature(called).bind(None)
    except TypeError as error:
        shown = getattr(function, "__name__", type(function).__name__)
        raise UnsupportedOperation(f"{shown} must take one tensor, (tokens, features): {error}") from None
    except ValueError:
        pass  # torch's own functions have no signature to look at
    for what, count in (("features", features), ("tokens", tokens)):
        if count is not None and (not isinstance(count, int) or count < 1):
            raise UnsupportedOperation(f"{what}={count!r}: pass a whole number of at least 1")
    if isinstance(function, nn.Module):
        for path, parameter in function.named_parameters():
            if not torch.isfinite(parameter).all():
                wrong = parameter[~torch.isfinite(parameter)][0].item()
                raise UnsupportedOperation(f"the parameter {path} holds {wrong}; pass a module with finite parameters")


@boundary
def trace_on(sheet: Sheet, function: Callable[..., Any], features: int, name: str) -> Graph:
    """One call with a symbolic tensor, on this sheet."""
    token_axis = 0 if sheet.n > 1 else None
    try:
        with swallow_nothing(), follow_gradients():
            result = function(Traced(sheet, sheet.input(features), token_axis))
    except WeightwrightError:
        raise
    except Exception as error:
        if not _runs(function, (sheet.n, features)):
            raise  # it is the user's own
        raise UnsupportedOperation(
            f"{name} cannot be traced{line_of(error)}: {type(error).__name__}: {error}; {advice('')}"
        ) from error
    return sheet.columns.graph(name, _outputs(sheet, result, name))


def _runs(function: Callable[..., Any], shape: tuple[int, int]) -> bool:
    """Whether a function takes plain tensors of this shape, of small positive or of any numbers."""
    for low, dtype in ((0.1, torch.float64), (-1.0, torch.float64), (0.1, torch.float32)):
        try:
            run(function, (torch.linspace(low, 0.9, shape[0] * shape[1], dtype=dtype).reshape(shape),))
        except Exception:
            continue
        return True
    return False


def _outputs(sheet: Sheet, result: Any, name: str) -> list[int]:
    """The columns of the result, one for every output feature."""
    if isinstance(result, int | float | torch.Tensor):
        result = as_traced(sheet, result)
    if not isinstance(result, Traced):
        raise UnsupportedOperation(f"{name} returns {type(result).__name__}, not a tensor; {_RETURN}")
    if result.sheet is not sheet:
        raise refuse(f"{name} returns a tensor of an earlier call", "keep no tensors between calls of the function")
    codes, axis, rows = result.codes, result.token_axis, result.shape[:1]
    with sheet.operation(f"what {name} returns"):
        if result.numel() and result.ndim <= 1:
            return sheet.settled(codes, axis)
        if result.numel() and result.ndim == 2 and rows == (sheet.n,) and sheet.n > 1:
            return sheet.settled(codes, 0)
        if result.numel() and result.ndim == 2 and rows == (1,):
            return sheet.settled(codes[0], None)
    raise UnsupportedOperation(
        f"{name} returns shape {tuple(result.shape)} for an input of {sheet.n} tokens; {_RETURN}"
    )
