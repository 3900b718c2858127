"""Who runs many independent pieces of work: this machine's cores through joblib, or a cluster through ray.

Both call the same function in processes of one torch thread each, so both give the same numbers.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, TypeVar

from weightwright.errors import MissingExtraError

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
