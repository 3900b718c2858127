"""The symbolic tensor that a traced function is called with, and how torch's operations reach it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, NoReturn, TypeVar

import numpy as np
import torch

from weightwright.errors import FormulaError
from weightwright.tracing.advice import ATTRIBUTES, COMPARED, EXACT, advice
from weightwright.tracing.elementary import torch_name
from weightwright.tracing.sheet import Codes, Sheet
from weightwright.tracing.user_source import line, refuse

H = TypeVar("H", bound=Callable[..., Any])

#: What every operation does, by the name that `torch_name` gives.
OPERATIONS: dict[str, Callable[..., Any]] = {}
#: Those that look at a dtype themselves: conversions, and constants like a tensor.
TAKE_DTYPES = ("to", "type", "zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full", "new_tensor")


def operation(*names: str) -> Callable[[H], H]:
    """Registers what a torch operation does. The parameters are called as torch calls them."""

    def register(handler: H) -> H:
        OPERATIONS.update(dict.fromkeys(names, handler))
        return handler

    return register


def called(function: Any, args: Sequence[Any], kwargs: dict[str, Any] | None = None) -> Any:
    """A torch function of traced tensors."""
    name, kwargs = torch_name(function), dict(kwargs or {})
    for value in [*args, *kwargs.values()]:
        if isinstance(value, Unusable) and not isinstance(value, Truth):
            value.refuse_in(name)
        if isinstance(value, Truth):
            return value.used_in(name, args, kwargs)
    sheet = _sheet_of([*args, *kwargs.values()])
    for value in args:
        if isinstance(value, Traced) and (waiting := value.then(name, args, kwargs)) is not None:
            return waiting
    if name not in OPERATIONS:
        raise refuse(f"torch's {name} cannot be traced", advice(name))
    handler, in_place = OPERATIONS[name], kwargs.pop("inplace", False)
    if name not in TAKE_DTYPES:
        _keep_float64(name, args, kwargs)
    if "axis" in kwargs:
        kwargs["dim"] = kwargs.pop("axis")
    try:
        _signature(handler).bind(*args, **kwargs)
        with sheet.operation(name):
            result, label = handler(*args, **kwargs), sheet.label
    except TypeError as error:
        raise refuse(f"{name} is called in a way that cannot be traced: {error}", "leave that argument out") from error
    except FormulaError as error:
        raise FormulaError(f"{name}{line()}: {error}") from error
    except (ValueError, IndexError, RuntimeError) as error:
        shapes = ", ".join(str(tuple(x.shape)) for x in _tensors([*args, *kwargs.values()]))
        counted = f"; the function was traced with {sheet.n} tokens because tokens was not given" if sheet.free else ""
        said = f"{name} of shapes {shapes} fails: {error}".rstrip()
        raise refuse(said, f"check the shapes{counted}", torch_too=True) from error
    result = args[0].overwritten(result) if in_place else result
    traced = [tensor for tensor in _tensors([result]) if isinstance(tensor, Traced)]
    made = [tensor.codes for tensor in traced]
    for tensor in traced if not sheet.label else ():
        sheet.name(label, tensor.codes, tensor.token_axis)
    if sheet.steps is not None and not sheet.label and made:
        sheet.steps.append((name, made))
    return result


def _keep_float64(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """No operation computes in another dtype than the input's: that rounds, or cuts off."""
    for value in [*args, *kwargs.values()]:
        if isinstance(value, torch.dtype) and value != torch.float64:
            raise refuse(f"{name} with dtype={value} cannot be traced", f"{EXACT}: leave dtype out")
    kwargs.pop("dtype", None)


