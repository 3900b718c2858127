"""Logistic and Poisson regression by Newton's method: against optima in 50 digits; what is said where there is none."""

from __future__ import annotations

import warnings
from typing import Any

import mpmath
import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from weightwright import incontext

Model = incontext.LogisticRegression | incontext.PoissonRegressor
KINDS = ("logistic", "poisson")


def make(kind: str, strength: float, **more: Any) -> Model:
    return (
        incontext.LogisticRegression(C=1 / strength, **more)
        if kind == "logistic"
        else incontext.PoissonRegressor(alpha=strength, **more)
    )


def data(kind: str, seed: int, apart: float = 1.0, n: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """apart: by how much two of three columns differ."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    X[:, 1] = X[:, 0] + apart * X[:, 1]
    s = X @ [0.5, -0.5, 0.3] + 0.2
    return X, (s + rng.logistic(size=n) > 0).astype(int) if kind == "logistic" else rng.poisson(np.exp(s))


def optimum(kind: str, X: np.ndarray, y: np.ndarray, s: np.ndarray, strength: float) -> list[mpmath.mpf]:
    """Coefficients and intercept in 50 digits, by Newton's method on the objective as scikit-learn has it."""
    with mpmath.workdps(50):
        rows, D = [[mpmath.mpf(x) for x in [*row, 1.0]] for row in X.tolist()], X.shape[1] + 1
        theta = mpmath.zeros(D, 1)
        total = mpmath.mpf(1) if kind == "logistic" else sum(map(mpmath.mpf, s.tolist()))
        for _ in range(60):
            g, H = mpmath.zeros(D, 1), mpmath.zeros(D)
            for j in range(D - 1):
                g[j], H[j, j] = strength * theta[j], mpmath.mpf(strength)
            for row, target, weight in zip(rows, y.tolist(), s.tolist(), strict=True):
                z = sum(a * theta[j] for j, a in enumerate(row))
                mean = 1 / (1 + mpmath.exp(-z)) if kind == "logistic" else mpmath.exp(z)
                curved = mean * (1 - mean) if kind == "logistic" else mean
                for j in range(D):
                    g[j] += weight / total * (mean - target) * row[j]
                    for k in range(D):
                        H[j, k] += weight / total * curved * row[j] * row[k]
            step = mpmath.lu_solve(H, g)
            theta -= step
            if mpmath.norm(step) < mpmath.mpf(10) ** -45:
                return list(theta)
    raise AssertionError("the reference did not arrive")


def numbers(model: Model) -> np.ndarray:
    return np.append(np.ravel(model.coef_), model.intercept_)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("apart", "strength", "weighted"), [(1.0, 1.0, True), (1e-3, 1e-8, False)])
def test_the_optimum_is_within_the_bound(kind: str, apart: float, strength: float, weighted: bool) -> None:
    X, y = data(kind, 1, apart)
    s = np.random.default_rng(2).uniform(0.5, 2, len(y)) if weighted else np.ones(len(y))
    model = make(kind, strength, method="newton-schulz").fit(X, y, s)
    exact = optimum(kind, X, y, s, strength)
    with mpmath.workdps(50):
        off = mpmath.norm([mpmath.mpf(a) - b for a, b in zip(numbers(model).tolist(), exact, strict=True)])
        assert off <= mpmath.mpf(model.bound_)
        assert mpmath.mpf(model.bound_) < 1e-7 * mpmath.norm(exact)
    assert model.n_iter_ <= 2 * model.steps_needed_ < 500


@pytest.mark.parametrize("kind", ["logistic", pytest.param("poisson", marks=pytest.mark.slow)])
def test_the_default_is_gradients_where_they_arrive(kind: str) -> None:
    X, y = data(kind, 3)
    near = make(kind, 1.0).fit(X, y)
    assert near.method == "auto"
    assert near.network_.certificate is not None
    assert near.n_iter_ == make(kind, 1.0, method="gradient").fit(X, y).n_iter_
    X, y = data(kind, 3, apart=1e-4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        far = make(kind, 1e-9, max_steps=400).fit(X, y)
    assert far.network_.certificate is None  # nothing is claimed of a pass
    assert far.n_iter_ <= far.steps_needed_ == far.steps_needed(X, y) < 400
    assert far.bound_ < 1e-5 * np.linalg.norm(numbers(far))
    with pytest.warns(ConvergenceWarning) as said:
        make(kind, 1e-9, max_steps=400, method="gradient").fit(X, y)
    assert "Nesterov" in str(said[0].message)


def test_several_classes_are_one_against_others_or_refused() -> None:
    X, _ = data("logistic", 5)
    y = np.arange(len(X)) % 3
    apart = incontext.LogisticRegression(method="newton-schulz", multi_class="ovr").fit(X, y)
    assert np.abs(apart.coef_ - incontext.LogisticRegression(multi_class="ovr").fit(X, y).coef_).max() < 1e-8
    with pytest.raises(ValueError, match="y has 3 classes in one model; take multi_class='ovr'"):
        incontext.LogisticRegression(method="newton-schulz").fit(X, y)


def test_data_without_an_optimum_are_refused_and_the_default_warns() -> None:
    X = np.linspace(-1, 1, 20)[:, None]
    y = (X[:, 0] > 0).astype(int)
    with pytest.raises(ValueError, match="does not arrive at an optimum"):
        incontext.LogisticRegression(C=np.inf, method="newton-schulz").fit(X, y)
    with pytest.warns(ConvergenceWarning):
        incontext.LogisticRegression(C=np.inf, max_steps=50).fit(X, y)
    with pytest.raises(ValueError, match="does not arrive at an optimum"):
        incontext.PoissonRegressor(alpha=0.0, method="newton-schulz").fit(X, np.zeros(20))


def test_many_data_sets_and_float32() -> None:
    sets = [data("poisson", seed) for seed in range(2)]
    Xs, ys = zip(*sets, strict=True)
    many = incontext.PoissonRegressor(alpha=0.1, method="newton-schulz").fit_many(Xs, ys)
    for model, X, y in zip(many, Xs, ys, strict=True):
        assert np.abs(model.coef_ - incontext.PoissonRegressor(alpha=0.1).fit(X, y).coef_).max() < 1e-8
    X, y = sets[0]
    coarse = incontext.PoissonRegressor(alpha=0.1, method="newton-schulz", dtype="float32", tol=1e-4).fit(X, y)
    assert np.linalg.norm(coarse.coef_ - many[0].coef_) <= coarse.bound_ + many[0].bound_ < 1e-3


def test_more_features_than_it_is_for() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 130)), np.arange(300) % 2
    with pytest.raises(ValueError, match="at most 128 coefficients"):
        incontext.LogisticRegression(method="newton-schulz").fit(X, y)


def test_more_samples_than_a_prompt_holds() -> None:
    X, y = data("logistic", 9, n=9000)
    model = incontext.LogisticRegression().fit(X, y)
    assert model.network_.certificate is None
    assert model.bound_ < 1e-8
    with pytest.raises(ValueError, match="X has 9000 samples"):
        incontext.LogisticRegression(method="gradient").fit(X, y)


def test_what_rounding_leaves_is_no_reason_to_refuse() -> None:
    X, y = data("logistic", 11)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = incontext.LogisticRegression(method="newton-schulz", tol=1e-17).fit(X, y)
    assert model.bound_ < 1e-13 * np.linalg.norm(numbers(model))
