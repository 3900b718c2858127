"""One-sided keys: a kink on registers only.

Soft anchors stand on the side of the kink s_k to which the formula bends, and one key is far steeper than they are: its
score crosses theirs at s_k, so that it takes all the weight on the other side and none on this one. The head is
g(s) sigmoid(K (s - s_k)) with g smooth: for g(s_k) = 0 that is a kink up to 0.28 |g'| / K.

Rounding of a score grows with its slope. The steep key's error does not matter: where its score is large it has all the
weight or none. (Anchors graded geometrically towards the kink work too, and take more keys.)
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from weightwright.heads.registers import Table
from weightwright.heads.spectral import rounding_estimate, soft_keys, solve
from weightwright.numbers import UNIT, Floats, rounded

PADS, SHARPNESS = (1.0, 2.0, 3.0, 4.0, 6.0), (0.1, 0.2, 0.4)
STEEPNESS = (2.0, 8.0)  # K, over the error that the kink may have in s
STEEPEST = 0.15  # times the unit roundoff's inverse
_PER_OCTAVE = 6


@dataclass(frozen=True)
class KeyShape:
    """Soft anchors outside the bent side on each end, their beta D^2, and the steepness K."""

    pad: float
    c: float
    steepness: float


@dataclass(frozen=True)
class FittedKeys:
    """Heads with fitted values, and their error as measured on samples, an estimate of rounding included."""

    tables: tuple[Table, ...]
    error: float


def one_sided_keys(at: float, end: float, count: int, shape: KeyShape, dtype: str) -> Table:
    """`count` keys for a kink at `at` that bends on the side of `end`; the values are still 0."""
    side = 1.0 if end > at else -1.0
    soft = soft_keys(min(at, end), max(at, end), count - 1, shape.pad, shape.c, dtype)
    scores = soft.beta * (soft.keys * at + soft.offsets)
    height = scores.max() + np.log(np.exp(scores - scores.max()).sum())  # of the soft anchors together, at the kink
    steep = side * (side * soft.keys).min() - side * shape.steepness / soft.beta
    keys = np.append(soft.keys, steep)
    return Table(keys, np.append(soft.offsets, height / soft.beta - steep * at), np.zeros(count), soft.beta)


def shapes(error: float, dtype: str) -> Iterator[KeyShape]:
    """What to try for an error in s of this size. A score that is off by more than half cannot be proven."""
    steepness = {min(k / error, STEEPEST / UNIT[dtype]) for k in STEEPNESS}
    return itertools.starmap(KeyShape, itertools.product(PADS, SHARPNESS, sorted(steepness)))


def samples(lo: float, hi: float, kinks: Sequence[float], octaves: int) -> Floats:
    """An even grid and, around every kink, points at distances that halve `octaves` times."""
    scales = (hi - lo) * 2.0 ** -np.linspace(0, octaves, _PER_OCTAVE * octaves)
    around = [kink + side * scales for kink in kinks for side in (-1, 1)]
    s = np.concatenate([np.linspace(lo, hi, 401), *around, np.array(kinks)])
    return np.unique(s[(s >= lo) & (s <= hi)])


def fit_together(
    tables: Sequence[Table], f: Callable[[Floats], Floats], s: Floats, ridge: float, dtype: str
) -> FittedKeys:
    """Values for all heads at once, in numbers of the dtype, so that their sum is near f on the samples."""
    tables = [table.rounded(dtype) for table in tables]
    target = f(s)
    scores = [table.beta * (s[:, None] * table.keys + table.offsets) for table in tables]
    weights = []
    for z in scores:
        w = np.exp(z - z.max(axis=1, keepdims=True))
        weights.append(w / w.sum(axis=1, keepdims=True))
    ends = np.cumsum([len(table.keys) for table in tables])[:-1]
    values = np.split(rounded(solve(np.concatenate(weights, axis=1), target, ridge), dtype), ends)
    outputs = [w @ v for w, v in zip(weights, values, strict=True)]
    spent = [
        rounding_estimate(w[::8], z[::8], v, y[::8], dtype)
        for w, z, v, y in zip(weights, scores, values, outputs, strict=True)
    ]
    error = float(np.abs(sum(outputs) - target).max() + sum(spent))
    fitted = tuple(replace(table, values=v) for table, v in zip(tables, values, strict=True))
    return FittedKeys(fitted, error if np.isfinite(error) else np.inf)
