"""HuberRegressor: scikit-learn's objective on the given data, the proven distance, and data with a scale of 0."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import HuberRegressor as TheirHuberRegressor
from support.optima import huber_at, huber_problem

from weightwright import incontext
from weightwright.estimators.solving import huber_fit
from weightwright.estimators.solving.huber_fit import huber_contexts
from weightwright.estimators.solving.huber_plan import plan_stages, rehearse_stage
from weightwright.incontext.networks.huber_network import plain_huber

EPSILON, ALPHA = 1.35, 0.0001


def data(seed: int = 0, n: int = 30) -> tuple[np.ndarray, np.ndarray]:
    """Two features of unequal size, noise with heavy tails."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)) * [30.0, 0.01] + [100.0, 0.0]
    return X, X @ [0.1, -200.0] + 5.0 + rng.standard_t(1.5, size=n)


def objective(model: Any, X: np.ndarray, y: np.ndarray, s: np.ndarray | None = None) -> float:
    """As scikit-learn's documentation has it."""
    z = (X @ model.coef_ + model.intercept_ - y) / model.scale_
    h = np.where(np.abs(z) <= model.epsilon, z**2, 2 * model.epsilon * np.abs(z) - model.epsilon**2)
    return float(np.sum((1.0 if s is None else s) * (1 + h) * model.scale_) + model.alpha * np.sum(model.coef_**2))


def within(one: Any, other: Any, *bounds: float) -> bool:
    """Whether coefficients and intercepts are as near as the sum of the bounds says; in fractions."""
    pairs = zip([*one.coef_, one.intercept_], [*other.coef_, other.intercept_], strict=True)
    off = sum(((Fraction(float(a)) - Fraction(float(b))) ** 2 for a, b in pairs), Fraction(0))
    return off <= sum(map(Fraction, bounds), Fraction(0)) ** 2


@dataclass(frozen=True)
class Known:
    coef_: list[float]
    intercept_: float


def contexts(alpha: float = ALPHA, intercept: bool = True) -> Any:
    problems = [
        huber_problem(X, y, np.linspace(0.5, 2.0, len(y)), alpha, intercept) for X, y in (data(1, 30), data(2, 28))
    ]
    return huber_contexts(problems, EPSILON)[0]


@pytest.mark.few(4)
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("alpha", [0.0, ALPHA, 3.0])
def test_it_is_scikit_learns_objective(alpha: float, intercept: bool) -> None:
    X, y = data()
    given: dict[str, Any] = {"alpha": alpha, "fit_intercept": intercept, "epsilon": 1.5}
    ours = incontext.HuberRegressor(**given).fit(X, y)
    theirs = TheirHuberRegressor(**given, tol=1e-10, max_iter=10**5).fit(X, y)
    assert objective(ours, X, y) <= objective(theirs, X, y)  # theirs stops early
    assert abs(ours.scale_ - theirs.scale_) < 1e-2 * ours.scale_
    assert ours.bound_ < 1e-8 * np.linalg.norm(np.append(ours.coef_, ours.intercept_))
    assert ours.scale_bound_ < 1e-8 * ours.scale_
    assert (ours.intercept_ != 0) == intercept
    size = np.abs(X @ ours.coef_ + ours.intercept_ - y)
    assert ours.outliers_.tolist() == (size > 1.5 * ours.scale_).tolist()
    assert 0 < ours.outliers_.sum() < len(y)


def test_the_bound_is_that_of_the_distance_to_the_optimum() -> None:
    X, y = data()
    s = np.random.default_rng(3).uniform(0.5, 3.0, size=len(y))
    model = incontext.HuberRegressor().fit(X, y, s)
    found = huber_at(X, y, s, EPSILON, ALPHA, True, model.coef_, model.intercept_, model.scale_)
    assert (model.bound_, model.scale_bound_) == (found.bound, found.scale)
    assert model.bound_ > 0
    assert incontext.HuberRegressor(alpha=0.01).fit(X, y, s).bound_ != model.bound_


def test_weights_count_samples() -> None:
    X, y = data(n=20)
    s = np.arange(20) % 3
    weighted = incontext.HuberRegressor().fit(X, y, s)
    repeated = incontext.HuberRegressor().fit(np.repeat(X, s, axis=0), np.repeat(y, s))
    assert within(weighted, repeated, weighted.bound_, repeated.bound_)
    assert weighted.bound_ + repeated.bound_ < 1e-6
    assert len(weighted.outliers_) == 20


def test_scaling_targets_by_a_power_of_two_changes_nothing_else() -> None:
    """F(t w, t c, t sigma) with t y and alpha/t is t F: networks and prompts are the same to the last bit."""
    X, y = data(n=20)
    one, other = (
        incontext.HuberRegressor().fit(X, y),
        incontext.HuberRegressor(alpha=ALPHA / 1024).fit(X, 1024 * y),
    )
    assert (other.coef_ == 1024 * one.coef_).all()
    assert other.scale_ == 1024 * one.scale_
    assert other.n_iter_ == one.n_iter_


