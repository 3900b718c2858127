"""Prompts whose tokens hold one w and its multiples: the watch on a network whose bound is about them, and examples."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from weightwright.errors import DomainError
from weightwright.papers.claims.shared_keys_claim import SharedKeysClaim
from weightwright.runtime.watch import Running


class MultiplesLook:
    """A hook that is data: refuses prompts whose tokens do not hold one w and its multiples."""

    def __init__(self, net: Running, claim: SharedKeysClaim) -> None:
        self.net, self.claim = net, claim

    def __call__(self, _: nn.Module, arguments: tuple[Any, ...]) -> None:
        if self.net.on_domain == "ignore":
            return
        prompt: Tensor = arguments[0].detach()
        d = self.claim.features
        multiples, w = prompt[..., d : 2 * d], prompt[..., 2 * d :]
        k = torch.arange(prompt.shape[-2], dtype=prompt.dtype, device=prompt.device)[:, None]
        if not bool((w == w[..., :1, :]).all()):
            raise DomainError("the tokens of the prompt hold different w: one w stands in every token")
        wrong = (multiples != k * w).any(dim=-1)
        if bool(wrong.any()):
            token = int(wrong.nonzero()[0][-1])
            raise DomainError(f"token {token} of the prompt does not hold {token} w: `literal_prompt` makes prompts")


def with_multiples(x: Tensor, claim: SharedKeysClaim) -> Tensor:
    """The same prompts with the first token's w in every token, and k w in token k."""
    d = claim.features
    w = x[..., :1, 2 * d :].expand_as(x[..., 2 * d :])
    k = torch.arange(x.shape[-2], dtype=x.dtype)[:, None]
    return torch.cat([x[..., :d], k * w, w], dim=-1)


WATCHES = {SharedKeysClaim: MultiplesLook}
INPUTS = {SharedKeysClaim: with_multiples}
