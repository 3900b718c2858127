"""Huber's regression in context: from data to stages of networks, run one after the other, and back.

Every stage has units of its own, powers of two, in which sigma is at most 1: so stages and data sets share tables.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning

from weightwright.errors import DomainError
from weightwright.estimators.solving.huber_plan import HuberPlan, Stage, plan_stages
from weightwright.estimators.solving.networks import HEAD_TOL, ROOM, TRIES, last_states, prompt_size
from weightwright.estimators.solving.scaling import (
    Scaling,
    choose_scaling,
    near_powers_of_two,
    power_above,
    scale_examples,
)
from weightwright.estimators.solving.solve import Settings, ShownRun, Solution
from weightwright.incontext.networks.huber_network import huber_network, huber_prompt
from weightwright.incontext.problem.contexts import HuberContexts
from weightwright.incontext.problem.problem import Problem
from weightwright.numbers import Floats
from weightwright.runtime import AttentionNetwork

#: Tables take residuals up to this many units; or 16, 256, ... times as many where they must.
REACH = 4.0
#: The scale may become this many times smaller than its unit; more where it must.
RATIO = 16.0
#: The first scale is at least this share of the largest residual of the middle target.
SMALLEST = 2.0**-30


@functools.lru_cache(maxsize=16)
def build_network(device: str, samples: int, features: int, **settings: Any) -> AttentionNetwork:
    """The 16 networks that were used last are kept: data sets of about the same size share them."""
    return huber_network(samples, features, **settings).to(device)


@dataclass(frozen=True, eq=False)
class HuberSolution(Solution):
    """scale: (B,)."""

    scale: Floats


def solve_huber(problems: Sequence[Problem], epsilon: float, settings: Settings) -> HuberSolution:
    """All problems, stage by stage, each stage in one call of one network. problems: squared losses, ridge 2 alpha."""
    contexts, scalings = huber_contexts(problems, epsilon)
    plan = plan_stages(contexts, settings.tol, settings.max_steps)
    if plan.needed > settings.max_steps or plan.unfinished:
        warnings.warn(
            f"these data need {'more than' if plan.unfinished else 'about'} {plan.needed} steps of the Nesterov"
            f" method (condition number about {plan.condition:.3g}), but max_steps={settings.max_steps}; the fit"
            " will stop early",
            ConvergenceWarning,
            stacklevel=4,
        )
    fixed = run_stages(
        contexts, plan, settings.max_steps, settings.tol, settings.head_tol, settings.dtype, settings.device
    )
    back = [scaling.coefficients(theta[:-1]) for scaling, theta in zip(scalings, fixed.theta, strict=True)]
    return HuberSolution(
        coef=np.stack([coef for coef, _ in back]),
        intercept=np.array([c for _, c in back]),
        steps=fixed.steps,
        needed=plan.needed,
        remaining=contexts.missing(fixed.theta)[0],
        units=contexts.units,
        network=fixed.network,
        scale=fixed.theta[:, -1] * [scaling.y_scale for scaling in scalings],
        shown=_shown(fixed, scalings),
    )


def huber_contexts(problems: Sequence[Problem], epsilon: float) -> tuple[HuberContexts, list[Scaling]]:
    """scikit-learn's objective over the sum of the weights and over the targets' scale, in scaled coordinates."""
    first, alpha = problems[0], float(problems[0].exact_ridges()[0] / 2)
    scalings = [_scaling(problem, epsilon) for problem in problems]
    totals = np.array([problem.plain_weights.sum() for problem in problems])
    uniform = any(_are_dependent(scaling.rows(one.X)) for scaling, one in zip(scalings, problems, strict=True))
    if uniform:
        scalings = [_scaling(problem, epsilon, uniform) for problem in problems]
    elif alpha:
        scalings = [
            scaling.beside(one.X, one.plain_weights, alpha * scaling.y_scale / float(total))
            for scaling, one, total in zip(scalings, problems, totals, strict=True)
        ]
    own = np.array([scaling.y_scale for scaling in scalings])
    if alpha and len(problems) > 1:
        scale = np.exp2(np.mean([np.log2(scaling.scale) for scaling in scalings], axis=0))
        y_scale = np.exp2(np.mean(np.log2(own)))
        common = near_powers_of_two(np.append(scale, y_scale))
        scalings = [replace(scaling, scale=common[:-1], y_scale=float(common[-1])) for scaling in scalings]
        totals = np.full_like(totals, totals.max())
    examples = scale_examples(problems, scalings, totals, prompt_size(max(problem.n for problem in problems)))
    units, scale, y_scale = examples["units"], scalings[0].scale, scalings[0].y_scale
    ridge = np.zeros(first.size)
    ridge[: first.d] = 2 * alpha / float(totals[0]) * y_scale / scale / scale  # a square may not be a float
    sigma = own / [scaling.y_scale for scaling in scalings]
    contexts = HuberContexts(
        loss=first.loss,
        ridge=ridge,
        l1=np.zeros_like(units),
        start=np.hstack([np.zeros_like(units), sigma[:, None]]),
        epsilon=epsilon,
        intercept=first.intercept,
        uniform=uniform,
        **examples,
    )
    return contexts, scalings


def _are_dependent(rows: Floats) -> bool:
    """Columns of zeros do not count: their coefficients stay 0."""
    rows = rows[:, rows.any(axis=0)]
    return bool(np.linalg.matrix_rank(rows) < rows.shape[1])


def _scaling(problem: Problem, epsilon: float, uniform: bool = False) -> Scaling:
    weights = problem.plain_weights / problem.plain_weights.sum()
    middle = _median(problem.y, weights) if problem.intercept else 0.0
    size = _scale_around(np.abs(problem.y - middle), weights, epsilon)
    return replace(choose_scaling(problem.X, weights, problem.intercept, uniform), y_mean=middle, y_scale=size)


def _median(y: Floats, weights: Floats) -> float:
    """One of the targets, with half of the weight on either side."""
    order = np.argsort(y, kind="stable")
    return float(y[order][np.searchsorted(np.cumsum(weights[order]), 0.5).clip(max=len(y) - 1)])


def _scale_around(sizes: Floats, weights: Floats, epsilon: float) -> float:
    """The best scale for residuals of these sizes, as a power of two that is hardly below it."""
    largest = float(near_powers_of_two(sizes.max()[None])[0])
    ratios, scale = sizes / largest, 2.0
    lowest = max(float(ratios[ratios > 0].min(initial=1.0)), SMALLEST)
    while scale > lowest and weights @ np.minimum((2 * ratios / scale) ** 2, epsilon**2) <= 1:
        scale /= 2
    return scale * largest if sizes.any() else 1.0


@dataclass(frozen=True, eq=False)
class HuberFixed:
    """theta: (B, D + 1), where the networks came to rest. steps: passes in all. network: of the last stage.
    prompts: on which that starts, (B', samples, inputs) in these units, (B',)."""

    theta: Floats
    steps: int
    network: AttentionNetwork
    prompts: torch.Tensor
    units: Floats


def run_stages(
    contexts: HuberContexts,
    plan: HuberPlan,
    max_steps: int,
    tol: float,
    head_tol: float | None,
    dtype: str,
    device: str,
) -> HuberFixed:
    """All stages; then a quarter of the last again and again on its own answer, until no more is gained."""
    theta, total = contexts.start.copy(), 0
    for stage in plan.stages:
        steps = min(stage.needed, max_steps - total)
        theta[stage.which], net, shown, unit = _run(contexts, stage, steps, theta, head_tol, dtype, device)
        total += steps
        if total == max_steps:
            break
    mine = contexts.some(stage.which)
    remaining = mine.remaining(theta[stage.which])
    while plan.settled and total < max_steps and (remaining > tol).any():
        steps = min(max(stage.needed // 4, 1), max_steps - total)
        found, *_ = _run(contexts, stage, steps, theta, head_tol, dtype, device)
        total += steps
        left = mine.remaining(found)
        gained = bool((left < remaining / 2).any())
        theta[stage.which] = np.where((left < remaining)[:, None], found, theta[stage.which])
        remaining = np.minimum(left, remaining)
        if not gained:
            break
    return HuberFixed(theta, total, net, shown, unit)


def _run(
    contexts: HuberContexts, stage: Stage, steps: int, theta: Floats, head_tol: float | None, dtype: str, device: str
) -> tuple[Floats, AttentionNetwork, torch.Tensor, Floats]:
    """(B', D + 1): where the stage ends; the network, its prompts and their units. With more room if numbers
    turn out larger than in the rehearsal."""
    mine, here = contexts.some(stage.which), theta[stage.which]
    lowest, highest = np.minimum(stage.lowest, here[:, -1]), np.maximum(stage.highest, here[:, -1])
    unit = np.array([power_above(one) for one in (ROOM * highest).tolist()])
    least = 1 / max(RATIO, power_above(float((ROOM * unit / lowest).max())))
    reach = _few_reaches(ROOM * float((stage.reach / unit).max()))
    d = mine.features - mine.intercept
    for _ in range(TRIES):
        net = build_network(
            device,
            mine.samples,
            d,
            epsilon=mine.epsilon,
            sigma_range=(least, 1.0),
            reach=reach,
            momentum=stage.momentum,
            steps=steps,
            shrink=tuple((stage.step[0, :d] * mine.ridge[:d]).tolist()),
            intercept=mine.intercept,
            head_tol=HEAD_TOL[dtype] if head_tol is None else head_tol,
            dtype=dtype,
        )
        try:
            shown = _prompts(mine, stage.step, here, unit, dtype)
            return last_states(net, shown) * unit[:, None], net, shown, unit
        except DomainError as error:
            last = error
        unit, least = 2 * unit, least / 4
    raise last


def _few_reaches(size: float) -> float:
    """Not below the size, and one of a few, so that few tables are made."""
    reach = REACH
    while reach < size:
        reach *= 16
    return reach


def _prompts(contexts: HuberContexts, step: Floats, theta: Floats, unit: Floats, dtype: str) -> torch.Tensor:
    """(B, samples, inputs), in units in which sigma is at most 1."""
    d, prompts = contexts.features - contexts.intercept, []
    for b, start in enumerate(theta):
        used = contexts.weights[b] > 0
        prompts.append(
            huber_prompt(
                contexts.rows[b, used, :d],
                contexts.targets[b, used] / unit[b],
                step=step[b] * (contexts.weights[b].sum() / unit[b]),
                start=start / unit[b],
                sample_weight=contexts.weights[b, used],
                intercept=contexts.intercept,
                samples=contexts.samples,
                dtype=dtype,
            )
        )
    return torch.stack(prompts)


def _shown(fixed: HuberFixed, scalings: Sequence[Scaling]) -> ShownRun | None:
    """The prompts of the last stage, where all problems have one."""
    if len(fixed.prompts) < len(scalings):
        return None
    units = [replace(one, y_scale=one.y_scale * float(unit)) for one, unit in zip(scalings, fixed.units, strict=True)]
    return ShownRun(list(fixed.prompts), units)
