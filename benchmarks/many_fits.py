"""300 fits on nasty data of our own making, against optima found by other means: exact fractions, or 60 digits.

`python benchmarks/many_fits.py [FIRST LAST]` prints a line for each kind of data and every fit that breaks a promise:
an exception, coefficients farther from the optimum than `bound_`, a prediction farther from w.x + c than
`prediction_bound`, or coefficients that are off by more than 1e-5 of their length without a warning. It ends with 1 if
there is one. All fits take minutes on one core; FIRST and LAST choose a part of them.
"""

from __future__ import annotations

import math
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
from compiled import head, row
from sklearn import linear_model
from sklearn.exceptions import ConvergenceWarning

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from support.optima import (
    DIGITS,
    eliminated,
    huber_gradient,
    length,
    multinomial_gradient,
    shortest_least_squares,
    sparse_optimum,
)

from weightwright import incontext
from weightwright.numbers import Floats

#: Coefficients may be off by this share of their length before a warning is due.
FAR = 1e-5
#: The same where coefficients are shorter than this many of the network's units.
SHORT = 0.01
Data = tuple[Floats, Floats, Floats]


def plain(rng: np.random.Generator, n: int = 12, d: int = 3) -> Data:
    X = rng.normal(size=(n, d))
    return X, X @ np.linspace(1.0, -0.5, d) + 2.0 + 0.5 * rng.normal(size=n), np.ones(n)


def with_columns(change: Callable[[Floats, np.random.Generator], Floats], n: int = 12) -> Callable[..., Data]:
    def make(rng: np.random.Generator) -> Data:
        X, y, s = plain(rng, n)
        return change(X, rng), y, s

    return make


def with_targets(change: Callable[[Floats], Floats]) -> Callable[..., Data]:
    def make(rng: np.random.Generator) -> Data:
        X, y, s = plain(rng)
        return X, change(y), s

    return make


def weighted(rng: np.random.Generator) -> Data:
    X, y, _ = plain(rng)
    return X, y, np.array([0.0, 0.0, 0.5, 3.0] * 3)


def repeated(rng: np.random.Generator) -> Data:
    X, y, _ = plain(rng, 5, 2)
    return np.vstack([X, X[:3], X[:3]]), np.append(y, [*y[:3], *y[:3]]), np.ones(11)


def whole_numbers(rng: np.random.Generator) -> Data:
    X = rng.integers(-4, 5, size=(12, 2)).astype(float)
    return X, X @ [1.0, -2.0] + 3.0, np.ones(12)


KINDS: dict[str, Callable[..., Data]] = {
    "plain": plain,
    "equal columns": with_columns(lambda X, rng: X[:, [0, 1, 1]]),
    "columns equal but for 1e-5": with_columns(lambda X, rng: np.column_stack([X[:, :2], X[:, 1] + 1e-5 * X[:, 2]])),
    "a constant column": with_columns(lambda X, rng: np.column_stack([X[:, :2], np.full(len(X), 7.0)])),
    "a column of zeros": with_columns(lambda X, rng: X * [1.0, 1.0, 0.0]),
    "columns of sizes 1e6 and 1e-6": with_columns(lambda X, rng: X * [1e6, 1.0, 1e-6]),
    "columns far from 0": with_columns(lambda X, rng: X + np.array([1e5, -1e3, 0.0])),
    "fewer samples than features": lambda rng: plain(rng, 3, 5),
    "as many samples as features": lambda rng: plain(rng, 4, 4),
    "two samples": lambda rng: plain(rng, 2, 2),
    "repeated rows": repeated,
    "outliers": with_targets(lambda y: y + 1e4 * (np.arange(len(y)) == 3)),
    "tiny targets": with_targets(lambda y: 1e-20 * y),
    "weights with zeros": weighted,
    "whole numbers, fitted exactly": whole_numbers,
}


def median_labels(y: Floats) -> Floats:
    return (y > np.median(y)).astype(float)


