"""The torch modules of the kinds of layer: keys that are not seen are not computed.

Shapes: B batch dimensions, n data tokens, d coordinates, p register keys, h query size, v value size.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import pad, scaled_dot_product_attention

from weightwright.network import Attention, FeedForward, Head, Layer, Linear, Loop, Network, Softmax, Term
from weightwright.runtime.sparse_maps import OnTokens, Picked, SparseMap, picks
from weightwright.runtime.weights import DTYPES, Weights
from weightwright.runtime.window_kernel import attend, decay

#: Keys with which torch's fused attention is quicker than softmax and two products; it takes 512 in one block.
_FUSED = (48, 512)


def build_layer(layer: Layer, network: Network) -> nn.Module:
    if isinstance(layer, Linear):
        sparse = layer.moves_tokens and all(term.S is None for term in layer.terms)
        return SparseMap(layer, network.dtype) if sparse else LinearMap(layer, network.dtype)
    if isinstance(layer, Attention):
        return AttentionLayer(layer, network)
    if isinstance(layer, FeedForward):
        return FeedForwardLayer(layer, network.dtype)
    if isinstance(layer, Softmax):
        return SoftmaxLayer(layer)
    return LoopLayer(layer, network)


class LinearMap(Weights):
    C: Tensor

    def __init__(self, linear: Linear, dtype: str) -> None:
        super().__init__()
        self.terms = nn.ModuleList(LinearTerm(term, dtype) for term in linear.terms)
        self.keep(dtype, C=linear.C)

    def forward(self, X: Tensor) -> Tensor:
        total = self.C
        for term in self.terms:
            total = total + term(X)
        return total if self.terms else total.expand(*X.shape[:-1], -1)


class LinearTerm(Weights):
    A: Tensor
    S: Tensor | None

    def __init__(self, term: Term, dtype: str) -> None:
        super().__init__()
        self.keep(dtype, A=term.A, S=term.S)
        self.moved = None if term.tokens is None else OnTokens(term.tokens, dtype)

    def forward(self, X: Tensor) -> Tensor:
        Y = (X if self.S is None else self.S * X) @ self.A
        return Y if self.moved is None else self.moved(Y)


class AttentionLayer(nn.Module):
    def __init__(self, layer: Attention, network: Network) -> None:
        super().__init__()
        self.residual = layer.residual
        self.width = len(layer.coordinates)
        self.heads = nn.ModuleList(AttentionHead(head, network) for head in layer.heads)
        self.together = _same_table(list(self.heads))  # type: ignore[arg-type]
        self.scores = max((len(same) * _keys_at_once(layer.heads[same[0]]) for same in self.together), default=1)

    def forward(self, X: Tensor) -> Tensor:
        total = X if self.residual else X.new_zeros(*X.shape[:-1], self.width)
        for numbers in self.together:
            heads = [cast(AttentionHead, self.heads[number]) for number in numbers]
            hooked = any(head._forward_hooks or head._forward_pre_hooks for head in heads)
            if heads[0].sees.asks == "first" and not hooked:
                total = total.clone() if total is X else total
                for head in heads:
                    head.add_to(total, X)
            elif len(heads) == 1 or hooked:
                for head in heads:
                    total = total + head(X)
            else:
                total = total + _all_at_once(heads, X)
        return total


def _same_table(heads: list[AttentionHead]) -> list[list[int]]:
    """The numbers of heads that differ in what they read and write only: the same keys and values on registers, and, if
    they see their own token, the same key there."""
    groups: dict[Any, list[int]] = {}
    for number, head in enumerate(heads):
        own = head.sees.data == "self" and head.mask is None and len(head.K_registers) > 0
        shared = (head.sees.data == "none" and head.decay is None) or own
        parts = (head.K_registers, head.V_registers, *((head.W_K,) if own else ()))
        table = tuple((tuple(part.shape), part.double().cpu().numpy().tobytes()) for part in parts)
        groups.setdefault((head.sees.data, head.beta, table) if shared else number, []).append(number)
    return list(groups.values())


def _all_at_once(heads: list[AttentionHead], X: Tensor) -> Tensor:
    """The sum of heads with the same table."""
    first = heads[0]
    Q = first.beta * _side_by_side(X, [head.W_Q for head in heads])  # (B, n, H, h)
    if first.sees.data == "none":
        mixed = first._on_registers(Q)  # (B, n, H, v)
    else:
        own = Q @ (X @ first.W_K).unsqueeze(-1)  # (B, n, H, 1): the token's key is the same for all heads
        weights = torch.softmax(torch.cat([Q @ first.K_registers.T, own], -1), -1)
        values = _side_by_side(X, [head.W_V for head in heads])
        mixed = weights[..., :-1] @ first.V_registers + weights[..., -1:] * values
    return mixed.flatten(-2) @ torch.cat([head.W_O for head in heads])


def _side_by_side(X: Tensor, maps: list[Tensor]) -> Tensor:
    """X times each of the maps: (B, n, maps, columns)."""
    stacked = torch.stack(maps, 1)
    return (X @ stacked.flatten(1)).unflatten(-1, stacked.shape[1:])


def _keys_at_once(head: Head) -> int:
    """The register keys that a token's scores are computed for."""
    return head.sees.registers[1] - head.sees.registers[0] if head.window is None else 2 * head.window + 1


