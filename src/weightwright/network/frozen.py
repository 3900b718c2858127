"""Dataclasses that own their arrays and cannot be changed, and arrays that are mostly zeros without these."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from weightwright.numbers import Floats


@dataclass(frozen=True, eq=False)
class Sparse:
    """The numbers of an array that are not 0, with their positions row by row. -0.0 is not 0: all bits count."""

    shape: tuple[int, ...]
    positions: npt.NDArray[np.int32]
    numbers: Floats

    def dense(self) -> Floats:
        array = np.zeros(self.shape)
        array.reshape(-1)[self.positions] = self.numbers
        return array


def sparse(array: Floats) -> Sparse | None:
    """The array without its zeros, where that takes fewer bytes: 12 for each number instead of 8 for all."""
    flat = np.ascontiguousarray(array).reshape(-1)
    places = np.flatnonzero(flat.view(np.int64))
    if 3 * len(places) >= 2 * flat.size or flat.size > 2**31:
        return None
    return Sparse(array.shape, places.astype(np.int32), flat[places])


def freeze(array: npt.NDArray[Any], kind: type[np.generic]) -> npt.NDArray[Any]:
    """The array as bytes, which no flag makes writeable again; itself, if it is that already."""
    held: object = array.base.base if isinstance(array.base, np.ndarray) else array.base
    safe = isinstance(held, bytes) and not array.flags.writeable  # a pickle writes to bytes
    if safe and array.dtype == kind and array.flags.c_contiguous:
        return array
    if array.size:
        return np.frombuffer(np.asarray(array, dtype=kind, order="C").tobytes(), dtype=kind).reshape(array.shape)
    empty: npt.NDArray[Any] = np.array(array, dtype=kind)
    empty.flags.writeable = False
    return empty


class Frozen:
    """Turns every array into a float64 array that nobody can write to; a mask stays one of truth values. An array that
    is one already is kept: what several fields name is held once. The repr names arrays by their shapes."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__repr__" not in cls.__dict__:
            setattr(cls, "__repr__", _shapes)  # noqa: B010  # a dataclass keeps a repr that is there

    def __post_init__(self) -> None:
        for part in fields(self):  # type: ignore[arg-type]
            value = getattr(self, part.name)
            if isinstance(value, np.ndarray):
                own = freeze(value, np.bool_ if part.name == "mask" else np.float64)
                object.__setattr__(self, part.name, own)

    def __getstate__(self) -> dict[str, Any]:
        """For pickles and copies: zeros take no bytes."""
        floats = {name: value for name, value in vars(self).items() if getattr(value, "dtype", None) == np.float64}
        return vars(self) | {name: sparse(array) or array for name, array in floats.items()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            own = value.dense() if isinstance(value, Sparse) else value
            if isinstance(own, np.ndarray):
                own = freeze(own, own.dtype.type)
            object.__setattr__(self, name, own)


def _shapes(self: Frozen) -> str:
    def short(value: Any) -> str:
        if isinstance(value, np.ndarray):
            if value.ndim == 0:
                return repr(value.item())
            return f"array of {' x '.join(map(str, value.shape))}"
        return f"{len(value)} of them" if isinstance(value, tuple) and len(value) > 4 else repr(value)

    told = (f"{part.name}={short(getattr(self, part.name))}" for part in fields(self))  # type: ignore[arg-type]
    return f"{type(self).__name__}({', '.join(told)})"
