"""Targets that are ReLU networks: where they come from, their values, and where errors are likely."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from torch import nn

from weightwright.box import Box
from weightwright.certificates.composites import Ridge
from weightwright.certificates.prover.jets import values
from weightwright.constructions.relu_target import from_module
from weightwright.expressions import parse
from weightwright.heads.arguments import finite_matrix
from weightwright.network.layers import Floats


def as_relu_network(target: Any) -> tuple[Floats, Floats, Floats, Floats]:
    """(W_1, b_1, W_2, b_2) of a torch Sequential(Linear, ReLU, Linear), or of four arrays shaped as torch has them."""
    if isinstance(target, nn.Module):
        ridge = from_module(target)
        N = ridge.arguments.shape[1] - len(ridge.profiles)
        return ridge.arguments[:, :N], ridge.shifts, ridge.outputs[:, N:], ridge.constants
    try:
        W_1, b_1, W_2, b_2 = target
    except (TypeError, ValueError):
        raise ValueError(f"target must be a torch module or (W_1, b_1, W_2, b_2), not {target!r}") from None
    W_1, W_2 = finite_matrix("W_1", W_1), finite_matrix("W_2", W_2)
    b_1, b_2 = (finite_matrix(name, np.atleast_2d(b))[0] for name, b in (("b_1", b_1), ("b_2", b_2)))
    if not (len(W_1) == len(b_1) == W_2.shape[1] and len(W_2) == len(b_2)):
        shapes = ", ".join(str(np.shape(x)) for x in (W_1, b_1, W_2, b_2))
        raise ValueError(f"target: W_1, b_1, W_2, b_2 of shapes {shapes} do not fit together")
    return W_1, b_1, W_2, b_2


def evaluate(ridge: Ridge, x: Floats) -> Floats:
    """The target in plain floats: (count, n, d) -> (count, n, outputs)."""
    flat = x.reshape(len(x), -1)
    known = flat
    for k, profile in enumerate(ridge.profiles):
        arguments = known @ ridge.arguments[k, : known.shape[1]] + ridge.shifts[k]
        unit = np.maximum(arguments, 0) if profile == "relu(x)" else values(parse(profile, ("x",)), arguments)
        known = np.concatenate([known, unit[:, None]], axis=1)
    return (known @ ridge.outputs.T + ridge.constants).reshape(len(x), x.shape[1], -1)


def ridge_probes(ridge: Ridge, box: Box) -> Callable[[np.random.Generator, int], Floats]:
    """Corners, random inputs, and inputs at or beside the kink of a random unit."""
    n, d = box.lo.shape
    lo, hi = box.lo.ravel(), box.hi.ravel()
    weights = ridge.arguments[:, : n * d]

    def probes(rng: np.random.Generator, count: int) -> Floats:
        x = rng.uniform(lo, hi, (count, n * d))
        x[: count // 8] = np.where(rng.random((count // 8, n * d)) < 0.5, lo, hi)
        if len(weights):
            k = rng.integers(len(weights), size=count)
            norms = (weights[k] ** 2).sum(axis=1)
            wanted = rng.choice([0.0, 1e-12, -1e-12, 1e-8, -1e-8, 1e-5, -1e-5, 1e-2], count)
            missing = wanted - (x * weights[k]).sum(axis=1) - ridge.shifts[k]
            step = np.divide(missing, norms, out=np.zeros(count), where=norms > 0)[:, None] * weights[k]
            x = np.where((np.arange(count) >= count // 4)[:, None], np.clip(x + step, lo, hi), x)
        return x.reshape(count, n, d)

    return probes
