"""Ridges and models as the walk meets them: one affine combination at a time, arguments of units and outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from weightwright.checker.composite.stream import Basis, Row
from weightwright.checker.composite.units import difference, one_range, profile_range
from weightwright.checker.core.complaints import parse_or_refuse, require
from weightwright.enclosures.balls.midrad import Balls
from weightwright.numbers import Floats
from weightwright.papers.claims.ridge_functions import RidgeFunctions, TokenModels


@dataclass(frozen=True)
class Affine:
    """constant + the sum of weights_i times input or unit places_i; units come after the N inputs."""

    places: list[int]
    weights: Floats
    constant: float


class Declared:
    """Checks that the target's arrays fit N inputs, and reads them."""

    def __init__(self, target: RidgeFunctions | TokenModels, N: int) -> None:
        self.target = target
        if isinstance(target, RidgeFunctions):
            _ridge(target, N)
        else:
            require(isinstance(target, TokenModels), f"no rule for a target {type(target).__name__}")
            _models(target, N)

    @property
    def units(self) -> int:
        target = self.target
        return len(target.profiles) * (1 if isinstance(target, RidgeFunctions) else len(target.weights))

    @property
    def outputs(self) -> int:
        return len(self.target.constants) if isinstance(self.target, RidgeFunctions) else self.units

    def profile(self, unit: int) -> str:
        require(0 <= unit < self.units, f"there is no unit {unit}")
        return self.target.profiles[unit % len(self.target.profiles)]

    def argument(self, unit: int) -> Affine:
        target = self.target
        if isinstance(target, RidgeFunctions):
            return _row(target.arguments[unit], float(target.shifts[unit]))
        token, d = unit // len(target.profiles), target.weights.shape[1]
        return Affine(list(range(token * d, (token + 1) * d)), target.weights[token], float(target.shifts[token]))

    def output(self, index: int) -> Affine:
        target = self.target
        if isinstance(target, RidgeFunctions):
            return _row(target.outputs[index], float(target.constants[index]))
        return Affine([target.weights.size + index], np.ones(1), 0.0)


def _row(weights: Floats, constant: float) -> Affine:
    used = np.flatnonzero(weights)
    return Affine(used.tolist(), weights[used], constant)


def _ridge(ridge: RidgeFunctions, N: int) -> None:
    K = len(ridge.profiles)
    shapes = ridge.arguments.shape == (K, N + K) and ridge.shifts.shape == (K,)
    shapes = shapes and ridge.constants.ndim == 1 and ridge.outputs.shape == (len(ridge.constants), N + K)
    require(shapes, "the target's arrays do not fit together")
    _formulas(ridge.profiles)
    _finite(ridge.arguments, ridge.shifts, ridge.outputs, ridge.constants)
    require(not np.triu(ridge.arguments[:, N:]).any(), "a unit's argument takes a later unit")


def _models(models: TokenModels, N: int) -> None:
    fits = models.weights.ndim == 2 and models.weights.size == N and models.shifts.shape == (len(models.weights),)
    require(fits and len(models.profiles) > 0, "the target's arrays do not fit together")
    _formulas(models.profiles)
    _finite(models.weights, models.shifts)


def _formulas(profiles: Sequence[str]) -> None:
    """Also those that nobody computes are formulas: they are printed."""
    for profile in set(profiles):
        parse_or_refuse(profile, ("x",), "a profile")


def _finite(*arrays: Floats) -> None:
    require(all(np.isfinite(array).all() for array in arrays), "the target has numbers that are not finite")


class DeclaredUnits:
    """The units of a ridge or of models."""

    def __init__(self, target: RidgeFunctions | TokenModels, basis: Basis, shape: tuple[int, int]) -> None:
        self.basis, self.N = basis, shape[0] * shape[1]
        self.takes_zones = isinstance(target, TokenModels)
        self.declared = Declared(target, self.N)
        if isinstance(target, TokenModels):
            require(target.weights.shape == shape, f"the target has other tokens than {shape}")
        self._ids: dict[int, int] = {}  # units whose basis function is known

    @property
    def count(self) -> int:
        return self.declared.units

    def profile(self, unit: int) -> str:
        return self.declared.profile(unit)

    def id(self, unit: int) -> int:
        if unit not in self._ids:
            lo, hi = (float(end[0]) for end in self.argument(unit).range(self.basis))
            profile = parse_or_refuse(self.declared.profile(unit), ("x",), "a profile")
            self._ids[unit] = self.basis.add(*profile_range(profile, lo, hi))
        return self._ids[unit]

    def argument(self, unit: int) -> Row:
        return self._form(self.declared.argument(unit))

    def argument_range(self, unit: int, held: Row) -> tuple[float, float]:
        return one_range(held, self.basis)

    def apart(self, held: Row, unit: int) -> Floats:
        return difference(held, self.argument(unit), self.basis)

    def output_apart(self, held: Row, token: int, column: int, shape: tuple[int, int]) -> Floats:
        count, target = shape[0] * shape[1], self.declared.target
        require(self.declared.outputs == count, f"the target has {self.declared.outputs} outputs, not {count}")
        if isinstance(target, TokenModels):
            require(shape[1] == len(target.profiles), f"the target has {len(target.profiles)} rows, not {shape[1]}")
        return difference(held, self._form(self.declared.output(token * shape[1] + column)), self.basis)

    def waits(self, unit: int) -> bool:
        return False

    def wait(self, unit: int, errors: Floats) -> None:
        raise AssertionError("no unit of a ridge waits")

    def _form(self, affine: Affine) -> Row:
        """An affine combination of inputs and units that are known by now."""
        late = [i - self.N for i in affine.places if i >= self.N and i - self.N not in self._ids]
        require(not late, f"units {late} are used before they are computed")
        ids = [0, *(i + 1 if i < self.N else self._ids[i - self.N] for i in affine.places)]
        order = np.argsort(ids)
        values = np.array([affine.constant, *affine.weights])
        return Row(tuple(ids[i] for i in order), Balls.exact(values[order][:, None]))
