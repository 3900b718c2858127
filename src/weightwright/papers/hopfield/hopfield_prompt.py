"""AE-14: a Hopfield layer that computes f(w . x_i - y_i) x_i for every example i of its prompt.

State patterns are the queries (w, 1, 1); stored patterns are what a linear map spreads out of every example,
(2 L_j x_i, -2 L_j y_i, -L_j^2), with the values f(L_j) x_i: the softmax of beta (2 L_j r_i - L_j^2) picks the L_j
nearest to r_i = w . x_i - y_i. `literal_gradients` is the printed layer, for comparison. Statement, source and
deviations: `weightwright theorems AE-14`. Spectral: soft anchors with fitted values.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from weightwright.approximation.task import as_function
from weightwright.enclosures.intervals.jets import values
from weightwright.errors import ToleranceError
from weightwright.expressions import Expression, to_text
from weightwright.incontext.networks.descent_network import Ranges, gradients_network
from weightwright.incontext.networks.prompted import PromptTable, prompted_network
from weightwright.incontext.networks.slopes import Slope, as_slope, spectral_slope
from weightwright.network import Attention, Head, Linear, Network, Sees
from weightwright.numbers import Floats, rounded
from weightwright.papers.hopfield.hopfield_layer import SPACING, nearest_anchors
from weightwright.papers.kit.arguments import known_method, one_given, positive, whole
from weightwright.papers.kit.constructed import Method, described, proven_bound
from weightwright.runtime import AttentionNetwork

Function = str | Callable[[Any], Any]
Bounds = float | tuple[float, float, float]

RESIDUAL = (1.0, -1.0)  # of w . x and y
MAX_KEYS = 512
#: Shares of the tolerance for fitted values, one after the other; the rest is for rounding.
_FITTED = (0.9, 0.45, 0.1)


def hopfield_gradients(
    f: Function,
    n: int,
    d: int,
    B: Bounds = 1.0,
    *,
    tol: float | None = None,
    P: int | None = None,
    method: Method = "faithful",
    dtype: str = "float64",
) -> AttentionNetwork:
    """Prompt (n, 2 d + 1), every token (x_i, y_i, w) -> (n, d): f(w . x_i - y_i) x_i.

    f: a formula in x, or a torch function of one tensor; the derivative of a loss of the residual gives its gradients.
    B: bounds the entries of x, y and w in size; three numbers bound them separately.
    tol, P: give tol; or P, for P + 1 anchors, if method is "faithful".
    Hypotheses: f has a bounded slope on all residuals that B allows, |r| <= d B_w B_x + B_y.
    Error: `net.certificate.bound` for every prompt within B, rounding included.
    Cost: 1 attention layer and 1 head (spectral: one or more), n (P + 1) scores.

    >>> net = hopfield_gradients("tanh(x)", n=3, d=2, tol=1e-6, method="spectral")
    >>> net.certificate.status, net.certificate.bound <= 1e-6
    ('PROVEN', True)
    """
    formula, ranges = _arguments(f, n, d, B, dtype)
    positive("tol", tol)
    whole("P", P, 2)
    known_method(method)
    if method == "spectral" and (P is not None or tol is None):
        raise ValueError("give tol, and no P, for method='spectral'")
    one_given("tol or P", tol, P)
    best = math.inf
    for share in _FITTED if method == "spectral" else SPACING:
        aim = None if tol is None else share * tol / ranges.x
        if method == "spectral":
            slope = spectral_slope(to_text(formula), RESIDUAL, _reach(d, ranges), aim, dtype, MAX_KEYS)
            chosen = {"keys": float(slope.anchors), "heads": float(len(slope.tables))}
        else:
            slope, chosen = anchored(formula, _reach(d, ranges), aim, P, dtype)
        net = gradients_network(slope, n, d, ranges, dtype)
        best = min(best, proven_bound(net))
        if tol is None or proven_bound(net) <= tol:
            return _described(method, net, formula, n, d, ranges, chosen)
    raise ToleranceError(f"tol={tol:g} cannot be proven in {dtype}: {best:.3g} is the best", best)


def anchored(
    formula: Expression, reach: float, tol: float | None, P: int | None, dtype: str = "float64"
) -> tuple[Slope, dict[str, float]]:
    """f by the nearest of P + 1 anchors on all residuals; P and beta."""
    (part,), _, chosen, _ = nearest_anchors([formula], -reach, reach, tol, P, 1.0, dtype)
    return as_slope(part, RESIDUAL), chosen


def _arguments(f: Function, n: int, d: int, B: Bounds, dtype: str) -> tuple[Expression, Ranges]:
    """f as a formula in x, and the ranges of the prompt's numbers."""
    whole("n", n, 1)
    whole("d", d, 1)
    bounds = B if isinstance(B, tuple) else (B, B, B)
    if len(bounds) != 3:
        raise ValueError(f"B must be one number, or three for x, y and w, not {B!r}")
    for bound in bounds:
        positive("B", bound)
    if dtype not in ("float64", "float32"):
        raise ValueError(f"dtype must be 'float64' or 'float32', not {dtype!r}")
    formula = as_function(f, ("x",), may_be_opaque=False)
    x, y, w = (float(rounded(np.array(float(bound)), dtype)) for bound in bounds)
    return formula, Ranges(x, y, w)  # type: ignore[return-value]


