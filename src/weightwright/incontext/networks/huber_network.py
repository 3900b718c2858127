"""A frozen network for Huber's regression with its scale in the state, as scikit-learn has it.

Statement: for examples (x_i, y_i) in the prompt the network runs Nesterov's method with a fixed momentum on

    F(w, c, sigma) = 1/S sum_i s_i (sigma + H(r_i / sigma) sigma) + penalty/2 |w|^2,   r_i = w . x_i + c - y_i,

H(z) = z^2 for |z| <= epsilon and 2 epsilon |z| - epsilon^2 beyond, S the sum of the weights s_i. With z_i = r_i / sigma
and psi_i = z_i clipped to [-epsilon, epsilon] its slopes are 2/S sum_i s_i psi_i (x_i, 1) and 1/S sum_i s_i (1 -
psi_i^2). F is convex in (w, c, sigma) together.

Source: scikit-learn's objective over S; the pass is AE Theorem 3.1 three times. One pass:
    f = 1/sigma                                     a table on registers
    z_i = (w, c, -1) . (x_i, 1, y_i) f              a table of the identity: attention multiplies, twice
    psi_i = relu(z_i + eps) - relu(z_i - eps) - eps gates
    g_i = (psi_i u_i, (1 - psi_i^2) v_i)            two tables; u_i = step 2 s_i/S (x_i, 1) and v_i = step s_i/S
    (w, c, sigma) <- the state times alpha - sum_i g_i, and momentum
Hypotheses, checked at every pass: sigma in sigma_range, |r_i| <= reach. A step has a size for each number of the state.
Cost: three tables of three layers, two attention layers, one of two gates, and two maps.

>>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([1.0, 3.1, 4.9, 40.0])
>>> given = dict(step=np.array([0.01, 0.02, 0.01]), start=np.array([0.0, 0.0, 4.0]))
>>> same = dict(epsilon=1.35, momentum=0.5, steps=20)
>>> path = plain_huber(X, y, **given, **same)
>>> sigma_range, reach = huber_ranges(path, X, y)
>>> net = huber_network(4, 1, sigma_range=sigma_range, reach=reach, **same)
>>> answer = net(huber_prompt(X, y, **given))[0].numpy()
>>> bool(np.abs(answer - path[-1, 1]).max() < 1e-8)
True
"""

from __future__ import annotations

import math

import numpy as np
import torch

from weightwright.incontext.networks.blocks import Layout, gate
from weightwright.incontext.networks.guarded import (
    Argument,
    GuardedLayers,
    look_up,
    looped_network,
    multiplied,
    shares,
    tokens,
)
from weightwright.incontext.networks.passes import nesterov
from weightwright.incontext.networks.prompted import pass_layers
from weightwright.incontext.networks.slopes import beyond, spectral_slope
from weightwright.network import Attention, Linear, Term
from weightwright.network.token_maps import pick
from weightwright.numbers import Floats, rounded
from weightwright.runtime import AttentionNetwork

#: Keys that a table may have: 1/sigma takes 35 where sigma_range is 1 to 100.
MOST = 256


def huber_network(
    n: int,
    d: int,
    *,
    epsilon: float,
    sigma_range: tuple[float, float],
    reach: float,
    momentum: float,
    steps: int,
    shrink: float | Floats = 0.0,
    intercept: bool = True,
    head_tol: float | None = None,
    dtype: str = "float64",
) -> AttentionNetwork:
    """`steps` passes on n tokens, which `huber_prompt` writes; the answer is one token (w, c, sigma), c with intercept.

    sigma_range, reach: where sigma and the sizes of all r_i stay; `huber_ranges` reads them off the plain algorithm.
    shrink: the step times the penalty, one number or one for each of the d features. head_tol: the error asked of every
    table, relative to its function's size; unless given, 1e-10 in float64.
    """
    lo, hi = sigma_range
    if not 0 < lo < hi < math.inf:
        raise ValueError(f"sigma_range={sigma_range!r}: two numbers are needed, 0 < lowest < highest")
    for name, number in (("epsilon", epsilon), ("reach", reach)):
        if not 0 < number < math.inf:
            raise ValueError(f"{name} must be positive and finite, not {number!r}")
    D = d + intercept + 1
    layout = _layout(D)
    shrinks = np.zeros(D)
    shrinks[:d] = shrink
    algorithm = nesterov(momentum, shrinks, dtype)
    inverse, registers = _inverse(layout, lo, hi, head_tol, dtype)
    one_pass = (
        inverse
        + _scaled_residuals(layout, reach, head_tol, dtype)
        + GuardedLayers((_clip(layout, epsilon, dtype),))
        + _slopes(layout, epsilon, head_tol, dtype)
        + GuardedLayers(pass_layers(layout, (), algorithm.cycle[0], n, dtype))
    )
    names = (*(f"w[{r}]" for r in range(d)), *(["intercept"] if intercept else []), "sigma")
    read = Linear(names, (Term(layout.reading(algorithm.answer), pick(0)),), np.zeros((1, D)))
    constants = {"one": np.ones((1, 1)), "own": np.ones((1, 1))}
    inputs = ["x", "y", "u", "v", "w", "p"]
    return looped_network(layout, inputs, constants, registers, steps, one_pass, GuardedLayers(()), read, n, dtype)


