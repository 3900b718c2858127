"""From data and penalties to coefficients: scale, plan, write the prompts, run the network, and scale back."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning

from weightwright.estimators.solving.networks import (
    MOST_SAMPLES,
    in_few_sizes,
    prompt_size,
    run_to_fixed_point,
    write_prompts,
)
from weightwright.estimators.solving.newton_schulz import (
    Inversion,
    first_prompts,
    plan_inversion,
    plan_newton,
    run_newton_schulz,
)
from weightwright.estimators.solving.plan import (
    DIVERGED,
    WIDEST_EXP,
    Plan,
    chebyshev_steps,
    limit_to_tables,
    plan_fit,
    plan_hopeless,
)
from weightwright.estimators.solving.scaling import (
    Scaling,
    choose_scaling,
    exact_sum,
    near_powers_of_two,
    root_mean_squares,
    scale_alike,
    scale_examples,
)
from weightwright.incontext.networks.newton_schulz_network import MOST
from weightwright.incontext.problem.contexts import Contexts
from weightwright.incontext.problem.problem import Problem
from weightwright.numbers import Floats
from weightwright.runtime import AttentionNetwork

#: The largest l1 penalty in scaled coordinates, where features and targets have a root mean square of about 1 and a
#: slope at 0 is 4 at most: any that is larger leaves the same coefficients at 0.
MOST_L1 = 2.0**10
#: The largest ridge penalty beside the mean of the losses that a network is shown: its root is still a scale.
MOST_RIDGE = 1e300
#: The most passes times cubed coefficients that Newton-Schulz is chosen for by itself: minutes.
DEAR = 1e8


@dataclass(frozen=True)
class Settings:
    """How a network is to run. dtype: "float64" or "float32". device: as torch names it. method: "gradient",
    "newton-schulz" or "auto", which takes the second where the first would need more than max_steps.
    relative: the penalties are stated beside the mean of the losses, so all data sets have the same whatever
    their weights add up to; else beside their sum."""

    tol: float
    max_steps: int
    head_tol: float | None
    dtype: str
    device: str = "cpu"
    method: str = "gradient"
    relative: bool = False


@dataclass(frozen=True, eq=False)
class ShownRun:
    """prompts: (samples, inputs) each, on which the network starts. scalings: what makes coefficients of states."""

    prompts: Sequence[torch.Tensor]
    scalings: Sequence[Scaling]


@dataclass(frozen=True, eq=False)
class Solution:
    """coef: (B, d), intercept: (B,). needed: steps by the plan. remaining: (B,), the estimated relative
    distance. shown: None where no single prompt stands for the run."""

    coef: Floats
    intercept: Floats
    steps: int
    needed: int
    remaining: Floats
    units: Floats  # (B, D): what a scaled coefficient of 1 is in the original coordinates
    network: AttentionNetwork
    shown: ShownRun | None = field(default=None, kw_only=True)


def solve_problems(problems: Sequence[Problem], settings: Settings) -> Solution:
    """All problems in one call of one network; of one for each penalty, which stands in its weights."""
    groups = _of_one_penalty(problems, settings.relative)
    found = [_solve_alike([problems[k] for k in places], settings) for places in groups]
    return found[0] if len(found) == 1 else _merge(found, groups)


def _of_one_penalty(problems: Sequence[Problem], relative: bool) -> list[list[int]]:
    """Places of problems with the same ridge, the group of the first problem first."""
    places: dict[Fraction, list[int]] = {}
    for k, problem in enumerate(problems):
        total = exact_sum(problem.plain_weights) if relative else 1
        places.setdefault(problem.exact_ridges()[0] / total, []).append(k)
    return list(places.values())


def _merge(found: Sequence[Solution], groups: Sequence[Sequence[int]]) -> Solution:
    """Solutions of groups of problems as one. steps, needed: the most of a group. network: of the first problem."""
    back = np.argsort(np.concatenate(groups))

    def joined(name: str) -> Floats:
        return np.concatenate([getattr(one, name) for one in found])[back]

    prompts = [prompt for one in found if one.shown for prompt in one.shown.prompts]
    scalings = [scaling for one in found if one.shown for scaling in one.shown.scalings]
    return Solution(
        joined("coef"),
        joined("intercept"),
        max(one.steps for one in found),
        max(one.needed for one in found),
        joined("remaining"),
        joined("units"),
        found[0].network,
        shown=ShownRun([prompts[k] for k in back], [scalings[k] for k in back]),
    )


def count_steps(problems: Sequence[Problem], settings: Settings) -> int:
    """About how many passes `solve_problems` takes."""
    groups = _of_one_penalty(problems, settings.relative)
    return max(plan_problems([problems[k] for k in places], settings)[2].needed for places in groups)


def _solve_alike(problems: Sequence[Problem], settings: Settings) -> Solution:
    contexts, scalings, plan = plan_problems(problems, settings)
    warn_of_early_stop(plan, settings.max_steps, 6)
    how = (settings.max_steps, settings.tol, settings.head_tol, settings.dtype, settings.device)
    if isinstance(plan, Inversion):
        fixed = run_newton_schulz(contexts, plan, *how)
        shown = ShownRun(*first_prompts(contexts, plan, scalings, settings.dtype))
    else:
        fixed = run_to_fixed_point(contexts, plan, *how)
        shown = ShownRun(list(write_prompts(fixed.network, contexts, plan.step, contexts.start)), scalings)
    back = [scaling.coefficients(theta) for scaling, theta in zip(scalings, fixed.theta, strict=True)]
    return Solution(
        np.stack([coef for coef, _ in back]),
        np.array([c for _, c in back]),
        fixed.steps,
        plan.needed,
        fixed.remaining,
        contexts.units,
        fixed.network,
        shown=shown,
    )


def leaves_tables(plan: Plan | Inversion, max_steps: int) -> bool:
    """Whether the fit ends because a table goes no further."""
    return isinstance(plan, Plan) and plan.most is not None and plan.most < min(plan.needed, max_steps)


def stops_early(plan: Plan | Inversion, max_steps: int) -> bool:
    """Whether the fit ends before it arrives."""
    return plan.needed > max_steps or leaves_tables(plan, max_steps)


def warn_of_early_stop(plan: Plan | Inversion, max_steps: int, depth: int) -> None:
    """Before the run, where it is going to be too short. depth: of the stack, up to the caller of `fit`."""
    if leaves_tables(plan, max_steps):
        assert isinstance(plan, Plan)
        warnings.warn(
            f"the rates of these counts go over more than e^{2 * WIDEST_EXP:.0f}, and a table of exp goes no further:"
            f" the fit stops after {plan.most} steps. Take a stronger penalty",
            ConvergenceWarning,
            stacklevel=depth,
        )
        return
    if plan.needed > max_steps:
        warnings.warn(
            f"these data need about {plan.needed} steps of the {plan.kind} method{plan.reason},"
            f" but max_steps={max_steps}; the fit will stop early",
            ConvergenceWarning,
            stacklevel=depth,
        )


def plan_problems(problems: Sequence[Problem], settings: Settings) -> tuple[Contexts, list[Scaling], Plan | Inversion]:
    """The problems in scaled coordinates, and what is going to be run."""
    contexts, scalings = _contexts(problems, settings.relative)
    if contexts.loss.name != "squared":
        return _plan_smooth(problems, contexts, scalings, settings)
    if settings.method == "newton-schulz" or (settings.method == "auto" and _takes_products(contexts, settings)):
        plan = plan_inversion(contexts, settings.tol, settings.head_tol, settings.dtype, problems[0].intercept)
        return contexts, scalings, plan
    prompt_size(max(problem.n for problem in problems))
    return contexts, scalings, plan_fit(contexts, settings.tol, settings.max_steps, settings.dtype)


def _plan_smooth(
    problems: Sequence[Problem], contexts: Contexts, scalings: list[Scaling], settings: Settings
) -> tuple[Contexts, list[Scaling], Plan | Inversion]:
    """Of a loss that is no square: gradients where they arrive, Newton's method where they do not and it does."""
    intercept, auto = problems[0].intercept, settings.method == "auto" and contexts.features <= MOST
    if settings.method == "newton-schulz" or (auto and contexts.samples > MOST_SAMPLES):
        newton = plan_newton(contexts, settings.tol, settings.dtype, intercept)
        if newton is None:
            either = ", or method='gradient'" if contexts.samples <= MOST_SAMPLES else ""
            one = f" (one of {len(problems)} problems)" if len(problems) > 1 else ""
            raise ValueError(
                f"method={settings.method!r}: Newton's method does not arrive at an optimum of these data{one}: it may"
                " be far from 0, hardly determined (columns that are nearly equal, and no penalty), or there is none,"
                f" as where a plane separates the classes or all counts are 0; take a stronger penalty{either}"
            )
        return contexts, scalings, newton
    contexts, scalings, gradients = _plan_gradients(problems, contexts, scalings, settings)
    if auto and stops_early(gradients, settings.max_steps):
        newton = plan_newton(contexts, settings.tol, settings.dtype, intercept)
        if newton and newton.needed <= settings.max_steps and newton.needed * contexts.features**3 <= DEAR:
            return contexts, scalings, newton
    return contexts, scalings, gradients


