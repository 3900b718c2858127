"""Designs for formulas that bend or jump: split at the kinks, heads for them, one for what is smooth.

    formula = line or smooth part + sum of jumps * step(s - s_k) + sum of bends * relu(+-(s - s_k))

A kink bends towards the nearer end of the domain, where its relu stays small.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Literal

import numpy as np

from weightwright.approximation.task import Task
from weightwright.enclosures.intervals.jets import values
from weightwright.errors import ToleranceError
from weightwright.expressions import Expression
from weightwright.heads.kinks import Kink, kinks, piecewise_linear, slope_at
from weightwright.heads.registers import Design, Table
from weightwright.heads.step import step_keys
from weightwright.numbers import Floats, rounded

Sees = Literal["registers", "self"]

#: Numbers below this are no size that roundings could be measured by.
TINY = 1e-300
_INSIDE = 0.381  # of a piece: where its line is read off; the middle may hide a jump of a factor


@dataclass(frozen=True)
class KinkLine:
    """slope s + constant."""

    slope: float
    constant: float


class Kinked:
    """A task whose formula has kinks."""

    def __init__(self, task: Task, found: list[Kink]) -> None:
        self.task = task
        self.kinks = found
        self.steps = [kink for kink in found if kink.jump]
        self.bends = [kink for kink in found if not kink.only_jumps]
        around = [[self.x(kink.at) - task.dead_zone, self.x(kink.at) + task.dead_zone] for kink in self.steps]
        self.zones = np.array(around).reshape(-1, 2)  # in x
        self.holes = (self.zones - task.query.centre) * task.query.scale  # in s

    @property
    def positions(self) -> Floats:
        return np.array([kink.at for kink in self.kinks])

    @cached_property
    def formula(self) -> Expression:
        """In s, less the task's mean."""
        local = self.task.local(self.task.mean)
        assert local is not None
        return local

    @cached_property
    def linear(self) -> bool:
        return piecewise_linear(self.formula, self.task.lo, self.task.hi)

    def x(self, s: float) -> float:
        return self.task.query.centre + s / self.task.query.scale

    def number(self, value: float) -> float:
        """The nearest number of the dtype."""
        return float(rounded(np.array(value), self.task.dtype))

    def rest(self, s: Floats) -> Floats:
        """The formula less its mean and its jumps."""
        jumps = sum((kink.jump * (s > kink.at) for kink in self.steps), np.zeros_like(s))
        return values(self.formula, s) - jumps

    def line(self, lo: float, hi: float) -> KinkLine:
        """The line that a piecewise linear formula follows between two neighbouring kinks."""
        ends = [lo, *(kink.at for kink in self.steps if lo < kink.at < hi), hi]
        start, end = max(pairwise(ends), key=lambda piece: piece[1] - piece[0])
        inside = start + _INSIDE * (end - start)
        slope = slope_at(self.formula, inside)
        return KinkLine(slope, float(self.rest(np.array([inside]))[0]) - slope * inside)

    def pieces(self) -> list[tuple[float, float]]:
        """The intervals between the bends."""
        ends = [self.task.lo, *(kink.at for kink in self.bends), self.task.hi]
        return list(pairwise(ends))

    def rightward(self) -> list[bool]:
        """For every bend, whether it bends to the right: the nearer end of the domain."""
        return [self.task.hi - kink.at <= kink.at - self.task.lo for kink in self.bends]

    def step_tables(self, error: float) -> tuple[tuple[Table, ...], tuple[str, ...]]:
        zone = 0.99 * self.task.dead_zone * self.task.query.scale
        tables = (step_keys(kink.at, kink.jump, zone, error).rounded(self.task.dtype) for kink in self.steps)
        roles = (f"step of {kink.jump:g} at {self.x(kink.at):g}, two keys" for kink in self.steps)
        return tuple(tables), tuple(roles)

    def start(self, line: KinkLine) -> Design:
        """A design of no head yet whose output coordinate starts as the line."""
        slope, constant = line.slope * self.task.query.scale, line.constant + self.task.mean
        sizes = (line.slope * self.task.lo, line.slope * self.task.hi, self.task.mean)
        return Design(
            (), (), self.number(_plain(constant, max(map(abs, sizes)))), self.number(_plain(slope, abs(slope)))
        )


def _plain(value: float, size: float) -> float:
    """The decimal that was probably meant, where a few roundings of numbers of this size would explain the rest."""
    plain, noise = round(value, 13 - math.ceil(math.log10(size))) if size > TINY else value, 4 * np.spacing(size)
    return plain if abs(plain - value) <= noise else value


def find_kinks(task: Task) -> Kinked | None:
    """The task with its kinks, or None if it has none; ToleranceError for jumps without a dead zone."""
    formula = task.local(task.mean)
    if formula is None:
        return None
    found = Kinked(task, kinks(formula, task.lo, task.hi))
    if len(found.zones) and not task.dead_zone:
        raise ToleranceError(
            f"{task.where} jumps at x = {found.zones[0, 0]:g}, and no head does; with dead_zone=d nothing is claimed"
            " within d of a jump"
        )
    if (found.zones[:-1, 1] >= found.zones[1:, 0]).any():
        raise ToleranceError(f"{task.where}: dead_zone={task.dead_zone:g} leaves nothing between two jumps")
    if ((found.zones[:, 0] < task.box.lo[0]) & (task.box.hi[0] < found.zones[:, 1])).any():
        raise ToleranceError(f"{task.where}: dead_zone={task.dead_zone:g} leaves nothing of the domain")
    return found if found.kinks else None
