"""How far predictions are from what they should be, enclosed in balls for the prompt that was asked.

The exact algorithm runs on the prompt's numbers in balls, and the optimum of the problem that they state is enclosed:
nothing is taken from the network but its answer. So a bound holds however the answer came about.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from flint import arb

from weightwright.enclosures.balls.linear_algebra import Balls, balls, dot, float_above
from weightwright.enclosures.balls.series import working_precision
from weightwright.incontext.errors.distance import BITS
from weightwright.incontext.errors.iterates import exact_iterates
from weightwright.incontext.networks.passes import Algorithm
from weightwright.incontext.optimum.sharp_distance import enclose_optimum
from weightwright.incontext.problem.loss import Loss
from weightwright.incontext.problem.method import Method
from weightwright.incontext.prompt_tokens import Written, problem_of
from weightwright.numbers import UNIT, Floats


@dataclass(frozen=True, eq=False)
class AnswerBound:
    """Upper bounds, rounded up, one for each query: (..., queries).

    |prediction - w_T.x_q| <= to_algorithm <= passes + read_out, with w_T what the exact algorithm ends with, and
    |prediction - w*.x_q| <= to_optimum, about to_algorithm + missing_steps at most, with w* the optimum.
    """

    to_algorithm: Floats  # to the exact algorithm's prediction: what arithmetic and the tables make
    to_optimum: Floats  # to the optimum's prediction; infinite where the optimum cannot be enclosed
    missing_steps: Floats  # from the exact algorithm's prediction to the optimum's: what more steps would make
    passes: Floats  # of to_algorithm, what the state that the read-out begins with is off by, times x_q
    read_out: Floats  # of to_algorithm, what the read-out is off by
    why: str  # how the optimum was enclosed, or why not

    def __repr__(self) -> str:
        shown = {name: float(np.max(getattr(self, name))) for name in ("to_algorithm", "to_optimum", "missing_steps")}
        return f"AnswerBound({', '.join(f'{name} at most {size:.3g}' for name, size in shown.items())})"


@dataclass(frozen=True)
class Answered:
    """What a network made of one prompt: its predictions, and the states that the read-out began with."""

    predictions: Floats  # (m,)
    states: Floats  # (m, d), of the tokens that ask


def bound_answer(
    written: Written, answered: Answered, loss: Loss, algorithm: Algorithm, steps: int, dtype: str
) -> AnswerBound:
    """The bounds for one prompt."""
    problem = problem_of(written, loss, dtype)
    method = Method(algorithm, written.values, shrinks=written.shrinks)
    exact = exact_iterates(problem, method, steps, written.start).answers(method)[-1]
    optimum = enclose_optimum(problem, np.array([float(entry.mid()) for entry in exact]))
    with working_precision(BITS):
        return _compare(written, answered, exact, optimum.box, optimum.why)


def bound_every_prompt(
    step_bound: float, steps: int, d: int, x: float, growth: float, dtype: str
) -> tuple[float, float]:
    """What no prediction of any prompt is farther from exact descent by, and what no state is, in the Euclidean norm.

    step_bound: of one pass and of the read-out, in the largest norm. d, x: features, and how large they may be.
    growth: step times the largest curvature of any prompt, at most; it must not be above 2.

    With e = sqrt(d) step_bound: tokens that start alike drift apart by at most 2 e a pass. A step from the asking
    token's state w instead of the exact state v is (I - S - E)(w - v), where 0 <= S <= growth is a sum of c k x x^T (k
    a mean curvature; for a penalty's token step ridge) and E what rounding makes of u = c x: |I - S| <= 1, and |E| <= 2
    unit growth. What the other tokens are apart from w comes in with growth again. So after pass t, from 0 on, |w - v|
    is at most (1 + 2 unit growth) times what it was, + growth 2 t e + e.
    """
    with working_precision(BITS):
        e, off = arb(d).sqrt() * arb(step_bound), arb(0)
        for t in range(steps):
            off = ((1 + 2 * arb(UNIT[dtype]) * arb(growth)) * off + arb(growth) * 2 * t * e + e).upper()
        return float_above(off * arb(d).sqrt() * arb(x) + arb(step_bound)), float_above(off)


#: The bounds of an `AnswerBound`, in order.
_NAMES = ("to_algorithm", "to_optimum", "missing_steps", "passes", "read_out")


def _compare(written: Written, answered: Answered, exact: Balls, optimum: Balls | None, why: str) -> AnswerBound:
    found = []
    both = zip(written.queries, answered.states, balls(answered.predictions), strict=True)
    for x, state, prediction in both:
        query = balls(x)
        here, there = dot(query, balls(state)), dot(query, exact)
        best = arb.nan() if optimum is None else dot(query, optimum)
        gaps = (prediction - there, prediction - best, there - best, here - there, prediction - here)
        found.append([float_above(abs(gap)) if gap.is_finite() else math.inf for gap in gaps])
    return AnswerBound(**dict(zip(_NAMES, np.array(found).T, strict=True)), why=why)


def stack_bounds(bounds: list[AnswerBound], shape: tuple[int, ...]) -> AnswerBound:
    """Those of a batch of prompts, in one. shape: of the batch."""
    stacked = {name: np.reshape([getattr(one, name) for one in bounds], (*shape, -1)) for name in _NAMES}
    return AnswerBound(**stacked, why="; ".join(dict.fromkeys(one.why for one in bounds)))