def _layout(D: int) -> Layout:
    """The examples, what their slopes multiply, the states, and what a pass computes."""
    given: dict[str, int | None] = {"x": D - 1, "y": None, "u": D - 1, "v": None, "w": D, "p": D}
    return Layout(given | {"one": None, "own": None, "held": 3, "f": None, "s": None, "psi": None, "g": D, "z": D})


def _inverse(layout: Layout, lo: float, hi: float, tol: float | None, dtype: str) -> tuple[GuardedLayers, Floats]:
    """f = 1/sigma, and the registers: the gates' of zeros, then those of the table."""
    centre = float(rounded(np.array((lo + hi) / 2), dtype))
    sigma = Argument(
        layout.reading("w")[:, -1:] - centre * layout.reading("one"),
        layout.at["one"],
        "sigma",
        "build the network with a sigma_range that holds it, or take a smaller step",
        centre,
    )
    asked = None if tol is None else tol * (1 / lo - 1 / hi) / 2
    function = spectral_slope(
        f"1/(x + {centre!r})", (1.0, 0.0), beyond(max(hi - centre, centre - lo)), asked, dtype, MOST
    )
    part, rows = look_up(layout, function, sigma, layout.at["f"][0], first=1)
    return part, np.concatenate([np.zeros((1, layout.width)), rounded(rows, dtype)])


def _scaled_residuals(layout: Layout, reach: float, tol: float | None, dtype: str) -> GuardedLayers:
    """s = (w . x + c - y) f."""
    at, query = layout.at, layout.reading("w")
    query[:, -1] = -layout.reading("one")[:, 0]  # y takes the place of sigma
    residual = Argument(
        query, [*at["x"], *at["y"]], "the residual w.x + c - y", "build the network with a larger reach"
    )
    asked = None if tol is None else tol * reach
    identity = spectral_slope("x", (1.0, 0.0), beyond(reach), asked, dtype, MOST)
    return multiplied(layout, identity, residual, at["f"], at["s"], fresh=("psi",))


def _clip(layout: Layout, epsilon: float, dtype: str) -> Attention:
    """psi = relu(s + epsilon) - relu(s - epsilon): s clipped, plus epsilon. The constant comes from "own", which the
    register does not have."""
    heads = []
    for side in (1.0, -1.0):
        t = layout.reading("s") + side * float(rounded(np.array(epsilon), dtype)) * layout.reading("own")
        heads.append(gate(layout, f"relu(s {'+' if side > 0 else '-'} epsilon)", t, t, layout.at["psi"], side, dtype))
    return Attention(layout.names, tuple(heads))


def _slopes(layout: Layout, epsilon: float, tol: float | None, dtype: str) -> GuardedLayers:
    """g = (psi u, (1 - psi^2) v) of the clipped s."""
    at = layout.at
    clipped = Argument(
        layout.reading("psi") - float(rounded(np.array(epsilon), dtype)) * layout.reading("one"),
        at["one"],
        "the clipped residual",
        "it is not a number: take a smaller step",
    )
    room = epsilon * (1 + 2.0**-10)  # gates are not quite exact
    identity, falling = (
        spectral_slope(f, (1.0, 0.0), room, None if tol is None else tol * size, dtype, MOST)
        for f, size in (("x", room), ("1 - x*x", room**2 / 2))
    )
    return multiplied(layout, identity, clipped, at["u"], at["g"][:-1], fresh=("f", "s")) + multiplied(
        layout, falling, clipped, at["v"], at["g"][-1:]
    )


