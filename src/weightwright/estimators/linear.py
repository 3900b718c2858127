"""Least squares with and without penalties: LinearRegression, Ridge, Lasso, ElasticNet.

Counts: PoissonRegressor.
"""

from __future__ import annotations

import math
from fractions import Fraction
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.metrics import d2_tweedie_score
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import validate_data

from weightwright.estimators.base import METHOD, InContextModel, ReadData
from weightwright.estimators.solving.scaling import exact_sum
from weightwright.estimators.solving.solve import Solution
from weightwright.incontext.optimum.sharp_distance import gap_above
from weightwright.numbers import Floats, as_fraction

ALPHA = [Interval(Real, 0, None, closed="left")]


class _LeastSquares(MultiOutputMixin, RegressorMixin, InContextModel):
    _loss = "squared"

    def predict(self, X: Any) -> Floats:
        """w.x + c for every row, by a forward pass."""
        return self._linear_predictor(X)

    def _is_one(self, y: Any) -> bool:
        """A single column counts as a vector, as in scikit-learn, but for its LinearRegression."""
        return bool(y.ndim == 1 or y.shape[1] == 1)


class _ByEitherMethod(_LeastSquares):
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {**InContextModel._parameter_constraints, **METHOD}


class LinearRegression(_ByEitherMethod):
    """Ordinary least squares, in context; of minimum norm where the solution is not unique.

    method: "gradient", Chebyshev's steps on the examples, about as many as the square root of the condition
    number; or "newton-schulz", the normal equations by matrix products, about as many passes as its
    logarithm, for up to 128 coefficients. "auto" takes gradients, whose network is certified, where max_steps
    passes are enough for them, and Newton-Schulz where it arrives and gradients do not.

    >>> from weightwright.incontext import LinearRegression
    >>> model = LinearRegression().fit([[0.0], [1.0], [2.0]], [1.0, 3.0, 5.0])
    >>> bool(abs(model.coef_[0] - 2) <= model.bound_ < 1e-8)
    True
    """

    def __init__(
        self,
        *,
        fit_intercept: bool = True,
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
        self.method = method

    def _is_one(self, y: Any) -> bool:
        return bool(y.ndim == 1)


class Ridge(_ByEitherMethod):
    """Least squares with alpha |w|^2, as scikit-learn's Ridge: |y - X w|^2 + alpha |w|^2.

    alpha: how strong the penalty is; an array has one for each column of y.
    method: as for LinearRegression.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_ByEitherMethod._parameter_constraints,
        "alpha": [*ALPHA, np.ndarray],
    }

    def __init__(
        self,
        alpha: float | Floats = 1.0,
        *,
        fit_intercept: bool = True,
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
        self.alpha = alpha
        self.method = method

    def _penalties_of_each(self, columns: int) -> list[tuple[Fraction, Fraction]]:
        alphas = np.ravel(self.alpha)
        if len(alphas) not in (1, columns):
            raise ValueError(
                f"Number of targets and number of penalties do not correspond: {len(alphas)} != {columns}; alpha is one"
                " number, or an array with one for each column of y"
            )
        if alphas.dtype.kind not in "iuf" or not (np.isfinite(alphas) & (alphas >= 0)).all():
            raise ValueError(f"alpha={self.alpha!r}: penalties are finite numbers that are not negative")
        return [(as_fraction(alpha), Fraction(0)) for alpha in np.broadcast_to(alphas, (columns,))]


class _WithL1(_LeastSquares):
    """What `bound_` is for the coefficients `dual_gap_` is for what is minimised, for each column of y: proven."""

    def _accept_more(self, data: ReadData, answer: Solution, mine: slice) -> None:
        total = exact_sum(data.weights) if self.proof else None
        fitted = np.hstack([answer.coef[mine], answer.intercept[mine, None]])
        gaps = [
            gap_above(problem, numbers[: problem.size], total) if total else math.inf
            for problem, numbers in zip(self._problems(data), fitted, strict=True)
        ]
        self.dual_gap_ = gaps[0] if data.one else np.array(gaps)


class Lasso(_WithL1):
    """Least squares with an l1 penalty, as scikit-learn's Lasso: |y - X w|^2 / (2 n) + alpha |w|_1.

    `dual_gap_`: what is minimised is above its minimum by that at most; infinite where it is not known.
    """

    _relative = True
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {**InContextModel._parameter_constraints, "alpha": ALPHA}

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        fit_intercept: bool = True,
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
        self.alpha = alpha

    def _penalties(self) -> tuple[Fraction, Fraction]:
        return Fraction(0), as_fraction(self.alpha)


class ElasticNet(_WithL1):
    """Both penalties, as ElasticNet: |y - X w|^2 / (2 n) + alpha l1_ratio |w|_1 + alpha (1 - l1_ratio) |w|^2 / 2.

    l1_ratio: the share of the l1 penalty; 1 is Lasso.

    `dual_gap_`: as of Lasso.
    """

    _relative = True
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **InContextModel._parameter_constraints,
        "alpha": ALPHA,
        "l1_ratio": [Interval(Real, 0, 1, closed="both")],
    }

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        l1_ratio: float = 0.5,
        fit_intercept: bool = True,
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
        self.alpha = alpha
        self.l1_ratio = l1_ratio

    def _penalties(self) -> tuple[Fraction, Fraction]:
        alpha, share = as_fraction(self.alpha), as_fraction(self.l1_ratio)
        return alpha * (1 - share), alpha * share


class PoissonRegressor(RegressorMixin, InContextModel):
    """Counts with mean exp(w.x + c), as scikit-learn's PoissonRegressor: the mean of exp(z) - y z, and alpha/2 |w|^2.

    The network has exp as a table; `predict` takes the exponential of what a forward pass returns.

    method: as for LogisticRegression.
    """

    _loss = "poisson"
    _relative = True
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **InContextModel._parameter_constraints,
        **METHOD,
        "alpha": ALPHA,
    }

    def __init__(
        self,
        *,
        alpha: float = 1.0,
        fit_intercept: bool = True,
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
        self.alpha = alpha
        self.method = method

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

    def _penalties(self) -> tuple[Fraction, Fraction]:
        return as_fraction(self.alpha), Fraction(0)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags
