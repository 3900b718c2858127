"""LR-3, `ww.memory.contextual_mapping`: a rank-1 head that gives every context an id of its own, and how far apart.

Source: the low-rank self-attention paper, Definition 2, Theorem 2, Lemmas 2 and 3, equations (8) and (50), Appendix C.
Deviation: the theorem's separation is about e^(-|V|^4), zero in every float. Direction, temperature and position code
are found by a search (`projection`), and the separation is enclosed by the checker's rule on the stored weights.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.spatial import cKDTree

from weightwright.checker.memory.context_ids import enclose_ids, read_mapping
from weightwright.errors import ToleranceError
from weightwright.memory.data_set import Sequences, number_contexts, read_sequences
from weightwright.memory.memory_network import mapping_layers
from weightwright.memory.projection import Found, Query, find_projection, least_gap
from weightwright.network import Head, Network, selection
from weightwright.network.interpreter import interpret
from weightwright.numbers import Floats
from weightwright.runtime.weights import dtype_name

#: Ids must stand this many times their error apart: a third of a gap is left on each side of a ramp.
NEEDED = 8.0
#: Seeds that are tried where one cannot separate the ids.
_SEEDS = 4

Place = tuple[int, int]  # (sequence, position), counted from 0


@dataclass(frozen=True)
class Separation:
    """What the checker's rule encloses: ids of different classes, as any machine of the model computes them, are more
    than `apart` apart, and an id is off by at most `error`. closest: two tokens that are as close as that."""

    apart: float
    error: float
    closest: tuple[Place, Place] | None
    largest: float  # of the ids, in size


@dataclass(frozen=True, eq=False)
class ContextualMapping:
    """A (radius, separation)-contextual mapping for the sequences it was made for: Definition 2, with the id, one
    coordinate of what the layer returns, in the place of the whole vector. The radius is about that vector."""

    network: Network  # outputs the id of every token
    data: Sequences
    vectors: Floats
    positions: bool
    separation: float
    radius: float
    id_error: float
    closest: tuple[Place, Place] | None
    contexts: int
    log_theorem: float  # the natural logarithm of the separation that the theorem states

    @property
    def head(self) -> Head:
        """W_Q, W_K and W_V have rank 1."""
        return next(iter(self.network.heads))

    @property
    def ids(self) -> list[Floats]:
        """The id of every token of every sequence, as computed."""
        inputs = token_inputs(self.data, self.vectors, self.positions)
        return [interpret(self.network, one)[:, 0] for one in inputs]


def contextual_mapping(
    sequences: Iterable[Any],
    positions: bool = False,
    *,
    mask: Literal["causal"] | None = None,
    dtype: Any = "float64",
    head_size: int = 1,
    query: Query = "same",
    seed: int = 0,
) -> ContextualMapping:
    """A rank-1 head whose ids differ wherever the set of tokens that are seen, or the token, differs.

    sequences, positions, mask, head_size, query: as for `ww.memorize`. ToleranceError where the dtype cannot hold the
    ids apart, with the two contexts that are closest.

    >>> import weightwright as ww
    >>> mapping = ww.memory.contextual_mapping([["a", "b"], ["b", "c"], ["a", "c"]])
    >>> mapping.contexts, mapping.separation > 1e-3, mapping.log_theorem < -1e6
    (6, True, True)
    """
    name = dtype_name(dtype, ("float64", "float32"))
    check_options(mask, query, head_size)
    data, causal = read_sequences(sequences, name), mask == "causal"
    contexts = number_contexts(data, positions, causal)
    found = search(data, contexts, positions, causal, name, query, seed)
    inputs, embed, attention = mapping_layers(found.projection, positions, causal, head_size)
    read = selection(embed.coordinates, ("id",))
    network = Network(inputs, embed, np.zeros((0, len(embed.coordinates))), (attention,), read, dtype=name)
    vectors = found.projection.vectors
    known = enclose_separation(network, data, vectors, contexts, positions)
    if known.apart <= 0:
        raise ToleranceError(_too_close(data, contexts, found, name))
    return ContextualMapping(
        network=network,
        data=data,
        vectors=vectors,
        positions=positions,
        separation=known.apart,
        radius=_radius(network, vectors, int(data.lengths.max()), known.largest),
        id_error=known.error,
        closest=known.closest,
        contexts=len(np.unique(contexts)),
        log_theorem=log_of_theorem(vectors, data, positions),
    )


def check_options(mask: Any, query: Any, head_size: Any) -> None:
    """ValueError for options that are not known."""
    for name, value, known in (("mask", mask, (None, "causal")), ("query", query, ("same", "other"))):
        if value not in known:
            raise ValueError(f"{name} must be one of {', '.join(map(repr, known))}, not {value!r}")
    if type(head_size) is not int or head_size < 1:
        raise ValueError(f"head_size must be a whole number of at least 1, not {head_size!r}")


def search(
    data: Sequences, classes: np.ndarray, positions: bool, causal: bool, dtype: str, query: Query, seed: int
) -> Found:
    """A projection that separates the classes well enough to build on; ToleranceError that says which two it cannot
    tell apart, and how much of the data it can."""
    if query == "other" and (data.vectors is None or data.vectors.shape[1] == 1):
        raise ValueError("query='other' needs tokens of at least two numbers: with one there is one direction only")
    best = find_projection(data, classes, positions, causal, dtype, query, seed)
    for more in range(1, _SEEDS):
        if best.ratio >= NEEDED:
            break
        other = find_projection(data, classes, positions, causal, dtype, query, seed + more)
        best = other if other.ratio > best.ratio else best
    if best.ratio < NEEDED:
        raise ToleranceError(_too_close(data, classes, best, dtype))
    return best


def _too_close(data: Sequences, classes: np.ndarray, best: Found, dtype: str) -> str:
    a, b = closest_pair(best.ids, classes)
    (i, k), (j, other) = data.place(a), data.place(b)
    low, high = 0, len(data.lengths)  # the first `low` sequences can be told apart
    while high - low > 1:
        half = (low + high) // 2
        end = int(data.lengths[:half].sum())
        fits = least_gap(best.ids[:end], classes[:end]) >= NEEDED * best.error
        low, high = (half, high) if fits else (low, half)
    tokens = "" if data.vectors is None or len(data.vectors) < 2 else f"; {_closest_tokens(data.vectors)}"
    instead = "use dtype='float64'" if dtype == "float32" else "leave some sequences out"
    return (
        f"{dtype} cannot tell two contexts apart: token {data.name(a)!r} of sequence {i}, position {k}, and token"
        f" {data.name(b)!r} of sequence {j}, position {other}, have ids {best.gap:.3g} apart, and an id is off by up to"
        f" about {best.error:.3g}{tokens}; the first {low:,} of {len(data.lengths):,} sequences can be held; {instead}"
    )


def _closest_tokens(vectors: Floats) -> str:
    distances, others = cKDTree(vectors).query(vectors, k=2)
    i = int(np.argmin(distances[:, 1]))
    a, b = vectors[i].tolist(), vectors[int(others[i, 1])].tolist()
    return f"the closest two tokens, {a} and {b}, are {float(distances[i, 1]):.3g} apart"


def closest_pair(ids: Floats, classes: np.ndarray) -> tuple[int, int]:
    """The two tokens of different classes whose ids are closest."""
    needed = np.flatnonzero(classes >= 0)
    order = needed[np.argsort(ids[needed], kind="stable")]
    differ = np.flatnonzero(np.diff(classes[order]))
    at = differ[np.argmin(np.diff(ids[order])[differ])]
    return int(order[at]), int(order[at + 1])


def enclose_separation(
    network: Network, data: Sequences, vectors: Floats, classes: np.ndarray, positions: bool
) -> Separation:
    """By the checker's rule, on the stored weights. Classes below 0 do not count."""
    stored = read_mapping(network, network.embed.coordinates.index("id"))
    ids, radii = enclose_ids(stored, vectors, data.tokens, data.lengths, positions)
    needed = classes >= 0
    kept, places = classes[needed], np.flatnonzero(needed)
    order = np.argsort(ids[needed], kind="stable")
    differ = np.flatnonzero(np.diff(kept[order]))
    error, largest = float(radii.max()), float((np.abs(ids) + radii).max())
    if not len(differ):
        return Separation(math.inf, error, None, largest)
    at = places[order]
    gaps = ids[at[differ + 1]] - ids[at[differ]]
    least = int(np.argmin(gaps))
    pair = data.place(int(at[differ[least]])), data.place(int(at[differ[least] + 1]))
    apart = float(np.nextafter(float(gaps[least]) - 2 * error, -math.inf))
    return Separation(apart, error, pair, largest)


