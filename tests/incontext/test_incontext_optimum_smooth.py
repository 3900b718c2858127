"""Distances to the optimum of smooth losses: logistic, Poisson, Huber's with its scale, several classes.

Against 60 digits of Newton's method in mpmath, without tolerance.
"""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from sklearn.linear_model import HuberRegressor
from support import optima
from support.optima import AWAY, at, data, huber_at, multinomial_at, perturbed, require_sharp

from weightwright import incontext


def logistic_gradient(X: np.ndarray, y: np.ndarray, s: np.ndarray, ridge: Fraction) -> optima.Gradient:
    return optima.gradient(X, s, ridge, lambda m, i: -y[i] / (1 + mpmath.exp(y[i] * m)))


def poisson_gradient(X: np.ndarray, y: np.ndarray, s: np.ndarray, ridge: Fraction) -> optima.Gradient:
    return optima.gradient(X, s, ridge, lambda m, i: mpmath.exp(m) - y[i])


def log_cosh_gradient(X: np.ndarray, y: np.ndarray, s: np.ndarray, ridge: Fraction) -> optima.Gradient:
    return optima.gradient(X, s, ridge, lambda m, i: mpmath.tanh(m - y[i]))


def kinked_gradient(X: np.ndarray, y: np.ndarray, s: np.ndarray, ridge: Fraction) -> optima.Gradient:
    return optima.gradient(X, s, ridge, lambda m, i: min(max(m - y[i], mpmath.mpf(-1)), mpmath.mpf(1)))


def hinge_gradient(X: np.ndarray, y: np.ndarray, s: np.ndarray, ridge: Fraction) -> optima.Gradient:
    return optima.gradient(X, s, ridge, lambda m, i: -y[i] * min(max(1 - y[i] * m, mpmath.mpf(0)), mpmath.mpf(2)) / 2)


SMOOTH = {
    "logistic": (incontext.loss("logistic"), logistic_gradient, Fraction(1, 3)),
    "logistic without ridge": (incontext.loss("logistic"), logistic_gradient, Fraction(0)),
    "poisson": (incontext.loss("poisson"), poisson_gradient, Fraction(1, 10)),
    "huber": (incontext.loss("huber", delta=1.0), kinked_gradient, Fraction(0)),
    "hinge": (incontext.loss("hinge", width=2.0), hinge_gradient, Fraction(1, 2)),
    "own": (incontext.loss(formula="log(cosh(x))"), log_cosh_gradient, Fraction(0)),
}


