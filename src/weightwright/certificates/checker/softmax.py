"""The checker's rule for a head whose weights are the result: the softmax of numbers of the stream."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from flint import arb

from weightwright.certificates.checker.complaints import must
from weightwright.certificates.checker.midrad import above, gamma
from weightwright.certificates.checker.mixing import Keys
from weightwright.certificates.checker.stream import exact_numbers
from weightwright.certificates.claims import EXP_ULPS, MAX_TOKENS
from weightwright.network import Head
from weightwright.network.layers import Floats


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
    exp_off = -math.log1p(-2 * EXP_ULPS[m.dtype] * m.unit) * 1.0001
    log_off = 2 * float(m.unit * (1 + m.unit) * gap + exp_off)  # of two weights against each other
    must(log_off < 0.25 and k * m.unit < 0.01, "the weights of a softmax head round too much")
    relative = math.expm1(1.01 * log_off) + 2 * float(gamma(2 * k + 8, m.unit))
    lost = (4 * k + 10) * m.smallest  # exponentials that underflow
    hidden = K[~seen, k].max(initial=-math.inf)
    leak = arb(0)
    if math.isfinite(hidden):
        leak = 2 * (MAX_TOKENS + len(held) + r) * (arb(float(hidden)) + arb(largest)).exp()
    leakage = math.nextafter(float(leak.upper()), math.inf) if leak != 0 else 0.0
    return SoftmaxHead(sources, head.W_O, float(above(np.array(1.01 * relative + lost), 8)), leakage)


def _copied(column: Floats) -> int:
    """The one coordinate that a column takes, as it is."""
    used = np.flatnonzero(column)
    must(len(used) == 1 and column[used[0]] == 1, "the query of a softmax head copies coordinates")
    return int(used[0])
