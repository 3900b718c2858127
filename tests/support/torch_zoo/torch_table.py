"""Expressions of torch, from torch's own tables of functions: each with arguments that torch itself takes.

An expression is a function of one tensor (4, 3). What it returns, and what it leaves of its input, is put in one line
of numbers, so that every shape can be compared.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

Function = Callable[[Any], Any]

TOKENS, FEATURES = 4, 3
#: Two boxes of inputs: functions such as log, acos and poisson take one of them only.
BOXES = ((0.15, 0.85), (-2.0, 2.0))
_W = torch.randn(3, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
_DTYPES = (torch.int64, torch.int8, torch.float16, torch.bfloat16, torch.float32, torch.float64)
#: Further arguments by torch's names of them; what is not listed is tried with _OTHERS.
_NAMED: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("other", "tensor1", "tensor2", "tensor", "target", "end", "vec2", "y", "value", "x2"), ("x", 0.5)),
    **dict.fromkeys(("mat2", "weight", "b", "B", "vec", "batch1", "batch2", "mat1"), ("W", "x")),
    **dict.fromkeys(("dim", "axis", "dim0", "dims", "start_dim"), (1, 0)),
    **dict.fromkeys(("mask", "condition"), ("m",)),
    **dict.fromkeys(("index", "indices"), ("i",)),
    **dict.fromkeys(("size", "shape"), ((12,), (4, 3))),
    **dict.fromkeys(("kernel_size", "output_size"), (1, 2)),
    **dict.fromkeys(("tensors", "arrays"), ("xs",)),
    "dtype": _DTYPES,
    "normalized_shape": ((3,),),
    "ord": (2, 1, "fro", "nuc", float("inf"), -1, 0.5),
    "p": (2, 1, float("inf"), 3),
    "rounding_mode": ("floor", "trunc"),
    "threshold": (0.2, 50.0),
    "beta": (3.0,),
    "alpha": (0.5,),
    "eps": (0.2,),
    "approximate": ("tanh",),
    "dim": (1, 0, (0, 1)),
}
_OTHERS: tuple[Any, ...] = (1, 2, 0.3, "x", True, (0, 1))
#: Arguments that are not needed, and are given one at a time.
_OPTIONAL = (
    *("dtype", "keepdim", "dim", "unbiased", "correction", "rounding_mode", "inplace", "ord", "p", "threshold", "beta"),
    *("alpha", "eps", "approximate", "descending", "diagonal", "offset", "other", "value"),
)
#: Not functions of numbers: they look at memory, devices, gradients or files, or end the process when misused.
_LEFT_OUT = (
    *("__get__", "__set__", "__delete__", "backward", "retain_grad", "register_hook", "share_memory_", "set_"),
    *("storage", "untyped_storage", "__repr__", "__format__", "apply_", "map_", "map2_", "resize_", "resize_as_"),
    *("__dlpack__", "__reduce_ex__", "__deepcopy__", "requires_grad_", "cuda", "xpu", "pin_memory", "resize"),
    *("_make_subclass", "__setstate__", "module_load", "ipu", "rename_", "rename", "align_to", "refine_names"),
    *("_rnn_impl", "_unique2", "record_stream", "empty_like", "new_empty", "new_empty_strided", "empty_strided"),
)
_LEFT_OUT_STARTS = ("_", "cudnn", "miopen", "mkldnn", "quantize", "sparse", "to_", "fbgemm")


def table_expressions() -> dict[str, tuple[Function, tuple[float, float]]]:
    """By name: every overridable torch function that torch runs on the input with some of our arguments."""
    found: dict[str, tuple[Function, tuple[float, float]]] = {}
    signatures = torch.overrides.get_testing_overrides()
    with warnings.catch_warnings(), torch.random.fork_rng():
        warnings.simplefilter("ignore")
        for space, functions in torch.overrides.get_overridable_functions().items():
            for function in functions:
                name = getattr(function, "__name__", "")
                if (
                    not name
                    or name in _LEFT_OUT
                    or name.startswith(("_", "cudnn", "miopen", "mkldnn", "quantize", "sparse", "to_", "fbgemm"))
                ):
                    continue
                home = getattr(space, "__name__", str(space)).removeprefix("torch.")
                asked = _method(name) if space is torch.Tensor else function
                for said, expression, box in _variants(asked, signatures.get(function)):
                    found[f"{home}.{name}({said})"] = (expression, box)
    return found


def _method(name: str) -> Callable[..., Any]:
    return lambda x, *args, **kwargs: getattr(x, name)(*args, **kwargs)


def _variants(function: Any, signature: Any) -> Iterator[tuple[str, Function, tuple[float, float]]]:
    """Positional arguments that torch takes, then each keyword with each of its values."""
    positional = next(_accepted(function, _argument_lists(signature), {}), None)
    if positional is None:
        return
    said, args, box = positional
    yield said, applied(function, args, {}), box
    for key in _keywords(signature):
        for value in _NAMED.get(key, (True,)):
            given = {key: _argument(value, None) if value in ("W", "m", "i") else value}
            for _, _, box in _accepted(function, [args], given):
                yield f"{said}, {key}={value}", applied(function, args, given), box


def _keywords(signature: Any) -> list[str]:
    if signature is None:
        return []
    names = [p.name for p in inspect.signature(signature).parameters.values() if p.default is not p.empty]
    return [name for name in names if name in _OPTIONAL]


def _argument_lists(signature: Any) -> Iterator[list[Any]]:
    names: list[str] = []
    if signature is not None:
        parameters = inspect.signature(signature).parameters.values()
        names = [p.name for p in parameters if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
    first = _NAMED.get(names[0], ("x",)) if names else ("x",)
    for start in dict.fromkeys([*(v for v in first if isinstance(v, str)), "x"]):
        lists: list[list[Any]] = [[start]]
        for name in names[1:4]:
            lists = [[*given, value] for given in lists for value in _NAMED.get(name, _OTHERS)]
        yield from lists
    yield from ([["x"], ["x", 1], ["x", "x"], ["x", 0.5], ["x", "W"], ["x", 0, 1]])


def _accepted(
    function: Any, lists: Any, kwargs: dict[str, Any]
) -> Iterator[tuple[str, list[Any], tuple[float, float]]]:
    """The arguments with which torch returns finite numbers on one of the boxes."""
    for args in lists:
        for box in BOXES:
            x = torch.linspace(*box, TOKENS * FEATURES, dtype=torch.float64).reshape(TOKENS, FEATURES)
            try:
                y = applied(function, args, kwargs)(x)
            except Exception:  # whatever torch raises: these arguments are not for this function
                continue
            if y.numel() and torch.isfinite(y).all():
                yield ", ".join(map(str, args)), args, box
                break


def applied(function: Any, args: list[Any], kwargs: dict[str, Any]) -> Function:
    """The function of a copy of the input; then the copy, to see what is left of it."""

    def expression(x: Any) -> Any:
        own = x.clone()
        given = [_argument(arg, own) for arg in args]
        result = function(*given, **kwargs)
        return in_a_line(result, own)

    return expression


def _argument(arg: Any, x: Any) -> Any:
    if arg == "x":
        return x
    if arg == "xs":
        return (x, x.flip(0))
    if arg == "W":
        return _W
    if arg == "m":
        return torch.arange(12).reshape(4, 3) % 3 == 0
    if arg == "i":
        return torch.arange(12).reshape(4, 3) % 3
    return arg


def in_a_line(*results: Any) -> Any:
    parts: list[Any] = []
    stack = list(results)
    while stack:
        result = stack.pop(0)
        if isinstance(result, list | tuple):
            stack = [*result, *stack]
        elif isinstance(result, bool | int | float):
            parts.append(torch.tensor([float(result)], dtype=torch.float64))
        else:
            parts.append(result.reshape(-1))
    return torch.cat(parts)
