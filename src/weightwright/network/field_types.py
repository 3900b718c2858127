"""What a field of a stored dataclass may hold, read off its annotation. A file's word is not taken for it."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Any, Literal

import numpy as np

#: A value that is shown in a message is cut off after this number of characters.
_SHOWN = 60


class MistypedError(TypeError):
    """A field holds what its annotation does not allow."""


def agree_types(owner: Any, given: Mapping[str, Any], left_out: tuple[str, ...] = ()) -> None:
    """MistypedError, naming the field, unless every field of the dataclass holds what its annotation says, but for
    those left out. given: the fields as they were stored; arrays must have their dtype before the dataclass makes them
    its own."""
    kind: type = type(owner)
    for name, hint in _hints(kind).items():
        if f"{kind.__name__}.{name}" in left_out:
            continue
        value, stored = getattr(owner, name), given.get(name)
        right = _fits(value, hint) and (not isinstance(stored, np.ndarray) or stored.dtype == value.dtype)
        if not right:
            shown = _shown(value) if not isinstance(stored, np.ndarray) else f"an array of {stored.dtype}"
            raise MistypedError(f"{kind.__name__}.{name} is {shown[:_SHOWN]}, which is no {_in_words(hint)}")


def _shown(value: Any) -> str:
    """A number or a text; of anything else the type: what it holds may be shared, and far larger written out."""
    if isinstance(value, str):
        return repr(value[:_SHOWN])
    return repr(value) if value is None or isinstance(value, int | float) else f"a {type(value).__name__}"


@cache
def _hints(kind: type) -> dict[str, Any]:
    """The annotation of every field, looked up."""
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}


def _fits(value: Any, hint: Any) -> bool:
    origin, options = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, option) for option in options)
    if origin is Literal:  # which of them is for laws and rules to say
        return type(value) is str
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        if len(options) == 2 and options[1] is Ellipsis:
            first = options[0]
            return all(type(item) is first or _fits(item, first) for item in value)
        return len(value) == len(options) and all(map(_fits, value, options))
    number = _number_of_arrays(hint)
    if number is not None:
        return isinstance(value, np.ndarray) and value.dtype == number
    if hint in (Any, object):
        return True
    if hint is float:  # a whole number of more bits than a float has would be another one where it is used
        return type(value) is float or (type(value) is int and _is_float(value))
    if "any_kind" in vars(hint):  # of a base of kinds any kind will do
        return isinstance(value, hint)
    return type(value) is hint


def _number_of_arrays(hint: Any) -> Any:
    """The type of the numbers of `NDArray[type]`; None for what is no array. To older versions of numpy that is an
    alias of ndarray[shape, dtype[type]], to newer ones a name of its own."""
    origin, options = typing.get_origin(hint), typing.get_args(hint)
    if origin is np.ndarray:
        return typing.get_args(options[1])[0]
    return options[0] if getattr(origin, "__name__", "") == "NDArray" else None


def _is_float(value: int) -> bool:
    return abs(value) < 2**1023 and float(value) == value


def _in_words(hint: Any) -> str:
    number = _number_of_arrays(hint)
    if number is not None:
        return f"array of {number.__name__}"
    return hint.__name__ if isinstance(hint, type) and not typing.get_args(hint) else str(hint).replace("typing.", "")
