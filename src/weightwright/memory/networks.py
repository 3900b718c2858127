"""A Hopfield memory as a network: queries are data tokens, patterns are registers.

The stream: query (dim), pattern (dim) and value on registers, the result, and data, 1 on data tokens.
"""

from __future__ import annotations

import math

import numpy as np

from weightwright.heads.assemble import HIDDEN
from weightwright.network import Attention, Head, Loop, Network, Sees, selection, token_wise
from weightwright.network.layers import Floats, Layer, Names


def hopfield_network(patterns: Floats, values: Floats | None, beta: float, steps: int, dtype: str) -> Network:
    """steps - 1 updates of the query in one loop, then the values are read. values: None for the patterns.

    With one step the network is native: a plain Transformer sees the data tokens too, whose score lies HIDDEN below
    every pattern's for queries that are no longer than the longest pattern.
    """
    N, d = patterns.shape
    m = d if values is None else values.shape[1]
    query, stored, out = (_numbered(word, count) for word, count in (("query", d), ("pattern", d), ("out", m)))
    kept = () if values is None else _numbered("value", m)
    names = (*query, *stored, *kept, *out, "data")
    registers = np.zeros((N, len(names)))
    registers[:, d : 2 * d] = patterns
    if values is not None:
        registers[:, 2 * d : 2 * d + m] = values
    layers: list[Layer] = []
    if steps > 1:
        update = _head("the patterns' mean, weighted by likeness", names, patterns, beta, d, d, 0)
        layers.append(Loop((Attention(names, (update,), residual=False),), steps - 1))
    source = d if values is None else 2 * d
    layers.append(Attention(names, (_head("read", names, patterns, beta, source, m, len(names) - 1 - m),)))
    return Network(
        inputs=query,
        embed=token_wise(query, names, {(name, name): 1.0 for name in query}, {"data": 1.0}),
        registers=registers,
        layers=tuple(layers),
        read=selection(names, out),
        dtype=dtype,
    )


def _head(role: str, names: Names, patterns: Floats, beta: float, source: int, size: int, target: int) -> Head:
    """Reads `size` coordinates of the registers from `source` on, and writes them from `target` on."""
    (N, d), D = patterns.shape, len(names)
    W_Q, W_K, W_V, W_O = np.zeros((D, d + 1)), np.zeros((D, d + 1)), np.zeros((D, size)), np.zeros((size, D))
    W_Q[:d, :d], W_K[d : 2 * d, :d] = np.eye(d), np.eye(d)
    longest = float((patterns**2).sum(axis=1).max())
    W_Q[-1, d], W_K[-1, d] = 1.0, -math.ldexp(1.0, math.ceil(math.log2(-HIDDEN / beta + longest)))
    W_V[source : source + size], W_O[:, target : target + size] = np.eye(size), np.eye(size)
    return Head(role, W_Q, W_K, W_V, W_O, beta, Sees((0, N), "none"))


def _numbered(word: str, count: int) -> Names:
    return tuple(f"{word}[{i}]" for i in range(count))