def _plan_gradients(
    problems: Sequence[Problem], contexts: Contexts, scalings: list[Scaling], settings: Settings
) -> tuple[Contexts, list[Scaling], Plan]:
    prompt_size(max(problem.n for problem in problems))
    is_poisson = contexts.loss.name == "poisson"
    never = is_poisson and problems[0].intercept and not all(problem.y.any() for problem in problems)
    gradients = (plan_hopeless if never else plan_fit)(contexts, settings.tol, settings.max_steps, settings.dtype)
    if not is_poisson:
        return contexts, scalings, gradients
    gradients = limit_to_tables(gradients, contexts, settings.max_steps, settings.dtype, problems[0].intercept)
    return _centre(contexts, scalings, gradients) if problems[0].intercept else (contexts, scalings, gradients)


def _centre(contexts: Contexts, scalings: list[Scaling], plan: Plan) -> tuple[Contexts, list[Scaling], Plan]:
    """The same with the arguments of exp around 0, which makes its table as narrow as it can be: counts are divided by
    a power of two, samples weigh as much more, and its logarithm leaves the intercept."""
    if plan.argument >= DIVERGED:
        return contexts, scalings, plan
    rate = 2.0 ** round((plan.lowest + plan.highest) / 2 / math.log(2))
    moved, start = math.log(rate), contexts.start.copy()
    start[:, -1] -= moved
    contexts = replace(contexts, targets=contexts.targets / rate, weights=contexts.weights * rate, start=start)
    scalings = [replace(scaling, rate=scaling.rate * rate) for scaling in scalings]
    lowest, highest, state = plan.lowest - moved, plan.highest - moved, plan.state + abs(moved)
    return contexts, scalings, replace(plan, lowest=lowest, highest=highest, state=state)


