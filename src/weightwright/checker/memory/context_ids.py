"""Enclosures of context ids: what one attention layer writes to one coordinate, for every token of every sequence.

Plain float64 with every rounding counted, sequences of one length at a time, so that a million tokens can be enclosed.
With X the stream, q = X W_Q, k = X W_K, v = X W_V, z_l = beta q . k_l, the id is
X_id + sum_l p_l v_l W_O, p = softmax z.

What a machine of unit roundoff u computes is off from that by at most the sum of
- X: gamma_(inputs + 1) (|x| |A| + |C|); nothing for a coordinate all of whose terms, over the whole vocabulary, are
  multiples of one power of two and so small that every partial sum is a number of the dtype;
- q, k, v: gamma_d |X| |W| + (error of X) |W|;
- logarithms of weights, D: beta (|q| off k + off q |k| + off q off k) + gamma_(h + 3) beta |q| |k| for scores, twice u
  times their range for the shift by the largest, and what an exponential is off by. A mean whose logarithms of weights
  move by D moves by the spread of the values times tanh(D/2) < D/2 (docs/certificates.md);
- the sum of the weights, the division, the products and the sum with the values: gamma_(2 n + 6) max |v|;
- the product with W_O, and the last sum.
The middle that is returned was computed in such a way itself, with u = 2^-53: its own error is counted too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from weightwright.checker.core.complaints import must, require
from weightwright.checker.core.machine import Machine
from weightwright.enclosures.balls.counted_exp import UNITS, counted_exp
from weightwright.enclosures.balls.midrad import LOST, ROOM, gamma, power_of_two
from weightwright.limits import hold, tick
from weightwright.network import Attention, Head, Linear, Network
from weightwright.numbers import FORMATS, Floats

#: Scores that are held at a time: 32 MB for each of about six arrays.
_AT_ONCE = 2**22
#: Numbers of a proof stay below this, far from overflow in every dtype that a memory may have.
_LARGEST = {"float64": 2.0**500, "float32": 2.0**60}

Whole = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class StoredMapping:
    """One residual attention layer of one head, after an embedding, as far as it decides about ids."""

    A: Floats  # (inputs, d)
    C: Floats  # (d,)
    head: Head
    id: int  # the coordinate that holds the id
    dtype: str


def read_mapping(network: Network, id: int) -> StoredMapping:
    """The embedding and the first layer of the network; refuses every other form."""
    must(network.dtype in _LARGEST, f"ids are enclosed in {' and '.join(_LARGEST)} only")
    must(not len(network.registers) and network.tokens is None, "a memory has no registers and any number of tokens")
    term = _token_wise(network.embed)
    must(bool(network.layers) and isinstance(network.layers[0], Attention), "the first layer is no attention")
    layer = network.layers[0]
    assert isinstance(layer, Attention)
    must(layer.residual and len(layer.heads) == 1, "a residual layer with one head was expected")
    head = layer.heads[0]
    seen = head.sees.data in ("all", "earlier") and head.sees.registers[0] == head.sees.registers[1]
    must(seen and head.mask is None and head.window is None, "the head sees something else than tokens of its sequence")
    return StoredMapping(term, network.embed.C[0], head, id, network.dtype)


def _token_wise(linear: Linear) -> Floats:
    fits = len(linear.terms) == 1 and not linear.moves_tokens and not linear.knows_positions
    must(fits, "one token-wise map was expected")
    return linear.terms[0].A


def enclose_ids(
    stored: StoredMapping, vectors: Floats, tokens: Whole, lengths: Whole, positions: bool
) -> tuple[Floats, Floats]:
    """(middles, radii): the id of every token as the network computes it, in any order of sums."""
    require(bool((lengths > 0).all()) and int(lengths.sum()) == len(tokens), "the lengths do not fit the tokens")
    middles, radii = np.empty(len(tokens)), np.empty(len(tokens))
    ends = np.cumsum(lengths)
    exact = _exact_coordinates(stored, vectors, int(lengths.max()) if positions else 0)
    for n, starts in _by_length(ends - lengths, lengths):
        places = starts[:, None] + np.arange(n)  # (B, n)
        x = vectors[tokens[places]]
        if positions:
            x = np.concatenate([x, np.broadcast_to(np.arange(float(n))[:, None], (*places.shape, 1))], axis=-1)
        middles[places], radii[places] = _enclose(stored, x, exact)
        tick()
    return middles, radii


def _by_length(starts: Whole, lengths: Whole) -> Iterator[tuple[int, Whole]]:
    """Sequences of one length, as many at a time as memory is meant for: (length, where they start)."""
    order = np.argsort(lengths, kind="stable")
    sizes, first = np.unique(lengths[order], return_index=True)
    for n, group in zip(sizes.tolist(), np.split(order, first[1:]), strict=True):
        step = max(1, _AT_ONCE // (n * n))
        hold(8 * min(step, len(group)) * n * n)
        yield from ((n, starts[group[i : i + step]]) for i in range(0, len(group), step))


def _enclose(stored: StoredMapping, x: Floats, exact: npt.NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """The ids of sequences (B, n, inputs) of one length."""
    head, n = stored.head, x.shape[1]
    X = x @ stored.A + stored.C
    size = np.abs(x) @ np.abs(stored.A) + np.abs(stored.C)
    q, k, v = (X @ W for W in (head.W_Q, head.W_K, head.W_V))
    weights = counted_exp(_shifted(head, q, k))  # (B, n, n)
    if head.sees.data == "earlier":
        weights *= np.tril(np.ones((n, n)))
    mean = (weights @ v) / weights.sum(axis=-1, keepdims=True)  # (B, n, v)
    out = head.W_O[:, stored.id]
    middle = X[..., stored.id] + mean @ out
    radius = np.zeros_like(middle)
    machine = Machine(stored.dtype)
    own = -math.log1p(-UNITS * 2.0**-53)
    for u, exp_off in ((machine.unit, machine.exp_off), (2.0**-53, own)):  # the network's arithmetic, and that of here
        radius += _computed_off(stored, X, size, np.where(exact, 0.0, 1.0), u, exp_off)
    radius = radius * ROOM + LOST
    sound = np.isfinite(radius).all() and np.isfinite(middle).all()
    require(bool(sound), "an id is not bounded")
    return middle, radius


def _shifted(head: Head, q: Floats, k: Floats) -> Floats:
    """Scores below the largest that is seen: (B, n, n), at most 0 where they are seen."""
    z: Floats = head.beta * (q @ np.swapaxes(k, -1, -2))
    if head.sees.data == "earlier":
        z = np.where(np.tril(np.ones(z.shape[-2:], dtype=bool)), z, -np.inf)
    return np.asarray(z - z.max(axis=-1, keepdims=True))


def _computed_off(stored: StoredMapping, X: Floats, size: Floats, inexact: Floats, u: float, exp_off: float) -> Floats:
    """(B, n): how far an id computed with unit roundoff u is from the exact one."""
    head, n = stored.head, X.shape[1]
    inputs, d = stored.A.shape
    X_off = gamma(inputs + 1, u) * size * inexact
    X_size = np.abs(X) + 2 * X_off
    Q, K, V = (np.abs(W) for W in (head.W_Q, head.W_K, head.W_V))
    q, k, v = (X_size @ W for W in (Q, K, V))
    q_off, k_off, v_off = (X_off @ W + gamma(d, u) * part for W, part in ((Q, q), (K, k), (V, v)))
    q, k, v = q + q_off, k + k_off, v + v_off
    k_top, k_off_top, v_top, v_off_top = (part.max(axis=1, keepdims=True) for part in (k, k_off, v, v_off))  # (B, 1, h)
    largest = head.beta * (q * k_top).sum(axis=-1)  # (B, n): of all scores that a query has
    limit = _LARGEST[stored.dtype]
    require(bool(max(largest.max(), v_top.max(), size.max()) < limit), "a score or a value may overflow")
    scores_off = head.beta * (q * k_off_top + q_off * k_top).sum(axis=-1) + gamma(q.shape[-1] + 3, u) * largest
    D = scores_off + 2 * u * (2 * largest + 2 * scores_off) + exp_off
    spread = (X @ head.W_V).max(axis=1) - (X @ head.W_V).min(axis=1) + 2 * v_off_top[:, 0]  # (B, v)
    mean_off = D[..., None] * spread[:, None] / 2 + v_off_top + gamma(2 * n + 6, u) * v_top  # (B, n, v)
    out = np.abs(head.W_O[:, stored.id])
    out_off = mean_off @ out + gamma(len(out) + 1, u) * ((v_top + mean_off) @ out)
    lost = 64.0 * n * FORMATS[stored.dtype].smallest * (1.0 + float(v_top.max())) * (1.0 + float(out.sum()))
    own = X_off[..., stored.id] + out_off
    return np.asarray(own + u * (np.abs(X[..., stored.id]) + v_top @ out + own) + lost)


def _exact_coordinates(stored: StoredMapping, vectors: Floats, longest: int) -> npt.NDArray[np.bool_]:
    """(d,): coordinates of the stream that the embedding computes without any rounding, in the dtype and in float64,
    whatever the order of sums."""
    format = FORMATS[stored.dtype]
    inputs = [np.unique(column) for column in vectors.T] + ([np.arange(float(longest))] if longest else [])
    found = np.zeros(stored.A.shape[1], dtype=bool)
    for j, (column, constant) in enumerate(zip(stored.A.T, stored.C, strict=True)):
        terms = [values * weight for values, weight in zip(inputs, column, strict=True) if weight]
        grain = min((lowest_bit(part) for part in (*terms, np.array([constant]))), default=0.0)
        total = sum((float(np.abs(part).max()) for part in terms), abs(float(constant)))
        fits = grain >= format.least_exponent and total * ROOM <= 2.0 ** (format.bits + min(grain, 500.0))
        found[j] = fits and bool(power_of_two(column).all())
    return found


def lowest_bit(numbers: Floats) -> float:
    """The exponent of the largest power of two that all these numbers are multiples of; infinite if all are 0."""
    mantissa, exponent = np.frexp(numbers[numbers != 0])
    if not len(mantissa):
        return math.inf
    whole = np.ldexp(mantissa, 53).astype(np.int64)
    lowest = (whole & -whole).astype(np.float64)
    return float((np.log2(lowest) + exponent - 53).min())
