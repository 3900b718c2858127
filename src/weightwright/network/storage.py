"""Frozen dataclasses as plain data: a JSON structure and named arrays, and back.

The structure mirrors the dataclasses; an array stands in it as {"array": name}, a float in hex.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from weightwright.errors import FileFormatError
from weightwright.network.layers import Attention, FeedForward, Head, Linear, Loop, Sees, Softmax, Term
from weightwright.network.network import Network

Arrays = dict[str, np.ndarray[Any, Any]]

NETWORK_TYPES: Mapping[str, type] = {
    kind.__name__: kind for kind in (Attention, FeedForward, Head, Linear, Loop, Network, Sees, Softmax, Term)
}


def encode(value: Any, name: str = "network") -> tuple[Any, Arrays]:
    """(structure, arrays), the arrays named by their path from `name`."""
    arrays: Arrays = {}

    def plain(value: Any, path: str) -> Any:
        if isinstance(value, np.ndarray):
            arrays[path] = value
            return {"array": path}
        if is_dataclass(value):
            items = {field.name: plain(getattr(value, field.name), f"{path}.{field.name}") for field in fields(value)}
            return {"type": type(value).__name__, **items}
        if isinstance(value, tuple):
            return [plain(item, f"{path}.{index}") for index, item in enumerate(value)]
        if isinstance(value, float):
            return {"float": float(value).hex()}
        return value

    return plain(value, name), arrays


def decode(structure: Any, arrays: Arrays, types: Mapping[str, type], expected: type) -> Any:
    """What `encode` was given; FileFormatError if it is not one of the expected type."""

    def value(item: Any) -> Any:
        if isinstance(item, list):
            return tuple(value(inner) for inner in item)
        if not isinstance(item, dict):
            return item
        if item.keys() == {"array"}:
            return arrays[item["array"]]
        if item.keys() == {"float"}:
            return float.fromhex(item["float"])
        kind = types[item["type"]]
        return kind(**{key: value(inner) for key, inner in item.items() if key != "type"})

    try:
        result = value(structure)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError) as error:
        raise FileFormatError(f"the stored structure is not a {expected.__name__}: {error}") from error
    if not isinstance(result, expected):
        raise FileFormatError(f"the stored structure is a {type(result).__name__}, not a {expected.__name__}")
    return result


def digest(structure: Any, arrays: Arrays) -> str:
    """SHA-256 of a JSON structure and its arrays."""
    sha = hashlib.sha256(json.dumps(structure, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        sha.update(f"{name} {array.dtype.str} {array.shape}".encode())
        sha.update(array.tobytes())
    return sha.hexdigest()
