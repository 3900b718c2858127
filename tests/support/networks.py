"""Maps, layers of one head and networks by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from weightwright.network import Attention, Head, Linear, Network, Sees, Term


def linear(names: Sequence[str], A: Any, C: Any = None, tokens: Any = None) -> Linear:
    """A map with one term: x A + C, on the token axis as `tokens` says. No C: zeros."""
    A = np.array(A, dtype=float)
    return Linear(
        tuple(names), (Term(A, tokens),), np.zeros((1, len(names))) if C is None else np.array(C, dtype=float)
    )


def attending(
    names: Sequence[str],
    W_Q: Any,
    W_K: Any,
    W_V: Any,
    W_O: Any,
    beta: float = 1.0,
    registers: tuple[int, int] = (0, 0),
    data: Literal["none", "self", "earlier", "all"] = "all",
    role: str = "by hand",
    mask: np.ndarray | None = None,
    window: int | None = None,
    residual: bool = True,
) -> Attention:
    """A layer of one head. registers: from the first that it sees up to but not including the second."""
    head = Head(role, W_Q, W_K, W_V, W_O, beta, Sees(registers, data), mask, window)
    return Attention(tuple(names), (head,), residual)


def by_hand(
    inputs: Sequence[str],
    embed: Linear,
    layers: Sequence[Any],
    read: Linear | Sequence[str],
    registers: Any = None,
    tokens: int | None = None,
    dtype: str = "float64",
) -> Network:
    """A network of these parts. read: a map, or the names of the coordinates of the embedding that are read. No
    registers: none."""
    if not isinstance(read, Linear):
        read = linear(read, np.eye(len(embed.coordinates))[:, [embed.coordinates.index(name) for name in read]])
    rows = np.zeros((0, len(embed.coordinates))) if registers is None else registers
    return Network(tuple(inputs), embed, rows, tuple(layers), read, tokens, dtype)
