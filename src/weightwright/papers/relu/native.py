"""UA-10: any ReLU network over the flattened sequence as attention with token-wise maps and a position code only.

First layer: one position-gated copy head for each token j, whose output map holds the weights for x_j: exact, and all
tokens receive all preactivations. Second layer: a head per hidden unit and token that reads it, softmax over {beta s on
the tokens, 0 on the padding}, values s and 0, which is s sigmoid(beta s). Other tokens' queries are pushed so far down
that they receive nothing. Two keys are exact but for 0.2785 / beta: there is no better spectral form.
Statement, source and deviations: `weightwright theorems UA-10`.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from weightwright.box import Box
from weightwright.certify import certify
from weightwright.claims.target import Composite
from weightwright.heads.copy import GAP
from weightwright.heads.registers import weight_at
from weightwright.network import Network, Sees, Term
from weightwright.numbers import Floats
from weightwright.papers.claims.ridge_functions import FormulasClaim, GateClaim, RidgeFunctions
from weightwright.papers.kit.arguments import positive, token_box, whole
from weightwright.papers.kit.constructed import described, proven_bound
from weightwright.papers.kit.named_stream import NamedStream, features
from weightwright.papers.relu.emulated import find_relu_network
from weightwright.papers.relu.relu_target import as_relu_network, evaluator, relu_ridge, ridge_probes
from weightwright.runtime import AttentionNetwork


def native_relu(
    target: Any,
    n: int,
    domain: Box | tuple[float, float],
    *,
    tol: float | None = None,
    beta: float | None = None,
) -> AttentionNetwork:
    """X (n, d) -> (n, d_out) for a ReLU network of n d inputs and n d_out outputs, both token by token.

    target: a torch Sequential(Linear, ReLU, Linear); the arrays (W_1, b_1, W_2, b_2) as torch has them; or a list of
    formulas of x0, x1, ..., one for each output token by token, as in `relu_network`.
    Give tol (default 1e-6), or, for a network, beta.
    Error: (0.2785 / beta) times the largest row sum of |W_2|, what a ReLU network for formulas is off by, and rounding.
    Cost: 2 layers, n + (heads that are read) heads with n + 1 keys, 1 register.

    >>> rng = np.random.default_rng(0)
    >>> W = rng.normal(size=(5, 4)), rng.normal(size=5), rng.normal(size=(4, 5)), rng.normal(size=4)
    >>> net = native_relu(W, n=2, domain=(-1, 1))
    >>> net.certificate.status, net.certificate.bound < 1e-6, net.network.native
    ('PROVEN', True, True)
    """
    whole("n", n, 1)
    positive("tol", tol)
    positive("beta", beta)
    if tol is not None and beta is not None:
        raise ValueError("give tol or beta, not both")
    tol = 1e-6 if tol is None and beta is None else tol
    claim: FormulasClaim | None = None
    if _are_formulas(target):
        if tol is None:
            raise ValueError(f"beta = {beta!r} is for a ReLU network; for formulas give tol, from which beta follows")
        found, claim, box = find_relu_network(target, n, domain, tol)
        assert claim is not None
        (W_1, b_1, W_2, b_2), claim = _with_units_alone(found, claim, box)
    else:
        W_1, b_1, W_2, b_2 = as_relu_network(target)
        if W_1.shape[1] % n or W_2.shape[0] % n:
            sizes = f"{W_1.shape[1]} inputs and {W_2.shape[0]} outputs"
            raise ValueError(f"target has {sizes}, which n = {n} does not divide")
        box = token_box(domain, n, W_1.shape[1] // n)
    row = max(float(np.abs(W_2).sum(axis=1).max()), 1e-300)
    left = None if tol is None else tol - (0.0 if claim is None else claim.error)
    wanted = 2 * 0.2785 * row / left if left is not None else float(beta or 1.0)
    power = math.ldexp(1.0, math.ceil(math.log2(max(wanted, 1.0))))
    largest = np.abs(W_1) @ np.maximum(np.abs(box.lo), np.abs(box.hi)).ravel() + np.abs(b_1)
    network, owners = _network(W_1, b_1, W_2, b_2, n, power, float(largest.max(initial=1.0)))
    ridge = relu_ridge(W_1, b_1, np.concatenate([np.zeros((len(W_2), W_1.shape[1])), W_2], axis=1), b_2)
    gates = tuple(GateClaim(1, index, unit) for index, unit in enumerate(owners))
    net, m = certify(network, Composite(ridge, (), gates, claim), box, tol), len(W_1)
    chosen = {"beta": power, "H": float(n + len(owners)), "layers": 2.0, "units": float(m)}
    bounds = {"everywhere": proven_bound(net)} | ({} if claim is None else {"ReLU network": claim.error})
    ways = evaluator(ridge, claim), ridge_probes(ridge, box)
    return described(net, "UA-10", "faithful", chosen, _printed(n, m * (len(W_2) // n)), *ways, bounds)


def _printed(n: int, N: int) -> dict[str, float]:
    """Heads of the proof's three layers with N units for each token, if its Theorem 3.9 took one head for each of n N
    models: n N + 1, n + 1 and 2 N."""
    return {"H": float(n * N + 1 + n + 1 + 2 * N), "layers": 3.0}


def _are_formulas(target: Any) -> bool:
    """Whether every entry is a formula or a function, and none an array."""
    listed = isinstance(target, Sequence) and not isinstance(target, str) and len(target) > 0
    return listed and all(isinstance(f, str) or callable(f) for f in target)


def _with_units_alone(
    ridge: RidgeFunctions, claim: FormulasClaim, box: Box
) -> tuple[tuple[Floats, Floats, Floats, Floats], FormulasClaim]:
    """(W_1, b_1, W_2, b_2) of the same function, without the part of the outputs that is linear in x, and the claim
    about it. Exact formulas: x = relu(x) - relu(-x). Plane waves: x = lo + relu(x - lo) on the domain, along a wave of
    its own, whose polynomial is what the unit is there."""
    N, lo = box.lo.size, box.lo.ravel()
    linear, W_2 = ridge.outputs[:, :N], ridge.outputs[:, N:]
    W_1, b_1, b_2 = ridge.arguments[:, :N], ridge.shifts, ridge.constants
    used = np.flatnonzero(linear.any(axis=0))
    rows, factors = np.eye(N)[used], linear[:, used]
    if claim.rule == "exact":
        W_1, W_2 = np.concatenate([W_1, rows, -rows]), np.concatenate([W_2, factors, -factors], axis=1)
        return (W_1, np.append(b_1, np.zeros(2 * len(used))), W_2, b_2), claim
    waves, polynomials = claim.waves, claim.polynomials
    for i, c in zip(used.tolist(), factors.T, strict=True):
        same = np.flatnonzero((waves[:, :N] == np.eye(N)[i]).all(axis=1))
        if not len(same):
            waves = np.concatenate([waves, np.eye(1, N + 1, i)])
            polynomials = np.concatenate([polynomials, np.zeros_like(polynomials[:, :1])], axis=1)
            same = np.array([len(waves) - 1])
        w = int(same[0])
        polynomials = polynomials.copy()
        polynomials[:, w, 1] += c  # c relu(t - q) = c (t - q) on the domain, q = the wave's shift + lo
        polynomials[:, w, 0] -= c * (waves[w, -1] + lo[i])
    b_2 = b_2 + factors @ lo[used]
    size = float((np.abs(linear) * np.maximum(np.abs(lo), 1.0)).sum(axis=1).max() + np.abs(b_2).max())
    claim = dataclasses.replace(
        claim, waves=waves, polynomials=polynomials, error=claim.error + 2.0**-46 * (size + claim.error)
    )
    return (np.concatenate([W_1, rows]), np.append(b_1, -lo[used]), np.concatenate([W_2, factors], axis=1), b_2), claim


def _network(
    W_1: Floats, b_1: Floats, W_2: Floats, b_2: Floats, n: int, beta: float, largest: float
) -> tuple[Network, list[int]]:
    """The network, and for every head of its second layer the hidden unit that it computes."""
    m, (d, outputs) = len(W_1), (W_1.shape[1] // n, len(W_2) // n)
    stream = NamedStream({"x": d, "one": None, "pos": n, "padding": None, "pre": m, "out": outputs})
    C = stream.tokens(n, {"one": 1.0, "pos": np.eye(n), "pre": b_1, "out": b_2.reshape(n, outputs)})
    everything, tokens, none = Sees((0, 1), "all"), np.eye(n), np.zeros(n)
    copies = [
        stream.head(
            f"preactivations of token {j}",
            GAP,
            everything,
            query={"one": [1.0, 0.0], "padding": [0.0, 1.0]},
            key={"pos": np.stack([tokens[j], none], axis=1), "padding": [0.0, 1.0]},
            value={"x": np.eye(d)},
            result={"pre": W_1[:, j * d : (j + 1) * d].T},
        )
        for j in range(n)
    ]
    # a query that is to receive nothing: 1024 below the padding, whatever s is
    down = math.ldexp(1.0, math.ceil(math.log2(2 * largest + 2 * GAP / beta)))
    gates, owners = [], []
    for k, i in itertools.product(range(m), range(n)):
        weights, unit = W_2[i * outputs : (i + 1) * outputs, k], weight_at(m, k, 1.0)
        if weights.any():
            pushed = np.stack([np.where(np.arange(n) == i, 0.0, -down), none], axis=1)
            head = stream.head(
                f"relu of pre[{k}] for token {i}",
                beta,
                everything,
                query={"pre": np.outer(unit, [1.0, 0.0]), "one": [0.0, 1.0], "pos": pushed},
                key={"one": [1.0, 0.0], "padding": [0.0, math.log(n) / beta]},
                value={"pre": unit[:, None]},
                result={"out": weights},
            )
            gates.append(head)
            owners.append(k)
    embed, padding = Term(np.eye(d, stream.width)), stream.tokens(1, {"padding": 1.0})
    return stream.network(features("x", d), embed, C, [copies, gates], "out", padding, n), owners
