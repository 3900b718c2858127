"""The checker's rule for attention between data tokens: one head whose scores are queries times keys of the stream.

If every score that a token sees is off by at most D, its weights move by at most tanh(D / 2) <= D / 2 together, and a
mean of values by that times what the values spread over. What values are off by goes through the mean, and rounding
counts as in every softmax. Tokens and registers that are not seen have scores so low that they weigh next to nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from weightwright.checker.composite.graph_columns import GraphUnits
from weightwright.checker.composite.mixing import Keys
from weightwright.checker.composite.stream import LEAKAGE, ROUNDING, Row, Stream, exact_numbers
from weightwright.checker.core.complaints import must
from weightwright.checker.core.machine import Machine
from weightwright.claims.graph import attended, sees
from weightwright.enclosures.balls.midrad import ROOM, SPARE, Balls, above, gamma
from weightwright.limits import tick
from weightwright.network import Head
from weightwright.numbers import Bools, Floats

#: Numbers of an array of scores that is made at a time: 2 MiB, of which a dozen are there together.
_NUMBERS = 2**18


@dataclass(frozen=True)
class Attended:
    """err: what every value's mean is off by at most, (3, tokens, values). sizes: how large it can be, (values,)."""

    err: Floats
    sizes: Floats


def attend(head: Head, nodes: tuple[int, ...], graph: GraphUnits, keys: Keys) -> Attended:
    """Refuse (CertificateError) unless the head computes these columns, all of the same queries and keys."""
    m = keys.machine
    plain = head.window is None and head.mask is None and head.beta == 1.0
    must(
        plain and head.sees.data == "all" and head.sees.registers == (0, 0),
        "attention sees all data tokens, with beta 1",
    )
    must(head.W_V.shape[1] == len(nodes), f"a head of {head.W_V.shape[1]} values computes {nodes}")
    q, k, _ = attended(graph.graph.nodes[nodes[0]])
    n, seen = len(keys.stream.rows), partial(sees, graph.graph, graph.graph.nodes[nodes[0]])
    content, hidden = _hidden_scores(head, keys, seen, len(q))
    Q, K, V = (keys.times(keys.stream, W) for W in (head.W_Q[:, content], head.W_K[:, content], head.W_V))
    (Q_off, Q_size), (K_off, K_size) = (_off(X, columns, graph, keys) for X, columns in ((Q, q), (K, k)))
    V_off, V_size = _off(V, tuple(attended(graph.graph.nodes[node])[2] for node in nodes), graph, keys)
    lo, hi = _ranges(nodes, graph)
    return attention_errors(
        Operand(Q_off, Q_size),
        Operand(K_off, K_size),
        Operand(V_off, V_size),
        seen,
        (lo, hi),
        hidden,
        n,
        len(keys.registers),
        m,
    )


@dataclass(frozen=True)
class Operand:
    """Queries, keys or values of every token: off (3, n, entries), size (n, entries), of what is computed."""

    off: Floats
    size: Floats


@dataclass(frozen=True)
class Asking:
    """What is known of some tokens that attend: b tokens, v values."""

    moved: Floats  # (3, b): largest error of the scores that a token sees
    spread: Floats  # (b, v): between the values that it sees
    values_off: Floats  # (3, b, v): their largest errors
    largest: float  # score, seen or not, as computed
    widest: float  # score that is seen
    rounded: float  # what a score rounds


def attention_errors(
    queries: Operand,
    keys: Operand,
    values: Operand,
    seen: Callable[[int, int], Bools],
    ends: tuple[Floats, Floats],
    hidden: float,
    tokens: int,
    registers: int,
    m: Machine,
) -> Attended:
    """Bounds on the errors of the means of values. Where all tokens are alike, one row of each operand is enough.

    seen: for tokens from a first to a last one, which keys each of them sees. ends: (n, values) each, of the declared
    values. hidden: the highest score that is added for what is not seen; what is seen has, in addition to the
    products of queries and keys, products of 0.
    """
    n, V_size = tokens, values.size
    blocks = [
        _asking(_rows(queries, first, last), keys, values.off, seen(first, last), ends, m)
        for first, last in _blocks(len(queries.size), len(keys.size) * max(3, V_size.shape[1]))
    ]
    moved, spread, values_off = (
        np.concatenate([getattr(block, name) for block in blocks], axis=axis)
        for name, axis in (("moved", 1), ("spread", 0), ("values_off", 1))
    )
    sums = gamma(2 * n + 8, m.unit)
    err = above(spread * moved[:, :, None] / 2, 8)
    err = err + (1 + sums) * values_off
    largest = V_size.max(axis=0)
    err[ROUNDING] += 2 * sums * largest + (4 * n + 10) * m.smallest * (1 + largest)
    # a hidden score over a seen one, as computed
    score, widest, rounded = (
        max(getattr(block, name) for block in blocks) for name in ("largest", "widest", "rounded")
    )
    lead = hidden + score + widest + 2 * rounded
    leak = (n + registers) * math.exp(min(ROOM * lead if lead > 0 else lead / ROOM, 100.0)) * ROOM
    err[LEAKAGE] += 2 * leak * largest if math.isfinite(hidden) else 0.0
    must(bool(np.isfinite(err).all()), "an error of attention is not bounded")
    return Attended(above(err, 32), above((1 + sums) * largest, 4))


