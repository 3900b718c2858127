"""Files that are read: regular files only, each read whole and once, so that what is checked is what is used.

Nothing is mapped into memory: a file that another process cuts while it is mapped kills the reader (SIGBUS).
"""

from __future__ import annotations

import json
import math
import os
import re
import stat
from typing import Any

import numpy as np
import numpy.typing as npt

from weightwright.errors import FileFormatError
from weightwright.limits import hold, tick

#: Bytes that are read between two looks at the clock: 16 MiB, which a slow disk gives within a second.
_BLOCK = 2**24
#: Bytes that a character of JSON takes once it is parsed, at most about: the two of "[]" become a list of 88 bytes.
BYTES_OF_A_CHARACTER = 44
#: Axes of a tensor, at most, and the largest size of one or place of a byte: what numpy has room for everywhere.
MOST_AXES, _LARGEST = 32, 2**62
#: Kinds of number that tensors hold, as safetensors and as numpy call them.
_DTYPES = {"F64": "<f8", "I32": "<i4", "BOOL": "|b1"}
#: The errors that parsing JSON of any contents may raise.
_JSON_ERRORS = (ValueError, RecursionError)
#: Where a text may hold half of a pair of code units alone.
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
#: Without waiting for the other end of a pipe that took the place of the file; binary where the system asks for it.
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def read_whole(path: str | os.PathLike[str]) -> memoryview:
    """The bytes of a file, within the limits. FileFormatError for pipes and devices, which may never end."""
    try:
        _refuse_special(path, os.stat(path).st_mode)
    except FileNotFoundError:
        raise FileNotFoundError(f"No such file or directory: {os.fspath(path)}") from None
    with os.fdopen(os.open(path, _FLAGS), "rb", buffering=0) as file:
        held = os.fstat(file.fileno())
        _refuse_special(path, held.st_mode)
        hold(held.st_size, each=1)
        contents, size = memoryview(bytearray(held.st_size)), 0
        while size < len(contents) and (count := file.readinto(contents[size : size + _BLOCK])):
            size += count
            tick()
    return contents[:size].toreadonly()


def _refuse_special(path: str | os.PathLike[str], mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(f"{os.fspath(path)} is a folder, not a file")
    if not stat.S_ISREG(mode):
        kind = "a named pipe" if stat.S_ISFIFO(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device"
        raise FileFormatError(f"{os.fspath(path)}: name a regular file; this is {kind}")


def unpack_tensors(contents: memoryview) -> tuple[dict[str, str], dict[str, npt.NDArray[Any]]]:
    """What a safetensors file holds: texts and tensors by name. FileFormatError where it is none, or holds a kind of
    number that weightwright does not write. The tensors are read where they stand, and cannot be written to."""
    size = int.from_bytes(contents[:8], "little")
    if len(contents) < 8 or size > len(contents) - 8:
        raise FileFormatError("it is cut short, or no safetensors file")
    header, data = _parse_header(contents[8 : 8 + size]), contents[8 + size :]
    texts = header.pop("__metadata__", {})
    if not isinstance(texts, dict) or not all(isinstance(text, str) for text in texts.values()):
        raise FileFormatError("the metadata of its header are not texts")
    rows = sorted(((*_checked_row(name, row), name) for name, row in header.items()), key=lambda row: row[:2])
    tensors, taken = {}, 0
    for start, stop, kind, shape, name in rows:
        if start != taken:
            raise FileFormatError(f"the tensor {name!r} begins at byte {start}, and the one before it ends at {taken}")
        tensors[name], taken = _tensor(data[start:stop], kind, shape, name), stop
    if taken != len(data):
        raise FileFormatError(f"it is cut short, or longer than its header says: {len(data)} bytes, not {taken}")
    return texts, tensors


def parse_json(text: str) -> Any:
    """The data of a JSON text. FileFormatError for text that is not JSON, numbers beyond the range of floats, halves of
    characters, which cannot be printed, and objects that name a field twice."""
    hold(len(text), each=BYTES_OF_A_CHARACTER)
    try:
        found = json.loads(
            text, parse_constant=_refuse_constant, parse_float=_finite_float, object_pairs_hook=_distinct_fields
        )
        if _SURROGATE.search(text):
            json.dumps(found, ensure_ascii=False).encode()
        return found
    except _JSON_ERRORS as error:
        raise FileFormatError(f"it is not JSON that weightwright writes: {error}") from error


def _parse_header(header: memoryview) -> dict[str, Any]:
    try:
        text = str(header, "utf-8")
    except UnicodeDecodeError as error:
        raise FileFormatError(f"the header is not UTF-8 ({error.reason} at byte {error.start})") from error
    found = parse_json(text)
    if not isinstance(found, dict):
        raise FileFormatError(f"the header is a {type(found).__name__}, not an object")
    return found


def _checked_row(name: str, row: Any) -> tuple[int, int, str, tuple[int, ...]]:
    """(first byte, byte after the last, kind of number, shape) of a tensor"""
    if not isinstance(row, dict) or row.keys() != {"dtype", "shape", "data_offsets"}:
        raise FileFormatError(f"the tensor {name!r} needs dtype, shape and data_offsets, and nothing else")
    dtype, shape, offsets = row["dtype"], row["shape"], row["data_offsets"]
    if not isinstance(dtype, str) or dtype not in _DTYPES:
        raise FileFormatError(f"the tensor {name!r} holds {str(dtype)[:80]}, not one of {', '.join(_DTYPES)}")
    if not _are_sizes(shape) or not _are_sizes(offsets) or len(offsets) != 2 or len(shape) > MOST_AXES:
        raise FileFormatError(f"the tensor {name!r} has a shape or offsets that are not sizes")
    start, stop = offsets
    if stop - start != np.dtype(_DTYPES[dtype]).itemsize * math.prod(shape):
        raise FileFormatError(f"the tensor {name!r} of shape {str(tuple(shape))[:80]} has {stop - start} bytes")
    return start, stop, _DTYPES[dtype], tuple(shape)


def _are_sizes(values: Any) -> bool:
    return isinstance(values, list) and all(type(value) is int and 0 <= value <= _LARGEST for value in values)


def _tensor(data: memoryview, kind: str, shape: tuple[int, ...], name: str) -> npt.NDArray[Any]:
    if kind == "|b1" and (np.frombuffer(data, np.uint8) > 1).any():
        raise FileFormatError(f"the tensor {name!r} holds truth values other than 0 and 1")
    try:
        # a copy where the numbers do not begin at a multiple of their size
        found = np.require(np.frombuffer(data, kind).reshape(shape), requirements="A")
    except ValueError as error:
        raise FileFormatError(f"the tensor {name!r} of shape {shape} is larger than an array may be") from error
    found.flags.writeable = False
    return found


def _refuse_constant(constant: str) -> None:
    raise ValueError(f"{constant} is not a number of JSON")


def _finite_float(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{text[:80]} is beyond the range of floats")
    return value


def _distinct_fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"an object names {name[:80]!r} twice")
        found[name] = value
    return found
