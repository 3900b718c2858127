"""A Hopfield memory as torch's own attention: torch.nn.MultiheadAttention with fixed weights."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import pad


class HopfieldAttention(nn.Module):
    """query (..., n, dim) -> (..., n, size of a value), one update: `attention` holds the weights, `keys` and `values`
    are what it attends to.

    torch divides scores by sqrt(E), E the size of an embedding: the map of the queries is beta sqrt(E) times the
    identity, all others are the identity. Where patterns and values differ in size the shorter are filled up with 0.
    """

    keys: Tensor
    values: Tensor

    def __init__(self, patterns: Tensor, values: Tensor, beta: float) -> None:
        super().__init__()
        self.dim, self.size = patterns.shape[1], values.shape[1]
        E = max(self.dim, self.size)
        self.register_buffer("keys", pad(patterns, (0, E - self.dim)))
        self.register_buffer("values", pad(values, (0, E - self.size)))
        made = nn.MultiheadAttention(E, 1, bias=False, batch_first=True, dtype=patterns.dtype, device=patterns.device)
        identity = torch.eye(E, dtype=patterns.dtype, device=patterns.device)
        with torch.no_grad():
            made.in_proj_weight.copy_(torch.cat([beta * math.sqrt(E) * identity, identity, identity]))
            made.out_proj.weight.copy_(identity)
        self.attention = made.requires_grad_(False)

    def forward(self, query: Tensor) -> Tensor:
        if query.ndim < 2 or query.shape[-1] != self.dim:
            raise ValueError(f"query must have shape (..., n, {self.dim}), not {tuple(query.shape)}")
        rows = pad(query, (0, self.keys.shape[1] - self.dim)).reshape(-1, self.keys.shape[1])
        mixed, _ = self.attention(rows, self.keys, self.values, need_weights=False)
        return mixed[:, : self.size].reshape(*query.shape[:-1], self.size)