def _asking(
    queries: Operand, keys: Operand, V_off: Floats, seen: Bools, ends: tuple[Floats, Floats], m: Machine
) -> Asking:
    Q_off, Q_size, K_off, K_size = queries.off, queries.size, keys.off, keys.size
    count = Q_size.shape[1]  # the other products are 0: adding them does not round
    size = above(Q_size @ K_size.T, count)  # (b, n): scores as computed
    must(bool((size < 2.0**100).all()), "a score may overflow")
    moved = np.einsum("ir,ejr->eij", Q_size, K_off) + np.einsum("eir,jr->eij", Q_off, K_size + K_off.sum(axis=0))
    entering = Q_size.sum(axis=1)[:, None] + K_size.sum(axis=1)
    rounded = gamma(count + 1, m.unit) * size + 2 * m.smallest * (count + 2 + entering)
    moved, rounded = (above(x, count + 8) for x in (moved, rounded))
    # the shift by the largest score, and exp
    widest = np.where(seen, size, 0.0).max(axis=1, keepdims=True)
    worst = np.where(seen, rounded, 0.0).max(axis=1, keepdims=True)
    rounded = rounded + SPARE * m.unit * 2 * (widest + worst) + SPARE * m.exp_off
    D = np.where(seen, moved, 0.0).max(axis=2)  # (3, b)
    D[ROUNDING] += np.where(seen, rounded, 0.0).max(axis=1)
    lo, hi = ends
    spread = _over(seen, hi, -np.inf).max(axis=1) - _over(seen, lo, np.inf).min(axis=1)
    values_off = np.stack([_over(seen, off, 0.0).max(axis=1) for off in V_off])
    return Asking(D, spread, values_off, float(size.max()), float(widest.max()), float(rounded.max()))


def _hidden_scores(head: Head, keys: Keys, seen: Callable[[int, int], Bools], h: int) -> tuple[list[int], float]:
    """(the entries of query and key that hold columns, the highest score that the other entries give to what is not
    seen; minus infinity if all is seen). To what is seen they give exactly 0."""
    m, r = keys.machine, len(keys.registers)
    Q, K = exact_numbers(keys.stream.constants, head.W_Q, m.dtype), exact_numbers(keys.held, head.W_K, m.dtype)
    known = np.isfinite(Q).all(axis=0) & np.isfinite(K).all(axis=0)
    content = np.flatnonzero(~known).tolist()
    must(len(content) == h, f"attention has {len(content)} entries of query and key that are no constants, not {h}")
    must(bool((keys.registers @ np.abs(head.W_K[:, content]) == 0).all()), "a register has a key of attention")
    highest = -math.inf
    for first, last in _blocks(len(Q), len(K)):
        own = Q[first:last, known]
        sizes = np.abs(own) @ np.abs(K[:, known]).T  # (b, r + n)
        others = np.concatenate([np.zeros((last - first, r), dtype=bool), seen(first, last)], axis=1)
        must(bool((sizes[others] == 0).all()), "attention adds a constant to a score")
        scores = own @ K[:, known].T
        slack = gamma(head.W_Q.shape[1] + 1, m.unit) * SPARE * sizes
        highest = max(highest, float((scores + slack)[~others].max(initial=-math.inf)))
    return content, highest


def _blocks(tokens: int, numbers: int) -> Iterator[tuple[int, int]]:
    """(first, last) of tokens that are looked at together, so that arrays of `numbers` for each stay small."""
    step = max(1, _NUMBERS // max(numbers, 1))
    for first in range(0, tokens, step):
        tick()
        yield first, min(first + step, tokens)


def _rows(operand: Operand, first: int, last: int) -> Operand:
    return Operand(operand.off[:, first:last], operand.size[first:last])


def _off(X: Stream, columns: tuple[int, ...], graph: GraphUnits, keys: Keys) -> tuple[Floats, Floats]:
    """(3, n, columns) and (n, columns): how far the computed numbers are from the declared columns, and their sizes."""
    off = X.err.copy()
    for token, row in enumerate(X.rows):
        for place, column in enumerate(columns):
            held = Row(row.ids, Balls(row.forms.mid[:, [place]], row.forms.rad[:, [place]]))
            off[:, token, place] += graph.column_apart(held, column, token)
    return above(off, 2), X.sizes(keys.basis)


def _ranges(nodes: tuple[int, ...], graph: GraphUnits) -> tuple[Floats, Floats]:
    """(n, values) each: between which numbers the declared values lie on every token."""
    ends = [graph.on_tokens(attended(graph.graph.nodes[node])[2]) for node in nodes]
    return np.stack([lo.min(axis=0) for lo, _ in ends], axis=1), np.stack([hi.max(axis=0) for _, hi in ends], axis=1)


def _over(seen: Bools, values: Floats, otherwise: float) -> Floats:
    """(b, n, values): what b tokens see of (n, values)."""
    return np.where(seen[:, :, None], values[None], otherwise)
