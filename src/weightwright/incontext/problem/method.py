"""An algorithm on a problem: its passes, with the examples times the step, and the thresholds.

`networks.passes` has the coefficients; here they meet the data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from weightwright.claims.prompt import Pass
from weightwright.incontext.networks import passes
from weightwright.incontext.networks.passes import Algorithm
from weightwright.incontext.problem.problem import Problem, penalty_in_words
from weightwright.numbers import Floats


@dataclass(frozen=True, eq=False)
class Method:
    """An algorithm on the numbers of a prompt. Floats are meant exactly."""

    algorithm: Algorithm  # its passes
    values: Floats  # the u_i, (n, size), each a row of the problem times the step and its weight
    thresholds: Floats | None = None  # tau, (size,), where there is an l1 penalty
    shrinks: Floats | None = None  # (size,), what each weight is pulled by times itself, where the prompt says so

    def __post_init__(self) -> None:
        if self.thresholds is None and any(one.middle == "threshold" for one in self.passes):
            raise ValueError("thresholds=None: an algorithm with a soft threshold needs one for every feature")

    @property
    def passes(self) -> tuple[Pass, ...]:
        """The different ones, in order."""
        return (*self.algorithm.first, *self.algorithm.cycle)

    @property
    def states(self) -> int:
        """How many states there are, 1 or 2."""
        return len(self.passes[0].method)

    @property
    def clock(self) -> float:
        """What the clock starts with."""
        return self.algorithm.clock

    @property
    def answer(self) -> Literal["w", "p"]:
        """The state that is returned."""
        return self.algorithm.answer

    def at(self, step: int) -> Pass:
        """The pass that is this step.

        step: its number, from 0.
        """
        return self.algorithm.step(step)


def gradient_descent(problem: Problem, step: float, momentum: float = 0.0) -> Method:
    """w - step grad F(w), with heavy-ball momentum where asked for. With an l1 penalty every step ends with
    the soft threshold (ISTA)."""
    if problem.has_l1 and momentum:
        raise ValueError(f"momentum={momentum!r}: with l1 use nesterov, which is FISTA there")
    shrink = _shrink(problem, step)
    if problem.has_l1:
        return method(problem, passes.proximal(shrink), step)
    return method(problem, passes.heavy_ball(momentum, shrink) if momentum else passes.gradient_descent(shrink), step)


def nesterov(problem: Problem, step: float, momentum: float) -> Method:
    """Nesterov's acceleration with a fixed momentum; with an l1 penalty every step ends with the soft threshold."""
    make = passes.proximal_nesterov if problem.has_l1 else passes.nesterov
    return method(problem, make(momentum, _shrink(problem, step)), step)


def chebyshev(problem: Problem, smallest: float, largest: float) -> Method:
    """Chebyshev's semi-iteration for a quadratic F whose Hessian has its eigenvalues in [smallest, largest].

    smallest, largest: the ends of that interval, above 0.

    After k passes the error is at most 1/cosh(k theta) of the first, cosh(theta) = (largest +
    smallest)/(largest - smallest).
    """
    if problem.loss.name != "squared" or problem.has_l1:
        l1 = penalty_in_words(problem.l1)
        raise ValueError(f"Chebyshev steps need a quadratic: the loss is {problem.loss.name} and l1={l1}")
    step = 2 / (largest + smallest)
    return method(problem, passes.chebyshev(smallest, largest, _shrink(problem, step)), step)


def method(problem: Problem, algorithm: Algorithm, step: float) -> Method:
    """The algorithm on this problem with this step."""
    thresholds = step * problem.l1s if problem.has_l1 else None
    return Method(algorithm, step * problem.plain_weights[:, None] * problem.rows, thresholds)


def _shrink(problem: Problem, step: float) -> float | Floats:
    if not (math.isfinite(step) and step > 0):
        raise ValueError(f"step={step!r}: a positive finite number is needed")
    return step * problem.ridges if problem.intercept else step * problem.ridge
