"""Features, targets and data sets of very different size: none hides another, and what is wrong is told."""

from __future__ import annotations

import warnings
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from sklearn import linear_model
from sklearn.exceptions import ConvergenceWarning

from weightwright import incontext
from weightwright.estimators.solving import networks
from weightwright.incontext.problem.contexts import relative_size

RNG = np.random.default_rng(300)
N = 40
MAIN = RNG.normal(size=N)
Y = 3 * MAIN + 0.1 * RNG.normal(size=N)
LABELS = (MAIN + 0.5 * RNG.normal(size=N) > 0).astype(int)
COUNTS = RNG.poisson(np.exp(1 + 0.5 * MAIN)).astype(float)
NOISE = np.where(RNG.random(N) < 0.5, 0.3, 0.1 * 3)  # constant, but for the last bit
SMALL = 1e-7 * RNG.normal(size=N)
EXACT = {"tol": 1e-10}


@pytest.mark.few(5)
@pytest.mark.parametrize("column", [NOISE, SMALL], ids=["constant but for rounding", "of small spread"])
@pytest.mark.parametrize(
    ("ours", "theirs", "target"),
    [
        (incontext.Ridge(), linear_model.Ridge(), Y),
        (incontext.Ridge(method="newton-schulz"), linear_model.Ridge(), Y),
        (incontext.ElasticNet(alpha=0.1), linear_model.ElasticNet(alpha=0.1, **EXACT), Y),
        (incontext.LogisticRegression(), linear_model.LogisticRegression(**EXACT), LABELS),
        (incontext.PoissonRegressor(), linear_model.PoissonRegressor(**EXACT), COUNTS),
    ],
    ids=["ridge", "newton-schulz", "elastic net", "logistic", "poisson"],
)
def test_a_penalised_feature_of_small_spread_leaves_the_others(
    column: np.ndarray, ours: Any, theirs: Any, target: np.ndarray
) -> None:
    X = np.column_stack([MAIN, column])
    found, known = (type(one)(**one.get_params()).fit(X, target) for one in (ours, theirs))
    assert found.bound_ <= 1e-7
    np.testing.assert_allclose(np.ravel(found.coef_)[0], np.ravel(known.coef_)[0], rtol=1e-6)
    np.testing.assert_allclose(found.intercept_, known.intercept_, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_huber_beside_a_feature_that_is_constant_but_for_rounding() -> None:
    beside, alone = (incontext.HuberRegressor().fit(X, Y) for X in (np.column_stack([MAIN, NOISE]), MAIN[:, None]))
    assert abs(beside.coef_[0] - alone.coef_[0]) <= 1e-7
    assert beside.bound_ <= 1e-8


def test_what_is_missing_is_seen_in_either_unit() -> None:
    theta, units = np.array([1.0, 1.0]), np.array([1.0, 1e12])
    assert relative_size(np.array([0.5, 0.0]), theta, units) > 0.3  # hidden in the original units
    assert relative_size(np.array([0.0, 0.0]), theta, units) == 0
    assert relative_size(np.array([0.0, 0.5]), 1e-20 * theta, units) > 10


def test_a_wrong_feature_is_told_though_another_has_a_huge_coefficient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Relative to both together half of the first coefficient is nothing."""
    X = np.column_stack([MAIN, 1e-12 * RNG.normal(size=N)])
    run = networks.last_states
    monkeypatch.setattr(networks, "last_states", lambda net, prompt: run(net, prompt) * [0.5, 1.0, 1.0])
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = incontext.LinearRegression().fit(X, X @ [3.0, 1e12] + 0.01 * RNG.normal(size=N))
    assert 1 < model.bound_ < 1e-9 * np.linalg.norm(model.coef_)
    assert "in scaled units about" in str(said[-1].message)
    assert said[-1].category is ConvergenceWarning


@pytest.mark.slow
def test_counts_without_an_intercept_that_run_off_are_planned_again() -> None:
    rng = np.random.default_rng(302)
    X = rng.normal(size=(30, 2))
    counts = np.floor(1e5 * np.exp(X[:, 0] - 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = incontext.PoissonRegressor(fit_intercept=False, max_steps=300).fit(X, counts)
    assert np.isfinite(model.coef_).all()


def test_data_sets_of_very_different_size_in_one_call_are_told() -> None:
    X = np.column_stack([MAIN, RNG.normal(size=N)])
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        models = incontext.Ridge(max_steps=100, method="gradient").fit_many([X, 1e8 * X], [Y, Y])
    apart = linear_model.Ridge().fit(X, Y).coef_ - models[0].coef_
    assert np.linalg.norm(apart) <= models[0].bound_ + 1e-9
    assert any(one.category is ConvergenceWarning for one in said)
    by_itself = incontext.Ridge(max_steps=100).fit_many([X, 1e8 * X], [Y, Y])  # by Newton-Schulz, and nothing is said
    assert by_itself[0].bound_ < 1e-9 < models[0].bound_


def test_a_tiny_constant_target() -> None:
    model = incontext.ElasticNet(alpha=0.1).fit(MAIN[:, None], np.full(N, 1e-30))
    assert model.intercept_ == pytest.approx(1e-30, rel=1e-9)


@pytest.mark.parametrize("coef", [[1.0, 1.0], [1e10, 1.0], [1e-300, 2.0], [3.0, 0.0]])
def test_rows_of_any_size_are_predicted_side_by_side(coef: list[float]) -> None:
    model = incontext.LinearRegression().fit(np.column_stack([MAIN, SMALL]), Y)
    model.coef_, model.intercept_ = np.array(coef), 0.5
    rows = np.array([[9e307, 0], [1e300, 1.0], [1, 2.0], [0, 0], [5e-324, 1e-310], [1e300, -1e300], [1e-200, 1e200]])
    for row, answer, bound in zip(rows, model.predict(rows), model.prediction_bound(rows), strict=True):
        exact = sum((Fraction(a) * Fraction(b) for a, b in zip(row, coef, strict=True)), Fraction(0.5))
        if np.isinf(answer):
            assert bound == np.inf
            assert abs(exact) > Fraction(1.79e308)
        else:
            assert abs(Fraction(answer) - exact) <= Fraction(bound)


def test_bounds_of_two_classes_have_the_shape_of_what_they_are_about() -> None:
    model = incontext.LogisticRegression().fit(MAIN[:, None], LABELS)
    assert model.prediction_bound(MAIN[:, None]).shape == model.decision_function(MAIN[:, None]).shape == (N,)
