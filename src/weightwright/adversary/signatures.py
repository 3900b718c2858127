"""`diagnose`: the signatures of failure of attention that should pick, as numbers: uniform attention, drift, the ends.

Source: the summary of the universal approximation paper, "failure signatures". Everything here is measured on the
inputs given, in plain floats; nothing is a bound, and no signature proves that a network is wrong: heads with fitted
values are soft on purpose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import nn

from weightwright.network import Attention
from weightwright.network.interpreter import attention_weights
from weightwright.numbers import Bools, Floats
from weightwright.runtime import AttentionNetwork

#: A head is uniform from this share of the largest entropy, ln(keys), on, on the mean over all queries.
UNIFORM = 0.9
#: A query has picked a key from this weight on; a head drifts where more than this share of its queries has not.
PICKED, DRIFTING = 0.9, 0.25
#: A token is at an end within this share of a feature's range; errors there are artefacts from this ratio on.
AT_END, SPIKE = 0.05, 3.0

Verdict = Literal["picks", "drifts", "uniform"]


@dataclass(frozen=True)
class HeadSignature:
    """How one head looks at its keys.

    name: the layer, the head, and what it is for where that is known.
    keys: how many it can see.
    entropy: of its weights, as a share of ln(keys), on the mean over all queries: 0 picks one key, 1 is uniform.
    largest: the largest weight of a query, on the mean.
    undecided: the share of queries whose largest weight is below 0.9.
    """

    name: str
    keys: int
    entropy: float
    largest: float
    undecided: float

    @property
    def verdict(self) -> Verdict:
        """ "uniform": diffuse weights, a beta that is too small. "drifts": between keys for many queries. "picks"."""
        if self.keys > 1 and self.entropy >= UNIFORM:
            return "uniform"
        return "drifts" if self.undecided > DRIFTING else "picks"


@dataclass(frozen=True)
class Diagnosis:
    """What `diagnose` found. Fields are None where there was nothing to compare with.

    heads: a signature for each head.
    error_at_ends: the largest error of tokens within 5 per cent of an end of some feature's range.
    error_inside: the largest error of the other tokens.
    proven: whether the network has a certificate that a checker agreed to.
    """

    heads: tuple[HeadSignature, ...]
    error_at_ends: float | None = None
    error_inside: float | None = None
    proven: bool = False

    @property
    def uniform_attention(self) -> bool:
        """Whether some head spreads its weight over all keys."""
        return any(head.verdict == "uniform" for head in self.heads)

    @property
    def drift(self) -> bool:
        """Whether some head is between keys for more than a quarter of the queries."""
        return any(head.verdict == "drifts" for head in self.heads)

    @property
    def end_artefacts(self) -> bool | None:
        """Whether the error at the ends is more than three times the error inside; None without a reference."""
        if self.error_at_ends is None or self.error_inside is None:
            return None
        return self.error_at_ends > SPIKE * self.error_inside

    @property
    def healthy(self) -> bool:
        """Whether no signature was found."""
        return not (self.uniform_attention or self.drift or self.end_artefacts)

    def __repr__(self) -> str:
        count = len(self.heads)
        lines = [f"{count} head{'s' * (count > 1)}: " + (", ".join(self._found()) or "no signature of failure")]
        for head in self.heads[:8]:
            lines.append(
                f"  {head.name}: {head.verdict} (entropy {head.entropy:.2f} of ln {head.keys},"
                f" largest weight {head.largest:.2f}, undecided {head.undecided:.0%})"
            )
        lines += [f"  and {len(self.heads) - 8} more heads"] if len(self.heads) > 8 else []
        if self.error_at_ends is not None:
            lines.append(f"  largest error at the ends {self.error_at_ends:.3g}, inside {self.error_inside:.3g}")
        else:
            lines.append("  no errors: give reference, what should come out")
        if self.proven and not self.healthy:
            lines.append("  its certificate is PROVEN: what is soft here is within the bound")
        return "\n".join(lines)

    def _found(self) -> Iterator[str]:
        yield from ["uniform attention"] * self.uniform_attention
        yield from ["drift between keys"] * self.drift
        yield from ["artefacts at the ends"] * bool(self.end_artefacts)


def diagnose(
    net_or_attention: AttentionNetwork | nn.MultiheadAttention | torch.Tensor,
    X: torch.Tensor | None = None,
    *,
    reference: Callable[[Any], Any] | torch.Tensor | None = None,
    most_heads: int = 64,
) -> Diagnosis:
    """Signatures of failure: uniform attention, drift between keys, artefacts at the ends. Measured, never a bound.

    net_or_attention: a network of ours, an `nn.MultiheadAttention` (as self-attention of X), or attention weights as a
    tensor (..., queries, keys), heads in the third dimension from the end if there are three.
    X: inputs, (tokens, features) or (count, tokens, features); not needed for weights, which are what is looked at.
    reference: what should come out for X, or a function of X that returns it; by default what a network that a
    construction made says of itself (`net.about`), where it does. Without one the ends are not looked at.
    most_heads: of a network with more heads than this, as many are looked at, spread evenly over all.

    >>> weights = torch.full((4, 8, 8), 1 / 8)  # four heads that look everywhere
    >>> found = diagnose(weights)
    >>> found.uniform_attention, found.drift, found.end_artefacts
    (True, False, None)
    """
    if type(most_heads) is not int or most_heads < 1:
        raise ValueError(f"most_heads must be a whole number of at least 1, not {most_heads!r}")
    if isinstance(net_or_attention, torch.Tensor):
        if reference is not None:
            raise ValueError("reference needs outputs to compare with, and attention weights have none")
        return Diagnosis(tuple(_of_weights(net_or_attention, most_heads)))
    if not isinstance(net_or_attention, AttentionNetwork | nn.MultiheadAttention):
        raise TypeError(
            "net_or_attention must be a network of ours, an nn.MultiheadAttention or a tensor of attention weights,"
            f" not {type(net_or_attention).__name__}"
        )
    inputs = _inputs(X)
    if isinstance(net_or_attention, AttentionNetwork):
        return _of_network(net_or_attention, inputs, reference, most_heads)
    return _of_module(net_or_attention, inputs, reference, most_heads)


def _inputs(X: torch.Tensor | None) -> torch.Tensor:
    if not isinstance(X, torch.Tensor) or X.ndim not in (2, 3) or 0 in X.shape:
        found = tuple(X.shape) if isinstance(X, torch.Tensor) else type(X).__name__
        raise ValueError(f"X must be a tensor (tokens, features) or (count, tokens, features), not {found}")
    if not torch.isfinite(X).all():
        raise ValueError("X must be finite: weights at infinite inputs say nothing")
    return X if X.ndim == 3 else X[None]


def _of_network(net: AttentionNetwork, X: torch.Tensor, reference: Any, most: int) -> Diagnosis:
    places = [
        (layer, head, step.heads[head].role)
        for layer, step in enumerate(step for step in net.network.flat_layers if isinstance(step, Attention))
        for head in range(len(step.heads))
    ]
    numbers = X.double().numpy()
    heads = []
    for layer, head, role in _spread(places, most):
        weights = attention_weights(net.network, numbers, layer, head)
        seen = weights.reshape(-1, weights.shape[-1]).max(axis=0) > 0
        heads.append(_signature(f"layer {layer}, head {head}: {role}", weights[..., seen]))
    about = getattr(net, "about", None)
    if reference is None and about is not None and hasattr(about, "reference"):

        def reference(X: torch.Tensor) -> Any:
            return torch.as_tensor(about.reference(X.double().numpy()))

    with torch.no_grad():
        found = net(X.to(net.dtype))
    ends = net.certificate.domain if net.certificate is not None else None
    lo, hi = (None, None) if ends is None else (ends.lo, ends.hi)
    proven = net.certificate is not None and net.certificate.status == "PROVEN"
    return Diagnosis(tuple(heads), *_errors(found, X, reference, lo, hi), proven)


def _of_module(module: nn.MultiheadAttention, X: torch.Tensor, reference: Any, most: int) -> Diagnosis:
    if X.shape[-1] != module.embed_dim:
        raise ValueError(f"X has {X.shape[-1]} features, but the module takes embed_dim={module.embed_dim}")
    given = X.to(module.in_proj_weight.dtype if module.in_proj_weight is not None else X.dtype)
    given = given if module.batch_first else given.transpose(0, 1)
    training = module.training
    with torch.no_grad():
        try:
            found, weights = module.eval()(given, given, given, need_weights=True, average_attn_weights=False)
        finally:
            module.train(training)
    found = found if module.batch_first else found.transpose(0, 1)
    return Diagnosis(tuple(_of_weights(weights, most)), *_errors(found, X, reference, None, None))


def _of_weights(weights: torch.Tensor, most: int) -> Iterator[HeadSignature]:
    """(queries, keys), (heads, queries, keys) or (..., heads, queries, keys)."""
    if weights.ndim < 2 or 0 in weights.shape or not weights.is_floating_point():
        raise ValueError(f"attention weights must be floats (..., queries, keys), not {tuple(weights.shape)}")
    numbers = weights.detach().double().cpu().numpy()
    sums = numbers.sum(axis=-1)
    if not (np.isfinite(numbers).all() and (numbers >= 0).all() and np.abs(sums - 1).max() < 1e-2):
        raise ValueError(
            "attention weights must be at least 0 and add up to 1 for every query, but sums go from"
            f" {sums.min():.4g} to {sums.max():.4g}, weights from {numbers.min():.4g}: give weights after the softmax"
        )
    heads = numbers if numbers.ndim == 2 else np.moveaxis(numbers, -3, 0)
    if numbers.ndim == 2:
        yield _signature("head 0", heads)
        return
    for index in _spread(list(range(len(heads))), most):
        yield _signature(f"head {index}", heads[index])


def _spread(items: list[Any], most: int) -> list[Any]:
    """All of them, or `most` that are spread evenly."""
    if len(items) <= most:
        return items
    return [items[int(i)] for i in np.linspace(0, len(items) - 1, most)]


def _signature(name: str, weights: Floats) -> HeadSignature:
    keys = weights.shape[-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = -np.where(weights > 0, weights * np.log(weights), 0.0).sum(axis=-1)
    largest = weights.max(axis=-1)
    share = float(entropy.mean() / np.log(keys)) if keys > 1 else 0.0
    return HeadSignature(name, keys, share, float(largest.mean()), float((largest < PICKED).mean()))


def _errors(
    found: torch.Tensor, X: torch.Tensor, reference: Any, lo: Floats | None, hi: Floats | None
) -> tuple[float | None, float | None]:
    """The largest error at the ends, and inside; where the reference is NaN nothing is meant and nothing counted."""
    if reference is None:
        return None, None
    wanted = torch.as_tensor(reference(X) if callable(reference) else reference)
    wanted = wanted if wanted.ndim == found.ndim else wanted[None]
    if wanted.shape != found.shape:
        raise ValueError(f"reference gives {tuple(wanted.shape)}, but the outputs are {tuple(found.shape)}")
    errors = (found.double() - wanted.double()).abs().numpy()
    errors = np.nan_to_num(errors, nan=0.0).max(axis=-1)  # (count, tokens)
    at_end = _at_end(X.double().numpy(), lo, hi)
    if errors.shape != at_end.shape:  # one output for all tokens
        at_end = np.broadcast_to(at_end.any(axis=-1, keepdims=True), errors.shape)
    ends, inside = (float(errors[which].max(initial=0.0)) for which in (at_end, ~at_end))
    return ends, inside


def _at_end(X: Floats, lo: Floats | None, hi: Floats | None) -> Bools:
    """(count, tokens): whether some feature of a token is near an end of its range: of the domain, or of what X has."""
    if lo is None or hi is None:
        lo, hi = X.min(axis=(0, 1)), X.max(axis=(0, 1))
    width = AT_END * (hi - lo)
    return np.asarray(((lo + width > X) | (hi - width < X)).any(axis=-1))
