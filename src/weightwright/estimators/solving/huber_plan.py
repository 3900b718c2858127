"""Which steps Huber's regression takes in context, and how large numbers get on the way.

A step is stable in proportion to sigma, which may have far to go. So there are stages: a few short ones, each until
sigma has halved or doubled, with the step for its sigma; then a long one with the momentum that needs the fewest steps.
Where most samples can be fitted exactly, sigma goes to 0, and the stages end at a floor.

The plain algorithm is rehearsed in floats. Only sizes are taken from it: what it finds is not handed to the network.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from weightwright.estimators.solving.plan import CONDITIONS, ROUNDOFF, TRIAL, extrapolate_steps, momentum
from weightwright.incontext.problem.contexts import SMALL, HuberContexts, Indices
from weightwright.numbers import Floats

#: The most steps of a short stage, and the condition number that its momentum is for.
SHORT, EASY = 10, 16.0
#: A stage ends where sigma is this many times smaller or larger than at its start.
NEAR = 2.0
#: The most stages: sigma halves in each.
STAGES = 120
#: Where most samples are outliers, a step is at most this many times as long as if none were.
OUTSIDE = 4.0
#: Once one momentum arrives, none is tried for a condition number that is more powers of four away than this.
FAR_OFF = 2.0
#: Where sigma leaves after some steps, another momentum may take this many times as many to arrive.
SLOWER = 8
#: A stage goes on until changes are this share of the tolerance: what remains is more than the last change.
SPARE = 0.1
#: The number of steps that are rehearsed even where max_steps is smaller.
ENOUGH = 1000
#: The most times that a shorter step is tried until one is stable.
SHORTER = 12


@dataclass(frozen=True, eq=False)
class Stage:
    """which: the contexts that take part. step: (B', D + 1). needed: about how many steps. lowest, highest:
    (B',), of sigma. reach: (B',), the largest size of a residual."""

    which: Indices
    step: Floats
    condition: float
    needed: int
    lowest: Floats
    highest: Floats
    reach: Floats

    @property
    def momentum(self) -> float:
        return momentum(self.condition)


@dataclass(frozen=True, eq=False)
class HuberPlan:
    """settled: the last stage is a long one that may run again. unfinished: more steps than were rehearsed
    are needed. Otherwise sigma goes to 0."""

    stages: tuple[Stage, ...]
    settled: bool
    unfinished: bool

    @property
    def needed(self) -> int:
        return sum(stage.needed for stage in self.stages)

    @property
    def condition(self) -> float:
        """What the last stage's momentum is chosen for."""
        return self.stages[-1].condition


def plan_stages(contexts: HuberContexts, tol: float, max_steps: int) -> HuberPlan:
    """The stages for these contexts, whether or not there may be as many steps."""
    max_steps = max(max_steps, ENOUGH)
    theta, floor = contexts.start.copy(), contexts.floor(tol)
    which: Indices = np.arange(len(theta))
    stages: list[Stage] = []
    used, settled, stayed = 0, False, False
    while len(which) and len(stages) < STAGES and used < max_steps and not settled:
        mine, left = contexts.some(which), max_steps - used
        tried = _long if stayed else _short
        step, condition, run = tried(mine, theta[which], tol, left)
        if run.end == "lost":
            raise ValueError("X, y: no step keeps the scale positive; their numbers are too large, or too unequal")
        stages.append(_stage(which, step, condition, run))
        settled, stayed = math.isfinite(run.needed), run.end == "limit"
        theta[which], used = run.theta, used + run.steps
        which = which[run.theta[:, -1] > floor[which]]
    return HuberPlan(tuple(stages), settled, unfinished=len(which) > 0 and not settled)


def _short(contexts: HuberContexts, theta: Floats, tol: float, max_steps: int) -> tuple[Floats, float, HuberRehearsal]:
    """Until sigma is half or twice what it was, with a step for half of it and every sample counted."""
    sizes = _sizes(contexts, theta)
    L = NEAR * _largest(contexts, contexts.hessian(theta, everyone=True), sizes)
    for _ in range(SHORTER):
        run = rehearse_stage(contexts, theta, _steps(L, sizes), EASY, min(SHORT, max_steps), 0.0)
        if run.end != "lost":
            break
        L = 2 * L
    return _steps(L, sizes), EASY, run


def _long(contexts: HuberContexts, theta: Floats, tol: float, max_steps: int) -> tuple[Floats, float, HuberRehearsal]:
    """Until the changes are below tol, or as many steps as there may be; or until sigma leaves after all."""
    sizes = _sizes(contexts, theta)
    everyone = _largest(contexts, contexts.hessian(theta, everyone=True), sizes)
    L = np.maximum(_largest(contexts, contexts.hessian(theta), sizes), everyone / OUTSIDE)
    for _ in range(SHORTER):
        trial = rehearse_stage(contexts, theta, _steps(L, sizes), EASY, min(TRIAL, max_steps), 0.0)
        steepest = 2 * L if trial.end == "lost" else _largest(contexts, contexts.hessian(trial.theta), sizes)
        if trial.end == "left" or (steepest <= L * (1 + 1e-9)).all():
            break
        L = np.maximum(1.05 * steepest, L)
    step, best, chosen = _steps(L, sizes), trial, EASY
    if trial.end == "left":
        return step, chosen, best
    worth = _worth(contexts, trial, trial)
    eigenvalues = _relative(contexts.hessian(trial.theta), sizes)
    for condition, distance in _conditions(L, eigenvalues, contexts.targets.shape[1]):
        if best.end == "done" and distance > FAR_OFF:
            break
        most = min({"done": best.steps, "left": SLOWER * best.steps}.get(best.end, max_steps), max_steps)
        run = rehearse_stage(contexts, theta, step, condition, most, SPARE * tol / math.sqrt(condition))
        if _worth(contexts, run, trial) < worth:
            best, chosen, worth = run, condition, _worth(contexts, run, trial)
    return step, chosen, best


def _worth(contexts: HuberContexts, run: HuberRehearsal, trial: HuberRehearsal) -> tuple[int, float]:
    """The smaller the better: first of all to arrive, else that sigma leaves after few steps and further down
    than the trial, else few steps until it would arrive."""
    if run.end == "done":
        return 0, run.needed
    if run.end == "left" and contexts.values(run.theta).sum() < contexts.values(trial.theta).sum():
        return 1, run.steps
    return 2, run.needed


def _stage(which: Indices, step: Floats, condition: float, run: HuberRehearsal) -> Stage:
    needed = run.steps if run.end != "limit" or math.isinf(run.needed) else math.ceil(min(run.needed, 1e15))
    return Stage(which, step, condition, needed, run.lowest, run.highest, run.reach)


def _steps(L: Floats, sizes: Floats) -> Floats:
    """(B, D + 1): 1/L, for each number by its size."""
    return 1 / (L[:, None] * sizes)


def _sizes(contexts: HuberContexts, theta: Floats) -> Floats:
    """(B, D + 1): the mean square of each feature, and what its penalty adds to the second derivative; of sigma, 1."""
    squares = (contexts.weights[:, None] @ contexts.rows**2)[:, 0] / contexts.weights.sum(axis=1, keepdims=True)
    squares = squares + contexts.ridge * (theta[:, -1:] / 2)
    squares = np.where(squares > 0, squares, 1.0)
    if contexts.uniform:
        features = squares.shape[1] - contexts.intercept
        squares[:, :features] = squares[:, :features].mean(axis=1, keepdims=True)
    if contexts.shares_step:
        squares = np.broadcast_to(squares.mean(axis=0), squares.shape)
    return np.hstack([squares, np.ones((len(squares), 1))])


def _relative(H: Floats, sizes: Floats) -> Floats:
    """(B, D + 1): the eigenvalues of second derivatives, relative to the sizes."""
    roots = np.sqrt(sizes)
    return np.asarray(np.linalg.eigvalsh(H / roots[:, :, None] / roots[:, None, :]), dtype=np.float64)


def _largest(contexts: HuberContexts, H: Floats, sizes: Floats) -> Floats:
    """(B,): the largest eigenvalue of each, or of all where the contexts share their step."""
    L = _relative(H, sizes)[:, -1] * (1 + 2.0**-20)
    return np.asarray(np.full(len(L), L.max()) if contexts.shares_step else L, dtype=np.float64)


def _conditions(L: Floats, values: Floats, samples: int) -> list[tuple[float, float]]:
    """Condition numbers, and by how many powers of four each is off if these eigenvalues stay, the nearest
    first. They may not stay, where samples become outliers or cease to be."""
    nothing = values[:, -1:] * ROUNDOFF * max(samples, values.shape[1])
    smallest = np.where(values > nothing, values, np.inf).min(axis=1)
    there = float((L / smallest).max())
    return sorted(((one, abs(math.log(one / there, 4))) for one in CONDITIONS), key=lambda pair: pair[1])


@dataclass(frozen=True, eq=False)
class HuberRehearsal:
    """end: "done" below the tolerance, "left" where sigma is far from its start, "lost" where it is nearly 0,
    "limit" after all steps. steps: that were taken. needed: until the tolerance, infinite if there was none.
    lowest, highest: of sigma. reach: the largest size of a residual."""

    theta: Floats
    end: str
    steps: int
    needed: float
    lowest: Floats
    highest: Floats
    reach: Floats


def rehearse_stage(
    contexts: HuberContexts, theta: Floats, step: Floats, condition: float, steps: int, tol: float
) -> HuberRehearsal:
    """The plain algorithm in floats, until a step changes the states by less than tol, relative to them, or
    until sigma is far from where it was."""
    w = p = theta
    first, m, alpha = theta[:, -1], momentum(condition), 1 - step * contexts.penalties
    lowest, highest, reach = first, first, np.zeros(len(theta))
    end, needed, change, halfway, quiet, k = "limit", math.inf, math.inf, math.inf, 0, 0
    with np.errstate(all="ignore"):
        for k in range(1, steps + 1):
            residuals = contexts.residuals(w)
            reach = np.maximum(reach, np.abs(residuals).max(axis=1))
            z = alpha * w - step * contexts.loss_gradient(w, residuals)
            w, p, before = z + m * (z - p), z, p
            if not (p[:, -1] > first / (2 * NEAR)).all():
                end = "lost"
                break
            if not ((p[:, -1] * NEAR >= first) & (p[:, -1] <= NEAR * first)).all():
                end = "left"
                break
            if not (w[:, -1] > first / (2 * NEAR)).all():
                end = "lost"
                break
            lowest, highest = np.minimum(lowest, w[:, -1]), np.maximum(highest, w[:, -1])
            if tol:
                change = _change(p, before)
                halfway = change if k == steps // 2 else halfway
                quiet = quiet + 1 if change <= tol else 0
                if quiet == 3:
                    end, needed = "done", k
                    break
    if tol and end == "limit":
        needed = extrapolate_steps(steps, halfway, change, tol)
    return HuberRehearsal(p, end, k, needed, lowest, highest, reach)


def _change(new: Floats, old: Floats) -> float:
    off, size = np.abs(new - old), np.maximum(np.abs(new[:, :-1]).max(axis=1), SMALL)
    return float(max((off[:, :-1].max(axis=1) / size).max(), (off[:, -1] / new[:, -1]).max()))
