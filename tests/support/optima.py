"""Optima by other means than the library's: exact fractions for squares, 60 digits of mpmath for the rest.

And the data and the comparison that tests of distances share.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import mpmath
import numpy as np

from weightwright import incontext
from weightwright.incontext.optimum.sharp_distance import distance, huber_distance, multinomial_distance

DIGITS = 60
Fractions = list[Fraction]
#: What a bound may be above its factor times the true distance, relative to the coefficients.
NEGLIGIBLE = 1e-20
#: How far given coefficients are from the optimum, about, relative to it.
AWAY = (0.0, 1e-12, 1e-6, 1e-2, 1.0, 1e3)


def data(seed: int, n: int = 20, d: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, targets and weights, some of them zero."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, X @ np.linspace(1.0, -0.5, d) + 2.0 + 0.5 * rng.normal(size=n), rng.integers(0, 3, n) / 2.0


def eliminated(A: list[Fractions], b: Fractions) -> Fractions | None:
    """One solution of A x = b, zero where it is free; None if there is none."""
    rows, pivots = [[*row, right] for row, right in zip(A, b, strict=True)], []
    for j in range(len(A[0])):
        k = next((k for k in range(len(pivots), len(rows)) if rows[k][j]), None)
        if k is None:
            continue
        here = len(pivots)
        rows[here], rows[k] = rows[k], rows[here]
        rows[here] = [entry / rows[here][j] for entry in rows[here]]
        for i, row in enumerate(rows):
            if i != here and row[j]:
                rows[i] = [a - row[j] * p for a, p in zip(row, rows[here], strict=True)]
        pivots.append(j)
    if any(row[-1] for row in rows[len(pivots) :]):
        return None
    x = [Fraction(0)] * len(A[0])
    for row, j in zip(rows, pivots, strict=False):
        x[j] = row[-1]
    return x


def exact(array: np.ndarray) -> list[Fractions]:
    return [[Fraction(float(x)) for x in row] for row in np.atleast_2d(array)]


def centred(X: np.ndarray, y: np.ndarray, s: np.ndarray, intercept: bool) -> tuple[list[Fractions], Fractions, ...]:
    """Columns and targets less their weighted means, and the means."""
    columns, [targets], [weights] = exact(X.T), exact(y), exact(s)
    total = sum(weights)
    means = [sum(a * b for a, b in zip(v, weights, strict=True)) / total for v in [*columns, targets]]
    if not intercept:
        means = [Fraction(0)] * len(means)
    moved = [[x - m for x in v] for v, m in zip([*columns, targets], means, strict=True)]
    return moved[:-1], moved[-1], weights, means


def quadratic(X: np.ndarray, y: np.ndarray, s: np.ndarray, ridge: Fraction, intercept: bool) -> tuple:
    """G, b and means: of least squares in w alone, with the best intercept for every w."""
    columns, targets, weights, means = centred(X, y, s, intercept)

    def inner(a: Fractions, b: Fractions) -> Fraction:
        return sum((s * x * y for s, x, y in zip(weights, a, b, strict=True)), Fraction(0))

    G = [[inner(a, b) + (ridge if i == j else 0) for j, b in enumerate(columns)] for i, a in enumerate(columns)]
    return G, [inner(a, targets) for a in columns], means


def whole(w: Fractions, means: Fractions, intercept: bool) -> Fractions:
    return [*w, means[-1] - sum(a * b for a, b in zip(w, means[:-1], strict=True))] if intercept else w


def shortest_least_squares(
    X: np.ndarray, y: np.ndarray, s: np.ndarray, ridge: Fraction = Fraction(0), intercept: bool = True
) -> Fractions:
    """The optimum; of many, the one with the smallest |w|: it is in the range of G, so w = G m and G G m = b."""
    G, b, means = quadratic(X, y, s, ridge, intercept)
    squared = [[sum(a * b for a, b in zip(row, column, strict=True)) for column in zip(*G, strict=True)] for row in G]
    m = eliminated(squared, b)
    assert m is not None
    return whole([sum(a * b for a, b in zip(row, m, strict=True)) for row in G], means, intercept)


def sparse_optimum(
    X: np.ndarray, y: np.ndarray, s: np.ndarray, l1: Fraction, ridge: Fraction, intercept: bool = True
) -> Fractions:
    """Of all supports and signs, one that is optimal."""
    G, b, means = quadratic(X, y, s, ridge, intercept)
    for signs in product((0, 1, -1), repeat=len(b)):
        used = [j for j, sign in enumerate(signs) if sign]
        found = (
            eliminated([[G[i][j] for j in used] for i in used], [b[j] - l1 * signs[j] for j in used]) if used else []
        )
        if found is None:
            continue
        w = [Fraction(0)] * len(b)
        for j, entry in zip(used, found, strict=True):
            w[j] = entry
        slopes = [sum(a * c for a, c in zip(row, w, strict=True)) - t for row, t in zip(G, b, strict=True)]
        if all(w[j] * signs[j] >= 0 if signs[j] else abs(slopes[j]) <= l1 for j in range(len(b))):
            return whole(w, means, intercept)
    raise AssertionError("no optimum")


Gradient = Callable[[Sequence], list]


def gradient(X: np.ndarray, s: np.ndarray, ridge: Fraction, slope: Callable) -> Gradient:
    """Of sum_i s_i l(w.x_i + c) + ridge/2 |w|^2. slope: l' from the argument and the number of the sample."""
    rows = [[*map(mpmath.mpf, map(float, row)), mpmath.mpf(1)] for row in X]

    def found(v: Sequence) -> list:
        pulls = [float(s[i]) * slope(mpmath.fdot(row, v), i) for i, row in enumerate(rows)]
        slopes = [mpmath.fdot(pulls, column) for column in zip(*rows, strict=True)]
        return [g + _number(ridge) * w for g, w in zip(slopes[:-1], v, strict=False)] + slopes[-1:]

    return found


