"""scikit-learn's own coefficients are near the optimum of the objective that stands for its estimator.

This holds the table in `Problem` against scikit-learn: with s the sample weights, S their sum,

| estimator | weights | ridge | l1 |
|---|---|---|---|
| LinearRegression | s | 0 | 0 |
| Ridge | s | alpha | 0 |
| Lasso | s | 0 | alpha S |
| ElasticNet | s | alpha (1 - l1_ratio) S | alpha l1_ratio S |
| LogisticRegression | s | 1/C | 0 |
| PoissonRegressor | s | alpha S | 0 |
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from sklearn import linear_model
from sklearn.base import BaseEstimator
from support.optima import data, huber_at, multinomial_at

import weightwright as ww
from weightwright.incontext.optimum.sharp_distance import distance

X, Y, WEIGHTS = data(60, 60, 4)
X = X * [100.0, 1.0, 0.1, 1.0] + [1000.0, 0.0, 0.0, 3.0]
S = sum(map(Fraction, WEIGHTS))
SIGNS = np.where(Y + np.random.default_rng(61).logistic(size=60) > 2, 1.0, -1.0)
COUNTS = np.floor(np.abs(Y) * 2)
ALPHA, RATIO = Fraction(1, 16), Fraction(1, 4)
EXACT = {"tol": 1e-12, "max_iter": 100_000}

CASES = {
    "linear": (linear_model.LinearRegression(), Y, "squared", 0, 0),
    "ridge": (linear_model.Ridge(alpha=float(ALPHA)), Y, "squared", ALPHA, 0),
    "lasso": (linear_model.Lasso(alpha=float(ALPHA), **EXACT), Y, "squared", 0, ALPHA * S),
    "elastic net": (
        linear_model.ElasticNet(alpha=float(ALPHA), l1_ratio=float(RATIO), **EXACT),
        Y,
        "squared",
        ALPHA * (1 - RATIO) * S,
        ALPHA * RATIO * S,
    ),
    "logistic": (
        linear_model.LogisticRegression(C=8.0, solver="newton-cholesky", **EXACT),
        SIGNS,
        "logistic",
        Fraction(1, 8),
        0,
    ),
    "poisson": (
        linear_model.PoissonRegressor(alpha=float(ALPHA), solver="newton-cholesky", **EXACT),
        COUNTS,
        "poisson",
        ALPHA * S,
        0,
    ),
}


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_the_objective_is_the_estimators(name: str, intercept: bool) -> None:
    estimator, y, kind, ridge, l1 = CASES[name]
    fitted: BaseEstimator = estimator.set_params(fit_intercept=intercept).fit(X, y, WEIGHTS)
    objective = ww.incontext.Problem(X, y, ww.incontext.loss(kind), WEIGHTS, ridge=ridge, l1=l1, intercept=intercept)
    coef, c = np.ravel(fitted.coef_), float(np.ravel(fitted.intercept_)[0]) if intercept else 0.0
    assert distance(objective, coef, c).bound <= 1e-9 * np.linalg.norm([*coef, c])


@pytest.mark.parametrize("intercept", [True, False])
def test_hubers_objective_is_the_estimators(intercept: bool) -> None:
    """scikit-learn's method stops early whatever tol says, so it is nearer on scaled data only."""
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    y = Y + np.where(np.arange(60) % 7 == 3, 20.0, 0.0)
    fitted = linear_model.HuberRegressor(alpha=0.5, fit_intercept=intercept, **EXACT).fit(Z, y, WEIGHTS)
    coef, c = fitted.coef_, fitted.intercept_
    found = huber_at(Z, y, WEIGHTS, 1.35, 0.5, intercept, coef, c, fitted.scale_)
    assert found.bound <= 1e-4 * np.linalg.norm([*coef, c])
    assert found.scale <= 1e-4 * fitted.scale_


@pytest.mark.parametrize("intercept", [True, False])
def test_the_multinomial_objective_is_the_estimators(intercept: bool) -> None:
    labels = np.digitize(Y, [1.0, 3.0])
    estimator = linear_model.LogisticRegression(C=2.0, solver="newton-cg", fit_intercept=intercept, **EXACT)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    fitted = estimator.fit(Z, labels, WEIGHTS)
    b = fitted.intercept_ if intercept else np.zeros(3)
    found = multinomial_at(Z, labels, WEIGHTS, Fraction(1, 2), intercept, fitted.coef_, b)
    assert found.bound <= 1e-9 * np.linalg.norm(fitted.coef_)


def test_the_shortest_optimum_is_the_one_of_linear_regression() -> None:
    for intercept in (True, False):
        fitted = linear_model.LinearRegression(fit_intercept=intercept).fit(X[:3], Y[:3])
        objective = ww.incontext.Problem(X[:3], Y[:3], ww.incontext.loss("squared"), np.ones(3), intercept=intercept)
        found = distance(objective, fitted.coef_, float(fitted.intercept_))
        assert found.bound <= 1e-9 * np.linalg.norm(fitted.coef_)
        assert "smallest |w|" in found.why
