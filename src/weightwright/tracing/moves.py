"""Operations that only move elements: torch itself moves their numbers, and we look where they went."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.nn import functional

from weightwright.tracing.advice import advice
from weightwright.tracing.operands import as_traced
from weightwright.tracing.sheet import Codes, Sheet
from weightwright.tracing.symbolic import OPERATIONS, Traced, operation
from weightwright.tracing.user_source import refuse

#: Of one tensor, as methods. New places are filled with 0.
_METHODS = """reshape reshape_as view view_as flatten unflatten ravel permute transpose swapaxes swapdims movedim
moveaxis t adjoint unsqueeze squeeze expand expand_as broadcast_to unbind split split_with_sizes chunk tensor_split
hsplit vsplit narrow select index_select take flip fliplr flipud roll repeat repeat_interleave tile unfold diagonal
diag diag_embed tril triu gather take_along_dim rot90"""
#: Of several tensors, as functions.
_FUNCTIONS = "cat stack hstack vstack dstack column_stack row_stack"


def moved(function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """The result of a torch function that moves elements: the tensor, or the tensors, that it returns."""
    places = _Places(_first_sheet([*args, *kwargs.values()]))
    named = {key: places.numbered(value) for key, value in kwargs.items()}
    result = function(*(places.numbered(value) for value in args), **named)
    if isinstance(result, torch.Tensor):
        return places.found(result)
    return tuple(places.found(part) for part in result)


class _Places:
    """Numbers for the elements of the tensors that an operation moves; 0 is what it fills with."""

    def __init__(self, sheet: Sheet) -> None:
        self.sheet = sheet
        self.tensors = list[Traced]()
        self.codes = [np.zeros(1, dtype=np.int64)]  # of place 0, 1, ...
        self.tokens = [np.full(1, -1)]  # the position along the tensor's axis of the tokens; -1: it has none
        self.origins = [np.zeros(1, dtype=np.int64)]  # the place at position 0 of that axis
        self.count = 1

    def numbered(self, value: Any) -> Any:
        if isinstance(value, list | tuple) and any(isinstance(part, Traced) for part in value):
            return type(value)(self._numbers(as_traced(self.sheet, part)) for part in value)
        return self._numbers(value) if isinstance(value, Traced) else value

    def _numbers(self, tensor: Traced) -> torch.Tensor:
        codes, axis = tensor.codes, tensor.token_axis
        places = np.arange(self.count, self.count + codes.size).reshape(codes.shape)
        first = places if axis is None else np.broadcast_to(places.take([0], axis), places.shape)
        positions = np.full(codes.shape, -1)
        if axis is not None:
            positions = np.moveaxis(
                np.broadcast_to(np.arange(codes.shape[axis]), np.moveaxis(codes, axis, -1).shape), -1, axis
            )
        for known, new in ((self.codes, codes), (self.tokens, positions), (self.origins, first)):
            known.append(new.ravel())
        self.count += codes.size
        self.tensors.append(tensor)
        return torch.from_numpy(places)

    def found(self, result: torch.Tensor) -> Traced:
        places = result.numpy()
        codes = np.concatenate(self.codes)[places]
        memory = self.tensors[0].memory if len(self.tensors) == 1 else None
        return Traced(self.sheet, codes, self._token_axis(places, codes), memory)

    def _token_axis(self, places: Codes, codes: Codes) -> int | None:
        """The axis along which elements differ in their token only."""
        tokens, origins = np.concatenate(self.tokens)[places], np.concatenate(self.origins)[places]
        axes = [axis for axis, length in enumerate(codes.shape) if length == self.sheet.n and length > 1]
        for axis in axes:
            along, from_one = np.moveaxis(tokens, axis, -1), np.moveaxis(origins, axis, -1)
            if ((along != along[..., :1]).any(axis=-1) & (from_one == from_one[..., :1]).all(axis=-1)).any():
                return axis
        return next((axis for axis in axes if codes.size and self.sheet.is_line_of_tokens(codes, axis)), None)


def _first_sheet(values: Any) -> Sheet:
    parts = [part for value in values for part in (value if isinstance(value, list | tuple) else (value,))]
    return next(part.sheet for part in parts if isinstance(part, Traced))


def _method(name: str) -> Any:
    def handler(*args: Any, **kwargs: Any) -> Any:
        if not isinstance(args[0], Traced):
            raise refuse(f"{name} of a constant at places that depend on the input", "index with plain numbers")
        if any(isinstance(value, torch.dtype) for value in [*args, *kwargs.values()]):
            raise refuse(f"{name} with another dtype cannot be traced", "keep to floating-point numbers")
        return moved(getattr(torch.Tensor, name), args, kwargs)

    return handler


def _function(name: str) -> Any:
    def handler(*args: Any, **kwargs: Any) -> Any:
        return moved(getattr(torch, name), args, kwargs)

    return handler


OPERATIONS.update({name: _method(name) for name in _METHODS.split() if hasattr(torch.Tensor, name)})
OPERATIONS.update({name: _function(name) for name in _FUNCTIONS.split()})


@operation("broadcast_tensors")
def broadcast_tensors(*tensors: Any) -> Any:
    sheet = _first_sheet(tensors)
    return moved(torch.broadcast_tensors, [as_traced(sheet, tensor) for tensor in tensors], {})


@operation("pad")
def pad(input: Any, pad: Any, mode: str = "constant", value: float | None = None) -> Any:
    if value:
        raise refuse(f"pad with the value {value} cannot be traced", "use torch.cat with torch.full_like")
    return moved(lambda numbers: functional.pad(numbers, pad, mode), (input,), {})


@operation("getitem")
def getitem(input: Any, index: Any) -> Any:
    parts = index if isinstance(index, tuple) else (index,)
    if not isinstance(input, Traced) or any(isinstance(part, Traced) for part in parts):
        raise refuse("an index depends on the input", "index with plain numbers, slices and constant tensors")
    return moved(lambda numbers: numbers[index], (input,), {})


@operation("clone")
def clone(input: Traced, memory_format: Any = None) -> Traced:
    """A copy: operations in place on one of the two leave the other as it is."""
    return Traced(input.sheet, input.codes, input.token_axis)


@operation("double", "cpu")
def kept(input: Traced, *args: Any, **kwargs: Any) -> Traced:
    return input


@operation("contiguous")
def contiguous(input: Traced, memory_format: Any = None) -> Traced:
    """The tensor itself or a copy, which torch decides: so neither may be changed and the other one used."""
    return Traced(input.sheet, input.codes, input.token_axis, input.memory)


@operation("float", "half", "bfloat16")
def rounded(input: Traced, memory_format: Any = None) -> Traced:
    raise refuse("a conversion to a smaller dtype rounds", advice("float"))


@operation("type_as")
def type_as(input: Traced, other: Any) -> Traced:
    return converted(input, other.dtype)


@operation("to", "type")
def converted(input: Traced, *args: Any, copy: bool = False, **kwargs: Any) -> Any:
    """To another device, or to float64, which it is."""
    dtypes = [value.dtype if isinstance(value, torch.Tensor) else value for value in [*args, *kwargs.values()]]
    for dtype in dtypes:
        named = isinstance(dtype, str) and dtype.startswith("torch.")
        if named or (isinstance(dtype, torch.dtype | type) and dtype != torch.float64):
            raise refuse(f"a conversion to {dtype} cannot be traced", f"keep to floating-point numbers: {advice('to')}")
    return clone(input) if copy else input


@operation("new_zeros")
def new_zeros(input: Traced, *size: Any, dtype: Any = None, device: Any = None) -> torch.Tensor:
    return torch.zeros(*size, dtype=dtype or torch.float64)


@operation("new_ones")
def new_ones(input: Traced, *size: Any, dtype: Any = None, device: Any = None) -> torch.Tensor:
    return torch.ones(*size, dtype=dtype or torch.float64)


@operation("new_full")
def new_full(input: Traced, size: Any, fill_value: float, dtype: Any = None, device: Any = None) -> torch.Tensor:
    return torch.full(size, fill_value, dtype=dtype or torch.float64)


@operation("new_tensor")
def new_tensor(input: Traced, data: Any, dtype: Any = None, device: Any = None) -> torch.Tensor:
    return torch.tensor(data, dtype=dtype or torch.float64)


@operation("numel")
def numel(input: Traced) -> int:
    return input.numel()


@operation("is_floating_point")
def is_floating_point(input: Traced) -> bool:
    return True
