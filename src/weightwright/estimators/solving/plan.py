"""Which algorithm runs, with which step and momentum, for how many steps, and how large numbers get on the way.

The plain algorithm is rehearsed in floats. Only sizes are taken from it: what it finds is not handed to the network.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from weightwright.estimators.solving.scaling import power_above
from weightwright.incontext.networks import passes
from weightwright.incontext.networks.passes import Algorithm
from weightwright.incontext.problem.contexts import SMALL, Contexts
from weightwright.numbers import Floats

#: An eigenvalue counts as 0 below this share of the largest, times the number of rows or columns.
ROUNDOFF = 2.0**-52
#: The condition numbers that momentum is tried for.
CONDITIONS = tuple(4.0**k for k in range(1, 15))
#: The number of rehearsed steps that shows whether a step size is stable.
TRIAL = 200
#: The most times that the step is halved until it is stable.
DOUBLINGS = 40
#: The most times that it is halved again where the steps then do not arrive (counts only).
RETRIES = 4
#: A rehearsal in which an argument or a state grows beyond this size has diverged.
DIVERGED = 1e6
#: The largest size of an argument of exp that a table is made for: from about here on 64 keys leave an error above
#: 1e-10 of its largest value.
WIDEST_EXP = 20.0
#: The room that arguments of exp get, in which it grows e-fold.
ROOM_EXP = 1.0
#: Chebyshev steps are counted until the error is this share of the tolerance: their bound is relative to the
#: first error, which may be larger than the coefficients.
SPARE = 0.01


@dataclass(frozen=True, eq=False)
class Plan:
    """needed: steps until the tolerance, an estimate. step: (B,). condition: what the momentum is chosen for.
    lowest, highest: the arguments that occurred. state: the largest one."""

    kind: str
    condition: float
    step: Floats
    needed: int
    lowest: float
    highest: float
    state: float
    most: int | None = None  # steps until an argument leaves the widest table; None: none does

    @property
    def argument(self) -> float:
        """The largest size of an argument."""
        return max(-self.lowest, self.highest)

    @property
    def reason(self) -> str:
        """Why it takes as many steps as it does, where that is known."""
        return f" (condition number about {self.condition:.3g})" if self.kind == "Chebyshev" else ""

    def algorithm(self, ridge: Floats, dtype: str) -> Algorithm:
        """Its passes; with a ridge all contexts have one step."""
        return make_algorithm(self.kind, self.condition, float(self.step.max()) * ridge, dtype)


def make_algorithm(kind: str, condition: float, shrink: Floats, dtype: str) -> Algorithm:
    """The algorithm with the momentum for this condition number."""
    if kind == "Chebyshev":
        return passes.chebyshev(1.0, condition, shrink, dtype)
    make = passes.proximal_nesterov if kind == "proximal Nesterov" else passes.nesterov
    return make(momentum(condition), shrink, dtype)


def momentum(condition: float) -> float:
    """The best for steps of 1/L at this condition number."""
    root = 1 / math.sqrt(condition)
    return (1 - root) / (1 + root)


def plan_fit(contexts: Contexts, tol: float, max_steps: int, dtype: str) -> Plan:
    """The plan for these contexts."""
    if contexts.loss.name == "squared" and not contexts.has_l1:
        return _quadratic(contexts, tol, max_steps, dtype)
    kind = "proximal Nesterov" if contexts.has_l1 else "Nesterov"
    plan, end = _accelerated(contexts, kind, _largest(contexts.steepest(), contexts), tol, max_steps, dtype)
    if contexts.loss.name != "squared":  # where slopes have flattened out, longer steps are stable
        with np.errstate(over="ignore", invalid="ignore"):
            curved = contexts.hessian(end)
        flatter = 2 * _largest(curved, contexts)
        if (flatter * plan.step < 1).all():
            other, _ = _accelerated(contexts, kind, flatter, tol, max_steps, dtype)
            plan = other if other.needed < min(plan.needed, max_steps) else plan
    return plan


def limit_to_tables(plan: Plan, contexts: Contexts, max_steps: int, dtype: str, is_centred: bool) -> Plan:
    """The same, as far as its arguments stay in the widest table of exp. is_centred: that may lie anywhere."""
    widest = WIDEST_EXP - 2 * ROOM_EXP
    ends = max((plan.highest - plan.lowest) / 2, 0.0) if is_centred else plan.argument
    if ends <= widest:
        return plan
    algorithm = plan.algorithm(contexts.ridge, dtype)
    count, run = 0, rehearse(contexts, algorithm, plan.step, 0, 0.0)
    for steps in (4**k for k in range(12)):  # how far it goes, to a factor of 4
        there = rehearse(contexts, algorithm, plan.step, min(steps, max_steps), 0.0)
        wide = (there.span[1] - there.span[0]) / 2 if is_centred else max(-there.span[0], there.span[1])
        if not there.fine or wide > widest or steps > max_steps:
            break
        count, run = steps, there
    return replace(plan, lowest=run.span[0], highest=run.span[1], state=run.state, most=max(count, 1))


def plan_hopeless(contexts: Contexts, tol: float, max_steps: int, dtype: str) -> Plan:
    """A plan where there is no optimum: a few steps towards it."""
    L = _largest(contexts.steepest(), contexts)
    plan, _ = _accelerated(contexts, "Nesterov", L, tol, min(TRIAL, max_steps), dtype)
    return replace(plan, needed=TRIAL)


def _accelerated(
    contexts: Contexts, kind: str, L: Floats, tol: float, max_steps: int, dtype: str
) -> tuple[Plan, Floats]:
    """Nesterov's steps of 1/L, or less where that is not stable, with the momentum that needs the fewest; and
    where they end."""
    for _ in range(DOUBLINGS):
        shrink = float((1 / L).max()) * contexts.ridge
        tried = rehearse(contexts, make_algorithm(kind, 16.0, shrink, dtype), 1 / L, min(max_steps, TRIAL), 0.0)
        if tried.fine and (_largest(contexts.hessian(tried.theta), contexts) <= L * (1 + 1e-9)).all():
            break
        L, shrink = 2 * L, shrink / 2
    plan, end = _with_momentum(contexts, kind, L, shrink, tol, max_steps, dtype)
    if contexts.loss.name == "poisson":  # curvature has no bound: near the optimum it may be larger than on the way
        for _ in range(RETRIES):
            if plan.needed <= max_steps:
                break
            L, shrink = 2 * L, shrink / 2
            other, there = _with_momentum(contexts, kind, L, shrink, tol, max_steps, dtype)
            plan, end = (other, there) if other.needed < plan.needed else (plan, end)
    return plan, end


def _with_momentum(
    contexts: Contexts, kind: str, L: Floats, shrink: Floats, tol: float, max_steps: int, dtype: str
) -> tuple[Plan, Floats]:
    """The momentum that needs the fewest steps of 1/L."""
    budget, best, chosen = 0, None, 1.0
    while best is None or (best.needed > budget and budget < max_steps):  # most momentums need far more than the best
        budget, best, chosen = min(max(4 * budget, 2 * TRIAL), max_steps), None, 1.0
        for condition in CONDITIONS:
            algorithm, quiet = make_algorithm(kind, condition, shrink, dtype), tol / math.sqrt(condition)
            most = budget if best is None else min(budget, _whole(2 * best.needed))
            run = rehearse(contexts, algorithm, 1 / L, most, quiet)
            if best is None or (run.fine and run.needed < best.needed):
                best, chosen = run, condition
            elif condition > 16 * chosen and run.needed > 1.5 * best.needed:
                break
    return Plan(kind, chosen, 1 / L, _whole(best.needed), *best.span, best.state), best.theta


def chebyshev_steps(contexts: Contexts, tol: float) -> int:
    """About how many steps Chebyshev's method takes for least squares."""
    return _chebyshev(contexts, tol)[2]


