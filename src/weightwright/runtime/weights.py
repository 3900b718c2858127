"""Weights of a network as torch has them: buffers named as in the network, which are what runs and what is read back.

Some modules derive tensors from their weights, keys of registers for instance. What was derived is kept only as long as
nobody else has got hold of a weight: who holds one may write to it at any time, and by ways that torch does not count
(`.data`, numpy). From then on everything is derived anew in every call. That is for speed alone: `read_back` looks at
every bit, whoever holds what, and forgets what was derived.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_modules

from weightwright.errors import WeightwrightError
from weightwright.limits import hold
from weightwright.runtime.kernels.table_kernel import is_transformed as is_transformed

DTYPES = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16}

#: What others call the dtypes; float16 has too few exponents for the proofs, bfloat16 is what is as small.
_SPELLED = {
    "float64": ("float64", "double", "float", "f64", "fp64", "64"),
    "float32": ("float32", "single", "f32", "fp32", "32"),
    "bfloat16": ("bf16", "float16", "half", "fp16", "f16", "16"),
}


class HandedOut(dict[str, Tensor | None]):
    """The buffers of a module, and whether one was handed out: reading or writing the dictionary by any other way than
    `Weights.weight` sets `out`."""

    def __init__(self, held: dict[str, Tensor | None] | None = None, out: bool = False) -> None:
        super().__init__(held or {})
        self.out = out

    def __reduce__(self) -> tuple[type, tuple[dict[str, Tensor | None], bool]]:
        self.out = True  # whoever pickles a part for another process may share its memory
        return HandedOut, (dict(dict.items(self)), self.out)

    def __deepcopy__(self, memo: dict[int, Any]) -> HandedOut:
        return HandedOut(copy.deepcopy(dict(dict.items(self)), memo), self.out)


def _noted(method: Callable[..., Any]) -> Callable[..., Any]:
    def note(self: HandedOut, *given: Any, **named: Any) -> Any:
        self.out = True
        return method(self, *given, **named)

    return note


_READING = (
    "__getitem__",
    "__iter__",
    "__or__",
    "__ror__",
    "get",
    "items",
    "values",
    "copy",
)  # `__iter__`: for {**held}
_WRITING = ("__setitem__", "__ior__", "pop", "popitem", "setdefault", "update")
for _name in (*_READING, *_WRITING):
    setattr(HandedOut, _name, _noted(getattr(dict, _name)))
HandedOut.__copy__ = HandedOut.copy  # type: ignore[attr-defined]


@dataclasses.dataclass(frozen=True)
class Setting:
    """What the modules of one network share."""

    dtype: str
    trainable: bool  # weights are parameters
    owner: Weights  # the network's module, which holds the registers


def dtype_name(dtype: torch.dtype | str, known: Sequence[str] = tuple(DTYPES)) -> str:
    """What a network calls a dtype: torch.float32, "float32" and "torch.float32" are one."""
    for name in known:
        if dtype in (DTYPES[name], name, f"torch.{name}"):
            return name
    *first, last = (f"torch.{name}" for name in known)
    short = str(getattr(dtype, "__name__", dtype)).removeprefix("torch.").lower()
    meant = next((name for name in known if short in _SPELLED[name]), None)
    instead = f"; write dtype={meant!r}" if meant is not None else ""
    raise ValueError(f"dtype must be {', '.join(first)} or {last}, not {dtype!r}{instead}")


#: What a module takes that holds no array: the dictionaries of torch.
_BYTES_OF_A_MODULE = 2**13


class Weights(nn.Module):
    """A part of a network that runs. `was`: the part that it was built from; `read_back` says what it is now.

    Weights may move to a device and are never cast: the certificate is about these numbers.
    """

    was: Any

    def __init__(self, was: Any) -> None:
        hold(_BYTES_OF_A_MODULE, each=1)
        super().__init__()
        self.__dict__["_buffers"] = HandedOut()
        self.__dict__["was"] = was

    def keep(self, dtype: str, trainable: bool, *names: str) -> None:
        """Hold these arrays of `was` as weights. The last step of building: nothing was handed out so far."""
        self.__dict__["_kind"] = DTYPES[dtype]
        for name in names:
            array = getattr(self.was, name)
            hold(0 if array is None else array.size)
            truths = array is not None and array.dtype == np.bool_
            tensor = None if array is None else torch.tensor(array, dtype=torch.bool if truths else DTYPES[dtype])
            if trainable and tensor is not None and not truths:
                self.register_parameter(name, nn.Parameter(tensor))
            else:
                self.register_buffer(name, tensor)
        self._buffers.out = False  # type: ignore[attr-defined]

    def weight(self, name: str) -> Tensor | None:
        """A weight for this module's own use, which does not hand it out."""
        found = dict.get(self._buffers, name)
        return found if found is not None else self._parameters.get(name)

    def matrix(self, name: str) -> Tensor:
        """The same for one that must be there."""
        found = self.weight(name)
        if found is None:
            raise WeightwrightError(
                f"put {name} of this {type(self).__name__} back, or build or load the network again: the weight was"
                " deleted, or parametrized, and the network cannot run without it"
                f" (torch.nn.utils.parametrize.remove_parametrizations(module, {name!r}) takes a parametrization away)"
            )
        return found

    @property
    def handed(self) -> bool:
        """Whether a weight or an attribute may have been changed."""
        return bool(self._buffers.out or self._parameters)  # type: ignore[attr-defined]

    def _kept(self) -> Any:
        """What `derive` returns, for this module's own use: kept while nothing can have changed."""
        if torch.compiler.is_compiling() or self.handed:
            return self.derive()
        if "_derived" not in self.__dict__:
            with without_transforms():
                self.__dict__["_derived"] = self.derive()
        return self.__dict__["_derived"]

    def belong_to(self, owner: Weights) -> None:
        """Read the registers of this network from now on: a part may have been taken from another one."""
        if self.__dict__.get("_owner", owner) is not owner:
            self.__dict__["_owner"] = owner
            self.__dict__.pop("_derived", None)

    def derive(self) -> Any:
        raise NotImplementedError

    def parts(self) -> dict[str, Any]:
        """The fields of `was` that can be changed, as they are now; those that did not change are the same objects."""
        raise NotImplementedError

    def read_back(self) -> Any:
        """The part of the network that runs now: `was` itself if nothing changed."""
        self.__dict__.pop("_derived", None)
        now = self.parts()
        if all(is_same(value, getattr(self.was, name)) for name, value in now.items()):
            return self.was
        self._buffers.out = True  # type: ignore[attr-defined]
        return dataclasses.replace(self.was, **now)

    def array(self, name: str) -> npt.NDArray[Any] | None:
        """A weight as the network has it: the array of `was` if every bit is the same."""
        tensor, before = self.weight(name), getattr(self.was, name)
        if tensor is None:
            return None
        if type(tensor) not in (Tensor, nn.Parameter) or tensor.is_meta:
            what = "is on the meta device, without numbers" if tensor.is_meta else f"became a {type(tensor).__name__}"
            raise WeightwrightError(f"{name} {what}")
        if is_transformed(tensor):
            raise WeightwrightError(f"{name} is inside torch.vmap or another transform, without numbers of its own")
        plain = tensor.detach().cpu()
        if plain.dtype not in (self.__dict__["_kind"], torch.bool):
            raise WeightwrightError(f"{name} became {plain.dtype} in a network of {self.__dict__['_kind']}")
        now = plain.numpy() if plain.dtype == torch.bool else plain.double().numpy()
        same = before is not None and now.shape == before.shape and now.dtype == before.dtype
        return before if same and now.tobytes() == before.tobytes() else now

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name != "training" and isinstance(self._buffers, HandedOut):
            self._buffers.out = True

    def __delattr__(self, name: str) -> None:
        super().__delattr__(name)
        self._buffers.out = True  # type: ignore[attr-defined]

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Weights:
        held = [*dict.values(self._buffers), *self._parameters.values()]
        for weight in held:
            if weight is not None and weight.is_floating_point() and fn(weight[:0]).dtype != weight.dtype:
                raise TypeError(
                    f"the weights are {weight.dtype} and stay so: the certificate is about them;"
                    " approximate with another dtype instead"
                )
        out = self._buffers.out  # type: ignore[attr-defined]
        super()._apply(fn, recurse)
        shared = any(one is not None and one.is_shared() and not one.is_cuda for one in dict.values(self._buffers))
        self._buffers.out = out or shared  # type: ignore[attr-defined]  # another process may write to it
        for name in ("_derived", "_plan"):  # they stand on the device that the weights came from
            self.__dict__.pop(name, None)
        return self


