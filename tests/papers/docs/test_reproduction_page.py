"""docs/reproduction.md is what its records say, and each of these is whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import reproduction

from weightwright.papers.experiments.catalogue import STUDIES
from weightwright.papers.experiments.machinery.study import Options
from weightwright.papers.experiments.machinery.study_units import digest_of, read_part
from weightwright.papers.experiments.reproducing import lines_of, make_record, read_record
from weightwright.papers.experiments.reproduction_page import write_page

RECORDS = sorted(reproduction.RECORDS.glob("*.json"))


def test_the_page_is_what_the_records_say() -> None:
    page = (reproduction.RECORDS.parent / "reproduction.md").read_text()
    assert page == reproduction.make_page(), (
        "run `make docs`, or benchmarks/reproduction.py --write docs/reproduction.md"
    )


#: Studies that are being run again: their earlier verdicts hung on choices that they did not list. Their finished parts
#: stand in docs/reproduction/parts.
RUNNING = {"AE-E2", "AE-E3", "LR-E1", "SU-3"}


def test_every_study_has_a_record_and_its_figures() -> None:
    assert {path.stem for path in RECORDS} == set(STUDIES) - RUNNING
    for path in RECORDS:
        assert path.with_suffix(".png").exists()
        assert path.with_suffix(".svg").exists()


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_a_record_says_what_it_is(path: Path) -> None:
    record = read_record(path)
    assert record["digest"] == digest_of(record["settings"])
    assert record["settings"]["seeds"]
    assert record["run"]["seconds_of_all_parts"] > 0
    assert {"python", "torch", "numpy"} <= set(record["versions"])
    assert record["trends"]
    assert all({"sign", "slope", "lo", "hi"} <= set(trend) for trend in record["trends"])
    assert all(row["fired"] <= row["models"] for row in record["checks"])
    assert record["about"] in {one["claim"] for one in record["verdicts"]}
    names = [name for one in record["run"]["machines"] for name in one["parts"]]
    assert sorted(names) == sorted(record["run"]["seconds_of_parts"])
    assert all({"device", "versions", "processor"} <= set(one["machine"]) for one in record["run"]["machines"])
    assert "/work" not in path.read_text()  # where files were on one machine is nobody's business


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_a_record_follows_from_its_results(path: Path) -> None:
    """Trends, table and what was varied, computed again; of UA-E2 the results hold no heat maps: the curves do."""
    record = read_record(path)
    results = record["results"]
    if path.stem == "UA-E2":
        for row, width in enumerate(record["settings"]["widths"]):
            results[f"trained-width{width:g}"]["maps"] = record["curves"]["trained"][row]
            results[f"built-width{width:g}"]["faithful, p = n + 1"]["maps"] = [record["curves"]["built"][row]]
    again = json.loads(lines_of(make_record(STUDIES[path.stem], record["settings"], results)))
    for key in ("trends", "rows", "varied", "curves"):
        assert numbers_of(again[key]) == pytest.approx(numbers_of(record[key]), rel=1e-6, nan_ok=True), key
    assert [one["reproduced"] for one in again["verdicts"]] == [one["reproduced"] for one in record["verdicts"]]
    texts = STUDIES[path.stem].texts
    assert {one["claim"] for one in again["verdicts"]} == {row["claim"] for row in texts.verdicts.values()}
    assert {one["setting"] for one in again["varied"]} == {row["setting"] for row in texts.variations.values()}
    assert (again["columns"], again["digest"]) == (record["columns"], record["digest"])


PARTS = sorted((reproduction.RECORDS / "parts").glob("*.parts"))


@pytest.mark.parametrize("folder", PARTS, ids=lambda path: path.stem)
def test_finished_parts_are_of_the_study_as_it_is(folder: Path) -> None:
    """So that the next run goes on with them; a part of other settings is an error."""
    assert folder.stem in RUNNING
    study = STUDIES[folder.stem]
    units = {unit.name: unit for unit in study.plan(study.choose_settings(Options(full=True)))}
    for path in folder.iterdir():
        assert read_part(folder, units[path.stem]) is not None


def numbers_of(value: Any) -> list[float]:
    """All numbers of a part of a record, in order."""
    if isinstance(value, dict):
        value = [value[key] for key in sorted(value)]
    if isinstance(value, list):
        return [number for one in value for number in numbers_of(one)]
    return [float(value)] if isinstance(value, int | float) else []


def test_a_folder_without_records_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="there is no record of a study in"):
        write_page(tmp_path, "x")
