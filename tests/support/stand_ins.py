"""A pytest plugin that runs scikit-learn's installed test modules with our estimators in the place of theirs.

`python -m pytest -p support.stand_ins FILE` imports FILE, a test module of scikit-learn's wheel, while
`sklearn.linear_model.Ridge` and the others are ours; nothing of it is copied. A stand-in takes scikit-learn's
arguments. Those of its solvers (SOLVERS) do nothing: our way to the optimum is another one. Options that ours have not
(MISSING) end the test as skipped, with the reason. Tests that meet none of our classes are left out.

What happened is written to the file that STAND_INS_REPORT names: for every test its outcome, how many fits of ours it
took, and why it was skipped. STAND_INS_LEFT_OUT: names of tests (module::test, or of one case) that are not run; those
that the modules have not are reported as "unknown".
"""

from __future__ import annotations

import inspect
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest
import scipy.sparse
import sklearn.linear_model
from sklearn.base import BaseEstimator

import weightwright.incontext

NAMES = ("ElasticNet", "HuberRegressor", "Lasso", "LinearRegression", "LogisticRegression", "PoissonRegressor", "Ridge")
#: Arguments that say how scikit-learn comes to the optimum, and not where it is.
SOLVERS = {
    "copy_X", "max_iter", "n_jobs", "precompute", "random_state", "selection", "solver", "tol", "verbose",
}  # fmt: skip
#: Arguments of scikit-learn that change what is computed, with the values that ours can do, and what is not there.
MISSING = {
    "positive": ((False,), "coefficients of one sign are not there"),
    "warm_start": ((False,), "a fit starts from 0; warm_start is not there"),
    "penalty": (("l2", "deprecated"), "LogisticRegression has the l2 penalty alone"),
    "l1_ratio": ((0, 0.0), "LogisticRegression has the l2 penalty alone"),
    "dual": ((False,), "dual is a choice of liblinear"),
    "intercept_scaling": ((1, 1.0), "intercept_scaling is a choice of liblinear, which penalises the intercept"),
}
SPARSE = "sparse matrices are not there"

_fits = 0
_report: dict[str, Any] = {}


def make_stand_in(name: str) -> type[BaseEstimator]:
    """Ours with scikit-learn's arguments beside its own, under scikit-learn's name."""
    ours, theirs = getattr(weightwright.incontext, name), getattr(sklearn.linear_model, name)
    own = inspect.signature(ours.__init__).parameters
    given = dict(inspect.signature(theirs.__init__).parameters)
    more = {key: one for key, one in own.items() if key not in given}
    signature = inspect.Signature([*given.values(), *more.values()])
    foreign = [key for key in given if key not in own and key != "self"]

    def initialise(self: Any, *args: Any, **kwargs: Any) -> None:
        bound = signature.bind(self, *args, **kwargs)
        bound.apply_defaults()
        for key, value in bound.arguments.items():
            if key != "self":
                setattr(self, key, value)

    def fit(self: Any, X: Any, y: Any, *args: Any, **kwargs: Any) -> Any:
        global _fits
        _fits += 1
        for key in foreign:
            able, why = MISSING.get(key, ((getattr(self, key),), ""))
            if not any(getattr(self, key) is one or getattr(self, key) == one for one in able):
                pytest.skip(f"{key}={getattr(self, key)!r}: {why}")
        if scipy.sparse.issparse(X):
            pytest.skip(SPARSE)
        if "solver" in foreign:
            self.solver_ = self.solver  # what was asked for; there is none here
        return ours.fit(self, X, y, *args, **kwargs)

    def _settings(self: Any) -> Any:
        kept = self.tol
        try:
            self.tol = own["tol"].default
            return ours._settings(self)
        finally:
            self.tol = kept

    def sparsify(self: Any) -> Any:
        pytest.skip(SPARSE)

    initialise.__signature__ = signature  # type: ignore[attr-defined]
    constraints = {key: rule for key, rule in ours._parameter_constraints.items() if key not in SOLVERS}
    body = {
        "__init__": initialise, "fit": fit, "_settings": _settings, "_parameter_constraints": constraints,
        "sparsify": sparsify, "__module__": __name__,
    }  # fmt: skip
    if hasattr(theirs, "_get_loss"):
        body["_get_loss"] = theirs._get_loss  # data of the tests are made with it
    return type(name, (ours,), body)


