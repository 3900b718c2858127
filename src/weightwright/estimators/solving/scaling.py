"""Features and targets brought to unit size, and coefficients brought back.

Scales are powers of two, so scaling is exact. A feature is centred where there is an intercept; the network
then sees x - mean rounded, which is why the distance to the optimum is proven on the data as they were given.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from weightwright.incontext.problem.contexts import pad
from weightwright.incontext.problem.problem import Problem
from weightwright.numbers import Floats


@dataclass(frozen=True, eq=False)
class Scaling:
    """x' = (x - mean) / scale and y' = (y - y_mean) / y_scale; with an intercept a feature of ones comes last.

    rate: counts are divided by it instead, and its logarithm is part of the intercept.
    """

    mean: Floats
    scale: Floats  # powers of two
    y_mean: float
    y_scale: float  # a power of two
    intercept: bool
    rate: float = 1.0

    def rows(self, X: Floats) -> Floats:
        """(n, d) to (n, D): what the network is shown."""
        scaled = (X - self.mean) / self.scale
        return np.concatenate([scaled, np.ones((len(X), 1))], axis=1) if self.intercept else scaled

    def targets(self, y: Floats) -> Floats:
        return (y - self.y_mean) / self.y_scale / self.rate

    @property
    def units(self) -> Floats:
        """(D,): what a coefficient of 1 in scaled coordinates is in the original ones."""
        units = self.y_scale / self.scale
        return np.append(units, self.y_scale) if self.intercept else units

    def beside(self, X: Floats, weights: Floats, ridge: float) -> Scaling:
        """With features brought to unit size together with their penalty, ridge beside the mean of squares:
        the penalty on a feature of small spread does not make steps short then."""
        sizes = root_mean_squares(X - self.mean, weights / weights.sum())
        return replace(self, scale=near_powers_of_two(np.hypot(sizes, math.sqrt(ridge))))

    def coefficients(self, state: Floats) -> tuple[Floats, float]:
        """The state in the original coordinates: w = v y_scale / scale, and the intercept that goes with it."""
        coef = state[: len(self.scale)] * (self.y_scale / self.scale)
        if not self.intercept:
            return coef, 0.0
        pairs = zip(coef.tolist(), self.mean.tolist(), strict=True)
        moved = sum((Fraction(w) * Fraction(m) for w, m in pairs), Fraction(0))
        first = Fraction(self.y_mean) + Fraction(math.log(self.rate))
        return coef, float(first + Fraction(float(state[-1])) * Fraction(self.y_scale) - moved)


def scale_examples(
    problems: Sequence[Problem], scalings: Sequence[Scaling], wholes: Sequence[float] | Floats, samples: int
) -> dict[str, Floats]:
    """The fields of contexts that hold the examples: rows, targets, weights divided by each problem's whole, units."""
    pairs = list(zip(problems, scalings, strict=True))
    weights = [s.rate * one.plain_weights / whole for (one, s), whole in zip(pairs, wholes, strict=True)]
    return {
        "rows": pad([s.rows(one.X) for one, s in pairs], samples),
        "targets": pad([s.targets(one.y) for one, s in pairs], samples),
        "weights": pad(weights, samples),
        "units": np.stack([s.units for s in scalings]),
    }


def scale_alike(scalings: list[Scaling]) -> list[Scaling]:
    """A penalty in scaled coordinates is part of the weights of the network, so problems with one are scaled alike."""
    common = near_powers_of_two(np.exp2(np.mean([np.log2(scaling.scale) for scaling in scalings], axis=0)))
    return [replace(scaling, scale=common) for scaling in scalings]


def choose_scaling(X: Floats, weights: Floats, intercept: bool, uniform: bool = False) -> Scaling:
    """The scaling of the features; targets are left as they are. weights add up to 1.

    uniform: one scale for all features, so that short vectors stay short in the original coordinates.
    """
    mean = weights @ X if intercept else np.zeros(X.shape[1])
    if intercept:
        same = np.ptp(X, axis=0) == 0
        mean = np.where(same, X[0], mean)  # what is constant is 0 exactly
    size = root_mean_squares(X - mean, weights)
    if uniform:
        size = np.full_like(size, np.sqrt(np.mean(size**2)))
    return Scaling(mean, near_powers_of_two(size), 0.0, 1.0, intercept)


def exact_sum(numbers: Floats) -> Fraction:
    """Of floats; weights are often all alike, and counted then."""
    values, counts = np.unique(numbers, return_counts=True)
    return sum((Fraction(x) * k for x, k in zip(values.tolist(), counts.tolist(), strict=True)), Fraction(0))


def root_mean_squares(X: Floats, weights: Floats) -> Floats:
    """Of every column, sqrt(sum of weights x^2), also where a square is no float."""
    _, exponents = np.frexp(np.abs(X).max(axis=0))
    return np.ldexp(np.sqrt(weights @ np.ldexp(X, -exponents) ** 2), exponents)


def near_powers_of_two(sizes: Floats) -> Floats:
    """The nearest power of two for every size; 1 where the size is 0."""
    safe = np.where((sizes > 0) & np.isfinite(sizes), sizes, 1.0)
    return np.exp2(np.clip(np.round(np.log2(safe)), -500, 500))


def power_above(size: float) -> float:
    """The smallest power of two that is not below."""
    return 2.0 ** math.ceil(math.log2(size)) if size > 0 else 1.0
