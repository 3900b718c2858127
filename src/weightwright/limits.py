"""What reading and checking a file may cost: seconds, memory, tokens, boxes. What goes beyond ends in a `BudgetError`.

`limited` sets the limits of all that is done inside it. Where work can grow beyond the file that asks for it, the code
says `tick` (once in a while), `hold` (before memory is taken), `count_boxes` and `count_tokens`; outside of `limited`
these do nothing.
"""

from __future__ import annotations

import dataclasses
import math
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from weightwright.errors import BudgetError

#: Share of a domain that dead zones may cover before a status is CONDITIONAL on inputs that avoid them.
DEAD_SHARE = 0.01

#: Seconds between two looks at the memory of the process: a look takes 10 microseconds.
_LOOK = 0.02
#: Bytes that are taken without a look at the memory of the process: 1 MiB.
_LITTLE = 2**20
#: Where Linux says how much memory the process has; elsewhere each piece of memory is compared with the limit alone.
#: Of the numbers there the sixth, "data", counts what was asked for and not written to yet, such as an array of zeros.
_PAGES = Path("/proc/self/statm")


@dataclass(frozen=True)
class Limits:
    """What a file may cost. `math.inf` for no limit.

    seconds: from opening the file to the last word about it; 60 is three times what a file of 200,000 tokens takes.
    megabytes: what the process may grow by, in MiB.
    tokens: data tokens and registers; about a million. (The keys of a prompt's tables are not written out.)
    boxes: pieces of a domain that are examined one by one, those that come from halving included; about a million.
    dead_share: not a cost: the share of a domain that dead zones may cover before the status is CONDITIONAL.
    """

    seconds: float = 60.0
    megabytes: float = 2048.0
    tokens: float = 2.0**20
    boxes: float = 2.0**20
    dead_share: float = DEAD_SHARE

    def __post_init__(self) -> None:
        for name, value in dataclasses.asdict(self).items():
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if name == "dead_share" and not (number and 0 <= value <= 1):
                raise ValueError(f"dead_share = {value!r} must be a number between 0 and 1")
            if name != "dead_share" and not (number and value > 0):
                raise ValueError(f"{name} = {value!r} must be a number above 0, or math.inf for no limit")


class LimitOptions(TypedDict, total=False):
    """The fields of `Limits` as keyword arguments."""

    seconds: float
    megabytes: float
    tokens: float
    boxes: float
    dead_share: float


#: For files that this program has just written itself.
UNLIMITED: LimitOptions = {"seconds": math.inf, "megabytes": math.inf, "tokens": math.inf, "boxes": math.inf}


class _Budget:
    """What is left of some limits, for the work on one file."""

    def __init__(self, what: str, limits: Limits) -> None:
        self.what, self.limits = what, limits
        self.deadline = time.monotonic() + limits.seconds
        self.most = limits.megabytes * 2**20
        self.before = _allocated()
        self.looked, self.boxes = 0.0, 0

    def tick(self) -> None:
        now = time.monotonic()
        if now > self.deadline:
            raise self.exceeded("seconds", "it takes more than {} s")
        if now - self.looked > _LOOK:
            self.looked = now
            self.hold(0)

    def hold(self, size: int) -> None:
        if size > self.most or _allocated() - self.before + size > self.most:
            raise self.exceeded("megabytes", "it takes more than {} MiB of memory")

    def exceeded(self, name: str, complaint: str) -> BudgetError:
        limit = getattr(self.limits, name)
        said = complaint.format(f"{limit:,.6g}")
        return BudgetError(f"{self.what}: {said}; {name}= (--{name}) allows more")


_RUNNING: ContextVar[_Budget | None] = ContextVar("budget", default=None)


@contextmanager
def limited(path: str | os.PathLike[str], limits: Limits) -> Iterator[None]:
    """The limits hold inside, for the file of this name; where memory runs out, that is a BudgetError too."""
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path must be the name of a saved file, not {path!r}; net.check() checks a network")
    if Path(path).is_dir():
        raise IsADirectoryError(f"{os.fspath(path)} is a folder, not a saved network")
    token = _RUNNING.set(_Budget(os.fspath(path), limits))
    try:
        yield
    except MemoryError as error:
        raise BudgetError(f"{os.fspath(path)}: there is not enough memory for it") from error
    finally:
        _RUNNING.reset(token)


def tick() -> None:
    """BudgetError once the time is over, or the memory that was allowed is taken."""
    budget = _RUNNING.get()
    if budget is not None:
        budget.tick()


def hold(numbers: int, each: int = 8) -> None:
    """BudgetError if so many numbers, of `each` bytes, would not find room. Say it before they are made."""
    budget = _RUNNING.get()
    if budget is not None:
        budget.tick()
        if numbers * each > _LITTLE:
            budget.hold(numbers * each)


def count_boxes(boxes: int) -> None:
    """BudgetError once more boxes than allowed were looked at."""
    budget = _RUNNING.get()
    if budget is not None:
        budget.boxes += boxes
        if budget.boxes > budget.limits.boxes:
            raise budget.exceeded("boxes", "more than {} boxes of its domain would be examined")
        budget.tick()


def count_tokens(tokens: int | None) -> None:
    """BudgetError for a sequence, or registers, of more tokens than allowed; None: any number."""
    budget = _RUNNING.get()
    if budget is not None and tokens is not None and tokens > budget.limits.tokens:
        raise budget.exceeded("tokens", f"it has {tokens:,} tokens, more than {{}}")


def dead_share() -> float:
    """The share of a domain that dead zones may cover before a status is CONDITIONAL."""
    budget = _RUNNING.get()
    return DEAD_SHARE if budget is None else budget.limits.dead_share


def _allocated() -> int:
    """Bytes of memory that the process has asked for; 0 where the system does not say."""
    try:
        return int(_PAGES.read_bytes().split()[5]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return 0
