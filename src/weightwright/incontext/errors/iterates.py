"""The plain algorithm without rounding: every state in a ball of a radius below 1e-30.

The floats of the problem and of the method are meant exactly. The balls of a long run widen step by step, by
a factor that depends on the data; so the precision is raised until the last step is sharp.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from flint import arb

from weightwright.claims.prompt import Pass
from weightwright.enclosures.balls.linear_algebra import Balls, balls, evaluate, float_above, matrix, product
from weightwright.enclosures.balls.series import largest, working_precision
from weightwright.enclosures.intervals.jets import values_at
from weightwright.errors import FormulaError
from weightwright.incontext.problem.method import Method
from weightwright.incontext.problem.problem import Problem, soft_threshold
from weightwright.numbers import Floats

#: The largest radius of a ball that a state may have.
RADIUS = 1e-30
#: Bits of the working precision: at first, and the most that are tried before the run is given up.
FIRST_BITS, MOST_BITS = 256, 2**16
#: A state of which a number is larger in size has diverged.
HUGE = 1e150


@dataclass(frozen=True, eq=False)
class Iterates:
    """w and p (None if the method has none) before the first pass and after every pass: (steps + 1) lists of balls."""

    w: list[Balls]  # the first state before the first pass and after every pass, as balls
    p: list[Balls] | None  # the second state; None if the method has none
    bits: int  # of precision that were needed

    def answers(self, method: Method) -> list[Balls]:
        """The states that are the answer."""
        return self.p if method.answer == "p" and self.p is not None else self.w


class _TooWideError(Exception):
    """The balls need this many more bits."""

    def __init__(self, more: int) -> None:
        self.more = more


def exact_iterates(problem: Problem, method: Method, steps: int, start: Floats | None = None) -> Iterates:
    """The state before the first pass (zeros unless `start` is given) and after each, within 1e-30.

    FormulaError where the loss is undefined at a state, ValueError where the states grow beyond all use.
    """
    first = _start(problem, method, start)
    if isinstance(steps, bool) or not isinstance(steps, int | np.integer) or steps < 0:
        raise ValueError(f"steps={steps!r}: a whole number that is not negative is needed")
    bits = FIRST_BITS
    while bits <= MOST_BITS:
        with working_precision(bits):
            try:
                return _run(problem, method, int(steps), first, bits)
            except _TooWideError as wide:
                bits += wide.more
    raise FormulaError(
        f"the exact iterates of {problem.loss.name} are not known to {RADIUS} with {MOST_BITS} bits; take fewer steps"
        f" than {steps}, or a loss whose slope {problem.loss.slope} has no jump"
    )


def _run(problem: Problem, method: Method, steps: int, first: Floats, bits: int) -> Iterates:
    pulls = matrix(method.values.T)
    w, p = balls(first), (balls(first) if method.states == 2 else None)
    clock = arb(method.clock)
    all_w, all_p = [w], [p] if p is not None else []
    for step in range(steps):
        now = method.at(step)
        slopes = _slopes(problem, w, step)
        moved = product(pulls, slopes)
        alphas = balls(np.broadcast_to(now.alpha, (problem.size,)))
        if method.shrinks is not None:
            alphas = [alpha - shrink for alpha, shrink in zip(alphas, balls(method.shrinks), strict=True)]
        z = [alpha * w_r - g_r for alpha, w_r, g_r in zip(alphas, w, moved, strict=True)]
        q = _middle(now, method, z, p, clock)
        w, p = _mixed(now, z, q, p, w)
        clock = clock + arb(now.tick)
        _require_sharp([*w, *(p or [])], steps - step, bits, step)
        all_w.append(w)
        if p is not None:
            all_p.append(p)
    return Iterates(all_w, all_p or None, bits)


def _slopes(problem: Problem, w: Balls, step: int) -> Balls:
    arguments = problem.arguments(w)
    slopes = evaluate(problem.loss.slope_expression, arguments)
    unknown = [i for i, slope in enumerate(slopes) if not slope.is_finite()]
    if unknown:
        i, x = unknown[0], arguments["x"][unknown[0]]
        raise FormulaError(
            f"the slope {problem.loss.slope} of {problem.loss.name} is undefined at x = {float(x.mid()):.6g}, the"
            f" argument of sample {i} before pass {step + 1}; take a loss that is finite there, or a smaller step"
        )
    return slopes


def _middle(now: Pass, method: Method, z: Balls, p: Balls | None, clock: arb) -> Balls:
    if now.middle == "threshold" and method.thresholds is not None:
        return soft_threshold(z, balls(method.thresholds))
    if now.middle == "clock" and p is not None:
        share = 1 / (1 + (-clock).exp())
        return [share * (z_r - p_r) for z_r, p_r in zip(z, p, strict=True)]
    return [arb(0)] * len(z)


def _mixed(now: Pass, z: Balls, q: Balls, p: Balls | None, w: Balls) -> tuple[Balls, Balls | None]:
    sources = (z, q, p if p is not None else [arb(0)] * len(z), w)
    new = [
        [sum((arb(c) * source[r] for c, source in zip(row, sources, strict=True) if c), arb(0)) for r in range(len(z))]
        for row in now.method.tolist()
    ]
    return new[0], (new[1] if len(new) == 2 else None)


def _require_sharp(states: Balls, steps_left: int, bits: int, step: int) -> None:
    radius = float_above(largest(x.rad() for x in states))
    size = float_above(largest(abs(x.mid()) for x in states))
    if size > HUGE and radius < size:
        raise ValueError(f"the method diverges: after {step + 1} passes a weight is {size:.3g}; take a smaller step")
    if radius > RADIUS:
        # what this step lost so far, and as much again for every step that is left
        lost = bits + max(0.0, math.log2(max(size, 1.0))) + math.log2(radius) if radius < math.inf else bits
        raise _TooWideError(int(lost * steps_left / (step + 1)) + 64 + bits // 8)


def _start(problem: Problem, method: Method, start: Floats | None) -> Floats:
    if method.values.shape != problem.rows.shape:
        raise ValueError(f"method.values has shape {method.values.shape}, but X has shape {problem.rows.shape}")
    for one in method.passes:
        if one.alpha.shape not in ((), (problem.size,)):
            raise ValueError(f"alpha of the method has shape {one.alpha.shape}, but X has {problem.size} features")
    first = np.zeros(problem.size) if start is None else np.array(start, dtype=np.float64)
    if first.shape != (problem.size,) or not np.isfinite(first).all():
        raise ValueError(f"start must be {problem.size} finite numbers, not {start!r}")
    return first


def plain_iterates(problem: Problem, method: Method, steps: int, start: Floats | None = None) -> Floats:
    """The same in float64, for pictures and first guesses: (steps + 1, states, d)."""
    w = p = _start(problem, method, start)
    clock, path = method.clock, [np.stack([w, p][: method.states])]
    for step in range(steps):
        now = method.at(step)
        alpha = now.alpha if method.shrinks is None else now.alpha - method.shrinks
        z = alpha * w - method.values.T @ _plain_slopes(problem, w)
        q = np.zeros_like(z)
        if now.middle == "threshold" and method.thresholds is not None:
            q = np.sign(z) * np.maximum(np.abs(z) - method.thresholds, 0)
        elif now.middle == "clock":
            q = (z - p) / (1 + math.exp(-clock))
        new = now.method @ np.stack([z, q, p, w])
        w, p = new[0], new[-1]
        clock += now.tick
        path.append(new)
    return np.stack(path)


def _plain_slopes(problem: Problem, w: Floats) -> Floats:
    places = np.stack(problem.plain_arguments(problem.rows @ w), axis=1)
    return values_at(problem.loss.slope_expression, problem.loss.variables, places)
