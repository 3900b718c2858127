"""What a network must be built for, read off a data set: the step, the momentum, and how large numbers get.

Only sizes are taken from the data: the plain algorithm is run once in floats to see how far arguments and states go.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
import torch
from flint import arb

from weightwright.enclosures.balls.linear_algebra import balls, float_above, norm
from weightwright.enclosures.balls.series import working_precision
from weightwright.incontext.descent import FEWER, IN_CONTEXT, Descent, as_loss
from weightwright.incontext.errors.convexity import smoothness, strong_convexity
from weightwright.incontext.errors.distance import BITS
from weightwright.incontext.errors.iterates import plain_iterates
from weightwright.incontext.errors.lemma import USUAL_RADIUS, require_stable
from weightwright.incontext.networks.descent_network import Ranges
from weightwright.incontext.networks.passes import (
    Algorithm,
    chebyshev,
    fista,
    gradient_descent,
    heavy_ball,
    nesterov,
    proximal,
)
from weightwright.incontext.problem.loss import Loss
from weightwright.incontext.problem.method import method
from weightwright.incontext.problem.problem import Problem, penalty_in_words
from weightwright.numbers import Floats
from weightwright.progress import Progress, show_progress
from weightwright.runtime.weights import dtype_name

Name = Literal["gradient descent", "heavy ball", "nesterov", "chebyshev", "proximal", "fista"]
NAMES = ("gradient descent", "heavy ball", "nesterov", "chebyshev", "proximal", "fista")
#: Ranges are this many times what the plain algorithm reached: another data set of the same kind fits too.
ROOM = 1.5
#: Lengths of w to choose a step for, the first on which the curvature is at most STEEPER times that at 0.
RADII, STEEPER = (USUAL_RADIUS, 64.0, 8.0, 1.0, 0.125), 16.0
#: The momentum where nothing is known of the smallest curvature.
USUAL_MOMENTUM = 0.9


def fitting(
    X: Any,
    y: Any,
    loss: str | Loss = "squared",
    *,
    steps: int,
    algorithm: Name | Algorithm = "gradient descent",
    step: float | None = None,
    momentum: float | None = None,
    ridge: float | Floats = 0.0,
    l1: float | Floats = 0.0,
    weights: Any = None,
    samples: int | None = None,
    tol: float | None = None,
    dtype: torch.dtype | str = torch.float64,
    looped: bool = True,
    progress: Progress = True,
) -> Descent:
    """A `Descent` whose step, momentum and ranges suit these data, with room for more of the kind.

    step: 1/L_f unless given (2/(L_f + mu) for Chebyshev); one above the largest stable step is refused.
    momentum: from the condition number where mu is proven, else 0.9.
    progress: True says in a terminal or notebook what is being done, once it takes two seconds; a function is told.
    """
    with show_progress(progress, "choosing the step and the ranges") as tell:
        problem = Problem(X, y, as_loss(loss), weights, ridge, l1)
        name = dtype_name(dtype, IN_CONTEXT)
        _require_defined(problem)
        if not isinstance(algorithm, Algorithm):
            step, algorithm = choose_algorithm(problem, algorithm, step, momentum, name)
        elif step is None:
            raise ValueError("step: an algorithm of your own comes with the step that its coefficients are for")
        plain = method(problem, algorithm, step)
        with np.errstate(all="ignore"):
            reached = plain_iterates(problem, plain, steps)
        _require_convergent(problem, step, reached)
        sizes = [np.abs(part).max() for part in arguments_along(problem, reached)]
        reach = tuple(_in_few_bits(ROOM * max(float(size), 1e-3)) for size in sizes)
        ranges = Ranges(
            x=_in_few_bits(float(np.abs(problem.rows).max())),
            y=_in_few_bits(float(np.abs(problem.y).max())),
            w=_in_few_bits(ROOM * max(float(np.abs(reached).max()), 1e-3)),
            value=_in_few_bits(FEWER * float(np.abs(plain.values).max())),
            tau=step * float(problem.l1s.max()),
        )
        tell("building the network and proving its bound")
        return Descent(
            problem.loss,
            samples=samples or problem.n,
            features=problem.d,
            steps=steps,
            step=step,
            ridge=ridge,
            l1=l1,
            algorithm=algorithm,
            reach=(reach[0], reach[-1]),
            ranges=ranges,
            tol=tol,
            dtype=dtype,
            looped=looped,
        )


def _require_defined(problem: Problem) -> None:
    """FormulaError unless the loss is finite where the algorithm begins, at w = 0, for every sample and between."""
    arguments = arguments_along(problem, np.zeros((1, 1, problem.d)))
    lo, hi = float(arguments[0].min()), float(arguments[0].max())
    for y in (None,) if len(arguments) == 1 else (float(problem.y.min()), float(problem.y.max())):
        problem.loss.require_defined(lo, hi, y)


def _require_convergent(problem: Problem, step: float, reached: Floats) -> None:
    """ValueError that names the largest stable step, where this one is above it and the plain algorithm got nowhere.

    A loss whose curvature changes may take larger steps than its largest curvature allows; then what counts is whether
    the gradient shrank.
    """
    size = float(np.linalg.norm(reached, axis=-1).max())
    shrank = False
    if math.isfinite(size) and problem.loss.name != "squared":
        with working_precision(BITS):
            first, last = (float_above(norm(problem.gradient(balls(path[-1])))) for path in (reached[0], reached[-1]))
        shrank = last < first
    if not shrank:
        require_stable(problem, step, size if math.isfinite(size) else _radius(problem))


def choose_algorithm(
    problem: Problem, name: str, step: float | None, momentum: float | None, dtype: str
) -> tuple[float, Algorithm]:
    """The step and the algorithm of this name for the problem."""
    if name not in NAMES:
        raise ValueError(f"algorithm={name!r} is none of {', '.join(NAMES)}")
    if problem.has_l1 != (name in ("proximal", "fista")):
        takes = "proximal or fista" if problem.has_l1 else "an algorithm without a threshold, such as nesterov"
        raise ValueError(f"algorithm={name!r} with l1={penalty_in_words(problem.l1)}: use {takes}")
    radius, zero = _radius(problem), [arb(0)] * problem.d
    with working_precision(BITS):
        L, mu = smoothness(problem, zero, radius), strong_convexity(problem, zero, radius)
    if name == "chebyshev":
        if problem.loss.name != "squared":
            raise ValueError(f"algorithm='chebyshev' is for the squared loss, not {problem.loss.name}")
        if mu == 0:
            raise ValueError("algorithm='chebyshev' needs a positive smallest curvature; add a ridge penalty")
        step = 2 / (L + mu)
        return step, chebyshev(mu, L, step * problem.ridge, dtype)
    step = _step_for(problem, L, radius) if step is None else float(step)
    shrink = step * problem.ridge
    root = math.sqrt(step * mu)
    if name == "heavy ball":
        m = (1 - root) ** 2 if momentum is None and mu else (USUAL_MOMENTUM if momentum is None else momentum)
        return step, heavy_ball(m, shrink, dtype)
    if name == "nesterov":
        m = (1 - root) / (1 + root) if momentum is None and mu else (USUAL_MOMENTUM if momentum is None else momentum)
        return step, nesterov(m, shrink, dtype)
    if name == "fista":
        restart = min(max(math.ceil(4 / root), 2), 64) if mu else 64
        return step, fista(restart, shrink, dtype)
    return step, (proximal if problem.has_l1 else gradient_descent)(shrink, dtype)


def _step_for(problem: Problem, L: float, radius: float) -> float:
    """1/L; without curvature, as where X is 0, any step will do."""
    if math.isinf(L):
        raise ValueError(
            f"step: no bound of the curvature of {problem.loss.name} is known for |w| <= {radius:g}, from which a step"
            " would be chosen; give step=, or scale the data down"
        )
    return 1 / L if L > 0 else 1.0


def _radius(problem: Problem) -> float:
    """The size of states that a step is chosen for: the largest on which the curvature is not far above that at 0.

    Most losses are flat enough for any; the curvature of exp has no bound.
    """
    zero = [arb(0)] * problem.d
    with working_precision(BITS):
        least = smoothness(problem, zero, 0.0)
        for radius in RADII:
            if smoothness(problem, zero, radius) <= STEEPER * least:
                return radius
    return RADII[-1]


def arguments_along(problem: Problem, path: Floats) -> tuple[Floats, ...]:
    """The arguments of the slope for all states of a path: the residuals or margins, or w.x and y apart."""
    return problem.plain_arguments(np.einsum("nd,tsd->tsn", problem.rows, path))


def _in_few_bits(size: float) -> float:
    """Rounded up to three bits: data sets of about the same size share their tables."""
    if size == 0:
        return 1.0
    unit = 2.0 ** (math.frexp(size)[1] - 3)
    return math.ceil(size / unit) * unit
