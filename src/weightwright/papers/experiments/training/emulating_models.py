"""AE-E1, AE-E2: data and trained models of the emulation studies."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from weightwright.papers.experiments.training.batched_models import Group, MultiHead, TokenMap


def draw_gradient_data(seed: int, samples: int, n: int, d: int) -> tuple[Tensor, Tensor]:
    """AE-E1: tokens (x_i, y_i, w_i), (samples, n, 2d + 1), and tanh(w_i . x_i - y_i) x_i, (samples, n, d)."""
    generator = torch.Generator().manual_seed(seed)
    x = 10 * torch.randn(samples, n, d, generator=generator) - 5
    y = torch.randn(samples, n, 1, generator=generator)
    w = torch.randn(samples, n, d, generator=generator)
    residual = (w * x).sum(-1, keepdim=True) - y
    return torch.cat([x, y, w], -1), torch.tanh(residual) * x


class BlockAttention(nn.Module):
    """AE-E1 as in the proof of Theorem 3.1: a sample has P keys of its own, linear in (x_i, y_i); w_i asks.

    (G, B, n, 2d + 1) -> (G, B, n, d); values are linear in (x_i, y_i).
    """

    def __init__(self, group: Group, d: int, hidden: int, P: int) -> None:
        super().__init__()
        self.d, self.P = d, P
        self.Q = TokenMap(group, d, hidden)
        self.K = TokenMap(group, d + 1, P * hidden)
        self.V = TokenMap(group, d + 1, P * d)

    def forward(self, Z: Tensor) -> Tensor:
        given, w = Z[..., : self.d + 1], Z[..., self.d + 1 :]
        shape = (*Z.shape[:3], self.P, -1)
        queries, keys, values = self.Q(w), self.K(given).view(shape), self.V(given).view(shape)
        weights = torch.softmax((keys * queries[..., None, :]).sum(-1), -1)  # (G, B, n, P)
        return (weights[..., None] * values).sum(-2)


def draw_head(seed: int, d: int, h: int) -> tuple[Tensor, Tensor, Tensor]:
    """AE-E2: W_K (h, d), W_Q (h, d), W_V (d, d), standard normal."""
    generator = torch.Generator().manual_seed(seed + 31)
    return tuple(torch.randn(rows, d, generator=generator) for rows in (h, h, d))  # type: ignore[return-value]


def draw_head_inputs(seed: int, samples: int, n: int, d: int) -> Tensor:
    """AE-E2: (samples, n, d), 2 N(0, 1) - 1."""
    return 2 * torch.randn(samples, n, d, generator=torch.Generator().manual_seed(seed)) - 1


def apply_head(K: Tensor, Q: Tensor, V: Tensor, scale: float) -> Tensor:
    """softmax(scale Q K^T) V with tokens as rows: (..., n, h), (..., n, h), (..., n, d) -> (..., n, d)."""
    return torch.softmax(scale * Q @ K.transpose(-1, -2), -1) @ V


class HeadParts(nn.Module):
    """AE-E2, first stage: a multi-head layer with a linear map before it for each of K, Q and V; all three at once.

    (G, B, n, d) -> (G, B, n, 2h + d).
    """

    def __init__(self, group: Group, d: int, hidden: int) -> None:
        super().__init__()
        self.embeddings = nn.ModuleList(TokenMap(group, d, hidden) for _ in range(3))
        self.layers = nn.ModuleList(MultiHead(group, hidden, hidden, out) for out in (hidden, hidden, d))

    def forward(self, X: Tensor) -> Tensor:
        return torch.cat([layer(embed(X)) for embed, layer in zip(self.embeddings, self.layers, strict=True)], -1)


class LastHead(nn.Module):
    """AE-E2, second stage: one softmax head over the parts that the first stage returns, (G, B, n, 2h + d)."""

    def __init__(self, group: Group, d: int, hidden: int) -> None:
        super().__init__()
        wide = 2 * hidden + d
        self.K, self.Q, self.V = (TokenMap(group, wide, out, bias=False) for out in (hidden, hidden, d))

    def forward(self, parts: Tensor) -> Tensor:
        return apply_head(self.K(parts), self.Q(parts), self.V(parts), 1.0)
