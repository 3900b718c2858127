"""Designs to try for a task, one after the other, the cheapest first."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from weightwright.approximation.task import Task
from weightwright.enclosures.intervals.intervals import Interval
from weightwright.enclosures.intervals.jets import jet
from weightwright.errors import ToleranceError
from weightwright.heads.faithful import nearest_anchor
from weightwright.heads.registers import Design, Table
from weightwright.heads.sigmoid import two_keys
from weightwright.heads.spectral import SpectralDesigner
from weightwright.heads.window_anchors import WindowDesigner as WindowDesigner

#: The spectral search stops here: what so many soft anchors cannot do needs another kind of head, or more bits.
MAX_SPECTRAL = {"float64": 512, "float32": 256, "bfloat16": 32}
#: Where a uniform grid of so many anchors is not enough, other places for them are tried first.
MANY = 64
#: Fractions of the tolerance to aim for, one after the other; the rest is left to rounding and slack.
AIMS = (0.93, 0.6, 0.2, 0.02)


def spectral_designs(task: Task, most: int) -> Iterator[Design]:
    """Soft anchors on a uniform grid, or two keys that are exact."""
    exact = two_keys_for(task)
    if exact is not None:
        yield _one(task, exact.rounded(task.dtype), "two keys")
    designer = SpectralDesigner(
        task.target, task.lo, task.hi, task.tol, min(most, MAX_SPECTRAL[task.dtype]), task.dtype
    )
    tried: list[Table] = []
    for aim in AIMS:
        for fit in designer.candidates(aim * task.tol):
            if any(fit.table is table for table in tried):
                continue
            tried.append(fit.table)
            yield _one(task, fit.table, f"{fit.table.size} soft anchors")


def two_keys_for(task: Task) -> Table | None:
    """Two keys that are exact, where the function is a sigmoid."""
    local = task.local(task.mean)
    return two_keys(local) if local is not None else None


def takes_many(task: Task) -> bool:
    """Whether a uniform grid of a few anchors seems not to be enough."""
    designer = SpectralDesigner(task.target, task.lo, task.hi, task.tol, MANY, task.dtype)
    return designer.error(MANY) > AIMS[0] * task.tol


def windowed_designs(task: Task, most: int) -> Iterator[Design]:
    """Soft anchors of which a query sees those nearby: kernel "anchor"."""
    designer = WindowDesigner(task.target, task.lo, task.hi, task.tol, most, task.dtype)
    tried: list[Table] = []
    for aim in AIMS:
        for fit in designer.candidates(aim * task.tol):
            if not any(fit.table is table for table in tried):
                tried.append(fit.table)
                kind = f"{fit.table.size} soft anchors, {2 * (fit.table.window or 0) + 1} of them seen"
                yield replace(_one(task, fit.table, kind), query=task.query.finer(fit.factor))


def faithful_designs(task: Task, most: int) -> Iterator[Design]:
    """The papers' head, UA-2: the nearest of many anchors."""
    local = task.local(task.mean)
    if local is None:
        raise ValueError(f"method='faithful' needs a formula, and {task.text} is none")
    edges = np.linspace(task.lo, task.hi, 257)
    slopes = np.broadcast_to(jet(local, Interval(edges[:-1], edges[1:]), 1)[1].magnitude(), 256)
    slope, largest = float(slopes.max()), float(np.abs(task.target(edges)).max())
    if not math.isfinite(slope):
        raise ToleranceError(f"{task.where}: method='faithful' needs a bounded slope, and none could be shown")
    table = nearest_anchor(task.target, task.lo, task.hi, slope, largest, task.tol, most)
    yield _one(task, table.rounded(task.dtype), f"nearest of {table.size} anchors")


def _one(task: Task, table: Table, kind: str) -> Design:
    return Design((table,), (f"{task.text}, {kind}",), task.mean)
