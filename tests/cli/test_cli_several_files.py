"""`weightwright check` of several files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.command_line import complaint, printed, printed_json, weightwright

import weightwright as ww


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    for name, formula in (("a", "sin(x)"), ("b", "exp(x)")):
        ww.approximate(formula, (-1, 1), tol=1e-3).save(folder / f"{name}.safetensors")
    return folder


def test_several_files_are_checked_at_once(saved: Path) -> None:
    files = [saved / "b.safetensors", saved / "a.safetensors"]
    found = printed_json("check", *files, "--jobs", "1")["files"]
    assert [one["file"] for one in found] == list(map(str, files))  # in the order in which they were given
    assert [one["status"] for one in found] == ["PROVEN", "PROVEN"]
    assert [one["bound"] for one in found] == [ww.check(path).bound for path in files]
    assert "PROVEN" in printed("check", *files, "--jobs", "1")


def test_one_bad_file_among_many(saved: Path, tmp_path: Path) -> None:
    bad, none = tmp_path / "bad.safetensors", tmp_path / "none.safetensors"
    data = bytearray((saved / "a.safetensors").read_bytes())
    data[-3] ^= 1
    bad.write_bytes(data)
    result = weightwright("check", saved / "a.safetensors", bad, none, "--jobs", "1", "--json")
    states = {Path(one["file"]).stem: one["status"] for one in json.loads(result.stdout)["files"]}
    assert states == {"a": "PROVEN", "bad": "refused", "none": "error"}
    assert result.exit_code == 1
    assert weightwright("check", saved / "a.safetensors", none, "--jobs", "1").exit_code == 2
    assert "one file at a time" in complaint(weightwright("check", bad, none, "--search", "1"), 2)
