"""scikit-learn's installed test modules for these models, run on our classes: what is not named here passes.

`support.stand_ins` puts ours in the place of theirs while a module is imported; nothing of scikit-learn's is copied.
Its options that we have not (`positive`, `warm_start`, l1 penalties of classes, sparse matrices) end a test as skipped,
and cases that differ in scikit-learn's solver alone are run once. LEFT_OUT has everything else that is not run, by its
reason.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import sklearn

ROOT = Path(__file__).parents[2]
#: Modules of scikit-learn, and how many of their cases pass on our classes with at least one fit.
MODULES = {
    "test_base": ("linear_model/tests", 13),
    "test_common": ("linear_model/tests", 17),
    "test_coordinate_descent": ("linear_model/tests", 32),
    "test_glm": ("linear_model/_glm/tests", 38),
    "test_huber": ("linear_model/tests", 5),
    "test_logistic": ("linear_model/tests", 29),
    "test_ridge": ("linear_model/tests", 146),
}
#: Tests that are not run, by the reason.
LEFT_OUT: dict[str, tuple[str, ...]] = {
    "it counts iterations or stops of scikit-learn's solvers, or looks for their warnings": (
        "test_huber::test_huber_max_iter",
        "test_logistic::test_max_iter",
        "test_logistic::test_n_iter",
        "test_ridge::test_n_iter",
        "test_logistic::test_zero_max_iter",
        "test_logistic::test_newton_cholesky_fallback_to_lbfgs",
        "test_logistic::test_warm_start",  # how far a solver of one iteration comes
        "test_glm::test_linalg_warning_with_newton_solver",  # ours says that equal columns have no one optimum
        "test_coordinate_descent::test_lasso_alpha_warning",  # ours arrives at alpha = 0, and has nothing to warn of
        "test_coordinate_descent::test_enet_nonfinite_params",  # ours refuses such X before it begins
    ),
    "it looks into scikit-learn's solvers: copies of X, Gram matrices, check_input, duality gaps to the last bit": (
        "test_base::test_inplace_data_preprocessing",  # asks that X be overwritten; ours never writes into it
        "test_coordinate_descent::test_lasso_dual_gap",
        "test_coordinate_descent::test_elasticnet_precompute_incorrect_gram",
        "test_coordinate_descent::test_check_input_false",
        "test_coordinate_descent::test_enet_copy_X_True",
        "test_coordinate_descent::test_enet_copy_X_False_check_input_False",
        "test_coordinate_descent::test_overridden_gram_matrix",
        "test_coordinate_descent::test_enet_sample_weight_does_not_overwrite_sample_weight",
    ),
    "it calls functions inside scikit-learn with the parameters of an estimator, or asks what a solver can do": (
        "test_logistic::test_check_solver_option",
        "test_logistic::test_liblinear_multiclass_raises",
        "test_logistic::test_liblinear_with_large_values",  # ours fits them
        "test_logistic::test_logistic_cv_multinomial_score",
        "test_logistic::test_logreg_predict_proba_multinomial",
    ),
    "it asks for six decimals of liblinear's coefficients, which are 1.6e-5 off; ours are proven within 2.1e-10": (
        "test_logistic::test_logistic_cv",
    ),
    "it asks for the class at a decision of exactly 0; ours is 0 within prediction_bound, and may be above": (
        "test_logistic::test_liblinear_decision_function_zero",
    ),
    "it asks for float32 coefficients where X is float32; ours are float64 always": (
        "test_coordinate_descent::test_enet_float_precision",
        "test_logistic::test_dtype_match",
        "test_ridge::test_dtype_match",
        "test_ridge::test_dtype_match_cholesky",
    ),
    "it is about arguments that scikit-learn gives up, or about its callbacks, which ours have not": (
        "test_logistic::test_penalty_deprecated",
        "test_logistic::test_logisticregression_warns_with_n_jobs",
        "test_logistic::test_logistic_regression_callback_support",
        "test_logistic::test_logistic_regression_callback_fitted_estimator",
        "test_logistic::test_logistic_regression_callback_support_warning",
    ),
    "it is about arrays of other libraries (SCIPY_ARRAY_API)": (
        "test_glm::test_poisson_regressor_array_api_compliance",
        "test_glm::test_poisson_regressor_array_api_warm_start",
        "test_logistic::test_logistic_regression_array_api_compliance",
        "test_logistic::test_logistic_regression_array_api_warm_start",
        "test_ridge::test_array_api_error_and_warnings_for_solver_parameter",
        "test_ridge::test_array_api_numpy_namespace_no_warning",
        "test_ridge::test_ridge_array_api_compliance",
        "test_ridge::test_ridge_per_target_alpha_array_api",
    ),
    "it takes minutes: fits of 100 samples with 100 features, or hundreds of fits, one for each sample left out": (
        "test_base::test_linear_regression_sample_weight_consistency[42-False-None-X_shape2]",
        "test_base::test_linear_regression_sample_weight_consistency[42-True-None-X_shape2]",
        "test_ridge::test_ridge_cv_results_predictions",  # both of RidgeCV, which is scikit-learn's own
        "test_ridge::test_ridge_gcv_sample_weights",
    ),
}
#: What `make test` runs: seconds.
QUICK = ("test_base::test_fit_intercept",)


def run_installed(tests: Sequence[str], report: Path) -> dict[str, Any]:
    """What became of these tests, or of all of these modules, in a process of its own."""
    modules = {test.split("::")[0] for test in tests}
    whole = [name for names in LEFT_OUT.values() for name in names if name.split("::")[0] in modules]
    named = [] if any("::" in test for test in tests) else whole
    files = [str(Path(sklearn.__file__).parent / MODULES[test.split("::")[0]][0] / test) for test in tests]
    files = [file.replace("::", ".py::") if "::" in file else f"{file}.py" for file in files]
    known = {"STAND_INS_REPORT": str(report), "STAND_INS_LEFT_OUT": json.dumps(named)}
    known["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # no plugin of this environment is needed, and some are large
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "support.stand_ins",
        "-p",
        "no:cacheprovider",
        "-c",
        os.devnull,
    ]
    done = subprocess.run(
        [*command, f"--rootdir={report.parent}", "--tb=short", *files],
        env=os.environ | known | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert report.exists(), done.stdout[-3000:] + done.stderr[-3000:]
    found: dict[str, Any] = json.loads(report.read_text())
    assert found.pop("unknown") == []
    return found


def require_no_failure(found: dict[str, Any]) -> None:
    failed = {name: one["why"] for name, one in found.items() if one["outcome"] == "failed"}
    assert not failed, failed


def test_a_few_of_scikit_learns_tests(tmp_path: Path) -> None:
    found = run_installed(QUICK, tmp_path / "report.json")
    require_no_failure(found)
    assert {name for name, one in found.items() if one["outcome"] == "passed" and one["fits"]} >= set(QUICK)


@pytest.mark.slow
@pytest.mark.parametrize("module", MODULES)
def test_scikit_learns_test_modules(module: str, tmp_path: Path) -> None:
    found = run_installed([module], tmp_path / "report.json")
    require_no_failure(found)
    passed = [name for name, one in found.items() if one["outcome"] == "passed" and one["fits"]]
    assert len(passed) >= MODULES[module][1], f"{len(passed)} passed"


def test_every_reason_is_given_once() -> None:
    named = [name for names in LEFT_OUT.values() for name in names]
    assert len(named) == len(set(named))
    assert {name.split("::")[0] for name in named} <= set(MODULES)
