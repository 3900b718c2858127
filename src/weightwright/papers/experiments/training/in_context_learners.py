"""Constructed counterparts of AE-E3 and AE-E4: weights that stand in the prompt, and learning from (X, y) alone."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from weightwright.numbers import Floats
from weightwright.papers.experiments.machinery.study_units import Json


def make_learner(name: str, lasso: float, ridge: float, **options: Any) -> Any:
    """The in-context estimator of an algorithm, without an intercept."""
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


def learn_in_one_pass(
    X: Floats, y: Floats, Xq: Floats, ridge: float, steps: int, momentum: float, largest_weight: float = 16.0
) -> Json:
    """Ridge regression (0: least squares) by `ww.incontext.learner`: examples, penalty and queries go in, predictions
    come out, in one forward pass of a frozen network. Nesterov's steps.

    largest_weight: how large the weights may become on the way.
    """
    import torch

    from weightwright.incontext import Ranges, learner

    def room(*arrays: Floats) -> float:
        return 2.0 ** np.ceil(np.log2(1.01 * max(float(np.abs(one).max()) for one in arrays)))

    penalty = ridge / len(X)
    ranges = Ranges(x=room(X, Xq), y=room(y), w=largest_weight, ridge=max(1.0, penalty))
    icl = learner(X.shape[1], len(X), len(Xq), "squared", steps, ranges, momentum=momentum, progress=False)
    start = time.perf_counter()
    with torch.no_grad():
        predictions = icl(icl.prompt(X, y, Xq, ridge=penalty)).numpy().ravel()
    said = icl.net.certificate
    return {
        "predictions": predictions,
        "status": "UNCHECKED" if said is None else said.status,
        "seconds": time.perf_counter() - start,
    }


def exact_weights(name: str, X: Floats, y: Floats, lasso: float, ridge: float) -> Floats:
    """The algorithm itself, by other means than ours: scikit-learn and lapack."""
    from sklearn.linear_model import Lasso

    if name == "lasso":
        found: Floats = Lasso(alpha=lasso, fit_intercept=False, tol=1e-12, max_iter=100_000).fit(X, y).coef_
        return found
    if name == "ridge":
        return np.asarray(np.linalg.solve(X.T @ X + ridge * np.eye(X.shape[1]), X.T @ y), float)
    return np.asarray(np.linalg.lstsq(X, y, rcond=None)[0], float)
