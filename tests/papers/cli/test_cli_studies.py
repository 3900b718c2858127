"""`weightwright reproduce`."""

from __future__ import annotations

from pathlib import Path

import pytest
from papers.support.tiny_study import tiny_study
from support.command_line import complaint, printed, printed_json, weightwright

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