@pytest.mark.few(1)
@pytest.mark.parametrize("alpha", [0.0, ALPHA])
def test_many_at_once(alpha: float) -> None:
    sets = [data(1, 30), data(2, 25), (np.arange(6.0).reshape(3, 2) ** 2, np.full(3, 7.0))]
    weights = [np.linspace(1, 2, 30), None, None]
    together = incontext.HuberRegressor(alpha=alpha)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # without a penalty the third has many optima
        models = together.fit_many([X for X, _ in sets], [y for _, y in sets], weights)
    assert not hasattr(together, "coef_")
    for model, (X, y), s in zip(models[:2], sets, weights, strict=False):
        alone = incontext.HuberRegressor(alpha=alpha).fit(X, y, s)
        assert within(model, alone, model.bound_, alone.bound_)
        assert model.bound_ + alone.bound_ < 1e-6
        assert abs(model.scale_ - alone.scale_) <= model.scale_bound_ + alone.scale_bound_
    assert models[2].scale_ < 1e-8
    assert abs(models[2].intercept_ - 7) < 1e-8
    assert models[0].network_ is models[1].network_


def test_too_few_steps_are_said_before_and_after() -> None:
    X, y = data()
    needed = incontext.HuberRegressor().steps_needed(X, y)
    with pytest.warns(ConvergenceWarning) as told:
        model = incontext.HuberRegressor(max_steps=4).fit(X, y)
    assert f"need about {needed} steps" in str(told[0].message)
    assert "max_steps=4" in str(told[0].message)
    assert "after 4 steps" in str(told[1].message)
    assert f"within {model.bound_:.3g} of the optimum" in str(told[1].message)
    assert (model.n_iter_, model.steps_needed_) == (4, needed)
    full = incontext.HuberRegressor().fit(X, y)
    assert within(model, full, model.bound_, full.bound_)
    assert not within(model, full, 1e-3)
    assert (full.n_iter_, full.steps_needed_) == (needed, needed)


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("X", "y", "coef", "intercept"),
    [
        ([[1.0, 2.0], [3.0, 5.0], [4.0, 9.0]], [0.3, 0.3, 0.3], [0.0, 0.0], 0.3),  # constant targets
        ([[1.0, 2.0], [3.0, 5.0], [4.0, 9.0]], [0.0, 0.0, 0.0], [0.0, 0.0], 0.0),
        ([[2.0, 1.0]], [3.0], [0.0, 0.0], 3.0),  # one sample
        ([[0.0], [1.0], [2.0], [3.0]], [1.0, 3.0, 5.0, 7.0], [2.0], 1.0),  # a line
        ([[1.0, 1.0, 0.0], [0.0, 0.0, 0.0]], [5.0, 1.0], [2.0, 2.0, 0.0], 1.0),  # fewer samples: the shortest one
    ],
)
def test_where_all_samples_can_be_fitted_the_scale_is_nearly_0(X: Any, y: Any, coef: Any, intercept: float) -> None:
    model = incontext.HuberRegressor().fit(X, y)
    assert within(model, Known(coef, intercept), model.bound_)
    assert model.bound_ < 1e-7
    assert 0 < model.scale_ <= model.scale_bound_ < 1e-7
    assert not model.outliers_.any()


def test_without_an_intercept_one_sample_gives_the_shortest_coefficients() -> None:
    model = incontext.HuberRegressor(fit_intercept=False).fit([[3.0, 4.0]], [50.0])
    assert within(model, Known([6.0, 8.0], 0.0), model.bound_)
    assert model.bound_ < 1e-7
    assert model.intercept_ == 0.0


@pytest.mark.few(1)
@pytest.mark.parametrize("outliers", [0, 2])
def test_targets_without_noise_have_a_scale_of_rounding_errors(outliers: int) -> None:
    X = np.random.default_rng(0).normal(size=(20, 2))
    y = X @ [0.1, 0.7] + 0.3
    y[:outliers] += 5.0
    model = incontext.HuberRegressor().fit(X, y)
    assert model.bound_ < 1e-8
    assert model.scale_bound_ < 1e-8
    assert np.abs(model.coef_ - [0.1, 0.7]).max() < model.bound_ + 1e-15


def test_an_optimum_that_is_not_found_is_said_to_be_unknown() -> None:
    """Whole numbers: all samples but one can be fitted exactly, so the best scale is 0."""
    X = np.random.default_rng(0).integers(-4, 5, size=(20, 2)).astype(float)
    y = X @ [1.0, 2.0] + 3.0
    y[4] += 50.0
    with pytest.warns(ConvergenceWarning, match=r"within inf of the optimum .*scale") as said:
        model = incontext.HuberRegressor().fit(X, y)
    assert "labels" not in str(said[-1].message)
    assert model.bound_ == model.scale_bound_ == math.inf
    assert np.abs(model.coef_ - [1.0, 2.0]).max() < 1e-8


