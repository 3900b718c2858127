"""Numbers of numpy's types, shapes and types of what is fitted, and a penalty for each target: as scikit-learn's."""

from __future__ import annotations

import warnings
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from sklearn import linear_model
from sklearn.exceptions import DataConversionWarning
from sklearn.model_selection import GridSearchCV
from support.optima import length, shortest_least_squares, sparse_optimum

from weightwright import incontext

RNG = np.random.default_rng(220)
X = RNG.normal(size=(15, 2))
Y = X @ [1.0, -2.0] + 0.5 + 0.25 * RNG.normal(size=15)
COUNTS, LABELS = np.round(np.exp(Y - Y.min()) / 4), (Y > 0).astype(int)


@pytest.mark.few(5)
@pytest.mark.parametrize(
    ("typed", "plain", "targets"),
    [
        (incontext.Ridge(np.int64(1)), incontext.Ridge(1.0), Y),
        (
            incontext.Ridge(np.float32(0.5), tol=np.float32(1e-9), max_steps=np.int32(5000)),
            incontext.Ridge(0.5),
            Y,
        ),
        (
            incontext.Ridge(1, fit_intercept=np.bool_(False), head_tol=np.float32(2.0**-40)),
            incontext.Ridge(1, fit_intercept=False),
            Y,
        ),
        (incontext.Lasso(np.float32(0.125)), incontext.Lasso(0.125), Y),
        (incontext.ElasticNet(np.int64(1), l1_ratio=np.float32(0.25)), incontext.ElasticNet(1, l1_ratio=0.25), Y),
        (incontext.LogisticRegression(C=np.int64(2)), incontext.LogisticRegression(C=2.0), LABELS),
        (incontext.PoissonRegressor(alpha=np.uint8(1)), incontext.PoissonRegressor(), COUNTS),
        (
            incontext.HuberRegressor(alpha=np.float32(0.5), epsilon=np.float32(1.5)),
            incontext.HuberRegressor(alpha=0.5, epsilon=1.5),
            Y,
        ),
    ],
    ids=repr,
)
def test_numbers_of_numpys_types(typed: Any, plain: Any, targets: Any) -> None:
    typed.fit(X, targets)
    plain.fit(X, targets)
    assert np.linalg.norm(typed.coef_ - plain.coef_) <= typed.bound_ + plain.bound_ < 1e-6


def test_a_grid_search_over_numpys_numbers() -> None:
    search = GridSearchCV(incontext.Ridge(proof=False), {"alpha": np.arange(1, 3)}, cv=2).fit(X, Y)
    known = GridSearchCV(linear_model.Ridge(), {"alpha": np.arange(1, 3)}, cv=2).fit(X, Y)
    assert search.best_params_ == known.best_params_


@pytest.mark.few(7)
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("shape", [(15,), (15, 1), (15, 2)], ids=str)
@pytest.mark.parametrize(
    "name", ["LinearRegression", "Ridge", "Lasso", "ElasticNet", "PoissonRegressor", "HuberRegressor"]
)
def test_shapes_and_types_of_what_is_fitted(name: str, shape: tuple[int, ...], intercept: bool) -> None:
    single = name in ("PoissonRegressor", "HuberRegressor")
    if single and shape == (15, 2):
        pytest.skip("one target only")
    targets = (
        np.resize(np.stack([COUNTS, COUNTS + 1]), (2, 15)).T[:, : shape[-1]].reshape(shape)
        if len(shape) == 2
        else COUNTS
    )
    models = [getattr(place, name)(fit_intercept=intercept) for place in (incontext, linear_model)]
    for model in models:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            model.fit(X, targets)
        assert any(one.category is DataConversionWarning for one in said) == (single and shape == (15, 1))
    ours, theirs = models
    assert ours.coef_.shape == theirs.coef_.shape
    assert type(ours.intercept_) is type(theirs.intercept_)
    assert np.shape(ours.intercept_) == np.shape(theirs.intercept_)
    assert ours.predict(X).shape == theirs.predict(X).shape
    assert np.abs(ours.predict(X) - theirs.predict(X)).max() < 0.2


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("classes", [2, 3])
def test_intercepts_of_classes(classes: int, intercept: bool) -> None:
    labels = np.arange(15) % classes
    ours = incontext.LogisticRegression(fit_intercept=intercept).fit(X, labels)
    theirs = linear_model.LogisticRegression(fit_intercept=intercept).fit(X, labels)
    assert ours.intercept_.shape == theirs.intercept_.shape
    assert (ours.intercept_ == 0).all() == (theirs.intercept_ == 0).all() == (not intercept)


def test_a_penalty_for_each_target() -> None:
    targets, alphas = np.stack([Y, -Y, Y**2], axis=1), np.array([0.5, 20.0, 0.5])
    model = incontext.Ridge(alphas).fit(X, targets)
    for k, alpha in enumerate(alphas):
        optimum = shortest_least_squares(X, targets[:, k], np.ones(15), Fraction(alpha))
        assert length(np.append(model.coef_[k], model.intercept_[k]), optimum) <= model.bound_ < 1e-9
    assert model.steps_needed(X, targets) == model.steps_needed_
    assert np.abs(model._read_off(model.network_(model.prompt_)[0].numpy())[:2] - model.coef_[0]).max() < 1e-6
    two = incontext.Ridge(np.array([0.5, 20.0, 0.5])).fit_many([X, X[:9]], [targets, targets[:9]])
    assert np.linalg.norm(two[0].coef_ - model.coef_) <= two[0].bound_ + model.bound_
    for alone, number in ((incontext.Ridge(np.array([0.5])), 3), (incontext.Ridge(np.array(0.5)), 3)):
        assert alone.fit(X, targets).coef_.shape == (number, 2)
    with pytest.raises(ValueError, match="Number of targets and number of penalties do not correspond: 2 != 3"):
        incontext.Ridge(np.array([1.0, 2.0])).fit(X, targets)
    with pytest.raises(
        ValueError, match=r"alpha=array\(\[ 1., -2.,  3.\]\): penalties are finite numbers that are not"
    ):
        incontext.Ridge(np.array([1.0, -2.0, 3.0])).fit(X, targets)


def test_gaps_are_above_what_is_left() -> None:
    """Stopped early: F(w) - min F is not 0, and not above the gap."""
    with pytest.warns(Warning, match="max_steps|proven"):
        model = incontext.Lasso(0.125, max_steps=2).fit(X, Y)
    optimum = sparse_optimum(X, Y, np.ones(15), Fraction(15, 8), Fraction(0))

    def value(v: Any) -> Fraction:
        *w, c = map(Fraction, v)
        rest = [
            sum(a * Fraction(b) for a, b in zip(w, x, strict=True)) + c - Fraction(t)
            for x, t in zip(X.tolist(), Y.tolist(), strict=True)
        ]
        return sum(r * r for r in rest) / 30 + Fraction(1, 8) * sum(map(abs, w))

    left = value([*model.coef_.tolist(), float(model.intercept_)]) - value(optimum)
    assert 0 < left <= Fraction(model.dual_gap_) < 1
    assert incontext.Lasso(0.125).fit(X, np.stack([Y, Y], axis=1)).dual_gap_.max() < 1e-9