def _reach(d: int, ranges: Ranges) -> float:
    """How large a residual can be, and a little more: a computed one is off."""
    return (d * ranges.w * ranges.x + ranges.y) * (1 + 2.0**-16)


def literal_gradients(
    f: Function, n: int, d: int, B: Bounds = 1.0, *, P: int, C: float | None = None
) -> AttentionNetwork:
    """The printed layer, in float64 and without a certificate: every state pattern sees all n (P + 1) stored ones.

    C is added to the scores of a state pattern's own example, before beta multiplies them. None: R^2 + dL^2 / 4 + 40 /
    beta, R the largest residual. The own example's best score is -dL^2 / 4 at least, another's R^2 at most: the others
    weigh n (P + 1) e^-40 together.
    """
    formula, ranges = _arguments(f, n, d, B, "float64")
    whole("P", P, 2)
    reach = _reach(d, ranges)
    slope, chosen = anchored(formula, reach, None, P)
    if C is None:
        C = reach**2 + (reach / P) ** 2 + 40 / chosen["beta"]
    (table,) = slope.tables
    net = AttentionNetwork(_all_seen(table, n, d, C * chosen["beta"] / table.beta))
    return _described("faithful", net, formula, n, d, ranges, chosen | {"C": C})


def _all_seen(table: PromptTable, n: int, d: int, own: float) -> Network:
    """The prompted form, but all keys are seen; a code of n coordinates adds beta `own` for the same example."""
    base = prompted_network(n, d, [table], (), None, "gradients", False, "float64")
    spread, attend, gather = base.layers
    assert isinstance(spread, Linear)
    assert isinstance(attend, Attention)
    assert isinstance(gather, Linear)
    P, code = table.size, tuple(f"example[{i}]" for i in range(n))

    def wider(W: Floats, rows: int = 0, columns: int = 0) -> Floats:
        return np.pad(W, ((0, rows), (0, columns)))

    names = (*spread.coordinates, *code)
    position = np.hstack([np.zeros((n * P, len(spread.coordinates))), np.repeat(np.eye(n), P, axis=0)])
    spread = Linear(names, tuple(dataclasses.replace(t, A=wider(t.A, 0, n)) for t in spread.terms), position)
    head = attend.heads[0]
    W_Q, W_K = wider(head.W_Q, n, n), wider(head.W_K, n, n)
    W_Q[-n:, -n:], W_K[-n:, -n:] = np.eye(n), own * np.eye(n)
    head = Head(head.role, W_Q, W_K, wider(head.W_V, n), wider(head.W_O, 0, n), head.beta, Sees(data="all"))
    kept = tuple(dataclasses.replace(t, A=wider(t.A, n)) for t in gather.terms)
    layers = (spread, Attention(names, (head,)), dataclasses.replace(gather, terms=kept))
    return dataclasses.replace(base, layers=layers)


def _described(
    method: Method,
    net: AttentionNetwork,
    formula: Expression,
    n: int,
    d: int,
    ranges: Ranges,
    chosen: dict[str, float],
) -> AttentionNetwork:
    size = np.repeat([ranges.x, ranges.y, ranges.w], [d, 1, d])
    reach = _reach(d, ranges)
    P = int(chosen.get("P", 32))
    anchors = -reach + np.arange(P + 1) * (2 * reach / P)

    def reference(prompt: Floats) -> Floats:
        x, y, w = prompt[..., :d], prompt[..., d], prompt[..., d + 1 :]
        r = (w * x).sum(axis=-1) - y
        return np.asarray(np.broadcast_to(values(formula, r), r.shape)[..., None] * x)

    def probes(rng: np.random.Generator, count: int) -> Floats:
        """Random prompts and corners, all tokens with the same w; half of them with residuals at anchors and between,
        where y can make them so."""
        prompt = rng.uniform(-size, size, (count, n, len(size)))
        corners = rng.random(count) < 0.25
        prompt[corners] = np.where(rng.random(prompt[corners].shape) < 0.5, -size, size)
        prompt[:, :, d + 1 :] = prompt[:, :1, d + 1 :]
        places = rng.choice(np.concatenate([anchors, (anchors[:-1] + anchors[1:]) / 2]), prompt.shape[:2])
        wanted = (prompt[..., :d] * prompt[..., d + 1 :]).sum(axis=-1) - places
        prompt[::2, :, d] = np.clip(wanted, -ranges.y, ranges.y)[::2]
        return prompt

    return described(net, "AE-14", method, chosen, {}, reference, probes)
