"""The tables of docs/estimators.md: `make bench` prints them, `make docs` writes them into the page.

(a) scikit-learn's checks, (b) real data beside scikit-learn, (c) nearly singular data, (d) 256 contexts in one call.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from compiled import head, load_average, row
from data_sets import CLASSES, REGRESSIONS, data_set
from pages import told
from sklearn import linear_model
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import check_estimator

from weightwright import incontext
from weightwright.claims.certificate import round_up
from weightwright.numbers import Floats

Lines = Iterator[str]

#: Estimators of part (a).
CHECKED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("LinearRegression", {}),
    ("LinearRegression", {"method": "newton-schulz"}),
    ("Ridge", {}),
    ("Ridge", {"method": "newton-schulz"}),
    ("Lasso", {}),
    ("ElasticNet", {}),
    ("HuberRegressor", {}),
    ("LogisticRegression", {}),
    ("LogisticRegression", {"multi_class": "ovr"}),
    ("LogisticRegression", {"method": "newton-schulz", "multi_class": "ovr"}),
    ("PoissonRegressor", {}),
    ("PoissonRegressor", {"method": "newton-schulz"}),
)
#: Part (b): parameters of both, and those that make scikit-learn's exact.
EXACT = {"tol": 1e-10, "max_iter": 1_000_000}
BESIDE: dict[str, tuple[dict[str, float], dict[str, float]]] = {
    "LinearRegression": ({}, {"tol": 1e-10}),
    "Ridge": ({"alpha": 1.0}, {"tol": 1e-10}),
    "Lasso": ({"alpha": 0.1}, EXACT),
    "ElasticNet": ({"alpha": 0.1, "l1_ratio": 0.5}, EXACT),
    "HuberRegressor": ({}, EXACT),
}
NEARLY_SINGULAR: tuple[tuple[str, dict[str, Any]], ...] = (
    ("Ridge", {"alpha": 1.0}),
    ("LinearRegression", {}),
    ("LinearRegression", {"method": "newton-schulz"}),
)
#: Part (d).
MANY, SAMPLES, FEATURES = 256, 100, 10
MANY_MODELS: dict[str, dict[str, float]] = {"LinearRegression": {}, "Ridge": {"alpha": 1.0}, "Lasso": {"alpha": 0.1}}


def fitted(name: str, settings: dict[str, Any], X: Floats, y: Floats) -> tuple[Any, float, list[str]]:
    """Our estimator, its seconds, and its warnings."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        start = time.perf_counter()
        model = getattr(incontext, name)(**settings).fit(X, y)
        seconds = time.perf_counter() - start
    return model, seconds, [str(one.message) for one in said if one.category is ConvergenceWarning]


def apart(ours: Any, theirs: Any) -> float:
    """The distance of the coefficients, relative to scikit-learn's."""
    return float(np.linalg.norm(ours.coef_ - theirs.coef_) / np.linalg.norm(theirs.coef_))


def share(model: Any) -> str:
    """The bound, relative to the coefficients."""
    return round_up(model.bound_ / float(np.linalg.norm(model.coef_)))


def checks_table(models: tuple[tuple[str, dict[str, Any]], ...] = CHECKED) -> Lines:
    yield from head("estimator", "checks passed", "failed", "expected to fail", "skipped")
    for name, settings in models:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = getattr(incontext, name)(**settings)
            results = check_estimator(model, on_fail=None, on_skip=None)
        count = {status: sum(one["status"] == status for one in results) for status in ("passed", "failed", "xfail")}
        skipped = [f"{one['check_name']}: {one['exception']}" for one in results if one["status"] == "skipped"]
        yield row(f"`{model!r}`", count["passed"], count["failed"], count["xfail"], "; ".join(skipped) or "none")


