"""Operands side by side: constants beside traced tensors, shapes broadcast, one axis for the tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from weightwright.tracing.sheet import Codes, Sheet
from weightwright.tracing.symbolic import Traced
from weightwright.tracing.user_source import refuse

#: What becomes of the columns of one element.
Pointwise = Callable[..., int]


def constant(value: Any) -> torch.Tensor:
    """A number, array or tensor that does not depend on the input, in float64."""
    try:
        tensor = value if isinstance(value, torch.Tensor) else torch.from_numpy(np.array(value))
    except (TypeError, ValueError, RuntimeError):
        raise refuse(
            f"{type(value).__name__} is no number or tensor", "use numbers, torch tensors and the traced input"
        ) from None
    if tensor.is_complex():
        raise refuse("a complex constant cannot be traced", "write the real and the imaginary part by themselves")
    tensor = tensor.detach().to("cpu", torch.float64)
    if not torch.isfinite(tensor).all():
        wrong = tensor[~torch.isfinite(tensor)][0].item()
        raise refuse(f"a constant of shape {tuple(tensor.shape)} holds {wrong}", "use finite numbers only")
    return tensor


def operand(value: Any) -> Traced | torch.Tensor:
    return value if isinstance(value, Traced) else constant(value)


def as_traced(sheet: Sheet, value: Any) -> Traced:
    if isinstance(value, Traced):
        return value
    return Traced(sheet, sheet.constants(constant(value).numpy()), None)


def sheet_of(*values: Any) -> Sheet:
    return next(value.sheet for value in values if isinstance(value, Traced))


def shared_axis(tensors: Sequence[Traced]) -> int | None:
    """The axis of the tokens after broadcasting: the first one that some tensor has."""
    ndim = max(tensor.ndim for tensor in tensors)
    axes = [ndim - tensor.ndim + tensor.token_axis for tensor in tensors if tensor.token_axis is not None]
    return min(axes, default=None)


def side_by_side(sheet: Sheet, values: Sequence[Any]) -> tuple[Codes, list[Traced]]:
    """The operands' codes, broadcast, along a new last axis."""
    tensors = [as_traced(sheet, value) for value in values]
    return np.stack(np.broadcast_arrays(*(tensor.codes for tensor in tensors)), axis=-1), tensors


def elementwise(make: Pointwise, *values: Any) -> Traced:
    """make(sheet, column, ...) of the operands' elements."""
    sheet = sheet_of(*values)
    codes, tensors = side_by_side(sheet, values)
    axis = shared_axis(tensors)
    return Traced(sheet, sheet.pointwise(lambda columns: [make(sheet, *columns)], codes, axis)[..., 0], axis)


def weighted(values: Sequence[Any], weights: Sequence[float]) -> Traced:
    """The sum of weights times operands, element by element."""
    sheet = sheet_of(*values)
    codes, tensors = side_by_side(sheet, values)
    axis = shared_axis(tensors)
    made = sheet.linear(codes, np.array(weights, dtype=np.float64), np.zeros(()), axis, in_steps=True)
    return Traced(sheet, made, axis)