def _radius(network: Network, vectors: Floats, longest: int, largest_id: float) -> float:
    """No stored token is longer than this after the layer: its embedding in size, and its id."""
    A, C = np.abs(network.embed.terms[0].A), np.abs(network.embed.C[0])
    most = np.abs(vectors).max(axis=0)
    inputs = np.append(most, longest - 1.0) if len(A) > len(most) else most
    size = (inputs @ A + C)[:-2]
    return float(np.linalg.norm(np.append(size, largest_id)) * (1 + 2.0**-20))


def log_of_theorem(vectors: Floats, data: Sequences, positions: bool) -> float:
    """log of (8), or of (50) with positions, for the vocabulary as given: norms, distances and sizes of the data. Where
    every sequence has one token it is log(epsilon / 2), by (28); minus infinity where a token is 0."""
    n, (V, d) = int(data.lengths.max()), vectors.shape
    norms = np.linalg.norm(vectors, axis=1)
    r_min, r_max = float(norms.min()), float(norms.max())
    epsilon = float(cKDTree(vectors).query(vectors, k=2)[0][:, 1].min()) if V > 1 else r_max
    if n == 1:
        return math.log(epsilon / 2) if epsilon else -math.inf
    if not (r_min and epsilon):
        return -math.inf
    spread = 2 * math.log(n) + 3
    if positions:
        all_tokens = float(len(data.tokens)) + 1
        scale, length = (2 * n + 1) ** 2 * r_max, (2 * n + 1) ** 2 * r_max / epsilon
        weight = epsilon**2 / scale
    else:
        all_tokens = float(V) + 1
        weight, length = epsilon**2 * r_min / r_max**2, r_max**2 / (epsilon * r_min)
    size = all_tokens**4 * spread * math.pi * d
    return math.log(2 * math.log(n) ** 2 * weight) - math.log(size) - size * length / 4


def token_inputs(data: Sequences, vectors: Floats, positions: bool) -> list[Floats]:
    """What the network is given for every sequence."""
    rows = np.split(vectors[data.tokens], np.cumsum(data.lengths)[:-1])
    return [np.column_stack([one, np.arange(float(len(one)))]) if positions else one for one in rows]


def is_rank_one(W: Floats) -> bool:
    """Whether a matrix is the product of a column and a row, exactly: every two by two determinant is 0."""
    i, j = np.unravel_index(np.argmax(np.abs(W)), W.shape)
    return bool(W.any() and (W[i, j] * W == np.outer(W[:, j], W[i])).all())
