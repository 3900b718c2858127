"""All units of a study through an engine; what a folder keeps of an earlier run is not done again."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Sequence
from pathlib import Path

from weightwright.engines import Engine, run_everywhere
from weightwright.papers.experiments.machinery.environment import describe_machine
from weightwright.papers.experiments.machinery.study_units import Json, Unit, read_part, write_part
from weightwright.progress import Tell


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
