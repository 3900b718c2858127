"""AE-E3, AE-E4: attention that is given the weights of an algorithm in its prompt, and what it is trained on."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from weightwright.papers.experiments.training.ames_housing import ALGORITHMS
from weightwright.papers.experiments.training.batched_models import EmbeddedAttention, Group, TokenMap


def draw_regression(
    seed: int, kind: int, samples: int, n: int, d: int, sigma: float, penalty: float
) -> tuple[Tensor, Tensor]:
    """AE-E3: tokens (x_i, w), (samples, n, 2d), and targets (samples, n, 1) of one of ALGORITHMS.

    x is 2 N(0, 1) - 1. Lasso and linear: w is normal (lasso: half of it 0) and the target X w + noise. Ridge: Y = X w +
    noise, the prompt has (X^T X + penalty I)^-1 X^T Y, and the target is what these weights predict.
    """
    generator = torch.Generator().manual_seed(1009 * seed + kind)
    X = 2 * torch.randn(samples, n, d, generator=generator) - 1
    w = torch.randn(samples, d, 1, generator=generator)
    if ALGORITHMS[kind] == "lasso":
        w = w * (torch.rand(w.shape, generator=generator) < 0.5)
    Y = X @ w + sigma * torch.randn(samples, n, 1, generator=generator)
    if ALGORITHMS[kind] == "ridge":
        gram = X.transpose(1, 2) @ X + penalty * torch.eye(d)
        w = torch.linalg.solve(gram, X.transpose(1, 2) @ Y)
        Y = X @ w
    return torch.cat([X, w.transpose(1, 2).expand(-1, n, -1)], -1), Y


class HousingAttention(nn.Module):
    """AE-E4: tokens (x_i, which algorithm as one-hot) -> a number for each; the weights come from one of two places.

    weights (G, 3, d): of the three algorithms, fitted on training rows. guessing (G,): where true, the weights are
    guessed by the auxiliary network (AE-17), 3 -> 64 -> d, which is trained with the rest and sees no data.
    """

    weights: Tensor
    guessing: Tensor

    def __init__(self, group: Group, weights: Tensor, guessing: Tensor, hidden: int) -> None:
        super().__init__()
        d = weights.shape[-1]
        self.first, self.second = TokenMap(group, len(ALGORITHMS), 64), TokenMap(group, 64, d)
        self.model = EmbeddedAttention(group, 2 * d, hidden, 1, scaled=True)
        self.register_buffer("weights", weights)
        self.register_buffer("guessing", guessing[:, None, None, None])

    def guess(self, which: Tensor) -> Tensor:
        """The auxiliary network: one-hot algorithms (G, B, n, 3) to weights (G, B, n, d)."""
        return self.second(torch.relu(self.first(which)))

    def forward(self, Z: Tensor) -> Tensor:
        x, which = Z[..., : -len(ALGORITHMS)], Z[..., -len(ALGORITHMS) :]
        given = torch.einsum("gbna,gad->gbnd", which, self.weights)
        return self.model(torch.cat([x, torch.where(self.guessing, self.guess(which), given)], -1))
