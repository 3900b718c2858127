"""Fits on data of extreme scale: a fit within `bound_` of an exact reference, or a ValueError in the user's words."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from flint import arb, arb_mat, ctx
from support.optima import shortest_least_squares, sparse_optimum

import weightwright as ww
from weightwright import incontext

RNG = np.random.default_rng(900)
X = RNG.normal(size=(10, 2))
Y = X @ [1.0, -2.0] + 0.1 * RNG.normal(size=10) + 0.3
LABELS = (Y + RNG.normal(size=10) > 0).astype(int)
COUNTS = np.floor(3 * np.abs(Y))
CONSTANT = np.column_stack([X[:, 0], np.full(10, 0.7)])
SCALES = (1e-300, 1e-90, 1e-60, 1e-30, 1.0, 1e30, 1e60, 1e90, 1e300)
STRENGTHS = (0.0, 1e-300, 1e-60, 1e-6, 1.0, 1e60, 1e300)
NAMES = (
    "LinearRegression",
    "Ridge",
    "Lasso",
    "ElasticNet",
    "LogisticRegression",
    "PoissonRegressor",
    "HuberRegressor",
)
SLOW = ("LogisticRegression", "PoissonRegressor")
ESTIMATORS = [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in NAMES]
#: Of the references for losses that are no squares: bits, and Newton's steps from where a fit ended.
BITS, STEPS = 600, 60
#: Errors that users may meet: what to do, with the argument and its value.
WORDS = re.compile(
    r"X: the largest entry of column \d+ is \S+ in size; from 1e-100 to 1e\+100 it can be fitted: scale the column"
    r"|y: the largest entry of column \d+ is \S+ in size; from 1e-100 to 1e\+100 it can be fitted: scale the column"
    r"|X, y: scale the columns of X \(entries up to \S+ in size\) and y \(up to \S+\) to about 1.* are too large or too"
    r" small for a network in float(32|64)"
    r"|X, y: no step keeps the scale positive; their numbers are too large, or too unequal"
)


def penalty(name: str, strength: float) -> dict[str, float]:
    if name == "LinearRegression":
        return {}
    return {"C": 1 / strength if strength else math.inf} if name == "LogisticRegression" else {"alpha": strength}


def target(name: str, scale: float) -> np.ndarray:
    return LABELS if name == "LogisticRegression" else (COUNTS if name == "PoissonRegressor" else Y) * scale


def reference(name: str, x: np.ndarray, y: np.ndarray, model: Any) -> list[Fraction] | None:
    """The exact optimum; None where none is known."""
    n, intercept, same = len(x), bool(model.fit_intercept), np.ones(len(x))
    if name == "HuberRegressor":
        return None
    strength = Fraction(getattr(model, "alpha", 0))
    if name in ("LinearRegression", "Ridge"):
        return shortest_least_squares(x, y, same, strength, intercept)
    if name in ("Lasso", "ElasticNet"):
        share = Fraction(model.l1_ratio) if name == "ElasticNet" else Fraction(1)
        return sparse_optimum(x, y, same, n * strength * share, n * strength * (1 - share), intercept)
    if name == "LogisticRegression":
        strength = Fraction(1) / Fraction(model.C) if math.isfinite(model.C) else Fraction(0)
        derivatives = smooth(x, np.where(y > 0, 1.0, -1.0), strength, intercept, logistic)
    else:
        derivatives = smooth(x, y, n * strength, intercept, poisson)
    start = np.append(model.coef_, np.ravel(model.intercept_)[:intercept])
    return newton(derivatives, start.tolist())


def newton(
    derivatives: Callable[[Sequence[arb]], tuple[list[arb], list[list[arb]]]], start: Sequence[float]
) -> list[Fraction] | None:
    """Where the gradient is 0, from `start` on; None where that is not reached. derivatives: gradient and Hessian."""
    before, ctx.prec = ctx.prec, BITS
    try:
        theta = [arb(x) for x in start]
        for _ in range(STEPS):
            g, H = derivatives(theta)
            step = arb_mat(H).solve(arb_mat([[x] for x in g]))
            theta = [(x - step[i, 0]).mid() for i, x in enumerate(theta)]
            if all(abs(step[i, 0]) <= abs(x) * arb(2) ** -200 for i, x in enumerate(theta)):
                return [_rational(x) for x in theta]
    except (ZeroDivisionError, ValueError, OverflowError):
        return None
    finally:
        ctx.prec = before
    return None


def smooth(
    X: np.ndarray, y: np.ndarray, ridge: Fraction, intercept: bool, slopes: Callable[[arb, arb], tuple[arb, arb]]
) -> Callable[[Sequence[arb]], tuple[list[arb], list[list[arb]]]]:
    """Gradient and Hessian of sum_i l(w.x_i + c, y_i) + ridge/2 |w|^2. slopes: l' and l'' of an argument and a
    target."""
    rows = [[*row, *[1.0] * intercept] for row in X.tolist()]
    targets, d = y.tolist(), X.shape[1]
    penalty = arb(ridge.numerator) / ridge.denominator

    def derivatives(theta: Sequence[arb]) -> tuple[list[arb], list[list[arb]]]:
        D = len(theta)
        g = [penalty * theta[i] if i < d else arb(0) for i in range(D)]
        H = [[penalty if i == j < d else arb(0) for j in range(D)] for i in range(D)]
        for row, target in zip(rows, targets, strict=True):
            first, second = slopes(sum((a * t for a, t in zip(row, theta, strict=True)), arb(0)), arb(target))
            for i in range(D):
                g[i] += first * row[i]
                for j in range(D):
                    H[i][j] += second * row[i] * row[j]
        return g, H

    return derivatives


def logistic(z: arb, label: arb) -> tuple[arb, arb]:
    """Of log(1 + exp(-label z)), label 1 or -1."""
    p = 1 / (1 + (label * z).exp())
    return -label * p, p * (1 - p)


def poisson(z: arb, count: arb) -> tuple[arb, arb]:
    """Of exp(z) - count z."""
    return z.exp() - count, z.exp()


def _rational(x: Any) -> Fraction:
    mantissa, exponent = x.mid().man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


def is_fitted(model: Any, x: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None) -> bool:
    """Fit; where the data are refused, only in the words of users."""
    said = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model.fit(x, y, sample_weight=weights)
        except ValueError as error:
            said = error
    assert not isinstance(said, ww.WeightwrightError | np.linalg.LinAlgError), said
    assert said is None or WORDS.search(str(said)), said
    return said is None


def fits_or_says_why(name: str, x: np.ndarray, y: np.ndarray, **options: Any) -> int:
    """Whether there was a reference to compare with; 0 where the data are refused."""
    model = getattr(incontext, name)(max_steps=200, **options)
    if not is_fitted(model, x, y):
        return 0
    found = [Fraction(v) for v in [*np.ravel(model.coef_).tolist(), *np.ravel(model.intercept_).tolist()]]
    optimum = reference(name, x, y, model) if math.isfinite(model.bound_) else None
    if optimum is None:
        return 0
    off = sum(((a - b) ** 2 for a, b in zip(found, optimum, strict=False)), Fraction(0))
    assert off <= Fraction(model.bound_) ** 2, (options, model.bound_)
    return 1


@pytest.mark.few(6)
@pytest.mark.parametrize("drawn", [slice(6), pytest.param(slice(6, 24), marks=pytest.mark.slow)], ids=str)
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_fits_of_any_scale(name: str, dtype: str, fit_intercept: bool, drawn: slice) -> None:
    rng = np.random.default_rng(NAMES.index(name))
    compared = 0
    cases = [(sx, 1.0, k) for sx in (1e-60, 1e60) for k in (1e-6, 0.1, 1.0)]  # the scales of the first report
    random = [tuple(map(float, (rng.choice(SCALES), rng.choice(SCALES), rng.choice(STRENGTHS)))) for _ in range(24)]
    for scale, y_scale, strength in cases + random[drawn]:
        options = {"dtype": dtype, "fit_intercept": fit_intercept, **penalty(name, strength)}
        compared += fits_or_says_why(name, scale * X, target(name, y_scale), **options)
    assert name == "HuberRegressor" or compared >= 5


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_constant_columns_and_unequal_ones(name: str) -> None:
    for scale in (1e-60, 1.0, 1e60):
        for x in (scale * CONSTANT, X * [scale, 1.0], X * [scale, 1 / scale], 0.0 * X):
            for dtype in ("float32", "float64"):
                options = {"dtype": dtype, **penalty(name, 1.0)}
                fits_or_says_why(name, x, target(name, 1.0), **options)


@pytest.mark.few(2)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_penalties_and_weights_at_the_ends_of_floats(name: str) -> None:
    for strength in (5e-324, 1e-300, 1.0, 1e300, 1.7e308):
        for weight in (1e-60, 1.0, 1e60):
            model = getattr(incontext, name)(max_steps=50, **penalty(name, strength))
            is_fitted(model, X, target(name, 1.0), np.full(len(X), weight))
    if name == "LogisticRegression":
        assert is_fitted(incontext.LogisticRegression(C=1e-300, max_steps=50), X, LABELS)
        is_fitted(incontext.LogisticRegression(C=5e-324, max_steps=50), X, LABELS)


def test_a_refusal_names_the_data_and_the_penalty() -> None:
    words = r"X, y: scale the columns of X \(entries up to 1\.59e-90 in size\) and y \(up to 1\.1e\+61\) .*alpha=0\.0"
    with pytest.raises(ValueError, match=words) as caught:
        incontext.PoissonRegressor(alpha=0.0, fit_intercept=False).fit(1e-90 * X, 1e60 * COUNTS)
    assert not isinstance(caught.value, ww.WeightwrightError)
