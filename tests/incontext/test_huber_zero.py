"""Huber's regression where every sample can be fitted exactly: the certificate in fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from flint import fmpq
from support.optima import huber_at, huber_problem

from weightwright.incontext.optimum.huber_optimum import exact_fit

EPSILON, ALPHA = Fraction(27, 20), Fraction(1, 10**4)


def value(X: np.ndarray, y: np.ndarray, s: np.ndarray, v: np.ndarray, sigma: float, alpha: Fraction) -> Fraction:
    """scikit-learn's objective at (w, c) = v, in fractions."""
    total = alpha * sum((Fraction(w) ** 2 for w in v[:-1].tolist()), Fraction(0))
    for row, target, weight in zip(X.tolist(), y.tolist(), s.tolist(), strict=True):
        fitted = sum((Fraction(a) * Fraction(b) for a, b in zip([*row, 1.0], v.tolist(), strict=True)), Fraction(0))
        z = abs(fitted - Fraction(target)) / Fraction(sigma)
        h = z * z if z <= EPSILON else 2 * EPSILON * z - EPSILON**2
        total += Fraction(weight) * Fraction(sigma) * (1 + h)
    return total


def integers(seed: int, n: int, d: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A plane with coefficients in integers, and weights."""
    rng = np.random.default_rng(seed)
    X = rng.integers(-9, 10, size=(n, d)).astype(float)
    return X, X @ rng.integers(-5, 6, size=d) + 3.0, rng.integers(1, 4, size=n).astype(float)


@pytest.mark.parametrize(("n", "d"), [(12, 3), (3, 5), (1, 2), (4, 3)])
def test_no_other_place_is_lower(n: int, d: int) -> None:
    X, y, s = integers(n, n, d)
    fit = exact_fit(huber_problem(X, y, s, ALPHA, True), EPSILON)
    assert fit is not None
    least = ALPHA * sum((Fraction(int(w.p), int(w.q)) ** 2 for w in fit[:-1]), Fraction(0))
    near = np.array([int(w.p) / int(w.q) for w in fit])
    rng = np.random.default_rng(0)
    for size in (1e-9, 1e-4, 1e-1, 10.0):
        for sigma in (1e-3 * size, size, 10 * size):
            assert value(X, y, s, near + size * rng.normal(size=d + 1), sigma, ALPHA) > least
            assert value(X, y, s, near * (1 - min(size, 0.5)), sigma, ALPHA) > least


def test_a_strong_penalty_is_worth_a_scale() -> None:
    X, y, s = integers(0, 8, 2)
    assert exact_fit(huber_problem(X, y, s, ALPHA, True), EPSILON) is not None
    assert exact_fit(huber_problem(X, y, s, Fraction(10**4), True), EPSILON) is None
    found = huber_at(X, y, s, EPSILON, Fraction(10**4), True, np.zeros(2), 0.0, 1.0)
    assert found.scale < 100  # its optimum is elsewhere, and enclosed


def test_where_the_penalty_becomes_too_strong() -> None:
    """x = -1, 1 and y = -1, 1: at w = 1 the multipliers are -1/2 and 1/2, so |psi| is alpha/2; at most 1 is allowed."""
    X, y = np.array([[-1.0], [1.0]]), np.array([-1.0, 1.0])
    for alpha, at_zero in ((Fraction(2), True), (Fraction(2) + Fraction(1, 10**9), False)):
        found = exact_fit(huber_problem(X, y, np.ones(2), alpha, True), EPSILON)
        assert found == ([1, 0] if at_zero else None)
    sigma, w = 1e-6, 1 - 1e-5
    assert value(X, y, np.ones(2), np.array([w, 0.0]), sigma, Fraction(3)) < 3  # lower than at w = 1


def test_one_sample_that_does_not_fit_is_enough() -> None:
    X, y, s = integers(1, 12, 3)
    for i in range(12):
        off = y.copy()
        off[i] = np.nextafter(off[i], np.inf)
        assert exact_fit(huber_problem(X, off, s, ALPHA, True), EPSILON) is None


def test_without_a_penalty_the_fit_must_be_the_only_one() -> None:
    X, y, s = integers(2, 3, 3)
    assert exact_fit(huber_problem(X, y, s, Fraction(0), True), EPSILON) is None
    assert exact_fit(huber_problem(X, y, s, ALPHA, True), EPSILON) is not None
    X, y, s = integers(2, 9, 3)
    assert exact_fit(huber_problem(X, y, s, Fraction(0), True), EPSILON) is not None


def test_nothing_to_fit() -> None:
    X, y, s = np.zeros((4, 2)), np.zeros(4), np.ones(4)
    assert exact_fit(huber_problem(X, y, s, ALPHA, False), EPSILON) == [fmpq(0), fmpq(0)]
    assert exact_fit(huber_problem(X, y + 1, s, ALPHA, False), EPSILON) is None
    assert exact_fit(huber_problem(X, y + 1, s, ALPHA, True), EPSILON) == [0, 0, 1]


def test_the_distance_to_it() -> None:
    X, y = np.array([[0.0], [1.0], [2.0]]), np.array([1.0, 3.0, 5.0])
    found = huber_at(X, y, np.ones(3), EPSILON, ALPHA, True, np.array([2.25]), 1.0, 0.5)
    assert (found.bound, found.scale) == (0.25, 0.5)
    assert "fitted exactly" in found.why
    y[2], weights = 9.0, np.array([1.0, 1.0, 0.0])
    weighted = huber_at(X, y, weights, EPSILON, ALPHA, True, np.array([2.0]), 1.0, 0.5)
    assert weighted.bound == 0.0  # a sample of weight 0 does not matter
