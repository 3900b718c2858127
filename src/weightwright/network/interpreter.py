"""The reference semantics of a network, in numpy: every key is computed, masks hide what is not seen.

Slow and plain on purpose; the torch module must agree with it.
"""

from __future__ import annotations

import numpy as np

from weightwright.network import Attention, Block, FeedForward, Head, Layer, Linear, Network, Ramps, Softmax, TokenMap
from weightwright.network.ramps import climb, ramps_of
from weightwright.numbers import Bools, Floats


def interpret(network: Network, X: Floats) -> Floats:
    """The network's output for X of shape (..., n, inputs), in float64."""
    Y = _linear(network.embed, np.asarray(X, dtype=np.float64))
    for layer in network.layers:
        Y = _layer(layer, Y, network.registers)
    return _linear(network.read, Y)


def attention_weights(network: Network, X: Floats, layer: int = 0, head: int = 0) -> Floats:
    """How much each token looks at each key, (..., n, r + n): registers first, then the data tokens.

    layer counts the attention layers, loops opened once. A windowed head has weights on its registers alone, as others.
    """
    Y = _linear(network.embed, np.asarray(X, dtype=np.float64))
    passed = 0
    for step in network.flat_layers:
        if isinstance(step, Attention):
            if passed == layer:
                return _weights(step.heads[head], Y, network.registers)
            passed += 1
        Y = _layer(step, Y, network.registers)
    raise IndexError(f"the network has {passed} attention layers, there is no number {layer}")


def _layer(layer: Layer, X: Floats, registers: Floats) -> Floats:
    if isinstance(layer, Linear):
        return _linear(layer, X)
    if isinstance(layer, Attention):
        nothing = np.zeros((*X.shape[:-1], len(layer.coordinates)))
        mixed = sum((run_head(head, X, registers) for head in layer.heads), nothing)
        return X + mixed if layer.residual else mixed
    if isinstance(layer, Ramps):
        out = climb(ramps_of(layer), X)
        return X + out if layer.residual else out
    if isinstance(layer, FeedForward):
        out = np.maximum(X @ layer.W_1 + layer.b_1, 0) @ layer.W_2 + layer.b_2
        return X + out if layer.residual else out
    if isinstance(layer, Softmax):
        return softmax(layer.beta * X, axis=-1 if layer.over == "features" else -2)
    for _ in range(layer.times):
        for inner in layer.layers:
            X = _layer(inner, X, registers)
    return X


def _linear(linear: Linear, X: Floats) -> Floats:
    n = X.shape[-2] if len(linear.C) == 1 else len(linear.C)
    total: Floats = linear.C if linear.terms else np.broadcast_to(linear.C, (*X.shape[:-2], n, linear.C.shape[1]))
    for term in linear.terms:
        Y = (X if term.S is None else term.S * X) @ term.A
        total = total + (Y if term.tokens is None else move_tokens(term.tokens, Y))
    return total


def move_tokens(map: TokenMap, Y: Floats) -> Floats:
    """R Y, for Y of shape (..., n, d)."""
    n, d = Y.shape[-2:]
    if not isinstance(map, Block):
        return np.asarray(map.matrix(n) @ Y)
    blocks = Y.reshape(*Y.shape[:-2], n // map.R.shape[1], map.R.shape[1], d)
    return np.asarray((map.R @ blocks).reshape(*Y.shape[:-2], map.tokens_after(n), d))


def run_head(head: Head, X: Floats, registers: Floats) -> Floats:
    """What a head adds to the stream X (..., n, d)."""
    Z = registers if head.window is not None else _keys(X, registers)
    weights = _weights(head, X, registers)[..., : Z.shape[-2]]  # a window sees registers alone
    mixed = weights @ (Z @ head.W_V) @ head.W_O
    if head.sees.asks == "first":
        mixed = np.where((np.arange(X.shape[-2]) % head.sees.block == 0)[:, None], mixed, 0.0)
    return np.asarray(mixed)


def _keys(X: Floats, registers: Floats) -> Floats:
    """(..., r + n, d): registers stand before the data."""
    if registers.shape[1] != X.shape[-1]:  # they stand in other coordinates, so that no head sees them here
        registers = np.zeros((len(registers), X.shape[-1]))
    shared = np.broadcast_to(registers, (*X.shape[:-2], *registers.shape)) if len(registers) else X[..., :0, :]
    return np.concatenate([shared, X], axis=-2)


def _weights(head: Head, X: Floats, registers: Floats) -> Floats:
    """(..., n, r + n)"""
    if head.window is not None:
        return _windowed(head, head.window, X, registers)
    n, r = X.shape[-2], len(registers)
    scores = head.beta * (X @ head.W_Q) @ np.swapaxes(_keys(X, registers) @ head.W_K, -1, -2)
    return softmax(np.where(_visible(head, n, r), scores, -np.inf), axis=-1)


def _windowed(head: Head, M: int, X: Floats, registers: Floats) -> Floats:
    """The 2 M + 1 anchors L nearest to the query t weigh exp(-beta (t - L)^2), all others nothing."""
    start, stop = head.sees.registers
    L = (registers[start:stop] @ head.W_K)[:, 0] / 2  # (p,)
    t = np.clip(X @ head.W_Q[:, :1], L[M] - 0.5, L[-1 - M] + 0.5)  # (..., n, 1)
    nearest = np.clip(np.rint(t), L[M], L[-1 - M])
    scores = np.where(np.abs(L - nearest) <= M, -head.beta * (t - L) ** 2, -np.inf)  # (..., n, p)
    weights = np.zeros((*X.shape[:-1], len(registers) + X.shape[-2]))
    weights[..., start:stop] = softmax(scores, axis=-1)
    return weights


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


def softmax(scores: Floats, axis: int) -> Floats:
    """Along an axis; without overflow."""
    weights = np.exp(scores - scores.max(axis=axis, keepdims=True))
    total: Floats = weights / weights.sum(axis=axis, keepdims=True)
    return total