def is_hooked(module: nn.Module) -> bool:
    """Whether somebody looks at what this module gets or returns, or at its gradients."""
    own = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
    return any(own) or torch_modules._has_any_global_hook()


def has_transformed(module: nn.Module) -> bool:
    """Whether a weight of this module stands for others while torch transforms a function (torch.vmap, grad)."""
    held = (*dict.values(module._buffers), *module._parameters.values())
    return any(one is not None and is_transformed(one) for one in held)


def can_be_read(weight: Tensor) -> bool:
    """Whether its numbers are known now: not while torch traces the module, or transforms what stands in its place."""
    return not torch.compiler.is_compiling() and not is_transformed(weight)


@contextmanager
def without_transforms() -> Iterator[None]:
    """What is computed here from plain tensors may be kept: it belongs to no transform and no inference mode."""
    with torch._C._DisableFuncTorch(), torch.inference_mode(False):
        yield


def is_same(now: Any, before: Any) -> bool:
    """Whether a field did not change: the same array, equal plain data, or a tuple of the same parts."""
    if isinstance(now, tuple) and isinstance(before, tuple):
        return len(now) == len(before) and all(map(is_same, now, before))
    plain = isinstance(now, bool | int | float | str)
    return now is before or (plain and type(now) is type(before) and now == before)


def part_of(module: nn.Module, kinds: tuple[type, ...], where: str) -> Any:
    """What a module inside says it is now; WeightwrightError where it is none of ours."""
    if type(module) not in kinds:
        raise WeightwrightError(f"{where} is a {type(module).__name__}, which is no part of a network")
    return module.read_back()  # type: ignore[operator]
