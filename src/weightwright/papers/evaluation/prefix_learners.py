"""Learners with the interface of the usual evaluation: `name`, and `learner(xs, ys, inds=None)`, a prediction at every
position from the examples before it.

xs is (prompts, n, d), ys (prompts, n); inds are the positions whose predictions are returned, (prompts, positions).
Position i has i examples before it. This is how Garg et al. (2022) call models and baselines alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch

from weightwright.numbers import Floats, counted, is_positive

#: Any model's predictions: (xs, ys, inds) to (prompts, positions).
Predict = Callable[..., Any]


@runtime_checkable
class Learner(Protocol):
    """What curves and metrics are made of."""

    name: str

    def __call__(self, xs: Any, ys: Any, inds: Sequence[int] | None = None) -> Any:
        """(prompts, positions): the prediction at each of the positions, at all if None."""


class PrefixLearner:
    """A linear model w of the examples before a position, found anew at each; the prediction is w.x.

    name: what plots and tables call it.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name})"

    def weights(self, X: torch.Tensor, y: torch.Tensor, points: int) -> torch.Tensor:
        """(prompts, d) from (prompts, i, d) and (prompts, i), i at least 1.

        points: those of the whole prompt, which the size of a step may depend on.
        """
        raise NotImplementedError

    def __call__(self, xs: Any, ys: Any, inds: Sequence[int] | None = None) -> torch.Tensor:
        xs, ys, places = read_prompts(xs, ys, inds)
        predicted = [self._predict(xs[:, :i], ys[:, :i], xs[:, i], xs.shape[1]) for i in places]
        return torch.stack(predicted, dim=1)

    def _predict(self, X: torch.Tensor, y: torch.Tensor, query: torch.Tensor, points: int) -> torch.Tensor:
        w = self.weights(X, y, points) if X.shape[1] else torch.zeros_like(query)
        return (w * query).sum(dim=1)


class LeastSquaresLearner(PrefixLearner):
    """Least squares; of several solutions, where there are fewer examples than features, the shortest."""

    def __init__(self) -> None:
        super().__init__("least squares")

    def weights(self, X: torch.Tensor, y: torch.Tensor, points: int) -> torch.Tensor:
        """w of the examples, (prompts, d), from X (prompts, i, d) and y (prompts, i).

        points: those of the whole prompt; not needed here.
        """
        return (torch.linalg.pinv(X) @ y.unsqueeze(2)).squeeze(2)


class RidgeLearner(PrefixLearner):
    """Least squares with a penalty: the minimum of |X w - y|^2 + penalty |w|^2.

    penalty: with noise of variance s^2 and standard normal w, penalty=s^2 is the best there is.
    """

    def __init__(self, penalty: float) -> None:
        self.penalty = _above_zero("penalty", penalty)
        super().__init__(f"ridge {self.penalty:g}")

    def weights(self, X: torch.Tensor, y: torch.Tensor, points: int) -> torch.Tensor:
        """w of the examples, (prompts, d), from X (prompts, i, d) and y (prompts, i).

        points: those of the whole prompt; not needed here.
        """
        A = X.mT @ X + self.penalty * torch.eye(X.shape[2], dtype=X.dtype)
        return torch.linalg.solve(A, (X.mT @ y.unsqueeze(2)).squeeze(2))


class DescentLearner(PrefixLearner):
    """Steps of gradient descent from w = 0 on the squared loss, w - step/examples sum of (w.x - y) x.

    steps: how many.
    step: their size; None: 1 / (1 + sqrt(d/n))^2, about 1 over the curvature of n standard normal examples.
    examples: what the sum is divided by at every position; None: the n points of the prompt. So one step size serves
    all prefixes, as in `causal_learner`.
    ridge: a penalty ridge/2 |w|^2 on the mean of the losses.
    """

    def __init__(self, steps: int, step: float | None = None, examples: int | None = None, ridge: float = 0.0) -> None:
        if not isinstance(steps, int) or isinstance(steps, bool) or steps < 1:
            raise ValueError(f"steps must be a whole number of at least 1, not {steps!r}")
        self.steps, self.examples, self.ridge = steps, examples, ridge
        self.step = None if step is None else _above_zero("step", step)
        super().__init__(f"{counted(steps, 'step')} of descent")

    def sizes(self, features: int, points: int) -> tuple[float, int]:
        """The size of a step, and what sums are divided by.

        points: those of the whole prompt.
        """
        examples = self.examples or points
        return self.step or 1.0 / ((1.0 + math.sqrt(features / examples)) ** 2 + self.ridge), examples

    def weights(self, X: torch.Tensor, y: torch.Tensor, points: int) -> torch.Tensor:
        """w of the examples, (prompts, d), from X (prompts, i, d) and y (prompts, i).

        points: those of the whole prompt, by which sums are divided unless `examples` says otherwise.
        """
        step, examples = self.sizes(X.shape[2], points)
        w = torch.zeros_like(X[:, 0])
        for _ in range(self.steps):
            residual = (X * w.unsqueeze(1)).sum(dim=2) - y
            w = w - step * ((residual.unsqueeze(2) * X).sum(dim=1) / examples + self.ridge * w)
        return w


