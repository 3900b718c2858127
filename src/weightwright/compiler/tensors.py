"""A torch function or module of (tokens, features) as a graph of columns: it is called once with a symbolic tensor."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

import weightwright.compiler.tracing.contractions
import weightwright.compiler.tracing.moves  # noqa: F401  (registers its operations)
from weightwright.certificates.graphs import Graph
from weightwright.compiler.tracing.operands import as_traced
from weightwright.compiler.tracing.sheet import Sheet
from weightwright.compiler.tracing.symbolic import Traced
from weightwright.compiler.tracing.user_source import boundary
from weightwright.errors import UnsupportedOperation

#: How many tokens a function is traced with that should treat each by itself.
_EXAMPLES = (2, 3)
_RETURN = "return (tokens, outputs), (tokens,), (outputs,) or a number"


def traced(
    function: Callable[..., Any] | nn.Module, features: int, tokens: int | None, name: str | None = None
) -> Graph:
    """The columns of a function of one tensor (tokens, features).

    It returns (tokens, outputs); or (tokens,), which is one output; or (outputs,) or a number, which every token gets.
    tokens=None: any number of tokens, each treated by itself. Python loops unroll, every number is meant exactly.

    >>> traced(lambda x: torch.tanh(x[:, 0] * x[:, 1]), features=2, tokens=None, name="t").nodes[-1].op
    'tanh(x)'
    """
    _check_arguments(function, features, tokens)
    shown = name or getattr(function, "__name__", None) or type(function).__name__
    if tokens is not None:
        return _trace(function, features, Sheet(tokens, free=False), shown)
    try:
        first, second = (_trace(function, features, Sheet(n, free=True), shown) for n in _EXAMPLES)
    except UnsupportedOperation:
        # what is refused for any number of tokens is worth telling first: an if, an operation without counterpart
        _trace(function, features, Sheet(_EXAMPLES[0], free=False), shown)
        raise
    if not _equal(first, second):
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
def _trace(function: Callable[..., Any], features: int, sheet: Sheet, name: str) -> Graph:
    token_axis = 0 if sheet.n > 1 else None
    result = function(Traced(sheet, sheet.input(features), token_axis))
    return sheet.columns.graph(name, _outputs(sheet, result, name))


def _outputs(sheet: Sheet, result: Any, name: str) -> list[int]:
    """The columns of the result, one for every output feature."""
    if isinstance(result, int | float | torch.Tensor):
        result = as_traced(sheet, result)
    if not isinstance(result, Traced):
        raise UnsupportedOperation(f"{name} returns {type(result).__name__}, not a tensor; {_RETURN}")
    codes, axis, rows = result.codes, result.token_axis, result.shape[:1]
    with sheet.operation(f"what {name} returns"):
        if result.ndim <= 1:
            return sheet.settled(codes, axis)
        if result.ndim == 2 and rows == (sheet.n,) and sheet.n > 1:
            return sheet.settled(codes, 0)
        if result.ndim == 2 and rows == (1,):
            return sheet.settled(codes[0], None)
    raise UnsupportedOperation(
        f"{name} returns shape {tuple(result.shape)} for an input of {sheet.n} tokens; {_RETURN}"
    )


def _equal(first: Graph, second: Graph) -> bool:
    def content(graph: Graph) -> list[Any]:
        return [(n.op, n.of, n.weights.tobytes(), n.constants.tobytes(), n.index) for n in graph.nodes]

    return first.outputs == second.outputs and content(first) == content(second)
