"""A study runs, can be stopped and gone on with, and gives the same numbers whoever runs it."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from papers.support.tiny_study import tiny_study

import weightwright as ww
from weightwright.papers.experiments.machinery import study_units
from weightwright.papers.experiments.machinery.study import Options
from weightwright.papers.experiments.reproducing import UnfinishedError, read_record, reproduce


def without_times(record: Any) -> Any:
    return {key: value for key, value in record.items() if key != "run"}


def test_a_study_that_was_stopped_goes_on_and_comes_out_the_same(tmp_path: Path) -> None:
    whole = reproduce(tiny_study(), tmp_path / "whole", Options(), jobs=1)
    counting = tmp_path / "counting"
    counting.mkdir()
    with pytest.raises(KeyboardInterrupt):
        reproduce(tiny_study(counting, stop_at="5"), tmp_path / "halves", Options(), jobs=1)
    assert sorted(path.name for path in (tmp_path / "halves" / "TINY.parts").iterdir()) == ["p4.json"]
    again = reproduce(tiny_study(counting), tmp_path / "halves", Options(), jobs=1)
    assert (counting / "done").read_text().split() == ["4", "5", "5", "6"]  # p = 4 is not done twice
    assert without_times(again) == without_times(whole)


def test_the_files_of_a_study(tmp_path: Path) -> None:
    record = reproduce(tiny_study(), tmp_path, Options(), jobs=1)
    assert {path.name for path in tmp_path.iterdir()} == {
        f"TINY.{end}" for end in ("json", "md", "png", "svg", "parts")
    }
    assert read_record(tmp_path / "TINY.json") == json.loads(json.dumps(record))
    assert "- p: MSE: " in (tmp_path / "TINY.md").read_text()
    assert {"settings", "versions", "digest", "trends", "run"} <= set(record)


def test_parts_of_other_settings_are_no_parts_of_this_run(tmp_path: Path) -> None:
    reproduce(tiny_study(), tmp_path, Options(), jobs=1)
    with pytest.raises(ww.WeightwrightError, match=r"other settings \(seeds = \[0, 1\], not \[0, 1, 2\]\).*--out"):
        reproduce(tiny_study(), tmp_path, Options(seeds=3), jobs=1)


def test_a_part_that_was_altered_is_refused(tmp_path: Path) -> None:
    reproduce(tiny_study(), tmp_path, Options(), jobs=1)
    (tmp_path / "TINY.parts" / "p4.json").write_text("{")
    with pytest.raises(ww.WeightwrightError, match="no part of a study"):
        reproduce(tiny_study(), tmp_path, Options(), jobs=1)


def test_parts_that_ran_elsewhere_are_named(tmp_path: Path) -> None:
    record = reproduce(tiny_study(), tmp_path, Options(), jobs=1)
    (only,) = record["run"]["machines"]
    assert only["parts"] == ["p4", "p5", "p6"]
    assert {"processor", "device", "versions"} <= set(only["machine"])
    path = tmp_path / "TINY.parts" / "p4.json"
    part = json.loads(path.read_text())
    path.write_text(json.dumps(part | {"machine": part["machine"] | {"accelerator": "a GPU"}}))
    again = reproduce(tiny_study(), tmp_path, Options(), jobs=1)
    assert [one["parts"] for one in again["run"]["machines"]] == [["p4"], ["p5", "p6"]]
    assert ": 1 part on a GPU (torch " in (tmp_path / "TINY.md").read_text()
    assert without_times(again) == without_times(record)


def test_parts_of_two_folders_are_joined(tmp_path: Path) -> None:
    """What one machine has not, another had; a training that was stopped there goes on here."""
    whole = reproduce(tiny_study(), tmp_path / "whole", Options(), jobs=1)
    with pytest.raises(UnfinishedError, match="TINY: 1 of 3 parts are done; missing: p5, p6") as unfinished:
        reproduce(tiny_study(), tmp_path / "one", Options(), jobs=1, only=["p4"])
    assert unfinished.value.missing == ["p5", "p6"]
    with pytest.raises(UnfinishedError):
        reproduce(tiny_study(), tmp_path / "two", Options(), jobs=1, only=["p[56]"])
    assert not (tmp_path / "two" / "TINY.json").exists()
    joined = reproduce(tiny_study(), tmp_path / "two", Options(), jobs=1, join=[tmp_path / "one"])
    assert without_times(joined) == without_times(whole)


def test_what_was_stopped_elsewhere_goes_on_here(tmp_path: Path) -> None:
    """Parts do not depend on where they ran: device and files are in no digest."""
    study, chosen = tiny_study(), tiny_study().choose_settings(Options())
    unit = study.plan(chosen)[0]
    folder = tmp_path / "there" / "TINY.parts"
    folder.mkdir(parents=True)
    with pytest.raises(study_units.OutOfTimeError):
        unit.work(
            unit.settings,
            study_units.Worker(states=folder / "p4", digest=study_units.digest_of(unit.settings), until=0.0),
        )
    assert study_units.state_paths(folder, unit)
    elsewhere = replace(unit, settings=unit.settings | {"device": "cuda", "data": "/there"})
    assert study_units.digest_of(elsewhere.settings) == study_units.digest_of(unit.settings)
    here = reproduce(study, tmp_path / "here", Options(), jobs=1, join=[tmp_path / "there"])
    assert without_times(here) == without_times(reproduce(study, tmp_path / "whole", Options(), jobs=1))
    assert not study_units.state_paths(tmp_path / "here" / "TINY.parts", unit)


def test_no_time_does_nothing_and_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(UnfinishedError, match="0 of 3 parts are done"):
        reproduce(tiny_study(), tmp_path, Options(), jobs=1, minutes=0.0)
    with pytest.raises(ValueError, match=r"only=\['p7'\]: TINY has no such part, but p4, p5, p6"):
        reproduce(tiny_study(), tmp_path, Options(), jobs=1, only=["p7"])
    with pytest.raises(ww.WeightwrightError, match="there is no such folder of parts"):
        reproduce(tiny_study(), tmp_path, Options(), jobs=1, join=[tmp_path / "nowhere"])


@pytest.mark.slow
def test_processes_give_the_numbers_of_one(tmp_path: Path) -> None:
    alone = reproduce(tiny_study(), tmp_path / "one", Options(), jobs=1)
    beside = reproduce(tiny_study(), tmp_path / "two", Options(), engine="joblib", jobs=2)
    assert without_times(alone) == without_times(beside)


def test_parts_that_are_sent_away_and_come_in_any_order_give_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = reproduce(tiny_study(), tmp_path / "one", Options(), jobs=1)

    def elsewhere(work: Any, units: Any, engine: str, jobs: int | None) -> Iterator[Any]:
        assert (engine, jobs) == ("joblib", 2)
        for unit in reversed(units):
            sent = pickle.loads(pickle.dumps((work, unit)))
            yield pickle.loads(pickle.dumps(sent[0](sent[1])))

    monkeypatch.setattr("weightwright.papers.experiments.reproducing.run_everywhere", elsewhere)
    sent = reproduce(tiny_study(), tmp_path / "two", Options(), jobs=2)
    assert without_times(alone) == without_times(sent)


def test_ray_gives_the_numbers_of_joblib(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    alone = reproduce(tiny_study(), tmp_path / "one", Options(), jobs=1)
    spread = reproduce(tiny_study(), tmp_path / "ray", Options(), engine="ray")
    assert without_times(alone) == without_times(spread)


def test_a_device_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="device 'nowhere' cannot be used"):
        reproduce(tiny_study(), tmp_path, Options(device="nowhere"))
