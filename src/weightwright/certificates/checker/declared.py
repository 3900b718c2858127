"""The declared target, one affine combination at a time: arguments of units, and outputs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weightwright.certificates.checker.complaints import require
from weightwright.certificates.composites import Models, Ridge
from weightwright.network.layers import Floats


@dataclass(frozen=True)
class Affine:
    """constant + the sum of weights_i times input or unit places_i; units come after the N inputs."""

    places: list[int]
    weights: Floats
    constant: float


class Declared:
    """Checks that the target's arrays fit N inputs, and reads them."""

    def __init__(self, target: Ridge | Models, N: int) -> None:
        self.target = target
        if isinstance(target, Ridge):
            _ridge(target, N)
        else:
            require(isinstance(target, Models), f"no rule for a target {type(target).__name__}")
            _models(target, N)

    @property
    def units(self) -> int:
        target = self.target
        return len(target.profiles) * (1 if isinstance(target, Ridge) else len(target.weights))

    @property
    def outputs(self) -> int:
        return len(self.target.constants) if isinstance(self.target, Ridge) else self.units

    def profile(self, unit: int) -> str:
        require(0 <= unit < self.units, f"there is no unit {unit}")
        return self.target.profiles[unit % len(self.target.profiles)]

    def argument(self, unit: int) -> Affine:
        target = self.target
        if isinstance(target, Ridge):
            return _row(target.arguments[unit], float(target.shifts[unit]))
        token, d = unit // len(target.profiles), target.weights.shape[1]
        return Affine(list(range(token * d, (token + 1) * d)), target.weights[token], float(target.shifts[token]))

    def output(self, index: int) -> Affine:
        target = self.target
        if isinstance(target, Ridge):
            return _row(target.outputs[index], float(target.constants[index]))
        return Affine([target.weights.size + index], np.ones(1), 0.0)


def _row(weights: Floats, constant: float) -> Affine:
    used = np.flatnonzero(weights)
    return Affine(used.tolist(), weights[used], constant)


def _ridge(ridge: Ridge, N: int) -> None:
    K = len(ridge.profiles)
    shapes = ridge.arguments.shape == (K, N + K) and ridge.shifts.shape == (K,)
    shapes = shapes and ridge.constants.ndim == 1 and ridge.outputs.shape == (len(ridge.constants), N + K)
    require(shapes, "the target's arrays do not fit together")
    _finite(ridge.arguments, ridge.shifts, ridge.outputs, ridge.constants)
    require(not np.triu(ridge.arguments[:, N:]).any(), "a unit's argument takes a later unit")


def _models(models: Models, N: int) -> None:
    fits = models.weights.ndim == 2 and models.weights.size == N and models.shifts.shape == (len(models.weights),)
    require(fits and len(models.profiles) > 0, "the target's arrays do not fit together")
    _finite(models.weights, models.shifts)


def _finite(*arrays: Floats) -> None:
    require(all(np.isfinite(array).all() for array in arrays), "the target has numbers that are not finite")
