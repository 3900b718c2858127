"""The checker's rules for heads whose weights do not come from a table: constant mixing, and gates."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from flint import arb

from weightwright.certificates.checker.complaints import must
from weightwright.certificates.checker.midrad import Balls, above, gamma, power_of_two, product_of_balls
from weightwright.certificates.checker.stream import LEAKAGE, ROUNDING, Basis, Row, Stream, exact_numbers, linear, mixed
from weightwright.certificates.claims import EXP_ULPS
from weightwright.network import Head, Linear, Term
from weightwright.network.layers import Bools, Floats

#: At least the largest value of t sigmoid(-t): how far t sigmoid(t) is from relu(t).
GATE = 0.2785
#: How far below the registers' scores a gate puts the tokens of a query that is to get nothing.
SILENT = 700.0


@dataclass(frozen=True)
class Machine:
    """The dtype's unit roundoff, its smallest normal number, and its name."""

    unit: float
    smallest: float
    dtype: str


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
        return linear(stream, map, self.basis, self.machine.unit, self.machine.smallest)


def constant_mixing(head: Head, keys: Keys) -> Stream:
    """Scores are numbers, so every token receives a fixed mean of the values; forms and errors of (tokens, d_out)."""
    m, r, n = keys.machine, len(keys.registers), len(keys.stream.rows)
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
        same = known.setdefault(tuple(part[i].tobytes() for part in (scores.mid, scores.rad, off, seen)), i)
        if same != i:
            err[:, i] = err[:, same]
            rows.append(rows[same])
            continue
        p, leak = _softmax(scores, seen[i], i, keys.hide)
        upper, chosen = above(p.mid + p.rad, 2), np.flatnonzero(seen[i])
        gap = scores.mid[i, chosen].max() - scores.mid[i, chosen] + 2 * scores.rad[i, chosen].max()
        worst = off[i, chosen].max()
        exp_off = -math.log1p(-2 * EXP_ULPS[m.dtype] * m.unit) * 1.0001
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
    data = {"none": np.zeros((n, n), dtype=bool), "self": np.eye(n, dtype=bool), "all": np.ones((n, n), dtype=bool)}
    must(head.sees.data in data, f"no rule for a head that sees {head.sees.data!r}")
    tokens = data[head.sees.data] if head.mask is None else data[head.sees.data] & head.mask
    start, stop = head.sees.registers
    shown = np.broadcast_to((np.arange(r) >= start) & (np.arange(r) < stop), (n, r))
    return np.concatenate([shown, tokens], axis=1)


@dataclass(frozen=True)
class Gate:
    """relu(s) on the active tokens, 0 on the others; written to every coordinate with its weight.

    approximation, rounding: what s itself is off by comes to these. silent: what a token that is not active may get.
    """

    source: int
    weights: Floats  # (coordinates,)
    active: Bools  # (tokens,)
    approximation: float
    rounding: float
    silent: float


def gate(head: Head, keys: Keys) -> Gate:
    """All data tokens have the score beta (s + g) of the query's own token and the value s, the registers constant
    scores and the value 0: the output is s times sigmoid(beta (s + g) + eta). g is a constant of the token: 0 where it
    is active, else so low that no weight is left.

    Lemma: |s sigmoid(beta s + eta) - relu(s)| <= (0.2785 + |eta|) / beta, since with t = beta s + eta the left side is
    |(t - eta) sigmoid(t) - relu(t - eta)| / beta, and relu is 1-Lipschitz. What scores are off by only changes eta.
    """
    m, r, n = keys.machine, len(keys.registers), len(keys.stream.rows)
    must(bool(power_of_two(np.array(head.beta))), f"beta = {head.beta!r} must be a power of two")
    plain = head.window is None and head.mask is None and head.sees.data == "all" and head.sees.registers == (0, r)
    must(plain and r > 0, "a gate sees every token and every register")
    must(head.W_Q.shape[1] == 2 and head.W_V.shape[1] == 1, "a gate's query is (s, 1) and its value one number")
    held = keys.held
    (one,), (source,) = (np.flatnonzero(W) for W in (head.W_Q[:, 1], head.W_V[:, 0]))
    copies = head.W_Q[source, 0] == head.W_Q[one, 1] == head.W_V[source, 0] == 1
    must(bool(copies) and bool((held[r:, one] == 1).all()), "a gate's query is (s, 1) and its value s")
    away = head.W_Q[:, [0]].copy()
    away[source] = 0.0
    g = exact_numbers(held[r:], away, m.dtype)[:, 0]
    must(bool(np.isfinite(g).all()), "what a gate adds to s must be a constant of the token")
    K = exact_numbers(held, head.W_K, m.dtype)
    must(bool((K[r:] == [1.0, 0.0]).all()), "a gate gives every token the score beta s")
    must(bool((K[:r, 0] == 0).all() and np.isfinite(K[:r, 1]).all()), "a gate's registers have constant scores")
    must(bool((keys.registers[:, source] == 0).all()), "a gate's registers have the value 0")
    size, highest = float(keys.stream.sizes(keys.basis)[:, source].max()), float(np.abs(K[:r, 1]).max())
    far = head.beta * (1.01 * size + float(np.abs(g).max()) + highest)
    must(far < 2.0**100, "a gate's scores may overflow")
    # a token that is not active: its scores are this far below the registers'
    low = g[g != 0]
    below = head.beta * (-low.max(initial=-math.inf) * (1 - 4 * m.unit) - 1.01 * size - highest) * 0.999
    must(not len(low) or below > SILENT, f"a gate hides its value by {below:.3g} only")
    others = sum((arb(head.beta * c).exp() for c in K[:r, 1].tolist()), arb(0))
    eta = abs(arb(n).log() - others.log()).upper()
    # scores: a product and a sum; the shift by the largest; exp
    score = head.beta * (size + highest)
    off = 2 * m.unit * score * 1.01 + 2.0**60 * m.smallest
    exp_off = -1.01 * math.log1p(-2 * EXP_ULPS[m.dtype] * m.unit)
    log_off = 2 * (off + m.unit * 1.01 * (2 * score + 2 * off) + exp_off)
    approximation = float(((arb(GATE) + eta) / arb(head.beta)).upper())
    lost = (4 * (n + r) + 10) * m.smallest * (1 + size)
    rounding = 1.01 * log_off / head.beta + float(gamma(2 * (n + r) + 8, m.unit)) * 3 * size + lost
    silent = n * size * math.exp(-SILENT) + lost
    approximation, rounding, silent = above(np.array([approximation, rounding, silent]), 16).tolist()
    return Gate(int(source), head.W_O[0], g == 0, approximation, rounding, silent)
