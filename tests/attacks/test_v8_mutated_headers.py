"""Headers and texts of files with numbers, names and shapes that nobody writes: refused in words, within the limits."""

from __future__ import annotations

import json
import struct
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load as tensors_of

import weightwright as ww
from weightwright.claims.files import read
from weightwright.limits import Limits, limited
from weightwright.network.storage import digest

FORMULA = Path(__file__).parents[1] / "claims" / "saved" / "formula.safetensors"
#: Texts of JSON, or nearly, that take the place of a value.
ODD = [
    "1e999999999", "-1e400", "1e-999999999", "NaN", "-Infinity", "9" * 5000, "9" * 4000, "-1", "-0.0", "1.5", "true",
    "null", "[]", "{}", '""', '"x"', '"\\ud800"', '"F16"', "[" * 100_000 + "]" * 100_000, "[" * 900 + "]" * 900,
    '{"item":' * 900 + "0" + "}" * 900, '{"item":0,"item":1}', '{"array":0}', '{"array":1e400}', '{"float":"nan"}',
    '{"float":"1e5"}', '{"item":-1}', "1152921504606846976", "18446744073709551616", "[0,1152921504606846976]",
    "[4294967296,4294967296]", "[-1]", "[1]" , '["dense",0,0,268435456,268435456,268435456]',
    '["dense",1' + ",1" * 70 + "]", '["sparse",0' + ",268435456" * 5000 + "]",
]  # fmt: skip
LIMITS = Limits(seconds=5.0, megabytes=512.0)


def packed(header: str, data: bytes) -> bytes:
    return struct.pack("<Q", len(header.encode())) + header.encode() + data


def places(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where a value stands in plain data, the whole included."""
    children = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [path, *(place for key, value in children for place in places(value, (*path, key)))]


def with_odd_value(tree: Any, rng: np.random.Generator) -> tuple[str, str]:
    """(where and what, the text) of plain data with another value in one place, or a field that is there twice."""
    all_places = places(tree)
    place, odd = all_places[rng.integers(len(all_places))], ODD[rng.integers(len(ODD))]
    if not place:
        return odd[:30], odd
    copy = json.loads(json.dumps(tree))
    inner = copy
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = "the odd value"
    text = json.dumps(copy, sort_keys=True, separators=(",", ":"))
    if isinstance(place[-1], str) and rng.random() < 0.2:
        name = json.dumps(place[-1])
        return f"{place} twice", text.replace('"the odd value"', f"{odd},{name}:{odd}")
    return f"{place}: {odd[:30]}", text.replace('"the odd value"', odd)


def signed(text: str, pools: dict[str, Any]) -> str:
    """The text with the digest that it would have, where it can have one: mutations are read to the end."""
    try:
        payload = json.loads(text)
        payload.pop("digest")
        stated = digest(payload, pools)
        return text[: text.rindex('"digest":"') + 10] + stated + text[text.rindex('"digest":"') + 74 :]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return text


def mutants(path: Path, seed: int, count: int) -> list[tuple[str, bytes]]:
    contents = path.read_bytes()
    size = int.from_bytes(contents[:8], "little")
    header, data = json.loads(contents[8 : 8 + size]), contents[8 + size :]
    pools = tensors_of(contents)
    payload = json.loads(header["__metadata__"]["weightwright"])
    found = []
    for k in range(count):
        rng = np.random.default_rng([seed, k])
        if k % 2:
            what, text = with_odd_value(payload, rng)
            changed = header | {"__metadata__": {"weightwright": signed(text, pools)}}
            found.append((f"text, {what}", packed(json.dumps(changed), data)))
        else:
            what, text = with_odd_value(header, rng)
            found.append((f"header, {what}", packed(text, data)))
    return found


def look_at(source: Path, path: Path, count: int) -> tuple[Counter[str], list[str]]:
    """(errors of ours and how often, all others) of mutants of a file, written to the path."""
    outcomes, raw = Counter[str](), []
    for what, contents in mutants(source, 0, count):
        path.write_bytes(contents)
        try:
            with limited(path, LIMITS):
                read(path)
            outcomes["read"] += 1
            repr(ww.load(path, verify=False))
        except (ww.FileFormatError, ww.BudgetError) as error:
            outcomes[type(error).__name__] += 1
            str(error).encode()
        except ww.WeightwrightError as error:  # of the network, which was read
            outcomes[type(error).__name__] += 1
        except Exception as error:
            raw.append(f"{what}: {type(error).__name__}: {str(error)[:100]}")
    return outcomes, raw


def test_only_errors_of_the_format_come_out(saved: Path, tmp_path: Path) -> None:
    graph = tmp_path / "graph.safetensors"
    ww.compile(lambda x: x * x.mean(-2, keepdim=True), (-1, 1), 0.1, tokens=2, features=1).save(graph)
    for source in (FORMULA, saved, graph):
        outcomes, raw = look_at(source, tmp_path / "mutant", 250)
        assert raw == []
        assert outcomes["FileFormatError"] + outcomes["AlteredFileError"] > 125
        assert outcomes["FileFormatError"] > 60
