"""Algorithms that run in context: frozen networks, the exact iterates beside them, and the way to the optimum."""

from weightwright.constructions.in_context import Ranges
from weightwright.constructions.passes import Algorithm
from weightwright.incontext.choosing import fitting
from weightwright.incontext.descent import Descent
from weightwright.incontext.distance import Distance, to_iterates, to_optimum
from weightwright.incontext.exact import Iterates, exact_iterates, plain_iterates
from weightwright.incontext.lemma import Composed, composed_error, largest_stable_step, require_stable
from weightwright.incontext.losses import Loss, loss
from weightwright.incontext.methods import Method, chebyshev, gradient_descent, method, nesterov
from weightwright.incontext.problem import Problem
from weightwright.incontext.runs import Run

__all__ = [
    "Algorithm",
    "Composed",
    "Descent",
    "Distance",
    "Iterates",
    "Loss",
    "Method",
    "Problem",
    "Ranges",
    "Run",
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
