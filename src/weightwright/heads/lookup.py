"""Lookup with a margin: how large beta must be for softmax to pick one key, and a head that does.

Source: universal approximation paper, Lemma F.1 (UA-1). Deviations: the tail of the softmax is bounded by its
exact worst case instead of m e^(-beta gap), so beta is a little smaller than printed; the 1-norm is ours, since
an output that sums n terms is not controlled by the infinity norm (errata UA-2).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Literal

import numpy as np
import numpy.typing as npt

from weightwright.enclosures.intervals.intervals import ONE, Interval, exp, up
from weightwright.heads.mix import finite_matrix
from weightwright.heads.registers import HIDDEN
from weightwright.network import Attention, Head, Network, Sees, selection, token_wise
from weightwright.numbers import Floats

Case = Literal["unique", "two"]
Norm = Literal["inf", "1"]

#: The least tail mass per entry that beta_for aims at; below, float64 runs out of exponents.
LEAST_TAIL = 2.0**-1000


def softmax_error(beta: float, gap: float, n: int, case: Case = "unique", norm: Norm = "inf") -> float:
    """How far softmax(beta x) can be from hardmax, x of n entries; a proven upper bound.

    case "unique": all entries but the largest lie at least `gap` below it; the distance to the one-hot vector.
    case "two": all but the largest two lie at least `gap` below the largest; the distance to the softmax of
    those two alone, however they differ.

    Source: Lemma F.1, whose bound is m q with q = e^(-beta gap), m = n - 1 ("unique") or n - 2 ("two").
    Here: tail = m q / (1 + (n-1) q) in the infinity norm, twice that in the 1-norm.
    Proof. Divide by the top's weight. The m entries below weigh s <= m q', q' <= q the heaviest of them, and for
    "two" the second weighs r >= q'; so their share s/(1+s) or s/(1+r+s) is at most m q' / (1 + (n-1) q'), which
    grows with q'. The kept entries are those of hardmax times 1 - share: together they lose what the others
    gain. So the 1-norm is 2 share, and no entry moves by more than share.
    Equal if all but the top lie exactly gap below ("two" in the infinity norm: up to a factor 1 + q).

    >>> f"{softmax_error(20.0, 1.0, 100):.4g}"
    '2.041e-07'
    """
    _require("beta", beta, beta >= 0, "a finite number >= 0")
    _require("gap", gap, gap > 0, "a finite number > 0")
    m, factor = _others(n, case), _factor(norm)
    if m == 0:
        return 0.0
    with np.errstate(over="ignore"):
        q = Interval.exact(exp(-(Interval.exact(beta) * Interval.exact(gap))).hi)  # the tail grows with q
        numerator = Interval.rational(Fraction(factor * m)) * q
        return float((numerator / (ONE + Interval.rational(Fraction(n - 1)) * q)).hi)


def beta_for(error: float, gap: float, n: int, case: Case = "unique", norm: Norm = "inf") -> float:
    """The smallest beta with softmax_error(beta, gap, n, case, norm) <= error, up to a few roundings upward.

    From softmax_error's formula, t = error (infinity norm) or error / 2 (1-norm) the tail mass allowed:
    beta = ln(m/t - (n-1)) / gap, or 0 where that is negative: then even uniform weights are near enough.
    Source: Lemma F.1, which has ln(m/t) / gap.

    >>> beta = beta_for(1e-6, 0.5, 100, norm="1")
    >>> f"{beta:.4g}", softmax_error(beta, 0.5, 100, norm="1") <= 1e-6
    ('38.21', True)
    """
    _require("error", error, error > 0, "a finite number > 0")
    _require("gap", gap, gap > 0, "a finite number > 0")
    m, t = _others(n, case), error / _factor(norm)
    _require("error", error, t >= n * LEAST_TAIL, f"at least {_factor(norm) * n} * 2^-1000")
    excess = m * (1 - t) / t - (n - 1 - m)  # m/t - (n-1) without its cancellation
    score = math.log(excess) if excess > 1 else 0.0
    step = 2.0**-52 * max(score, 1.0)
    while math.isfinite(score / gap):
        if softmax_error(score / gap, gap, n, case, norm) <= error:
            return score / gap
        score, step = score + step, 2 * step
    raise ValueError(f"gap = {gap!r} is too small: beta would be no finite float64")


def margin(keys: npt.ArrayLike) -> float:
    """min over i of k_i.k_i - max over j != i of k_i.k_j, rounded down; infinite for a single key.

    keys (p, h). Positive only if every key, taken as a query, scores itself highest.

    >>> 1 - 1e-14 < margin([[1, 0], [0, 1], [-1, 0]]) <= 1
    True
    """
    return _closest(finite_matrix("keys", keys))[0]


def lookup(keys: npt.ArrayLike, values: npt.ArrayLike, error: float, role: str = "look up") -> Network:
    """A one-head network that returns values[i] for the query keys[i].

    keys (p, h), values (p, v): X (n, h) -> (n, v), token by token, for any number of tokens.
    Hypothesis: margin(keys) > 0, else ValueError names the two keys. For queries that are keys the result is
    within `error` in exact arithmetic: beta is chosen by Lemma F.1 in the 1-norm, and weights 2 t away from
    one-hot in the 1-norm move a mean of values of spread s by at most t s. Other queries get a softmax mean.
    Float64 scores are off by about e = h 2^-53 beta max |k|^2, which multiplies the tail by at most e^(2e).

    Source: Lemma F.1 (UA-1) with scores k_i.k_j. Deviations: the 1-norm (errata UA-2), so the factor is the spread
    and not max |value|.

    The stream: x[.] the query, data (1 on data tokens, 0 on registers), key[.] and stored[.] on registers,
    value[.] the output, 0 at first. A plain Transformer also shows the head the data tokens: their score is
    HIDDEN below every register's for any query no longer than the longest key.

    Cost: 1 layer, 1 head, p registers, width 2 h + 2 v + 1, beta about ln(p spread / error) / margin.

    >>> from weightwright.runtime import interpret
    >>> network = lookup([[1, 0], [0, 1]], [[5], [7]], error=1e-9)
    >>> interpret(network, np.eye(2)).round(8).tolist(), network.native
    ([[5.0], [7.0]], True)
    """
    K, V = finite_matrix("keys", keys), finite_matrix("values", values)
    (p, h), v = K.shape, V.shape[1]
    if len(V) != p:
        raise ValueError(f"values has {len(V)} rows, but there are {p} keys")
    _require("error", error, error > 0, "a finite number > 0")
    beta = _inverse_temperature(K, V, error)

    sizes = {"x": h, "key": h, "stored": v, "value": v}
    x, key, stored, value = (tuple(f"{name}[{c}]" for c in range(size)) for name, size in sizes.items())
    names = (*x, "data", *key, *stored, *value)
    x_at, data_at = slice(0, h), h
    key_at, stored_at = slice(h + 1, 2 * h + 1), slice(2 * h + 1, 2 * h + 1 + v)
    registers = np.zeros((p, len(names)))
    registers[:, key_at], registers[:, stored_at] = K, V
    W_Q, W_K = np.zeros((len(names), h + 1)), np.zeros((len(names), h + 1))
    W_Q[x_at, :h], W_Q[data_at, h] = np.eye(h), 1.0
    W_K[key_at, :h], W_K[data_at, h] = np.eye(h), HIDDEN / beta - (K**2).sum(axis=1).max()
    W_V, W_O = np.zeros((len(names), v)), np.zeros((v, len(names)))
    W_V[stored_at], W_O[:, -v:] = np.eye(v), np.eye(v)
    head = Head(role, W_Q, W_K, W_V, W_O, beta, Sees(registers=(0, p), data="none"))
    return Network(
        inputs=x,
        embed=token_wise(x, names, {(name, name): 1.0 for name in x}, {"data": 1.0}),
        registers=registers,
        layers=(Attention(names, (head,)),),
        read=selection(names, value),
    )


def _inverse_temperature(keys: Floats, values: Floats, error: float) -> float:
    gap, i, j = _closest(keys)
    if gap <= 0:
        raise ValueError(
            f"keys {i} and {j} collide: keys[{i}] = {keys[i].tolist()} as a query scores keys[{j}] ="
            f" {keys[j].tolist()} no lower than itself (margin {gap:.3g})"
        )
    with np.errstate(over="ignore"):
        spread = float(up(np.ptp(values, axis=0)).max())
    if not math.isfinite(spread):
        raise ValueError("values lie so far apart that their spread is no finite float64")
    if error >= spread:
        return 1.0  # any mean of the values is near enough; so it is with a single key
    allowed = math.nextafter(2 * (error / spread), 0.0)
    return beta_for(allowed, gap, len(keys), "unique", "1") or 1.0  # where 0 is enough, 1 is


def _closest(keys: Floats) -> tuple[float, int, int]:
    """The margin, and the key i and its competitor j for which it is least."""
    largest, h = float(np.abs(keys).max()), keys.shape[1]
    if not math.isfinite(4 * h * largest * largest):
        raise ValueError(f"keys has an entry of size {largest!r}, too large to be squared")
    least = (math.inf, 0, 0)
    K = Interval.exact(keys)
    for i in range(len(keys)):
        gaps = (K[i] * (K[i] - K)).sum().lo  # k_i.k_i - k_i.k_j, rounded down
        gaps[i] = np.inf
        j = int(np.argmin(gaps))
        least = min(least, (float(gaps[j]), i, j))
    return least


def _others(n: int, case: str) -> int:
    """How many entries lie below the kept ones."""
    kept = {"unique": 1, "two": 2}.get(case)
    if kept is None:
        raise ValueError(f"case must be 'unique' or 'two', not {case!r}")
    if not isinstance(n, int | np.integer) or n < kept:
        raise ValueError(f"n must be a whole number >= {kept} for case {case!r}, not {n!r}")
    return int(n) - kept


def _factor(norm: str) -> int:
    if norm not in ("inf", "1"):
        raise ValueError(f"norm must be 'inf' or '1', not {norm!r}")
    return 1 if norm == "inf" else 2


def _require(name: str, value: float, holds: bool, what: str) -> None:
    if not (holds and math.isfinite(value)):
        raise ValueError(f"{name} must be {what}, not {value!r}")
