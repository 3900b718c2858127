"""AE-8 in the paper's own layout: token k holds k w and w beside x_k, and a one-hot position code is all else.

Head h reads the key of anchor K_h + k, K_h = (h-1)(n-2) - 1, off token k as k w + K_h w; queries are x_i, values stand
in the position code. The certificate is about prompts whose tokens hold one w and its multiples (`SharedKeysClaim`).
beta is ours, up to a rounding that makes all keys exact multiples of w, so that heads share their anchors to the last
bit. Statement, source and deviations: `weightwright theorems AE-8`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np

from weightwright.approximation.faithful_tables import clip_text, split_beta
from weightwright.box import Box
from weightwright.certify import certify
from weightwright.heads.registers import weight_at
from weightwright.incontext.networks.descent_network import Ranges
from weightwright.network import Sees, Term
from weightwright.numbers import Floats, rounded
from weightwright.papers.claims.shared_keys_claim import SharedKeysClaim
from weightwright.papers.kit.arguments import interval, positive, whole
from weightwright.papers.kit.constructed import described
from weightwright.papers.kit.named_stream import NamedStream
from weightwright.papers.linear.model_anchors import anchors_of_heads
from weightwright.runtime import AttentionNetwork

#: The factor of the keys is a multiple of one over this: its products with numbers of tokens are then exact.
_BITS = 2**12


def literal_truncated_linear(
    a: float,
    b: float,
    n: int,
    d: int,
    *,
    H: int,
    beta: float | None = None,
    ranges: Ranges | None = None,
    dtype: str = "float64",
) -> AttentionNetwork:
    """Prompt (n, 3d), tokens (x_i, i w, w) -> (n, 1): Range[a,b](w . x_i) by one layer of H heads of n keys.

    ranges: how large the entries of x and w may be, 1 each unless given; its y is not used.
    Error: `net.certificate.bound` for every token, whatever w . x_i is: spacing, leakage and rounding.
    Cost: 1 layer, H heads, width 3d + n + 2, no registers.

    >>> import torch
    >>> net = literal_truncated_linear(-1.0, 1.0, n=6, d=1, H=4)
    >>> x = np.linspace(-1, 1, 6)[:, None]
    >>> found = net(torch.tensor(literal_prompt(x, np.array([0.5])))).numpy()
    >>> net.network.native, net.certificate.status, bool(np.abs(found - 0.5 * x).max() <= net.certificate.bound)
    (True, 'PROVEN', True)
    """
    whole("n", n, 3, ": a head has n - 2 anchors and two sentinels")
    whole("d", d, 1)
    a, b = interval(a, b)
    ranges = ranges or Ranges(1.0, 1.0, 1.0)
    for name in ("x", "w"):
        positive(f"ranges.{name}", getattr(ranges, name))
    held = anchors_of_heads(a, b, n, None, H, beta, dtype)
    # the paper's beta times dL: scores -(beta/2)(s - L_k)^2 up to what the keys share
    power, factor = split_beta(held.beta * held.spacing / 2, dtype)
    factor = math.ceil(factor * _BITS) / _BITS
    stream = NamedStream({"x": d, "k w": d, "w": d, "pos": n, "one": None, "range": None})
    heads, one, nothing = [], np.eye(d), np.zeros((d, 1))
    for first, values in held.runs:
        k = first - 1 + np.arange(n)  # the first anchor is L_{-1}
        offsets = rounded(-factor * k * (held.anchors[first : first + n] + a), dtype)
        query = {"x": np.hstack([one, nothing]), "one": weight_at(d + 1, -1, 1.0)}
        key = {"k w": 2 * factor * one, "w": 2 * factor * float(k[0]) * one}
        key = {group: np.hstack([block, nothing]) for group, block in key.items()}
        key["pos"] = np.hstack([np.zeros((n, d)), offsets[:, None]])
        role = f"anchors {first} to {first + n - 3} of clip(x, {a:g}, {b:g})"
        head = stream.head(role, power, Sees(data="all"), query, key, {"pos": values[:, None]}, {"range": 1.0})
        heads.append(dataclasses.replace(head, W_K=rounded(head.W_K, dtype)))
    C = stream.tokens(n, {"pos": np.eye(n), "one": 1.0})
    inputs = stream.names[: 3 * d]
    network = stream.network(inputs, Term(np.eye(3 * d, stream.width)), C, [heads], "range", tokens=n, dtype=dtype)
    net = certify(network, SharedKeysClaim(d, H, clip_text(a, b)), _domain(n, d, ranges))
    reach = d * ranges.x * ranges.w
    chosen = {**held.chosen, "beta": 2 * power * factor / held.spacing}
    probes = _probes(n, d, ranges, held.places(-reach, reach), dtype)
    return described(net, "AE-8", "faithful", chosen, held.printed, _reference(a, b, d, dtype), probes)


def _domain(n: int, d: int, ranges: Ranges) -> Box:
    """Of the entries of x, k w and w, token by token."""
    multiples = np.maximum(np.arange(n), 1)[:, None] * np.full((n, d), ranges.w)
    size = np.concatenate([np.full((n, d), ranges.x), multiples, np.full((n, d), ranges.w)], axis=1)
    return Box(-size, size)


def _reference(a: float, b: float, d: int, dtype: str) -> Callable[[Floats], Floats]:
    """Range of w . x; NaN for prompts whose tokens do not hold one w and its multiples, of which nothing is claimed."""

    def reference(X: Floats) -> Floats:
        x, w = X[..., :d], X[..., 2 * d :]
        proper = (literal_prompt(x, w[..., 0, :], dtype) == X).all(axis=(-2, -1))
        found = np.clip((x * w).sum(axis=-1), a, b)
        return np.asarray(np.where(proper[..., None], found, np.nan)[..., None])

    return reference


def _probes(n: int, d: int, ranges: Ranges, spots: Floats, dtype: str) -> Callable[[np.random.Generator, int], Floats]:
    """Random prompts, and prompts whose w . x_i are at the spots or as near as the ranges allow."""

    def probes(rng: np.random.Generator, count: int) -> Floats:
        x, w = rng.uniform(-ranges.x, ranges.x, (count, n, d)), rng.uniform(-ranges.w, ranges.w, (count, d))
        w[: count // 4] = np.where(rng.random((count // 4, d)) < 0.5, -ranges.w, ranges.w)
        wanted = rng.choice(spots, (count, n)) * rng.choice([1.0, 1 - 1e-9, 1 + 1e-9], (count, n))
        missing = wanted - (x * w[:, None]).sum(axis=-1)
        step = missing[..., None] * w[:, None] / np.maximum((w**2).sum(axis=-1), 1e-12)[:, None, None]
        aims = (np.arange(count) % 2 == 0)[:, None, None]
        return literal_prompt(np.where(aims, np.clip(x + step, -ranges.x, ranges.x), x), w, dtype)

    return probes


def literal_prompt(x: Floats, w: Floats, dtype: str = "float64") -> Floats:
    """(..., n, d) samples and one w (..., d) as the layout has them, (..., n, 3d): numbers of the dtype."""
    x, w = rounded(x, dtype), rounded(w, dtype)
    repeated = np.broadcast_to(w[..., None, :], x.shape)
    return np.concatenate([x, rounded(np.arange(x.shape[-2])[:, None] * repeated, dtype), repeated], axis=-1)
