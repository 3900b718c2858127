"""Algorithms that run in context: frozen networks, the exact iterates beside them, and the way to the optimum."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from weightwright.constructions.in_context import Ranges
from weightwright.constructions.passes import Algorithm
from weightwright.incontext.algorithm_runs import AlgorithmRun
from weightwright.incontext.algorithms import Rule, algorithm
from weightwright.incontext.choosing import fitting
from weightwright.incontext.descent import Descent
from weightwright.incontext.distance import Distance, to_iterates, to_optimum
from weightwright.incontext.exact import Iterates, exact_iterates, plain_iterates
from weightwright.incontext.lemma import Composed, composed_error, largest_stable_step, require_stable
from weightwright.incontext.losses import Loss, loss
from weightwright.incontext.methods import Method, chebyshev, gradient_descent, method, nesterov
from weightwright.incontext.problem import Problem
from weightwright.incontext.runs import Run

if TYPE_CHECKING:
    from weightwright.incontext.estimators.huber import HuberRegressor
    from weightwright.incontext.estimators.linear import ElasticNet, Lasso, LinearRegression, Ridge
    from weightwright.incontext.estimators.logistic import LogisticRegression
    from weightwright.incontext.estimators.poisson import PoissonRegressor

#: The estimators by the module that has them; they need scikit-learn, nothing else here does.
_ESTIMATORS = {
    "ElasticNet": "linear",
    "HuberRegressor": "huber",
    "Lasso": "linear",
    "LinearRegression": "linear",
    "LogisticRegression": "logistic",
    "PoissonRegressor": "poisson",
    "Ridge": "linear",
}

__all__ = [
    "Algorithm",
    "AlgorithmRun",
    "Composed",
    "Descent",
    "Distance",
    "ElasticNet",
    "HuberRegressor",
    "Iterates",
    "Lasso",
    "LinearRegression",
    "LogisticRegression",
    "Loss",
    "Method",
    "PoissonRegressor",
    "Problem",
    "Ranges",
    "Ridge",
    "Rule",
    "Run",
    "algorithm",
    "chebyshev",
    "composed_error",
    "exact_iterates",
    "fitting",
    "gradient_descent",
    "largest_stable_step",
    "loss",
    "method",
    "nesterov",
    "plain_iterates",
    "require_stable",
    "to_iterates",
    "to_optimum",
]


def __getattr__(name: str) -> Any:
    if name not in _ESTIMATORS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"weightwright.incontext.estimators.{_ESTIMATORS[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name != "sklearn":
            raise
        raise ImportError(f"{name} needs scikit-learn: pip install 'weightwright[sklearn]'") from error
