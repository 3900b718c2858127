"""Frozen dataclasses as plain data: a JSON structure and three pools of numbers, and back. docs/format.md

Every dataclass is an item, a row of its type's number and its fields, and stands after the items that it holds. Equal
items and equal arrays are stored once; of an array that is mostly zeros the others are stored with their positions.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from weightwright.errors import FileFormatError, MalformedCertificateError
from weightwright.input_files import MOST_AXES
from weightwright.limits import hold, tick
from weightwright.network.field_types import MistypedError, agree_types
from weightwright.network.frozen import Sparse, freeze, sparse
from weightwright.network.layers import Attention, FeedForward, Head, Linear, Loop, Ramps, Sees, Softmax, Term
from weightwright.network.network import Network
from weightwright.network.token_maps import Block, Gather, Mixed, Total

Array = npt.NDArray[Any]
Pools = dict[str, Array]

NETWORK_TYPES: Mapping[str, type] = {
    kind.__name__: kind
    for kind in (
        Attention, Block, FeedForward, Gather, Head, Linear, Loop, Mixed, Network, Ramps, Sees, Softmax, Term, Total,
    )
}  # fmt: skip
#: Numbers that the contents of a small file may come to when nothing is shared and every zero is written: 2 GiB of
#: float64. For every stored number of a large one there may be this many more.
LARGEST, MORE = 2**28, 2**10
#: Numbers that an item counts as, for the time that its object takes: at most a million are built.
ITEM = 2**8
#: What an array takes while it is compared with what it must be: itself, a copy in the dtype, what is true of it.
_COPIES = 3
#: Fields of which the checker says what it thinks of their type: it has a rule for each that it knows.
BY_TYPE = ("Certificate.claim",)
#: Pools by name. A position is that of a number in its array, row by row.
POOLS = {"floats": np.float64, "positions": np.int32, "truths": np.bool_}
DECODING_ERRORS = (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError, OverflowError)


class ArrayWriter:
    """Arrays side by side in pools. `rows` says of each how it stands there: [kind, stored numbers, *shape]."""

    def __init__(self) -> None:
        self.rows: list[list[Any]] = []
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._known: dict[int, tuple[int, Array]] = {}  # by identity: numbers of arrays that several fields hold
        self._stored: dict[str, list[Array]] = {name: [] for name in POOLS}

    def put(self, array: Array) -> int:
        """The number of this array, which is a new one only if no equal one is there."""
        if id(array) not in self._known:
            self._known[id(array)] = self._put(array), array
        return self._known[id(array)][0]

    def _put(self, array: Array) -> int:
        tick()
        parts = _parts(array)
        stored = len(next(iter(parts.values())))
        key = (array.shape, *((name, part.tobytes()) for name, part in parts.items()))
        if key not in self._numbers:
            self._numbers[key] = len(self.rows)
            kind = "sparse" if len(parts) > 1 else "dense" if "floats" in parts else "bools"
            self.rows.append([kind, stored, *array.shape])
            for name, part in parts.items():
                self._stored[name].append(part)
        return self._numbers[key]

    def pools(self) -> Pools:
        return {name: np.concatenate([np.zeros(0, kind), *self._stored[name]]) for name, kind in POOLS.items()}


def _parts(array: Array) -> Pools:
    """What goes to which pool."""
    if array.dtype == np.bool_:
        return {"truths": array.reshape(-1)}
    if array.dtype != np.float64:
        raise TypeError(f"an array of {array.dtype}; only float64 and bool are stored")
    short = sparse(array)
    return {"floats": array.reshape(-1)} if short is None else {"floats": short.numbers, "positions": short.positions}


def encode(value: Any, arrays: ArrayWriter) -> Any:
    """The structure of a dataclass, its arrays being put where all go."""
    types: dict[type, tuple[int, list[str]]] = {}
    items: list[list[Any]] = []
    numbers: dict[str, int] = {}  # of items by their texts
    known: dict[int, int] = {}  # and by the identity of what they are made of

    def plain(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return {"array": arrays.put(value)}
        if is_dataclass(value):
            if id(value) in known:
                return {"item": known[id(value)]}
            if type(value) not in types:
                types[type(value)] = (
                    len(types),
                    [field.name for field in fields(value) if field.metadata.get("stored", True)],
                )
            kind, names = types[type(value)]
            row = [kind, *(plain(getattr(value, name)) for name in names)]
            number = numbers.setdefault(in_json(row), len(items))
            if number == len(items):
                items.append(row)
            known[id(value)] = number
            return {"item": number}
        if isinstance(value, tuple):
            return [item if type(item) in (int, str) else plain(item) for item in value]
        if isinstance(value, float) and not math.isfinite(value):
            return {"float": str(float(value))}
        return value

    plain(value)
    return {"types": [[kind.__name__, *names] for kind, (_, names) in types.items()], "items": items}


def in_json(value: Any) -> str:
    """The one text of plain data. Every float comes back as it was."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


