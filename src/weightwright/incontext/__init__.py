"""Algorithms that run in context: losses, the exact iterates they are compared with, and distances to the optimum."""

from weightwright.incontext.exact import Iterates, exact_iterates, plain_iterates
from weightwright.incontext.losses import Loss, loss
from weightwright.incontext.methods import Method, Pass, chebyshev, gradient_descent, nesterov
from weightwright.incontext.problem import Problem

__all__ = [
    "Iterates",
    "Loss",
    "Method",
    "Pass",
    "Problem",
    "chebyshev",
    "exact_iterates",
    "gradient_descent",
    "loss",
    "nesterov",
    "plain_iterates",
]
