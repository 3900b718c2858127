"""The checker's rules for heads whose weights do not come from a table: constant mixing, and gates.

The checker's rule for heads that pick one key: for every input of the domain its score leads all others by a gap.

The key of each token is found here; no claim names it. Then the output is that key's value, up to the weights of the
others, each at most e^-gap.

The checker's rule for a head whose weights are the result: the softmax of numbers of the stream.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from flint import arb

from weightwright.checker.composite.stream import (
    APPROXIMATION,
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
from weightwright.claims.certificate import LARGEST_KEY, MAX_TOKENS
from weightwright.enclosures.balls.midrad import CLOSE, ROOM, SPARE, Balls, above, gamma, power_of_two, product_of_balls
from weightwright.limits import hold, tick
from weightwright.network import Head, Linear, Term
from weightwright.numbers import Bools, Floats

#: At least the largest value of t sigmoid(-t): how far t sigmoid(t) is from relu(t).
GATE = 0.2785
#: How far below the registers' scores a gate puts the tokens of a query that is to get nothing.
SILENT = 700.0
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
    far = head.beta * (SPARE * size + float(np.abs(g).max()) + highest)
    must(far < 2.0**100, "a gate's scores may overflow")
    # a token that is not active: its scores are this far below the registers'
    low = g[g != 0]
    below = head.beta * (-low.max(initial=-math.inf) * (1 - 4 * m.unit) - SPARE * size - highest) / ROOM
    must(not len(low) or below > SILENT, f"a gate hides its value by {below:.3g} only")
    others = sum((arb(head.beta * c).exp() for c in K[:r, 1].tolist()), arb(0))
    eta = abs(arb(n).log() - others.log()).upper()
    # scores: a product and a sum; the shift by the largest; exp
    score = head.beta * (size + highest)
    must(
        head.beta <= LARGEST_KEY, f"beta = {head.beta!r} of a gate is too large"
    )  # a query that underflows loses beta eta
    off = 2 * m.unit * score * SPARE + 2 * LARGEST_KEY * m.smallest
    log_off = 2 * (off + m.unit * SPARE * (2 * score + 2 * off) + SPARE * m.exp_off)
    approximation = float(((arb(GATE) + eta) / arb(head.beta)).upper())
    lost = (4 * (n + r) + 10) * m.smallest * (1 + size)
    rounding = SPARE * log_off / head.beta + float(gamma(2 * (n + r) + 8, m.unit)) * 3 * size + lost
    silent = n * size * math.exp(-SILENT) + lost
    approximation, rounding, silent = above(np.array([approximation, rounding, silent]), 16).tolist()
    return Gate(int(source), head.W_O[0], g == 0, approximation, rounding, silent)


def picking(head: Head, keys: Keys) -> Stream:
    """Forms and errors of (tokens, d_out)."""
    m, r, n = keys.machine, len(keys.registers), len(keys.stream.rows)
    hold(_ARRAYS * n * (n + r))
    must(bool(power_of_two(np.array(head.beta))) and head.window is None, f"a picking head with beta {head.beta!r}")
    K = exact_numbers(keys.held, head.W_K, m.dtype)
    seen = visible(head, n, r)
    counted = seen.any(axis=0) | keys.hide
    must(bool(np.isfinite(K[counted]).all()), "a key of a picking head is no exact number")
    Q, V = keys.times(keys.stream, head.W_Q), keys.through(head.W_V)
    Q_sizes, V_sizes, Q_off = Q.sizes(keys.basis), V.sizes(keys.basis), Q.total
    must(bool((V_sizes < 2.0**100).all()), "a value may overflow")
    rows, err = [], np.zeros((3, n, head.W_V.shape[1]))
    for i in range(n):
        shown = np.flatnonzero(seen[i] | (counted if keys.hide else seen[i]))
        own = K[shown]
        size = above(np.abs(own) @ Q_sizes[i], own.shape[1])
        off = head.beta * above(np.abs(own) @ Q_off[i] + gamma(own.shape[1] + 1, m.unit) * size, own.shape[1] + 2)
        off = off + m.smallest * max(1.0, head.beta) * (1 + np.abs(own).sum(axis=1))
        must(bool((head.beta * size < 2.0**100).all()), "a score may overflow")
        scores = Q.rows[i].times(own.T)
        top, gaps = _gaps(scores, keys, seen[i, shown], head.beta)
        # what is subtracted and exponentiated is rounded too: weights are off by this much in the exponent
        largest = 2 * head.beta * float(size.max()) + 2 * float(off.max())
        extra = 2 * SPARE * (m.unit * largest + m.exp_off)
        lead = gaps - off - off[top] - extra
        lead[top] = math.inf
        must(bool((lead > 0).all()), "no key leads all others on the whole domain")
        weights = ROOM * np.exp(-lead) + 4 * m.smallest
        weights[top] = 0.0
        apart = V_sizes[shown] + V_sizes[shown[top]]
        visible_here = seen[i, shown]
        rounded = gamma(2 * len(shown) + 8, m.unit) * 2 * (V_sizes[shown[top]] + weights @ apart)
        err[:, i] = V.err[:, shown[top]]
        err[APPROXIMATION, i] += (weights * visible_here) @ apart
        err[LEAKAGE, i] += (weights * ~visible_here) @ apart
        err[ROUNDING, i] += rounded + (4 * len(shown) + 10) * m.smallest * (1 + V_sizes[shown].max(axis=0))
        rows.append(V.rows[shown[top]])
    return keys.times(Stream(rows, above(err, 2 * (n + r) + 32)), head.W_O)


def _gaps(scores: Row, keys: Keys, seen: Floats, beta: float) -> tuple[int, Floats]:
    """The key that leads where the inputs are in the middle, and by how much it leads each other at least."""
    middle, _ = keys.basis.over(scores.ids)
    at_middle = np.where(seen, middle @ scores.forms.mid, -np.inf)
    top = int(at_middle.argmax())
    leader = Balls(*(np.repeat(part[:, [top]], part.shape[1], axis=1) for part in (scores.forms.mid, scores.forms.rad)))
    lead = Row(scores.ids, leader + Balls(-scores.forms.mid, scores.forms.rad)).range(keys.basis)[0]
    return top, beta * lead * np.where(lead > 0, 1 / CLOSE, CLOSE)


@dataclass(frozen=True)
class SoftmaxHead:
    """sources: the coordinates whose softmax it is. rounding, leakage: what every entry is off by at most."""

    sources: tuple[int, ...]
    weights: Floats  # (entries, coordinates): where each entry goes
    rounding: float
    leakage: float


def softmax_head(head: Head, keys: Keys) -> SoftmaxHead:
    """Query (z_1, ..., z_k, 1), and perhaps a 0. k registers have one-hot keys and values: their scores are just z_j.
    Every other key has a low score and the value 0.

    What is computed: z_j - max z (a rounding of at most the gap), exp, a sum of k terms and of what is hidden, a
    division, and a sum of one weight with zeros. All of them are relative errors of the weights.
    """
    m, r, k = keys.machine, len(keys.registers), head.W_V.shape[1]
    plain = head.window is None and head.mask is None and head.beta == 1.0
    must(plain and head.sees.data == "none", "a softmax head sees registers only, with beta 1")
    start, stop = head.sees.registers
    must(stop - start == k and head.W_Q.shape[1] in (k + 1, k + 2), "a softmax head has one register for each entry")
    for_registers = np.flatnonzero(head.W_Q[:, k + 1 :].any(axis=1))  # 0 on data tokens, as in `parts`
    must(bool((keys.stream.constants[:, for_registers] == 0).all()), "the last entry of a softmax's query must be 0")
    sources = tuple(_copied(head.W_Q[:, j]) for j in range(k))
    must(bool((keys.stream.constants[:, _copied(head.W_Q[:, k])] == 1).all()), "a softmax head's query ends with 1")
    held = keys.held
    K, V = exact_numbers(held, head.W_K, m.dtype), exact_numbers(held, head.W_V, m.dtype)
    must(bool(np.isfinite(K).all() and np.isfinite(V).all()), "a key or a value of a softmax head is no exact number")
    seen = np.zeros(len(held), dtype=bool)
    seen[start:stop] = True
    one_hot = (K[seen, : k + 1] == np.eye(k, k + 1)).all() and (V[seen] == np.eye(k)).all()
    must(bool(one_hot), "a softmax head's registers are one-hot")
    must(bool((K[~seen, :k] == 0).all() and (V[~seen] == 0).all()), "what a softmax head does not see has value 0")
    sizes = keys.stream.sizes(keys.basis)[:, list(sources)]
    largest = float(sizes.max())
    must(largest < 2.0**60, "the scores of a softmax head may overflow")
    gap = above(np.array(2 * largest), 2)
    # of two weights against each other; a score that is subnormal may be taken for 0
    log_off = 2 * float(m.unit * (1 + m.unit) * gap + ROOM * m.exp_off + m.smallest)
    must(log_off < 0.25 and k * m.unit < 0.01, "the weights of a softmax head round too much")
    relative = math.expm1(SPARE * log_off) + 2 * float(gamma(2 * k + 8, m.unit))
    lost = (4 * k + 10) * m.smallest  # exponentials that underflow
    hidden = K[~seen, k].max(initial=-math.inf)
    leak = arb(0)
    if math.isfinite(hidden):
        leak = 2 * (MAX_TOKENS + len(held) + r) * (arb(float(hidden)) + arb(largest)).exp()
    leakage = math.nextafter(float(leak.upper()), math.inf) if leak != 0 else 0.0
    return SoftmaxHead(sources, head.W_O, float(above(np.array(SPARE * relative + lost), 8)), leakage)


def _copied(column: Floats) -> int:
    """The one coordinate that a column takes, as it is."""
    used = np.flatnonzero(column)
    must(len(used) == 1 and column[used[0]] == 1, "the query of a softmax head copies coordinates")
    return int(used[0])
