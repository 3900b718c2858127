"""The reference semantics of a network, in numpy: every key is computed, masks hide what is not seen.

Slow and plain on purpose; the torch module must agree with it.
"""

from __future__ import annotations

import numpy as np

from weightwright.network import Attention, FeedForward, Head, Layer, Linear, Network, Softmax
from weightwright.network.layers import Bools, Floats


def interpret(network: Network, X: Floats) -> Floats:
    """The network's output for X of shape (..., n, inputs), in float64."""
    Y = _linear(network.embed, np.asarray(X, dtype=np.float64))
    for layer in network.layers:
        Y = _layer(layer, Y, network.registers)
    return _linear(network.read, Y)


def _layer(layer: Layer, X: Floats, registers: Floats) -> Floats:
    if isinstance(layer, Linear):
        return _linear(layer, X)
    if isinstance(layer, Attention):
        nothing = np.zeros((*X.shape[:-1], len(layer.coordinates)))
        mixed = sum((_head(head, X, registers) for head in layer.heads), nothing)
        return X + mixed if layer.residual else mixed
    if isinstance(layer, FeedForward):
        out = np.maximum(X @ layer.W_1 + layer.b_1, 0) @ layer.W_2 + layer.b_2
        return X + out if layer.residual else out
    if isinstance(layer, Softmax):
        return _softmax(layer.beta * X, axis=-1 if layer.over == "features" else -2)
    for _ in range(layer.times):
        for inner in layer.layers:
            X = _layer(inner, X, registers)
    return X


def _linear(linear: Linear, X: Floats) -> Floats:
    n = X.shape[-2] if len(linear.C) == 1 else len(linear.C)
    total: Floats = linear.C if linear.terms else np.broadcast_to(linear.C, (*X.shape[:-2], n, linear.C.shape[1]))
    for term in linear.terms:
        Y = (X if term.S is None else term.S * X) @ term.A
        total = total + (Y if term.R is None else term.R @ Y)
    return total


def _head(head: Head, X: Floats, registers: Floats) -> Floats:
    if head.window is not None:
        return _windowed(head, head.window, X, registers)
    n, r = X.shape[-2], len(registers)
    shared = np.broadcast_to(registers, (*X.shape[:-2], *registers.shape)) if r else X[..., :0, :]
    Z = np.concatenate([shared, X], axis=-2)  # (..., r + n, d): registers stand before the data
    scores = head.beta * (X @ head.W_Q) @ np.swapaxes(Z @ head.W_K, -1, -2)  # (..., n, r + n)
    weights = _softmax(np.where(_visible(head, n, r), scores, -np.inf), axis=-1)
    return weights @ (Z @ head.W_V) @ head.W_O


def _windowed(head: Head, M: int, X: Floats, registers: Floats) -> Floats:
    """The 2 M + 1 anchors L nearest to the query t weigh exp(-beta (t - L)^2), all others nothing."""
    Z = registers[slice(*head.sees.registers)]
    L = (Z @ head.W_K)[:, 0] / 2  # (p,)
    t = np.clip(X @ head.W_Q[:, :1], L[M] - 0.5, L[-1 - M] + 0.5)  # (..., n, 1)
    nearest = np.clip(np.rint(t), L[M], L[-1 - M])
    scores = np.where(np.abs(L - nearest) <= M, -head.beta * (t - L) ** 2, -np.inf)  # (..., n, p)
    return _softmax(scores, axis=-1) @ (Z @ head.W_V) @ head.W_O


def _visible(head: Head, n: int, r: int) -> Bools:
    """(n, r + n): which keys each query sees."""
    query, key = np.arange(n)[:, None], np.arange(n)[None, :]
    data = {
        "none": np.zeros((n, n), dtype=bool),
        "self": query == key,
        "block": query // max(head.sees.block, 1) == key // max(head.sees.block, 1),
        "earlier": key <= query,
        "all": np.ones((n, n), dtype=bool),
    }[head.sees.data]
    if head.mask is not None:
        data = data & head.mask
    start, stop = head.sees.registers
    register = np.broadcast_to((np.arange(r) >= start) & (np.arange(r) < stop), (n, r))
    return np.concatenate([register, data], axis=1)


def _softmax(scores: Floats, axis: int) -> Floats:
    weights = np.exp(scores - scores.max(axis=axis, keepdims=True))
    total: Floats = weights / weights.sum(axis=axis, keepdims=True)
    return total
