"""Which predictions of a network are proven to be those of what it computes: the bound against the margin; and which
inputs are in a dead zone, where nothing is proven."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from weightwright.adversary.sequences import excepted
from weightwright.claims.graph import Graph
from weightwright.errors import DomainError
from weightwright.numbers import counted
from weightwright.runtime import AttentionNetwork
from weightwright.runtime.standing import is_unwatched

#: A margin is a difference of two floats, computed in float64: it is at least this share of what it looks like.
_SURELY = 1 - 2.0**-50


def certified_predictions(net: AttentionNetwork, x: Tensor) -> Tensor:
    """(..., tokens), truth values; see `AttentionNetwork.certifies`."""
    with torch.no_grad():
        y = net.run_anywhere(x).double()
    bound = _bound_of_one_input(net)
    if y.shape[-1] == 1:
        surely = y[..., 0].abs() > bound
    else:
        first, second = y.topk(2, dim=-1).values.unbind(-1)
        surely = (first - second) * _SURELY > 2 * bound
    return surely & _claimed(net, x, surely.shape)


def _bound_of_one_input(net: AttentionNetwork) -> float:
    """Infinite where nothing is said of every output: of one pass of several, of stored labels, of a norm; and where
    nobody watches what the claim takes for granted."""
    said = net.certificate
    if said is None or said.status not in ("PROVEN", "CONDITIONAL") or said.subject != "output":
        return math.inf
    return math.inf if is_unwatched(net, said) else said.bound


def _claimed(net: AttentionNetwork, x: Tensor, shape: torch.Size) -> Tensor:
    """Where the certificate says anything: inside the domain, outside the dead zones."""
    said = net.certificate
    if said is None:
        return torch.zeros(shape, dtype=torch.bool, device=x.device)
    lo, hi = (torch.as_tensor(end.copy(), device=x.device) for end in (said.domain.lo, said.domain.hi))
    inside = ((x.double() >= lo) & (x.double() <= hi)).all(-1)  # (..., tokens)
    for start, end in said.dead_zones:
        inside &= ~((x[..., 0].double() > start) & (x[..., 0].double() < end))
    if not net.network.one_token_at_a_time:  # one token outside spoils all
        inside = inside.all(-1, keepdim=True)
    return (inside & ~with_dead_arguments(net, x)).expand(shape)


def with_dead_arguments(net: AttentionNetwork, x: Tensor) -> Tensor:
    """Whether the argument of a function that jumps is in its dead zone: (..., tokens) for networks that take one token
    at a time, (..., 1) for all others."""
    said = net.said
    target = None if said is None or said.composite is None else said.composite.target
    alone = isinstance(target, Graph) and target.tokens is None
    tokens = 1 if alone else max(x.shape[-2], 1)  # of which one in a dead zone spoils all
    out = torch.tensor(excepted(net, x.reshape(-1, tokens, x.shape[-1])), dtype=torch.bool, device=x.device)
    return out.reshape(*x.shape[:-2], x.shape[-2] // tokens)


def refuse_dead_arguments(net: AttentionNetwork, x: Tensor) -> None:
    """DomainError where the argument of a function that jumps is in its dead zone."""
    composite = None if net.said is None else net.said.composite
    zones = ", ".join(f"{lo!r} to {hi!r}" for lo, hi in (() if composite is None else composite.zones))
    dead = with_dead_arguments(net, x)
    if bool(dead.any()):
        *sequence, token = (int(i) for i in dead.nonzero()[0])
        first = sequence if dead.shape[-1] == 1 else [*sequence, token]
        raise DomainError(
            f"x[{', '.join(map(str, first))}] brings an argument into a dead zone ({zones}), where nothing is claimed"
            f" ({counted(int(dead.sum()), 'such input')}); on_domain='ignore' lets it pass"
        )
