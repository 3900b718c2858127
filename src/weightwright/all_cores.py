"""Independent pieces of work on several cores: processes that branch off this one, which works along.

A branch has everything that this process has, so nothing is imported or sent to it; results come back through a pipe.
What a branch fails at, this process does itself, and so errors are raised here. Branches compute with numpy, scipy and
flint alone: torch's threads are not there in a process that branched off.
"""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")

#: Pieces that are shared out, at most: each is a byte in a pipe.
MOST = 256


def processes() -> int:
    """How many there may be: as many as torch has threads, where processes can branch off safely."""
    return torch.get_num_threads() if sys.platform == "linux" else 1


def work_on_all_cores(work: Callable[[Item], Result], items: Sequence[Item]) -> dict[int, Result]:
    """work(item) by the item's number, on all cores; without those that a branch failed at, or whose branch ended.

    work: returns what can be pickled. What it raises in this process is raised here.
    """
    items = items[:MOST]
    waiting, tasks = os.pipe()
    os.write(tasks, bytes(range(len(items))))
    os.close(tasks)
    branches: list[tuple[int, Connection]] = []
    found: dict[int, Result] = {}
    raised = True
    try:
        with suppress(OSError):  # no more processes, or no memory for one
            for _ in range(min(processes(), len(items)) - 1):
                branches.append(_branch_off(work, items, waiting, [receiving for _, receiving in branches]))
        for number in _claimed(waiting):
            found[number] = work(items[number])
        for _, receiving in branches:
            with suppress(EOFError, OSError):
                while True:
                    number, result = receiving.recv()
                    found[number] = result
        raised = False
    finally:
        os.close(waiting)
        for branch, receiving in branches:
            receiving.close()
            _bury(branch, raised)
    return found


def _bury(branch: int, working: bool) -> None:
    """Wait for a branch to end, and end it if it is still working. Programs that bury their children themselves, by a
    handler of SIGCHLD, have done so already."""
    with suppress(ChildProcessError):
        if working and os.waitpid(branch, os.WNOHANG)[0] == branch:
            return
        if working:
            os.kill(branch, signal.SIGKILL)
        os.waitpid(branch, 0)


def _branch_off(
    work: Callable[[Item], Result], items: Sequence[Item], waiting: int, others: Sequence[Connection]
) -> tuple[int, Connection]:
    here = os.getpid()
    receiving, sending = Pipe(duplex=False)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of threads, which branches do not use
            branch = os.fork()
    except OSError:
        receiving.close()
        sending.close()
        raise
    if branch:
        sending.close()
        return branch, receiving
    try:
        for end in (receiving, *others):  # read by the process that asked alone: if it ends, sending fails
            end.close()
        for number in _claimed(waiting):
            sending.send((number, work(items[number])))
            if os.getppid() != here:
                break
    except BaseException:  # the piece is done again where errors are heard
        pass
    finally:
        os._exit(0)


def _claimed(waiting: int) -> Iterator[int]:
    """The numbers that are still waiting, each for one process."""
    while number := os.read(waiting, 1):
        yield number[0]
