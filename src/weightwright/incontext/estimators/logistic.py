"""Classes: LogisticRegression."""

from __future__ import annotations

from fractions import Fraction
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit
from sklearn.base import ClassifierMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from weightwright.incontext.estimators.base import InContextModel
from weightwright.incontext.estimators.solving import Penalties
from weightwright.network.layers import Floats


class LogisticRegression(ClassifierMixin, InContextModel):
    """As scikit-learn's LogisticRegression: C times the sum of the logistic losses, and |w|^2/2.

    A softmax over two keys is the slope of the logistic loss, so the tables are exact. Of more than two classes each
    has a problem of its own, against all others (one-vs-rest); all of them run in one call.
    """

    _loss = "logistic"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **InContextModel._parameter_constraints,
        "C": [Interval(Real, 0, None, closed="right")],
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }

    def __init__(
        self,
        *,
        C: float = 1.0,
        fit_intercept: bool = True,
        class_weight: Any = None,
        tol: float = 1e-9,
        max_steps: int = 5000,
        head_tol: float | None = None,
        dtype: Any = "float64",
    ) -> None:
        self.C = C
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.tol = tol
        self.max_steps = max_steps
        self.head_tol = head_tol
        self.dtype = dtype

    def decision_function(self, X: Any) -> Floats:
        """w.x + c, by a forward pass: (n,) for two classes, else (n, classes)."""
        answers = self._linear_predictor(X)
        return answers[:, 0] if len(self.classes_) == 2 else answers

    def predict_proba(self, X: Any) -> Floats:
        """(n, classes): sigmoid(w.x + c); of more than two classes each against all others, over the sum of all."""
        positive = expit(self.decision_function(X))
        if positive.ndim == 1:
            return np.stack([1 - positive, positive], axis=1)
        total = positive.sum(axis=1, keepdims=True)
        return np.where(total > 0, positive / np.where(total > 0, total, 1.0), 1 / positive.shape[1])

    def predict_log_proba(self, X: Any) -> Floats:
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

    def _is_one(self, y: Any) -> bool:
        return False

    def _weighted(self, y: Any, weights: Floats) -> Floats:
        return weights if self.class_weight is None else weights * compute_sample_weight(self.class_weight, y)

    def _penalties(self) -> Penalties:
        return Penalties(ridge=1 / Fraction(self.C) if np.isfinite(self.C) else Fraction(0))
