"""A network that runs a rule in a loop is watched: the state must lie in the domain wherever a pass begins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from weightwright.certificates.loops import OnePass
from weightwright.errors import DomainError
from weightwright.network import Loop
from weightwright.network.layers import Floats

if TYPE_CHECKING:
    from weightwright.runtime.module import AttentionNetwork


def passes(net: AttentionNetwork, prompt: Tensor) -> Floats:
    """The states, (passes + 1, ..., n, states): the prompt's, then those that every pass ends with."""
    assert net.certificate is not None
    assert net.certificate.one_pass is not None
    start = net.certificate.one_pass.features
    found = [prompt[..., start:]]
    hook = _end_of_pass(net).register_forward_hook(lambda _, __, X: found.append(X[..., start:]))
    try:
        with torch.no_grad():
            net(prompt)
    finally:
        hook.remove()
    return np.stack([state.double().cpu().numpy() for state in found])


def watch_passes(net: AttentionNetwork, claim: OnePass) -> None:
    """Look at what every pass begins with: DomainError where a state has left the domain."""
    only = net.network.layers[0] if len(net.network.layers) == 1 else None
    if isinstance(only, Loop) and len(only.layers) >= 2:  # no check agrees with a claim about anything else
        look = _Look(net, claim, only.times)
        net.layers[0].register_forward_pre_hook(look.begin)
        cast(nn.ModuleList, net.layers[0].layers)[0].register_forward_pre_hook(look.before_a_pass)


def _end_of_pass(net: AttentionNetwork) -> nn.Module:
    """The map to the inputs of the next pass: the last layer but one of the loop."""
    return cast(nn.ModuleList, net.layers[0].layers)[-2]


class _Look:
    """Hooks that are data and no closures: a copy of the network looks at its own domain, and can be pickled."""

    def __init__(self, net: AttentionNetwork, claim: OnePass, times: int) -> None:
        self.net, self.claim, self.times = net, claim, times
        self.begun = 0  # passes of the last call, for the message alone: calls from several threads count together

    def begin(self, *_: Any) -> None:
        self.begun = 0

    def before_a_pass(self, _: nn.Module, given: tuple[Tensor]) -> None:
        self.begun += 1
        certificate = self.net.certificate
        if self.net.on_domain == "ignore" or certificate is None:
            return
        start, X = self.claim.features, given[0].detach()
        state = self.net.read(X)  # the state that the stream keeps, as it is
        lo, hi = (torch.as_tensor(np.array(end), device=X.device) for end in _ends(certificate.domain, start))
        outside = ~((state >= lo) & (state <= hi))
        if outside.any():
            j = int(outside.flatten(end_dim=-2).any(0).nonzero()[0])
            value = float(state[..., j][outside[..., j]][0])
            said = "proven" if certificate.measured is None else "made"
            raise DomainError(
                f"pass {self.begun} of {self.times} would begin with {self.net.network.inputs[start + j]} ="
                f" {value:.6g}, outside [{float(lo[j]):.6g}, {float(hi[j]):.6g}], which one pass is {said} for; compile"
                " with a wider state box, or take smaller steps"
            )


def _ends(domain: Any, start: int) -> tuple[Floats, Floats]:
    """(states,) each: what lies in the domain on every token."""
    return np.atleast_2d(domain.lo).max(axis=0)[start:], np.atleast_2d(domain.hi).min(axis=0)[start:]
