"""The checker's rule for heads with constant scores: every token receives a fixed mean of the values."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from flint import arb

from weightwright.checker.composite.stream import (
    LEAKAGE,
    ROUNDING,
    Basis,
    Row,
    Stream,
    exact_numbers,
    linear,
    mixed,
)
from weightwright.checker.core.complaints import must
from weightwright.checker.core.machine import Machine
from weightwright.enclosures.balls.midrad import ROOM, Balls, above, gamma, power_of_two, product_of_balls
from weightwright.limits import hold, tick
from weightwright.network import Head, Linear, Term
from weightwright.numbers import Bools, Floats

#: Arrays of the size of all scores that are there at the same time.
_ARRAYS = 6


@dataclass(frozen=True)
class Keys:
    """What a head can look at: registers, then data tokens; and whether what it does not see must be hidden."""

    registers: Floats
    stream: Stream
    basis: Basis
    machine: Machine
    hide: bool

    @property
    def held(self) -> Floats:
        """The numbers that are known exactly, NaN elsewhere; registers before tokens."""
        return np.concatenate([self.registers, self.stream.constants])

    def through(self, W: Floats) -> Stream:
        """All keys' coordinates times W, as computed."""
        rows = [Row.constant(register) for register in self.registers] + self.stream.rows
        err = np.concatenate([np.zeros((3, *self.registers.shape)), self.stream.err], axis=1)
        return self.times(Stream(rows, err), W)

    def times(self, stream: Stream, W: Floats) -> Stream:
        """Every token's coordinates times W, as computed."""
        names = tuple(str(c) for c in range(W.shape[1]))
        map = Linear(names, (Term(W),), np.zeros((1, W.shape[1])))
        return linear(stream, map, self.basis, self.machine)


def constant_mixing(head: Head, keys: Keys) -> Stream:
    """Scores are numbers, so every token receives a fixed mean of the values; forms and errors of (tokens, d_out)."""
    m, r, n = keys.machine, len(keys.registers), len(keys.stream.rows)
    hold(_ARRAYS * n * (n + r))
    must(bool(power_of_two(np.array(head.beta))) and head.window is None, f"a mixing head with beta {head.beta!r}")
    K = exact_numbers(keys.held, head.W_K, m.dtype)
    Q = exact_numbers(keys.stream.constants, head.W_Q, m.dtype)
    seen = visible(head, n, r)
    must(bool(np.isfinite(Q).all()), "the scores of a head that no claim names must be constant")
    must(bool(np.isfinite(K[seen.any(axis=0) | keys.hide]).all()), "a key of a mixing head is no exact number")
    K = np.where(np.isfinite(K), K, 0.0)
    scores = product_of_balls(Balls.exact(Q), Balls.exact(K.T))
    size = np.abs(Q) @ np.abs(K.T)
    off = np.where(scores.rad == 0, 0.0, gamma(np.full(size.shape, Q.shape[1]), m.unit) * size)
    lost = np.where(size > 0, (1 + head.beta) * (1 + np.abs(K).sum(axis=1)) * m.smallest, 0.0)  # products may underflow
    off, scores = head.beta * off + lost, Balls(head.beta * scores.mid, head.beta * scores.rad)
    must(bool((above(head.beta * size, Q.shape[1]) < 2.0**100).all()), "a score may overflow")
    V = keys.through(head.W_V)
    sizes, values_off = V.sizes(keys.basis), V.err
    must(bool((sizes < 2.0**100).all()), "a value may overflow")
    rows, err = list[Row](), np.zeros((3, n, head.W_V.shape[1]))
    known: dict[tuple[bytes, ...], int] = {}  # tokens that others equal in everything that counts here
    for i in range(n):
        tick()
        same = known.setdefault(tuple(part[i].tobytes() for part in (scores.mid, scores.rad, off, seen)), i)
        if same != i:
            err[:, i] = err[:, same]
            rows.append(rows[same])
            continue
        p, leak = _softmax(scores, seen[i], i, keys.hide)
        upper, chosen = above(p.mid + p.rad, 2), np.flatnonzero(seen[i])
        gap = scores.mid[i, chosen].max() - scores.mid[i, chosen] + 2 * scores.rad[i, chosen].max()
        worst = off[i, chosen].max()
        exp_off = m.exp_off * ROOM
        log_off = off[i, chosen] + m.unit * (1 + m.unit) * (gap + 2 * worst) + exp_off
        growth = above(np.expm1(above(log_off, 8)), 8)
        total = float(above((upper[chosen] * growth).sum() + 4 * len(chosen) * m.smallest, len(chosen)))
        must(total < 0.25, "the weights of a mixing head round too much")
        moved = (growth + total) / (1 - total) + gamma(2 * len(chosen) + 8, m.unit) * 2
        lost = (4 * len(chosen) + 10) * m.smallest * (1 + sizes[chosen].max(axis=0))
        err[:, i] = np.einsum("k,ekv->ev", upper[chosen] * (1 + moved), values_off[:, chosen])
        err[ROUNDING, i] += (upper[chosen] * moved) @ sizes[chosen] + lost
        err[LEAKAGE, i] += 2 * leak * sizes.max(axis=0)
        rows.append(mixed(p, V.rows))
    out = Stream(rows, above(err, 4 * (n + r) + 32))
    return keys.times(out, head.W_O)


def _softmax(scores: Balls, seen: Bools, i: int, hide: bool) -> tuple[Balls, float]:
    """Weights of the keys that are seen, and what the others would weigh beside them if they were not masked."""
    chosen = np.flatnonzero(seen)
    tick()
    z = [arb(float(scores.mid[i, j]), float(scores.rad[i, j])) for j in range(len(seen))]
    top = max((z[j] for j in chosen), key=float)
    weights = {j: (z[j] - top).exp() for j in (range(len(seen)) if hide else chosen)}
    total = sum((weights[j] for j in chosen), arb(0))
    mid, rad = np.zeros(len(seen)), np.zeros(len(seen))
    for j in chosen:
        share = weights[j] / total
        mid[j] = float(share.mid())
        rad[j] = math.nextafter(float((abs(share - arb(mid[j]))).upper()), math.inf)
    leak = sum((weights[j] for j in weights if not seen[j]), arb(0)) / total
    return Balls(mid, rad), math.nextafter(float(leak.upper()), math.inf)


def visible(head: Head, n: int, r: int) -> Bools:
    """(n, r + n): which keys each query sees."""
    every = np.ones((n, n), dtype=bool)
    data = {"none": ~every, "self": np.eye(n, dtype=bool), "earlier": np.tril(every), "all": every}
    must(head.sees.data in data, f"no rule for a head that sees {head.sees.data!r}")
    tokens = data[head.sees.data] if head.mask is None else data[head.sees.data] & head.mask
    start, stop = head.sees.registers
    shown = np.broadcast_to((np.arange(r) >= start) & (np.arange(r) < stop), (n, r))
    return np.concatenate([shown, tokens], axis=1)