def huber_prompt(
    X: Floats,
    y: Floats,
    *,
    step: Floats,
    start: Floats,
    sample_weight: Floats | None = None,
    intercept: bool = True,
    samples: int | None = None,
    dtype: str = "float64",
) -> torch.Tensor:
    """(samples, inputs): a token for each example; missing ones are 0 and add nothing. step: one for each number of
    the state (w, c, sigma). start: the first state, whose sigma is positive."""
    rows, u, v = _scaled(X, y, step, sample_weight, intercept)
    first = _start(start, rows)
    shared = {"w": first, "p": first}
    return tokens({"x": rows, "y": y[:, None], "u": u, "v": v[:, None]}, shared, samples, dtype)


def plain_huber(
    X: Floats,
    y: Floats,
    *,
    step: Floats,
    start: Floats,
    epsilon: float,
    momentum: float,
    steps: int,
    shrink: float | Floats = 0.0,
    sample_weight: Floats | None = None,
    intercept: bool = True,
) -> Floats:
    """The same in float64 numpy: (steps + 1, 2, D), the states w and p after every pass; p is the answer. ValueError
    where a step or the momentum is so large that sigma does not stay positive."""
    rows, u, v = _scaled(X, y, step, sample_weight, intercept)
    alpha = np.ones(len(step))
    alpha[: X.shape[1]] -= shrink
    w = p = _start(start, rows)
    path = [(w, p)]
    for number in range(steps):
        if not w[-1] > 0:
            raise ValueError(
                f"step={step[-1]!r} of sigma: sigma became {w[-1]:.6g} after {number} passes; take a smaller step, a"
                " smaller momentum, or a start whose sigma is nearer"
            )
        psi = np.clip((rows @ w[:-1] - y) / w[-1], -epsilon, epsilon)
        z = alpha * w - np.append(psi @ u, (1 - psi**2) @ v)
        w, p = z + momentum * (z - p), z
        path.append((w, p))
    return np.array(path)


def huber_ranges(path: Floats, X: Floats, y: Floats, intercept: bool = True) -> tuple[tuple[float, float], float]:
    """The smallest and the largest sigma on the way of `plain_huber`, and the largest size of a residual."""
    states = path[:-1, 0]  # nothing is computed from the last
    sigma, residuals = states[:, -1], states[:, :-1] @ with_ones(X, intercept).T - y
    return (float(sigma.min()), float(sigma.max())), float(np.abs(residuals).max())


def with_ones(X: Floats, intercept: bool) -> Floats:
    """The examples, with a 1 each for the intercept."""
    return np.hstack([X, np.ones((len(X), 1))]) if intercept else X


def _scaled(
    X: Floats, y: Floats, step: Floats, sample_weight: Floats | None, intercept: bool
) -> tuple[Floats, Floats, Floats]:
    """The rows (x, 1), and what the slopes multiply: u = step 2 s/S (x, 1) and v = step s/S."""
    rows = with_ones(X, intercept)
    if y.shape != (len(X),):
        raise ValueError(f"y has shape {y.shape}, but X has {len(X)} samples: one target each is needed")
    if step.shape != (rows.shape[1] + 1,) or not (np.isfinite(step).all() and (step > 0).all()):
        raise ValueError(f"step={step!r}: {rows.shape[1] + 1} positive numbers are needed, the last of them for sigma")
    share = shares(sample_weight, len(X))
    return rows, 2 * share[:, None] * step[:-1] * rows, step[-1] * share


def _start(start: Floats, rows: Floats) -> Floats:
    if start.shape != (rows.shape[1] + 1,) or not np.isfinite(start).all() or start[-1] <= 0:
        raise ValueError(f"start={start!r}: {rows.shape[1] + 1} finite numbers are needed, the last, sigma, positive")
    return np.array(start, dtype=np.float64)