def targets(kind: str, X: np.ndarray, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    signal = (X - X.mean(axis=0)) / X.std(axis=0) @ np.linspace(0.5, -0.25, X.shape[1])
    if kind == "signs":
        return np.where(signal + rng.logistic(size=len(X)) > 0, 1.0, -1.0)
    return rng.poisson(np.exp(signal)).astype(float) if kind == "counts" else signal + rng.normal(size=len(X))


@pytest.mark.parametrize("scale", ["well", "badly"])
@pytest.mark.parametrize("name", SMOOTH)
def test_smooth_losses_to_sixty_digits(name: str, scale: str) -> None:
    own, gradient, ridge = SMOOTH[name]
    X, _, s = data(30, 24)
    if scale == "badly":
        X = X * [1e3, 1.0, 1e-4] + [1e5, 0.0, 1.0]
    y = targets(own.targets, X, 31)
    objective = incontext.Problem(X, y, own, s, ridge=ridge, intercept=True)
    optimum = optima.refined(gradient(X, y, s, ridge), [0.0] * 4)
    for seed, away in enumerate(AWAY):
        v = perturbed(optimum, seed, away)
        require_sharp(at(objective, v), v, optimum)


def test_separable_labels_have_no_optimum() -> None:
    X, _, s = data(32)
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    found = at(incontext.Problem(X, y, incontext.loss("logistic"), s, intercept=True), np.array([30.0, 0.0, 0.0, 0.0]))
    assert found.bound == math.inf
    assert "plane separates" in found.why
    assert (
        at(
            incontext.Problem(X, y, incontext.loss("logistic"), s, ridge=1e-3, intercept=True),
            np.array([5.0, 0.0, 0.0, 0.0]),
        ).bound
        < 10
    )


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("alpha", [0.0, 0.5])
def test_huber_with_its_scale(alpha: float, intercept: bool) -> None:
    X, y, s = data(40, 30)
    y = y + np.where(np.arange(30) % 7 == 3, 20.0, 0.0)
    near = HuberRegressor(alpha=alpha, fit_intercept=intercept, tol=1e-9, max_iter=10_000).fit(X, y, s)
    start = [*near.coef_, *[near.intercept_] * intercept, near.scale_]
    optimum = optima.refined(optima.huber_gradient(X, y, s, 1.35, alpha, intercept), start)
    for seed, away in enumerate(AWAY[:-1]):
        v = perturbed(optimum, seed, away)
        found = huber_at(X, y, s, 1.35, alpha, intercept, v[:3], v[3] if intercept else 0.0, v[-1])
        require_sharp(found, v[:-1], optimum[:-1])
        assert optima.length(v[-1:], optimum[-1:]) <= found.scale


def test_huber_where_samples_change_sides() -> None:
    """So many samples that some lie between the given point and the optimum's side of the kink."""
    X, y, s = data(44, 60)
    near = HuberRegressor(alpha=0.5, tol=1e-9, max_iter=10_000).fit(X, y, s)
    start = [*near.coef_, near.intercept_, near.scale_]
    optimum = optima.refined(optima.huber_gradient(X, y, s, 1.35, 0.5, True), start)
    for seed in range(20):
        v = perturbed(optimum, seed, 10.0 ** -(1 + seed % 4))
        found = huber_at(X, y, s, 1.35, 0.5, True, v[:3], v[3], v[-1])
        require_sharp(found, v[:-1], optimum[:-1])
        assert optima.length(v[-1:], optimum[-1:]) <= found.scale


def test_huber_past_a_singular_hessian() -> None:
    """On the way so few samples are inliers that the Hessian is singular."""
    X, y = [[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]], [0.0, 1.5, 1.75, 3.25, 4.0, 5.0]
    assert huber_at(X, y, [1.0] * 6, 1.35, 0.0, True, [1.0], 0.125, 0.25).bound < 0.03


def test_huber_without_a_best_scale() -> None:
    X, _, s = data(41)
    found = huber_at(X, 2 * X[:, 0], s, 1.35, 0.0, True, [2.0, 0.0, 0.0], 0.0, 1e-9)
    assert found.bound == 0
    assert found.scale == 1e-9
    assert "the best scale is 0" in found.why


def test_multinomial_to_sixty_digits() -> None:
    X, y, s = data(42, 20, 2)
    labels = np.digitize(y, [1.5, 2.5])
    optimum = optima.refined(optima.multinomial_gradient(X, labels, s, 0.25, 3), [0.0] * 9)
    for seed, away in enumerate(AWAY):
        v = perturbed(optimum, seed, away)
        V = v.reshape(3, 3)
        found = multinomial_at(X, labels, s, Fraction(1, 4), True, V[:, :2], V[:, 2])
        require_sharp(found, v, optimum)


def test_multinomial_without_ridge_takes_the_shortest() -> None:
    """Without intercept and ridge, a vector added to all classes changes nothing: their sum is zero at the optimum."""
    X, y, s = data(43, 20, 2)
    labels, W = np.digitize(y, [1.5, 2.5]), np.array([[0.25, 0.5], [0.0, -0.5], [-0.25, 0.0]])
    bounds = [multinomial_at(X, labels, s, Fraction(0), False, W + shift, [0.0] * 3).bound for shift in (0, 3)]
    assert bounds[1] ** 2 == pytest.approx(bounds[0] ** 2 + 6 * 3**2, rel=0.03)
