"""Who runs many independent pieces of work: this machine's cores through joblib, or a cluster through ray.

Both call the same function in processes of one torch thread each, so both give the same numbers.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

from weightwright.errors import MissingExtraError
from weightwright.experiments.machinery.environment import describe_machine
from weightwright.experiments.machinery.units import Json, Unit, read_part, write_part
from weightwright.progress import Tell

Engine = Literal["joblib", "ray"]
Item = TypeVar("Item")
Result = TypeVar("Result")


def run_everywhere(
    work: Callable[[Item], Result], items: Sequence[Item], engine: Engine, jobs: int | None = None
) -> Iterator[Result]:
    """work(item) of every item, as they become ready, in any order.

    work: a function that can be sent to another process; it says in its result which item it is of.
    items: what is to be done.
    engine: "joblib" for processes on this machine, "ray" for a cluster (RAY_ADDRESS names it; else a local one).
    jobs: processes at a time; None: one per core; 1 with joblib: this process. ray decides by itself.
    """
    if engine == "ray":
        yield from _through_ray(work, items)
        return
    workers = min(jobs or os.cpu_count() or 1, len(items))
    if workers <= 1:
        yield from (_alone(work, item) for item in items)
        return
    try:
        from joblib import Parallel, delayed
    except ImportError as error:
        raise MissingExtraError("several processes need joblib", "experiments") from error
    yield from Parallel(n_jobs=workers, return_as="generator_unordered")(delayed(_alone)(work, item) for item in items)


def _through_ray(work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    try:
        import ray
    except ImportError as error:
        raise MissingExtraError("engine='ray' needs ray", "ray") from error
    started = not ray.is_initialized()
    if started:
        here = (
            {} if "RAY_ADDRESS" in os.environ else {"env_vars": {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}}
        )
        ray.init(include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False, runtime_env=here)
    try:
        task: Any = ray.remote(num_cpus=1)(_alone)
        waiting = [task.remote(work, item) for item in items]
        while waiting:
            (ready, *_), waiting = ray.wait(waiting)
            yield ray.get(ready)
    finally:
        if started:
            ray.shutdown()


def _alone(work: Callable[[Item], Result], item: Item) -> Result:
    """With one thread: there is a process for every core, and sums in another order would be other numbers."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return work(item)
    finally:
        torch.set_num_threads(before)


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

    work = _Work(shown if here else None)
    shown("kept from an earlier run" if done else "")
    by_name = {unit.name: unit for unit in missing}
    for name, result, seconds, machine in run_everywhere(work, missing, engine, jobs):
        write_part(folder, by_name[name], result, seconds, machine)  # here: other machines need not see this folder
        done += 1
        shown(f"{name} done")
    return {unit.name: read_part(folder, unit) or {} for unit in units}


class _Work:
    """Does a unit: its name, result, seconds and machine. `tell` stays in this process: it is not sent to others."""

    def __init__(self, tell: Tell | None) -> None:
        self.tell = tell

    def __call__(self, unit: Unit) -> tuple[str, Json, float, Json]:
        start = time.perf_counter()
        said = self.tell
        result = unit.work(
            unit.settings, (lambda message: None) if said is None else lambda m: said(f"{unit.name}: {m}")
        )
        seconds = time.perf_counter() - start
        return unit.name, result, seconds, describe_machine(unit.settings["device"])


def _bar(done: int, total: int, width: int = 20) -> str:
    full = width * done // max(total, 1)
    return "━" * full + "╌" * (width - full)
