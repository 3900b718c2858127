"""Graphs of columns that several tests compile."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import torch

import weightwright as ww
from weightwright.certify import certify
from weightwright.compiler.lowering.lower import lower
from weightwright.prover.graph_values import evaluate
from weightwright.tracing.columns import Columns


def cube(features: int, lo: float, hi: float) -> ww.Box:
    return ww.Box([lo] * features, [hi] * features)


def mlp(sizes: list[int], activation: str, seed: int = 0) -> Any:
    """A network of linear layers with weights of the usual size."""
    rng, columns = np.random.default_rng(seed), Columns(None)
    h = [columns.input(i) for i in range(sizes[0])]
    for layer, (a, b) in enumerate(pairwise(sizes)):
        W, bias = rng.normal(size=(b, a)) / np.sqrt(a), 0.1 * rng.normal(size=b)
        h = [columns.affine(h, W[i], float(bias[i])) for i in range(b)]
        if layer < len(sizes) - 2:
            h = [columns.apply(activation, k) for k in h]
    return columns.graph("MLP", h)


def layer_norm(m: int, eps: float) -> Any:
    columns = Columns(None)
    x = [columns.input(i) for i in range(m)]
    mean = columns.affine(x, [1 / m] * m)
    apart = [columns.affine([k, mean], [1.0, -1.0]) for k in x]
    variance = columns.affine([columns.apply("x**2", k) for k in apart], [1 / m] * m, eps)
    root = columns.apply("1/sqrt(x)", variance, "rsqrt, norm.py:7")
    return columns.graph("layer norm", [columns.product(k, root) for k in apart])


def standardised(n: int, eps: float) -> Any:
    """Over n tokens: the mean, the variance and the standardised tokens."""
    columns, J = Columns(n), np.full((n, n), 1 / n)
    x = columns.input(0)
    mean = columns.mix(J, x, "mean")
    apart = columns.affine([x, mean], [1.0, -1.0])
    variance = columns.affine([columns.mix(J, columns.apply("x**2", apart), "mean")], [1.0], eps)
    root = columns.apply("1/sqrt(x)", variance, "rsqrt")
    return columns.graph("standardised", [mean, variance, columns.product(apart, root)])


def attention_block(n: int = 4, d: int = 2, hidden: int = 4, seed: int = 1) -> Any:
    """softmax(q k^T / sqrt(d)) v with a two-layer MLP, both with a residual connection."""
    rng, columns = np.random.default_rng(seed), Columns(n)

    def linear(h: list[int], out: int, size: float = 1.0) -> list[int]:
        return [columns.affine(h, row) for row in size * rng.normal(size=(out, len(h))) / np.sqrt(len(h))]

    x = [columns.input(i) for i in range(d)]
    q, k, v = linear(x, d, 0.5), linear(x, d, 0.5), linear(x, d)
    token = [np.tile(np.eye(n)[j], (n, 1)) for j in range(n)]
    scores = []
    for j in range(n):
        products = [columns.product(q[i], columns.mix(token[j], k[i], f"key {j}")) for i in range(d)]
        scores.append(columns.affine(products, [1 / np.sqrt(d)] * d))
    p = columns.softmax(scores)
    seen = [
        columns.affine([columns.product(p[j], columns.mix(token[j], v[i])) for j in range(n)], [1.0] * n)
        for i in range(d)
    ]
    h = [columns.affine([a, b], [1.0, 1.0]) for a, b in zip(x, linear(seen, d), strict=True)]
    mlp = linear([columns.apply("gelu(x)", k) for k in linear(h, hidden)], d)
    return columns.graph("attention block", [columns.affine([a, b], [1.0, 1.0]) for a, b in zip(h, mlp, strict=True)])


def lotka_volterra() -> Any:
    """One Runge-Kutta step of two populations."""
    columns, h = Columns(None), 0.1
    x, y = columns.input(0), columns.input(1)

    def field(x: int, y: int) -> tuple[int, int]:
        xy = columns.product(x, y)
        return columns.affine([x, xy], [1.1, -0.4]), columns.affine([y, xy], [-0.4, 0.1])

    def moved(k: tuple[int, int], by: float) -> tuple[int, int]:
        return columns.affine([x, k[0]], [1.0, by]), columns.affine([y, k[1]], [1.0, by])

    k1 = field(x, y)
    k2 = field(*moved(k1, h / 2))
    k3 = field(*moved(k2, h / 2))
    k4 = field(*moved(k3, h))
    ends = [
        columns.affine([z, k1[i], k2[i], k3[i], k4[i]], [1.0, h / 6, h / 3, h / 3, h / 6]) for i, z in enumerate((x, y))
    ]
    return columns.graph("Lotka-Volterra", ends)


def newton_root(steps: int) -> Any:
    columns = Columns(None)
    a = columns.input(0)
    y = columns.affine([a], [0.5], 0.5)
    for _ in range(steps):
        y = columns.affine([y, columns.product(a, columns.apply("1/x", y))], [0.5, 0.5])
    return columns.graph("Newton", [y])


def graph_outputs(graph: Any, x: Any) -> np.ndarray:
    """The outputs of a graph in floats, at one input (tokens, features) or a batch of them; arrays or tensors."""
    points = np.asarray(x, dtype=np.float64)
    return evaluate(graph, points) if points.ndim == 3 else evaluate(graph, points[None])[0]


def largest_error(lowered: Any, graph: Any, domain: ww.Box, count: int = 300, seed: int = 0) -> float:
    """Of random inputs and corners, against the graph in floats; run as a module."""
    x = inputs(graph, domain, count, seed)
    if lowered.network.dtype == "float32":
        x = x.astype(np.float32).astype(np.float64)
    net = ww.AttentionNetwork(lowered.network)
    with torch.no_grad():
        y = net(torch.tensor(x, dtype=getattr(torch, lowered.network.dtype)))
    return float(np.abs(y.double().numpy() - evaluate(graph, x)).max())


def inputs(graph: Any, domain: ww.Box, count: int, seed: int) -> np.ndarray:
    n, d = graph.tokens or 3, domain.lo.shape[-1]
    lo, hi = np.broadcast_to(domain.lo, (n, d)), np.broadcast_to(domain.hi, (n, d))
    rng = np.random.default_rng(seed)
    x = rng.uniform(lo, hi, (count, n, d))
    x[: count // 4] = np.where(rng.random((count // 4, n, d)) < 0.5, lo, hi)
    return x


@cache
def everything() -> ww.AttentionNetwork:
    """Two tokens: layer norm (the lemma), a softmax, a chain that is fused, a matrix on the tokens, a product."""
    columns = Columns(2)
    x = [columns.input(0), columns.input(1)]
    mean = columns.affine(x, [0.5, 0.5])
    apart = [columns.affine([column, mean], [1.0, -1.0]) for column in x]
    variance = columns.affine([columns.apply("x**2", column) for column in apart], [0.5, 0.5], 1e-2)
    root = columns.apply("1/sqrt(x)", variance)
    normed = [columns.product(column, root) for column in apart]
    p = columns.softmax([*normed, x[0]])
    y = columns.affine([x[1]], [0.25], 1.0)
    for _ in range(2):
        y = columns.affine([y, columns.product(x[1], columns.apply("1/x", y))], [0.5, 0.125])
    mixed = columns.mix(np.array([[0.5, 0.5], [0.25, -1.0]]), y)
    graph = columns.graph("everything", [p[0], columns.product(p[1], mixed), normed[1]])
    box = ww.Box([-1, 0.5], [1, 2])
    lowered = lower(graph, box, 1e-3)
    return certify(lowered.network, lowered.composite, box)
