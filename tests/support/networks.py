"""Maps and networks by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weightwright.network import Linear, Network, Term


def linear(names: Sequence[str], A: Any, C: Any = None, tokens: Any = None) -> Linear:
    """A map with one term: x A + C, on the token axis as `tokens` says. No C: zeros."""
    A = np.array(A, dtype=float)
    return Linear(
        tuple(names), (Term(A, tokens),), np.zeros((1, len(names))) if C is None else np.array(C, dtype=float)
    )


def by_hand(
    inputs: Sequence[str],
    embed: Linear,
    layers: Sequence[Any],
    read: Linear,
    registers: Any = None,
    tokens: int | None = None,
    dtype: str = "float64",
) -> Network:
    """A network of these parts. No registers: none."""
    rows = np.zeros((0, len(embed.coordinates))) if registers is None else registers
    return Network(tuple(inputs), embed, rows, tuple(layers), read, tokens, dtype)
