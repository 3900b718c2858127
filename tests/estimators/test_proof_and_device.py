"""Estimators without the enclosure of the optimum, and where their networks run."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning

from weightwright import incontext

ESTIMATORS = ("LinearRegression", "Ridge", "Lasso", "ElasticNet", "LogisticRegression", "PoissonRegressor")


def data(name: str) -> tuple[Any, Any]:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(24, 2))
    s = X @ [0.8, -0.5]
    y = s + 0.1 * rng.normal(size=24)
    if name == "LogisticRegression":
        return X, (s + rng.logistic(size=24) > 0).astype(int)
    return X, rng.poisson(np.exp(s)).astype(float) if name == "PoissonRegressor" else y


@pytest.mark.parametrize("name", [*ESTIMATORS[1:3], *(pytest.param(one, marks=pytest.mark.slow) for one in (
    "LinearRegression", "ElasticNet", "LogisticRegression", "PoissonRegressor", "HuberRegressor"))])  # fmt: skip
def test_without_proof_nothing_is_called_a_bound(name: str) -> None:
    X, y = data(name)
    proven = getattr(incontext, name)().fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = getattr(incontext, name)(proof=False).fit(X, y)
    assert np.array_equal(model.coef_, proven.coef_)
    assert math.isfinite(proven.bound_)
    assert model.bound_ == math.inf


def test_an_early_stop_is_still_said() -> None:
    X, y = data("Ridge")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        incontext.Ridge(proof=False, max_steps=2).fit(X, y)
    early, after = (str(one.message) for one in said if one.category is ConvergenceWarning)
    assert "the fit will stop early" in early
    assert "proof=False: it was not enclosed" in after


def test_a_device_is_named_as_torch_names_it() -> None:
    X, y = data("Ridge")
    here, there = incontext.Ridge().fit(X, y), incontext.Ridge(device=torch.device("cpu")).fit(X, y)
    assert np.array_equal(here.coef_, there.coef_)
    assert there.network_ is here.network_
    with pytest.raises(RuntimeError, match="device"):
        incontext.Ridge(device="nowhere").fit(X, y)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("name", ESTIMATORS)
def test_many_fits_on_a_gpu_are_those_of_the_cpu(name: str) -> None:
    X, y = data(name)
    Xs, ys = [X, X[::-1], X + 0.25], [y, y[::-1], y]
    ours = getattr(incontext, name)(device="cuda").fit_many(Xs, ys)
    theirs = getattr(incontext, name)().fit_many(Xs, ys)
    for a, b in zip(ours, theirs, strict=True):
        assert a.network_.device.type == "cuda"
        assert np.linalg.norm(a.coef_ - b.coef_) <= a.bound_ + b.bound_
