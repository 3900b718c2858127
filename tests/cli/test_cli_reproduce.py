"""`weightwright reproduce`, and `weightwright check` of several files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.command_line import complaint, printed, printed_json, weightwright
from support.small_studies.tiny_study import tiny_study

import weightwright as ww
from weightwright.papers.experiments import catalogue


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "STUDIES", {"TINY": tiny_study()})


@pytest.mark.usefixtures("tiny")
def test_a_study_is_shown_and_written(tmp_path: Path) -> None:
    said = printed("reproduce", "tiny", "--jobs", "1", "--out", tmp_path)
    assert "TINY: a small study (here)" in said
    assert "trend: MSE against p:" in said
    assert "no: it falls: it is small" in said
    assert (tmp_path / "TINY.svg").exists()
    again = printed_json("reproduce", "all", "--jobs", "1", "--out", tmp_path)
    assert [one["study"] for one in again["studies"]] == ["TINY"]
    assert again["studies"][0]["settings"]["seeds"] == [0, 1]


def test_a_run_that_the_user_stops_says_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "STUDIES", {"TINY": tiny_study(tmp_path, stop_at="5")})
    result = weightwright("reproduce", "tiny", "--jobs", "1", "--out", tmp_path)
    assert "stopped in TINY" in complaint(result, 130)
    assert "the same command goes on" in result.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["UA-E9"], "there is no study 'UA-E9'; write one of UA-E1"),
        (["UA-E1", "--quick", "--full"], "--quick and --full contradict each other"),
        (["LR-E1", "--data", "nowhere.conll"], "--data nowhere.conll: there is no such file"),
        (["UA-E1", "--device", "nowhere"], "'nowhere' cannot be used"),
    ],
)
def test_mistakes_are_one_line(words: list[str], said: str, tmp_path: Path) -> None:
    assert said in complaint(weightwright("reproduce", *words, "--out", tmp_path), 2)


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
