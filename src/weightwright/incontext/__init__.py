"""Algorithms that run in context: frozen networks, the exact iterates beside them, and the way to the optimum."""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from weightwright.errors import MissingExtraError
from weightwright.incontext.choosing import fitting
from weightwright.incontext.descent import Descent
from weightwright.incontext.errors.distance import Distance, to_iterates, to_optimum
from weightwright.incontext.errors.iterates import Iterates, exact_iterates, plain_iterates
from weightwright.incontext.errors.lemma import Composed, composed_error, largest_stable_step, require_stable
from weightwright.incontext.networks.descent_network import Ranges
from weightwright.incontext.networks.passes import Algorithm
from weightwright.incontext.problem.loss import Loss, loss
from weightwright.incontext.problem.method import Method, chebyshev, gradient_descent, method, nesterov
from weightwright.incontext.problem.problem import Problem
from weightwright.incontext.rules import AlgorithmRun, Rule, algorithm
from weightwright.incontext.run import Run

if TYPE_CHECKING:
    from weightwright.estimators.huber import HuberRegressor
    from weightwright.estimators.linear import ElasticNet, Lasso, LinearRegression, PoissonRegressor, Ridge
    from weightwright.estimators.logistic import LogisticRegression

#: The estimators by the module that has them; they need scikit-learn, nothing else here does.
_ESTIMATORS = {
    "ElasticNet": "linear",
    "HuberRegressor": "huber",
    "Lasso": "linear",
    "LinearRegression": "linear",
    "LogisticRegression": "logistic",
    "PoissonRegressor": "linear",
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
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__])
    try:
        return getattr(import_module(f"weightwright.estimators.{_ESTIMATORS[name]}"), name)
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("sklearn"):
            raise
        raise MissingExtraError(f"{name} needs scikit-learn", "sklearn") from error