STAND_INS = {name: make_stand_in(name) for name in NAMES}
THEIRS = {name: getattr(sklearn.linear_model, name) for name in NAMES}


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    """While a test module is imported, scikit-learn's names are ours."""
    if not isinstance(collector, pytest.Module):
        return (yield)
    try:
        for name, ours in STAND_INS.items():
            setattr(sklearn.linear_model, name, ours)
            setattr(sys.modules[__name__], name, ours)  # pickles of results find it here
        return (yield)
    finally:
        for name, theirs in THEIRS.items():
            setattr(sklearn.linear_model, name, theirs)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests that meet none of our classes are left out, and so are cases that differ in the solver from another."""
    named = json.loads(os.environ.get("STAND_INS_LEFT_OUT", "[]"))
    _report["unknown"] = [name for name in named if not any(_is_named(item, name) for item in items)]
    met = [item for item in items if _meets_ours(item) and not any(_is_named(item, name) for name in named)]
    cases = {_apart_from_solver(item): item for item in reversed(met)}
    items[:] = reversed(cases.values())


def _is_named(item: pytest.Item, name: str) -> bool:
    """name: of a test with all its cases, or of one case."""
    return name in (f"{Path(item.path).stem}::{item.name}", f"{Path(item.path).stem}::{item.name.split('[')[0]}")


def _apart_from_solver(item: pytest.Item) -> tuple[str, str]:
    parameters = getattr(item, "callspec", None)
    others = {key: value for key, value in parameters.params.items() if key not in SOLVERS} if parameters else {}
    return item.nodeid.split("[")[0], repr(sorted(others.items(), key=lambda one: one[0]))


def _meets_ours(item: pytest.Item) -> bool:
    parameters = getattr(item, "callspec", None)
    values = list(parameters.params.values()) if parameters else []
    return any(map(_is_ours, values)) or _mentions(item.function, set())  # type: ignore[attr-defined]


def _is_ours(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_is_ours, value))
    kinds = tuple(STAND_INS.values())
    if isinstance(value, BaseEstimator):
        return isinstance(value, kinds) or any(map(_is_ours, value.get_params().values()))
    return value in kinds if isinstance(value, type) else False


def _mentions(function: Any, seen: set[Any]) -> bool:
    """Whether a function of the module, or one that it calls, names one of our classes."""
    function = inspect.unwrap(function)
    if not isinstance(function, FunctionType) or function in seen:
        return False
    seen.add(function)
    named = [function.__globals__.get(name) for name in _names(function.__code__)]
    return any(map(_is_ours, named)) or any(
        _mentions(one, seen) for one in named if getattr(one, "__module__", None) == function.__module__
    )


def _names(code: Any) -> set[str]:
    inner = [one for one in code.co_consts if hasattr(one, "co_names")]
    return set(code.co_names).union(*map(_names, inner))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: Any) -> Iterator[None]:
    global _fits
    report: Any = yield
    if call.when == "setup":
        _fits = 0
    why = report.longrepr[2] if report.skipped and isinstance(report.longrepr, tuple) else str(call.excinfo or "")
    if call.when == "call" or report.outcome != "passed":
        test = f"{Path(item.path).stem}::{item.name}"
        _report[test] = {"outcome": report.outcome, "fits": _fits, "why": why, "seconds": round(call.duration, 2)}
        _write_report()
    return report


def _write_report() -> None:
    """After every test: a run that is stopped leaves what it saw."""
    target = os.environ.get("STAND_INS_REPORT")
    if target:
        Path(target).write_text(json.dumps(_report, indent=1))
