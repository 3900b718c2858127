"""How alike two learners in context are, in the metrics that von Oswald et al. (2023) use: losses, the difference of
their predictions, and whether predictions move alike with the query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from weightwright.papers.evaluation.prefix_learners import Learner, read_prompts

#: Half the distance of the two queries whose predictions are subtracted where a learner gives no gradients.
APART = 2.0**-10


@dataclass(frozen=True)
class Likeness:
    """Two learners on the same prompts, at one position. All are means over the prompts, measured in floats."""

    losses: tuple[float, float]  # squared error of each, divided by the features
    predictions: float  # |difference of the predictions|
    cosine: float  # of the angle between the gradients of the predictions with respect to the query
    gradients: float  # |difference of these gradients|


def query_gradients(learner: Learner, xs: Any, ys: Any, position: int) -> torch.Tensor:
    """(prompts, d): how the prediction moves with its query. By autograd, or by differences where there is none.

    learner: any with the usual interface.
    xs: (prompts, n, d).
    ys: (prompts, n).
    position: of the query.
    """
    xs, ys, (place,) = read_prompts(xs, ys, [position])
    query = xs[:, place].detach().clone().requires_grad_()
    with torch.enable_grad():
        predicted = torch.as_tensor(learner(_with_query(xs, place, query), ys, [place]))
    if predicted.requires_grad:
        return torch.autograd.grad(predicted.sum(), query)[0]
    moved = []
    for step in APART * torch.eye(xs.shape[2], dtype=xs.dtype):
        above, below = (
            torch.as_tensor(learner(_with_query(xs, place, query.detach() + sign * step), ys, [place]))[:, 0]
            for sign in (1, -1)
        )
        moved.append((above - below) / (2 * APART))
    return torch.stack(moved, dim=1).to(xs.dtype)


def compare(first: Learner, second: Learner, xs: Any, ys: Any, position: int | None = None) -> Likeness:
    """How alike two learners are.

    first, second: any two with the usual interface.
    xs: (prompts, n, d).
    ys: (prompts, n).
    position: of the query; None: the last one, which has all other examples before it.
    """
    place = (xs.shape[1] - 1) if position is None else position
    xs, ys, (place,) = read_prompts(xs, ys, [place])
    predicted = [torch.as_tensor(learner(xs, ys, [place])).detach()[:, 0].to(xs.dtype) for learner in (first, second)]
    slopes = [query_gradients(learner, xs, ys, place) for learner in (first, second)]
    losses = [float((p - ys[:, place]).square().mean() / xs.shape[2]) for p in predicted]
    return Likeness(
        losses=(losses[0], losses[1]),
        predictions=float((predicted[0] - predicted[1]).abs().mean()),
        cosine=float(torch.nn.functional.cosine_similarity(slopes[0], slopes[1], dim=1).mean()),
        gradients=float((slopes[0] - slopes[1]).norm(dim=1).mean()),
    )


def _with_query(xs: torch.Tensor, place: int, query: torch.Tensor) -> torch.Tensor:
    parts: Sequence[torch.Tensor] = (xs[:, :place], query.unsqueeze(1), xs[:, place + 1 :])
    return torch.cat(list(parts), dim=1)
