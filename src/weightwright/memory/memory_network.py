"""The networks of memories as arrays: a rank-1 head that writes ids, and ramps from one label to the next.

The stream: x[0], ..., x[d-1], moved by position; id; label, which is 0 before the feed-forward layer, so that what the
layer returns there, label minus input, is the label.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from weightwright.errors import ToleranceError
from weightwright.memory.projection import Found, Projection
from weightwright.network import Attention, FeedForward, Head, Linear, Network, Ramps, Sees, Term, selection
from weightwright.network.layers import Layer, Names
from weightwright.numbers import FORMATS, Floats, rounded


def mapping_layers(found: Projection, positions: bool, causal: bool, head_size: int) -> tuple[Names, Linear, Attention]:
    """(inputs, embedding, attention): W_Q, W_K and W_V are products of a direction and a row, of rank 1. The row of
    keys and values is all ones, that of queries (1, 0, ..., 0), so that scores are the same for every head size."""
    d = len(found.key)
    x = tuple(f"x[{i}]" for i in range(d))
    stream = (*x, "id", "label")
    inputs = (*x, "position") if positions else x
    A = np.zeros((len(inputs), d + 2))
    A[:d, :d] = np.eye(d)
    A[:d, d] = found.own
    if positions:
        A[d, :d] = found.code
    C = np.concatenate([found.shift, [found.start, 0.0]])[None]
    ones, first = np.ones((1, head_size)), np.eye(1, head_size)
    W_Q, W_K = (np.append(part, [0.0, 0.0])[:, None] @ row for part, row in ((found.query, first), (found.key, ones)))
    W_O = np.zeros((head_size, d + 2))
    W_O[0, d] = found.share
    sees = Sees(data="earlier" if causal else "all")
    head = Head("context id", W_Q, W_K, W_K, W_O, found.beta, sees)
    return inputs, Linear(stream, (Term(A),), C), Attention(stream, (head,))


def memory_network(
    found: Found, labels: np.ndarray, positions: bool, causal: bool, head_size: int, dtype: str, plain: bool
) -> Network:
    """labels: numbers of labels, below 0 where none is remembered. plain: all units are summed, and the sums exact."""
    ids, projection = found.ids, found.projection
    if plain:
        moved = _one_binade(found, dtype)
        ids, projection = ids + (moved.start - projection.start), moved
    inputs, embed, attention = mapping_layers(projection, positions, causal, head_size)
    kinks, heights, first = _steps(ids[labels >= 0], labels[labels >= 0], dtype, plain)
    stream = embed.coordinates
    m, d = len(heights), len(stream)
    W_1, W_2, b_2 = np.zeros((d, 2 * m)), np.zeros((2 * m, d)), np.zeros((1, d))
    W_1[d - 2] = 1.0
    slopes = heights / (kinks[1::2] - kinks[0::2])
    W_2[0::2, d - 1], W_2[1::2, d - 1] = slopes, -slopes
    b_2[0, d - 1] = first
    kind = FeedForward if plain else Ramps
    layers: tuple[Layer, ...] = attention, kind(stream, W_1, -kinks[None] + 0.0, W_2, b_2)
    return Network(inputs, embed, np.zeros((0, d)), layers, selection(stream, ("label",)), dtype=dtype)


def _steps(ids: Floats, labels: np.ndarray, dtype: str, even: bool) -> tuple[Floats, Floats, float]:
    """(kinks, heights, first label): a ramp in the middle of every gap between ids of different labels, as wide as the
    largest power of two in a third of the gap, of all gaps if even. Kinks are multiples of one power of two."""
    order = np.argsort(ids, kind="stable")
    ids, labels = ids[order], labels[order]
    at = np.flatnonzero(np.diff(labels))
    low, high = ids[at], ids[at + 1]
    if not len(at):
        return np.zeros(0), np.zeros(0), float(labels[0])
    bits = FORMATS[dtype].bits
    grain = 2.0 ** (math.ceil(math.log2(max(float(np.abs(ids).max()), 2.0**-500))) + 2 - bits)
    thirds = (high - low) / 3
    if float(thirds.min()) < grain:
        raise ToleranceError(f"ids of different labels are {3 * float(thirds.min()):.3g} apart: too close for {dtype}")
    widths = np.exp2(np.floor(np.log2(np.full_like(thirds, thirds.min()) if even else thirds)))
    starts = np.round(((low + high) / 2 - widths / 2) / grain) * grain
    kinks = np.stack([starts, starts + widths], axis=1).ravel()
    return kinks, np.diff(labels)[at].astype(np.float64), float(labels[0])


def _one_binade(found: Found, dtype: str) -> Projection:
    """The projection with ids moved between a power of two and the next, and no higher than they must: there all of
    them are multiples of one number, which is made as coarse as the gaps allow."""
    width = float(np.ptp(found.ids)) * 1.5 + 1e-300
    bits = FORMATS[dtype].bits
    sums = 32 * (len(found.projection.own) + 4)  # roundings of an id, each of which may take a part of the gap
    fine = math.floor(math.log2(max(found.gap, 2.0**-900) / sums)) + bits if math.isfinite(found.gap) else -500
    exponent = max(math.ceil(math.log2(width)), fine)
    middle = (float(found.ids.max()) + float(found.ids.min())) / 2
    start = found.projection.start + 1.5 * 2.0**exponent - middle
    return replace(found.projection, start=float(rounded(np.array(start), dtype)))
