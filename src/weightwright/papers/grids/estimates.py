"""L_p norms by Monte Carlo, and inputs where a grid network is likely to be worst. Estimates, never bounds."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch

from weightwright.claims.certificate import Certificate
from weightwright.numbers import Floats
from weightwright.papers.grids.grid_points import Grid
from weightwright.runtime import AttentionNetwork

_BATCH = 256
SEED, SAMPLES = 0, 4096


def lp_norm(values: Callable[[Floats], Floats], grid: Grid, norm: float) -> tuple[float, float]:
    """The L_p norm of a function (count, n, d) -> (count, outputs) on the domain, from uniform random inputs, and the
    half width of its 95% confidence interval."""
    X = np.random.default_rng(SEED).uniform(-grid.B, grid.B, (SAMPLES, grid.n, grid.d))
    powers = (np.abs(values(X)) ** norm).sum(axis=1) * (2 * grid.B) ** grid.N
    mean, half = float(powers.mean()), 1.96 * float(powers.std(ddof=1)) / math.sqrt(len(X))
    size: float = mean ** (1 / norm)
    return size, (mean + half) ** (1 / norm) - size


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


def say_if_void(certificate: Certificate, size: float, grid: Grid) -> tuple[str, ...]:
    """What to say of a bound that says nothing; nothing of others."""
    if certificate.measured is not None or certificate.bound < size:
        return ()
    return (
        f"the bound {certificate.bound:.3g} is not below the norm of the target itself, about {size:.3g}: returning 0"
        f" is as near, so nothing is claimed; more than g = {grid.g} cells along each number have smaller bounds",
    )