def _chebyshev(contexts: Contexts, tol: float) -> tuple[float, Floats, int]:
    """The condition number, by the eigenvalues that are not 0, the steps' sizes, and how many are needed."""
    values = np.linalg.eigvalsh(contexts.hessian(contexts.start))  # (B, D)
    L = values[:, -1] * (1 + 2.0**-20)
    L = np.where(L > 0, L, 1.0)
    if contexts.shares_step:
        L = np.full_like(L, L.max())
    nothing = values[:, -1:] * ROUNDOFF * max(contexts.samples, contexts.features)
    smallest = np.where(values > nothing, values, np.inf).min(axis=1)
    condition = power_above(max(float((L / smallest).max()), 2.0))
    step = 2 / (L * (1 + 1 / condition))
    t = 2 * math.atanh(1 / math.sqrt(condition))  # acosh((condition + 1) / (condition - 1))
    return condition, step, math.ceil(math.acosh(1 / (SPARE * tol)) / t) + 1


def _quadratic(contexts: Contexts, tol: float, max_steps: int, dtype: str) -> Plan:
    """Chebyshev steps."""
    condition, step, needed = _chebyshev(contexts, tol)
    algorithm = make_algorithm("Chebyshev", condition, step.max() * contexts.ridge, dtype)
    run = rehearse(contexts, algorithm, step, min(needed, max_steps), 0.0)
    return Plan("Chebyshev", condition, step, needed, *run.span, run.state)