def _takes_products(contexts: Contexts, settings: Settings) -> bool:
    """Whether Newton-Schulz arrives where gradients would not within max_steps, and is not dear."""
    if contexts.features > MOST:
        return False
    if contexts.samples > MOST_SAMPLES:
        return True
    if chebyshev_steps(contexts, settings.tol) <= settings.max_steps:
        return False
    needed = plan_inversion(contexts, settings.tol, settings.head_tol, settings.dtype, False).needed
    return needed <= settings.max_steps and needed * contexts.features**3 <= DEAR


def _contexts(problems: Sequence[Problem], relative: bool) -> tuple[Contexts, list[Scaling]]:
    first = problems[0]
    totals = np.array([problem.plain_weights.sum() for problem in problems])
    wholes = totals if relative else np.full_like(totals, totals.max())
    scalings = [_scaling(problem, relative) for problem in problems]
    if first.has_ridge:
        scalings = scale_alike(scalings)
    examples = scale_examples(problems, scalings, wholes, in_few_sizes(max(problem.n for problem in problems)))
    if first.loss.form == "margin":
        examples["rows"] = examples["rows"] * examples["targets"][..., None]
    ridge, l1 = _shares(first, relative, float(wholes[0]))
    units, y_scales = examples["units"], np.array([[scaling.y_scale] for scaling in scalings])
    free = np.arange(units.shape[1]) < first.d  # the intercept is not penalised
    contexts = Contexts(
        loss=first.loss,
        ridge=ridge * free * (units[0] / y_scales[0]) ** 2,
        l1=_scaled_l1(l1, units, y_scales) * free,
        start=np.zeros_like(units),
        **examples,
    )
    return contexts, scalings


def _scaled_l1(l1: float, units: Floats, y_scales: Floats) -> Floats:
    """Of every feature, at most MOST_L1; what is no float on the way is more."""
    with np.errstate(over="ignore", under="ignore"):
        return np.minimum(l1 * units / y_scales / y_scales, MOST_L1)


def _shares(problem: Problem, relative: bool, whole: float) -> tuple[float, float]:
    """The ridge and l1 penalties beside losses whose weights are divided by the whole. All problems have the same:
    relative ones divide by a whole of their own, and get what was stated beside the mean, to the last bit."""
    ridge, l1 = problem.exact_ridges()[0], problem.exact_l1s()[0]
    if relative:
        total = 1 if problem.weights is None else exact_sum(problem.weights)
        return _as_float(ridge / total), _as_float(l1 / total)
    return _as_float(ridge / Fraction(whole)), _as_float(l1 / Fraction(whole))


def _as_float(penalty: Fraction) -> float:
    return float(min(penalty, Fraction(MOST_RIDGE)))


def _scaling(problem: Problem, relative: bool) -> Scaling:
    X, y, intercept = problem.X, problem.y, problem.intercept
    total = float(problem.plain_weights.sum())
    weights = problem.plain_weights / total
    scaling, name = choose_scaling(X, weights, intercept), problem.loss.name
    if problem.has_ridge:
        curvature = {"logistic": 0.25, "poisson": float(weights @ y) or 1.0}.get(name, 1.0)
        scaling = scaling.beside(X, weights, _shares(problem, relative, total)[0] / curvature)
    elif not problem.has_l1 and _are_dependent(scaling.rows(X)):  # of many optima the shortest
        scaling = choose_scaling(X, weights, intercept, uniform=True)
    if name == "squared":
        mean = _mean(y, weights) if intercept else 0.0
        spread = root_mean_squares((y - mean)[:, None], weights)
        size = near_powers_of_two(np.where(spread > 0, spread, abs(mean)))[0]
        return replace(scaling, y_mean=mean, y_scale=float(size))
    if name == "poisson" and intercept:
        return replace(scaling, rate=float(near_powers_of_two((weights @ y)[None])[0]))
    return scaling


def _mean(y: Floats, weights: Floats) -> float:
    """The weighted mean; of equal numbers exactly that number."""
    return float(y[0] if (y == y[0]).all() else weights @ y)


def _are_dependent(rows: Floats) -> bool:
    return bool(np.linalg.matrix_rank(rows) < rows.shape[1])
