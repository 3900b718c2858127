"""Several classes in one model, softmax(W x + c): the problems in scaled coordinates, the network and its runs.

The state is the scaled W row by row, an intercept at the end of each. Slopes add up to 0 over the classes, and the
state starts at 0: so the rows go on adding up to 0, and of all intercepts that make the same model those that add up to
0 are found, as scikit-learn finds them. What rounding added to all rows alike is taken away in the end.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from weightwright.estimators.solving.contexts import Contexts, padded
from weightwright.estimators.solving.networks import in_few_sizes, last_states, prompt_size, repeated
from weightwright.estimators.solving.plan import Plan, momentum, planned
from weightwright.estimators.solving.scaling import Scaling, scaling_of
from weightwright.estimators.solving.solve import (
    Data,
    Penalties,
    Settings,
    ShownRun,
    Solved,
    of_one_scale,
    warn_of_early_stop,
)
from weightwright.incontext.networks.multinomial_network import multinomial_network, multinomial_prompt
from weightwright.incontext.problem.loss import loss
from weightwright.numbers import Floats
from weightwright.runtime import AttentionNetwork


@dataclass(frozen=True, eq=False)
class MultinomialContexts(Contexts):
    """The same for K classes: a state has K D numbers, and so have ridge, l1, units and start. targets: (B, n, K), 1
    for the class of a sample, else 0. loss: the logistic one, whose slopes have several classes here."""

    @property
    def classes(self) -> int:
        return self.targets.shape[2]

    def arguments(self, theta: Floats) -> Floats:
        """(B, n, K): W x for every sample."""
        return self.rows @ np.swapaxes(theta.reshape(len(theta), self.classes, -1), 1, 2)

    def slopes(self, arguments: Floats) -> Floats:
        """(B, n, K): by how much each class is too likely."""
        return self._likely(arguments) - self.targets

    def pulled(self, slopes: Floats, pulls: Floats) -> Floats:
        return (np.swapaxes(slopes, 1, 2) @ pulls).reshape(len(pulls), -1)

    def hessian(self, theta: Floats) -> Floats:
        p = self._likely(self.arguments(theta))
        B, _, D = self.rows.shape
        H = np.empty((B, self.classes, D, self.classes, D))
        for k in range(self.classes):
            for m in range(self.classes):
                curved = (p[..., k] * ((k == m) - p[..., m]))[..., None] * self.pulls
                H[:, k, :, m] = np.swapaxes(curved, 1, 2) @ self.rows
        return H.reshape(B, self.classes * D, -1) + np.diag(self.ridge)

    def steepest(self) -> Floats:
        """diag(p) - p p^T is at most 1/2, so one class's part is above the whole."""
        D = self.features
        return np.swapaxes(self.pulls, 1, 2) @ self.rows / 2 + np.diag(self.ridge[:D])

    @staticmethod
    def _likely(arguments: Floats) -> Floats:
        powers = np.exp(arguments - arguments.max(axis=2, keepdims=True))
        return powers / powers.sum(axis=2, keepdims=True)


def multinomial_plan(
    problems: Sequence[Data], classes: int, penalties: Penalties, settings: Settings
) -> tuple[MultinomialContexts, list[Scaling], Plan]:
    """The problems in scaled coordinates, and what is going to be run. Their targets are 0 .. classes - 1."""
    contexts, scalings = _contexts(problems, classes, penalties, settings.intercept)
    return contexts, scalings, planned(contexts, settings.tol, settings.max_steps, settings.dtype)


def multinomial_solved(problems: Sequence[Data], classes: int, penalties: Penalties, settings: Settings) -> Solved:
    """All problems in one call of one network; the answer has the classes of the first, then those of the next."""
    contexts, scalings, plan = multinomial_plan(problems, classes, penalties, settings)
    warn_of_early_stop(plan, settings.max_steps)

    def run(steps: int, theta: Floats) -> tuple[Floats, AttentionNetwork]:
        shrink = tuple((float(plan.step.max()) * contexts.ridge[: contexts.features]).tolist())
        net = network_of(contexts.samples, contexts.features, classes, plan.condition, shrink, steps, settings.dtype)
        return last_states(net, _prompts(contexts, plan.step, theta, settings.dtype)), net

    fixed = repeated(contexts, in_few_sizes(plan.needed), settings.max_steps, settings.tol, run)
    W = fixed.theta.reshape(len(problems), classes, -1)
    W = W - W.mean(axis=1, keepdims=True)
    back = [scaling.coefficients(row) for scaling, rows in zip(scalings, W, strict=True) for row in rows]
    return Solved(
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
def network_of(
    samples: int, features: int, classes: int, condition: float, shrink: tuple[float, ...], steps: int, dtype: str
) -> AttentionNetwork:
    return multinomial_network(
        samples, features, classes, momentum=momentum(condition), steps=steps, shrink=np.array(shrink), dtype=dtype
    )


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


def _contexts(
    problems: Sequence[Data], classes: int, penalties: Penalties, intercept: bool
) -> tuple[MultinomialContexts, list[Scaling]]:
    whole = max(float(data.weights.sum()) for data in problems)
    ridge = float(penalties.ridge) / whole
    scalings = [_scaling(data, ridge, intercept) for data in problems]
    if ridge:
        scalings = of_one_scale(scalings)
    samples = prompt_size(max(len(data.X) for data in problems))
    rows = [scaling.rows(data.X) for scaling, data in zip(scalings, problems, strict=True)]
    units = np.stack([scaling.units for scaling in scalings])
    free = np.ones(units.shape[1])
    free[problems[0].X.shape[1] :] = 0.0  # the intercept is not penalised
    every = np.tile(units, classes)
    contexts = MultinomialContexts(
        loss=loss("logistic"),
        rows=padded(rows, samples),
        targets=padded([np.eye(classes)[data.y.astype(int)] for data in problems], samples),
        weights=padded([data.weights / whole for data in problems], samples),
        ridge=np.tile(ridge * free * units[0] ** 2, classes),
        l1=np.zeros_like(every),
        units=every,
        start=np.zeros_like(every),
    )
    return contexts, scalings


def _scaling(data: Data, ridge: float, intercept: bool) -> Scaling:
    """Features are brought to unit size together with their penalty, so that small ones do not make steps short."""
    weights = data.weights / data.weights.sum()
    return scaling_of(data.X, weights, intercept).beside(data.X, weights, 2 * ridge)
