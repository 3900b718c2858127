"""sees="registers": a kink takes a head of one-sided keys; soft anchors take what is smooth, fitted together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from weightwright.approximation.kinked import Kinked
from weightwright.approximation.task import SAMPLES
from weightwright.heads.one_sided import FittedKeys, fit_together, one_sided_keys, samples, shapes
from weightwright.heads.registers import Design
from weightwright.heads.spectral import soft_keys
from weightwright.numbers import Floats

#: Keys of a head for a kink, and soft anchors beside it for what is smooth, tried one after the other.
KEYS = (4, 6, 8, 10, 12, 16, 20, 24, 32, 40, 52, 64)
SOFT = (4, 6, 8, 10, 12, 16, 20, 24, 32, 40, 52, 64)
PADDING = {False: 2.0, True: 4.0}  # soft anchors outside on each side, for few and for many
_FEW = 12
TINY = 1e-300
_RIDGE = 1e-3  # times the tolerance


class OneSided:
    """Designs of what a kinked formula is without its jumps; remembers what it has fitted."""

    def __init__(self, kinked: Kinked, most: int, bare: bool = False) -> None:
        self.kinked, self.task, self.most, self.bare = kinked, kinked.task, most, bare
        self.sides, self.start = self._orientation()
        even = np.linspace(self.task.lo, self.task.hi, SAMPLES)
        slope = float(np.ptp(kinked.rest(even))) / (self.task.hi - self.task.lo)
        #: The tolerance in s, at the slopes that the kinks have.
        self.error = self.task.tol / max([slope, *(abs(kink.bend) for kink in kinked.bends), TINY])
        octaves = int(np.clip(np.log2((self.task.hi - self.task.lo) / self.error) + 6, 8, 60))
        s = samples(self.task.lo, self.task.hi, kinked.positions.tolist(), octaves)
        inside = (s[:, None] > kinked.holes[:, 0]) & (s[:, None] < kinked.holes[:, 1])
        self.samples = s[~inside.any(axis=1)]
        self._fits: dict[int, list[FittedKeys]] = {}

    def _orientation(self) -> tuple[list[bool], Design | None]:
        """Which way the kinks bend, and the line that the output starts with; None if heads must make up the line.

        Far from 0 a line in x would cancel, unless it is constant. Bare heads have no line but 0 beside them.
        """
        k, task = self.kinked, self.task
        nearer = k.rightward()
        if not k.linear:
            return nearer, None
        for sides in (nearer, [True] * len(nearer), [False] * len(nearer)):
            line = k.line(*k.pieces()[sides.count(False)])
            start = k.start(line)
            nothing = not (start.mean or start.slope)
            if nothing or ((task.query.centre == 0 or line.slope == 0) and not self.bare):
                return sides, start
        return nearer, None

    def designs(self, aim: float) -> Iterator[Design]:
        """The fewest keys that seem to meet the aim; where none do, what comes nearest."""
        if not self.kinked.bends and self.start is not None:
            yield self.start
            return
        best: FittedKeys | None = None
        for step, count in enumerate(KEYS):
            if count > self.most:
                break
            found = min(self.fits(step), key=lambda fit: fit.error)
            if found.error <= aim:
                good = [fit for fit in self.fits(step) if fit.error <= aim]
                yield self._design(min(good, key=lambda fit: max(np.abs(t.values).max() for t in fit.tables)))
                return
            if best is not None and found.error > 0.8 * best.error and count > 32:
                break  # more keys stopped helping: rounding rules
            best = found if best is None or found.error < best.error else best
        if best is not None:
            yield self._design(best)

    def fits(self, step: int) -> list[FittedKeys]:
        if step not in self._fits:
            self._fits[step] = list(self._fit(KEYS[step], SOFT[step])) or [FittedKeys((), np.inf)]
        return self._fits[step]

    def _fit(self, count: int, soft: int) -> Iterator[FittedKeys]:
        task, target = self.task, self._target()
        ridge = float(np.clip(_RIDGE * task.tol / max(np.abs(target(self.samples)).max(), TINY), 1e-15, 1e-3))
        for shape in shapes(self.error, task.dtype):
            heads = [
                one_sided_keys(kink.at, task.hi if right else task.lo, count, shape, task.dtype)
                for kink, right in zip(self.kinked.bends, self.sides, strict=True)
            ]
            if self.start is None:
                heads.append(soft_keys(task.lo, task.hi, soft, PADDING[soft >= _FEW], shape.c, task.dtype))
            if all(np.isfinite(table.offsets).all() for table in heads):
                yield fit_together(heads, target, self.samples, ridge, task.dtype)

    def _target(self) -> Callable[[Floats], Floats]:
        """What the heads must add to the start."""
        start, mean, query = self.start, self.task.mean, self.task.query
        if start is None:
            return self.kinked.rest
        return lambda s: self.kinked.rest(s) + (mean - start.mean) - start.slope * (query.centre + s / query.scale)

    def _design(self, fitted: FittedKeys) -> Design:
        start = self.start or Design((), (), self.task.mean)
        roles = [
            f"{self.task.text}, bending at {self.kinked.x(kink.at):g}, one-sided keys" for kink in self.kinked.bends
        ]
        if len(fitted.tables) > len(roles):
            roles.append(f"what is smooth in {self.task.text}, soft anchors")
        return replace(start, tables=fitted.tables, roles=tuple(roles))
