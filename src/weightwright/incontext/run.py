"""What a run of an algorithm in context was: every state, and two distances that are never mixed.

To the exact iterate: how far the network is from the plain algorithm without rounding. To the optimum: how far the
algorithm has come, found afterwards from the weights alone.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from weightwright.incontext.errors.distance import Distance, to_iterates, to_optimum
from weightwright.incontext.errors.iterates import Iterates, exact_iterates
from weightwright.incontext.errors.lemma import Composed, composed_error
from weightwright.incontext.problem.method import Method
from weightwright.incontext.problem.problem import Problem
from weightwright.incontext.run_plots import plot_run
from weightwright.network.layers import Floats
from weightwright.runtime import AttentionNetwork


@dataclass(frozen=True, eq=False)
class Run:
    """states: (steps + 1, 1 or 2, d), w and p before the first step and after each, as the network's first token had
    them. apart: how far those of any other token were from them, at most."""

    problem: Problem
    method: Method
    step: float
    states: Floats
    net: AttentionNetwork
    apart: float = 0.0

    def __repr__(self) -> str:
        where = f"distance to the optimum at most {self.to_optimum.bound:.3g}"
        return f"Run({self.steps} steps of {self.method.algorithm.name} on {self.problem.loss.name}, {where})"

    @property
    def steps(self) -> int:
        return len(self.states) - 1

    @property
    def path(self) -> Floats:
        """(steps + 1, d): the answer after every step."""
        return self.states[:, 1 if self.method.answer == "p" else 0]

    @property
    def w(self) -> Floats:
        """The answer."""
        return self.path[-1]

    @cached_property
    def exact(self) -> Iterates:
        """The plain algorithm on the same numbers, every state in a ball of a radius below 1e-30."""
        return exact_iterates(self.problem, self.method, self.steps, self.states[0, 0])

    @cached_property
    def errors(self) -> Floats:
        """(steps + 1,): the distance to the exact iterate, in the largest norm, rounded up."""
        return to_iterates(self.path, self.exact.answers(self.method))[0]

    @cached_property
    def lemma(self) -> Composed:
        """AE-4's lemma with this network's proven step error, or which of its conditions fails."""
        assert self.net.certificate is not None
        if self.states[0].any():
            return Composed(None, "w_0 = 0: this run starts elsewhere", math.inf, math.inf)
        bound = self.net.certificate.bound
        return composed_error(self.problem, self.method, self.step, bound, self.steps, self.w, self.apart)

    @cached_property
    def bounds(self) -> Floats:
        """(steps + 1,): what the distance to the exact iterate is proven to be at most: by the lemma, from the proven
        error of one step, where its conditions hold; else the enclosed distance itself."""
        return self.errors if self.lemma.bounds is None else np.array(self.lemma.bounds)

    @cached_property
    def to_optimum(self) -> Distance:
        """How far the answer is from the optimum, a posteriori."""
        return to_optimum(self.problem, self.w)

    def optimum_bounds(self, every: int = 1) -> Floats:
        """The same after every so many steps: (steps // every + 1,)."""
        return np.array([to_optimum(self.problem, w).bound for w in self.path[::every]])

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Write a picture (.png, .svg or .pdf): the path beside the exact algorithm's, and both errors per step."""
        plot_run(self, path)