def test_predictions_and_their_bounds() -> None:
    X, y = data()
    model = incontext.HuberRegressor().fit(X, y)
    exact = [
        sum((Fraction(a) * Fraction(b) for a, b in zip(row, model.coef_.tolist(), strict=True)), Fraction(0))
        + Fraction(model.intercept_)
        for row in X.tolist()
    ]
    for found, bound, value in zip(model.predict(X).tolist(), model.prediction_bound(X).tolist(), exact, strict=True):
        assert abs(Fraction(found) - value) <= Fraction(bound) < Fraction(1, 10**8)


def test_float32() -> None:
    X, y = data()
    model, finer = (
        incontext.HuberRegressor(dtype="float32", head_tol=1e-4).fit(X, y),
        incontext.HuberRegressor().fit(X, y),
    )
    assert model.network_.network.dtype == "float32"
    assert within(model, finer, model.bound_, finer.bound_)
    assert finer.bound_ < model.bound_ < 1e-2 * np.linalg.norm(np.append(model.coef_, model.intercept_))


def test_networks_are_built_for_larger_numbers_where_they_turn_out_larger(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = data()
    model = incontext.HuberRegressor().fit(X, y)
    monkeypatch.setattr(huber_fit, "ROOM", 0.25)
    tight = incontext.HuberRegressor().fit(X, y)
    assert tight.network_ is not model.network_
    assert within(tight, model, tight.bound_, model.bound_)
    assert tight.bound_ < 1e-6


def test_what_cannot_be_is_refused() -> None:
    X, y = data()
    for wrong, name in (({"epsilon": 0.5}, "epsilon"), ({"alpha": -1.0}, "alpha"), ({"max_steps": 0}, "max_steps")):
        with pytest.raises(ValueError, match=f"The '{name}' parameter of HuberRegressor"):
            incontext.HuberRegressor(**wrong).fit(X, y)
    with pytest.raises(ValueError, match="y should be a 1d array"):
        incontext.HuberRegressor().fit(X, np.stack([y, y], axis=1))
    with pytest.raises(ValueError, match=r"X: the largest entry of column 0 is .*e\+20\d in size"):
        incontext.HuberRegressor().fit(X * 1e200, y)


def test_the_rehearsal_is_the_plain_algorithm() -> None:
    many = contexts()
    theta = many.start
    step = np.full_like(theta, 0.05)
    run = rehearse_stage(many, theta, step, 16.0, 8, 0.0)
    assert run.end == "limit"
    for b in range(2):
        used = many.weights[b] > 0
        given: dict[str, Any] = {"momentum": 0.6, "steps": 8, "shrink": 0.05 * many.ridge[:-1], "epsilon": EPSILON}
        path = plain_huber(
            many.rows[b, used, :-1],
            many.targets[b, used],
            step=step[b] * many.weights[b].sum(),
            start=theta[b],
            sample_weight=many.weights[b, used],
            **given,
        )
        assert np.abs(path[-1, 1] - run.theta[b]).max() < 1e-13
        assert run.lowest[b] <= path[:, 0, -1].min()
        assert run.highest[b] >= path[:-1, 0, -1].max()


@pytest.mark.parametrize("intercept", [False, True])
def test_slopes_and_second_derivatives(intercept: bool) -> None:
    many = contexts(0.5, intercept)
    rng = np.random.default_rng(0)
    theta = many.start + rng.normal(size=many.start.shape) * 0.1
    e = 1e-6 * np.eye(theta.shape[1])
    by_differences = np.stack([(many.values(theta + d) - many.values(theta - d)) / 2e-6 for d in e], axis=1)
    gradient = many.gradient(theta)
    assert np.abs(gradient - by_differences).max() < 1e-7
    slopes = [many.gradient(t) for d in e for t in (theta + d, theta - d)]
    second = np.stack([(slopes[2 * j] - slopes[2 * j + 1]) / 2e-6 for j in range(len(e))], axis=2)
    assert np.abs(many.hessian(theta) - second).max() < 1e-5
    assert (np.linalg.eigvalsh(many.hessian(theta, everyone=True) - many.hessian(theta))[:, 0] > -1e-12).all()


def test_plans_follow_the_scale() -> None:
    """From a scale of 1 down to 1e-4 of that in stages, each for half of the scale of the last."""
    X = np.random.default_rng(0).normal(size=(30, 2))
    y = X @ [1.0, 2.0] + 1e-4 * np.random.default_rng(1).normal(size=30)
    plan = plan_stages(huber_contexts([huber_problem(X, y, np.ones(30), ALPHA, True)], EPSILON)[0], 1e-9, 5000)
    assert plan.settled
    assert not plan.unfinished
    assert len(plan.stages) > 8
    assert plan.needed < 150
    longest = [float(stage.step.max()) for stage in plan.stages]
    assert longest[0] > 1000 * longest[-1]
