"""Regression that outliers hardly move: HuberRegressor."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import validate_data

from weightwright.estimators.base import InContextModel, ReadData
from weightwright.estimators.linear import ALPHA
from weightwright.estimators.solving.huber_fit import HuberSolution, huber_contexts, solve_huber
from weightwright.estimators.solving.huber_plan import plan_stages
from weightwright.estimators.solving.solve import Solution
from weightwright.incontext.errors.distance import Distance
from weightwright.incontext.optimum.sharp_distance import huber_distance
from weightwright.incontext.problem.problem import Problem
from weightwright.numbers import Floats, as_fraction


class HuberRegressor(RegressorMixin, InContextModel):
    """As scikit-learn's HuberRegressor: sum_i s_i (sigma + H(r_i / sigma) sigma) + alpha |w|^2 with r_i = w.x_i + c -
    y_i, where H is quadratic up to epsilon and goes on as a straight line. The scale sigma is part of the state.

    epsilon: from how many times sigma on a residual counts as an outlier's.

    It runs in stages, since steps must be short where sigma is small; `network_` is that of the last one.
    `bound_` is about coef_ and intercept_, `scale_bound_` about scale_. Where all samples can be fitted exactly the
    best scale is 0, and scale_ is a small number. It may be 0 too where most can be; no bound is known then.

    >>> from weightwright.incontext import HuberRegressor
    >>> model = HuberRegressor().fit([[0.0], [1.0], [2.0], [3.0], [4.0]], [0.0, 1.5, 1.75, 3.25, 40.0])
    >>> model.outliers_.tolist(), bool(model.bound_ < 1e-6)
    ([False, False, False, False, True], True)
    """

    _loss = "squared"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **InContextModel._parameter_constraints,
        "alpha": ALPHA,
        "epsilon": [Interval(Real, 1, None, closed="left")],
    }

    def __init__(
        self,
        *,
        epsilon: float = 1.35,
        max_steps: int = 5000,
        alpha: float = 0.0001,
        fit_intercept: bool = True,
        tol: float = 1e-9,
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
        self.epsilon = epsilon
        self.alpha = alpha

    def predict(self, X: Any) -> Floats:
        """w.x + c for every row, by a forward pass."""
        return self._linear_predictor(X)

    def _validated(self, X: Any, y: Any) -> tuple[Floats, Any]:
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        return X, np.asarray(y, dtype=np.float64)

    def _penalties(self) -> tuple[Fraction, Fraction]:
        return 2 * as_fraction(self.alpha), Fraction(0)

    def _steps_for(self, problems: list[Problem]) -> int:
        contexts, _ = huber_contexts(problems, float(self.epsilon))
        return plan_stages(contexts, float(self.tol), int(self.max_steps)).needed

    def _solve(self, data: Sequence[ReadData]) -> HuberSolution:
        problems = [problem for one in data for problem in self._problems(one)]
        return solve_huber(problems, float(self.epsilon), self._settings())

    def _accept_more(self, data: ReadData, answer: Solution, mine: slice) -> None:
        assert isinstance(answer, HuberSolution)
        self.scale_ = float(answer.scale[mine][0])
        residuals = np.abs(data.X @ self.coef_ + self.intercept_ - data.Y[:, 0])
        self.outliers_ = residuals > self.epsilon * self.scale_

    def _distances(self, problems: list[Problem], answer: Solution, mine: slice) -> Sequence[Distance]:
        coef, intercept = answer.coef[mine][0], float(answer.intercept[mine][0])
        found = huber_distance(problems[0], as_fraction(self.epsilon), coef, intercept, self.scale_)
        self.scale_bound_ = found.scale
        return [found]
