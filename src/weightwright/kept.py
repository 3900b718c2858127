"""A disk cache for tables, and for what is proven of networks. Entries are compared with what is asked for, and the
checker examines them again, as if they had just been found.

The folder is WEIGHTWRIGHT_CACHE, or weightwright in the user's folder for caches; WEIGHTWRIGHT_CACHE=off keeps nothing.
Names are digests of what was asked for and of this package's own sources, so that another version finds its own.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from safetensors.numpy import save as write_pools

from weightwright.errors import WeightwrightError
from weightwright.input_files import parse_json, read_whole, unpack_tensors
from weightwright.network.storage import ArrayReader, ArrayWriter, decode, digest, encode, in_json
from weightwright.output_files import whole

#: Number of files that are kept; once there are more, the half that was used longest ago is removed.
MOST_FILES = 2048
Found = TypeVar("Found")


def kept_folder() -> Path | None:
    """Where things are kept; None where nothing is."""
    named = os.environ.get("WEIGHTWRIGHT_CACHE")
    if named is not None:
        return None if named in ("", "off") else Path(named)
    home = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(home) if home else Path("~/.cache").expanduser()) / "weightwright"
    except RuntimeError:  # nobody says where the user's home is
        return None


def kept_path(kind: str, *asked: Any) -> Path | None:
    """The file for what was asked for; None where nothing is kept. kind: its ending. asked: dataclasses and plain data
    whose texts tell them apart."""
    folder = kept_folder()
    if folder is None:
        return None
    name = hashlib.sha256(repr((_sources(), kind, asked)).encode()).hexdigest()[:32]
    return folder / f"{name}.{kind}"


@cache
def _sources() -> str:
    """The digest of this package's files and of what computes for it."""
    root, found = Path(__file__).parent, hashlib.sha256(np.__version__.encode())
    for path in sorted(root.rglob("*.py")):
        found.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return found.hexdigest()


def keep(path: Path | None, write: Callable[[Path], object]) -> None:
    """Write a file of the folder, whole or not at all. A folder that cannot be written to keeps nothing."""
    if path is None:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole(path) as (partial,):
            write(partial)
        _forget_oldest(path.parent)
    except OSError:
        return


def _forget_oldest(folder: Path) -> None:
    files = [path for path in folder.iterdir() if not path.name.startswith(".")]
    if len(files) > MOST_FILES:
        for path in sorted(files, key=lambda one: one.stat().st_mtime)[: len(files) // 2]:
            path.unlink(missing_ok=True)


def is_kept(path: Path) -> bool:
    """Whether there is a file. A folder that cannot be looked into holds none."""
    return os.path.exists(path)


def keep_value(path: Path | None, value: Any) -> None:
    """Keep a dataclass of numbers, texts and arrays, with the name of the file, which says what it was kept for."""

    def write(partial: Path) -> None:
        arrays = ArrayWriter()
        payload = {"value": encode(value, arrays), "name": "" if path is None else path.name}
        pools = arrays.pools()
        payload["arrays"] = arrays.rows
        payload["digest"] = digest(payload, pools)
        partial.write_bytes(write_pools(pools, metadata={"text": in_json(payload)}))

    keep(path, write)


def recall_value(path: Path | None, expected: type[Found], types: Mapping[str, type]) -> Found | None:
    """What was kept there; None where there is nothing, or where the file was damaged or took the place of another: it
    is found anew then."""
    if path is None or not is_kept(path):
        return None
    try:
        texts, pools = unpack_tensors(read_whole(path))
        payload = parse_json(texts["text"])
        stated = payload.pop("digest")
        if stated != digest(payload, pools) or payload["name"] != path.name:
            return None
        found: Found = decode(payload["value"], ArrayReader(payload["arrays"], pools), types, expected)
    except (OSError, WeightwrightError, KeyError, ValueError, TypeError, AttributeError, RecursionError):
        return None
    with suppress(OSError):  # the folder may be read-only
        os.utime(path)
    return found
