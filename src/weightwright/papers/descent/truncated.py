"""UA-11, AE-8: truncated linear models whose weights and shifts stand in the prompt.

Statement. For a < b, tokens (x_i, t_i, w_i) and p anchors L_k = a + k (b-a)/p one softmax head returns
Range[a,b](w_i . x_i + t_i) for every i, with an error of (b-a)/p and what the softmax leaks (UA-11). H heads that share
the anchors, n - 2 each and two sentinels, do the same with an error of (b-a)/((n-2)H) (AE-8).

Source: universal approximation paper, Theorem D.1 (G.25), Remark G.24; in-context algorithm emulation paper, Theorem
D.1, Lemma D.2.
Deviations, faithful:
- the keys L_k x_i stand in a block of sample i's own, and w_i is the query: every sample may have its own w_i, where
  the printed keys k w, which all queries x_i share, allow one w (`linear.literal` has that layout);
- the values are L_k u with u = (1, 0, ..., 0) in the prompt: the first output is the model, the others are 0;
- ln p and not ln n in beta: the softmax runs over p keys (errata); beta for H heads is ours, none is given;
- the first head's lower sentinel carries a and the last head's upper one b, and L_{-1} = a - dL (errata, as UA-3).
Spectral: fitted keys at moderate beta.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from weightwright.approximation.faithful_tables import clip_text, propose_faithful
from weightwright.errors import ToleranceError
from weightwright.incontext.networks.descent_network import Ranges, gradients_network
from weightwright.incontext.networks.slopes import Slope, as_slope, beyond, spectral_slope
from weightwright.numbers import Floats, rounded
from weightwright.papers.descent.probes import Probes, aimed, along, gradients_at
from weightwright.papers.kit.arguments import interval, positive, whole
from weightwright.papers.kit.constructed import About, Method
from weightwright.papers.linear.one_head import parameters, places
from weightwright.papers.linear.shared_anchors import heads_for, shared_runs
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
    ranges, reach = _sizes(ranges, n, d)
    a, b = interval(a, b)
    if method == "spectral":
        if p is not None or beta is not None or tol is None:
            raise ValueError("p and beta follow from the fit for method='spectral'; give tol")
        positive("tol", tol)
        slope = spectral_slope(clip_text(a, b), SHIFTED, beyond(reach), tol / ranges.value / 2, dtype)
        spots = np.concatenate([np.linspace(a, b, 33), [a - 1e-3, b + 1e-3, -reach, reach]])
        return _finished("UA-11", "spectral", slope, n, d, ranges, a, b, spots, tol, {"keys": slope.anchors}, {}, dtype)
    if method != "faithful":
        raise ValueError(f"method must be 'faithful' or 'spectral', not {method!r}")
    p, beta, printed = parameters(a, b, n, None if tol is None else tol / ranges.value, p, beta)
    anchors = rounded(a + np.arange(p, dtype=np.float64) * ((b - a) / p), dtype)
    end = beyond(reach)
    slope = as_slope(propose_faithful(clip_text(a, b), anchors, [(0, anchors)], beta, -end, end, dtype), SHIFTED)
    spots = places(anchors, a, b, -reach, reach)
    chosen = {"p": p, "beta": beta}
    return _finished("UA-11", "faithful", slope, n, d, ranges, a, b, spots, tol, chosen, printed, dtype)


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
    ranges, reach = _sizes(ranges, n, d)
    a, b = interval(a, b)
    H, beta = heads_for(a, b, n, None if tol is None else tol / ranges.value, H, beta)
    p = (n - 2) * H
    anchors, runs = shared_runs(a, b, n, H, dtype)
    end = beyond(reach)
    slope = as_slope(propose_faithful(clip_text(a, b), anchors, runs, beta, -end, end, dtype), SHIFTED)
    seams = anchors[1 :: n - 2]
    spots = np.concatenate([places(anchors[1:-1], a, b, -reach, reach), seams, seams - (b - a) / p / 2])
    chosen, printed = {"p": p, "H": H, "beta": beta}, {"p": float(p), "H": float(H)}
    return _finished("AE-8", "faithful", slope, n, d, ranges, a, b, spots, tol, chosen, printed, dtype)


def _sizes(ranges: Ranges | None, n: int, d: int) -> tuple[Ranges, float]:
    whole("n", n, 1)
    whole("d", d, 1)
    ranges = ranges or Ranges(1.0, 1.0, 1.0, 1.0)
    for name in ("x", "y", "w", "value"):
        positive(f"ranges.{name}", getattr(ranges, name))
    return ranges, d * ranges.x * ranges.w + ranges.y


def _finished(
    id: str,
    method: Method,
    slope: Slope,
    n: int,
    d: int,
    ranges: Ranges,
    a: float,
    b: float,
    spots: Floats,
    tol: float | None,
    chosen: dict[str, float],
    printed: dict[str, float],
    dtype: str,
) -> AttentionNetwork:
    net = gradients_network(slope, n, d, ranges, dtype, own_values=True)
    assert net.certificate is not None
    if tol is not None and net.certificate.bound > tol:
        raise ToleranceError(f"tol={tol:g} cannot be proven: {net.certificate.bound:.3g} is the best", tol)
    chosen = {name: float(value) for name, value in chosen.items()}
    reference = gradients_at(along(clip_text(a, b), SHIFTED), net.network.inputs, math.inf)
    bounds = {"everywhere": net.certificate.bound}
    net.about = About(id, method, chosen, printed, bounds, reference, _probes(net.network.inputs, n, d, ranges, spots))
    return net


def _probes(inputs: Sequence[str], n: int, d: int, ranges: Ranges, spots: Floats) -> Probes:
    """As for any f of w . x - y, with -t in the place of y, and u = (1, 0, ..., 0) in most."""
    reach = d * ranges.x * ranges.w + ranges.y
    probe = aimed(inputs, n, ranges, spots, reach)
    names = [name.split("[")[0] for name in inputs]
    t, u = names.index("y"), [i for i, name in enumerate(names) if name == "u"]

    def probes(rng: np.random.Generator, count: int) -> Floats:
        X = probe(rng, count)
        X[..., t] = -X[..., t]
        ours = rng.random(count) < 0.75
        X[..., u] = np.where(ours[:, None, None], np.eye(d)[0] * ranges.value, X[..., u])
        return X

    return probes
