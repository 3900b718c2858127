"""The checker's rule for a head whose weights are the result: the softmax of numbers of the stream."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from flint import arb

from weightwright.checker.composite.mixing import Keys
from weightwright.checker.composite.stream import exact_numbers
from weightwright.checker.core.complaints import must
from weightwright.claims.certificate import MAX_TOKENS
from weightwright.enclosures.balls.midrad import ROOM, SPARE, above, gamma
from weightwright.network import Head
from weightwright.numbers import Floats


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
