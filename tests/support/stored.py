"""What is stored, taken apart and put together again: for tests that alter it on the way."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.numpy import save_file

from weightwright.network.storage import ArrayReader, ArrayWriter, Pools, decode, digest, encode, in_json

KEY = "weightwright"


def plain(value: Any) -> tuple[dict[str, Any], list[Any], Pools]:
    """(structure, rows of arrays, pools)"""
    arrays = ArrayWriter()
    structure = encode(value, arrays)
    return structure, arrays.rows, arrays.pools()


def stored_and_read(value: Any, types: Mapping[str, type]) -> Any:
    structure, rows, pools = plain(value)
    return decode(json.loads(in_json(structure)), ArrayReader(rows, pools), types, type(value))


def contents(path: Path) -> tuple[dict[str, Any], Pools]:
    """The text of a file, read as JSON, and its tensors."""
    with safe_open(path, framework="numpy") as file:
        payload = json.loads(file.metadata()[KEY])
        return payload, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def put(path: Path, payload: dict[str, Any], pools: Pools) -> None:
    save_file(pools, path, metadata={KEY: in_json(payload)})


def forge(path: Path, change: Callable[[dict[str, Any], Pools], None]) -> None:
    """A file in good order, digest included, with other contents."""
    payload, pools = contents(path)
    change(payload, pools)
    del payload["digest"]
    put(path, payload | {"digest": digest(payload, pools)}, pools)
