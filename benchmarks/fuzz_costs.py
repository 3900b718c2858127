"""What one call costs in time and memory, whatever it ends in. For `fuzz_files.py`.

Memory is the highest resident size that Linux has seen since the call began: what numpy takes and gives back within
one step counts too.
"""

from __future__ import annotations

import ctypes
import resource
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weightwright.limits import Limits

#: By how much a limit may be exceeded.
SHARE = 0.2
#: Seconds of a busy machine between two looks at the clock, and MiB that an allocator keeps for later.
FLOOR_SECONDS, FLOOR_MEGABYTES = 0.25, 16.0
#: How often a call that goes beyond its limits is made: the least excess counts, since others use the machine too.
TIMES = 3
#: Seconds after which a call is broken off.
MOST_SECONDS = 60.0
#: Bytes that the process may ask for beyond those that it has: what asks for more is broken off, and told.
MOST_MEMORY = 6 * 2**30
_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class Stuck(BaseException):
    """A call that does not end."""


@dataclass(frozen=True)
class Cost:
    seconds: float
    megabytes: float

    def excess(self, limits: Limits) -> tuple[float, float]:
        """By which share of a limit time and memory went beyond it, the floors taken off."""
        beyond = self.seconds - FLOOR_SECONDS - limits.seconds, self.megabytes - FLOOR_MEGABYTES - limits.megabytes
        return max(0.0, beyond[0] / limits.seconds), max(0.0, beyond[1] / limits.megabytes)


def cap_memory() -> None:
    """A step that would take all of the machine's memory ends in a MemoryError instead."""
    address_space = _kibibytes("VmSize") * 2**10 + MOST_MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (address_space, resource.getrlimit(resource.RLIMIT_AS)[1]))


def least_cost(call: Callable[[], Any], limits: Limits) -> tuple[Any, Exception | None, Cost]:
    """(what it returns, what it raises, what it costs). A call beyond its limits is made again."""
    result, error, cost = _once(call)
    for _ in range(TIMES - 1):
        if max(cost.excess(limits)) <= SHARE:
            break
        result, error, again = _once(call)
        cost = Cost(min(cost.seconds, again.seconds), min(cost.megabytes, again.megabytes))
    return result, error, cost


def _once(call: Callable[[], Any]) -> tuple[Any, Exception | None, Cost]:
    result, error = None, None
    ctypes.CDLL(None).malloc_trim(0)  # memory that was given back long ago would be taken again unseen
    _RESET.write_text("5")  # from here on VmHWM is the highest size
    before, start = _kibibytes("VmRSS"), time.perf_counter()
    signal.signal(signal.SIGALRM, _break_off)
    signal.setitimer(signal.ITIMER_REAL, MOST_SECONDS)
    try:
        result = call()
    except Stuck:
        error = TimeoutError(f"broken off after {MOST_SECONDS:g} s")
    except Exception as raised:
        error = raised
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
    took = time.perf_counter() - start
    return result, error, Cost(took, (_kibibytes("VmHWM") - before) / 2**10)


def _break_off(*_: object) -> None:
    raise Stuck


def _kibibytes(name: str) -> int:
    (line,) = (line for line in _STATUS.read_text().splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1])