class HookedLearner:
    """Any model beside the others: what it predicts, under a name.

    name: what plots and tables call it.
    predict: predict(xs, ys, inds) to (prompts, positions), for instance a trained Transformer's.
    """

    def __init__(self, name: str, predict: Predict) -> None:
        if not callable(predict):
            raise ValueError(f"predict must be a function of (xs, ys, inds), not {predict!r}")
        self.name, self._predict = name, predict

    def __repr__(self) -> str:
        return f"HookedLearner({self.name})"

    def __call__(self, xs: Any, ys: Any, inds: Sequence[int] | None = None) -> Any:
        return self._predict(xs, ys, inds)


class NetworkLearner:
    """A network of ours that predicts at every position, such as `causal_learner`'s, with the usual interface.

    learner: it has predict(X, y) and, for proven bands, prompt(X, y) and bound(prompt) with `bounds`.
    name: what plots and tables call it; None: "ours" and its steps.
    """

    def __init__(self, learner: Any, name: str | None = None) -> None:
        if not callable(getattr(learner, "predict", None)):
            raise ValueError(f"learner must have predict(X, y), as what causal_learner returns has; not {learner!r}")
        steps = getattr(getattr(learner, "descent", None), "steps", None)
        self.learner = learner
        self.name = name or ("ours" if steps is None else f"ours, {counted(steps, 'step')}")

    def __repr__(self) -> str:
        return f"NetworkLearner({self.name})"

    def __call__(self, xs: Any, ys: Any, inds: Sequence[int] | None = None) -> torch.Tensor:
        xs, ys, places = read_prompts(xs, ys, inds)
        predicted: torch.Tensor = self.learner.predict(xs, ys)
        return predicted[:, places]

    def bounds(self, xs: Any, ys: Any, inds: Sequence[int] | None = None) -> Floats:
        """(prompts, positions): how far each prediction is from the exact algorithm's at most: proven.

        xs: the points, (prompts, n, d).
        ys: their targets, (prompts, n).
        inds: the positions; None: all.
        """
        xs, ys, places = read_prompts(xs, ys, inds)
        found = [self.learner.bound(self.learner.prompt(X, y)).bounds for X, y in zip(xs, ys, strict=True)]
        return np.array(found)[:, places]


def read_prompts(xs: Any, ys: Any, inds: Sequence[int] | None) -> tuple[torch.Tensor, torch.Tensor, list[int]]:
    """Both as tensors, and the positions; ValueError where the shapes do not fit each other."""
    xs, ys = torch.as_tensor(xs), torch.as_tensor(ys)
    if xs.ndim != 3 or not xs.numel():
        raise ValueError(f"xs must have the shape (prompts, points, features), not {tuple(xs.shape)}")
    if ys.shape != xs.shape[:2]:
        raise ValueError(f"ys must have the shape {tuple(xs.shape[:2])}, as xs says, not {tuple(ys.shape)}")
    places = list(range(xs.shape[1])) if inds is None else [int(i) for i in inds]
    for i in places:
        if not 0 <= i < xs.shape[1]:
            raise ValueError(f"inds must be positions from 0 to {xs.shape[1] - 1}, not {i}")
    return xs, ys, places


def _above_zero(name: str, value: Any) -> float:
    if not is_positive(value):
        raise ValueError(f"{name} must be a finite number above 0, not {value!r}")
    return float(value)
