"""Small networks that several tests forge: on grids, side by side."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from weightwright.papers.grids.bumps import bumps
from weightwright.papers.grids.grid_lookup import (
    sequence_to_scalar,
    sequence_to_scalar_softmax,
    sequence_to_sequence,
    sequence_to_sequence_softmax,
)
from weightwright.runtime import AttentionNetwork

F = "x0 + abs(x1)"


GRIDS: dict[str, Callable[[], AttentionNetwork]] = {
    "bumps": lambda: bumps(F, 2, 1, g=2, delta=0.25),
    "lookup": lambda: sequence_to_scalar(F, 2, 1, g=2, delta=0.25),
    "softmax": lambda: sequence_to_scalar_softmax(F, 2, 1, g=2, delta=0.25),
    "lookup, sequence": lambda: sequence_to_sequence([F, "x1"], 2, 1, g=2, delta=0.25),
    "softmax, sequence": lambda: sequence_to_sequence_softmax([F, "x1"], 2, 1, g=2, delta=0.25),
}


SIDES: dict[str, Callable[[], AttentionNetwork]] = {
    "one": lambda: sequence_to_scalar("sin(x0)*x1", 2, 1, tol=0.1, method="spectral"),
    "two": lambda: sequence_to_sequence(["sin(x0)*x1", "x0 + x1"], 2, 1, tol=0.1, method="spectral"),
}


@cache
def made(kind: str) -> AttentionNetwork:
    return (GRIDS | SIDES)[kind]()
