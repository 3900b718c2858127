"""Gradients as torch's users take them: torch.func.grad, torch.autograd.grad, requires_grad_ and detach under trace.

What is differentiated by becomes columns of its own ("held"), the loss is traced as a function of these, and
`column_gradients` walks back from it. torch.autograd.grad reaches a traced tensor by itself; torch.func.grad takes
torch's own tensors only, so while a function is followed its implementation first looks whether a traced one was given.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch._functorch import apis, eager_transforms
from torch.utils import _pytree

from weightwright.tracing.arithmetic import mul
from weightwright.tracing.columns import HELD
from weightwright.tracing.following.column_gradients import column_gradients
from weightwright.tracing.operands import as_traced
from weightwright.tracing.sheet import Codes
from weightwright.tracing.symbolic import Traced, called, operation
from weightwright.tracing.user_source import refuse

_ONE_NUMBER = "return one number, such as the mean of the losses of all examples"
_TWICE = "take torch.func.grad of a function that returns one number; twice for second derivatives"
_AT_ONCE = "write the function for all examples at once, and take torch.func.grad of the sum or mean of their losses"


def hold(x: Traced) -> Codes:
    """Codes of columns that hold the numbers of x, each a variable of its own."""
    sheet = x.sheet

    def held(columns: Sequence[int]) -> list[int]:
        return [sheet.columns.hold(columns[0], sheet.columns.nodes[columns[0]].label)]

    codes = sheet.pointwise(held, x.codes[..., None], x.token_axis)[..., 0]
    columns, places = np.divmod(codes, sheet.n + 1)
    sheet.shared.update(columns[places == 0].tolist())
    return codes


@operation("requires_grad_")
def requires_grad_(input: Traced, requires_grad: bool = True) -> Traced:
    return input.renumbered(hold(input)) if requires_grad else input


@operation("detach")
def detach(input: Traced) -> Traced:
    """The same numbers, which no gradient passes."""
    return Traced(input.sheet, hold(input), input.token_axis, input.memory)


@operation("grad")
def autograd_grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Traced, ...]:
    """torch.autograd.grad: of the sum of all outputs, with respect to tensors that require gradients."""
    results, by = (list(given) if isinstance(given, list | tuple) else [given] for given in (outputs, inputs))
    sheet = next(tensor.sheet for tensor in [*results, *by] if isinstance(tensor, Traced))
    if is_grads_batched:
        raise refuse("torch.autograd.grad with is_grads_batched=True cannot be traced", _TWICE)
    for tensor in by:
        if not isinstance(tensor, Traced) or any(sheet.columns.nodes[c].op != HELD for c in _columns(tensor)):
            raise refuse(
                "torch.autograd.grad with respect to a tensor that does not require gradients cannot be traced",
                "write w = w.detach().requires_grad_() before the loss is computed, and take the gradient with respect"
                " to w; or use torch.func.grad",
            )
    factors = [None] * len(results) if grad_outputs is None else list(_as_tuple(grad_outputs))
    total = as_traced(sheet, 0.0)
    for result, factor in zip(results, factors, strict=True):
        if factor is None and result.numel() != 1:
            raise refuse(f"a gradient of {result.numel()} numbers at once cannot be traced", _ONE_NUMBER)
        weighted = as_traced(sheet, result) if factor is None else mul(as_traced(sheet, result), factor)
        total = total + called("sum", (weighted,))
    return tuple(_gradients(total, by))


def _as_tuple(given: Any) -> tuple[Any, ...]:
    return tuple(given) if isinstance(given, list | tuple) else (given,)


def _columns(x: Traced) -> list[int]:
    return np.unique(x.codes // (x.sheet.n + 1)).tolist()


def _gradients(result: Traced, by: Sequence[Traced]) -> list[Traced]:
    """Of one number, with respect to held tensors."""
    sheet = result.sheet
    (column,), (place,) = np.divmod(result.codes.ravel(), sheet.n + 1)
    variables = [tensor.codes // (sheet.n + 1) for tensor in by]
    different = sorted({c for codes in variables for c in codes.ravel().tolist()})
    found = np.zeros(len(sheet.columns.nodes), dtype=np.int64)
    found[different] = column_gradients(sheet, int(column), int(place) - 1, different)
    return [
        Traced(sheet, found[codes] * (sheet.n + 1) + tensor.codes % (sheet.n + 1), tensor.token_axis)
        for codes, tensor in zip(variables, by, strict=True)
    ]


def _grad_and_value(
    func: Callable[..., Any], argnums: Any, has_aux: bool, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, Any]:
    """torch.func.grad and grad_and_value of a function of traced tensors."""
    sheet = next(tensor.sheet for tensor in _pytree.tree_leaves((args, kwargs)) if isinstance(tensor, Traced))
    chosen = [argnums] if isinstance(argnums, int) else list(argnums)
    variables = list[Traced]()

    def variable(x: Any) -> Traced:
        if not isinstance(x, Traced):
            raise refuse("torch.func.grad with respect to a constant cannot be traced", "choose argnums by the input")
        variables.append(Traced(sheet, hold(x), x.token_axis))
        return variables[-1]

    with sheet.operation("grad"):
        given = list(args)
        for place in chosen:
            given[place] = _pytree.tree_map(variable, given[place])
    result = func(*given, **kwargs)
    if has_aux and not (isinstance(result, tuple) and len(result) == 2):
        raise refuse("torch.func.grad with has_aux=True of a function that returns no pair", "return (loss, aux)")
    value, aux = result if has_aux else (result, None)
    value = as_traced(sheet, value) if isinstance(value, torch.Tensor) else value
    if not isinstance(value, Traced) or value.ndim:
        shape = f"shape {tuple(value.shape)}" if isinstance(value, Traced) else type(value).__name__
        raise refuse(f"torch.func.grad of a function that returns {shape}", _ONE_NUMBER, torch_too=True)
    with sheet.operation("grad"):
        gradients = iter(_gradients(value, variables))
        slopes = [_pytree.tree_map(lambda x: next(gradients), given[place]) for place in chosen]
    held = {c for x in variables for c in _columns(x)}
    slope = slopes[0] if isinstance(argnums, int) else tuple(slopes)
    slope, value, aux = _pytree.tree_map(lambda x: _released(x, held), (slope, value, aux))
    if sheet.steps is not None:
        sheet.steps.append(("grad", [x.codes for x in _pytree.tree_leaves(slope)]))
    return slope, (value, aux) if has_aux else value


def _released(x: Any, held: set[int]) -> Any:
    """A tensor in terms of what the function was called with."""
    if not isinstance(x, Traced):
        return x
    columns, places = np.divmod(x.codes, x.sheet.n + 1)
    different, where = np.unique(columns, return_inverse=True)
    made = np.array(x.sheet.columns.release(different.tolist(), held), dtype=np.int64)
    return Traced(x.sheet, made[where].reshape(columns.shape) * (x.sheet.n + 1) + places, x.token_axis)


def _refusal(what: str, instead: str) -> Callable[..., Any]:
    def refused(*args: Any, **kwargs: Any) -> Any:
        raise refuse(f"{what} cannot be traced", instead)

    return refused


#: Where torch looks its transforms up, and what is done there for traced tensors.
_TRANSFORMS: tuple[tuple[Any, str, Callable[..., Any]], ...] = (
    (eager_transforms, "grad_and_value_impl", _grad_and_value),
    (eager_transforms, "_vjp_with_argnums", _refusal("torch.func.vjp, jacrev or hessian", _TWICE)),
    (eager_transforms, "_jvp_with_argnums", _refusal("torch.func.jvp, jacfwd or hessian", _TWICE)),
    (apis, "vmap_impl", _refusal("torch.func.vmap", _AT_ONCE)),
)
_lock = threading.Lock()
_own: list[Callable[..., Any]] = []  # torch's own, while any thread follows a function
_following = 0  # how many follow one now


def _choosing(own: Callable[..., Any], traced: Callable[..., Any]) -> Callable[..., Any]:
    def choose(*args: Any, **kwargs: Any) -> Any:
        given = any(isinstance(x, Traced) for x in _pytree.tree_leaves((args, kwargs)))
        return (traced if given else own)(*args, **kwargs)

    return choose


@contextmanager
def follow_gradients() -> Iterator[None]:
    """Inside, torch.func.grad takes traced tensors too; for all others it is torch's own, in every thread."""
    global _following
    with _lock:
        if not _following:
            _own[:] = [getattr(module, name) for module, name, _ in _TRANSFORMS]
            for (module, name, traced), own in zip(_TRANSFORMS, _own, strict=True):
                setattr(module, name, _choosing(own, traced))
        _following += 1
    try:
        yield
    finally:
        with _lock:
            _following -= 1
            if not _following:
                for (module, name, _), own in zip(_TRANSFORMS, _own, strict=True):
                    setattr(module, name, own)
