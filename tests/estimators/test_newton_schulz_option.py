"""LinearRegression and Ridge by Newton-Schulz: against exact optima, and what is said where it cannot be had."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from support.optima import data, length, shortest_least_squares

from weightwright import incontext
from weightwright.estimators.solving import newton_schulz

Model = incontext.LinearRegression | incontext.Ridge


def by_products(alpha: float | None = None, **more: object) -> Model:
    more = {"method": "newton-schulz"} | more
    return incontext.LinearRegression(**more) if alpha is None else incontext.Ridge(alpha, **more)  # type: ignore[arg-type]


def numbers(model: Model) -> np.ndarray:
    return np.append(model.coef_, model.intercept_) if model.fit_intercept else model.coef_


def nearly_dependent(size: float, n: int = 40) -> tuple[np.ndarray, np.ndarray]:
    """The last column is the one before but for something of this size."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(n, 4))
    X[:, 3] = X[:, 2] + size * X[:, 3]
    return X, X @ [1.0, -1.0, 0.5, 0.5] + 3.0 + rng.normal(size=n)


@pytest.mark.parametrize("alpha", [None, 0.25])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("scales", [(1.0, 1.0, 1.0), (1e4, 1.0, 1e-3)])
def test_the_optimum_is_within_the_bound(
    alpha: float | None, intercept: bool, scales: tuple[float, float, float]
) -> None:
    X, y, s = data(1)
    X = X * scales + [50.0, 0.0, 0.0]
    model = by_products(alpha, fit_intercept=intercept).fit(X, y, s)
    optimum = shortest_least_squares(X, y, s, Fraction(alpha or 0), intercept)
    assert length(numbers(model), optimum) <= model.bound_ < 1e-7 * np.linalg.norm(numbers(model))
    assert model.n_iter_ <= 2 * model.steps_needed_


@pytest.mark.parametrize(("size", "passes"), [(1e-1, 20), (1e-3, 33), (1e-4, 80), (1e-5, 90)])
def test_passes_grow_with_the_logarithm_of_the_condition(size: float, passes: int) -> None:
    """From 1e-4 on, where the condition number is 1e8, a run ends with too large an error, and another follows."""
    X, y = nearly_dependent(size)
    model = by_products().fit(X, y)
    assert model.n_iter_ <= model.steps_needed_ <= passes
    optimum = shortest_least_squares(X, y, np.ones(len(y)))
    assert length(numbers(model), optimum) <= model.bound_ < 1e-8 * np.linalg.norm(numbers(model))
    assert by_products().steps_needed(X, y) == model.steps_needed_


def test_the_default_is_gradients_where_they_arrive() -> None:
    X, y = nearly_dependent(1e-1)
    model = incontext.LinearRegression().fit(X, y)
    assert model.method == incontext.Ridge().method == "auto"
    assert model.n_iter_ > 100
    assert model.network_.certificate is not None
    X, y = nearly_dependent(1e-4)  # more than max_steps of gradients
    for model in (incontext.LinearRegression(), incontext.Ridge(1e-9)):
        model.fit(X, y)
        assert model.network_.certificate is None
        assert model.n_iter_ <= model.steps_needed_ == model.steps_needed(X, y) < 200
        optimum = shortest_least_squares(X, y, np.ones(len(y)), Fraction(getattr(model, "alpha", 0)))
        assert length(numbers(model), optimum) <= model.bound_ < 1e-8 * np.linalg.norm(numbers(model))
    X, y = nearly_dependent(1e-6)  # where neither arrives, gradients go on to the end
    with pytest.warns(ConvergenceWarning) as said:
        assert incontext.LinearRegression(max_steps=100).fit(X, y).n_iter_ == 100
    assert "Chebyshev" in str(said[0].message)


def test_many_optima() -> None:
    """Of fewer samples than features, of equal columns and of constant ones, the shortest."""
    rng = np.random.default_rng(2)
    few = rng.normal(size=(4, 7))
    equal = rng.normal(size=(20, 4))[:, [0, 1, 2, 2]]
    constant = np.hstack([rng.normal(size=(20, 2)), np.full((20, 1), 3.0)])
    for X in (few, equal, constant, np.zeros((5, 2))):
        y = rng.normal(size=len(X))
        for model in (by_products(), by_products(0.0)):
            model.fit(X, y)
            assert length(numbers(model), shortest_least_squares(X, y, np.ones(len(y)))) <= model.bound_ < 1e-8


