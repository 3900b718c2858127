"""Running the user's function in float64, as it is; constants of smaller dtypes are widened where they meet it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import torch
from torch.overrides import TorchFunctionMode

from weightwright.tracing.elementary import torch_name
from weightwright.tracing.user_source import boundary, line

_SMALL = (torch.float32, torch.float16, torch.bfloat16)


class Step(NamedTuple):
    """An operation of a run: what it is called, where it stands, and the numbers it returned."""

    name: str
    line: str
    values: list[torch.Tensor]


class Widening(TorchFunctionMode):
    """A module of float32 weights runs in float64: what meets a float64 tensor becomes one, and nothing else."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if any(tensor.dtype == torch.float64 for tensor in tensors_in([args, kwargs])):
            args, kwargs = _widened(args), _widened(kwargs)
        return func(*args, **kwargs)


#: What tells a function the numbers of a tensor, so that it may go another way on inputs that no sample meets.
_ASKING = (
    *("bool", "item", "float", "int", "index", "complex", "tolist", "numpy", "array", "contains", "is_nonzero"),
    *("equal", "allclose", "format", "repr", "dlpack", "reduce_ex", "data_ptr", "untyped_storage", "storage"),
)


class Recording(Widening):
    """Every operation on what depends on the inputs: its name, its line and what it returned. asked: the first one that
    told the function numbers, with its line."""

    def __init__(self, inputs: tuple[torch.Tensor, ...]) -> None:
        super().__init__()
        self.steps: list[Step] = []
        self.asked = ""
        self._following = {id(tensor): tensor for tensor in inputs}  # kept, so that no id is used twice

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_function__(func, types, args, kwargs)
        if any(id(tensor) in self._following for tensor in tensors_in([args, kwargs])):
            told = _name(func) in _ASKING and not isinstance(result, torch.Tensor)
            self.asked = self.asked or (f"{_name(func)}{line()}" if told else "")
            found = list(tensors_in([result]))
            self._following.update((id(tensor), tensor) for tensor in found)
            numbers = [tensor.detach().clone() for tensor in found if tensor.dtype != torch.bool]
            values = [tensor for tensor in numbers if tensor.is_floating_point()] or numbers  # max returns places too
            if values and not _name(func).startswith("new_"):  # constants, though a tensor made them
                self.steps.append(Step(_name(func), line(), values))
        return result


def _name(func: Any) -> str:
    """Of a getter such as Tensor.T.__get__ that of the attribute."""
    name = getattr(func, "__name__", str(func))
    return torch_name(getattr(func.__self__, "__name__", name) if name == "__get__" else func)


@boundary
def run(function: Callable[..., Any], inputs: tuple[torch.Tensor, ...]) -> Any:
    """What the function returns for copies of the inputs: as it is, or with its constants widened if that fails."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function(*(x.clone() for x in inputs))
        except RuntimeError:
            with Widening():
                return function(*(x.clone() for x in inputs))


@boundary
def record(function: Callable[..., Any], inputs: tuple[torch.Tensor, ...]) -> Recording:
    """The operations of a run, also of one that fails on the way."""
    own = tuple(x.clone() for x in inputs)
    recording = Recording(own)
    with warnings.catch_warnings(), recording, suppress(Exception):  # what was done before an error is asked for too
        warnings.simplefilter("ignore")
        function(*own)
    return recording


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for part in value:
            yield from tensors_in(part)
    elif isinstance(value, dict):
        yield from tensors_in(list(value.values()))


def _widened(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.double() if value.dtype in _SMALL else value
    if (isinstance(value, tuple) and type(value) is tuple) or type(value) is list:
        return type(value)(_widened(part) for part in value)
    return {key: _widened(part) for key, part in value.items()} if isinstance(value, dict) else value
