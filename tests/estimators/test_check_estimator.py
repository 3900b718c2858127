"""scikit-learn's own checks of estimators: none fails, none is expected to fail, one is skipped."""

from __future__ import annotations

import warnings

import pytest
from sklearn.base import BaseEstimator
from sklearn.utils.estimator_checks import check_estimator

from weightwright import incontext

#: Skipped unless SCIPY_ARRAY_API is set before SciPy is imported.
SKIPPED = {"check_array_api_input"}
QUICK = [incontext.Ridge(), incontext.Lasso()]
OTHERS = [  # `make test-all` runs these
    incontext.LinearRegression(),
    incontext.ElasticNet(),
    incontext.HuberRegressor(),
    incontext.PoissonRegressor(),
    incontext.LogisticRegression(),
    incontext.LinearRegression(method="newton-schulz"),
    incontext.Ridge(method="newton-schulz"),
    incontext.LogisticRegression(multi_class="ovr"),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    "model", [*QUICK, *(pytest.param(model, marks=pytest.mark.slow) for model in OTHERS)], ids=repr
)
def test_scikit_learns_checks_pass(model: BaseEstimator) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the checks fit data that need more steps than there are
        results = check_estimator(model, on_fail=None, on_skip=None)
    told = {one["check_name"]: f"{one['status']}: {one['exception']}" for one in results if one["status"] != "passed"}
    assert set(told) == SKIPPED, told
    assert len(results) > 50
    assert not any(one["expected_to_fail"] for one in results)