class AttentionHead(Weights):
    W_Q: Tensor
    W_K: Tensor
    W_V: Tensor
    W_O: Tensor
    K_registers: Tensor
    V_registers: Tensor
    decay: Tensor | None
    mask: Tensor | None

    def __init__(self, head: Head, network: Network) -> None:
        super().__init__()
        self.beta, self.sees, self.role = head.beta, head.sees, head.role
        self.keep(network.dtype, W_Q=head.W_Q, W_K=head.W_K, W_V=head.W_V, W_O=head.W_O)
        start, stop = head.sees.registers
        rows = network.registers[start:stop] if start < stop else np.zeros((0, len(head.W_K)))
        seen = torch.tensor(rows, dtype=DTYPES[network.dtype])
        self.constant("K_registers", seen @ self.W_K)  # (p, h): computed once
        self.constant("V_registers", seen @ self.W_V)  # (p, v)
        self.first = float(self.K_registers[0, 0]) / 2 if head.window is not None else 0.0  # anchor, if windowed
        self.constant("decay", None if head.window is None else decay(head.beta, head.window, DTYPES[network.dtype]))
        self.constant("mask", None if head.mask is None else torch.tensor(head.mask))
        self.pick_keys, self.pick_values = (
            Picked(W, network.dtype) if head.sees.data == "block" and picks(W) and W.any(axis=0).all() else None
            for W in (head.W_K, head.W_V)
        )

    def forward(self, X: Tensor) -> Tensor:
        if self.decay is not None:
            t = X @ self.W_Q[:, 0]  # (B, n): in units of the grid; beta comes later
            return attend(t, self.V_registers, self.decay, self.first, self.beta) @ self.W_O
        if self.sees.data == "none":
            return self._on_registers(self.beta * (X @ self.W_Q)) @ self.W_O
        out = self._on_blocks(X)
        return pad(out, (0, 0, 0, self._block(X) - out.shape[-2])).flatten(-3, -2)  # 0 for tokens that do not ask

    def add_to(self, total: Tensor, X: Tensor) -> None:
        """Add the answers to the tokens that ask, the first ones of their blocks."""
        size = self._block(X)
        total.unflatten(-2, (total.shape[-2] // size, size))[..., :1, :].add_(self._on_blocks(X))

    def _block(self, X: Tensor) -> int:
        """Keys come in blocks of this size."""
        return {"self": 1, "block": self.sees.block}.get(self.sees.data, X.shape[-2])

    def _on_blocks(self, X: Tensor) -> Tensor:
        """(B, n/size, size or 1, d): the answers to the tokens that ask."""
        n, size = X.shape[-2], self._block(X)
        blocks = X.unflatten(-2, (n // size, size))  # (B, n/size, size, d)
        asking = blocks[..., :1, :] if self.sees.asks == "first" else blocks
        Q = self.beta * (asking @ self.W_Q)  # (B, n/size, size or 1, h)
        K = blocks @ self.W_K if self.pick_keys is None else self.pick_keys(blocks)
        scores = Q @ K.mT  # (B, n/size, size or 1, size)
        if self.sees.data == "earlier":
            scores = scores.masked_fill(~torch.ones(n, n, dtype=torch.bool, device=X.device).tril(), -torch.inf)
        if self.mask is not None:
            scores = scores.masked_fill(~self.mask, -torch.inf)
        p = len(self.K_registers)
        if p:
            scores = torch.cat([Q @ self.K_registers.T, scores], -1)
        weights = torch.softmax(scores, -1)  # (B, n/size, size or 1, p + size)
        V = blocks @ self.W_V if self.pick_values is None else self.pick_values(blocks)
        mixed = weights[..., p:] @ V if p == 0 else weights[..., :p] @ self.V_registers + weights[..., p:] @ V
        return mixed @ self.W_O

    def _on_registers(self, Q: Tensor) -> Tensor:
        """softmax(Q K^T) V, (B, n, v); through torch's fused attention where that is quicker and the rounding model
        covers it: on a CPU, without a gradient, and with keys that fit in one block."""
        K, V = self.K_registers, self.V_registers
        gradient = torch.is_grad_enabled() and Q.requires_grad
        fits = Q.device.type == "cpu" and Q.dtype in (torch.float32, torch.float64) and not gradient
        if not (fits and _FUSED[0] <= len(K) <= _FUSED[1] and Q.numel()):
            return torch.softmax(Q @ K.T, -1) @ V
        h, v = K.shape[1], V.shape[1]
        rows, keys = (pad(part, (0, max(v - h, 0))) for part in (Q.reshape(-1, h), K))
        values = pad(V, (0, max(h - v, 0)))
        with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]):
            mixed = scaled_dot_product_attention(rows[None, None], keys[None, None], values[None, None], scale=1.0)
        return mixed[0, 0, :, :v].reshape(*Q.shape[:-1], v)


class FeedForwardLayer(Weights):
    W_1: Tensor
    b_1: Tensor
    W_2: Tensor
    b_2: Tensor

    def __init__(self, layer: FeedForward, dtype: str) -> None:
        super().__init__()
        self.residual = layer.residual
        self.keep(dtype, W_1=layer.W_1, b_1=layer.b_1, W_2=layer.W_2, b_2=layer.b_2)

    def forward(self, X: Tensor) -> Tensor:
        out = torch.relu(X @ self.W_1 + self.b_1) @ self.W_2 + self.b_2
        return X + out if self.residual else out


class SoftmaxLayer(nn.Module):
    def __init__(self, layer: Softmax) -> None:
        super().__init__()
        self.beta, self.dim = layer.beta, -1 if layer.over == "features" else -2

    def forward(self, X: Tensor) -> Tensor:
        return torch.softmax(self.beta * X, self.dim)


class LoopLayer(nn.Module):
    def __init__(self, loop: Loop, network: Network) -> None:
        super().__init__()
        self.times = loop.times
        self.layers = nn.ModuleList(build_layer(layer, network) for layer in loop.layers)

    def forward(self, X: Tensor) -> Tensor:
        for _ in range(self.times):
            for layer in self.layers:
                X = layer(X)
        return X
