"""Several classes in one model, softmax(W x + c): the problems in scaled coordinates, the network and its runs.

The state is the scaled W row by row, an intercept at the end of each. Slopes add up to 0 over the classes, and the
state starts at 0: so the rows go on adding up to 0, and of all intercepts that make the same model those that add up to
0 are found, as scikit-learn finds them. What rounding added to all rows alike is taken away in the end.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import torch

from weightwright.estimators.solving.networks import in_few_sizes, last_states, prompt_size, repeat_runs
from weightwright.estimators.solving.plan import Plan, momentum, plan_fit
from weightwright.estimators.solving.scaling import Scaling, choose_scaling, scale_alike, scale_examples
from weightwright.estimators.solving.solve import Settings, ShownRun, Solution, warn_of_early_stop
from weightwright.incontext.networks.multinomial_network import multinomial_network, multinomial_prompt
from weightwright.incontext.problem.contexts import MultinomialContexts, pad
from weightwright.incontext.problem.loss import loss
from weightwright.incontext.problem.problem import Problem
from weightwright.numbers import Floats
from weightwright.runtime import AttentionNetwork


def plan_multinomial(
    problems: Sequence[Problem], classes: int, settings: Settings
) -> tuple[MultinomialContexts, list[Scaling], Plan]:
    """The problems in scaled coordinates, and what is going to be run. Their targets are 0 .. classes - 1."""
    contexts, scalings = _contexts(problems, classes)
    return contexts, scalings, plan_fit(contexts, settings.tol, settings.max_steps, settings.dtype)


def solve_multinomial(problems: Sequence[Problem], classes: int, settings: Settings) -> Solution:
    """All problems in one call of one network; the answer has the classes of the first, then those of the next."""
    contexts, scalings, plan = plan_multinomial(problems, classes, settings)
    warn_of_early_stop(plan, settings.max_steps, 5)

    def run(steps: int, theta: Floats) -> tuple[Floats, AttentionNetwork, int]:
        shrink = tuple((float(plan.step.max()) * contexts.ridge[: contexts.features]).tolist())
        sizes, how = (contexts.samples, contexts.features, classes), (settings.dtype, settings.device)
        net = build_network(*sizes, plan.condition, shrink, steps, *how)
        return last_states(net, _prompts(contexts, plan.step, theta, settings.dtype)), net, steps

    fixed = repeat_runs(contexts, in_few_sizes(plan.needed), settings.max_steps, settings.tol, run)
    W = fixed.theta.reshape(len(problems), classes, -1)
    W = W - W.mean(axis=1, keepdims=True)
    back = [scaling.coefficients(row) for scaling, rows in zip(scalings, W, strict=True) for row in rows]
    return Solution(
        np.stack([coef for coef, _ in back]),
        np.array([c for _, c in back]),
        fixed.steps,
        plan.needed,
        np.repeat(fixed.remaining, classes),
        np.repeat(contexts.units, classes, axis=0),
        fixed.network,
        shown=ShownRun(
            [
                prompt
                for prompt in _prompts(contexts, plan.step, contexts.start, settings.dtype)
                for _ in range(classes)
            ],
            [scaling for scaling in scalings for _ in range(classes)],
        ),
    )


@functools.lru_cache(maxsize=16)
def build_network(
    samples: int,
    features: int,
    classes: int,
    condition: float,
    shrink: tuple[float, ...],
    steps: int,
    dtype: str,
    device: str,
) -> AttentionNetwork:
    return multinomial_network(
        samples, features, classes, momentum=momentum(condition), steps=steps, shrink=np.array(shrink), dtype=dtype
    ).to(device)


def _prompts(contexts: MultinomialContexts, step: Floats, theta: Floats, dtype: str) -> torch.Tensor:
    """(B, samples, inputs)."""
    prompts = []
    for x, t, s, one, state in zip(contexts.rows, contexts.targets, contexts.weights, step, theta, strict=True):
        prompts.append(
            multinomial_prompt(
                x,
                t.argmax(axis=1),
                contexts.classes,
                step=np.full(contexts.features, one * s.sum()),  # the prompt divides by the sum of the weights
                start=state.reshape(contexts.classes, -1),
                sample_weight=s,
                dtype=dtype,
            )
        )
    return torch.stack(prompts)


def _contexts(problems: Sequence[Problem], classes: int) -> tuple[MultinomialContexts, list[Scaling]]:
    whole = max(float(problem.plain_weights.sum()) for problem in problems)
    ridge = float(problems[0].exact_ridges()[0]) / whole
    scalings = [_scaling(problem, ridge) for problem in problems]
    if ridge:
        scalings = scale_alike(scalings)
    samples = prompt_size(max(problem.n for problem in problems))
    examples = scale_examples(problems, scalings, [whole] * len(problems), samples)
    units = examples["units"]
    free = np.arange(units.shape[1]) < problems[0].d  # the intercept is not penalised
    every = np.tile(units, classes)
    examples["targets"] = pad([np.eye(classes)[problem.y.astype(int)] for problem in problems], samples)
    examples["units"] = every
    contexts = MultinomialContexts(
        loss=loss("logistic"),
        ridge=np.tile(ridge * free * units[0] ** 2, classes),
        l1=np.zeros_like(every),
        start=np.zeros_like(every),
        **examples,
    )
    return contexts, scalings


def _scaling(problem: Problem, ridge: float) -> Scaling:
    """Features are brought to unit size together with their penalty, so that small ones do not make steps short."""
    weights = problem.plain_weights / problem.plain_weights.sum()
    return choose_scaling(problem.X, weights, problem.intercept).beside(problem.X, weights, 2 * ridge)
