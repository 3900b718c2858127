"""LR-1: the Boltzmann operator a . softmax(a), which a rank-1 head computes of its scores, and what is known of it.

Source: the low-rank self-attention paper, Definition 3, Lemmas 1 and 4 to 7. With p = softmax(a) and S its entropy:
- the slope along a_i is p_i (1 + log p_i + S), negative where a_i < max a - log n - 1 (Lemma 4);
- the second derivative is p_i ((1 - 2 p_i) (1 + log p_i + S) + 1), negative where a_i < max a - log n - 3 (Lemma 5);
- of vectors without repeated entries whose entries differ by more than 2 log n + 3 wherever they differ, the results
  are more than (log n)^2 e^-(a_1 - b_k) apart, k the first place where they differ in decreasing order (Lemma 7).
Deviation: with one entry the operator is the entry itself, and (log n)^2 says nothing: results are as far apart as the
entries. (114) has its indices the other way round for decreasing entries.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from weightwright.numbers import Bools, Floats


def boltzmann(a: npt.ArrayLike) -> Floats:
    """a . softmax(a), along the last axis.

    >>> float(boltzmann([0.0, 0.0])), float(boltzmann([3.0]))
    (0.0, 3.0)
    """
    x = _entries(a)
    return np.asarray((x * _softmax(x)).sum(axis=-1))


def boltzmann_slopes(a: npt.ArrayLike) -> Floats:
    """The gradient: p_i (1 + log p_i + S)."""
    x = _entries(a)
    p, log_p = _softmax(x), _log_softmax(x)
    return np.asarray(p * (1.0 + log_p - (p * log_p).sum(axis=-1, keepdims=True)))


def boltzmann_bends(a: npt.ArrayLike) -> Floats:
    """The second derivative along every entry."""
    x = _entries(a)
    p, log_p = _softmax(x), _log_softmax(x)
    return np.asarray(p * ((1 - 2 * p) * (1.0 + log_p - (p * log_p).sum(axis=-1, keepdims=True)) + 1.0))


def falls(a: npt.ArrayLike) -> Bools:
    """Entries along which the operator falls, for sure: a_i < max a - log n - 1."""
    return _below(_entries(a), 1.0)


def is_concave(a: npt.ArrayLike) -> Bools:
    """Entries along which it is concave, for sure: a_i < max a - log n - 3."""
    return _below(_entries(a), 3.0)


def needed_distance(n: int) -> float:
    """Entries that differ must differ by more than this for `log_separation` to hold; 0 for one entry."""
    return 2 * math.log(n) + 3 if n > 1 else 0.0


def log_separation(a: npt.ArrayLike, b: npt.ArrayLike) -> float:
    """log of a number that |boltzmann(a) - boltzmann(b)| is above; ValueError where the lemma's conditions do not hold.

    Minus infinity for vectors with the same entries; for one entry the distance itself.
    """
    x, y = (np.sort(_entries(part))[::-1] for part in (a, b))
    n = len(x)
    if x.shape != y.shape or x.ndim != 1:
        raise ValueError(f"a and b must be vectors of one length, not of shapes {x.shape} and {y.shape}")
    both = np.unique(np.concatenate([x, y]))
    repeated = len(np.unique(x)) < n or len(np.unique(y)) < n
    if n > 1 and (repeated or (len(both) > 1 and float(np.diff(both).min()) <= needed_distance(n))):
        raise ValueError(f"entries that differ must differ by more than 2 log n + 3 = {needed_distance(n):.3g}")
    if (x == y).all():
        return -math.inf
    if n == 1:  # "more than" holds of every smaller number
        return math.log(abs(float(x[0] - y[0]))) - 2.0**-40
    k = int(np.flatnonzero(x != y)[0])
    lower = min(float(x[k]), float(y[k]))
    return 2 * math.log(math.log(n)) - (max(float(x[0]), float(y[0])) - lower)


def _entries(a: npt.ArrayLike) -> Floats:
    x = np.asarray(a, dtype=np.float64)
    if not x.ndim or not x.shape[-1]:
        raise ValueError(f"a must have at least one entry along its last axis, not shape {x.shape}")
    if not np.isfinite(x).all():
        raise ValueError("the entries of a must be finite")
    return x


def _log_softmax(x: Floats) -> Floats:
    shifted = x - x.max(axis=-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))


def _softmax(x: Floats) -> Floats:
    return np.asarray(np.exp(_log_softmax(x)))


def _below(x: Floats, room: float) -> Bools:
    return np.asarray(x < x.max(axis=-1, keepdims=True) - math.log(x.shape[-1]) - room)
