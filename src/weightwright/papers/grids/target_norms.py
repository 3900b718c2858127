"""The norm of the target beside an L_p bound: what returning 0 would be off by. An estimate, never a bound."""

from __future__ import annotations

import numpy as np

from weightwright.claims.certificate import Certificate
from weightwright.papers.grids.grid_points import Grid, GridTarget

_SEED, _SAMPLES = 0, 4096


def norm_of_target(target: GridTarget, grid: Grid, norm: float) -> float:
    """An estimate of the target's own L_p norm on the domain, from uniform random inputs."""
    X = np.random.default_rng(_SEED).uniform(-grid.B, grid.B, (_SAMPLES, grid.n, grid.d))
    powers = (np.abs(target(X)) ** norm).sum(axis=1)
    return float((powers.mean() * (2 * grid.B) ** grid.N) ** (1 / norm))


def say_if_void(certificate: Certificate, size: float, grid: Grid) -> tuple[str, ...]:
    """What to say of a bound that says nothing; nothing of others."""
    if certificate.measured is not None or certificate.bound < size:
        return ()
    return (
        f"the bound {certificate.bound:.3g} is not below the norm of the target itself, about {size:.3g}: returning 0"
        f" is as near, so nothing is claimed; more than g = {grid.g} cells along each number have smaller bounds",
    )
