"""`bound_` against optima by other means: exact fractions for squares, sixty digits for the rest. No tolerance."""

from __future__ import annotations

import warnings
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from support.optima import gradient, length, refined, shortest_least_squares, sparse_optimum

from weightwright import incontext

#: Settings, and about how near the coefficients are then.
RUNS: dict[str, dict[str, Any]] = {
    "as it comes": {},
    "stopped early": {"max_steps": 5},
    "coarse heads": {"head_tol": 1e-4},
    "in float32": {"dtype": "float32"},
}
QUICK = ("as it comes", "stopped early")


def problem(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(8, 20)), int(rng.integers(1, 4))
    X = rng.normal(size=(n, d)) * rng.choice([0.1, 1.0, 100.0], d) + rng.normal(size=d) * 3
    y = X @ rng.normal(size=d) + rng.normal(size=n)
    return X, y, rng.integers(1, 5, n) / 4


def fitted(model: Any, X: np.ndarray, y: np.ndarray, weights: np.ndarray) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, y, sample_weight=weights)


def holds(model: Any, optimum: list, run: str) -> None:
    given = np.append(model.coef_, model.intercept_)
    true = length(given, optimum)
    assert true <= mpmath.mpf(model.bound_)
    size = length(np.zeros(len(given)), optimum)
    assert model.bound_ <= 2 * true + mpmath.mpf(1e-14) * size  # it is sharp, too
    if run == "as it comes":
        assert model.bound_ <= 1e-8 * size


@pytest.mark.parametrize("run", [run if run in QUICK else pytest.param(run, marks=pytest.mark.slow) for run in RUNS])
@pytest.mark.parametrize(
    "seed", [100, pytest.param(101, marks=pytest.mark.slow), pytest.param(102, marks=pytest.mark.slow)]
)
class TestBound:
    def test_least_squares(self, seed: int, run: str) -> None:
        X, y, s = problem(seed)
        holds(fitted(incontext.LinearRegression(**RUNS[run]), X, y, s), shortest_least_squares(X, y, s), run)

    def test_ridge(self, seed: int, run: str) -> None:
        X, y, s = problem(seed)
        holds(
            fitted(incontext.Ridge(alpha=0.3, **RUNS[run]), X, y, s),
            shortest_least_squares(X, y, s, Fraction(0.3)),
            run,
        )

    def test_lasso(self, seed: int, run: str) -> None:
        X, y, s = problem(seed)
        total = sum(map(Fraction, s))
        optimum = sparse_optimum(X, y, s, Fraction(0.2) * total, Fraction(0))
        holds(fitted(incontext.Lasso(alpha=0.2, **RUNS[run]), X, y, s), optimum, run)

    def test_elastic_net(self, seed: int, run: str) -> None:
        X, y, s = problem(seed)
        total = sum(map(Fraction, s)) * Fraction(0.2)
        optimum = sparse_optimum(X, y, s, total / 4, total * 3 / 4)
        holds(fitted(incontext.ElasticNet(alpha=0.2, l1_ratio=0.25, **RUNS[run]), X, y, s), optimum, run)

    def test_logistic_regression(self, seed: int, run: str) -> None:
        X, y, s = problem(seed)
        labels = np.where(y + np.random.default_rng(seed).normal(size=len(y)) * np.std(y) > np.median(y), 1, -1)
        model = fitted(incontext.LogisticRegression(C=0.5, **RUNS[run]), X, labels, s)
        slopes = gradient(X, s, Fraction(2), lambda z, i: -int(labels[i]) / (1 + mpmath.exp(int(labels[i]) * z)))
        holds(model, refined(slopes, np.append(model.coef_, model.intercept_)), run)

    def test_poisson_regression(self, seed: int, run: str) -> None:
        X, y, s = problem(seed)
        counts = np.floor(3 * np.abs(y) / np.std(y))
        model = fitted(incontext.PoissonRegressor(alpha=0.5, **RUNS[run]), X, counts, s)
        ridge = sum(map(Fraction, s)) / 2
        slopes = gradient(X, s, ridge, lambda z, i: mpmath.exp(z) - int(counts[i]))
        holds(model, refined(slopes, np.append(model.coef_, model.intercept_)), run)


def test_the_shortest_of_many_optima() -> None:
    rng = np.random.default_rng(103)
    X, y, s = rng.normal(size=(3, 6)), rng.normal(size=3), np.ones(3)
    holds(fitted(incontext.LinearRegression(), X, y, s), shortest_least_squares(X, y, s), "as it comes")
