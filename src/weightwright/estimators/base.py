"""What the estimators share: reading the input as scikit-learn does, fitting, and what is known of a fit afterwards."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import torch
from flint import arb
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from weightwright.enclosures.balls.linear_algebra import float_above, norm
from weightwright.enclosures.balls.series import working_precision
from weightwright.errors import DomainError, LawError
from weightwright.estimators.heads_picture.picture import heads_picture
from weightwright.estimators.predictor import bound_predictions, predict
from weightwright.estimators.solving.scaling import exact_sum
from weightwright.estimators.solving.solve import Settings, Solution, count_steps, solve_problems
from weightwright.incontext.descent import IN_CONTEXT
from weightwright.incontext.errors.distance import Distance
from weightwright.incontext.optimum.enclosure import nowhere
from weightwright.incontext.optimum.sharp_distance import distance
from weightwright.incontext.problem.contexts import SMALL
from weightwright.incontext.problem.loss import loss
from weightwright.incontext.problem.problem import Problem
from weightwright.numbers import Floats
from weightwright.progress import Progress, show_progress
from weightwright.runtime.weights import dtype_name

#: A warning is given where the proven distance to the optimum is above this share of the coefficients' length.
FAR = {"float64": 1e-5, "float32": 1e-2}

#: Why nothing is known of the optimum where nobody asked.
UNPROVEN = "proof=False: it was not enclosed"

#: The least and the largest size of a feature or target that is accepted: squares of others are no floats.
LEAST, MOST = 1e-100, 1e100


@dataclass(frozen=True, eq=False)
class ReadData:
    """One data set as it was given: columns of Y are problems of their own. one: coef_ is a vector. flat: y was one."""

    X: Floats
    Y: Floats
    weights: Floats
    one: bool
    flat: bool


#: Which steps lead to the optimum, where there are two ways: see LinearRegression and LogisticRegression.
METHOD: dict[str, list[Any]] = {"method": [StrOptions({"auto", "gradient", "newton-schulz"})]}


class InContextModel(BaseEstimator):
    """A linear model whose coefficients a network finds in its prompt.

    alpha: how strong the penalty is, as in scikit-learn.
    fit_intercept: whether there is an intercept, without a penalty; False takes 0.
    tol: stop when the optimum is about that near, relative to the coefficients: an estimate; `bound_` is the proof.
    max_steps: the most passes, in all; ConvergenceWarning where they are not enough.
    head_tol: what a table may be off by, relative to the loss's largest slope; None: 1e-12, in float32 4e-6.
    dtype: "float64" or "float32", or the torch dtype: what the network runs in.
    device: where the network runs, "cuda" for instance; None: on the CPU, where rounding is proven and not assumed.
    proof: whether the optimum is enclosed, which gives `bound_`. With False fits take less time, `bound_` is infinite,
        and whether the steps arrived is an estimate in floats.
    sample_weight: how much each example counts, (samples,); None: all alike.
    Xs: examples of each data set.
    ys: targets of each.
    sample_weights: weights of each; None: all alike.
    """

    _loss: ClassVar[str]
    _relative: ClassVar[bool] = False  # the penalties are beside the mean of the losses, not beside their sum
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "fit_intercept": ["boolean"],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_steps": [Interval(Integral, 1, None, closed="left")],
        "head_tol": [Interval(Real, 0, 1, closed="neither"), None],
        "dtype": [StrOptions({"float64", "float32"}), torch.dtype],
        "device": [str, torch.device, None],
        "proof": ["boolean"],
    }

    def __init__(
        self,
        *,
        fit_intercept: bool = True,
        tol: float = 1e-9,
        max_steps: int = 5000,
        head_tol: float | None = None,
        dtype: Any = "float64",
        device: Any = None,
        proof: bool = True,
    ) -> None:
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_steps = max_steps
        self.head_tol = head_tol
        self.dtype = dtype
        self.device = device
        self.proof = proof

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Write the examples into a prompt, run the network to its fixed point, read the coefficients off its state.

        ConvergenceWarning, before the run where more than max_steps steps are needed, and after it where the
        coefficients are not proven to be near the optimum.
        """
        self._validate_params()
        data = self._read(X, y, sample_weight)
        with self._told_of([data]):
            self._accept(data, self._solve([data]), 0)
        return self

    def fit_many(self, Xs: Sequence[Any], ys: Sequence[Any], sample_weights: Sequence[Any] | None = None) -> list[Self]:
        """One estimator for each data set, all of them fitted by one call of one network.

        Their coefficients are those of single fits within the `bound_` of both.
        """
        self._validate_params()
        if len(Xs) != len(ys) or len(Xs) == 0:
            raise ValueError(f"Xs and ys must be of one length of at least 1, not {len(Xs)} and {len(ys)}")
        given = [None] * len(Xs) if sample_weights is None else list(sample_weights)
        if len(given) != len(Xs):
            raise ValueError(f"sample_weights has {len(given)} entries for {len(Xs)} data sets")
        models = [clone(self) for _ in Xs]
        data = [m._read(X, y, w) for m, X, y, w in zip(models, Xs, ys, given, strict=True)]
        widths = sorted({one.X.shape[1] for one in data})
        if len(widths) > 1:
            raise ValueError(f"Xs: all data sets need the same number of features, not {widths}")
        with self._told_of(data):
            answer, first = self._solve(data), 0
            for model, one in zip(models, data, strict=True):
                model._accept(one, answer, first)
                first += one.Y.shape[1]
        return models

    def steps_needed(self, X: Any, y: Any, sample_weight: Any = None) -> int:
        """About how many steps a fit on these data takes; nothing is fitted."""
        self._validate_params()
        data = clone(self)._read(X, y, sample_weight)
        with self._told_of([data]):
            return self._steps_for(self._problems(data))

    def _steps_for(self, problems: list[Problem]) -> int:
        return count_steps(problems, self._settings())

    @contextmanager
    def _told_of(self, data: Sequence[ReadData]) -> Iterator[None]:
        """ValueError that names the data where numbers made of them are too large or too small for a network."""
        try:
            yield
        except (LawError, DomainError, ArithmeticError, np.linalg.LinAlgError) as error:
            x, y = (
                max(float(np.abs(part).max()) for part in parts)
                for parts in zip(*((d.X, d.Y) for d in data), strict=True)
            )
            strength = ", ".join(f"{name}={getattr(self, name)!r}" for name in ("alpha", "C") if hasattr(self, name))
            more = "" if self._settings().dtype == "float64" else ", or take dtype='float64'"
            raise ValueError(
                f"X, y: scale the columns of X (entries up to {x:.3g} in size) and y (up to {y:.3g}) to about 1"
                f"{f', with a penalty that goes with them ({strength})' if strength else ''}{more}: numbers of this fit"
                f" are too large or too small for a network in {self._settings().dtype}, or for its proof"
            ) from error

    def _read(self, X: Any, y: Any, sample_weight: Any) -> ReadData:
        X, y = self._validated(X, y)
        weights = np.ones(len(X))
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        Y = self._columns(y)
        _of_fair_size("X", X)
        _of_fair_size("y", Y)
        return ReadData(X, Y, self._weighted(y, weights), self._is_one(y), y.ndim == 1)

    def _validated(self, X: Any, y: Any) -> tuple[Floats, Any]:
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, multi_output=True)
        return X, np.asarray(y, dtype=np.float64)

    def _columns(self, y: Any) -> Floats:
        """(n, problems): the targets of each problem."""
        return y.reshape(len(y), -1)

    def _is_one(self, y: Any) -> bool:
        """Whether coef_ is a vector."""
        return bool(y.ndim == 1)

    def _weighted(self, y: Any, weights: Floats) -> Floats:
        return weights

    def _penalties(self) -> tuple[Fraction, Fraction]:
        """ridge/2 |w|^2 and l1 |w|_1, beside the sum of the weighted losses or (`_relative`) beside their mean."""
        return Fraction(0), Fraction(0)

    def _penalties_of_each(self, columns: int) -> list[tuple[Fraction, Fraction]]:
        """Those of every column of Y."""
        return [self._penalties()] * columns

    def _problems(self, data: ReadData) -> list[Problem]:
        """scikit-learn's objective, up to a factor, for every column of Y; samples of weight 0 are left out."""
        used = data.weights > 0
        X, weights = data.X[used], data.weights[used]
        total = exact_sum(weights) if self._relative else 1
        return [
            Problem(X, y[used], loss(self._loss), weights, ridge * total, l1 * total, bool(self.fit_intercept))
            for y, (ridge, l1) in zip(data.Y.T, self._penalties_of_each(data.Y.shape[1]), strict=True)
        ]

    def _settings(self) -> Settings:
        dtype = dtype_name(self.dtype, IN_CONTEXT)
        device = str(torch.device("cpu" if self.device is None else self.device))
        head_tol = None if self.head_tol is None else float(self.head_tol)
        method = getattr(self, "method", "gradient")  # those that can do without have no other
        return Settings(float(self.tol), int(self.max_steps), head_tol, dtype, device, method, self._relative)

    def _solve(self, data: Sequence[ReadData]) -> Solution:
        return solve_problems([problem for one in data for problem in self._problems(one)], self._settings())

    def _accept(self, data: ReadData, answer: Solution, first: int) -> None:
        """Set the fitted attributes from the problems of this data set, which start at `first`."""
        mine = slice(first, first + data.Y.shape[1])
        coef, intercept = answer.coef[mine], answer.intercept[mine]
        self.coef_ = coef[0] if data.one else coef
        self.intercept_ = (intercept[0] if data.flat else intercept) if self.fit_intercept else 0.0
        self.n_iter_, self.steps_needed_ = answer.steps, answer.needed
        self.network_ = answer.network
        shown = answer.shown
        self.prompt_: Any = None if shown is None else shown.prompts[first].clone()
        self.scaling_: Any = None if shown is None else shown.scalings[first]
        self._accept_more(data, answer, mine)
        found = self._distances(self._problems(data), answer, mine) if self.proof else [nowhere(UNPROVEN)]
        with working_precision():
            self.bound_ = float_above(norm(arb(one.bound) for one in found))
        size = math.hypot(*coef.reshape(-1).tolist(), *intercept.tolist())
        far, units = FAR[self._settings().dtype], answer.units[mine]
        worth = far * max(size, SMALL * float(np.linalg.norm(units, axis=1).max()))
        left = min(float(answer.remaining[mine].max()), self.bound_ / (SMALL * float(units.min())))
        if not ((self.bound_ <= worth or not self.proof) and left <= far):
            why = next(one.why for one in found if one.bound >= max(other.bound for other in found))
            self._warn(size, why, left)

    def _accept_more(self, data: ReadData, answer: Solution, mine: slice) -> None:
        """Set what an estimator has beside coefficients."""

    def _distances(self, problems: list[Problem], answer: Solution, mine: slice) -> Sequence[Distance]:
        """What is proven about each of these problems, whose answers stand there."""
        return [
            distance(problem, w, float(c))
            for problem, w, c in zip(problems, answer.coef[mine], answer.intercept[mine], strict=True)
        ]

    def _warn(self, size: float, why: str, left: float) -> None:
        early = self.n_iter_ >= self.max_steps
        advice = "further steps came no nearer: take a smaller head_tol in float64"
        if early or math.isinf(self.bound_):
            advice = "raise max_steps" if early else "further steps prove no more"
        warnings.warn(
            f"{type(self).__name__}: after {self.n_iter_} steps the coefficients (of norm {size:.3g}) are proven to be"
            f" within {self.bound_:.3g} of the optimum ({why}); in scaled units about {left:.2g} of them is missing."
            f" About {self.steps_needed_} steps were expected to be needed; {advice}, take a stronger penalty, or scale"
            " the data",
            ConvergenceWarning,
            stacklevel=4,
        )

    def _linear_predictor(self, X: Any) -> Floats:
        """w.x + c for every row, by a forward pass: (n,) or (n, outputs)."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        answers = predict(X, *self._models())
        return answers[:, 0] if np.ndim(self.coef_) == 1 else answers

    def prediction_bound(self, X: Any) -> Floats:
        """For every row, what its w.x + c is off by at most, rounding included. Two predictions of a row,
        alone and beside others, differ by twice that at most."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        bounds = bound_predictions(X, *self._models())
        return bounds[:, 0] if np.ndim(self.coef_) == 1 else bounds

    def plot_heads(self, path: str | os.PathLike[str] | None = None, progress: Progress = True) -> Any:
        """What each head does, on the examples of the fit (of several outputs, the first): a matplotlib
        figure, or a file (.png, .svg or .pdf). progress: whether a terminal or notebook says what is being done."""
        check_is_fitted(self)
        if self.prompt_ is None:
            raise ValueError(f"{self!r} found its coefficients with several prompts; none of them stands for the run")
        with show_progress(progress, "drawing what each head does"):
            return heads_picture(self, path)

    def _read_off(self, state: Floats) -> Floats:
        """The coefficients and the intercept, of the first output, that a state of the network begins with."""
        coef, intercept = self.scaling_.coefficients(state[: self.n_features_in_ + bool(self.fit_intercept)])
        return np.append(coef, intercept)

    def _models(self) -> tuple[Floats, Floats]:
        coef = np.atleast_2d(self.coef_)
        return coef, np.broadcast_to(np.atleast_1d(self.intercept_), (len(coef),))


def _of_fair_size(name: str, columns: Floats) -> None:
    """Squares of what is much larger or smaller are no floats."""
    largest = np.abs(columns).max(axis=0)
    for number, size in enumerate(largest.tolist()):
        if size != 0 and not LEAST <= size <= MOST:
            raise ValueError(
                f"{name}: the largest entry of column {number} is {size!r} in size; from {LEAST:g} to {MOST:g} it can"
                " be fitted: scale the column"
            )
