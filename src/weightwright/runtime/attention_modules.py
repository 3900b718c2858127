"""The torch modules of attention: keys that are not seen are not computed.

Shapes: B batch dimensions, n data tokens, d coordinates, p register keys, h query size, v value size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from weightwright.network import Attention, Head
from weightwright.runtime.kernels.table_kernel import DenseTable
from weightwright.runtime.kernels.window_kernel import attend, attend_densely, decay
from weightwright.runtime.sparse_maps import Picked, numbers, picks
from weightwright.runtime.weights import Setting, Weights, can_be_read, is_hooked, is_transformed, part_of


@dataclass(frozen=True, eq=False)
class Tables:
    """What a head derives from its weights and the registers."""

    K: Tensor  # (p, h): keys of registers
    V: Tensor  # (p, v): their values
    first: float  # anchor, if windowed
    decay: Tensor | None
    pick_keys: Picked | None
    pick_values: Picked | None


@dataclass(frozen=True, eq=False)
class Group:
    """Heads that are computed at once, by the tables that they share; a single one that is called has none."""

    heads: list[nn.Module]
    tables: list[Tables]
    scores: int  # that a token's share takes room for


class AttentionLayer(Weights):
    was: Attention

    def __init__(self, layer: Attention, setting: Setting) -> None:
        super().__init__(layer)
        self.residual = layer.residual
        self.heads = nn.ModuleList(AttentionHead(head, setting) for head in layer.heads)
        self.__dict__["_built"], self.__dict__["_owner"] = list(self.heads), setting.owner
        self.keep(setting.dtype, setting.trainable)

    @property
    def handed(self) -> bool:
        built = self.__dict__["_built"]
        if super().handed or self.__dict__["_owner"].handed_registers or list(self.heads) != built:
            return True
        return any(head._buffers.out or head._parameters for head in built)

    def derive(self) -> list[Group]:
        return _same_table(list(self.heads))

    @property
    def owner_registers(self) -> Tensor:
        """The registers of the network that this is a part of."""
        registers: Tensor = self.__dict__["_owner"].matrix("registers")
        return registers

    @property
    def scores(self) -> int:
        """The scores of a token that are held at a time."""
        return max((group.scores for group in self._kept()), default=1)

    @property
    def alone(self) -> bool:
        """Whether no token looks at another."""
        return all(isinstance(head, AttentionHead) and head.sees.data in ("none", "self") for head in self.heads)

    def parts(self) -> dict[str, Any]:
        heads = (part_of(head, (AttentionHead,), f"head {i}") for i, head in enumerate(self.heads))
        return {"heads": tuple(heads), "residual": self.residual}

    def forward(self, X: Tensor) -> Tensor:
        total = X if self.residual else X.new_zeros(*X.shape[:-1], len(self.was.coordinates))
        for group in self._kept():
            heads = group.heads
            if not group.tables or any(map(is_hooked, heads)):
                for head in heads:
                    total = total + head(X)
            elif heads[0].sees.asks == "first":
                total = total.clone() if total is X else total
                for head, tables in zip(heads, group.tables, strict=True):
                    head.add_to(total, X, tables)
            elif len(heads) == 1:
                total = total + heads[0].run(X, group.tables[0])
            else:
                total = total + _all_at_once(heads, group.tables[0], X)
        return total


def _same_table(heads: list[nn.Module]) -> list[Group]:
    """Together are heads that differ in what they read and write only: the same keys and values on registers, and, if
    they see their own token, the same key there. Not while they are trained: each has gradients of its own."""
    groups: dict[Any, Group] = {}
    for number, head in enumerate(heads):
        if not isinstance(head, AttentionHead) or "forward" in vars(head):  # not ours: it is called
            groups[number] = Group([head], [], 1)
            continue
        tables = head._kept()
        own = head.sees.data == "self" and head.weight("mask") is None and len(tables.K) > 0
        shared = (head.sees.data == "none" and tables.decay is None) or own
        parts = (tables.K, tables.V, *((head.matrix("W_K"),) if own else ()))
        shared = shared and all(can_be_read(part) and not part.requires_grad for part in parts)
        bits = tuple((part.shape, numbers(part).tobytes()) for part in parts) if shared else ()
        group = groups.setdefault((head.sees.data, head.beta, bits) if shared else number, Group([], [], 0))
        group.heads.append(head)
        group.tables.append(tables)
    return [Group(one.heads, one.tables, _scores(one)) for one in groups.values()]


def _scores(group: Group) -> int:
    """One for each register key that is looked at, for every head."""
    if not group.tables:
        return group.scores
    keys = len(group.tables[0].K) if group.tables[0].decay is None else 2 * len(group.tables[0].decay) - 1
    return len(group.heads) * keys


def _all_at_once(heads: list[AttentionHead], tables: Tables, X: Tensor) -> Tensor:
    """The sum of heads with the same table."""
    first = heads[0]
    Q = first.beta * _side_by_side(X, [head.matrix("W_Q") for head in heads])  # (B, n, H, h)
    if first.sees.data == "none":
        mixed = _on_registers(Q, tables.K, tables.V)  # (B, n, H, v)
    else:
        own = Q @ (X @ first.matrix("W_K")).unsqueeze(-1)  # (B, n, H, 1): the token's key is the same for all heads
        weights = torch.softmax(torch.cat([Q @ tables.K.T, own], -1), -1)
        values = _side_by_side(X, [head.matrix("W_V") for head in heads])
        mixed = weights[..., :-1] @ tables.V + weights[..., -1:] * values
    return mixed.flatten(-2) @ torch.cat([head.matrix("W_O") for head in heads])


def _side_by_side(X: Tensor, maps: list[Tensor]) -> Tensor:
    """X times each of the maps: (B, n, maps, columns)."""
    stacked = torch.stack(maps, 1)
    return (X @ stacked.flatten(1)).unflatten(-1, stacked.shape[1:])


class AttentionHead(Weights):
    was: Head

    def __init__(self, head: Head, setting: Setting) -> None:
        super().__init__(head)
        self.beta, self.sees, self.role, self.window = head.beta, head.sees, head.role, head.window
        self.__dict__["_owner"] = setting.owner
        self.keep(setting.dtype, setting.trainable, "W_Q", "W_K", "W_V", "W_O", "mask")

    @property
    def handed(self) -> bool:
        return super().handed or bool(self.__dict__["_owner"].handed_registers)

    def derive(self) -> Tables:
        W_K, W_V = self.matrix("W_K"), self.matrix("W_V")
        start, stop = self.sees.registers
        registers = self.__dict__["_owner"].matrix("registers")
        seen = registers[start:stop] if start < stop else W_K.new_zeros(0, len(W_K))
        K, V = seen @ W_K, seen @ W_V
        windowed = self.window is not None
        return Tables(
            K,
            V,
            float(K[0, 0].detach()) / 2 if windowed else 0.0,
            decay(self.beta, self.window, W_K.dtype).to(W_K.device) if self.window is not None else None,
            *(Picked(W) if self.sees.data == "block" and _picks_all(W) else None for W in (W_K, W_V)),
        )

    def parts(self) -> dict[str, Any]:
        weights = {name: self.array(name) for name in ("W_Q", "W_K", "W_V", "W_O", "mask")}
        return weights | {"beta": float(self.beta), "sees": self.sees, "role": self.role, "window": self.window}

    def forward(self, X: Tensor) -> Tensor:
        return self.run(X, self._kept())

    def run(self, X: Tensor, tables: Tables) -> Tensor:
        W_Q, W_O = self.matrix("W_Q"), self.matrix("W_O")
        if tables.decay is not None:
            t = X @ W_Q[:, 0]  # (B, n): in units of the grid; beta comes later
            if self._parameters:  # where the anchors stand has a gradient too
                return attend_densely(t, tables.V, tables.K[:, 0] / 2, len(tables.decay) - 1, self.beta) @ W_O
            return attend(t, tables.V, tables.decay, tables.first, self.beta) @ W_O
        if self.sees.data == "none":
            return _on_registers(self.beta * (X @ W_Q), tables.K, tables.V) @ W_O
        out = self._on_blocks(X, tables)
        return pad(out, (0, 0, 0, self._block(X) - out.shape[-2])).flatten(-3, -2)  # 0 for tokens that do not ask

    def add_to(self, total: Tensor, X: Tensor, tables: Tables) -> None:
        """Add the answers to the tokens that ask, the first ones of their blocks."""
        size = self._block(X)
        total.unflatten(-2, (total.shape[-2] // size, size))[..., :1, :].add_(self._on_blocks(X, tables))

    def _block(self, X: Tensor) -> int:
        """Keys come in blocks of this size."""
        return {"self": 1, "block": self.sees.block}.get(self.sees.data, X.shape[-2])

    def _on_blocks(self, X: Tensor, tables: Tables) -> Tensor:
        """(B, n/size, size or 1, d): the answers to the tokens that ask."""
        n, size = X.shape[-2], self._block(X)
        blocks = X.unflatten(-2, (n // size, size))  # (B, n/size, size, d)
        asking = blocks[..., :1, :] if self.sees.asks == "first" else blocks
        Q = self.beta * (asking @ self.matrix("W_Q"))  # (B, n/size, size or 1, h)
        K = blocks @ self.matrix("W_K") if tables.pick_keys is None else tables.pick_keys(blocks)
        scores = Q @ K.mT  # (B, n/size, size or 1, size)
        if self.sees.data == "earlier":
            scores = scores.masked_fill(~torch.ones(n, n, dtype=torch.bool, device=X.device).tril(), -torch.inf)
        mask = self.weight("mask")
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf)
        p = len(tables.K)
        if p:
            scores = torch.cat([Q @ tables.K.T, scores], -1)
        weights = torch.softmax(scores, -1)  # (B, n/size, size or 1, p + size)
        V = blocks @ self.matrix("W_V") if tables.pick_values is None else tables.pick_values(blocks)
        mixed = weights[..., p:] @ V if p == 0 else weights[..., :p] @ tables.V + weights[..., p:] @ V
        return mixed @ self.matrix("W_O")


def _picks_all(W: Tensor) -> bool:
    """Whether every column has exactly one entry, so that a product with W picks. Of a parameter every entry counts."""
    if W.requires_grad or not can_be_read(W):
        return False
    entries = numbers(W)
    return picks(entries) and bool(np.any(entries, axis=0).all())


def _on_registers(Q: Tensor, K: Tensor, V: Tensor) -> Tensor:
    """softmax(Q K^T) V, (B, n, v)."""
    if torch.compiler.is_compiling() or is_transformed(Q):  # in one piece
        return torch.softmax(Q @ K.T, -1) @ V
    return DenseTable(K, None, V)(Q.reshape(Q.numel() // K.shape[1], K.shape[1])).reshape(*Q.shape[:-1], V.shape[1])
