"""The torch module that runs any Network: batched, on CPU or CUDA, computing only the keys that are seen.

Shapes: B batch dimensions, n data tokens, d coordinates, p register keys, h query size, v value size.
"""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any, Literal, Unpack

import numpy as np
import torch
from torch import Tensor, nn

from weightwright.claims.cell_grid import GridClaim
from weightwright.claims.certificate import Certificate, bound_in_words, round_up
from weightwright.claims.files import read, write
from weightwright.claims.prompt import LoopClaim, PromptClaim
from weightwright.errors import MalformedCertificateError
from weightwright.limits import LimitOptions, Limits, limited
from weightwright.network import Cost, Network, cost
from weightwright.runtime.admission import inward, outside_of, refuse_reduced_precision
from weightwright.runtime.layer_modules import AttentionLayer, LinearMap, build_layer
from weightwright.runtime.watch import watch, watch_passes
from weightwright.runtime.weights import DTYPES as DTYPES

if TYPE_CHECKING:
    from weightwright.export.lens import Export

OnDomain = Literal["raise", "clamp", "ignore"]

#: Scores held in memory at a time when tokens do not look at each other: 32 MB in float64.
_SCORES_AT_ONCE = 2**22


class AttentionNetwork(nn.Module):
    """A network that runs. `net(x)` takes (..., tokens, features) and returns (..., tokens, outputs).

    on_domain says what happens to inputs outside the certificate's domain: "raise" (DomainError),
    "clamp" (to the nearest point of the domain) or "ignore" (the bound does not hold there).
    """

    def __init__(self, network: Network, certificate: Certificate | None = None, on_domain: OnDomain = "raise") -> None:
        super().__init__()
        if on_domain not in ("raise", "clamp", "ignore"):
            raise ValueError(f"on_domain must be 'raise', 'clamp' or 'ignore', not {on_domain!r}")
        self.network = network
        self.certificate = certificate
        self.on_domain = on_domain
        self.about: Any = None  # what a construction says of itself
        self.embed = LinearMap(network.embed, network.dtype)
        self.layers = nn.ModuleList(build_layer(layer, network) for layer in network.layers)
        self.read = LinearMap(network.read, network.dtype)
        if certificate is not None and _runs_passes(certificate):
            if on_domain == "clamp":
                raise ValueError("on_domain='clamp': an algorithm's states cannot be clamped; 'raise' or 'ignore'")
            if isinstance(certificate.against, PromptClaim):
                watch(self, certificate.against)
            elif isinstance(certificate.against, LoopClaim):
                watch_passes(self, certificate.against)

    @property
    def dtype(self) -> torch.dtype:
        """What the network runs in."""
        return DTYPES[self.network.dtype]

    @property
    def cost(self) -> Cost:
        """Counts of what is stored and computed; work for one token, or for the number of tokens that is fixed.

        >>> import weightwright as ww
        >>> net = ww.approximate("sin(5*x)", domain=(-1, 1), tol=1e-6)
        >>> net.cost.heads, net.cost.anchors == len(net.network.registers)
        (1, True)
        """
        return cost(self.network)

    def forward(self, x: Tensor) -> Tensor:
        x = self._admitted(x)
        if not self.network.one_token_at_a_time:
            return self._run(x)
        rows = x.reshape(-1, x.shape[-1])  # tokens do not look at each other: any split will do
        widest = max((layer.scores for layer in self.modules() if isinstance(layer, AttentionLayer)), default=1)
        parts = rows.split(max(1, _SCORES_AT_ONCE // max(widest, 1)))
        out = torch.cat([self._run(part) for part in parts])
        return out.reshape(*x.shape[:-1], len(self.network.outputs))

    def _run(self, x: Tensor) -> Tensor:
        X = self.embed(x)  # (B, n, d)
        for layer in self.layers:
            X = layer(X)
        return self.read(X)  # (B, n, outputs)

    def _admitted(self, x: Tensor) -> Tensor:
        """The input in the network's dtype and inside the domain, or an error that says what is wrong."""
        features, dtype = len(self.network.inputs), self.dtype
        if not isinstance(x, Tensor):
            raise TypeError(f"x must be a torch tensor, not {type(x).__name__}")
        if x.ndim < 2 or x.shape[-1] != features:
            raise ValueError(f"x must have shape (..., tokens, {features}), not {tuple(x.shape)}")
        if self.network.tokens is not None and x.shape[-2] != self.network.tokens:
            raise ValueError(f"x must have {self.network.tokens} tokens, not {x.shape[-2]}")
        if x.is_complex() or x.dtype == torch.bool or torch.promote_types(x.dtype, dtype) != dtype:
            raise TypeError(f"x is {x.dtype}, which {dtype} does not hold exactly; cast it yourself")
        given, x = x, x.to(dtype)
        if not given.is_floating_point() and not torch.equal(x.to(given.dtype), given):
            raise TypeError(f"x holds whole numbers that {dtype} does not hold exactly; cast it yourself")
        if self.certificate is not None:
            refuse_reduced_precision(x)
        if self.certificate is None or self.on_domain == "ignore":
            return x
        lo, hi = (
            torch.as_tensor(np.array(end), device=x.device)
            for end in (self.certificate.domain.lo, self.certificate.domain.hi)
        )
        if self.on_domain == "clamp" and not x.isnan().any():
            return x.clamp(inward(lo, dtype, math.inf), inward(hi, dtype, -math.inf))
        outside = ~((x >= lo) & (x <= hi))
        if outside.any():
            raise outside_of(x, outside, lo, hi, self.network.inputs, not _runs_passes(self.certificate))
        return x

    def save(self, path: str | os.PathLike[str]) -> None:
        """Weights, structure and certificate in one safetensors file."""
        write(path, self.network, self.certificate)

    def to_onnx(self, path: str | os.PathLike[str]) -> float:
        """Write an ONNX file; returns its largest difference from this module on random inputs."""
        from weightwright.export.onnx import to_onnx  # needs weightwright[onnx]

        return to_onnx(self, path)

    def to_transformer_lens(self, tokens: int = 1024) -> Export:
        """A TransformerLens model with room for `tokens` data tokens, for native networks."""
        from weightwright.export.lens import to_transformer_lens  # needs weightwright[lens]

        return to_transformer_lens(self, tokens)

    def to_torch(self, path: str | os.PathLike[str]) -> float:
        """Write a plain torch file (.py) and its weights (.safetensors); returns the largest difference."""
        from weightwright.export.torch_source import to_torch

        return to_torch(self, path)

    def __repr__(self) -> str:
        """One line; the modules inside are `net.children()`."""
        return f"{type(self).__name__}({self.extra_repr()})"

    def extra_repr(self) -> str:
        said = self.certificate
        if said is None:
            return "no certificate"
        found = said.measured
        plain = not isinstance(said.claim, GridClaim | LoopClaim)
        bound = round_up(said.bound) if plain else bound_in_words(said)
        error = f"bound {bound}" if found is None else f"largest error found {found.error:.3g}"
        zones = f", {len(said.dead_zones)} dead zones" if said.dead_zones else ""
        return f"{said.formula}, {error}{zones}, {said.status}"


def _runs_passes(certificate: Certificate) -> bool:
    return isinstance(certificate.against, PromptClaim | LoopClaim)


def load(
    path: str | os.PathLike[str], verify: bool = True, on_domain: OnDomain = "raise", **limits: Unpack[LimitOptions]
) -> AttentionNetwork:
    """Load a saved network. verify runs the independent checker (CertificateError if it disagrees);
    verify=False needs no python-flint and leaves the certificate's status UNCHECKED. A network whose error was only
    measured has nothing to check: its status is MEASURED.

    limits: seconds, megabytes, tokens and boxes that the file may cost, as for `ww.check`; BudgetError beyond them.
    """
    with limited(path, Limits(**limits)):
        network, certificate = read(path)
        if verify and certificate is not None and certificate.measured is None:
            from weightwright.checker.check import prove  # needs python-flint

            certificate = prove(path, network, certificate)
        try:
            return AttentionNetwork(network, certificate, on_domain)
        except (LookupError, ArithmeticError, TypeError, RuntimeError) as error:  # what no check has looked at
            raise MalformedCertificateError(f"{path}: the certificate does not fit its network ({error})") from error
