"""Least squares with ridge and l1 penalties on small data, in exact rational arithmetic: iterates, optimum, curvature.

F(w) = |X w - y|^2 / (2n) + ridge |w|^2 / 2 + l1 |w|_1. What a network's states are compared with: nothing rounds here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product

import numpy as np

from weightwright.errors import WeightwrightError
from weightwright.numbers import Floats

Vector = list[Fraction]
Matrix = list[Vector]


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """X (n, d), y (n,), as floats that are meant exactly."""

    X: Floats
    y: Floats
    ridge: float = 0.0
    l1: float = 0.0

    @property
    def n(self) -> int:
        return len(self.X)

    @property
    def d(self) -> int:
        return int(self.X.shape[1])

    @cached_property
    def curvature(self) -> Matrix:
        """X'X/n + ridge I."""
        X = _exact(self.X)
        rows = [[sum((x[r] * x[c] for x in X), Fraction(0)) / self.n for c in range(self.d)] for r in range(self.d)]
        return _shifted(rows, Fraction(self.ridge))

    @cached_property
    def target(self) -> Vector:
        """X'y/n."""
        X, y = _exact(self.X), [Fraction(value) for value in self.y.tolist()]
        return [sum((x[r] * t for x, t in zip(X, y, strict=True)), Fraction(0)) / self.n for r in range(self.d)]

    def curvature_is_between(self, least: float, most: float) -> bool:
        """least I <= X'X/n + ridge I <= most I, decided exactly."""
        A = self.curvature
        above = _shifted(A, -Fraction(least))
        below = _shifted([[-entry for entry in row] for row in A], Fraction(most))
        return _positive_definite(above) and _positive_definite(below)

    def iterates(self, step: float, count: int) -> list[Vector]:
        """w_0 = 0 and count steps: w <- soft(w - step (A w - X'y/n), step l1)."""
        w, found, eta = [Fraction(0)] * self.d, [], Fraction(step)
        tau = eta * Fraction(self.l1)
        for _ in range(count + 1):
            found.append(w)
            z = [
                v - eta * (sum((a * b for a, b in zip(row, w, strict=True)), Fraction(0)) - c)
                for v, row, c in zip(w, self.curvature, self.target, strict=True)
            ]
            w = [_soft(v, tau) for v in z]
        return found

    @cached_property
    def optimum(self) -> Vector:
        """The minimiser. With l1: the signs for which the equations of the entries that are not 0 have a solution with
        those signs, and the slopes along the others are at most l1 in size; 2^d sign patterns and more are tried."""
        if not self.l1:
            return _solved(self.curvature, self.target)
        for signs in product((0, 1, -1), repeat=self.d):
            w = self._with_signs(signs)
            if w is not None:
                return w
        raise WeightwrightError("no sign pattern satisfies the conditions of the minimum")

    def _with_signs(self, signs: Sequence[int]) -> Vector | None:
        active, l1 = [r for r, sign in enumerate(signs) if sign], Fraction(self.l1)
        A = [[self.curvature[r][c] for c in active] for r in active]
        solution = _solved(A, [self.target[r] - l1 * signs[r] for r in active])
        w = [Fraction(0)] * self.d
        for r, value in zip(active, solution, strict=True):
            w[r] = value
        slopes = [
            sum((a * b for a, b in zip(row, w, strict=True)), Fraction(0)) - c
            for row, c in zip(self.curvature, self.target, strict=True)
        ]
        right = all(w[r] * signs[r] > 0 if signs[r] else abs(slopes[r]) <= l1 for r in range(self.d))
        return w if right else None


def length(w: Sequence[Fraction]) -> float:
    """The Euclidean norm, rounded up a little."""
    return float(np.sqrt(float(sum((v * v for v in w), Fraction(0))))) * (1 + 2.0**-48)


def distance(w: Floats, exact: Sequence[Fraction]) -> float:
    """|w - exact|_2 of computed numbers: the difference is exact, the root rounds to nearest."""
    difference = [Fraction(value) - other for value, other in zip(w.tolist(), exact, strict=True)]
    return float(np.sqrt(float(sum((v * v for v in difference), Fraction(0)))))


def _exact(X: Floats) -> Matrix:
    return [[Fraction(value) for value in row] for row in X.tolist()]


def _shifted(A: Matrix, by: Fraction) -> Matrix:
    return [[entry + (by if r == c else 0) for c, entry in enumerate(row)] for r, row in enumerate(A)]


def _soft(z: Fraction, tau: Fraction) -> Fraction:
    return max(z - tau, Fraction(0)) - max(-z - tau, Fraction(0))


def _positive_definite(A: Matrix) -> bool:
    """By the pivots of elimination without exchanges."""
    A = [row.copy() for row in A]
    for k in range(len(A)):
        if A[k][k] <= 0:
            return False
        for r in range(k + 1, len(A)):
            factor = A[r][k] / A[k][k]
            A[r] = [a - factor * b for a, b in zip(A[r], A[k], strict=True)]
    return True


def _solved(A: Matrix, b: Vector) -> Vector:
    """A is positive definite."""
    rows = [[*row, value] for row, value in zip(A, b, strict=True)]
    for k in range(len(rows)):
        if rows[k][k] == 0:
            raise WeightwrightError("the minimiser is not unique: the columns of X depend on each other")
        for r in range(len(rows)):
            if r != k:
                factor = rows[r][k] / rows[k][k]
                rows[r] = [a - factor * c for a, c in zip(rows[r], rows[k], strict=True)]
    return [row[-1] / row[k] for k, row in enumerate(rows)]
