"""The checker's rule for heads that pick one key: for every input of the domain its score leads all others by a gap.

The key of each token is found here; no claim names it. Then the output is that key's value, up to the weights of the
others, each at most e^-gap.
"""

from __future__ import annotations

import math

import numpy as np

from weightwright.checker.composite.mixing import Keys, visible
from weightwright.checker.composite.stream import APPROXIMATION, LEAKAGE, ROUNDING, Row, Stream, exact_numbers
from weightwright.checker.core.complaints import must
from weightwright.enclosures.balls.midrad import CLOSE, ROOM, SPARE, Balls, above, gamma, power_of_two
from weightwright.limits import hold
from weightwright.network import Head
from weightwright.numbers import Floats

#: Arrays of the size of all scores that are there at the same time.
_ARRAYS = 6


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