@cache
def _signature(handler: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(handler)


def _tensors(values: Any) -> Iterator[Any]:
    for value in values:
        if isinstance(value, Traced | torch.Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)


def _sheet_of(values: Any) -> Sheet:
    sheets = [value.sheet for value in _tensors(values) if isinstance(value, Traced)]
    if any(sheet is not sheets[0] for sheet in sheets):
        raise refuse("a tensor of an earlier call is used", "keep no tensors between calls of the function")
    return sheets[0]


class _Memory:
    """What tensors share that view the same numbers: how often these were overwritten."""

    def __init__(self) -> None:
        self.writes = 0


class Traced:
    """A tensor of columns. token_axis: the axis along which the elements belong to token 0, 1, ..., if there is one."""

    dtype = torch.float64
    device = torch.device("cpu")
    layout = torch.strided
    requires_grad = is_nested = is_cuda = is_sparse = is_quantized = False

    def __init__(self, sheet: Sheet, codes: Codes, token_axis: int | None, memory: _Memory | None = None) -> None:
        self.sheet = sheet
        self.token_axis = token_axis
        self.memory = memory or _Memory()
        self._codes = codes
        self._writes = self.memory.writes

    @property
    def codes(self) -> Codes:
        if self._writes != self.memory.writes:
            raise refuse(
                "a tensor is used after another one that shares its numbers was changed in place",
                "write y = y + 1 in place of y += 1, and no inplace=True",
            )
        return self._codes

    def overwritten(self, result: Traced) -> Traced:
        """This tensor with new numbers. Others that look at the old ones may not be used any more."""
        if result.shape != self.shape:
            raise refuse(f"an operation in place turns shape {tuple(self.shape)} into {tuple(result.shape)}")
        self._codes, self.token_axis = result.codes, result.token_axis
        self.memory.writes += 1
        self._writes = self.memory.writes
        return self

    def renumbered(self, codes: Codes) -> Traced:
        """This tensor with other columns that hold the same numbers; what looks at the old ones stays as it is."""
        self._codes = codes
        return self

    def then(self, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Traced | None:
        """What an operation makes of a tensor that waits to be computed; None if it is computed first."""
        return None

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return called(func, args, kwargs)

    @property
    def shape(self) -> torch.Size:
        return torch.Size(self._codes.shape)

    @property
    def ndim(self) -> int:
        return self._codes.ndim

    def dim(self) -> int:
        return self.ndim

    ndimension = dim

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[dim]

    def numel(self) -> int:
        return self._codes.size

    nelement = numel

    def is_floating_point(self) -> bool:
        return True

    @property
    def T(self) -> Any:  # noqa: N802  (torch's name)
        return called("permute", (self, tuple(reversed(range(self.ndim)))))

    @property
    def mT(self) -> Any:  # noqa: N802  (torch's name)
        return called("transpose", (self, -2, -1))

    @property
    def data(self) -> Traced:
        return self

    def __len__(self) -> int:
        if not self.ndim:  # torch.tensor([y]) asks for it
            raise refuse("a single traced number was taken for a list", "use torch.stack in place of torch.tensor")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return iter(called("unbind", (self,)))

    def __getitem__(self, index: Any) -> Any:
        return called("getitem", (self, index))

    def __setitem__(self, index: Any, value: Any) -> None:
        raise refuse("an element is assigned to", "build the tensor with torch.stack or torch.cat of its parts")

    def __copy__(self) -> Traced:
        return Traced(self.sheet, self.codes, self.token_axis, self.memory)

    def __deepcopy__(self, memo: Any) -> Any:
        return called("clone", (self,))

    def __repr__(self) -> str:
        return f"Traced(shape={tuple(self.shape)})"

    def __bool__(self) -> bool:
        raise refuse("the function decides by the value of its input", COMPARED)

    __hash__ = object.__hash__

    def _number(self, *args: Any) -> NoReturn:
        raise refuse("a plain number was asked for (math.sin, float() and the like do that)", advice("item"))

    __float__ = __int__ = __index__ = __complex__ = _number

    def _array(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise refuse("a numpy array was asked for", "use the torch function of the same name")

    __array__ = __array_function__ = _array

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """A numpy array or number stands left of an operator, or a numpy function is called."""
        if ufunc not in _UFUNCS or method != "__call__" or kwargs:
            raise refuse(f"numpy's {ufunc.__name__} cannot be traced", f"use torch.{ufunc.__name__} or the like")
        return called(_UFUNCS[ufunc], inputs)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_") or not hasattr(torch.Tensor, name):
            raise AttributeError(f"a tensor has no attribute {name!r}")
        if not callable(getattr(torch.Tensor, name)):
            raise refuse(f"the attribute .{name} of a traced tensor was asked for", ATTRIBUTES.get(name, ""))
        return lambda *args, **kwargs: called(name, (self, *args), kwargs)


class Unusable:
    """A value that cannot be known under trace, such as the result of a comparison: whatever uses it is refused."""

    def __init__(self, what: str, instead: str) -> None:
        self._refusal = (what, instead)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> NoReturn:
        found = [value for value in [*args, *(kwargs or {}).values()] if isinstance(value, cls)]
        found[0].refuse_in(torch_name(func))

    def refuse_in(self, name: str) -> NoReturn:
        what, instead = self._refusal
        raise refuse(f"torch's {name}: {what}", instead)

    def _used(self, *args: Any) -> NoReturn:
        raise refuse(*self._refusal)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        self._used()


class Truth(Unusable):
    """Whether gap > 0, element by element: it switches between numbers (torch.where), or is 1 or 0."""

    def __init__(self, gap: Traced) -> None:
        super().__init__("the function decides by the value of its input (an if, a while, a mask)", COMPARED)
        self.gap = gap

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return called(func, args, kwargs)

    def used_in(self, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        if name in ("where", "masked_fill") and not kwargs and len(args) == 3:
            return self.switch(name, *(args[1:] if name == "where" else (args[2], args[0])))
        if name in ("logical_not", "bitwise_not", "invert"):
            return Truth(called("neg", (self.gap,)))
        if name in ("double", "float", "to", "type", "type_as"):
            return self.switch(name, 1.0, 0.0)
        if name in ("mul", "rmul") and any(isinstance(value, Traced) for value in args):
            return self.switch("mul", next(value for value in args if value is not self), 0.0)
        self.refuse_in(name)

    def switch(self, name: str, above: Any, below: Any) -> Any:
        with self.gap.sheet.operation(name):
            return called("switch", (self.gap, above, below))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: called(name, (self, *args), kwargs)


def _operator(name: str) -> Callable[..., Any]:
    return lambda self, *others: called(name, (self, *others))


def _in_place(name: str) -> Callable[[Traced, Any], Traced]:
    return lambda self, other: self.overwritten(called(name, (self, other)))


for _name in ("add", "sub", "mul", "truediv", "pow", "matmul"):
    setattr(Traced, f"__{_name}__", _operator(torch_name(_name)))
    setattr(Traced, f"__r{_name}__", _operator(torch_name(f"r{_name}")))
    setattr(Traced, f"__i{_name}__", _in_place(torch_name(_name)))
for _name in ("neg", "abs", "lt", "le", "gt", "ge", "eq", "ne", "mod", "floordiv"):
    setattr(Traced, f"__{_name}__", _operator(_name))
_USES = ("bool", "invert", "and", "or", "xor", "rand", "ror", "add", "radd", "sub", "rsub", "mul", "rmul", "float")
for _name in (*_USES, "int", "index", "iter", "getitem", "eq", "lt", "le", "gt", "ge"):
    setattr(Unusable, f"__{_name}__", Unusable._used)
for _name in ("invert", "mul", "rmul"):
    setattr(Truth, f"__{_name}__", _operator(_name))

#: The numpy functions that an array or number on the left of an operator calls.
_UFUNCS: dict[Any, str] = {
    **{np.add: "add", np.subtract: "sub", np.multiply: "mul", np.true_divide: "div", np.power: "pow"},
    **{np.matmul: "matmul", np.less: "lt", np.less_equal: "le", np.greater: "gt", np.greater_equal: "ge"},
}
