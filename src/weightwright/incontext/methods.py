"""The algorithms as passes with fixed coefficients: what one turn of the network's loop computes exactly.

z = alpha w - sum_i l'(w.x_i, y_i) u_i
q = soft threshold of z by tau | sigmoid(clock) (z - p) | 0
(w, p) = mix . (z, q, p, w);   clock = clock + tick
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from weightwright.incontext.problem import Problem
from weightwright.network.layers import Floats

Middle = Literal["none", "threshold", "clock"]


@dataclass(frozen=True, eq=False)
class Pass:
    """mix: (1, 4), or (2, 4) where p is a state too; its columns stand for z, q, p and w."""

    alpha: float
    mix: Floats
    middle: Middle = "none"
    tick: float = 0.0

    def __post_init__(self) -> None:
        mix = np.array(self.mix, dtype=np.float64)
        if mix.shape not in ((1, 4), (2, 4)) or not np.isfinite(mix).all():
            raise ValueError(f"mix must be finite of shape (1, 4) or (2, 4), not {mix.tolist()}")
        if self.middle not in ("none", "threshold", "clock"):
            raise ValueError(f"middle must be 'none', 'threshold' or 'clock', not {self.middle!r}")
        if len(mix) == 1 and (mix[0, 2] != 0 or self.middle == "clock"):
            raise ValueError("mix has one row, so there is no state p to read; give it a second row")
        for name in ("alpha", "tick"):
            if not math.isfinite(getattr(self, name)):
                raise ValueError(f"{name}={getattr(self, name)!r}: a finite number is needed")
        mix.flags.writeable = False
        object.__setattr__(self, "mix", mix)


@dataclass(frozen=True, eq=False)
class Method:
    """passes: in order; the last one is repeated. values: the u_i, (n, d). thresholds: tau, (d,), for the middle
    "threshold". clock: its value in the first pass. answer: the state that holds the result."""

    passes: tuple[Pass, ...]
    values: Floats
    thresholds: Floats | None = None
    clock: float = 0.0
    answer: Literal["w", "p"] = "w"

    def __post_init__(self) -> None:
        if not self.passes or len({len(step.mix) for step in self.passes}) != 1:
            raise ValueError("passes: at least one is needed, and all must have the same states")
        if self.answer == "p" and self.states == 1:
            raise ValueError("answer='p': the passes have no state p")
        if self.thresholds is None and any(step.middle == "threshold" for step in self.passes):
            raise ValueError("thresholds=None: a pass with middle='threshold' needs them, one for every feature")

    @property
    def states(self) -> int:
        return len(self.passes[0].mix)

    def at(self, step: int) -> Pass:
        return self.passes[min(step, len(self.passes) - 1)]


def gradient_descent(problem: Problem, step: float, momentum: float = 0.0) -> Method:
    """w - step grad F(w), with heavy-ball momentum where asked for. With an l1 penalty every step ends with the soft
    threshold (ISTA)."""
    if problem.l1 and momentum:
        raise ValueError(f"momentum={momentum!r}: with l1 use nesterov, which is FISTA there")
    if problem.l1:
        return _proximal(problem, step, [[0, 1, 0, 0]])
    mix = [[1, 0, -momentum, momentum], [0, 0, 0, 1]] if momentum else [[1, 0, 0, 0]]
    return Method((Pass(_shrinks(problem, step), np.array(mix)),), _values(problem, step))


def nesterov(problem: Problem, step: float, momentum: float) -> Method:
    """Nesterov's acceleration with a fixed momentum; FISTA's form of it with an l1 penalty. p holds the answer."""
    if problem.l1:
        return _proximal(problem, step, [[0, 1 + momentum, -momentum, 0], [0, 1, 0, 0]], answer="p")
    mix = np.array([[1 + momentum, 0, -momentum, 0], [1, 0, 0, 0]])
    return Method((Pass(_shrinks(problem, step), mix),), _values(problem, step), answer="p")


def chebyshev(problem: Problem, smallest: float, largest: float) -> Method:
    """Chebyshev's semi-iteration for a quadratic F whose Hessian has its eigenvalues in [smallest, largest].

    After k passes the error is at most 1/cosh(k theta) of the first, cosh(theta) = (largest + smallest)/(largest -
    smallest). The momentum cosh((k-1) theta)/cosh((k+1) theta) = e^{2 theta} - 2 sinh(2 theta) sigmoid(2 (k+1) theta)
    comes from a clock that ticks by 2 theta.
    """
    if problem.loss.name != "squared" or problem.l1:
        raise ValueError(f"Chebyshev steps need a quadratic: the loss is {problem.loss.name} and l1={problem.l1!r}")
    if not 0 < smallest < largest < math.inf:
        raise ValueError(f"smallest={smallest!r}, largest={largest!r}: 0 < smallest < largest is needed")
    theta = math.acosh((largest + smallest) / (largest - smallest))
    step, grows, turns = 2 / (largest + smallest), math.exp(2 * theta), 2 * math.sinh(2 * theta)
    alpha = _shrinks(problem, step)
    first = Pass(alpha, np.array([[1.0, 0, 0, 0], [0, 0, 0, 1]]))
    again = Pass(alpha, np.array([[1 + grows, -turns, -grows, 0], [0, 0, 0, 1]]), "clock", 2 * theta)
    return Method((first, again), _values(problem, step), clock=4 * theta)


def _proximal(problem: Problem, step: float, mix: list[list[float]], answer: Literal["w", "p"] = "w") -> Method:
    thresholds = np.full(problem.d, step * problem.l1)
    only = Pass(_shrinks(problem, step), np.array(mix), "threshold")
    return Method((only,), _values(problem, step), thresholds, answer=answer)


def _shrinks(problem: Problem, step: float) -> float:
    if not (math.isfinite(step) and step > 0):
        raise ValueError(f"step={step!r}: a positive finite number is needed")
    return 1 - step * problem.ridge


def _values(problem: Problem, step: float) -> Floats:
    weights = np.full(problem.n, 1 / problem.n) if problem.weights is None else problem.weights
    return step * weights[:, None] * problem.rows
