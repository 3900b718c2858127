"""Small networks that several tests forge: on grids, side by side."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import weightwright as ww

F = "x0 + abs(x1)"


GRIDS: dict[str, Callable[[], ww.AttentionNetwork]] = {
    "bumps": lambda: ww.constructions.bumps(F, 2, 1, g=2, delta=0.25),
    "lookup": lambda: ww.constructions.sequence_to_scalar(F, 2, 1, g=2, delta=0.25),
    "softmax": lambda: ww.constructions.sequence_to_scalar_softmax(F, 2, 1, g=2, delta=0.25),
    "lookup, sequence": lambda: ww.constructions.sequence_to_sequence([F, "x1"], 2, 1, g=2, delta=0.25),
    "softmax, sequence": lambda: ww.constructions.sequence_to_sequence_softmax([F, "x1"], 2, 1, g=2, delta=0.25),
}


SIDES: dict[str, Callable[[], ww.AttentionNetwork]] = {
    "one": lambda: ww.constructions.sequence_to_scalar("sin(x0)*x1", 2, 1, tol=0.1, method="spectral"),
    "two": lambda: ww.constructions.sequence_to_sequence(["sin(x0)*x1", "x0 + x1"], 2, 1, tol=0.1, method="spectral"),
}


@cache
def made(kind: str) -> ww.AttentionNetwork:
    return (GRIDS | SIDES)[kind]()
