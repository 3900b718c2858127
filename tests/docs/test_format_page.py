"""docs/format.md says what files are: by its own words alone a file is read, and every name is one that is used."""

from __future__ import annotations

import hashlib
import json
import math
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from support.stored import certified_file

import weightwright as ww
from weightwright.claims.files import FORMAT
from weightwright.network.storage import ITEM, LARGEST, MORE, NETWORK_TYPES, POOLS

PAGE = (Path(__file__).parents[2] / "docs" / "format.md").read_text()


def read_by_the_page(path: Path) -> tuple[dict[str, Any], list[Any]]:
    """(text, arrays), from nothing but safetensors, JSON and what the page says."""
    with safe_open(path, framework="numpy") as file:
        text = json.loads(file.metadata()["weightwright"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    sha = hashlib.sha256(json.dumps({key: text[key] for key in text if key != "digest"}, sort_keys=True,
                                    separators=(",", ":")).encode())  # fmt: skip
    for name in sorted(tensors):
        sha.update(f"{name} {tensors[name].dtype.str} {tensors[name].shape}".encode() + tensors[name].tobytes())
    assert text["digest"] == sha.hexdigest()
    streams = {name: iter(tensor) for name, tensor in tensors.items()}
    arrays = []
    for kind, stored, *shape in text["arrays"]:
        numbers = [next(streams["truths" if kind == "bools" else "floats"]) for _ in range(stored)]
        if kind == "sparse":
            whole = np.zeros(math.prod(shape))
            for number in numbers:
                whole[next(streams["positions"])] = number
            arrays.append(whole.reshape(shape))
        else:
            arrays.append(np.array(numbers).reshape(shape))
    assert all(next(stream, None) is None for stream in streams.values())
    return text, arrays


def test_a_file_is_what_the_page_says(saved: Path) -> None:
    text, arrays = read_by_the_page(saved)
    network, certificate = certified_file(saved)
    assert set(text) == set(re.findall(r"^\| `(\w+)` \| ", PAGE.split("## Text")[1].split("**Arrays.**")[0], re.M))
    types, items = text["network"]["types"], text["network"]["items"]
    whole = dict(zip(types[items[-1][0]], ["Network", *items[-1][1:]], strict=True))
    assert whole["inputs"] == list(network.inputs)
    assert np.array_equal(arrays[whole["registers"]["array"]], network.registers)
    said = text["certificate"]
    assert certificate.bound in said["items"][-1]
    assert "UNCHECKED" in said["items"][-1]


def test_the_page_has_every_name() -> None:
    assert f"This page is format {FORMAT}." in PAGE
    for name in (*POOLS, *NETWORK_TYPES, "dense", "sparse", "bools"):
        assert re.search(rf"`\"?{name}\"?`", PAGE), name
    for name in ("Gather", "Total", "Block", "Mixed"):
        (field,) = fields(NETWORK_TYPES[name])
        assert re.search(rf"\| `{name}` \| `{field.name}`", PAGE), name
    for limit in (LARGEST, MORE, ITEM):
        assert f"2^{limit.bit_length() - 1}" in PAGE


def test_the_page_says_what_is_refused(saved: Path) -> None:
    assert "1 to 7 | refused" in PAGE
    with pytest.raises(ww.FileFormatError):
        ww.load(Path(__file__))
