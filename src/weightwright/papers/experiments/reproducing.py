"""Runs a study: its units through an engine, then the record (JSON), the figure (PNG, SVG) and the table."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from weightwright.engines import Engine
from weightwright.errors import WeightwrightError
from weightwright.export.figures import require_matplotlib, write_figure
from weightwright.output_files import whole
from weightwright.papers.experiments.machinery.environment import check_device, find_versions
from weightwright.papers.experiments.machinery.panels import draw_picture
from weightwright.papers.experiments.machinery.study import Options, Study, fill_texts
from weightwright.papers.experiments.machinery.study_units import PLACE, Json, digest_of, write_json
from weightwright.papers.experiments.machinery.unit_runs import run_units
from weightwright.papers.experiments.study_tables import write_table
from weightwright.progress import Tell


def reproduce(
    study: Study,
    out: Path,
    options: Options,
    engine: Engine = "joblib",
    jobs: int | None = None,
    tell: Tell = lambda message: None,
) -> Json:
    """Run a study and write ID.json, ID.png, ID.svg and ID.md into a folder; return the record.

    An interrupted run is gone on with by the same call: finished units are kept in the folder ID.parts.

    study: which one.
    out: the folder; made if it is not there.
    options: quick or not, seeds, device, data.
    engine: "joblib" or "ray"; the numbers are the same.
    jobs: processes at a time; None: one per core. On a GPU units run one after the other in this process.
    tell: is told how far it is.
    """
    require_matplotlib()
    check_device(options.device)
    start = time.perf_counter()
    chosen = study.choose_settings(options)
    units = study.plan(chosen)
    assert len({unit.name for unit in units}) == len(units), "two units of a study have one name"
    jobs = 1 if options.device != "cpu" and engine == "joblib" else jobs
    parts = run_units(units, out / f"{study.id}.parts", engine, jobs, lambda said: tell(f"{study.id}: {said}"))
    tell(f"{study.id}: writing")
    record = make_record(study, chosen, {name: part["result"] for name, part in parts.items()})
    record["run"] = describe_run(parts) | {
        "engine": engine,
        "seconds_of_this_call": time.perf_counter() - start,
        "command": command_of(study, options),
    }
    write_record(study, record, out)
    return record


def describe_run(parts: dict[str, Json]) -> Json:
    """How long the parts took, and what they ran on: the machine of the longest, and of those that ran elsewhere."""
    seconds = {name: part["seconds"] for name, part in parts.items()}
    machine = parts[max(seconds, key=lambda name: seconds[name])]["machine"]
    return {
        "machine": machine,
        "parts_elsewhere": {name: part["machine"] for name, part in parts.items() if part["machine"] != machine},
        "seconds_of_parts": seconds,
        "seconds_of_all_parts": sum(seconds.values()),
    }


def make_record(study: Study, chosen: Json, results: dict[str, Json]) -> Json:
    """All numbers of a study and what they mean; everything but `run`, which differs from run to run."""
    texts, summary = study.texts, study.summarise(chosen, results)
    readers = [reader for reader in study.columns.values() if reader is not None]
    effects = [*study.compare_variations(chosen, results), *summary.varied]
    varied = [one.write_row(texts.variations) for one in effects]
    return {
        "study": study.id,
        "title": texts.title,
        "source": texts.source,
        "claim": texts.claim,
        "paper": study.paper,
        "chosen": [fill_texts(choice, summary.numbers) for choice in texts.choices],
        "settings": {key: value for key, value in chosen.items() if key != PLACE},
        "digest": digest_of(chosen),
        "versions": find_versions(),
        "results": without_maps(results),
        "trends": summary.trends,
        "columns": list(study.columns),
        "meanings": fill_texts(texts.meanings, summary.numbers),
        "rows": [[*first, *(reader(numbers) for reader in readers)] for first, numbers in summary.cells],
        "verdicts": [one.write_row(texts.verdicts) for one in summary.verdicts],
        "varied": varied,
        "depends_most_on": max(varied, key=lambda one: one["effect"], default=None),
        "curves": clean(summary.curves),
    }


def write_record(study: Study, record: Json, out: Path) -> None:
    """The four files of a study, each whole or not at all."""
    out.mkdir(parents=True, exist_ok=True)
    with whole(out / f"{study.id}.json", out / f"{study.id}.md") as (facts, page):
        facts.write_text(lines_of(record))
        page.write_text(write_table(record))
    for ending in ("png", "svg"):
        write_figure(out / f"{study.id}.{ending}", lambda: draw_picture(study.picture(record), record))


def lines_of(record: Json) -> str:
    """A record as JSON with a line for each of its keys: readable beside `git diff`, and no line for each number."""
    return "{\n" + ",\n".join(f"{write_json({key: record[key]})[1:-1]}" for key in sorted(record)) + "\n}\n"


def read_record(path: Path) -> Json:
    """A record that `reproduce` wrote."""
    try:
        record: Json = json.loads(path.read_text())
        record["study"], record["trends"], record["rows"]
    except (ValueError, KeyError, TypeError) as error:
        raise WeightwrightError(
            f"{path} is no record of a study ({error}); write it with weightwright reproduce"
        ) from error
    return record


def command_of(study: Study, options: Options) -> str:
    """The command line that makes the record again."""
    words = ["weightwright", "reproduce", study.id]
    words += ["--quick"] if options.quick else ["--full"] if options.full else []
    words += [f"--seeds {options.seeds}"] if options.seeds is not None else []
    words += [f"--epochs {options.epochs}"] if options.epochs is not None else []
    words += [f"--device {options.device}"] if options.device != "cpu" else []
    words += ["--data CORPUS"] if options.data is not None else []
    return " ".join(words)


def without_maps(value: Any) -> Any:
    """Results without heat maps: those that the figure shows stand among the curves."""
    if not isinstance(value, dict):
        return value
    return {key: without_maps(one) for key, one in value.items() if key != "maps"}


def clean(value: Any) -> Any:
    """The same with None in the place of what is no number (nan): JSON has none."""
    if isinstance(value, dict):
        return {key: clean(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [clean(one) for one in value]
    return None if isinstance(value, float) and value != value else value
