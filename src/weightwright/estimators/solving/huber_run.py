"""The networks of the stages of Huber's regression, and running them one after the other.

Every stage has units of its own, powers of two, in which sigma is at most 1: so stages and data sets share tables.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

import numpy as np
import torch

from weightwright.errors import DomainError
from weightwright.estimators.solving.huber_plan import HuberPlan, Stage
from weightwright.estimators.solving.huber_problem import HuberContexts
from weightwright.estimators.solving.networks import HEAD_TOL, ROOM, TRIES, last_states
from weightwright.estimators.solving.scaling import power_above
from weightwright.incontext.networks.huber_network import huber_network, huber_prompt
from weightwright.numbers import Floats
from weightwright.runtime import AttentionNetwork

#: Residuals up to so many units; or 16, 256, ... times as many.
REACH = 4.0
#: The scale may be so many times smaller than its unit, or more where it must be.
RATIO = 16.0


@dataclass(frozen=True)
class HuberDesign:
    """All that a network is made from; sigma lies between lowest and 1, residuals go up to reach."""

    samples: int
    features: int
    intercept: bool
    epsilon: float
    lowest: float
    reach: float
    momentum: float
    shrink: tuple[float, ...]
    steps: int
    head_tol: float
    dtype: str


@functools.lru_cache(maxsize=16)
def network_of(design: HuberDesign) -> AttentionNetwork:
    return huber_network(
        design.samples,
        design.features,
        epsilon=design.epsilon,
        sigma_range=(design.lowest, 1.0),
        reach=design.reach,
        momentum=design.momentum,
        steps=design.steps,
        shrink=np.array(design.shrink),
        intercept=design.intercept,
        head_tol=design.head_tol,
        dtype=design.dtype,
    )


@dataclass(frozen=True, eq=False)
class HuberFixed:
    """theta: (B, D + 1), where the networks came to rest. steps: passes in all. network: of the last stage. prompts: on
    which that starts, (B', samples, inputs) in these units, (B',)."""

    theta: Floats
    steps: int
    network: AttentionNetwork
    prompts: torch.Tensor
    units: Floats


def run_stages(
    contexts: HuberContexts, plan: HuberPlan, max_steps: int, tol: float, head_tol: float | None, dtype: str
) -> HuberFixed:
    """All stages; then a quarter of the last again and again on its own answer, until no more is gained."""
    theta, total = contexts.start, 0
    for stage in plan.stages:
        steps = min(stage.needed, max_steps - total)
        theta[stage.which], net, shown, unit = _run(contexts, stage, steps, theta, head_tol, dtype)
        total += steps
        if total == max_steps:
            break
    mine = contexts.some(stage.which)
    remaining = mine.remaining(theta[stage.which])
    while plan.settled and total < max_steps and (remaining > tol).any():
        steps = min(max(stage.needed // 4, 1), max_steps - total)
        found, *_ = _run(contexts, stage, steps, theta, head_tol, dtype)
        total += steps
        left = mine.remaining(found)
        gained = bool((left < remaining / 2).any())
        theta[stage.which] = np.where((left < remaining)[:, None], found, theta[stage.which])
        remaining = np.minimum(left, remaining)
        if not gained:
            break
    return HuberFixed(theta, total, net, shown, unit)


def _run(
    contexts: HuberContexts, stage: Stage, steps: int, theta: Floats, head_tol: float | None, dtype: str
) -> tuple[Floats, AttentionNetwork, torch.Tensor, Floats]:
    """(B', D + 1): where the stage ends; the network, its prompts and their units. With more room if numbers turn out
    larger than in the rehearsal."""
    mine, here = contexts.some(stage.which), theta[stage.which]
    lowest, highest = np.minimum(stage.lowest, here[:, -1]), np.maximum(stage.highest, here[:, -1])
    unit = np.array([power_above(one) for one in (ROOM * highest).tolist()])
    design = HuberDesign(
        samples=mine.rows.shape[1],
        features=mine.rows.shape[2] - mine.intercept,
        intercept=mine.intercept,
        epsilon=mine.epsilon,
        lowest=1 / max(RATIO, power_above(float((ROOM * unit / lowest).max()))),
        reach=_few_reaches(ROOM * float((stage.reach / unit).max())),
        momentum=stage.momentum,
        shrink=tuple((stage.step[0, :-1] * mine.penalty)[: mine.rows.shape[2] - mine.intercept].tolist()),
        steps=steps,
        head_tol=HEAD_TOL[dtype] if head_tol is None else head_tol,
        dtype=dtype,
    )
    for _ in range(TRIES):
        net = network_of(design)
        try:
            shown = _prompts(mine, stage.step, here, unit, dtype)
            return last_states(net, shown) * unit[:, None], net, shown, unit
        except DomainError as error:
            last = error
        unit, design = 2 * unit, replace(design, lowest=design.lowest / 4)
    raise last


def _few_reaches(size: float) -> float:
    """Not below the size, and one of a few, so that few tables are made."""
    reach = REACH
    while reach < size:
        reach *= 16
    return reach


def _prompts(contexts: HuberContexts, step: Floats, theta: Floats, unit: Floats, dtype: str) -> torch.Tensor:
    """(B, samples, inputs), in units in which sigma is at most 1."""
    samples, D = contexts.rows.shape[1:]
    prompts = []
    for b, start in enumerate(theta):
        used = contexts.weights[b] > 0
        prompts.append(
            huber_prompt(
                contexts.rows[b, used, : D - contexts.intercept],
                contexts.targets[b, used] / unit[b],
                step=step[b] * (contexts.weights[b].sum() / unit[b]),
                start=start / unit[b],
                sample_weight=contexts.weights[b, used],
                intercept=contexts.intercept,
                samples=samples,
                dtype=dtype,
            )
        )
    return torch.stack(prompts)
