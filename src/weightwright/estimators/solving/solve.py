"""From data and penalties to coefficients: scale, plan, write the prompts, run the network, and scale back."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning

from weightwright.estimators.solving.contexts import Contexts, padded
from weightwright.estimators.solving.networks import in_few_sizes, prompt_size, prompts, run_to_fixed_point
from weightwright.estimators.solving.newton_schulz import Inversion, first_prompts, inversion, run_newton_schulz
from weightwright.estimators.solving.plan import Plan, planned
from weightwright.estimators.solving.scaling import Scaling, near_powers_of_two, root_mean_squares, scaling_of
from weightwright.incontext.problem.loss import loss
from weightwright.numbers import Floats
from weightwright.runtime import AttentionNetwork


@dataclass(frozen=True, eq=False)
class Data:
    """One problem: X (n, d), y (n,), sample weights (n,), all positive."""

    X: Floats
    y: Floats
    weights: Floats


@dataclass(frozen=True)
class Penalties:
    """ridge/2 |w|^2 + l1 |w|_1, beside the sum of the weighted losses, or (relative) beside their weighted mean."""

    ridge: Fraction = Fraction(0)
    l1: Fraction = Fraction(0)
    relative: bool = False

    def exact(self, weights: Floats) -> tuple[Fraction, Fraction]:
        """Both, beside the sum of the weighted losses."""
        total = sum(map(Fraction, weights.tolist()), Fraction(0)) if self.relative else Fraction(1)
        return self.ridge * total, self.l1 * total


@dataclass(frozen=True)
class Settings:
    """How a network is to run. dtype: "float64" or "float32". method: "gradient" or "newton-schulz"."""

    intercept: bool
    tol: float
    max_steps: int
    head_tol: float | None
    dtype: str
    method: str = "gradient"


@dataclass(frozen=True, eq=False)
class ShownRun:
    """prompts: (samples, inputs) each, on which the network starts. scalings: what makes coefficients of states."""

    prompts: Sequence[torch.Tensor]
    scalings: Sequence[Scaling]


@dataclass(frozen=True, eq=False)
class Solved:
    """coef: (B, d), intercept: (B,). needed: steps by the plan. remaining: (B,), the estimated relative distance.
    shown: None where no single prompt stands for the run."""

    coef: Floats
    intercept: Floats
    steps: int
    needed: int
    remaining: Floats
    units: Floats  # (B, D): what a scaled coefficient of 1 is in the original coordinates
    network: AttentionNetwork
    shown: ShownRun | None = field(default=None, kw_only=True)


def solved(problems: Sequence[Data], loss_name: str, penalties: Penalties, settings: Settings) -> Solved:
    """All problems in one call of one network."""
    prompt_size(max(len(data.X) for data in problems))
    contexts, scalings, plan = plan_of(problems, loss_name, penalties, settings)
    warn_of_early_stop(plan, settings.max_steps)
    how = (settings.max_steps, settings.tol, settings.head_tol, settings.dtype)
    if isinstance(plan, Inversion):
        fixed = run_newton_schulz(contexts, plan, *how)
        shown = ShownRun(*first_prompts(contexts, plan, scalings, settings.dtype))
    else:
        fixed = run_to_fixed_point(contexts, plan, *how)
        shown = ShownRun(list(prompts(fixed.network, contexts, plan.step, contexts.start)), scalings)
    back = [scaling.coefficients(theta) for scaling, theta in zip(scalings, fixed.theta, strict=True)]
    return Solved(
        np.stack([coef for coef, _ in back]),
        np.array([c for _, c in back]),
        fixed.steps,
        plan.needed,
        fixed.remaining,
        contexts.units,
        fixed.network,
        shown=shown,
    )


def warn_of_early_stop(plan: Plan | Inversion, max_steps: int) -> None:
    """Before the run, where it is going to be too short."""
    if plan.needed > max_steps:
        warnings.warn(
            f"these data need about {plan.needed} steps of the {plan.kind} method{plan.reason},"
            f" but max_steps={max_steps}; the fit will stop early",
            ConvergenceWarning,
            stacklevel=5,
        )


def plan_of(
    problems: Sequence[Data], loss_name: str, penalties: Penalties, settings: Settings
) -> tuple[Contexts, list[Scaling], Plan | Inversion]:
    """The problems in scaled coordinates, and what is going to be run."""
    contexts, scalings = _contexts(problems, loss_name, penalties, settings.intercept)
    if settings.method == "newton-schulz":
        plan = inversion(contexts, settings.tol, settings.head_tol, settings.dtype, settings.intercept)
        return contexts, scalings, plan
    return contexts, scalings, planned(contexts, settings.tol, settings.max_steps, settings.dtype)


def _contexts(
    problems: Sequence[Data], name: str, penalties: Penalties, intercept: bool
) -> tuple[Contexts, list[Scaling]]:
    totals = np.array([data.weights.sum() for data in problems])
    whole = totals if penalties.relative else np.full_like(totals, totals.max())
    scalings = [_scaling(data, name, penalties, intercept) for data in problems]
    if penalties.ridge:
        scalings = of_one_scale(scalings)
    samples = in_few_sizes(max(len(data.X) for data in problems))
    rows = [scaling.rows(data.X) for scaling, data in zip(scalings, problems, strict=True)]
    targets = [scaling.targets(data.y) for scaling, data in zip(scalings, problems, strict=True)]
    if name == "logistic":
        rows = [x * y[:, None] for x, y in zip(rows, targets, strict=True)]
    units = np.stack([scaling.units for scaling in scalings])
    free = np.ones(units.shape[1])
    free[len(scalings[0].scale) :] = 0.0  # the intercept is not penalised
    y_scales = np.array([scaling.y_scale for scaling in scalings])[:, None]
    share = float(penalties.ridge) / (1.0 if penalties.relative else float(whole[0]))
    l1_share = float(penalties.l1) / (np.ones_like(whole) if penalties.relative else whole)
    contexts = Contexts(
        loss=loss(name),
        rows=padded(rows, samples),
        targets=padded(targets, samples),
        weights=padded(
            [s.rate * data.weights / total for s, data, total in zip(scalings, problems, whole, strict=True)], samples
        ),
        ridge=share * free * (units[0] / y_scales[0]) ** 2,
        l1=l1_share[:, None] * free * units / y_scales**2,
        units=units,
        start=np.zeros_like(units),
    )
    return contexts, scalings


def of_one_scale(scalings: list[Scaling]) -> list[Scaling]:
    """A penalty in scaled coordinates is part of the weights of the network, so problems with one are scaled alike."""
    common = near_powers_of_two(np.exp2(np.mean([np.log2(scaling.scale) for scaling in scalings], axis=0)))
    return [replace(scaling, scale=common) for scaling in scalings]


def _scaling(data: Data, name: str, penalties: Penalties, intercept: bool) -> Scaling:
    weights = data.weights / data.weights.sum()
    scaling, ridge = scaling_of(data.X, weights, intercept), float(penalties.ridge)
    if ridge:
        share = ridge if penalties.relative else ridge / float(data.weights.sum())
        curvature = {"logistic": 0.25, "poisson": float(weights @ data.y) or 1.0}.get(name, 1.0)
        scaling = scaling.beside(data.X, weights, share / curvature)
    if name == "squared":
        if not (penalties.ridge or penalties.l1) and _dependent(scaling.rows(data.X)):
            scaling = scaling_of(data.X, weights, intercept, uniform=True)
        mean = _mean(data.y, weights) if intercept else 0.0
        spread = root_mean_squares((data.y - mean)[:, None], weights)
        size = near_powers_of_two(np.where(spread > 0, spread, abs(mean)))[0]
        return replace(scaling, y_mean=mean, y_scale=float(size))
    if name == "poisson" and intercept:
        return replace(scaling, rate=float(near_powers_of_two((weights @ data.y)[None])[0]))
    return scaling


def _mean(y: Floats, weights: Floats) -> float:
    """The weighted mean; of equal numbers exactly that number."""
    return float(y[0] if (y == y[0]).all() else weights @ y)


def _dependent(rows: Floats) -> bool:
    return bool(np.linalg.matrix_rank(rows) < rows.shape[1])
