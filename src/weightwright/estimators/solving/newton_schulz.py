"""Newton's method with Newton-Schulz: H theta = b stands in the prompt, and products alone invert H.

H is the Gram matrix of the scaled examples with the ridge, and b the slope downwards at the coefficients so far;
whoever writes the prompt forms both, in floats. The answer is added to the coefficients, and what is left goes into
another prompt: so the slope of the examples themselves decides, not how well H was formed, inverted or rounded.

Least squares have one H. With another smooth loss the next prompt has the H where the last run ended.

A singular H, or one of too large a condition number, gets a shift: H + shift I is what is inverted. Every run then
leaves shift / (eigenvalue + shift) of the error, and nothing is ever added along an eigenvalue of 0, so that from 0 on
the runs go to the solution of minimum norm. Where eigenvalues are far below the shift that takes many runs; the plan
counts them, and the bound of a fit that stopped before says how far it is.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from weightwright.estimators.solving.networks import Fixed, answers, repeat_runs
from weightwright.estimators.solving.plan import ROUNDOFF
from weightwright.estimators.solving.scaling import Scaling, power_above
from weightwright.incontext.networks.newton_schulz_network import (
    MOST,
    newton_schulz_network,
    newton_schulz_prompt,
    newton_schulz_steps,
    plain_newton_schulz,
)
from weightwright.incontext.networks.slopes import DEFAULT_TOL
from weightwright.incontext.problem.contexts import Contexts
from weightwright.numbers import UNIT, Floats
from weightwright.runtime import AttentionNetwork

#: The largest condition number that is inverted without a shift: rounding then leaves about a thousandth of an error.
WORST = {"float64": 2.0**38, "float32": 2.0**14}
#: The shift of a singular H, as a share of its smallest eigenvalue that is not 0.
SHIFT = 2.0**-12
#: A run that leaves more than this share of the error is the last.
SLOWEST = 0.99
#: Runs of Newton's method in a plan, at most, and those that may follow them.
MOST_RUNS, MORE_RUNS = 40, 3
#: A share of the coefficients that may be missing where IDLE runs in a row did not halve it: rounding rules there.
NEAR, IDLE = 2.0**-7, 3
#: The most targets in one prompt.
TARGETS = 8


@functools.lru_cache(maxsize=4)
def build_network(device: str, size: int, **settings: Any) -> AttentionNetwork:
    """Only the last 4 networks are kept: with 128 coefficients running one takes about 3 GB."""
    return newton_schulz_network(size, **settings).to(device)


@dataclass(frozen=True, eq=False)
class Inversion:
    """What is going to be run. condition: of H, without its eigenvalues of 0. needed: passes of all runs.
    passes: of one run. left: the share of the error that a run leaves, about. H: (B, D, D), shifted, of the first run.
    moves: whether later runs have others."""

    condition: float
    needed: int
    passes: int
    left: float
    H: Floats
    moves: bool = False

    @property
    def kind(self) -> str:
        return "Newton" if self.moves else "Newton-Schulz"

    @property
    def reason(self) -> str:
        return f" (condition number about {self.condition:.3g})"


def plan_inversion(contexts: Contexts, tol: float, head_tol: float | None, dtype: str, intercept: bool) -> Inversion:
    """The plan for least squares, from the eigenvalues of H."""
    _require_few(contexts, intercept)
    one = _shifted(contexts.hessian(contexts.start), contexts, dtype)
    tables = 4 * (DEFAULT_TOL[dtype] if head_tol is None else head_tol)
    rounding = np.minimum(tables + UNIT[dtype] * one.conditions, 0.5)
    left = float(np.maximum(one.kept, rounding).max())
    left = min(left, 1 - 2.0**-40)
    runs = max(1, math.ceil(math.log(min(tol, 0.5)) / math.log(left)))
    return Inversion(one.condition, runs * one.passes, one.passes, left, one.H)


def plan_newton(contexts: Contexts, tol: float, dtype: str, intercept: bool) -> Inversion | None:
    """The plan for another smooth loss: Newton's method is rehearsed in floats, until nothing is missing or rounding
    keeps it from coming nearer. None where it does not arrive."""
    _require_few(contexts, intercept)
    theta, passes, first, missing, idle = contexts.start, 1, None, math.inf, 0
    for runs in range(1, MOST_RUNS + 1):
        with np.errstate(all="ignore"):
            H, g = contexts.hessian(theta), contexts.gradient(theta)
        if not (np.isfinite(H).all() and np.isfinite(g).all()):
            return None
        one = _shifted(H, contexts, dtype)
        passes, first = max(passes, one.passes), first or one
        theta = theta - np.linalg.solve(one.H, g[..., None])[..., 0]
        left = float(contexts.remaining(theta).max())
        idle = 0 if left < missing / 2 else idle + 1
        missing = min(left, missing)
        if missing <= tol or (idle == IDLE and missing <= NEAR):
            return Inversion(first.condition, runs * passes, passes, 0.0, first.H, moves=True)
    return None


def _require_few(contexts: Contexts, intercept: bool) -> None:
    if contexts.features > MOST:
        features = f"{contexts.features - intercept} features{' and an intercept' if intercept else ''}"
        raise ValueError(
            f"method='newton-schulz' is for at most {MOST} coefficients, but X has {features}; take method='gradient'"
        )


@dataclass(frozen=True, eq=False)
class _Shifted:
    """H: (B, D, D), with what makes it invertible. condition: without eigenvalues of 0. conditions: (B,), of H as it
    is. kept: (B,), the share of an error that the shift keeps. passes: of the network that inverts it."""

    H: Floats
    condition: float
    conditions: Floats
    kept: Floats
    passes: int


def _shifted(H: Floats, contexts: Contexts, dtype: str) -> _Shifted:
    D = contexts.features
    H = (H + np.swapaxes(H, 1, 2)) / 2
    values = np.linalg.eigvalsh(H)  # (B, D)
    L = np.where(values[:, -1] > 0, values[:, -1], 1.0)
    is_zero = values <= (L * ROUNDOFF * max(contexts.samples, D))[:, None]
    smallest = np.minimum(np.where(is_zero, np.inf, values).min(axis=1), L)
    shift = np.where(is_zero.any(axis=1), np.maximum(SHIFT * smallest, L / WORST[dtype]), 0.0)
    shift = np.where(smallest * WORST[dtype] < L, L / WORST[dtype], shift)
    H = H + shift[:, None, None] * np.eye(D)
    lowest = 0.99 * np.where(is_zero.any(axis=1), shift, smallest + shift)
    passes = max(newton_schulz_steps(h, float(low), dtype) for h, low in zip(H, lowest, strict=True))
    return _Shifted(H, float((L / smallest).max()), L / lowest, shift / (smallest + shift), passes)


def run_newton_schulz(
    contexts: Contexts, plan: Inversion, max_steps: int, tol: float, head_tol: float | None, dtype: str, device: str
) -> Fixed:
    """Runs until none is missing or no more is gained."""

    if plan.moves:
        return _run_newton(contexts, plan, max_steps, tol, head_tol, dtype, device)

    def run(steps: int, theta: Floats) -> tuple[Floats, AttentionNetwork, int]:
        found, net = _solve(plan.H, -contexts.gradient(theta), steps, head_tol, dtype, device)
        return theta + found, net, steps

    return repeat_runs(contexts, plan.passes, max_steps, tol, run, worth=min((1 + plan.left) / 2, SLOWEST))


def _run_newton(
    contexts: Contexts, plan: Inversion, max_steps: int, tol: float, head_tol: float | None, dtype: str, device: str
) -> Fixed:
    """As many runs as were rehearsed, and some more where rounding left something. Far from the optimum a step may make
    the estimate of what is missing larger; the states where it was smallest are the answer."""
    theta = best = contexts.start
    remaining, total = np.full(len(theta), np.inf), 0
    for _ in range(plan.needed // plan.passes + MORE_RUNS):
        steps = min(plan.passes, max_steps - total)
        with np.errstate(all="ignore"):
            H, g = contexts.hessian(theta), contexts.gradient(theta)
        if not (np.isfinite(H).all() and np.isfinite(g).all()):
            break  # only where rounding led elsewhere than the rehearsal
        found, net = _solve(_shifted(H, contexts, dtype).H, -g, steps, head_tol, dtype, device)
        theta, total = theta + found, total + steps
        if not np.isfinite(theta).all():
            break
        left = contexts.remaining(theta)
        best = np.where((left < remaining)[:, None], theta, best)
        remaining = np.minimum(left, remaining)
        if (remaining <= tol).all() or total >= max_steps:
            break
    return Fixed(best, total, remaining, net)


def _solve(
    H: Floats, b: Floats, steps: int, head_tol: float | None, dtype: str, device: str
) -> tuple[Floats, AttentionNetwork]:
    """H^-1 b by the network, (B, D). It is rehearsed in floats; only sizes are taken from that."""
    together, scales = _scales(H, b, steps)
    targets = max(map(len, together))
    prompts = []
    for places in together:
        columns = np.zeros((H.shape[1], targets))
        columns[:, : len(places)] = (b[places] / scales[places, None]).T
        prompts.append(newton_schulz_prompt(H[places[0]], columns, dtype))
    net = build_network(device, H.shape[1], steps=steps, reach=1.0, targets=targets, head_tol=head_tol, dtype=dtype)
    found, answer = answers(net, torch.stack(prompts)), np.empty_like(b)
    for places, columns in zip(together, found, strict=True):
        answer[places] = scales[places, None] * columns[:, : len(places)].T
    return answer, net


def _scales(H: Floats, b: Floats, steps: int) -> tuple[list[list[int]], Floats]:
    """Problems that share a prompt, and powers of two above what each of them will find."""
    together = _of_one_matrix(H)
    sizes = np.empty(len(b))
    for places in together:
        sizes[places] = np.abs(plain_newton_schulz(H[places[0]], steps)[-1] @ b[places].T).max(axis=0)
    return together, np.array([power_above(2 * size) for size in sizes.tolist()])


def first_prompts(
    contexts: Contexts, plan: Inversion, scalings: Sequence[Scaling], dtype: str
) -> tuple[list[torch.Tensor], list[Scaling]]:
    """What stands for the first run of each problem: a prompt with its target alone, and the units of the answer."""
    b = -contexts.gradient(contexts.start)
    together, scales = _scales(plan.H, b, plan.passes)
    prompts = []
    for matrix, slope, scale in zip(plan.H, b, scales, strict=True):
        columns = np.zeros((len(slope), max(map(len, together))))
        columns[:, 0] = slope / scale
        prompts.append(newton_schulz_prompt(matrix, columns, dtype))
    units = [replace(one, y_scale=one.y_scale * float(k)) for one, k in zip(scalings, scales, strict=True)]
    return prompts, units


def _of_one_matrix(H: Floats) -> list[list[int]]:
    """Places of equal matrices, as outputs of one data set have them, in groups of at most TARGETS."""
    places: dict[bytes, list[int]] = {}
    for k, matrix in enumerate(H):
        places.setdefault(matrix.tobytes(), []).append(k)
    return [group[k : k + TARGETS] for group in places.values() for k in range(0, len(group), TARGETS)]
