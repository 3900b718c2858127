"""Monte-Carlo estimates of L_p errors, and inputs where a grid network is likely to be worst."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from weightwright.constructions.about import About
from weightwright.constructions.grid_network import Grid
from weightwright.network.layers import Floats
from weightwright.runtime import AttentionNetwork

_BATCH = 256


@dataclass(frozen=True)
class Estimate:
    """An estimate, no bound: the L_p error over random inputs, with the half width of its 95% confidence interval."""

    error: float
    half_width: float
    count: int


def monte_carlo(net: AttentionNetwork, count: int, seed: int) -> Estimate:
    """The L_p error, p as the network was asked for, estimated from `count` uniform random inputs of its domain."""
    if net.certificate is None or not isinstance(net.about, About):
        raise ValueError("monte_carlo takes a network that a construction returned, with its certificate")
    if type(count) is not int or count < 2:
        raise ValueError(f"count must be a whole number of at least 2, not {count!r}")
    reference = net.about.reference
    B = float(net.certificate.domain.hi.max())
    return estimate(net, lambda X: reference(X).reshape(len(X), -1), net.about.chosen["norm"], B, count, seed)


def estimate(
    net: AttentionNetwork, reference: Callable[[Floats], Floats], norm: float, B: float, count: int, seed: int
) -> Estimate:
    """The same against any reference, (count, n, d) -> (count, outputs), on [-B, B]."""
    n, d = net.network.tokens or 1, len(net.network.inputs)
    X = np.random.default_rng(seed).uniform(-B, B, (count, n, d))
    powers = (np.abs(run(net, X) - reference(X)) ** norm).sum(axis=1) * (2 * B) ** (n * d)
    mean, half = float(powers.mean()), 1.96 * float(powers.std(ddof=1)) / math.sqrt(count)
    error = mean ** (1 / norm)
    return Estimate(error, (mean + half) ** (1 / norm) - error, count)


def run(net: AttentionNetwork, X: Floats) -> Floats:
    """(count, n, d) -> (count, outputs), in batches that stay in the cache."""
    with torch.no_grad():
        parts = [net(part) for part in torch.tensor(X).split(_BATCH)]
    return torch.cat(parts).reshape(len(X), -1).numpy()


def probes(grid: Grid) -> Callable[[np.random.Generator, int], Floats]:
    """Grid points, seams between cells, both ends of the shells and their middles, corners; and random inputs."""
    half, k = grid.B / grid.g, np.arange(grid.g)
    points = grid.B * ((2 * k + 1) / grid.g - 1)
    offsets = np.array([0.0, 1.0, 1 - grid.delta, 1 - grid.delta / 2, (1 - grid.delta) * (1 - 2.0**-40)]) * half
    places = np.unique(np.clip((points[:, None] + np.concatenate([-offsets, offsets])).ravel(), -grid.B, grid.B))

    def inputs(rng: np.random.Generator, count: int) -> Floats:
        third = max(count // 3, 1)
        shape = (third, grid.n, grid.d)
        special, random = rng.choice(places, shape), rng.uniform(-grid.B, grid.B, shape)
        mixed = np.where(rng.random(shape) < 0.5, rng.choice(places, shape), rng.uniform(-grid.B, grid.B, shape))
        corners = np.where(rng.random((8, grid.n, grid.d)) < 0.5, -grid.B, grid.B)
        return np.concatenate([corners, special, mixed, random])

    return inputs
