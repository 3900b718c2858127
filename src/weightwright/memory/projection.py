"""The search for a rank-1 head that gives every context an id of its own: directions, position code and temperature.

The stream of a token is x, moved by a constant and by its position times a code, beside two coordinates more: its id,
which starts as w . x, and its label. With key, query and value v . x (or another direction for the query) the head adds
c times a mean of the keys to the id. What is found here is a proposal in plain floats; the checker encloses the ids.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from weightwright.memory.data_set import Sequences
from weightwright.numbers import FORMATS, Floats, rounded

#: Random directions that are tried for vectors, for V up to 2^12 of them; fewer for more.
_DIRECTIONS = 64
#: Inverse temperatures, position steps in units of the keys' range, and shares of the distance between two tokens' ids
#: that the head may move an id by: all combinations are tried until one separates by ENOUGH.
BETAS = (4.0, 1.0, 16.0, 0.25)
STEPS = (1 / 64, 1 / 16, 1 / 4)
SHARES = (64.0, 1.0, 2.0**12, 0.25)
#: Codes that words are drawn from, at least; the least position step must be a whole number of them.
_FEWEST = {"float64": 1024, "float32": 64}
#: What a position moves a coded word by beside a whole number: no word at one of 2^13 positions is another at another.
FINER = 2.0**-13
#: The search ends at ids that stand this many times their error apart.
ENOUGH = 2.0**12
#: Scores that are held at a time: 32 MB for each of about four arrays.
_AT_ONCE = 2**22

Query = Literal["same", "other"]


@dataclass(frozen=True, eq=False)
class Projection:
    """Everything that decides about ids; numbers of the dtype."""

    vectors: Floats  # (V, d): the tokens
    key: Floats  # (d,): v, of keys and values
    query: Floats  # (d,)
    own: Floats  # (d,): w, what the id starts as
    shift: Floats  # (d,): what every token is moved by
    code: Floats  # (d,): what one position moves a token by
    start: float  # what every id is moved by
    beta: float
    share: float  # c: of the mean of keys, what is added to the id


@dataclass(frozen=True)
class Found:
    """A projection with the ids of all tokens, and how far apart they are."""

    projection: Projection
    ids: Floats
    gap: float  # between neighbours that must differ, the least
    error: float  # of an id, about

    @property
    def ratio(self) -> float:
        return self.gap / self.error if self.error else math.inf


def find_projection(
    data: Sequences, classes: np.ndarray, positions: bool, causal: bool, dtype: str, query: Query, seed: int
) -> Found:
    """The first that is good enough, or the best. classes: tokens of different ones must have different ids; those
    below 0 need none."""
    best: Found | None = None
    for projection in _candidates(data, positions, dtype, query, seed):
        for found in _with_shares(data, classes, projection, positions, causal, dtype):
            if best is None or found.ratio > best.ratio:
                best = found
            if best.ratio >= ENOUGH:
                return best
    assert best is not None
    return best


def separations_by_temperature(
    data: Sequences, classes: np.ndarray, positions: bool, betas: Sequence[float] | Floats
) -> list[tuple[float, float]]:
    """(beta, least gap over error), with the best of the other parameters, in float64."""
    found = []
    for beta in betas:
        tried = [
            one.ratio
            for projection in _candidates(data, positions, "float64", "same", 0, (float(beta),))
            for one in _with_shares(data, classes, projection, positions, False, "float64")
        ]
        found.append((float(beta), max(tried)))
    return found


def _candidates(
    data: Sequences, positions: bool, dtype: str, query: Query, seed: int, betas: Sequence[float] = BETAS
) -> Iterator[Projection]:
    rng = np.random.default_rng(seed)
    spread = _coded(data, dtype, rng) if data.vectors is None else _projected(data.vectors, query, dtype, rng)
    for beta in betas:
        for step in STEPS if positions else (0.0,):
            towards = _over_square(spread.key, spread.key)
            if query == "other":  # a step along the key that the query does not see
                towards = _both(spread.key, spread.query, 1.0, 0.0)
            finer = FINER if data.vectors is None and dtype == "float64" and step else 0.0
            yield replace(spread, beta=beta, code=rounded(step * towards + finer, dtype))


def _coded(data: Sequences, dtype: str, rng: np.random.Generator) -> Projection:
    """Words get whole numbers from V to 2 V, V a power of two, in random order: keys from 1 to 2, all sums exact."""
    V = max(_FEWEST[dtype], 1 << (len(data.words) - 1).bit_length())
    codes = (V + rng.permutation(V)[: len(data.words)]).astype(np.float64)[:, None]
    one, none = np.ones(1), np.zeros(1)
    return Projection(codes, one / V, one / V, one, none, none, -1.5 * V, 1.0, 0.0)


def _projected(vectors: Floats, query: Query, dtype: str, rng: np.random.Generator) -> Projection:
    """Along the direction that keeps the nearest two tokens farthest apart, moved and scaled to keys from 1 to 2."""
    centre = vectors.mean(axis=0)
    key, low = _scaled(vectors, _best_direction(vectors, rng))
    if query == "same":
        asked, along = key, _over_square((1.0 - low + key @ centre) * key, key)
    else:
        asked, least = _scaled(vectors, _away_from(key, rng))
        along = _both(key, asked, 1.0 - low + key @ centre, 1.0 - least + asked @ centre)
    key, asked, shift = (rounded(part, dtype) for part in (key, asked, along - centre))
    return Projection(vectors, key, asked, key, shift, 0 * key, float(rounded(np.array(-low - 0.5), dtype)), 1.0, 0.0)


def _best_direction(vectors: Floats, rng: np.random.Generator) -> Floats:
    V, d = vectors.shape
    if d == 1 or V == 1:
        return np.eye(d)[0]
    best, widest = np.eye(d)[0], -1.0
    width = np.ptp(vectors, axis=0)
    scale = np.where(width > 0, 1.0 / np.where(width > 0, width, 1.0), 0.0)  # a number that never changes says nothing
    for _ in range(max(4, min(_DIRECTIONS, _DIRECTIONS * 2**12 // V))):
        direction = rng.normal(size=d) * scale
        places = np.sort(vectors @ direction)
        apart = float(np.diff(places).min() / max(places[-1] - places[0], np.finfo(float).tiny))
        if apart > widest:
            best, widest = direction, apart
    return best


def _away_from(key: Floats, rng: np.random.Generator) -> Floats:
    """A random direction that is no multiple of the key."""
    direction = rng.normal(size=len(key))
    return np.asarray(direction - _over_square(direction @ key, key) * key / 2)


def _scaled(vectors: Floats, direction: Floats) -> tuple[Floats, float]:
    """The direction, so long that projections fill an interval of length 1, and where that starts."""
    places = vectors @ direction
    width = float(np.ptp(places)) or max(float(np.abs(places).max()), 1.0)
    key = direction / width
    return key, float((vectors @ key).min())


def _over_square(part: Floats, key: Floats) -> Floats:
    """part / (key @ key), where the square of a key may over- or underflow: both are scaled by a power of two."""
    size = 2.0 ** math.floor(math.log2(float(np.abs(key).max())))
    return np.asarray(part / size / ((key / size) @ (key / size)) / size)


def _both(a: Floats, b: Floats, at_a: float, at_b: float) -> Floats:
    """The shortest x with a . x = at_a and b . x = at_b."""
    return np.asarray(np.linalg.lstsq(np.stack([a, b]), np.array([at_a, at_b]), rcond=None)[0])


def _with_shares(
    data: Sequences, classes: np.ndarray, projection: Projection, positions: bool, causal: bool, dtype: str
) -> Iterator[Found]:
    """The same head with several sizes of what it adds to an id."""
    before, means = _parts_of_ids(data, projection, positions, causal)
    own = np.sort(projection.vectors @ projection.own)
    apart = float(np.diff(own).min()) if len(own) > 1 else 1.0
    width = float(np.ptp(means)) or 1.0
    for times in SHARES:
        share = 2.0 ** math.floor(math.log2(max(times * apart, 2.0**-60) / width))
        centred = replace(projection, share=share, start=_centre(before, means, share, projection.start, dtype))
        ids = before - projection.start + centred.start + share * means
        error = _expected_error(centred, float(np.abs(ids).max()), int(data.lengths.max()), data.vectors is None, dtype)
        yield Found(centred, ids, least_gap(ids, classes), error)


def _expected_error(found: Projection, largest_id: float, n: int, coded: bool, dtype: str) -> float:
    """What the checker will find that an id may be off by, or somewhat more; codes of words are summed exactly."""
    u, (_, d) = FORMATS[dtype].unit, found.vectors.shape
    x, steps = np.abs(found.vectors), (n - 1) * np.abs(found.code)
    inexact = 0.0 if coded else u * (d + 2)
    x_off = inexact * (x + np.abs(found.shift) + steps)
    X = np.abs(found.vectors + found.shift) + steps + 2 * x_off
    (q, q_off), (k, k_off) = (
        (float((X @ np.abs(W)).max()), float((x_off @ np.abs(W)).max()) + u * d * float((X @ np.abs(W)).max()))
        for W in (found.query, found.key)
    )
    logarithm = found.beta * (q * k_off + k * q_off) + 8 * u * found.beta * q * k + 100 * u
    mean = k * logarithm / 2 + k_off + (2 * n + 8) * u * k
    own = inexact * float((x @ np.abs(found.own)).max() + abs(found.start))
    return 2.2 * (own + found.share * mean + u * (largest_id + 2 * found.share * k))


def _centre(before: Floats, means: Floats, share: float, start: float, dtype: str) -> float:
    """A start that puts the ids around 0, where numbers are finest; a whole number where starts are."""
    ids = before + share * means
    middle = (float(ids.max()) + float(ids.min())) / 2
    moved = start - (round(middle) if abs(start) > 100 else middle)
    return float(rounded(np.array(moved), dtype))


def _parts_of_ids(data: Sequences, projection: Projection, positions: bool, causal: bool) -> tuple[Floats, Floats]:
    """(what the ids start as, the means of keys that their heads return), for every token."""
    before, means = np.empty(len(data.tokens)), np.empty(len(data.tokens))
    order = np.argsort(data.lengths, kind="stable")
    sizes, first = np.unique(data.lengths[order], return_index=True)
    for n, group in zip(sizes.tolist(), np.split(order, first[1:]), strict=True):
        step = max(1, _AT_ONCE // (n * n))
        for i in range(0, len(group), step):
            places = data.starts[group[i : i + step]][:, None] + np.arange(n)
            x = projection.vectors[data.tokens[places]]
            before[places] = x @ projection.own + projection.start
            X = x + projection.shift
            if positions:
                X = X + np.arange(n)[:, None] * projection.code
            means[places] = _means(X @ projection.query, X @ projection.key, projection.beta, causal)
    return before, means


def _means(q: Floats, k: Floats, beta: float, causal: bool) -> Floats:
    """(B, n): softmax(beta q k^T) k."""
    z = beta * q[:, :, None] * k[:, None, :]
    if causal:
        z = np.where(np.tril(np.ones(z.shape[1:], dtype=bool)), z, -np.inf)
    z -= z.max(axis=-1, keepdims=True)
    np.exp(z, out=z)
    return np.asarray((z @ k[:, :, None])[..., 0] / z.sum(axis=-1))


def least_gap(ids: Floats, classes: np.ndarray) -> float:
    """Between ids of different classes; infinite if there is one class only."""
    needed = classes >= 0
    order = np.argsort(ids[needed], kind="stable")
    differ = np.diff(classes[needed][order]) != 0
    gaps = np.diff(ids[needed][order])[differ]
    return float(gaps.min()) if len(gaps) else math.inf