def thirds(y: Floats) -> Floats:
    return np.argsort(np.argsort(y, kind="stable"), kind="stable") * 3 // len(y)


def counts(y: Floats) -> Floats:
    return np.floor(np.exp(np.clip(y / max(float(np.abs(y).max()), 1e-300) * 3 + 1, -9, 6)))


def huge_counts(y: Floats) -> Floats:
    return np.where(np.arange(len(y)) == 0, 1e4, counts(y))


def itself(y: Floats) -> Floats:
    return y


#: Estimators, their parameters, and what they are given as targets.
MODELS: tuple[tuple[str, dict[str, Any], Callable[[Floats], Floats]], ...] = (
    ("LinearRegression", {}, itself),
    ("LinearRegression", {"fit_intercept": False}, itself),
    ("LinearRegression", {"method": "newton-schulz"}, itself),
    ("Ridge", {"alpha": np.float32(0.5)}, itself),
    ("Ridge", {"alpha": 1e-6}, itself),
    ("Ridge", {"alpha": np.int64(1000), "fit_intercept": False}, itself),
    ("Ridge", {"alpha": 1, "dtype": "float32"}, itself),
    ("Lasso", {"alpha": 0.1}, itself),
    ("ElasticNet", {"alpha": 0.01, "l1_ratio": 0.5}, itself),
    ("LogisticRegression", {}, median_labels),
    ("LogisticRegression", {"C": 100.0}, median_labels),
    ("LogisticRegression", {"C": np.inf}, median_labels),
    ("LogisticRegression", {}, thirds),
    ("LogisticRegression", {"multi_class": "ovr"}, thirds),
    ("PoissonRegressor", {}, counts),
    ("PoissonRegressor", {"alpha": 0.01}, huge_counts),
    ("PoissonRegressor", {"alpha": 0}, counts),
    ("PoissonRegressor", {}, np.zeros_like),
    ("HuberRegressor", {}, itself),
    ("HuberRegressor", {"alpha": 0.5, "epsilon": 2.0}, itself),
)


@dataclass(frozen=True)
class Outcome:
    """broken: a promise that was not kept, in words; None if all were. ratio: the distance to the optimum over
    `bound_`. known: whether there is an optimum."""

    broken: str | None
    ratio: float
    known: bool
    warned: bool


