"""Counts: PoissonRegressor."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import d2_tweedie_score
from sklearn.utils.validation import validate_data

from weightwright.incontext.estimators.base import InContextModel
from weightwright.incontext.estimators.linear import ALPHA
from weightwright.incontext.estimators.solving import Penalties
from weightwright.network.layers import Floats


class PoissonRegressor(RegressorMixin, InContextModel):
    """Counts with mean exp(w.x + c), as scikit-learn's PoissonRegressor: the mean of exp(z) - y z, and alpha/2 |w|^2.

    The network has exp as a table; `predict` takes the exponential of what a forward pass returns.
    """

    _loss = "poisson"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {**InContextModel._parameter_constraints, "alpha": ALPHA}

    def __init__(
        self,
        *,
        alpha: float = 1.0,
        fit_intercept: bool = True,
        tol: float = 1e-9,
        max_steps: int = 5000,
        head_tol: float | None = None,
        dtype: Any = "float64",
    ) -> None:
        super().__init__(fit_intercept=fit_intercept, tol=tol, max_steps=max_steps, head_tol=head_tol, dtype=dtype)
        self.alpha = alpha

    def predict(self, X: Any) -> Floats:
        """exp(w.x + c) for every row."""
        return np.exp(self._linear_predictor(X))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """D^2, the share of the deviance that is explained."""
        return float(d2_tweedie_score(y, self.predict(X), sample_weight=sample_weight, power=1))

    def _validated(self, X: Any, y: Any) -> tuple[Floats, Any]:
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        y = np.asarray(y, dtype=np.float64)
        if (y < 0).any():
            raise ValueError(
                "Some value(s) of y are out of the valid range of the loss 'HalfPoissonLoss':"
                f" y[{int(np.argmax(y < 0))}] is {float(y[y < 0][0])!r}, and counts are not negative."
            )
        return X, y

    def _penalties(self) -> Penalties:
        return Penalties(ridge=Fraction(self.alpha), relative=True)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags
