"""What is no file, or holds numbers that are too large: errors of ours that say what to do, and none from inside."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import weightwright as ww

#: Prints what every reader says of every path in argv.
READERS = """
import sys, weightwright as ww
from weightwright.interpreter.program_files import load_program
for path in sys.argv[1:]:
    for reader in (ww.check, ww.load, lambda path: load_program(None, path)):
        try:
            reader(path)
            print("read")
        except Exception as error:
            print(type(error).__name__, error)
"""


def test_pipes_and_devices_are_refused_at_once(tmp_path: Path) -> None:
    pipe, folder = tmp_path / "pipe.json", tmp_path / "folder.json"
    os.mkfifo(pipe)
    folder.mkdir()
    device = tmp_path / "device.json"
    device.symlink_to("/dev/zero")
    found = subprocess.run(
        [sys.executable, "-c", READERS, str(pipe), str(device), str(folder)],
        capture_output=True, text=True, timeout=20, check=True,
    )  # fmt: skip
    lines = found.stdout.splitlines()
    assert lines[:3] == [f"FileFormatError {pipe}: name a regular file; this is a named pipe"] * 3
    assert lines[3:6] == [f"FileFormatError {device}: name a regular file; this is a device"] * 3
    assert [line.split()[0] for line in lines[6:]] == ["IsADirectoryError"] * 3


def write_file(path: Path, header: object) -> None:
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text)


@pytest.mark.parametrize(
    "header",
    [
        {"__metadata__": {"weightwright": '{"format":8,"arrays":[1e999999999],"network":null,"digest":""}'}},
        {"floats": {"dtype": "F64", "shape": [0, 2**60], "data_offsets": [0, 0]}, "__metadata__": {}},
    ],
    ids=["a float beyond the range", "a shape beyond the range"],
)
def test_numbers_beyond_the_range_are_errors_of_the_format(header: object, tmp_path: Path) -> None:
    path = tmp_path / "net.safetensors"
    write_file(path, header)
    with pytest.raises(ww.FileFormatError, match=r"not a safetensors file|not one that weightwright wrote"):
        ww.check(path)


LATER = torch.ones(3, 3).triu(1).bool()
ADDED = torch.zeros(3, 3, dtype=torch.float64).masked_fill(LATER, torch.finfo(torch.float64).min)
LOW = torch.finfo(torch.float64).min
MASKED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "masked_fill": lambda x: torch.softmax((x @ x.mT).masked_fill(LATER, LOW), -1) @ x,
    "added": lambda x: torch.softmax(x @ x.mT + ADDED, -1) @ x,
    "torch.where": lambda x: torch.softmax(torch.where(LATER, LOW, x @ x.mT), -1) @ x,
    "sdpa": lambda x: torch.nn.functional.scaled_dot_product_attention(x, x, x, attn_mask=ADDED),
    "not attention": lambda x: (x * 1e300) * (x * 1e300),
    "a sine": lambda x: torch.sin(x * LOW),
}


@pytest.mark.parametrize("name", MASKED)
def test_the_lowest_float_as_a_mask_has_a_message(name: str) -> None:
    with pytest.raises((ww.UnsupportedOperation, ww.ToleranceError), match=r"with -torch\.inf"):
        ww.compile(MASKED[name], (-1, 1), 1e-5, tokens=3, features=2, progress=False)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("d", [1, 2])
def test_vectors_of_any_size_are_remembered_or_refused(dtype: str, d: int) -> None:
    refused = set[int]()
    for exponent in (-320, -306, -150, -38, -36, 0, 15, 16, 38, 100, 140, 150, 200, 300, 308):
        rng = np.random.default_rng(0)
        vectors = [rng.uniform(-1, 1, size=(5, d)) * 10.0**exponent for _ in range(4)]
        try:
            net = ww.memorize(vectors, [[0, 1, 2, 3, 4]] * 4, dtype=dtype)
            assert net.certificate.status == "PROVEN"
            assert net.predict(vectors) == [[0, 1, 2, 3, 4]] * 4
        except ww.WeightwrightError as error:
            assert "scale the vectors" in str(error)  # noqa: PT017
            refused.add(exponent)
    small = {-320} if dtype == "float64" else {-320, -306, -150, -38}
    assert refused == small | {
        e for e in (16, 38, 100, 140, 150, 200, 300, 308) if e > (147 if dtype == "float64" else 15)
    }
