"""Algorithms that run in context: frozen networks, the exact iterates beside them, and the way to the optimum.

Arguments that mean the same everywhere:

X: the examples, (samples, features).
y: their targets, (samples,).
weights: how much each example counts, (samples,); None: all alike.
start: the state before the first step; None: zeros.
loss: a name of the catalogue ("squared", "huber", "logistic", "poisson", ...), or what `loss` returns.
problem: what is minimised, a `Problem`.
method: an algorithm on a problem, a `Method`.
algorithm: passes as data, an `Algorithm`; `fitting` takes names too.
samples: the most examples that a prompt can have; None: as many as there are.
features: numbers of an example.
steps: how many steps one call of the network takes.
step: the size of a step, for the mean of the losses.
momentum: the share of the last step that is taken again.
ridge: the penalty ridge/2 |w|^2; a number, or one for each feature.
l1: the penalty l1 |w|_1; a number, or one for each feature.
tol: what a table of the loss's slope, or one pass of a rule, may be off by; None: what suits the dtype.
dtype: torch.float64 or torch.float32, or its name.
looped: whether all steps share one set of layers; else the steps are stacked.
radius: how far weights may be from 0, in the Euclidean norm.
progress: True says in a terminal or notebook what is being done, once it takes two seconds; False says nothing; a
function is told.
path: a .png, .svg or .pdf.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from weightwright.errors import MissingExtraError
from weightwright.extensions import added_names
from weightwright.incontext.answer_bound import AnswerBound
from weightwright.incontext.causal import CausalLearner, causal_learner
from weightwright.incontext.choosing import fitting
from weightwright.incontext.descent import Descent
from weightwright.incontext.errors.distance import Distance, to_iterates, to_optimum
from weightwright.incontext.errors.iterates import Iterates, exact_iterates, plain_iterates
from weightwright.incontext.errors.lemma import Composed, composed_error, largest_stable_step, require_stable
from weightwright.incontext.errors.prefixes import PrefixErrors
from weightwright.incontext.networks.descent_network import Ranges
from weightwright.incontext.networks.passes import Algorithm
from weightwright.incontext.one_pass import Learner, learner
from weightwright.incontext.problem.loss import Loss, loss
from weightwright.incontext.problem.method import Method, chebyshev, gradient_descent, method, nesterov
from weightwright.incontext.problem.problem import Problem
from weightwright.incontext.rule_runs import AlgorithmRun
from weightwright.incontext.rules import Rule, algorithm
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
    "AnswerBound",
    "CausalLearner",
    "Composed",
    "Descent",
    "Distance",
    "ElasticNet",
    "HuberRegressor",
    "Iterates",
    "Lasso",
    "Learner",
    "LinearRegression",
    "LogisticRegression",
    "Loss",
    "Method",
    "PoissonRegressor",
    "PrefixErrors",
    "Problem",
    "Ranges",
    "Ridge",
    "Rule",
    "Run",
    "algorithm",
    "causal_learner",
    "chebyshev",
    "composed_error",
    "exact_iterates",
    "fitting",
    "gradient_descent",
    "largest_stable_step",
    "learner",
    "loss",
    "method",
    "nesterov",
    "plain_iterates",
    "require_stable",
    "to_iterates",
    "to_optimum",
]
_ADDED = added_names("incontext")
__all__ += _ADDED
__all__.sort()


def __getattr__(name: str) -> Any:
    if name in _ADDED:
        return getattr(import_module(_ADDED[name]), name)
    if name not in _ESTIMATORS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__])
    try:
        return getattr(import_module(f"weightwright.estimators.{_ESTIMATORS[name]}"), name)
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("sklearn"):
            raise
        raise MissingExtraError(f"{name} needs scikit-learn", "sklearn") from error


def __dir__() -> list[str]:
    return sorted(__all__)
