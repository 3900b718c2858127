"""The estimators on real data, raw and standardised, beside scikit-learn's."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from data_sets import CLASSES, REGRESSIONS, data_set
from sklearn import linear_model
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from weightwright import incontext

#: What is asked for: relative to the coefficients, and to the target's spread.
NEAR = 1e-4
RAW_AND_STANDARDISED = pytest.mark.parametrize("standardised", [False, True], ids=["raw", "standardised"])
EXACT = {"tol": 1e-10, "max_iter": 1_000_000}
MODELS = {
    "LinearRegression": ({}, {"tol": 1e-10}),
    "Ridge": ({"alpha": 1.0}, {"tol": 1e-10}),
    "Lasso": ({"alpha": 0.1}, EXACT),
    "ElasticNet": ({"alpha": 0.1, "l1_ratio": 0.5}, EXACT),
}


def apart(ours: BaseEstimator, theirs: BaseEstimator) -> float:
    """The distance of the coefficients, relative to scikit-learn's."""
    return float(np.linalg.norm(ours.coef_ - theirs.coef_) / np.linalg.norm(theirs.coef_))


@pytest.mark.few(2)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "diabetes" else pytest.mark.slow) for name in REGRESSIONS]
)
@RAW_AND_STANDARDISED
def test_coefficients_and_predictions_are_scikit_learns(model: str, name: str, standardised: bool) -> None:
    X, y = data_set(name, standardised)
    settings, exact = MODELS[model]
    ours = getattr(incontext, model)(**settings).fit(X, y)
    theirs = getattr(linear_model, model)(**settings, **exact).fit(X, y)
    assert apart(ours, theirs) <= NEAR
    assert np.abs(ours.predict(X) - theirs.predict(X)).max() <= NEAR * np.std(y)
    assert ours.network_.certificate.status == "PROVEN"
    assert ours.bound_ <= NEAR * np.linalg.norm(ours.coef_)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", CLASSES)
@RAW_AND_STANDARDISED
def test_logistic_regression_is_scikit_learns(name: str, standardised: bool) -> None:
    X, y = data_set(name, standardised)
    ours = incontext.LogisticRegression().fit(X, y)
    theirs = linear_model.LogisticRegression(**EXACT).fit(X, y)
    assert apart(ours, theirs) <= NEAR
    assert np.abs(ours.predict_proba(X) - theirs.predict_proba(X)).max() <= NEAR
    assert ours.network_.certificate.status == "PROVEN"
    assert ours.bound_ <= NEAR * np.linalg.norm(ours.coef_)


@pytest.mark.slow
def test_counts_are_scikit_learns() -> None:
    X, y = data_set("diabetes", True)
    y = np.floor(y / 50)
    ours = incontext.PoissonRegressor(alpha=0.1).fit(X, y)
    theirs = linear_model.PoissonRegressor(alpha=0.1, solver="newton-cholesky", **EXACT).fit(X, y)
    assert apart(ours, theirs) <= NEAR
    assert np.abs(ours.predict(X) - theirs.predict(X)).max() <= NEAR * np.std(y)


@pytest.mark.slow
@RAW_AND_STANDARDISED
def test_ridge_converges_on_nearly_singular_data(standardised: bool) -> None:
    X, y = data_set("meats", standardised)
    ours = incontext.Ridge(alpha=1.0).fit(X, y)
    theirs = linear_model.Ridge(alpha=1.0, solver="cholesky").fit(X, y)
    assert apart(ours, theirs) <= NEAR
    assert ours.bound_ <= NEAR * np.linalg.norm(ours.coef_)


@pytest.mark.slow
def test_least_squares_on_nearly_singular_data_says_how_far_it_got() -> None:
    X, y = data_set("meats", False)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        ours = incontext.LinearRegression(max_steps=50).fit(X, y)
    before, after = [str(entry.message) for entry in said if entry.category is ConvergenceWarning]
    assert "steps of the Chebyshev method" in before
    assert "max_steps=50" in before
    assert ours.steps_needed_ > 1_000_000
    assert str(ours.steps_needed_) in before
    assert f"within {ours.bound_:.3g} of the optimum" in after
    true = np.linalg.lstsq(X - X.mean(axis=0), y - y.mean(), rcond=None)[0]
    assert np.linalg.norm(ours.coef_ - true) <= ours.bound_ < np.inf
