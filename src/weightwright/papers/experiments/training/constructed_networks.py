"""Constructed networks next to the trained ones: their errors and bounds, and learning in context from (X, y) alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from weightwright.numbers import Floats
from weightwright.papers.experiments.machinery.study_units import Json


@torch.no_grad()
def run(net: Any, *inputs: Any) -> torch.Tensor:
    """What a frozen network returns."""
    y: torch.Tensor = net(*inputs)
    return y


def describe_certificate(net: Any) -> Json:
    """The bound of a constructed network and its status, as its certificate has them."""
    said = net.certificate
    assert said is not None
    return {"bound": float(said.bound), "status": said.status}


def describe_network(net: Any, errors: Any) -> Json:
    """A network's errors of single numbers, and its certificate."""
    array = np.asarray(errors)
    return {"mse": float((array**2).mean()), "largest": float(np.abs(array).max())} | describe_certificate(net)


def learn_in_context(name: str, X: Floats, y: Floats, Xq: Floats, lasso: float, ridge: float) -> Json:
    """Predictions of the in-context estimator of an algorithm for new rows, and its bound to the exact optimum."""
    from weightwright import incontext

    model: Any = incontext.LinearRegression(fit_intercept=False)
    if name == "lasso":
        model = incontext.Lasso(alpha=lasso, fit_intercept=False)
    elif name == "ridge":
        model = incontext.Ridge(alpha=ridge, fit_intercept=False)
    model.fit(X, y)
    return {"predictions": model.predict(Xq), "bound": float(model.bound_)}


def learn_in_one_pass(
    X: Floats, y: Floats, Xq: Floats, ridge: float, steps: int, momentum: float, largest_weight: float = 16.0
) -> Json:
    """Ridge regression (0: least squares) by `ww.incontext.learner`: examples, penalty and queries go in, predictions
    come out, in one forward pass of a frozen network. Nesterov's steps.

    largest_weight: how large the weights may become on the way.
    """
    from weightwright.incontext import Ranges, learner

    def room(*arrays: Floats) -> float:
        return 2.0 ** np.ceil(np.log2(1.01 * max(float(np.abs(one).max()) for one in arrays)))

    penalty = ridge / len(X)
    ranges = Ranges(x=room(X, Xq), y=room(y), w=largest_weight, ridge=max(1.0, penalty))
    icl = learner(X.shape[1], len(X), len(Xq), "squared", steps, ranges, momentum=momentum, progress=False)
    predictions = run(icl, icl.prompt(X, y, Xq, ridge=penalty)).numpy().ravel()
    said = icl.net.certificate
    return {"predictions": predictions, "status": "UNCHECKED" if said is None else said.status}


def learn(unit: Json, name: str, X: Floats, y: Floats, Xq: Floats, yq: Floats) -> Json:
    """One of the two learners on examples (X, y), and its mean squared errors on new rows Xq.

    unit: has the penalties `lasso` and `ridge`, and for the learner in one pass `steps` and `momentum`.
    held_out, to_algorithm: errors to the new rows' own yq, and to what the algorithm predicts.
    algorithm_held_out: the algorithm's own error to yq.
    """
    if unit["one_pass"]:
        ridge = unit["ridge"] if name == "ridge" else 0.0
        said = learn_in_one_pass(X, y, Xq, ridge, unit["steps"], unit["momentum"])
    else:
        said = learn_in_context(name, X, y, Xq, unit["lasso"], unit["ridge"])
    predictions, exact = said.pop("predictions"), Xq @ exact_weights(name, X, y, unit["lasso"], unit["ridge"])
    errors = {"held_out": predictions - yq, "to_algorithm": predictions - exact, "algorithm_held_out": exact - yq}
    return said | {key: float((error**2).mean()) for key, error in errors.items()}


def exact_weights(name: str, X: Floats, y: Floats, lasso: float, ridge: float) -> Floats:
    """The algorithm itself, by other means than ours: scikit-learn and lapack."""
    from sklearn.linear_model import Lasso

    if name == "lasso":
        found: Floats = Lasso(alpha=lasso, fit_intercept=False, tol=1e-12, max_iter=100_000).fit(X, y).coef_
        return found
    if name == "ridge":
        return np.asarray(np.linalg.solve(X.T @ X + ridge * np.eye(X.shape[1]), X.T @ y), float)
    return np.asarray(np.linalg.lstsq(X, y, rcond=None)[0], float)
