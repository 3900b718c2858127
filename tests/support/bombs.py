"""Small files that ask for much end in a BudgetError, in time and without the memory."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from support.forging import save_forged

import weightwright as ww
from weightwright.limits import _allocated

#: What the files here may take; nobody needs half of it who is not up to something.
SECONDS, MEGABYTES = 0.5, 128.0
#: What they take at most, on a slow machine: reading them, and the time between two looks at the clock.
MOST_SECONDS, MOST_MEGABYTES = 5.0, 256.0


def stopped(network: Any, certificate: Any, folder: Path) -> None:
    path = save_forged(network, certificate, folder / "bomb.safetensors")
    assert path.stat().st_size < 2**20
    start, before = time.perf_counter(), _allocated()
    with pytest.raises(ww.BudgetError, match=r"bomb\.safetensors: .*(--seconds|--megabytes|--boxes)"):
        ww.check(path, seconds=SECONDS, megabytes=MEGABYTES, boxes=2.0**20)
    assert time.perf_counter() - start < MOST_SECONDS
    assert _allocated() - before < MOST_MEGABYTES * 2**20
