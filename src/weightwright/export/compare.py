"""How far an export is from the module: both are run on the same inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from weightwright.claims.program_claim import InterpreterClaim
from weightwright.claims.prompt import LoopClaim, PromptClaim
from weightwright.errors import DomainError
from weightwright.extensions import registry
from weightwright.numbers import Floats, rounded
from weightwright.runtime import AttentionNetwork
from weightwright.runtime.module import DTYPES

Run = Callable[[Tensor], Tensor]

#: Batch shape and number of data tokens of the inputs; a network with a fixed number of tokens keeps it.
_SHAPES: tuple[tuple[tuple[int, ...], int], ...] = (((), 1), ((2, 2), 3), ((1,), 64))
_MOST = 64
#: Number of times that prompts are halved on which an algorithm diverges.
_HALVINGS = 64


def difference(net: AttentionNetwork, run: Run, most: int = _MOST) -> float:
    """The largest absolute difference between the module and `run`, which takes and returns tensors as it does and has
    room for `most` tokens."""
    device = net.device
    with _unwatched(net):
        return largest(lambda x: net(x.to(device)).cpu(), run, samples(net, most))


@contextmanager
def _unwatched(net: AttentionNetwork) -> Iterator[None]:
    """Random examples may lie in a dead zone, or lead a rule's state out of its box: nothing is proven there, but both
    still compute the same."""
    usual, said = net.on_domain, net.certificate
    zones = said is not None and (said.dead_zones or (said.composite is not None and said.composite.zones))
    if zones or (said is not None and isinstance(said.against, LoopClaim)):
        net.on_domain = "ignore"
    try:
        yield
    finally:
        net.on_domain = usual


def largest(one: Run, other: Run, inputs: Iterator[Tensor]) -> float:
    """The largest |one(x) - other(x)|; NaN if any is NaN."""
    gaps = []
    with torch.no_grad():
        for x in inputs:
            a, b = one(x).double(), other(x).double()
            assert a.shape == b.shape, f"{tuple(x.shape)} became {tuple(a.shape)} and {tuple(b.shape)}"
            gaps.append((a - b).abs().max())
    return float(torch.stack(gaps).max())


def samples(net: AttentionNetwork, most: int = _MOST) -> Iterator[Tensor]:
    """Uniform in the certificate's domain, or standard normals where there is none, of at most `most` tokens;
    the same on every call."""
    rng = np.random.default_rng(0)
    for batch, tokens in _SHAPES:
        x = _draw(net, rng, (*batch, net.network.tokens or min(tokens, most), len(net.network.inputs)))
        yield _admitted(net, torch.tensor(x, dtype=DTYPES[net.network.dtype]))


def _admitted(net: AttentionNetwork, x: Tensor) -> Tensor:
    """Nearer to the middle of the domain, until an algorithm or program in x stays where its network was built for."""
    said = net.certificate
    claim = None if said is None else said.claim
    if isinstance(claim, InterpreterClaim):
        return _programs(x, claim)
    if type(claim) in (kinds := registry("inputs")):
        found: Tensor = kinds[type(claim)](x, claim)
        return found
    if said is None or not isinstance(claim, PromptClaim):
        return x
    middle = torch.tensor(said.domain.lo / 2 + said.domain.hi / 2).to(x.dtype)
    for _ in range(_HALVINGS):
        try:
            net(x.to(net.device))
        except DomainError:
            x = (x + middle) / 2
        else:
            return x
    return x


def _programs(x: Tensor, claim: InterpreterClaim) -> Tensor:
    """Weights and data that stay within the bounds whatever their signs; every token asks with a code of its own, or
    with the last, and nothing is hidden."""
    g, times, products = claim.codes, max(claim.times, 1), claim.features * claim.x_max * claim.w_max
    least = min(table.claim.hi for table in claim.tables)
    x = x * min(1.0, (0.5 * least / products) ** 0.5 / times)
    first = x.shape[-1] - (1 + times) * g
    x[..., first:] = 0.0
    x[..., first : first + g] = torch.eye(g, dtype=x.dtype)[torch.arange(claim.tokens).clamp(max=g - 1)]
    return x


def _draw(net: AttentionNetwork, rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    dtype = net.network.dtype
    if net.certificate is None:
        return rounded(rng.normal(size=shape), dtype)
    lo, hi = net.certificate.domain.lo, net.certificate.domain.hi
    x = rounded(rng.uniform(lo, hi, shape), dtype)
    middle = rounded(lo / 2 + hi / 2, dtype)
    return np.where((lo <= x) & (x <= hi), x, middle)  # rounding may have left the domain