class ArrayReader:
    """The arrays of `ArrayWriter`, made when asked for. FileFormatError for rows that do not fit the pools."""

    def __init__(self, rows: Any, pools: Pools) -> None:
        self.left = LARGEST + MORE * sum(map(len, pools.values()))  # numbers that may still be asked for
        self._pools = {name: pools.get(name, np.zeros(0, kind)) for name, kind in POOLS.items()}
        for name, pool in pools.items():
            if name not in POOLS or pool.dtype != POOLS[name] or pool.ndim != 1:
                raise FileFormatError(f"{name!r} is no pool of {', '.join(POOLS)}")
        self._found: dict[int, Array] = {}
        self._named: set[int] = set()
        self._rows: list[tuple[str, int, tuple[int, ...], Mapping[str, int]]] = []
        taken = dict.fromkeys(POOLS, 0)
        for row in rows if isinstance(rows, list) else [rows]:
            kind, stored, shape = _checked_row(row)
            self._rows.append((kind, stored, shape, dict(taken)))
            for name in _POOLS_OF[kind]:
                taken[name] += stored
        for name, pool in self._pools.items():
            if taken[name] != len(pool):
                raise FileFormatError(f"the arrays take {taken[name]} of {len(pool)} {name}")

    def spend(self, numbers: int) -> None:
        """FileFormatError once more numbers were asked for than a file of this size may come to."""
        self.left -= numbers
        if self.left < 0:
            raise FileFormatError("the contents would have far more numbers than the file")

    def size(self, number: Any) -> int:
        if type(number) is not int or not 0 <= number < len(self._rows):
            raise FileFormatError(f"there is no array {number!r}")
        self._named.add(number)
        return math.prod(self._rows[number][2])

    def all_are_named(self) -> None:
        """FileFormatError for arrays that nothing in the file holds."""
        unused = sorted(set(range(len(self._rows))) - self._named)
        if unused:
            raise FileFormatError(f"array {unused[0]} of shape {self._rows[unused[0]][2]} is held by no field")

    def get(self, number: int) -> Array:
        if number not in self._found:
            self._found[number] = self._made(number)
        return self._found[number]

    def _made(self, number: int) -> Array:
        kind, stored, shape, start = self._rows[number]
        hold(_COPIES * math.prod(shape), each=1 if kind == "bools" else 8)
        parts = {name: self._pools[name][start[name] : start[name] + stored] for name in _POOLS_OF[kind]}
        if kind == "sparse":
            places, size = parts["positions"], math.prod(shape)
            if len(places) and not (places[0] >= 0 and places[-1] < size and (places[1:] > places[:-1]).all()):
                raise FileFormatError(f"the positions of array {number} do not rise, or leave its {size} numbers")
            array: Array = Sparse(shape, places, parts["floats"]).dense()
        else:
            array = next(iter(parts.values())).reshape(shape)
        return freeze(array, array.dtype.type)


_POOLS_OF = {"dense": ("floats",), "sparse": ("floats", "positions"), "bools": ("truths",)}