def fit_one(number: int) -> Outcome:
    kind, (name, settings, targets) = list(KINDS)[number // len(MODELS)], MODELS[number % len(MODELS)]
    rng = np.random.default_rng([22, number])
    X, y, s = KINDS[kind](rng)
    y = targets(y)
    if name == "LogisticRegression" and len(np.unique(y[s > 0])) < 2:
        y = np.arange(len(y)) % 2.0
    model = getattr(incontext, name)(**settings)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            model.fit(X, y, s)
            predicted = model._linear_predictor(X)
            bounds = np.reshape(model.prediction_bound(X), np.shape(predicted))
        except Exception as error:
            return Outcome(f"{type(error).__name__}: {error}", math.inf, False, False)
    told = [one for one in said if issubclass(one.category, ConvergenceWarning)]
    other = [str(one.message) for one in said if one not in told]
    if other:
        return Outcome(f"another warning: {other[0]}", math.inf, False, False)
    return judge(model, name, (X[s > 0], y[s > 0], s[s > 0]), (X, predicted, bounds), bool(told))


def judge(model: Any, name: str, data: Data, predicted: tuple[Floats, Floats, Floats], warned: bool) -> Outcome:
    off = predictions_off(model, *predicted)
    if off:
        return Outcome(off, math.inf, False, warned)
    with mpmath.workdps(2 * DIGITS):
        optimum = find_optimum(model, name, *data)
    if optimum is None:
        silent = None if math.isinf(model.bound_) and warned else "no optimum, and not said"
        return Outcome(silent, 0.0, False, warned)
    numbers = fitted_numbers(model)
    far, size = length(numbers, optimum), float(np.linalg.norm(numbers))
    units = model.scaling_.units if model.scaling_ is not None else np.ones(1)
    allowed = {"float64": FAR, "float32": 1e-2}[str(model.dtype)] * max(size, SHORT * float(np.linalg.norm(units)))
    if far > model.bound_:
        broken = f"{mpmath.nstr(far, 5)} from the optimum, and bound_ is {model.bound_!r}"
    else:
        broken = (
            f"off by {mpmath.nstr(far, 3)} of {size:.3g} without a warning" if far > allowed and not warned else None
        )
    return Outcome(broken, float(far / model.bound_) if model.bound_ else 0.0, True, warned)


def predictions_off(model: Any, X: Floats, predicted: Floats, bounds: Floats) -> str | None:
    """The first prediction that is not within its bound of the exact number."""
    coef = np.atleast_2d(model.coef_)
    intercepts = np.broadcast_to(np.atleast_1d(model.intercept_), (len(coef),))
    for i, x in enumerate(X):
        for k, (w, c) in enumerate(zip(coef, intercepts, strict=True)):
            exact = sum(
                (Fraction(a) * Fraction(b) for a, b in zip(w.tolist(), x.tolist(), strict=True)), Fraction(float(c))
            )
            at = (i, k)[: predicted.ndim]
            if abs(Fraction(float(predicted[at])) - exact) > Fraction(float(bounds[at])):
                return (
                    f"prediction {at} is {float(predicted[at])!r}, not within {float(bounds[at])!r} of {float(exact)!r}"
                )
    return None


def fitted_numbers(model: Any) -> Floats:
    """Class by class, the coefficients and the intercept."""
    coef = np.atleast_2d(model.coef_)
    if not model.fit_intercept:
        return coef.ravel()
    return np.column_stack([coef, np.broadcast_to(np.atleast_1d(model.intercept_), (len(coef),))]).ravel()


def find_optimum(model: Any, name: str, X: Floats, y: Floats, s: Floats) -> Sequence[Any] | None:
    """By other means than the library's; None where there is none, or where it is not the only one."""
    free, total = bool(model.fit_intercept), sum(map(Fraction, s.tolist()), Fraction(0))
    if name in ("LinearRegression", "Ridge"):
        return shortest_least_squares(X, y, s, Fraction(float(getattr(model, "alpha", 0))), free)
    alpha = Fraction(float(getattr(model, "alpha", 0)))
    if name in ("Lasso", "ElasticNet"):
        share = Fraction(model.l1_ratio) if name == "ElasticNet" else Fraction(1)
        return sparse(X, y, s, alpha * share * total, alpha * (1 - share) * total)
    if name == "HuberRegressor":
        return huber(model, X, y, s)
    if name == "LogisticRegression":
        return logistic(model, X, y, s)
    if not y.any():
        return None
    slope = lambda z, i: mpmath.exp(z) - float(y[i])  # noqa: E731
    known = linear_model.PoissonRegressor(alpha=float(alpha), max_iter=10_000, tol=1e-10)
    ours = np.append(model.coef_, model.intercept_)
    return smooth(known, X, y, s, in_digits(alpha * total), slope, ours, unpenalised=not alpha)


def in_digits(x: Fraction) -> Any:
    return mpmath.mpf(x.numerator) / x.denominator


def sparse(X: Floats, y: Floats, s: Floats, l1: Fraction, ridge: Fraction) -> Sequence[Fraction] | None:
    """None where columns that may be used, with a slope of l1, depend on each other and no ridge tells them apart."""
    found = sparse_optimum(X, y, s, l1, ridge)
    centred = X - np.average(X, axis=0, weights=s)
    left = X @ [float(w) for w in found[:-1]] + float(found[-1]) - y
    used = np.abs(centred.T @ (s * left)) >= float(l1) * (1 - 1e-9)
    return found if ridge or np.linalg.matrix_rank(centred[:, used]) == used.sum() else None


def logistic(model: Any, X: Floats, y: Floats, s: Floats) -> Sequence[Any] | None:
    classes = np.unique(y)
    ridge = 0.0 if math.isinf(model.C) else 1 / mpmath.mpf(float(model.C))
    known = linear_model.LogisticRegression(C=float(model.C), max_iter=10_000, tol=1e-10)
    if len(classes) > 2 and model.multi_class == "multinomial":
        known.fit(X, y, s)
        gradient = multinomial_gradient(X, np.searchsorted(classes, y), s, ridge, len(classes))
        starts = [np.column_stack([one.coef_, one.intercept_]).ravel() for one in (known, model)]
        return first_of(newton(gradient, start) for start in starts)
    found: list[Any] = []
    for k, one in enumerate(classes[1:] if len(classes) == 2 else classes):
        sign = np.where(y == one, 1.0, -1.0)
        slope = lambda z, i, sign=sign: -sign[i] / (1 + mpmath.exp(sign[i] * z))  # noqa: E731
        ours = np.append(model.coef_[k], model.intercept_[k])
        part = smooth(known, X, sign, s, ridge, slope, ours, unpenalised=not ridge)
        if part is None:
            return None
        found += part
    return found


def smooth(
    known: Any, X: Floats, y: Floats, s: Floats, ridge: Any, slope: Callable, ours: Any, unpenalised: bool
) -> Any:
    """A zero of the gradient, from scikit-learn's coefficients on; from ours where that does not arrive."""
    rows = [[*map(mpmath.mpf, map(float, x)), mpmath.mpf(1)] for x in X]

    def gradient(v: Sequence[Any]) -> list[Any]:
        pulls = [float(s[i]) * slope(mpmath.fdot(x, v), i) for i, x in enumerate(rows)]
        slopes = [mpmath.fdot(pulls, column) for column in zip(*rows, strict=True)]
        return [g + ridge * w for g, w in zip(slopes[:-1], v, strict=False)] + slopes[-1:]

    if unpenalised and np.linalg.matrix_rank(np.column_stack([X, np.ones(len(X))])) <= X.shape[1]:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        known.fit(X, y, sample_weight=s)
    starts = (np.append(known.coef_, known.intercept_), ours)
    return first_of(newton(gradient, start, vanishing=unpenalised) for start in starts)


def huber(model: Any, X: Floats, y: Floats, s: Floats) -> Sequence[Any] | None:
    """None where the optimum is not the only one, or none is found."""
    flat = exactly_fitted(model, X, y, s)
    if flat is not None:
        return flat
    gradient = huber_gradient(X, y, s, float(model.epsilon), float(model.alpha), True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        known = linear_model.HuberRegressor(epsilon=model.epsilon, alpha=model.alpha, max_iter=10_000, tol=1e-9)
        known.fit(X, y, s)
    starts = ([*one.coef_, one.intercept_, one.scale_] for one in (known, model))
    found = first_of(newton(gradient, start, positive_last=True) for start in starts)
    return None if found is None else found[:-1]


def exactly_fitted(model: Any, X: Floats, y: Floats, s: Floats) -> Sequence[Fraction] | None:
    """The optimum where it is at scale 0 and all samples are fitted exactly, in fractions; None where that is not seen.

    There the shortest w that fits is the optimum if numbers psi_i of size epsilon at most balance the penalty, sum s_i
    psi_i (x_i, 1) = -alpha (w, 0), with sum s_i psi_i^2 <= sum s_i: then 0 is a subgradient. The shortest psi is tried.
    """
    alpha, epsilon, weights = Fraction(float(model.alpha)), Fraction(float(model.epsilon)), list(map(Fraction, s))
    found = shortest_least_squares(X, y, np.ones(len(y)))
    rows = [[*map(Fraction, x), Fraction(1)] for x in X.tolist()]
    if any(dot(row, found) != Fraction(t) for row, t in zip(rows, y.tolist(), strict=True)) or not alpha:
        return None
    columns = [[a * b for a, b in zip(column, weights, strict=True)] for column in zip(*rows, strict=True)]
    pulls = [-alpha * w for w in found[:-1]] + [Fraction(0)]
    gram = [[dot(a, b) for b in columns] for a in columns]
    multipliers = eliminated(gram, pulls)  # psi in the span of the columns is the shortest
    if multipliers is None:
        return None
    psi = [dot(multipliers, one) for one in zip(*columns, strict=True)]
    spent = sum((a * b * b for a, b in zip(weights, psi, strict=True)), Fraction(0))
    return found if max(map(abs, psi)) <= epsilon and spent <= sum(weights) else None


def dot(a: Sequence[Fraction], b: Sequence[Fraction]) -> Fraction:
    return sum((x * y for x, y in zip(a, b, strict=True)), Fraction(0))


def first_of(found: Iterable[Any]) -> Any:
    """The first that is not None. Where a gradient is 0 to 60 digits is no matter of where the search began."""
    return next((one for one in found if one is not None), None)


def newton(gradient: Callable, start: Sequence[float], vanishing: bool = False, positive_last: bool = False) -> Any:
    """A zero of the gradient within 10^-50; None where there is none. Slopes are taken from differences.

    vanishing: the gradient may go to 0 at infinity, so coefficients that grow are no optimum.
    """
    with mpmath.workdps(2 * DIGITS):
        v, tiny = [mpmath.mpf(float(x)) for x in start], mpmath.mpf(10) ** -DIGITS
        here = gradient(v)
        for _ in range(200):
            moved = [gradient([x + tiny * (i == j) for i, x in enumerate(v)]) for j in range(len(v))]
            slopes = mpmath.matrix([[(there[i] - here[i]) / tiny for there in moved] for i in range(len(v))])
            try:
                step = mpmath.lu_solve(slopes, mpmath.matrix(here))
            except ZeroDivisionError:
                return None
            if max(abs(entry) for entry in step) < mpmath.mpf(10) ** -(DIGITS - 10) * max(map(abs, v)):
                return [x - step[i] for i, x in enumerate(v)]
            share = mpmath.mpf(1)
            while True:
                aim = [x - share * step[i] for i, x in enumerate(v)]
                if not (positive_last and aim[-1] <= 0) and mpmath.norm(there := gradient(aim)) < mpmath.norm(here):
                    break
                share /= 2
                if share < mpmath.mpf(2) ** -80:
                    return None
            v, here = aim, there
            if vanishing and max(map(abs, v)) > 1e3 * (1 + max(abs(float(x)) for x in start)):
                return None
    return None


def main(first: int = 0, last: int = len(KINDS) * len(MODELS)) -> int:
    broken, started = [], time.perf_counter()
    print(*head("data", "fits", "optima known", "warned", "largest distance / bound_", "broken", "seconds"), sep="\n")
    for place, kind in enumerate(KINDS):
        numbers = range(max(first, place * len(MODELS)), min(last, (place + 1) * len(MODELS)))
        before, found = time.perf_counter(), []
        for number in numbers:
            one = fit_one(number)
            found.append(one)
            if one.broken:
                broken.append(f"fit {number}, {kind}, {MODELS[number % len(MODELS)][:2]}: {one.broken}")
                print(broken[-1], file=sys.stderr, flush=True)
        if found:
            worst = max((one.ratio for one in found if one.known), default=0.0)
            bad, seconds = sum(one.broken is not None for one in found), time.perf_counter() - before
            known, told = sum(one.known for one in found), sum(one.warned for one in found)
            print(row(kind, len(found), known, told, f"{worst:.4f}", bad, f"{seconds:.0f}"), flush=True)
    print(f"\n{last - first} fits, {len(broken)} broken promises, {time.perf_counter() - started:.0f} s")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:3])))
