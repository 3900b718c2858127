"""Networks are watched while they run where a certificate leans on more than its domain: which watch goes with which
claim; the one for interpreters, whose bound is about programs whose products stay within their bounds; and the one for
loops in which every token has a state of its own.
"""

from __future__ import annotations

from functools import cache
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from weightwright.claims.certificate import Claim
from weightwright.claims.program_claim import InterpreterClaim
from weightwright.claims.prompt import LoopClaim, PromptClaim
from weightwright.errors import DomainError
from weightwright.extensions import registry
from weightwright.runtime.layer_modules import LoopLayer
from weightwright.runtime.watch import Running, is_ours, watch, watch_passes

_PARTS = ("K", "Q", "V")


def watch_claim(net: Running, claim: Claim | None) -> None:
    """Put the watch of its claim on a network."""
    match claim:
        case PromptClaim():
            watch(net, claim)
        case LoopClaim() if claim.own or claim.beginning is not None:
            look = EnteringLook(net, claim)
            for place in _embeddings(net, claim):
                place.register_forward_pre_hook(look)
        case LoopClaim():
            watch_passes(net, claim)
        case InterpreterClaim():
            # in a loop every pass is looked at, where it begins
            looped = claim.times and isinstance(net.layers[0], LoopLayer)
            place = cast(nn.ModuleList, net.layers[0].layers)[0] if looped else net.embed
            place.register_forward_pre_hook(ProgramLook(net, claim))
        case _ if type(claim) in _added_watches():
            net.embed.register_forward_pre_hook(_added_watches()[type(claim)](net, claim))
        case _ if claim is not None and claim.watched:
            raise RuntimeError(f"nothing watches what a {type(claim).__name__} leans on: {claim.watched[0]}")


def is_watch(hook: object) -> bool:
    """Whether a hook is one of those that watch, which change nothing."""
    return is_ours(hook) or type(hook) in (ProgramLook, EnteringLook, *_added_watches().values())


@cache
def _added_watches() -> dict[type, Any]:
    """By kind of claim, what extensions register under "watches": a class of hooks that look at the input."""
    return registry("watches")


def _embeddings(net: Running, claim: LoopClaim) -> list[nn.Module]:
    """The maps that features and states go into as a pass begins: before the loop, and at its end."""
    loop = net.layers[-1] if len(net.layers) else None
    if not isinstance(loop, LoopLayer) or not len(loop.layers) or (claim.beginning and len(net.layers) < 2):
        return []  # no check agrees with a claim about anything else
    return [net.layers[-2] if claim.beginning else net.embed, loop.layers[-1]]


class EnteringLook:
    """A hook that is data and no closure: refuses features and states that one pass is not proven for."""

    def __init__(self, net: Running, claim: LoopClaim) -> None:
        self.net, self.claim = net, claim

    def __call__(self, _: nn.Module, arguments: tuple[Any, ...]) -> None:
        said, given = self.net.said, arguments[0].detach()
        if self.net.on_domain == "ignore" or said is None:
            return
        box = said.domain if self.claim.beginning is None else self.claim.beginning.domain
        lo, hi = (torch.as_tensor(np.array(end), device=given.device) for end in (box.lo, box.hi))
        outside = ~((given >= lo) & (given <= hi))
        if outside.any():
            *_, token, place = outside.nonzero()[0].tolist()
            names = self.net.network.layers[-1].layers[-2].coordinates  # type: ignore[union-attr]
            value, ends = (
                float(given[outside][0]),
                [float(end.expand(given.shape[-2:])[token, place]) for end in (lo, hi)],
            )
            raise DomainError(
                f"{names[place]} of token {token} became {value:.6g}, outside [{ends[0]:.6g}, {ends[1]:.6g}], which one"
                " pass is proven for; build the network for larger ranges, take smaller steps, or scale the data"
            )


class ProgramLook:
    """A hook that is data and no closure: refuses prompts that a bound says nothing about."""

    def __init__(self, net: Running, claim: InterpreterClaim) -> None:
        self.net, self.claim = net, claim

    def __call__(self, _: nn.Module, arguments: tuple[Any, ...]) -> None:
        if self.net.on_domain == "ignore":
            return
        prompt: Tensor = arguments[0].detach()
        x = prompt[..., : self.claim.features]
        if not bool((x.abs() <= self.claim.x_max).all()):
            raise DomainError(
                f"an entry of x became {float(x.abs().max()):.6g} in size, above x_max={self.claim.x_max:g}, which the"
                " interpreter was built for"
            )
        for part, W in zip(_PARTS, weights_of(prompt, self.claim), strict=True):
            self._products(prompt[..., : self.claim.features], W, part)
        self._codes(prompt)

    def _products(self, x: Tensor, W: Tensor, part: str) -> None:
        """Refused unless all W x surely lie inside, their rounding here counted."""
        bound = self.claim.tables[_PARTS.index(part)].claim.hi
        x, W = x.double(), W.double()
        found, size = (torch.einsum("...nd,...mrd->...nmr", *pair).abs() for pair in ((x, W), (x.abs(), W.abs())))
        if not bool((found + (x.shape[-1] + 4) * 2.0**-52 * size <= bound).all()):
            token = int((~(found <= bound)).nonzero()[0][-3]) if bool((~(found <= bound)).any()) else 0
            raise DomainError(
                f"an entry of W_{part} x is {float(found.max()):.6g} (token {token} of the prompt), above"
                f" {part.lower()}_max={bound:g}, which the interpreter was built for; scale the program or the data"
            )

    def _codes(self, prompt: Tensor) -> None:
        g = self.claim.codes
        first = prompt.shape[-1] - (1 + max(self.claim.times, 1)) * g
        asks, hides = prompt[..., first : first + g], prompt[..., first + g : first + 2 * g]
        proper = ((asks == 0) | (asks == 1)).all() and ((hides == 0) | (hides == -self.claim.hidden)).all()
        hidden = asks.double() @ (hides != 0).double().mT  # how often one token is hidden from another
        if not bool(proper and (hidden <= 1).all() and (hidden == 0).any(-1).all()):
            raise DomainError("the codes of a prompt do not say who sees whom: `Interpreter.prompt` makes them")


def weights_of(prompt: Tensor, claim: InterpreterClaim) -> list[Tensor]:
    """W_K, W_Q, W_V as they stand in a prompt, (..., heads, rows, features) each."""
    d, m = claim.features, claim.heads
    found, first = [], d
    for rows in (claim.head_dim, claim.head_dim, d):
        size = m * d if claim.stacked else m * rows * d
        if claim.stacked:
            held = prompt[..., :rows, first : first + size].unflatten(-1, (m, d))  # (..., rows, heads, features)
            found.append(held.transpose(-3, -2))
        else:
            found.append(prompt[..., 0, first : first + size].unflatten(-1, (m, rows, d)))
        first += size
    return found
