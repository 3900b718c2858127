"""Constructed counterparts of AE-E3 and AE-E4: weights that stand in the prompt, and learning from (X, y) alone."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from weightwright.experiments.machinery.units import Json
from weightwright.numbers import Floats


def make_learner(name: str, lasso: float, ridge: float, **options: Any) -> Any:
    """The in-context estimator of an algorithm, without an intercept.

    The one place where learners from (X, y) are chosen: one that works in a single forward pass goes in here.
    """
    from weightwright import incontext

    options = {"fit_intercept": False} | options
    if name == "lasso":
        return incontext.Lasso(alpha=lasso, **options)
    return incontext.Ridge(alpha=ridge, **options) if name == "ridge" else incontext.LinearRegression(**options)


def learn_in_context(name: str, X: Floats, y: Floats, Xq: Floats, lasso: float, ridge: float, **options: Any) -> Json:
    """Predictions of the constructed learner for new rows, how long it took, and its bound to the exact optimum."""
    start = time.perf_counter()
    model = make_learner(name, lasso, ridge, **options).fit(X, y)
    return {"predictions": model.predict(Xq), "bound": float(model.bound_), "seconds": time.perf_counter() - start}


def exact_weights(name: str, X: Floats, y: Floats, lasso: float, ridge: float) -> Floats:
    """The algorithm itself, by other means than ours: scikit-learn and lapack."""
    from sklearn.linear_model import Lasso

    if name == "lasso":
        found: Floats = Lasso(alpha=lasso, fit_intercept=False, tol=1e-12, max_iter=100_000).fit(X, y).coef_
        return found
    if name == "ridge":
        return np.asarray(np.linalg.solve(X.T @ X + ridge * np.eye(X.shape[1]), X.T @ y), float)
    return np.asarray(np.linalg.lstsq(X, y, rcond=None)[0], float)