def _checked_row(row: Any) -> tuple[str, int, tuple[int, ...]]:
    """(kind, stored numbers, shape)"""
    fits = isinstance(row, list) and len(row) >= 2 and row[0] in tuple(_POOLS_OF)
    fits = fits and len(row) - 2 <= MOST_AXES
    if not fits or any(type(size) is not int or not 0 <= size <= LARGEST for size in row[1:]):
        raise FileFormatError(f"{str(row)[:80]} describes no array")
    kind, stored, *shape = row
    size = math.prod(shape)
    if stored > size or (kind != "sparse" and stored != size):
        raise FileFormatError(f"an array of shape {tuple(shape)} with {stored} numbers stored")
    return kind, stored, tuple(shape)


def decode(structure: Any, arrays: ArrayReader, types: Mapping[str, type], expected: type) -> Any:
    """What `encode` was given; FileFormatError if it is not one of the expected type. An item that several hold is one
    object."""
    objects: list[Any] = []
    used: tuple[set[int], set[int]] = set(), set()  # items, types

    def value(item: Any) -> Any:
        if isinstance(item, list):
            return tuple([inner if type(inner) in (int, str) else value(inner) for inner in item])
        if not isinstance(item, dict):
            return item
        ((key, inner),) = item.items()
        if key == "item":
            used[0].add(inner)
            return objects[inner]
        return arrays.get(inner) if key == "array" else _not_finite(inner)

    def built(kind: int, *row: Any) -> Any:
        used[1].add(kind)
        name, *names = known[kind]
        if len(set(names)) != len(names):
            raise ValueError(f"{name} names a field twice")
        given = {part: value(inner) for part, inner in zip(names, row, strict=True)}
        made = types[name](**given)
        agree_types(made, given, BY_TYPE)
        return made

    try:
        items, known = structure["items"], structure["types"]
        for field in structure.keys() - {"items", "types"}:
            raise ValueError(f"it has a field {field!r} that nothing uses")
        arrays.spend(_sizes(items, arrays)[-1])
        for row in items:
            tick()
            objects.append(built(*row))
        _all_used("item", len(items) - 1, used[0])
        _all_used("type", len(known), used[1])
        result = objects[-1]
    except DECODING_ERRORS as error:
        raise malformed(error, expected) from error
    if not isinstance(result, expected):
        raise FileFormatError(f"the stored structure is a {type(result).__name__}, not a {expected.__name__}")
    return result


def malformed(error: Exception, expected: type) -> FileFormatError:
    """What to say of a structure that is not one of the expected type."""
    if isinstance(error, MistypedError) and expected is not Network:
        return MalformedCertificateError(f"the certificate is malformed: {error}")
    return FileFormatError(f"the stored structure is not a {expected.__name__}: {error}")


def _all_used(what: str, count: int, used: set[int]) -> None:
    for number in range(count):
        if number not in used:
            raise ValueError(f"{what} {number} is used by nothing")


def _sizes(items: Any, arrays: ArrayReader) -> list[int]:
    """The numbers that every item comes to when nothing is shared. References are looked at on the way."""
    sizes: list[int] = []

    def size(item: Any) -> int:
        if isinstance(item, list):
            return len(item) + sum(map(size, item))
        if not isinstance(item, dict):
            return 0
        ((key, inner),) = item.items()
        if key == "item" and type(inner) is int and 0 <= inner < len(sizes):  # it stands before those that hold it
            return sizes[inner]
        if key not in ("array", "float"):
            raise ValueError(f"{key!r} refers to nothing")
        return arrays.size(inner) if key == "array" else 0

    for kind, *row in items:
        tick()
        if type(kind) is not int or kind < 0:
            raise ValueError(f"{kind!r} is no type")
        sizes.append(min(arrays.left + 1, ITEM + size(row)))
    return sizes


def _not_finite(text: Any) -> float:
    if text not in ("inf", "-inf", "nan"):
        raise ValueError(f"{text!r} is written as a number where it is one")
    return float(text)


def digest(structure: Any, pools: Pools) -> str:
    """SHA-256 of plain data and pools of numbers."""
    sha = hashlib.sha256(in_json(structure).encode())
    for name in sorted(pools):
        pool = np.ascontiguousarray(pools[name])
        sha.update(f"{name} {pool.dtype.str} {pool.shape}".encode())
        sha.update(pool.tobytes())
    return sha.hexdigest()
