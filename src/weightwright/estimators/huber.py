"""Regression that outliers hardly move: HuberRegressor."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import validate_data

from weightwright.estimators.base import InContextModel, ReadData
from weightwright.estimators.linear import ALPHA
from weightwright.estimators.solving.huber_plan import planned
from weightwright.estimators.solving.huber_problem import huber_contexts
from weightwright.estimators.solving.huber_run import HuberFixed, run_stages
from weightwright.estimators.solving.scaling import Scaling
from weightwright.estimators.solving.solve import Data, ShownRun, Solved
from weightwright.incontext.errors.distance import Distance
from weightwright.incontext.optimum.sharp_distance import huber_distance
from weightwright.numbers import Floats


@dataclass(frozen=True, eq=False)
class HuberSolved(Solved):
    """scale: (B,)."""

    scale: Floats


class HuberRegressor(RegressorMixin, InContextModel):
    """As scikit-learn's HuberRegressor: sum_i s_i (sigma + H(r_i / sigma) sigma) + alpha |w|^2 with r_i = w.x_i + c -
    y_i, where H is quadratic up to epsilon and goes on as a straight line. The scale sigma is part of the state.

    It runs in stages, since steps must be short where sigma is small; `network_` is that of the last one.
    `bound_` is about coef_ and intercept_, `scale_bound_` about scale_. Where all samples can be fitted exactly the
    best scale is 0, and scale_ is a small number. It may be 0 too where most can be; no bound is known then.

    >>> from weightwright.incontext import HuberRegressor
    >>> model = HuberRegressor().fit([[0.0], [1.0], [2.0], [3.0], [4.0]], [0.0, 1.5, 1.75, 3.25, 40.0])
    >>> model.outliers_.tolist(), bool(model.bound_ < 1e-6)
    ([False, False, False, False, True], True)
    """

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
    ) -> None:
        super().__init__(fit_intercept=fit_intercept, tol=tol, max_steps=max_steps, head_tol=head_tol, dtype=dtype)
        self.epsilon = epsilon
        self.alpha = alpha

    def predict(self, X: Any) -> Floats:
        """w.x + c for every row, by a forward pass."""
        return self._linear_predictor(X)

    def _validated(self, X: Any, y: Any) -> tuple[Floats, Any]:
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        return X, np.asarray(y, dtype=np.float64)

    def _needed(self, problems: list[Data]) -> int:
        contexts, _ = huber_contexts(problems, float(self.epsilon), float(self.alpha), self.fit_intercept)
        return planned(contexts, float(self.tol), int(self.max_steps)).needed

    def _solved(self, data: Sequence[ReadData]) -> HuberSolved:
        problems = [problem for one in data for problem in one.problems()]
        settings = self._settings()
        contexts, scalings = huber_contexts(problems, float(self.epsilon), float(self.alpha), self.fit_intercept)
        plan = planned(contexts, settings.tol, settings.max_steps)
        if plan.needed > settings.max_steps or plan.unfinished:
            warnings.warn(
                f"these data need {'more than' if plan.unfinished else 'about'} {plan.needed} steps of the Nesterov"
                f" method (condition number about {plan.condition:.3g}), but max_steps={settings.max_steps}; the fit"
                " will stop early",
                ConvergenceWarning,
                stacklevel=3,
            )
        fixed = run_stages(contexts, plan, settings.max_steps, settings.tol, settings.head_tol, settings.dtype)
        back = [scaling.coefficients(theta[:-1]) for scaling, theta in zip(scalings, fixed.theta, strict=True)]
        return HuberSolved(
            coef=np.stack([coef for coef, _ in back]),
            intercept=np.array([c for _, c in back]),
            steps=fixed.steps,
            needed=plan.needed,
            remaining=contexts.missing(fixed.theta)[0],
            units=contexts.units,
            network=fixed.network,
            scale=fixed.theta[:, -1] * [scaling.y_scale for scaling in scalings],
            shown=_shown(fixed, scalings),
        )

    def _accept_more(self, data: ReadData, answer: Solved, mine: slice) -> None:
        assert isinstance(answer, HuberSolved)
        self.scale_ = float(answer.scale[mine][0])
        residuals = np.abs(data.X @ self.coef_ + self.intercept_ - data.Y[:, 0])
        self.outliers_ = residuals > self.epsilon * self.scale_

    def _distances(self, problems: list[Data], answer: Solved, mine: slice) -> Sequence[Distance]:
        problem = problems[0]
        found = huber_distance(
            problem.X,
            problem.y,
            problem.weights,
            Fraction(self.epsilon),
            Fraction(self.alpha),
            self.fit_intercept,
            answer.coef[mine][0],
            float(answer.intercept[mine][0]),
            self.scale_,
        )
        self.scale_bound_ = found.scale
        return [found]


def _shown(fixed: HuberFixed, scalings: Sequence[Scaling]) -> ShownRun | None:
    """The prompts of the last stage, where all problems have one."""
    if len(fixed.prompts) < len(scalings):
        return None
    units = [replace(one, y_scale=one.y_scale * float(unit)) for one, unit in zip(scalings, fixed.units, strict=True)]
    return ShownRun(list(fixed.prompts), units)
