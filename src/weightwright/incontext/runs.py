"""What a run of an algorithm in context was: every state, and two distances that are never mixed."""

from __future__ import annotations

from dataclasses import dataclass

from weightwright.constructions.passes import Algorithm
from weightwright.incontext.problem import Problem
from weightwright.network.layers import Floats
from weightwright.runtime import AttentionNetwork


@dataclass(frozen=True, eq=False)
class Run:
    """states: (steps + 1, 1 or 2, d), w and p before the first step and after each, as the network had them."""

    problem: Problem
    algorithm: Algorithm
    values: Floats
    step: float
    states: Floats
    net: AttentionNetwork

    @property
    def path(self) -> Floats:
        """(steps + 1, d): the answer after every step."""
        return self.states[:, 1 if self.algorithm.answer == "p" else 0]

    @property
    def w(self) -> Floats:
        """The answer."""
        return self.path[-1]
