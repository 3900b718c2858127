"""Where the seconds of a long call go: stages with their own time, named where they stand in the source."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

_ROOT = Path(__file__).parent


@dataclass
class Stage:
    """A part of the work. seconds: without those of stages inside it."""

    name: str
    place: str  # file and line, from the package's folder on
    seconds: float = 0.0
    calls: int = 0


@dataclass
class Stopwatch:
    """The stages of one call, in the order in which they were first begun."""

    stages: dict[tuple[str, str], Stage] = field(default_factory=dict)
    inside: list[float] = field(default_factory=list)  # seconds of the stages within each of those now open

    def longest(self) -> tuple[Stage, ...]:
        """The longest first."""
        return tuple(sorted(self.stages.values(), key=lambda stage: -stage.seconds))


_RUNNING: ContextVar[Stopwatch | None] = ContextVar("stopwatch", default=None)


@contextmanager
def watch_stages() -> Iterator[Stopwatch]:
    """Count the stages of the block; those of calls inside it that watch for themselves count here too."""
    watch = _RUNNING.get() or Stopwatch()
    token = _RUNNING.set(watch)
    try:
        yield watch
    finally:
        _RUNNING.reset(token)


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Work that is counted under a name, where somebody watches."""
    watch = _RUNNING.get()
    if watch is None:
        yield
        return
    frame = sys._getframe(2)  # past contextlib's own
    place = f"{Path(frame.f_code.co_filename).relative_to(_ROOT).as_posix()}:{frame.f_lineno}"
    here = watch.stages.setdefault((name, place), Stage(name, place))
    watch.inside.append(0.0)
    begun = time.perf_counter()
    try:
        yield
    finally:
        spent = time.perf_counter() - begun
        here.seconds += spent - watch.inside.pop()
        here.calls += 1
        if watch.inside:
            watch.inside[-1] += spent
