"""What is stored, taken apart and put together again: for tests that alter it on the way."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.numpy import save_file

import weightwright as ww
from weightwright.claims.files import encode_file, read
from weightwright.network.storage import NETWORK_TYPES, ArrayReader, ArrayWriter, decode, digest, encode, in_json

KEY = "weightwright"
#: One small file of every kind of claim of the library.
SAVED = Path(__file__).parents[1] / "claims" / "saved"


def plain(value: Any) -> tuple[dict[str, Any], list[Any], Any]:
    """(structure, rows of arrays, pools)"""
    arrays = ArrayWriter()
    structure = encode(value, arrays)
    return structure, arrays.rows, arrays.pools()


def stored_and_read(value: Any, types: Mapping[str, type] = NETWORK_TYPES) -> Any:
    """The value again from what is stored of it; types: what may be read, by default what networks are made of."""
    structure, rows, pools = plain(value)
    return decode(json.loads(in_json(structure)), ArrayReader(rows, pools), types, type(value))


def contents(path: Path) -> tuple[dict[str, Any], Any]:
    """The text of a file, read as JSON, and its tensors."""
    with safe_open(path, framework="numpy") as file:
        payload = json.loads(file.metadata()[KEY])
        return payload, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def certified_file(path: str | Path) -> tuple[Any, Any]:
    """The network and the certificate of a file as they are stored, unchecked; without a certificate the test fails."""
    network, said = read(path)
    assert said is not None
    return network, said


def saved(name: str, folder: Path = SAVED) -> tuple[Any, Any]:
    """One of the files that stand beside the tests, with a certificate."""
    return certified_file(folder / f"{name}.safetensors")


def checked_and_written_again(path: Path) -> None:
    """A saved file is proven, and its contents make the same bytes."""
    network, said = read(path)
    assert encode_file(network, said) == path.read_bytes()
    if said is None or said.measured is not None:
        return
    checked = ww.check(path)
    assert checked.status == ("CONDITIONAL" if path.stem == "samples" else "PROVEN")
    assert checked.formula == said.formula


def put(path: Path, payload: dict[str, Any], pools: Any) -> None:
    save_file(pools, path, metadata={KEY: in_json(payload)})


def forge(path: Path, change: Callable[[dict[str, Any], Any], None]) -> None:
    """A file in good order, digest included, with other contents."""
    payload, pools = contents(path)
    change(payload, pools)
    del payload["digest"]
    put(path, payload | {"digest": digest(payload, pools)}, pools)
