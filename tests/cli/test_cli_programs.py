"""`weightwright interpreter`, `program`, `interpret`: a module, programs as files, runs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from support.command_line import complaint, printed_json, weightwright

import weightwright as ww
from weightwright.interpreter.program_files import load_program, save_program

SIZES = ("--tokens", "3", "--features", "5", "--head-dim", "4", "--rows", "8")


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("module") / "vm.safetensors"
    facts = printed_json("interpreter", *SIZES, "--w-max", "4", "--out", path)
    assert (facts["status"], facts["prompt"][0]) == ("PROVEN", 16)
    return path


@pytest.mark.parametrize("ending", ["npz", "json"])
def test_a_program_is_written_and_run(ending: str, module: Path, tmp_path: Path) -> None:
    file, data, out = tmp_path / f"p.{ending}", tmp_path / "x.npy", tmp_path / "y.npy"
    facts = printed_json(
        "program", module, "smooth", "--with", "f=sin(x)", "--with", "rows=8", "--with", "tokens=3", "--out", file
    )
    assert (facts["heads"], facts["rows"], facts["error_is"]) == (1, 8, "measured")
    x = np.random.default_rng(0).uniform(-1, 1, (2, 3, 5))
    x[..., -1] = 1.0
    np.save(data, x)
    found = printed_json("interpret", module, file, data, "--out", out)
    wanted = np.sin(x[..., 0])
    assert np.abs(np.array(found["values"])[..., 0] - wanted).max() <= facts["error"] + found["bound"]
    assert np.load(out).tolist() == found["values"]
    vm = ww.Interpreter.load(module)
    assert found["fingerprint"] == vm.fingerprint
    back = load_program(vm, file)
    made = ww.interpreter.library.smooth(vm, "sin(x)", rows=8, tokens=3)
    for part in ("W_Q", "W_K", "W_V", "rows", "sees"):
        assert np.array_equal(getattr(back, part), getattr(made, part)), part
    assert back.name == made.name
    assert torch.equal(vm(torch.tensor(x[0]), back), vm(torch.tensor(x[0]), made))


def test_a_head_of_ones_own_by_hand(module: Path, tmp_path: Path) -> None:
    """JSON as people write it, data as a .csv; a line for each token."""
    eye = np.eye(4, 5).tolist()
    (tmp_path / "p.json").write_text(json.dumps({"W_Q": eye, "W_K": eye, "W_V": np.eye(5).tolist()}))
    (tmp_path / "x.csv").write_text("0.5,0,0,0,0\n0,0.5,0,0,0\n")
    said = weightwright("interpret", module, tmp_path / "p.json", tmp_path / "x.csv")
    assert said.exit_code == 0
    rows = np.array([[float(number) for number in line.split()] for line in said.stdout.splitlines()])
    a = 1 / (1 + np.exp(-0.25))
    assert np.abs(rows[:, :2] - [[a / 2, (1 - a) / 2], [(1 - a) / 2, a / 2]]).max() < 1e-8
    assert "p: within" in said.stderr
    facts = printed_json(
        "program", module, "head", "--with", f"W_Q={eye}", "--with", f"W_K={eye}", "--with", f"W_V={eye}",
        "--with", "sees=causal", "--out", tmp_path / "q.npz",
    )  # fmt: skip
    assert facts["program"] == "program"


WRONG = {
    "no such program": (("sine", "--out", "p.npz"), "there is no program 'sine'; there are head, average"),
    "no such argument": (("copy", "--with", "where=1", "--out", "p.npz"), "--with where: copy takes source, tokens"),
    "no value": (("copy", "--with", "source", "--out", "p.npz"), "--with takes NAME=VALUE"),
    "ending": (("copy", "--out", "p.txt"), "a program is a .npz or a .json file, not p.txt"),
    "too large": (
        ("head", "--with", "W_Q=[[9,0,0,0,0]]", "--with", "W_K=[[1,0,0,0,0]]", "--with", "W_V=[[1,0,0,0,0]]",
         "--out", "p.npz"), "W_Q has an entry of 9"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_mistakes_are_one_line(name: str, module: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    arguments, said = WRONG[name]
    assert said in complaint(weightwright("program", module, *arguments), 2)


@pytest.mark.parametrize(
    ("contents", "said"),
    [
        ("[1]", "holds list, and a program is an object with W_Q, W_K, W_V"),
        ("{", "is no JSON"),
        ('{"W_Q": [[1]]}', "has no W_K"),
        ('{"W_Q": 1, "W_K": 1, "W_V": 1, "code": 1}', "has 'code', which no program has"),
        ('{"W_Q": ["a"], "W_K": 1, "W_V": 1}', "W_Q in .* is no array of numbers"),
        ('{"W_Q": [[1]], "W_K": [[1]], "W_V": [[1]]}', r"W_Q must be \(size, 5\)"),
    ],
)
def test_files_that_hold_no_program_are_refused(contents: str, said: str, module: Path, tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text(contents)
    with pytest.raises(Exception, match=said):
        load_program(ww.Interpreter.load(module), path)


def test_what_is_no_archive_is_refused(module: Path, tmp_path: Path) -> None:
    path = tmp_path / "p.npz"
    path.write_bytes(b"not an archive")
    with pytest.raises(Exception, match=r"is no .npz file of arrays"):
        load_program(ww.Interpreter.load(module), path)
    with pytest.raises(ValueError, match=r"a program is a .npz or a .json file"):
        save_program(ww.interpreter.library.average(ww.Interpreter.load(module)), tmp_path / "p.pt")