def huber_gradient(X: np.ndarray, y: np.ndarray, s: np.ndarray, epsilon: float, alpha: float, free: bool) -> Gradient:
    """Of sum_i s_i (sigma + h(z_i) sigma) + alpha |w|^2 in w, c (if it is free) and sigma."""
    rows = [[*map(mpmath.mpf, map(float, row)), *[mpmath.mpf(1)] * free] for row in X]
    kink = mpmath.mpf(epsilon)  # a float's square would be rounded

    def found(v: Sequence) -> list:
        z = [(mpmath.fdot(row, v[:-1]) - float(t)) / v[-1] for row, t in zip(rows, y, strict=True)]
        clipped = [min(max(entry, -kink), kink) for entry in z]
        pulls = [2 * float(a) * b for a, b in zip(s, clipped, strict=True)]
        slopes = [mpmath.fdot(pulls, column) for column in zip(*rows, strict=True)]
        for j in range(X.shape[1]):
            slopes[j] += 2 * alpha * v[j]
        return [*slopes, mpmath.fsum(float(a) * (1 - b * b) for a, b in zip(s, clipped, strict=True))]

    return found


def multinomial_gradient(X: np.ndarray, labels: np.ndarray, s: np.ndarray, ridge: float, classes: int) -> Gradient:
    """Of the cross-entropy, class by class; plus the sum of the intercepts, which must be zero."""
    rows, size = [[*map(mpmath.mpf, map(float, row)), mpmath.mpf(1)] for row in X], X.shape[1] + 1

    def found(v: Sequence) -> list:
        blocks = [v[k * size : (k + 1) * size] for k in range(classes)]
        tie = mpmath.fsum(block[-1] for block in blocks)
        slopes = [[ridge * w for w in block[:-1]] + [tie] for block in blocks]
        for row, label, weight in zip(rows, labels, s, strict=True):
            powers = [mpmath.exp(mpmath.fdot(row, block)) for block in blocks]
            for k, power in enumerate(powers):
                pull = float(weight) * (power / mpmath.fsum(powers) - (label == k))
                slopes[k] = [a + pull * x for a, x in zip(slopes[k], row, strict=True)]
        return [entry for block in slopes for entry in block]

    return found


def refined(gradient: Gradient, start: Sequence[float]) -> list:
    """A zero of the gradient by Newton's method with halved steps; its slopes are taken from differences."""
    with mpmath.workdps(2 * DIGITS):
        v, tiny = [mpmath.mpf(float(x)) for x in start], mpmath.mpf(10) ** -DIGITS
        here = gradient(v)
        for _ in range(60):
            moved = [gradient([x + tiny * (i == j) for i, x in enumerate(v)]) for j in range(len(v))]
            slopes = mpmath.matrix([[(there[i] - here[i]) / tiny for there in moved] for i in range(len(v))])
            step = mpmath.lu_solve(slopes, mpmath.matrix(here))
            if max(abs(entry) for entry in step) < mpmath.mpf(10) ** -(DIGITS - 10):
                return [x - step[i] for i, x in enumerate(v)]
            share = mpmath.mpf(1)
            while mpmath.norm(there := gradient(aim := [x - share * step[i] for i, x in enumerate(v)])) >= mpmath.norm(
                here
            ):
                share /= 2
            v, here = aim, there
    raise AssertionError("Newton's method did not arrive")


def length(given: Sequence[float], optimum: Sequence) -> mpmath.mpf:
    """The true distance."""
    with mpmath.workdps(2 * DIGITS):
        parts = [mpmath.mpf(float(a)) - _number(b) for a, b in zip(given, optimum, strict=True)]
        return mpmath.sqrt(mpmath.fsum(part * part for part in parts))


def _number(x: object) -> mpmath.mpf:
    return mpmath.mpf(x.numerator) / x.denominator if isinstance(x, Fraction) else mpmath.mpf(x)


def perturbed(optimum: list, seed: int, away: float) -> np.ndarray:
    rng = np.random.default_rng(seed)
    with mpmath.workdps(2 * DIGITS):
        v = np.array([float(x) for x in optimum])
    return v + away * np.abs(v).max() * rng.normal(size=len(v))


def require_sharp(found: incontext.Distance, given: np.ndarray, optimum: list, factor: float = 1.02) -> None:
    true = length(given, optimum)
    assert true <= found.bound
    assert found.bound <= factor * true + NEGLIGIBLE * (1 + np.linalg.norm(given)), found.why


def at(problem: incontext.Problem, v: np.ndarray) -> incontext.Distance:
    return distance(problem, v[: problem.d], v[-1] if problem.intercept else 0.0)


def huber_problem(X: Any, y: Any, s: Any, alpha: float | Fraction, intercept: bool) -> incontext.Problem:
    return incontext.Problem(X, y, incontext.loss("squared"), s, ridge=2 * Fraction(alpha), intercept=intercept)


def huber_at(
    X: Any, y: Any, s: Any, epsilon: Any, alpha: Any, intercept: bool, coef: Any, c: float, scale: float
) -> Any:
    """Of scikit-learn's HuberRegressor with this alpha."""
    return huber_distance(huber_problem(X, y, s, alpha, intercept), epsilon, coef, c, scale)


def multinomial_at(X: Any, labels: Any, s: Any, ridge: Any, intercept: bool, coef: Any, b: Any) -> incontext.Distance:
    problem = incontext.Problem(X, labels, incontext.loss("squared"), s, ridge=ridge, intercept=intercept)
    return multinomial_distance(problem, coef, b)
