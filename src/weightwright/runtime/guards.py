"""Guards for networks without a certificate: an argument outside a table's range is an error, not a wrong number.

They are part of the module, not of the stored network: one that was saved and loaded has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from weightwright.errors import DomainError
from weightwright.network import Layer
from weightwright.network.layers import Floats
from weightwright.runtime.prompts import flat

if TYPE_CHECKING:
    from weightwright.runtime.module import AttentionNetwork


@dataclass(frozen=True)
class Guard:
    """The argument q . k of a table lies between lo and hi. query: (width, h), makes q of the stream. key: coordinates
    of k. what: its name. shift: what is added to it in messages. remedy: what to do where it lies outside."""

    what: str
    query: Floats
    key: tuple[int, ...]
    lo: float
    hi: float
    remedy: str
    shift: float = 0.0


def guard(net: AttentionNetwork, guards: Sequence[tuple[Layer, Guard]]) -> None:
    """Look at what goes into these layers at every pass. With on_domain="ignore" nothing is looked at."""
    modules = {id(layer): module for layer, module in flat(net.network.layers, net.layers)}
    for layer, one in guards:
        modules[id(layer)].register_forward_pre_hook(_Watch(net, one))


def guards_of(net: AttentionNetwork) -> list[tuple[Layer, Guard]]:
    """What `guard` was given."""
    return [
        (layer, hook.guard)
        for layer, module in flat(net.network.layers, net.layers)
        for hook in module._forward_pre_hooks.values()
        if isinstance(hook, _Watch)
    ]


class _Watch:
    """A hook that is data and no closure: a copy of the network has its own, and can be pickled."""

    def __init__(self, net: AttentionNetwork, guard: Guard) -> None:
        self.net, self.guard, self.key = net, guard, list(guard.key)
        self.query = torch.tensor(guard.query, dtype=net.dtype)

    def __call__(self, _: nn.Module, arguments: tuple[Any, ...]) -> None:
        if self.net.on_domain == "ignore":
            return
        X: Tensor = arguments[0].detach()
        if self.query.device != X.device:
            self.query = self.query.to(X.device)
        K = X[..., self.key]
        s = ((X @ self.query) * K).sum(-1)  # (B, n)
        size = ((X.abs() @ self.query.abs()) * K.abs()).sum(-1)
        # rounded here and, in another order, in the head: both lie inside
        slack = 2 * (len(self.key) + 4) * torch.finfo(X.dtype).eps * size
        outside = ~((s - slack >= self.guard.lo) & (s + slack <= self.guard.hi))
        if outside.any():
            raise self._error(s, outside)

    def _error(self, s: Tensor, outside: Tensor) -> DomainError:
        shift = self.guard.shift
        token, worst = int(outside.nonzero()[0][-1]), float(s[outside][0]) + shift
        return DomainError(
            f"{self.guard.what} of token {token} became {worst:.6g}, outside [{self.guard.lo + shift:.6g},"
            f" {self.guard.hi + shift:.6g}], which the network was built for; over all tokens it ranges over"
            f" [{float(s.min()) + shift:.6g}, {float(s.max()) + shift:.6g}]: {self.guard.remedy}"
        )
