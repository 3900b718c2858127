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
from weightwright.papers.kit.exact_arrays import Exact, fractions


def least_squares(X: Floats, y: Floats, ridge: float = 0.0, l1: float = 0.0) -> Problem:
    return Problem(X, y, loss("squared"), ridge=ridge, l1=l1)


def exact_curvature(problem: Problem) -> Exact:
    """The Hessian: X'X/n, and the ridge on its diagonal."""
    X, weights = fractions(problem.rows), fractions(problem.exact_weights())
    return np.asarray(X.T @ (weights[:, None] * X) + np.diag(fractions(problem.exact_ridges())))


def exact_target(problem: Problem) -> Exact:
    """X'y/n."""
    X, y = fractions(problem.rows), fractions(problem.y)
    return np.asarray(X.T @ (fractions(problem.exact_weights()) * y))


def curvature_is_between(problem: Problem, least: float, most: float) -> bool:
    """least I <= X'X/n + ridge I <= most I, decided exactly."""
    A, one = exact_curvature(problem), fractions(np.eye(problem.size))
    return _is_positive_definite(A - Fraction(least) * one) and _is_positive_definite(Fraction(most) * one - A)


def fraction_iterates(problem: Problem, step: float, count: int) -> list[list[Fraction]]:
    """w_0 = 0 and count steps: w <- soft(w - step (A w - X'y/n), step l1)."""
    A, b = exact_curvature(problem), exact_target(problem)
    w = nothing = fractions(np.zeros(problem.size))
    found, eta = [], Fraction(step)
    tau = eta * fractions(problem.exact_l1s())
    for _ in range(count + 1):
        found.append(w.tolist())
        z = w - eta * (A @ w - b)
        w = np.maximum(z - tau, nothing) - np.maximum(-z - tau, nothing)
    return found


def exact_optimum(problem: Problem) -> list[Fraction]:
    """The minimiser. With l1: the signs for which the equations of the entries that are not 0 have a solution with
    those signs, and the slopes along the others are at most l1 in size; 2^d sign patterns and more are tried."""
    A, b, l1 = exact_curvature(problem), exact_target(problem), fractions(problem.exact_l1s())
    if not problem.has_l1:
        return list(_solve(A, b).tolist())
    for signs in product((0, 1, -1), repeat=problem.size):
        sign, w = np.array(signs), fractions(np.zeros(problem.size))
        active = np.flatnonzero(sign)
        w[active] = _solve(A[np.ix_(active, active)], b[active] - l1[active] * sign[active])
        if np.where(sign != 0, w * sign > 0, np.abs(A @ w - b) <= l1).all():
            return list(w.tolist())
    raise WeightwrightError("no sign pattern satisfies the conditions of the minimum")


def length(w: Sequence[Fraction]) -> float:
    """The Euclidean norm, rounded up a little."""
    return float(np.sqrt(float(sum((v * v for v in w), Fraction(0))))) * (1 + 2.0**-48)


def distance(w: Floats, exact: Sequence[Fraction]) -> float:
    """|w - exact|_2 of computed numbers: the difference is exact, the root rounds to nearest."""
    return float(np.sqrt(float(((fractions(w) - fractions(exact)) ** 2).sum())))


def _is_positive_definite(A: Exact) -> bool:
    """By the pivots of elimination without exchanges."""
    A = A.copy()
    for k in range(len(A)):
        if A[k, k] <= 0:
            return False
        A[k + 1 :] -= np.outer(A[k + 1 :, k] / A[k, k], A[k])
    return True


def _solve(A: Exact, b: Exact) -> Exact:
    """A is positive definite."""
    rows = np.column_stack([A, b])
    for k in range(len(rows)):
        if rows[k, k] == 0:
            raise WeightwrightError("the minimiser is not unique: the columns of X depend on each other")
        rows[k] = rows[k] / rows[k, k]
        others = np.arange(len(rows)) != k
        rows[others] -= np.outer(rows[others, k], rows[k])
    return rows[:, -1]