@dataclass(frozen=True, eq=False)
class Rehearsal:
    """theta: (B, D), where it ended. needed: steps until the tolerance, infinite if there was none. span: the
    lowest and the highest argument that occurred. state: the largest one. fine: it did not diverge."""

    theta: Floats
    needed: float
    span: tuple[float, float]
    state: float
    fine: bool


def rehearse(contexts: Contexts, algorithm: Algorithm, step: Floats, steps: int, tol: float) -> Rehearsal:
    """The plain algorithm in floats, until a step changes the states by less than tol, relative to the largest."""
    w = p = contexts.start
    pulls, clock = step[:, None, None] * contexts.pulls, algorithm.clock
    tau = step[:, None] * contexts.l1
    lowest = highest = largest_state = 0.0
    needed, change, halfway, quiet = math.inf, math.inf, math.inf, 0
    with np.errstate(all="ignore"):
        for k in range(steps):
            now = algorithm.step(k)
            arguments = contexts.arguments(w)
            met = arguments - contexts.targets if contexts.loss.form == "residual" else arguments
            lowest, highest = min(lowest, float(met.min())), max(highest, float(met.max()))
            z = now.alpha * w - contexts.pull(contexts.slopes(arguments), pulls)
            q = np.zeros_like(z)
            if now.middle == "threshold":
                q = np.sign(z) * np.maximum(np.abs(z) - tau, 0)
            elif now.middle == "clock":
                q = (z - p) / (1 + math.exp(-clock))
            before, states = (p if algorithm.answer == "p" else w), np.stack([z, q, p, w])
            new = np.einsum("as,sbd->abd", now.method, states)
            w, p = new[0], new[-1]
            clock += now.tick
            largest_state = max(largest_state, float(np.abs(new).max()))
            if not (np.isfinite(new).all() and max(largest_state, highest, -lowest) < DIVERGED):
                return Rehearsal(w, math.inf, (-DIVERGED, DIVERGED), DIVERGED, False)
            if tol:
                answer = p if algorithm.answer == "p" else w
                change = float(
                    (np.abs(answer - before).max(axis=1) / np.maximum(np.abs(answer).max(axis=1), SMALL)).max()
                )
                halfway = change if k == steps // 2 else halfway
                quiet = quiet + 1 if change <= tol else 0
                if quiet == 3:
                    needed = k + 1
                    break
    if tol and math.isinf(needed):
        needed = extrapolate_steps(steps, halfway, change, tol)
    return Rehearsal(p if algorithm.answer == "p" else w, needed, (lowest, highest), largest_state, True)


def extrapolate_steps(steps: int, halfway: float, change: float, tol: float) -> float:
    """When the changes get below tol if they go on falling as over the last half of the steps."""
    if change <= tol:
        return steps
    fall = math.log(halfway / change) if 0 < change < halfway < math.inf else 0.0
    return steps * (1 + 0.5 * math.log(change / tol) / max(fall, 1e-3))


def _largest(H: Floats, contexts: Contexts) -> Floats:
    """(B,): the largest eigenvalue of each, or of all where the contexts share their step. OverflowError where second
    derivatives are no floats."""
    if not np.isfinite(H).all():
        raise OverflowError("second derivatives are too large for floats")
    L = np.linalg.eigvalsh(H)[:, -1] * (1 + 2.0**-20)
    L = np.where(L > 0, L, 1.0)
    return np.asarray(np.full(len(L), L.max()) if contexts.shares_step else L, dtype=np.float64)


def _whole(needed: float) -> int:
    return math.ceil(min(needed, 1e15))
