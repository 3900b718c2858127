"""Algorithms that run in context: losses, the exact iterates they are compared with, and distances to the optimum."""

from weightwright.incontext.distance import Distance, to_iterates, to_optimum
from weightwright.incontext.exact import Iterates, exact_iterates, plain_iterates
from weightwright.incontext.lemma import Composed, composed_error, largest_stable_step, require_stable
from weightwright.incontext.losses import Loss, loss
from weightwright.incontext.methods import Method, Pass, chebyshev, gradient_descent, nesterov
from weightwright.incontext.problem import Problem

__all__ = [
    "Composed",
    "Distance",
    "Iterates",
    "Loss",
    "Method",
    "Pass",
    "Problem",
    "chebyshev",
    "composed_error",
    "exact_iterates",
    "gradient_descent",
    "largest_stable_step",
    "loss",
    "nesterov",
    "plain_iterates",
    "require_stable",
    "to_iterates",
    "to_optimum",
]
