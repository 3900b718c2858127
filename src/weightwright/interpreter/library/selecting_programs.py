"""Programs that pick tokens or rows, or mix them evenly: averaging, copying, selection, nearest neighbour."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weightwright.interpreter.library.algorithms import (
    ROOM,
    Algorithm,
    Part,
    data_tokens,
    encode_scores,
    largest_beta,
    state,
    unit,
)
from weightwright.interpreter.library.table_programs import rows_only
from weightwright.interpreter.virtual_machine import Interpreter
from weightwright.numbers import Floats


def average(vm: Interpreter, name: str = "average") -> Algorithm:
    """The mean of all data tokens, on every token. Scores are 0: no error but rounding."""
    none, eye = np.zeros((1, vm.features)), np.eye(vm.features)
    program = vm.program(none, none, eye, name=name)
    return state(vm, program, lambda x: np.broadcast_to(x.mean(axis=-2, keepdims=True), x.shape), 0.0, "derived")


def copy(vm: Interpreter, source: int | None = None, tokens: int | None = None, name: str = "copy") -> Algorithm:
    """Token `source` on every token; each token itself where it is None. It sees no other: no error but rounding."""
    n = data_tokens(vm, tokens)
    if source is not None and not 0 <= source < n:
        raise ValueError(f"source must be a token, 0 to {n - 1}, not {source}")
    sees = np.eye(n, dtype=bool) if source is None else np.broadcast_to(np.arange(n) == source, (n, n))
    none, eye = np.zeros((1, vm.features)), np.eye(vm.features)

    def plain(x: Floats) -> Floats:
        return x if source is None else np.broadcast_to(x[..., [source], :], x.shape)

    return state(vm, vm.program(none, none, eye, sees=sees.copy(), name=name), plain, 0.0, "derived")


def position_code(n: int) -> Floats:
    """(n, 2): places of n tokens on a circle, for the features that `previous` looks at."""
    angle = 2 * np.pi * np.arange(n) / n
    return np.stack([np.cos(angle), np.sin(angle)], axis=1)


def previous(
    vm: Interpreter, code: tuple[int, int] = (-2, -1), tokens: int | None = None, name: str = "previous token"
) -> Algorithm:
    """The token before, by the position code in two features of the data; the first token's is the last one.

    A query is the own code turned back by one place, the score beta cos(angle between): the next best token is 1 -
    cos(2 pi / n) below, so others weigh (n - 1) e^(-beta (1 - cos)) at most, times twice the largest entry.
    """
    n = data_tokens(vm, tokens)
    if vm.head_dim < 2:
        raise ValueError(f"previous takes queries of size 2, and the interpreter was built for head_dim={vm.head_dim}")
    a, b = (unit(vm, feature) for feature in code)
    turn = 2 * np.pi / n
    back = np.stack([math.cos(turn) * a + math.sin(turn) * b, math.cos(turn) * b - math.sin(turn) * a])
    query, key = (ROOM * min(vm.bounds["w_max"], vm.bounds[name]) for name in ("q_max", "k_max"))
    copies = vm.head_dim // 2
    program = vm.program(
        query * np.tile(back, (copies, 1)), key * np.tile(np.stack([a, b]), (copies, 1)), np.eye(vm.features), name=name
    )
    gap = copies * query * key * (1 - math.cos(turn))
    error = 2 * vm.bounds["x_max"] * (n - 1) * math.exp(-gap)
    return state(vm, program, lambda x: np.roll(x, 1, axis=-2), error, "derived")


def select(vm: Interpreter, feature: int, gap: float, tokens: int | None = None, name: str = "select") -> Algorithm:
    """The token whose `feature` is largest, on every token. The last feature is 1.

    gap: by how much it exceeds the next at least; others weigh (n - 1) e^(-beta gap) at most, times twice the largest
    entry.
    """
    n = data_tokens(vm, tokens)
    query = ROOM * min(vm.bounds["w_max"], vm.bounds["q_max"])
    key = ROOM * min(vm.bounds["w_max"], vm.bounds["k_max"] / vm.bounds["x_max"])
    ask, look = np.tile(unit(vm, -1), (vm.head_dim, 1)), np.tile(unit(vm, feature), (vm.head_dim, 1))
    program = vm.program(query * ask, key * look, np.eye(vm.features), name=name)

    def plain(x: Floats) -> Floats:
        best = x[..., feature].argmax(axis=-1)[..., None, None]
        return np.broadcast_to(np.take_along_axis(x, best, axis=-2), x.shape)

    error = 2 * vm.bounds["x_max"] * (n - 1) * math.exp(-vm.head_dim * query * key * gap)
    return state(vm, program, plain, error, "derived")


def nearest(
    vm: Interpreter, points: Any, labels: Any, gap: float, tokens: int | None = None, name: str = "nearest neighbour"
) -> Algorithm:
    """The label of the nearest point, for every token: points (r, m) and labels (r, o) are rows of the program, the
    first m features of a token are its place, the first o outputs its label. The last feature is 1.

    The score is beta (2 x . point - |point|²), with the largest beta that queries and keys have room for. gap: by how
    much the squared distance to the next point exceeds that to the nearest at least; all others weigh (r - 1)
    e^(-beta gap) at most, times the largest difference of labels.
    """
    at, said, d = np.asarray(points, dtype=np.float64), np.asarray(labels, dtype=np.float64), vm.features
    if at.ndim != 2 or said.ndim != 2 or len(at) != len(said):
        raise ValueError(f"points must be (r, m) and labels (r, o), not {at.shape} and {said.shape}")
    m, o = at.shape[1], said.shape[1]
    if m + 1 + o > d:
        raise ValueError(f"{name} takes {m + 1 + o} features of a row, and the interpreter has features={d}")
    squares = (at**2).sum(axis=1)
    squares = squares - (squares.max() + squares.min()) / 2

    def parts(beta: float) -> list[Part]:
        return [
            *(Part(unit(vm, c), vm.bounds["x_max"], 2 * beta * at[:, c]) for c in range(m)),
            Part(unit(vm, -1), 1.0, -beta * squares),
        ]

    beta = largest_beta(vm, parts)
    scores = encode_scores(vm, parts(beta), name)
    rows, W_V = np.zeros((len(at), d)), np.zeros((d, d))
    room, size = vm.bounds["x_max"], max(float(np.abs(said).max(initial=0.0)), vm.bounds["x_max"])
    rows[:, : m + 1], rows[:, m + 1 : m + 1 + o] = scores.held, said / size * room
    W_V[range(o), m + 1 + np.arange(o)] = size / room
    n = data_tokens(vm, tokens, len(at))
    program = vm.program(scores.W_Q, scores.W_K, W_V, rows=rows, sees=rows_only(n, len(at)), name=name)

    def plain(x: Floats) -> Floats:
        distance = ((x[..., None, :m] - at) ** 2).sum(axis=-1)
        return np.concatenate([said[distance.argmin(axis=-1)], np.zeros((*x.shape[:-1], d - o))], axis=-1)

    error = float(np.ptp(said, axis=0).max(initial=0.0)) * (len(at) - 1) * math.exp(-beta * gap)
    return state(vm, program, plain, error, "derived")
