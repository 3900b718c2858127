"""Attention layers for many models side by side: every weight has a leading axis of models.

G models stand in groups of one number of heads each: head count by head count, and in each the seeds. All linear maps
of all models are one batched product; only the softmax is done group by group. A model's own random numbers come from
its seed alone, so it is the same model however many are trained beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Group:
    """Which models are trained side by side: a model for every number of heads and every seed."""

    seeds: tuple[int, ...]
    heads: tuple[int, ...] = (1,)

    @property
    def size(self) -> int:
        return len(self.seeds) * len(self.heads)

    def draw_uniform(self, *shape: int, fan_in: int) -> nn.Parameter:
        """(G, *shape): uniform in +-1/sqrt(fan_in), as torch starts its linear layers; equal for all head counts."""
        drawn = torch.stack([self._one(seed, shape) for seed in self.seeds])
        return nn.Parameter((drawn * 2 - 1).repeat(len(self.heads), *[1] * len(shape)) / fan_in**0.5)

    def _one(self, seed: int, shape: Sequence[int]) -> Tensor:
        self.counters[seed] = self.counters.get(seed, 0) + 1
        return torch.rand(*shape, generator=torch.Generator().manual_seed(1_000_003 * seed + self.counters[seed]))

    @property
    def counters(self) -> dict[int, int]:
        """How many weights each seed has drawn: every weight gets a generator of its own."""
        found: dict[int, int] = self.__dict__.setdefault("_counters", {})
        return found

    def repeat(self, x: Tensor) -> Tensor:
        """Data of every seed, (S, ...), for all models, (G, ...): models of one seed see the same data.

        Data that every model has for itself, (G, ...), stay as they are.
        """
        return x if len(x) == self.size else x.repeat(len(self.heads), *[1] * (x.dim() - 1))

    def by_heads(self, values: list[float]) -> list[list[float]]:
        """A number of each model as lists of seeds, one for each number of heads."""
        S = len(self.seeds)
        return [values[k : k + S] for k in range(0, len(values), S)]


class TokenMap(nn.Module):
    """x_i -> x_i W + c for every token i; with biases (G, B, n, d_in) -> (G, B, n, d_out)."""

    def __init__(self, group: Group, d_in: int, d_out: int, bias: bool = True) -> None:
        super().__init__()
        self.W = group.draw_uniform(d_in, d_out, fan_in=d_in)
        self.c = group.draw_uniform(d_out, fan_in=d_in) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        G, B, n, d = x.shape
        y = torch.bmm(x.reshape(G, B * n, d), self.W).view(G, B, n, -1)
        return y if self.c is None else y + self.c[:, None, None]


class SequenceMap(nn.Module):
    """The papers' map A: a map of its own for every token, and p - n empty tokens, which are biases and nothing else.

    (G, B, n, d_in) -> (G, B, p, d_out). per_position False: one map for all tokens, a bias for each.
    """

    def __init__(self, group: Group, n: int, p: int, d_in: int, d_out: int, per_position: bool = True) -> None:
        super().__init__()
        self.p = p
        self.W = group.draw_uniform(n if per_position else 1, d_in, d_out, fan_in=d_in)
        self.c = group.draw_uniform(p, d_out, fan_in=d_in)

    def forward(self, x: Tensor) -> Tensor:
        G, B, n, d = x.shape
        if self.W.shape[1] == 1:
            mapped = torch.bmm(x.reshape(G, B * n, d), self.W[:, 0]).view(G, B, n, -1)
        else:
            mapped = torch.einsum("gbni,gnio->gbno", x, self.W)
        if self.p == n:
            return mapped + self.c[:, None]
        empty = mapped.new_zeros(G, B, self.p - n, mapped.shape[-1])
        return torch.cat([mapped, empty], 2) + self.c[:, None]


class MultiHead(nn.Module):
    """Softmax attention, no residual: (G, B, n, d_in) asks, (G, B, m, d_in) is looked at; (G, B, n, d_out).

    hidden: width of queries, keys and values together; every head has its share.
    scaled: whether scores are divided by the root of the head's size.
    """

    def __init__(self, group: Group, d_in: int, hidden: int, d_out: int, scaled: bool = False) -> None:
        super().__init__()
        for H in group.heads:
            if hidden % H:
                raise ValueError(f"heads must divide the hidden dimension {hidden}, and {H} does not")
        self.group, self.scaled = group, scaled
        self.Q, self.K, self.V = (TokenMap(group, d_in, hidden, bias=False) for _ in range(3))
        self.O = TokenMap(group, hidden, d_out)

    def forward(self, x: Tensor, asking: Tensor | None = None) -> Tensor:
        queries, keys, values = self.Q(x if asking is None else asking), self.K(x), self.V(x)
        mixed = [attend(queries[part], keys[part], values[part], H, self.scaled) for H, part in slices_of(self.group)]
        return self.O(torch.cat(mixed) if len(mixed) > 1 else mixed[0])


class EmbeddedAttention(nn.Module):
    """One multi-head layer after a linear map of every token: (G, B, n, d_in) -> (G, B, n, d_out)."""

    def __init__(self, group: Group, d_in: int, hidden: int, d_out: int, scaled: bool = False) -> None:
        super().__init__()
        self.embed = TokenMap(group, d_in, hidden)
        self.attention = MultiHead(group, hidden, hidden, d_out, scaled)

    def forward(self, x: Tensor) -> Tensor:
        return self.attention(self.embed(x))


class MappedAttention(nn.Module):
    """One layer of attention after the papers' map A: (G, B, n, d_in) -> (G, B, asks, d_out).

    p: tokens of A(X); those beyond n are empty.
    asks: the first tokens, which ask.
    """

    def __init__(
        self, group: Group, n: int, p: int, asks: int, d_in: int, hidden: int, d_out: int, per_position: bool = True
    ) -> None:
        super().__init__()
        self.asks = asks
        self.A = SequenceMap(group, n, p, d_in, hidden, per_position)
        self.attention = MultiHead(group, hidden, hidden, d_out)

    def forward(self, X: Tensor) -> Tensor:
        Z = self.A(X)  # (G, B, p, hidden)
        return self.attention(Z, asking=Z[:, :, : self.asks])


def slices_of(group: Group) -> list[tuple[int, slice]]:
    """The models of each number of heads."""
    S = len(group.seeds)
    return [(H, slice(i * S, (i + 1) * S)) for i, H in enumerate(group.heads)]


def attend(Q: Tensor, K: Tensor, V: Tensor, H: int, scaled: bool) -> Tensor:
    """softmax(Q K^T) V for H heads that share the width: (S, B, n, h), (S, B, m, h), (S, B, m, h) -> (S, B, n, h)."""
    S, B, n, h = Q.shape

    def split(x: Tensor) -> Tensor:
        return x.view(S * B, x.shape[2], H, h // H).transpose(1, 2)  # (S B, H, n, h/H)

    mixed = torch.nn.functional.scaled_dot_product_attention(
        split(Q), split(K), split(V), scale=(h / H) ** -0.5 if scaled else 1.0
    )
    return mixed.transpose(1, 2).reshape(S, B, n, h)