def beside_table(names: tuple[str, ...] = REGRESSIONS, classes: tuple[str, ...] = CLASSES) -> Lines:
    yield from head(
        *("data", "features are", "estimator", "apart from scikit-learn's", "predictions apart, of the spread"),
        *("`bound_`, of the coefficients", "passes", "seconds", "network"),
    )
    for name in names:
        for standardised in (False, True):
            X, y = data_set(name, standardised)
            for model, (settings, exact) in BESIDE.items():
                yield _beside(name, standardised, model, settings, exact, X, y)
    for name in classes:
        for standardised in (False, True):
            X, y = data_set(name, standardised)
            yield _beside(name, standardised, "LogisticRegression", {}, EXACT, X, y)


def _beside(
    data: str, standardised: bool, name: str, settings: dict[str, Any], exact: dict[str, float], X: Floats, y: Floats
) -> str:
    ours, seconds, _ = fitted(name, settings, X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Huber's line searches end early
        theirs = getattr(linear_model, name)(**settings, **exact).fit(X, y)
    if name == "LogisticRegression":
        gap = np.abs(ours.predict_proba(X) - theirs.predict_proba(X)).max()
    else:
        gap = np.abs(ours.predict(X) - theirs.predict(X)).max() / np.std(y)
    certificate = ours.network_.certificate
    return row(
        *(data, "standardised" if standardised else "raw", name, f"{apart(ours, theirs):.1g}", f"{gap:.1g}"),
        *(share(ours), ours.n_iter_, f"{seconds:.1f}", "no certificate" if certificate is None else certificate.status),
    )


def singular_table(models: tuple[tuple[str, dict[str, Any]], ...] = NEARLY_SINGULAR) -> Lines:
    yield from head("features are", "estimator", "`bound_`, of the coefficients", "passes", "seconds", "it says")
    for standardised in (False, True):
        X, y = data_set("meats", standardised)
        for name, settings in models:
            try:
                model, seconds, said = fitted(name, settings, X, y)
            except ValueError as error:
                yield row("standardised" if standardised else "raw", name, "", "", "", f"refused: {error}")
                continue
            yield row(
                *("standardised" if standardised else "raw", f"`{model!r}`", share(model), model.n_iter_),
                *(f"{seconds:.0f}", " / ".join(said) or "nothing"),
            )


def many_table(count: int = MANY, models: dict[str, dict[str, float]] = MANY_MODELS) -> Lines:
    """Part (d): the first call builds the network, the second finds it built."""
    rng = np.random.default_rng(0)
    Xs = rng.standard_normal((count, SAMPLES, FEATURES))
    ys = np.einsum("bnd,bd->bn", Xs, rng.standard_normal((count, FEATURES))) + rng.standard_normal((count, SAMPLES))
    yield from head(
        *("estimator", "one call, seconds", "again", "loop of scikit-learn's fits, seconds", "ratio, of the second"),
        *("passes", "largest `bound_`", "farthest from scikit-learn's"),
    )
    for name, settings in models.items():
        times = []
        for _ in range(2):
            start = time.perf_counter()
            ours = getattr(incontext, name)(**settings).fit_many(list(Xs), list(ys))
            times.append(time.perf_counter() - start)
        start = time.perf_counter()
        theirs = [getattr(linear_model, name)(**settings).fit(X, y) for X, y in zip(Xs, ys, strict=True)]
        loop = time.perf_counter() - start
        farthest = max(apart(a, b) for a, b in zip(ours, theirs, strict=True))
        yield row(
            *(name, f"{times[0]:.2f}", f"{times[1]:.2f}", f"{loop:.2f}", f"{times[1] / loop:.0f}", ours[0].n_iter_),
            *(round_up(max(model.bound_ for model in ours)), f"{farthest:.1g}"),
        )
    yield ""
    yield load_average(os.getloadavg()[2], os.cpu_count())


PARTS: dict[str, Callable[[], Lines]] = {
    "a": checks_table,
    "b": beside_table,
    "c": singular_table,
    "d": many_table,
}


def main(arguments: list[str] | None = None, parts: dict[str, Callable[[], Any]] = PARTS) -> None:
    told(parts, "benchmarks/estimators.py", __doc__.splitlines()[0], arguments)


if __name__ == "__main__":
    main()
