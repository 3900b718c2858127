"""What the estimators promise beyond single data sets: shapes, weights, order, many contexts, warnings."""

from __future__ import annotations

import warnings
from fractions import Fraction

import numpy as np
import pytest
import torch
from sklearn import linear_model
from sklearn.exceptions import ConvergenceWarning

from weightwright import incontext
from weightwright.estimators.solving import networks

SQUARED = [
    incontext.LinearRegression(),
    incontext.Ridge(),
    incontext.Lasso(alpha=0.05),
    incontext.ElasticNet(alpha=0.05),
]
ALL = [*SQUARED, incontext.PoissonRegressor(), incontext.LogisticRegression()]
QUICK = [*SQUARED, *(pytest.param(model, marks=pytest.mark.slow) for model in ALL[len(SQUARED) :])]


def example(seed: int, n: int = 30, d: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.geomspace(1.0, 100.0, d) + 5.0
    return X, X @ np.linspace(1.0, -0.2, d) + rng.normal(size=n)


def targets(model: object, y: np.ndarray) -> np.ndarray:
    """y as this model takes it."""
    if isinstance(model, incontext.PoissonRegressor):
        return np.floor(4 * np.abs(y) / np.std(y))
    if isinstance(model, incontext.LogisticRegression):
        return (y + np.std(y) * np.random.default_rng(0).normal(size=len(y)) > np.median(y)).astype(int)
    return y


def all_of(model: object) -> np.ndarray:
    return np.append(model.coef_, model.intercept_)


@pytest.mark.parametrize("model", QUICK, ids=repr)
def test_order_of_samples_changes_no_more_than_the_bounds(model: object) -> None:
    X, y = example(1)
    y = targets(model, y)
    order = np.random.default_rng(2).permutation(len(X))
    one, other = (type(model)(**model.get_params()).fit(a, b) for a, b in ((X, y), (X[order], y[order])))
    assert np.linalg.norm(all_of(one) - all_of(other)) <= one.bound_ + other.bound_


@pytest.mark.few(3)
@pytest.mark.parametrize("model", ALL, ids=repr)
def test_a_row_alone_and_in_a_batch(model: object) -> None:
    X, y = example(3)
    model = type(model)(**model.get_params()).fit(X, targets(model, y))
    rows = np.concatenate([X, 1e6 * X[:7], X[:1] - 1e9])
    batch, bounds = model._linear_predictor(rows).ravel(), model.prediction_bound(rows).ravel()
    for i in (0, 5, len(X), len(rows) - 1):
        alone = model._linear_predictor(rows[i : i + 1]).ravel()[0]
        assert abs(alone - batch[i]) <= 2 * bounds[i]
        assert bounds[i] <= 1e-9 * (1 + np.abs(rows[i]) @ np.abs(model.coef_.ravel()))
    with pytest.raises(AssertionError):
        np.testing.assert_array_equal(batch[0], batch[1])  # rows differ


@pytest.mark.parametrize("model", [*ALL[:-1], pytest.param(ALL[-1], marks=pytest.mark.slow)], ids=repr)
def test_predictions_are_within_their_bound_of_exact_arithmetic(model: object) -> None:
    X, y = example(4)
    model = type(model)(**model.get_params()).fit(X, targets(model, y))
    given, bounds = model._linear_predictor(X).ravel(), model.prediction_bound(X).ravel()
    coef, intercept = model.coef_.ravel(), float(np.ravel(model.intercept_)[0])
    for row, answer, bound in zip(X, given, bounds, strict=True):
        exact = sum((Fraction(float(a)) * Fraction(float(b)) for a, b in zip(row, coef, strict=True)), Fraction(0))
        assert abs(Fraction(float(answer)) - exact - Fraction(intercept)) <= Fraction(float(bound))


@pytest.mark.few(4)
@pytest.mark.parametrize("model", [*SQUARED, incontext.PoissonRegressor()], ids=repr)
@pytest.mark.parametrize("value", [0.0, 3.0, 1e6])
def test_constant_targets(model: object, value: float) -> None:
    if isinstance(model, incontext.PoissonRegressor) and value == 0:
        pytest.skip("counts that are all 0 have no optimum: the intercept goes to minus infinity")
    X, _ = example(5)
    model = type(model)(**model.get_params()).fit(X, np.full(len(X), value))
    np.testing.assert_allclose(model.coef_, 0.0, atol=1e-8 * max(value, 1))
    np.testing.assert_allclose(model.predict(X), value, rtol=1e-8, atol=1e-12)


@pytest.mark.slow
def test_counts_that_are_all_zero_are_no_silent_fit() -> None:
    X, _ = example(5)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = incontext.PoissonRegressor(max_steps=50).fit(X, np.zeros(len(X)))
    assert model.bound_ == np.inf
    assert "within inf of the optimum" in str(said[-1].message)
    assert said[-1].category is ConvergenceWarning


@pytest.mark.parametrize("model", SQUARED, ids=repr)
def test_one_sample(model: object) -> None:
    model = type(model)(**model.get_params()).fit([[2.0, -1.0]], [7.0])
    np.testing.assert_allclose(model.coef_, 0.0, atol=1e-12)
    assert model.intercept_ == pytest.approx(7.0, abs=1e-12)


def test_one_sample_without_an_intercept_has_the_shortest_coefficients() -> None:
    model = incontext.LinearRegression(fit_intercept=False).fit([[3.0, 4.0]], [50.0])
    np.testing.assert_allclose(model.coef_, [6.0, 8.0], atol=1e-9)
    assert model.intercept_ == 0.0


@pytest.mark.parametrize("intercept", [True, False])
def test_fewer_samples_than_features_give_the_minimum_norm_in_the_original_coordinates(intercept: bool) -> None:
    rng = np.random.default_rng(6)
    X = rng.normal(size=(4, 9)) * np.geomspace(0.1, 10.0, 9) + rng.normal(size=9)
    y = rng.normal(size=4) * 3
    model = incontext.LinearRegression(fit_intercept=intercept).fit(X, y)
    moved = X - X.mean(axis=0) * intercept
    expected = np.linalg.pinv(moved) @ (y - y.mean() * intercept)
    assert np.linalg.norm(model.coef_ - expected) <= 1e-7 * np.linalg.norm(expected)
    assert model.bound_ <= 1e-7 * np.linalg.norm(expected)


@pytest.mark.few(3)
@pytest.mark.parametrize("model", SQUARED, ids=repr)
def test_several_outputs_are_their_own_fits(model: object) -> None:
    X, y = example(7)
    both = type(model)(**model.get_params()).fit(X, np.stack([y, 10 - y**2], axis=1))
    assert both.coef_.shape == (2, 3)
    assert both.predict(X).shape == (30, 2)
    for k, target in enumerate((y, 10 - y**2)):
        alone = type(model)(**model.get_params()).fit(X, target)
        apart = np.linalg.norm(np.append(both.coef_[k] - alone.coef_, both.intercept_[k] - alone.intercept_))
        assert apart <= both.bound_ + alone.bound_


@pytest.mark.parametrize("model", QUICK, ids=repr)
def test_sample_weights_are_scikit_learns(model: object) -> None:
    X, y = example(8)
    y, weights = targets(model, y), np.random.default_rng(9).integers(0, 4, 30) / 2
    ours = type(model)(**model.get_params()).fit(X, y, sample_weight=weights)
    shared = {k: v for k, v in model.get_params().items() if k in ("alpha", "l1_ratio", "C")}
    newton = isinstance(model, incontext.PoissonRegressor | incontext.LogisticRegression)
    exact = (
        {"tol": 1e-10}
        if isinstance(model, incontext.LinearRegression | incontext.Ridge)
        else {"tol": 1e-10, "max_iter": 10**6}
    )
    solver = {"solver": "newton-cholesky"} if newton else {}
    theirs = getattr(linear_model, type(model).__name__)(**shared, **exact, **solver).fit(X, y, sample_weight=weights)
    assert np.linalg.norm(all_of(ours) - all_of(theirs)) <= 1e-6 * np.linalg.norm(all_of(theirs))
    plain = getattr(linear_model, type(model).__name__)(**shared, **exact, **solver).fit(X, y)
    assert np.linalg.norm(all_of(ours) - all_of(plain)) > 1e-3 * np.linalg.norm(all_of(plain))


@pytest.mark.few(2)
@pytest.mark.parametrize("model", QUICK, ids=repr)
def test_many_contexts_in_one_call(model: object) -> None:
    sizes = (30, 17, 24)
    Xs, ys = zip(*(example(10 + k, n) for k, n in enumerate(sizes)), strict=True)
    ys = [targets(model, y) for y in ys]
    weights = [None, np.linspace(0.5, 2.0, 17), None]
    together = model.fit_many(Xs, ys, weights)
    assert len({id(one.network_) for one in together}) == 1  # one network for all
    for one, X, y, weight in zip(together, Xs, ys, weights, strict=True):
        alone = type(model)(**model.get_params()).fit(X, y, sample_weight=weight)
        assert np.linalg.norm(all_of(one) - all_of(alone)) <= one.bound_ + alone.bound_
        assert one.bound_ <= 1e-6 * np.linalg.norm(all_of(one))
    assert not hasattr(model, "coef_")


def test_float32_networks() -> None:
    X, y = example(11)
    single, double = incontext.Ridge(dtype=torch.float32).fit(X, y), incontext.Ridge().fit(X, y)
    assert single.network_.dtype == torch.float32
    assert np.linalg.norm(all_of(single) - all_of(double)) <= single.bound_ + double.bound_
    assert double.bound_ < single.bound_ <= 1e-3 * np.linalg.norm(all_of(double))


def test_the_coefficients_are_what_the_network_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing else finds them; and if a network were wrong, the bound would say so."""
    X, y = example(12)
    true = incontext.Ridge().fit(X, y)
    run = networks.last_states
    monkeypatch.setattr(networks, "last_states", lambda net, prompt: 0.5 * run(net, prompt))
    with pytest.warns(ConvergenceWarning, match="of the optimum"):
        broken = incontext.Ridge().fit(X, y)
    np.testing.assert_allclose(broken.coef_, true.coef_ / 2)
    assert broken.bound_ >= np.linalg.norm(all_of(broken) - all_of(true)) - true.bound_ > 0.01


def test_a_coarse_head_is_said_and_bounded() -> None:
    X, y = example(13)
    with pytest.warns(ConvergenceWarning, match="smaller head_tol"):
        coarse = incontext.Ridge(head_tol=1e-3).fit(X, y)
    fine = incontext.Ridge().fit(X, y)
    assert coarse.network_.network.tokens == fine.network_.network.tokens
    assert len(coarse.network_.network.registers) <= len(fine.network_.network.registers)
    assert 1e-8 < np.linalg.norm(all_of(coarse) - all_of(fine)) <= coarse.bound_ + fine.bound_


def test_it_is_said_before_running_how_many_steps_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(14)
    common = rng.normal(size=(40, 1))
    X = common + 1e-4 * rng.normal(size=(40, 5))
    y = X @ np.arange(5) + rng.normal(size=40)
    model = incontext.LinearRegression(max_steps=30)
    needed = model.steps_needed(X, y)
    assert needed > 30
    assert not hasattr(model, "coef_")
    seen: list[str] = []
    run = networks.last_states

    def spied(net: object, prompt: object) -> np.ndarray:
        seen.extend(str(entry.message) for entry in said)
        return run(net, prompt)

    monkeypatch.setattr(networks, "last_states", spied)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model.fit(X, y)
    assert len(seen) == 1
    assert f"about {needed} steps" in seen[0]
    assert "max_steps=30" in seen[0]
    assert len(said) == 2
    assert f"within {model.bound_:.3g} of the optimum" in str(said[1].message)
    assert model.steps_needed_ == needed
    assert model.n_iter_ == 30


def test_an_estimator_that_is_not_there_is_named() -> None:
    with pytest.raises(AttributeError, match="no attribute 'BayesianRidge'"):
        incontext.BayesianRidge  # noqa: B018
