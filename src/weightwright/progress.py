"""What long work is doing, shown while it lasts: in a terminal and in a notebook, nowhere else."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

#: Takes a message.
Tell = Callable[[str], None]
#: True shows messages where somebody sees them, False nowhere; a function is told them.
Progress = bool | Tell

#: Seconds of work before anything is shown: most calls are over by then.
PATIENCE = 2.0


@contextmanager
def show_progress(progress: Progress, message: str, patience: float | None = None) -> Iterator[Tell]:
    """What tells progress. message: the first one. patience: seconds before it is shown, instead of PATIENCE."""
    if not isinstance(progress, bool) and not callable(progress):
        raise TypeError(f"progress must be True, False or a function of a message, not {progress!r}")
    line = _line(message) if progress is True else None
    if line is None:
        yield progress if callable(progress) else lambda message: None
        return
    wait = PATIENCE if patience is None else patience
    timer = threading.Timer(wait, line.start)
    timer.daemon = True
    (timer if wait else line).start()
    try:
        yield line.update
    finally:
        if wait:
            timer.cancel()
            timer.join()
        line.stop()


def _line(message: str) -> Any:
    """A line with `start`, `update` and `stop`; None where nobody would see it."""
    if sys.stderr is not None and sys.stderr.isatty():
        from rich.console import Console

        return Console(stderr=True).status(message)
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return _Cell(message) if hasattr(shell, "kernel") else None


class _Cell:
    """A line below the cell of a notebook, gone when the work is done."""

    def __init__(self, message: str) -> None:
        self.message = message
        self.shown: Any = None

    def start(self) -> None:
        from IPython.display import display

        self.shown = display({"text/plain": self.message}, raw=True, display_id=True)

    def update(self, message: str) -> None:
        self.message = message
        if self.shown is not None:
            self.shown.update({"text/plain": message}, raw=True)

    def stop(self) -> None:
        self.update("")
