"""Input that cannot be fitted: errors as scikit-learn words them, with the argument and its value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch

from weightwright import incontext

RNG = np.random.default_rng(200)
X = RNG.normal(size=(20, 3))
Y = X @ [1.0, 2.0, 3.0] + 1.0
LABELS = (Y > 1).astype(int)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            incontext.Ridge(alpha=-1.0),
            r"The 'alpha' parameter of Ridge must be a float in the range \[0.0, inf\) or .* Got -1.0",
        ),
        (incontext.Ridge(alpha=float("nan")), "The 'alpha' parameter of Ridge .* Got nan"),
        (incontext.Lasso(alpha=-0.5), "The 'alpha' parameter of Lasso .* Got -0.5"),
        (incontext.Lasso(alpha=float("inf")), "The 'alpha' parameter of Lasso .* Got inf"),
        (incontext.ElasticNet(alpha=-2), "The 'alpha' parameter of ElasticNet .* Got -2"),
        (
            incontext.ElasticNet(l1_ratio=1.5),
            r"The 'l1_ratio' parameter of ElasticNet must be a float in the range \[0.0, 1.0\]",
        ),
        (incontext.PoissonRegressor(alpha=-1), "The 'alpha' parameter of PoissonRegressor .* Got -1"),
        (incontext.HuberRegressor(alpha=-1), "The 'alpha' parameter of HuberRegressor .* Got -1"),
        (incontext.HuberRegressor(epsilon=0.9), "The 'epsilon' parameter of HuberRegressor .* Got 0.9"),
        (incontext.LinearRegression(method="newton"), "The 'method' parameter of LinearRegression .* Got 'newton'"),
        (
            incontext.LogisticRegression(multi_class="both"),
            "The 'multi_class' parameter of LogisticRegression .* Got 'both'",
        ),
        (
            incontext.LogisticRegression(C=0),
            r"The 'C' parameter of LogisticRegression must be a float in the range \(0.0, inf\]",
        ),
        (
            incontext.LogisticRegression(class_weight="even"),
            "The 'class_weight' parameter of LogisticRegression .* Got 'even'",
        ),
        (
            incontext.LinearRegression(max_steps=0),
            r"The 'max_steps' parameter of LinearRegression must be an int .* Got 0",
        ),
        (incontext.LinearRegression(max_steps=2.5), "The 'max_steps' parameter of LinearRegression .* Got 2.5"),
        (incontext.LinearRegression(tol=0.0), "The 'tol' parameter of LinearRegression .* Got 0.0"),
        (incontext.LinearRegression(head_tol=2.0), "The 'head_tol' parameter of LinearRegression .* Got 2.0"),
        (incontext.LinearRegression(dtype="float16"), "The 'dtype' parameter of LinearRegression .* Got 'float16'"),
        (
            incontext.LinearRegression(dtype=torch.bfloat16),
            "dtype must be torch.float64 or torch.float32, not torch.bfloat16",
        ),
        (
            incontext.LinearRegression(fit_intercept="yes"),
            "The 'fit_intercept' parameter of LinearRegression .* Got 'yes'",
        ),
    ],
)
def test_parameters(model: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        model.fit(X, LABELS)
    assert not hasattr(model, "coef_")


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.full(20, np.inf), "Input sample_weight contains infinity"),
        (np.full(20, np.nan), "Input sample_weight contains NaN"),
        (np.full(20, -1.0), "Negative values in data passed to `sample_weight`"),
        (np.zeros(20), "Sample weights must contain at least one non-zero number"),
        (np.ones(3), r"sample_weight.shape == \(3,\), expected \(20,\)!"),
    ],
)
def test_sample_weights(weights: np.ndarray, message: str) -> None:
    for model in (
        incontext.LinearRegression(),
        incontext.Lasso(),
        incontext.LogisticRegression(),
        incontext.PoissonRegressor(),
        incontext.HuberRegressor(),
    ):
        with pytest.raises(ValueError, match=message):
            model.fit(X, LABELS, sample_weight=weights)
        assert not hasattr(model, "coef_")


@pytest.mark.parametrize(
    ("features", "targets", "error", "message"),
    [
        (np.where(X > 1, np.nan, X), Y, ValueError, "Input X contains NaN"),
        (np.where(X > 1, np.inf, X), Y, ValueError, "Input X contains infinity"),
        (X, np.where(Y > 1, np.nan, Y), ValueError, "Input y contains NaN"),
        (X, np.where(Y > 1, -np.inf, Y), ValueError, "Input y contains infinity"),
        (X[:, 0], Y, ValueError, "Expected 2D array, got 1D array instead"),
        (X, Y[:5], ValueError, r"Found input variables with inconsistent numbers of samples: \[20, 5\]"),
        (X[:0], Y[:0], ValueError, "Found array with 0 sample"),
        (X[:, :0], Y, ValueError, "Found array with 0 feature"),
        (X, None, ValueError, "requires y to be passed, but the target y is None"),
        (scipy.sparse.csr_array(X), Y, TypeError, "Sparse data was passed for X, but dense data is required"),
        (X.astype(complex), Y, ValueError, "Complex data not supported"),
        (X * 1e200, Y, ValueError, r"X: the largest entry of column 0 is \d.\d*e\+200 in size"),
        (X, Y * 1e-200, ValueError, r"y: the largest entry of column 0 is \d.\d*e-200 in size"),
    ],
)
def test_data(features: Any, targets: Any, error: type[Exception], message: str) -> None:
    for model in (incontext.LinearRegression(), incontext.Lasso()):
        with pytest.raises(error, match=message):
            model.fit(features, targets)
        assert not hasattr(model, "coef_")


def test_targets_outside_the_domain_of_a_loss() -> None:
    with pytest.raises(ValueError, match=r"out of the valid range of the loss 'HalfPoissonLoss': y\[2\] is -1.5"):
        incontext.PoissonRegressor().fit(X[:4], [0.0, 3.0, -1.5, 2.0])
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        incontext.LogisticRegression().fit(X, Y)
    with pytest.raises(ValueError, match="needs samples of at least 2 classes in the data, but the data contains only"):
        incontext.LogisticRegression().fit(X, np.ones(20))


def test_more_samples_than_a_prompt_holds() -> None:
    x, labels = np.arange(8193.0)[:, None], np.arange(8193) % 3
    for model in (
        incontext.Ridge(method="gradient"),
        incontext.LogisticRegression(),
        incontext.HuberRegressor(),
    ):
        with pytest.raises(ValueError, match="X has 8193 samples, and a prompt holds 8192"):
            model.fit(x, labels)
        assert not hasattr(model, "coef_")
    for model in (
        incontext.Ridge(),
        incontext.Ridge(method="newton-schulz"),
    ):  # whose prompt holds the Gram matrix alone
        assert model.fit(x, labels).bound_ < 1e-9


def test_many_data_sets() -> None:
    with pytest.raises(ValueError, match="Xs and ys must be of one length of at least 1, not 2 and 1"):
        incontext.Ridge().fit_many([X, X], [Y])
    with pytest.raises(ValueError, match="Xs and ys must be of one length of at least 1, not 0 and 0"):
        incontext.Ridge().fit_many([], [])
    with pytest.raises(ValueError, match=r"Xs: all data sets need the same number of features, not \[2, 3\]"):
        incontext.Ridge().fit_many([X, X[:, :2]], [Y, Y])
    with pytest.raises(ValueError, match="sample_weights has 1 entries for 2 data sets"):
        incontext.Ridge().fit_many([X, X], [Y, Y], [None])
    with pytest.raises(ValueError, match="Input X contains NaN"):
        incontext.Ridge().fit_many([X, X * np.nan], [Y, Y])


def test_predicting() -> None:
    with pytest.raises(ValueError, match="This Ridge instance is not fitted yet"):
        incontext.Ridge().predict(X)
    model = incontext.Ridge().fit(X, Y)
    with pytest.raises(ValueError, match="X has 2 features, but Ridge is expecting 3 features as input"):
        model.predict(X[:, :2])
    with pytest.raises(ValueError, match="Input X contains NaN"):
        model.predict(X * np.nan)
