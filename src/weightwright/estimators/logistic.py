"""Classes: LogisticRegression."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from weightwright.estimators.base import METHOD, InContextModel, ReadData
from weightwright.estimators.solving.multinomial_fit import plan_multinomial, solve_multinomial
from weightwright.estimators.solving.solve import Solution
from weightwright.incontext.errors.distance import Distance
from weightwright.incontext.optimum.sharp_distance import multinomial_distance
from weightwright.incontext.problem.loss import loss
from weightwright.incontext.problem.problem import Problem
from weightwright.numbers import Floats, as_fraction


class LogisticRegression(ClassifierMixin, InContextModel):
    """As scikit-learn's LogisticRegression: C times the sum of the logistic losses, and |w|^2/2.

    A softmax over two keys is the slope of the logistic loss, so the tables are exact.

    C: the inverse of the penalty's strength, as in scikit-learn.
    class_weight: how much each class counts: None, "balanced" or a dict, as in scikit-learn.
    multi_class: for more than two classes. "multinomial", as scikit-learn: one model softmax(W x + c), a softmax over
    one key for each class; its intercepts add up to 0 but for rounding, as scikit-learn's do. "ovr": each class has a
    problem of its own, against all others; all of them run in one call.
    method: "gradient", Nesterov's steps on the examples, whose network is certified; or "newton-schulz", Newton's
    method, whose linear systems stand in the prompt and are solved by matrix products, for up to 128 coefficients and
    models of one class against others. "auto" takes gradients where max_steps passes are enough for them, and Newton's
    method where it arrives and they do not, or where there are more than 8192 samples.

    >>> from weightwright.incontext import LogisticRegression
    >>> X, y = [[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]], ["a", "a", "b", "b", "c", "c"]
    >>> model = LogisticRegression().fit(X, y)
    >>> model.coef_.shape, bool(model.bound_ < 1e-7), model.predict([[2.5]]).tolist()
    ((3, 1), True, ['b'])
    """

    _loss = "logistic"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **InContextModel._parameter_constraints,
        **METHOD,
        "C": [Interval(Real, 0, None, closed="right")],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "multi_class": [StrOptions({"multinomial", "ovr"})],
    }

    def __init__(
        self,
        *,
        C: float = 1.0,
        fit_intercept: bool = True,
        class_weight: Any = None,
        multi_class: str = "multinomial",
        method: str = "auto",
        tol: float = 1e-9,
        max_steps: int = 5000,
        head_tol: float | None = None,
        dtype: Any = "float64",
        device: Any = None,
        proof: bool = True,
    ) -> None:
        super().__init__(
            fit_intercept=fit_intercept,
            tol=tol,
            max_steps=max_steps,
            head_tol=head_tol,
            dtype=dtype,
            device=device,
            proof=proof,
        )
        self.C = C
        self.class_weight = class_weight
        self.multi_class = multi_class
        self.method = method

    def decision_function(self, X: Any) -> Floats:
        """w.x + c, by a forward pass: (n,) for two classes, else (n, classes)."""
        answers = self._linear_predictor(X)
        return answers[:, 0] if len(self.classes_) == 2 else answers

    def prediction_bound(self, X: Any) -> Floats:
        """What `decision_function` is off by at most, rounding included, of the same shape."""
        bounds = super().prediction_bound(X)
        return bounds[:, 0] if len(self.classes_) == 2 else bounds

    def predict_proba(self, X: Any) -> Floats:
        """(n, classes): sigmoid(w.x + c); of more than two classes softmax(W x + c), or with "ovr" each
        against all others, over the sum of all."""
        decision = self.decision_function(X)
        if decision.ndim == 2 and self.multi_class == "multinomial":
            return np.asarray(softmax(decision, axis=1), dtype=np.float64)
        positive = expit(decision)
        if positive.ndim == 1:
            return np.stack([1 - positive, positive], axis=1)
        total = positive.sum(axis=1, keepdims=True)
        return np.where(total > 0, positive / np.where(total > 0, total, 1.0), 1 / positive.shape[1])

    def predict_log_proba(self, X: Any) -> Floats:
        """The logarithms of `predict_proba`."""
        return np.log(self.predict_proba(X))

    def predict(self, X: Any) -> Any:
        """The likeliest class of every row."""
        decision = self.decision_function(X)
        chosen = (decision > 0).astype(int) if decision.ndim == 1 else decision.argmax(axis=1)
        return self.classes_[chosen]

    def _validated(self, X: Any, y: Any) -> tuple[Floats, Any]:
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_ = np.unique(y)
        if len(self.classes_) < 2:
            raise ValueError(
                "This solver needs samples of at least 2 classes in the data, but the data contains only one class:"
                f" {self.classes_[0]!r}"
            )
        return X, y

    def _columns(self, y: Any) -> Floats:
        """(n, problems) of 1 and -1: the second class against the first, or each against all others."""
        which = self.classes_[1:] if len(self.classes_) == 2 else self.classes_
        return np.where(y[:, None] == which, 1.0, -1.0)

    def _steps_for(self, problems: list[Problem]) -> int:
        if not self._in_one_model(len(problems)):
            return super()._steps_for(problems)
        return plan_multinomial([_as_one(problems)], len(problems), self._settings())[2].needed

    def _solve(self, data: Sequence[ReadData]) -> Solution:
        columns = sorted({one.Y.shape[1] for one in data})
        if not self._in_one_model(columns[-1]):
            return super()._solve(data)
        if len(columns) > 1:
            counts = [max(count, 2) for count in columns]
            raise ValueError(
                f"ys: with multi_class='multinomial' all data sets need the same number of classes, not {counts};"
                " take multi_class='ovr', or fit them one by one"
            )
        return solve_multinomial([_as_one(self._problems(one)) for one in data], columns[0], self._settings())

    def _distances(self, problems: list[Problem], answer: Solution, mine: slice) -> Sequence[Distance]:
        if not self._in_one_model(len(problems)):
            return super()._distances(problems, answer, mine)
        return [multinomial_distance(_as_one(problems), answer.coef[mine], answer.intercept[mine])]

    def _in_one_model(self, columns: int) -> bool:
        """Two classes have one column, and one model anyway."""
        if self.multi_class == "multinomial" and columns > 1 and self.method == "newton-schulz":
            raise ValueError(
                f"method='newton-schulz' is for one class against others, and y has {columns} classes in one model;"
                " take multi_class='ovr', or method='gradient'"
            )
        return self.multi_class == "multinomial" and columns > 1

    def _is_one(self, y: Any) -> bool:
        return False

    def _accept_more(self, data: ReadData, answer: Solution, mine: slice) -> None:
        self.intercept_ = answer.intercept[mine]  # zeros without one, as scikit-learn's

    def _weighted(self, y: Any, weights: Floats) -> Floats:
        return weights if self.class_weight is None else weights * compute_sample_weight(self.class_weight, y)

    def _penalties(self) -> tuple[Fraction, Fraction]:
        return (1 / as_fraction(self.C) if np.isfinite(self.C) else Fraction(0)), Fraction(0)


def _as_one(problems: Sequence[Problem]) -> Problem:
    """Each class against all others, as one problem whose targets are the numbers of the classes."""
    labels = np.argmax([problem.y for problem in problems], axis=0)
    return replace(problems[0], y=labels.astype(np.float64), loss=loss("squared"))