def test_what_is_not_reached_is_said() -> None:
    X, y = nearly_dependent(1e-6)  # a condition number of 1e12: every run leaves most of the error
    with pytest.warns(ConvergenceWarning) as said:
        model = by_products(max_steps=200).fit(X, y)
    assert "Newton-Schulz method (condition number about" in str(said[0].message)
    assert "are proven to be within" in str(said[1].message)
    assert model.n_iter_ <= 200 < model.steps_needed_
    assert 1e-3 * np.linalg.norm(model.coef_) < model.bound_ < np.inf
    assert length(numbers(model), shortest_least_squares(X, y, np.ones(len(y)))) <= model.bound_
    X, y = nearly_dependent(1e-8)  # in floats the last eigenvalue is nothing but rounding
    with pytest.warns(ConvergenceWarning, match="are proven to be within"):
        model = by_products().fit(X, y)
    assert length(numbers(model), shortest_least_squares(X, y, np.ones(len(y)))) <= model.bound_
    X, y = nearly_dependent(1.0)
    with pytest.warns(ConvergenceWarning, match=r"max_steps=3|after 3 steps"):
        assert by_products(max_steps=3).fit(X, y).n_iter_ == 3


@pytest.mark.slow
def test_a_slow_shift_gets_there() -> None:
    X, y = nearly_dependent(2.5e-6)
    model = by_products(max_steps=20_000).fit(X, y)
    assert model.n_iter_ > 500
    assert length(numbers(model), shortest_least_squares(X, y, np.ones(len(y)))) <= model.bound_
    assert model.bound_ < 1e-6 * np.linalg.norm(model.coef_)


def test_several_outputs_in_one_prompt() -> None:
    X, y, s = data(3, d=2)
    Y = np.stack([y * scale + shift for scale, shift in [(1.0, 0.0), (1e-4, 5.0), (1e6, 0.0)] * 4], axis=1)
    model = by_products(0.5).fit(X, Y, s)
    assert model.coef_.shape == (12, 2)
    assert sum(name.startswith("b") for name in model.network_.network.inputs) == 8 * 3  # 8 targets of 3 numbers
    for k in range(12):
        optimum = shortest_least_squares(X, Y[:, k], s, Fraction(1, 2))
        assert length(np.append(model.coef_[k], model.intercept_[k]), optimum) <= model.bound_
        alone = by_products(0.5).fit(X, Y[:, k], s)
        assert np.abs(alone.coef_ - model.coef_[k]).max() <= 1e-7 * np.abs(alone.coef_).max()


def test_many_data_sets_at_once() -> None:
    sets = [data(seed, n) for seed, n in [(4, 20), (5, 7), (6, 31)]]
    shapes = [(X * 10.0**k, np.stack([y] * (k + 1), axis=1), s) for k, (X, y, s) in enumerate(sets)]
    for alpha in (None, 2.0):
        models = by_products(alpha).fit_many(*(list(part) for part in zip(*shapes, strict=True)))
        assert len({id(model.network_) for model in models}) == 1
        for model, (X, Y, s) in zip(models, shapes, strict=True):
            alone = by_products(alpha).fit(X, Y, s)
            assert np.linalg.norm(alone.coef_ - model.coef_) <= alone.bound_ + model.bound_
            assert model.bound_ < 1e-7 * np.linalg.norm(model.coef_)


def test_float32_is_refined() -> None:
    """Slopes are formed in float64, so runs in float32 get further than float32."""
    X, y, s = data(8)
    model = by_products(dtype="float32").fit(X, y, s)
    assert model.network_.network.dtype == "float32"
    assert length(numbers(model), shortest_least_squares(X, y, s)) <= model.bound_ < 1e-8
    coarse = by_products(dtype="float32", tol=1e-2).fit(X, y, s)
    assert coarse.n_iter_ < model.n_iter_
    assert 1e-8 < coarse.bound_ < 1e-2


def test_coarse_tables_take_more_runs() -> None:
    X, y, s = data(9)
    fine, coarse = by_products().fit(X, y, s), by_products(head_tol=1e-3).fit(X, y, s)
    assert fine.n_iter_ < coarse.n_iter_ <= coarse.steps_needed_
    assert coarse.bound_ < 1e-8


def test_the_coefficients_are_what_the_network_says(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, s = data(11)
    run, true = newton_schulz.answers, by_products().fit(X, y, s)
    monkeypatch.setattr(newton_schulz, "answers", lambda net, prompt: 0.0 * run(net, prompt))
    with pytest.warns(ConvergenceWarning, match="are proven to be within"):
        model = by_products().fit(X, y, s)
    assert (model.coef_ == 0).all()
    assert model.bound_ > 0.9 * np.linalg.norm(true.coef_)


def test_what_cannot_be_is_refused() -> None:
    X, y = np.random.default_rng(10).normal(size=(70, 129)), np.arange(70.0)
    for model, words in [
        (by_products(), "128 features and an"),
        (by_products(1.0, fit_intercept=False), "129 features;"),
    ]:
        width = 128 if model.fit_intercept else 129
        with pytest.raises(
            ValueError, match=f"method='newton-schulz' is for at most 128 coefficients, but X has {words}"
        ):
            model.fit(X[:, :width], y)
        with pytest.raises(ValueError, match="method='newton-schulz'"):
            model.steps_needed(X[:, :width], y)
    with pytest.raises(ValueError, match=r"'method' parameter of Ridge .* Got 'newton'"):
        by_products(1.0, method="newton").fit(X, y)
