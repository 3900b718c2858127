"""Attention layers for many models side by side: every weight has a leading axis of models, one for each seed.

A linear map of all models is one batched product. A model's own random numbers come from its seed alone, so it is the
same model however many are trained beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from weightwright.papers.experiments.machinery.study_units import Json


@dataclass(frozen=True)
class Group:
    """Which models are trained side by side: one for every seed."""

    seeds: tuple[int, ...]

    @property
    def size(self) -> int:
        return len(self.seeds)

    def draw_uniform(self, *shape: int, fan_in: int) -> nn.Parameter:
        """(G, *shape): uniform in +-1/sqrt(fan_in), as torch starts its linear layers."""
        drawn = torch.stack([self._one(seed, shape) for seed in self.seeds])
        return nn.Parameter((drawn * 2 - 1) / fan_in**0.5)

    def _one(self, seed: int, shape: Sequence[int]) -> Tensor:
        self.counters[seed] = self.counters.get(seed, 0) + 1
        return torch.rand(*shape, generator=torch.Generator().manual_seed(1_000_003 * seed + self.counters[seed]))

    @property
    def counters(self) -> dict[int, int]:
        """How many weights each seed has drawn: every weight gets a generator of its own."""
        found: dict[int, int] = self.__dict__.setdefault("_counters", {})
        return found


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
    """The papers' linear map A before a layer: (G, B, n, d_in) -> (G, B, p, d_out).

    mixing: "all": a map of the whole sequence, every token of the result is made of all tokens; "own": each token has
    a map of its own, and p - n tokens are biases and nothing else; "one": the same with one map for all tokens.
    """

    def __init__(self, group: Group, n: int, p: int, d_in: int, d_out: int, mixing: str) -> None:
        super().__init__()
        self.p, self.mixing = p, mixing
        if mixing == "all":
            self.W = group.draw_uniform(n * d_in, p * d_out, fan_in=n * d_in)
        else:
            self.W = group.draw_uniform(n if mixing == "own" else 1, d_in, d_out, fan_in=d_in)
        self.c = group.draw_uniform(p, d_out, fan_in=n * d_in if mixing == "all" else d_in)

    def forward(self, x: Tensor) -> Tensor:
        G, B, n, d = x.shape
        if self.mixing == "all":
            return torch.bmm(x.reshape(G, B, n * d), self.W).view(G, B, self.p, -1) + self.c[:, None]
        if self.mixing == "one":
            mapped = torch.bmm(x.reshape(G, B * n, d), self.W[:, 0]).view(G, B, n, -1)
        else:
            mapped = torch.einsum("gbni,gnio->gbno", x, self.W)
        if self.p == n:
            return mapped + self.c[:, None]
        empty = mapped.new_zeros(G, B, self.p - n, mapped.shape[-1])
        return torch.cat([mapped, empty], 2) + self.c[:, None]


class AttentionLayer(nn.Module):
    """Definition 2.1: the sum over the heads of W_V X softmax((W_K X)^T W_Q X) W_O, of p tokens.

    (G, B, p, d_in) -> (G, B, n_out, d_out).

    width: of a head's keys and queries; every head has its own.
    output: "sequence": W_O acts on the sequence and is learned, (p, n_out) for each head; "none": there is no W_O, the
    first n_out tokens ask.
    """

    def __init__(
        self, group: Group, p: int, n_out: int, d_in: int, width: int, d_out: int, heads: int, output: str = "sequence"
    ) -> None:
        super().__init__()
        self.heads, self.n_out = heads, n_out
        self.Q, self.K = (TokenMap(group, d_in, heads * width, bias=False) for _ in range(2))
        self.V = TokenMap(group, d_in, heads * d_out, bias=False)
        self.O = group.draw_uniform(heads, n_out, p, fan_in=p) if output == "sequence" else None

    def forward(self, X: Tensor) -> Tensor:
        queries = self.Q(X if self.O is not None else X[:, :, : self.n_out])
        mixed = attend_each(queries, self.K(X), self.V(X), self.heads)  # (G, B, H, asks, d_out)
        if self.O is None:
            return mixed.sum(2)
        return torch.einsum("ghqp,gbhpo->gbqo", self.O, mixed)


class EmbeddedAttention(nn.Module):
    """A layer after a linear map of every token: (G, B, n, d_in) -> (G, B, n, d_out).

    unit: has n, hidden, H, divided and output, as `MappedAttention` takes them, and skip: whether a linear map of every
        token is added to what the layer returns.
    """

    def __init__(self, group: Group, d_in: int, d_out: int, unit: Json) -> None:
        super().__init__()
        n, hidden, H = unit["n"], unit["hidden"], unit["H"]
        self.embed = TokenMap(group, d_in, hidden)
        width = hidden // H if unit["divided"] else hidden
        self.attention = AttentionLayer(group, n, n, hidden, width, d_out, H, unit["output"])
        self.beside = TokenMap(group, d_in, d_out) if unit["skip"] else None

    def forward(self, x: Tensor) -> Tensor:
        found = self.attention(self.embed(x))
        return found if self.beside is None else found + self.beside(x)


class SpreadAttention(nn.Module):
    """Attention as in the proof of Theorem 3.1: the linear map makes P keys of every token, linear in what is given
    there; what asks is the rest of the token: (G, B, n, given + asking) -> (G, B, n, d_out).

    width: of a head's keys and queries.
    """

    def __init__(self, group: Group, given: int, asking: int, width: int, d_out: int, P: int, heads: int = 1) -> None:
        super().__init__()
        self.given, self.P, self.heads = given, P, heads
        self.Q = TokenMap(group, asking, heads * width)
        self.K = TokenMap(group, given, P * heads * width)
        self.V = TokenMap(group, given, P * heads * d_out)

    def forward(self, Z: Tensor) -> Tensor:
        given, asking = Z[..., : self.given], Z[..., self.given :]
        shape = (*Z.shape[:3], self.P, self.heads, -1)
        queries = self.Q(asking).view(*Z.shape[:3], 1, self.heads, -1)
        keys, values = self.K(given).view(shape), self.V(given).view(shape)
        weights = torch.softmax((keys * queries).sum(-1), 3)  # over the P keys of the token, (G, B, n, P, H)
        return (weights[..., None] * values).sum((3, 4))


class MappedAttention(nn.Module):
    """One layer of attention after the papers' map A: (G, B, n, d_in) -> (G, B, n_out, d_out).

    p: tokens of A(X).
    unit: has hidden (numbers of a token of A(X)), mixing, output, and divided: whether heads share the width.
    """

    def __init__(self, group: Group, n: int, p: int, n_out: int, d_in: int, d_out: int, heads: int, unit: Json) -> None:
        super().__init__()
        hidden = unit["hidden"]
        width = hidden // heads if unit["divided"] else hidden
        self.A = SequenceMap(group, n, p, d_in, hidden, unit["mixing"])
        self.attention = AttentionLayer(group, p, n_out, hidden, width, d_out, heads, unit["output"])

    def forward(self, X: Tensor) -> Tensor:
        return self.attention(self.A(X))


def attend_each(Q: Tensor, K: Tensor, V: Tensor, heads: int) -> Tensor:
    """softmax(Q K^T) V of every head: (G, B, n, H w), (G, B, m, H w), (G, B, m, H d) -> (G, B, H, n, d)."""
    G, B = Q.shape[:2]

    def split(x: Tensor) -> Tensor:
        return x.reshape(G * B, x.shape[2], heads, -1).transpose(1, 2)

    mixed = torch.nn.functional.scaled_dot_product_attention(split(Q), split(K), split(V), scale=1.0)
    return mixed.view(G, B, heads, mixed.shape[2], mixed.shape[3])
