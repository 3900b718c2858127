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
from weightwright.network.layers import Names
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
    stream = embed.coordinates
    values = np.zeros((len(labels), 1))
    values[:, 0] = labels
    layer = ramp_layer(stream, ids, labels, values, dtype, plain)
    return Network(
        inputs, embed, np.zeros((0, len(stream))), (attention, layer), selection(stream, ("label",)), dtype=dtype
    )


def ramp_layer(stream: Names, ids: Floats, classes: np.ndarray, values: Floats, dtype: str, plain: bool) -> FeedForward:
    """From ids to values, which are written to the last coordinates: a ramp in the middle of every gap between ids of
    different classes, as wide as the largest power of two in a third of the gap (of the least gap if plain). Kinks are
    multiples of one power of two. Classes below 0 do not count."""
    order = np.flatnonzero(classes >= 0)
    order = order[np.argsort(ids[order], kind="stable")]
    at = np.flatnonzero(np.diff(classes[order]))
    low, high = ids[order[at]], ids[order[at + 1]]
    m, d, outputs = len(at), len(stream), values.shape[1]
    W_1, W_2, b_2 = np.zeros((d, 2 * m)), np.zeros((2 * m, d)), np.zeros((1, d))
    W_1[stream.index("id")] = 1.0
    b_2[0, d - outputs :] = values[order[0]]
    kinks, widths = _kinks(low, high, float(np.abs(ids[order]).max()), dtype, plain)
    slopes = (values[order[at + 1]] - values[order[at]]) / widths[:, None]
    W_2[0::2, d - outputs :], W_2[1::2, d - outputs :] = slopes, -slopes
    kind = FeedForward if plain else Ramps
    return kind(stream, W_1, -kinks[None] + 0.0, W_2, b_2)


def _kinks(low: Floats, high: Floats, largest: float, dtype: str, even: bool) -> tuple[Floats, Floats]:
    """(where ramps start and end in turn, how wide they are), for gaps from low to high."""
    if not len(low):
        return np.zeros(0), np.zeros(0)
    grain = 2.0 ** (math.ceil(math.log2(max(largest, 2.0**-500))) + 2 - FORMATS[dtype].bits)
    thirds = (high - low) / 3
    if float(thirds.min()) < grain:
        raise ToleranceError(f"ids of different labels are {3 * float(thirds.min()):.3g} apart: too close for {dtype}")
    widths = np.exp2(np.floor(np.log2(np.full_like(thirds, thirds.min()) if even else thirds)))
    starts = np.round(((low + high) / 2 - widths / 2) / grain) * grain
    return np.stack([starts, starts + widths], axis=1).ravel(), widths


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
