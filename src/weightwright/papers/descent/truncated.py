"""UA-11, AE-8: truncated linear models whose weights and shifts stand in the prompt.

The keys L_k x_i stand in a block of sample i's own, w_i is the query, the values are L_k u with u = (1, 0, ..., 0) in
the prompt: the first output is the model, the others are 0. `linear.literal` has the printed layout. Spectral: fitted
keys at moderate beta. Statement, source and deviations: `weightwright theorems UA-11`, `AE-8`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from weightwright.approximation.faithful_tables import clip_text
from weightwright.incontext.networks.descent_network import Ranges, gradients_network
from weightwright.incontext.networks.slopes import as_slope, beyond, spectral_slope
from weightwright.numbers import Floats
from weightwright.papers.descent.gradients import UNIT
from weightwright.papers.descent.probes import aimed, along, gradients_at
from weightwright.papers.kit.arguments import interval, known_method, positive, whole
from weightwright.papers.kit.constructed import Method, described, within
from weightwright.papers.linear.model_anchors import ModelAnchors, anchors_of_heads, anchors_of_one_head
from weightwright.runtime import AttentionNetwork

#: The argument is w . x + t, t in the place of y.
SHIFTED = (1.0, 1.0)


def in_context_truncated_linear(
    a: float,
    b: float,
    n: int,
    d: int,
    *,
    ranges: Ranges | None = None,
    tol: float | None = None,
    p: int | None = None,
    beta: float | None = None,
    method: Method = "faithful",
    dtype: str = "float64",
) -> AttentionNetwork:
    """Prompt (n, 3d + 1), tokens (x_i, u_i, t_i, w_i) -> (n, d): Range[a,b](w_i . x_i + t_i) u_i; u_i = (1, 0, ..., 0)
    is the theorem's. ranges: of the entries of x, t (as y), w and u (as value), 1 each unless given.

    Faithful: give tol, or p > n and perhaps beta. Spectral: give tol.
    Error: `net.certificate.bound` for every token, whatever w_i . x_i + t_i is: spacing, leakage and rounding.
    Cost: 3 layers, 1 head (spectral: a few), n p scores.

    >>> net = in_context_truncated_linear(-1.0, 1.0, n=3, d=2, p=16)
    >>> net.certificate.status, net.certificate.bound < 2 / 16 + 1e-2
    ('PROVEN', True)
    """
    ranges = _read_sizes(ranges, n, d)
    a, b = interval(a, b)
    reach = _reach(d, ranges)
    if method == "spectral":
        if p is not None or beta is not None or tol is None:
            raise ValueError("p and beta follow from the fit for method='spectral'; give tol")
        positive("tol", tol)
        slope = spectral_slope(clip_text(a, b), SHIFTED, beyond(reach), tol / ranges.value / 2, dtype)
        spots = np.concatenate([np.linspace(a, b, 33), [a - 1e-3, b + 1e-3, -reach, reach]])
        net, chosen = gradients_network(slope, n, d, ranges, dtype, own_values=True), {"keys": float(slope.anchors)}
        return _described(net, "UA-11", "spectral", n, ranges, clip_text(a, b), spots, tol, chosen, {})
    known_method(method)
    held = anchors_of_one_head(a, b, n, None if tol is None else tol / ranges.value, p, beta, dtype)
    return _faithful("UA-11", held, n, d, ranges, tol, held.printed)


def in_context_truncated_linear_heads(
    a: float,
    b: float,
    n: int,
    d: int,
    *,
    ranges: Ranges | None = None,
    tol: float | None = None,
    H: int | None = None,
    beta: float | None = None,
    dtype: str = "float64",
) -> AttentionNetwork:
    """AE-8: the same by H heads of n keys each, n - 2 anchors and two sentinels; n >= 3. Give tol, or H and perhaps
    beta. Cost: 3 H layers of one head each, n^2 H scores.

    >>> net = in_context_truncated_linear_heads(-1.0, 1.0, n=6, d=2, H=4)
    >>> net.certificate.status, net.certificate.bound < 2 / 16 + 1e-2
    ('PROVEN', True)
    """
    if isinstance(n, int) and n < 3:
        raise ValueError(f"n must be at least 3: a head has n - 2 anchors and two sentinels, and n = {n}")
    ranges = _read_sizes(ranges, n, d)
    a, b = interval(a, b)
    held = anchors_of_heads(a, b, n, None if tol is None else tol / ranges.value, H, beta, dtype)
    return _faithful("AE-8", held, n, d, ranges, tol, {name: held.chosen[name] for name in ("p", "H")})


def _read_sizes(ranges: Ranges | None, n: int, d: int) -> Ranges:
    whole("n", n, 1)
    whole("d", d, 1)
    ranges = ranges or UNIT
    for name in ("x", "y", "w", "value"):
        positive(f"ranges.{name}", getattr(ranges, name))
    return ranges


def _faithful(
    id: str, held: ModelAnchors, n: int, d: int, ranges: Ranges, tol: float | None, printed: Mapping[str, float]
) -> AttentionNetwork:
    reach = _reach(d, ranges)
    slope = as_slope(held.table(-beyond(reach), beyond(reach)), SHIFTED)
    net, clip = gradients_network(slope, n, d, ranges, held.dtype, own_values=True), clip_text(held.a, held.b)
    return _described(net, id, "faithful", n, ranges, clip, held.places(-reach, reach), tol, held.chosen, printed)


def _described(
    net: AttentionNetwork,
    id: str,
    method: Method,
    n: int,
    ranges: Ranges,
    clip: str,
    spots: Floats,
    tol: float | None,
    chosen: Mapping[str, float],
    printed: Mapping[str, float],
) -> AttentionNetwork:
    """Probes: as for any f of w . x - y, with -t in the place of y, and u = (1, 0, ..., 0) in most."""
    within(net, tol)
    inputs = net.network.inputs
    names = [name.split("[")[0] for name in inputs]
    t, u = names.index("y"), [i for i, name in enumerate(names) if name == "u"]
    probe = aimed(inputs, n, ranges, spots, _reach(len(u), ranges))

    def probes(rng: np.random.Generator, count: int) -> Floats:
        X = probe(rng, count)
        X[..., t] = -X[..., t]
        ours = rng.random(count) < 0.75
        X[..., u] = np.where(ours[:, None, None], np.eye(len(u))[0] * ranges.value, X[..., u])
        return X

    reference = gradients_at(along(clip, SHIFTED), inputs, math.inf)
    return described(net, id, method, chosen, printed, reference, probes)


def _reach(d: int, ranges: Ranges) -> float:
    return d * ranges.x * ranges.w + ranges.y
