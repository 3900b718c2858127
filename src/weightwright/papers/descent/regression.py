"""Least squares with ridge and l1 penalties on small data, in exact rational arithmetic: iterates, optimum, curvature.

F(w) = |X w - y|^2 / (2n) + ridge |w|^2 / 2 + l1 |w|_1, the `Problem` of the squared loss whose samples weigh 1/n each.
What a network's states are compared with: nothing rounds here.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import product

import numpy as np

from weightwright.errors import WeightwrightError
from weightwright.incontext.problem.loss import loss
from weightwright.incontext.problem.problem import Problem
from weightwright.numbers import Floats

Vector = list[Fraction]
Matrix = list[Vector]


def least_squares(X: Floats, y: Floats, ridge: float = 0.0, l1: float = 0.0) -> Problem:
    return Problem(X, y, loss("squared"), ridge=ridge, l1=l1)


def exact_curvature(problem: Problem) -> Matrix:
    """The Hessian: X'X/n, and the ridge on its diagonal."""
    rows = [[Fraction(value) for value in row] for row in problem.rows.tolist()]
    weighted = list(zip(problem.exact_weights(), rows, strict=True))
    every = range(problem.size)
    gram = [[sum((c * x[r] * x[s] for c, x in weighted), Fraction(0)) for s in every] for r in every]
    return _shift(gram, problem.exact_ridges())


def exact_target(problem: Problem) -> Vector:
    """X'y/n."""
    weighted = list(zip(problem.exact_weights(), problem.rows.tolist(), problem.y.tolist(), strict=True))
    return [sum((c * Fraction(x[r]) * Fraction(t) for c, x, t in weighted), Fraction(0)) for r in range(problem.size)]


def curvature_is_between(problem: Problem, least: float, most: float) -> bool:
    """least I <= X'X/n + ridge I <= most I, decided exactly."""
    A = exact_curvature(problem)
    above = _shift(A, [-Fraction(least)] * problem.size)
    below = _shift([[-entry for entry in row] for row in A], [Fraction(most)] * problem.size)
    return _is_positive_definite(above) and _is_positive_definite(below)


def fraction_iterates(problem: Problem, step: float, count: int) -> list[Vector]:
    """w_0 = 0 and count steps: w <- soft(w - step (A w - X'y/n), step l1)."""
    A, b = exact_curvature(problem), exact_target(problem)
    w, found, eta = [Fraction(0)] * problem.size, [], Fraction(step)
    taus = [eta * l1 for l1 in problem.exact_l1s()]
    for _ in range(count + 1):
        found.append(w)
        z = [v - eta * slope for v, slope in zip(w, _slopes(A, b, w), strict=True)]
        w = [_soft(v, tau) for v, tau in zip(z, taus, strict=True)]
    return found


def exact_optimum(problem: Problem) -> Vector:
    """The minimiser. With l1: the signs for which the equations of the entries that are not 0 have a solution with
    those signs, and the slopes along the others are at most l1 in size; 2^d sign patterns and more are tried."""
    A, b = exact_curvature(problem), exact_target(problem)
    if not problem.has_l1:
        return _solve(A, b)
    for signs in product((0, 1, -1), repeat=problem.size):
        w = _with_signs(A, b, problem.exact_l1s(), signs)
        if w is not None:
            return w
    raise WeightwrightError("no sign pattern satisfies the conditions of the minimum")


def _with_signs(A: Matrix, b: Vector, l1: Vector, signs: Sequence[int]) -> Vector | None:
    active = [r for r, sign in enumerate(signs) if sign]
    solution = _solve([[A[r][c] for c in active] for r in active], [b[r] - l1[r] * signs[r] for r in active])
    w = [Fraction(0)] * len(b)
    for r, value in zip(active, solution, strict=True):
        w[r] = value
    slopes = _slopes(A, b, w)
    right = all(w[r] * sign > 0 if sign else abs(slopes[r]) <= l1[r] for r, sign in enumerate(signs))
    return w if right else None


def _slopes(A: Matrix, b: Vector, w: Vector) -> Vector:
    """A w - b."""
    return [sum((a * v for a, v in zip(row, w, strict=True)), Fraction(0)) - c for row, c in zip(A, b, strict=True)]


def length(w: Sequence[Fraction]) -> float:
    """The Euclidean norm, rounded up a little."""
    return float(np.sqrt(float(sum((v * v for v in w), Fraction(0))))) * (1 + 2.0**-48)


def distance(w: Floats, exact: Sequence[Fraction]) -> float:
    """|w - exact|_2 of computed numbers: the difference is exact, the root rounds to nearest."""
    difference = [Fraction(value) - other for value, other in zip(w.tolist(), exact, strict=True)]
    return float(np.sqrt(float(sum((v * v for v in difference), Fraction(0)))))


def _shift(A: Matrix, by: Vector) -> Matrix:
    """With these numbers added to the diagonal."""
    return [[entry + (by[r] if r == c else 0) for c, entry in enumerate(row)] for r, row in enumerate(A)]


def _soft(z: Fraction, tau: Fraction) -> Fraction:
    return max(z - tau, Fraction(0)) - max(-z - tau, Fraction(0))


def _is_positive_definite(A: Matrix) -> bool:
    """By the pivots of elimination without exchanges."""
    A = [row.copy() for row in A]
    for k in range(len(A)):
        if A[k][k] <= 0:
            return False
        for r in range(k + 1, len(A)):
            factor = A[r][k] / A[k][k]
            A[r] = [a - factor * b for a, b in zip(A[r], A[k], strict=True)]
    return True


def _solve(A: Matrix, b: Vector) -> Vector:
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
