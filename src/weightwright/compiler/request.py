"""What `compile` is asked for: its arguments, checked, and the domain as one box."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, get_args

import numpy as np
import torch
from torch import nn

from weightwright.approximation.proposals import Kernel
from weightwright.approximation.several import MAX_VARIABLES, Proof
from weightwright.approximation.task import outward, well_formed, well_formed_zone
from weightwright.box import Box
from weightwright.errors import DomainError
from weightwright.runtime.module import OnDomain
from weightwright.runtime.weights import dtype_name


@dataclass(frozen=True)
class Request:
    """The arguments of `compile`. box: (features,) or (tokens, features), rounded outward to the dtype."""

    function: Callable[..., Any]
    box: Box
    tol: float
    dtype: str
    kernel: Kernel
    tokens: int | None
    proof: Proof
    derivative_bound: tuple[int, float] | None
    on_domain: OnDomain
    progress: Callable[[str], None]
    ablatable: bool = False
    dead_zone: float = 0.0
    start: float = field(default_factory=time.perf_counter)

    @property
    def may_take_values(self) -> bool:
        """Whether there is a way without tracing: few features, each token alone, and no proof or a stated bound."""
        few = self.box.lo.ndim == 1 and len(self.box.lo) <= MAX_VARIABLES and self.tokens is None
        stated = self.derivative_bound is not None and len(self.box.lo) == 1
        return few and not self.ablatable and (self.proof == "measured" or stated)


def read_request(
    function: Callable[..., Any] | nn.Module,
    domain: Box | tuple[Any, Any],
    tol: float,
    dtype: torch.dtype | str,
    kernel: Kernel,
    tokens: int | None,
    features: int | None,
    proof: Proof,
    derivative_bound: tuple[int, float] | None,
    dead_zone: float,
    on_domain: OnDomain,
    progress: Callable[[str], None],
    ablatable: bool,
) -> Request:
    """The arguments, or an error that names the one that is wrong."""
    _known("proof", proof, ("proven", "measured"))
    _known("kernel", kernel, ("dot", "anchor"))
    if not isinstance(ablatable, bool):
        raise ValueError(f"ablatable must be True or False, not {ablatable!r}")
    if ablatable and (kernel == "anchor" or proof == "measured"):
        raise ValueError(f"ablatable=True goes with kernel='dot' and proof='proven', not {kernel!r} and {proof!r}")
    if ablatable and dead_zone:
        raise ValueError(f"ablatable=True goes with dead_zone=0, not {dead_zone!r}: a jump is no single head")
    if not callable(function):
        instead = "; approximate takes formulas" if isinstance(function, str) else ""
        shown = repr(function) if isinstance(function, str | float | None) else type(function).__name__
        raise ValueError(f"function must be a function of a tensor or a torch module, not {shown}{instead}")
    well_formed(function, tol)
    well_formed_zone(dead_zone)
    if on_domain not in get_args(OnDomain):
        raise ValueError(f"on_domain must be 'raise', 'clamp' or 'ignore', not {on_domain!r}")
    if tokens is not None and (not isinstance(tokens, int) or isinstance(tokens, bool) or tokens < 1):
        raise ValueError(f"tokens must be a whole number of at least 1, or None, not {tokens!r}")
    name = dtype_name(dtype)
    box = outward(_domain(domain, function, features, tokens), name)
    return Request(
        function, box, tol, name, kernel, tokens, proof, derivative_bound, on_domain, progress, ablatable, dead_zone
    )


def _domain(
    domain: Box | tuple[Any, Any], function: Callable[..., Any] | nn.Module, features: int | None, tokens: int | None
) -> Box:
    """(features,) or (tokens, features)."""
    box = Box.of(domain)
    if features is not None and (not isinstance(features, int) or features < 1):
        raise ValueError(f"features must be a whole number of at least 1, not {features!r}")
    if box.lo.ndim > 2 or (box.lo.ndim == 2 and tokens != len(box.lo)):
        raise DomainError(f"domain: a box of shape {box.lo.shape} does not go with tokens={tokens!r}")
    plain = not isinstance(domain, Box) and box.lo.shape == (1,)
    wanted = features or (_features_of(function) if plain else None) or box.lo.shape[-1]
    if box.lo.shape == (1,) and wanted != 1:
        return Box(np.repeat(box.lo, wanted), np.repeat(box.hi, wanted))
    if box.lo.shape[-1] != wanted:
        raise DomainError(f"domain: {box.lo.shape[-1]} intervals for {wanted} features")
    return box


def _features_of(function: Callable[..., Any] | nn.Module) -> int | None:
    """What the first layer of a module takes."""
    for module in function.modules() if isinstance(function, nn.Module) else ():
        if isinstance(module, nn.Linear):
            return module.in_features
        if isinstance(module, nn.LayerNorm | nn.RMSNorm):
            return int(module.normalized_shape[-1])
    return None


def _known(name: str, value: Any, known: tuple[str, str]) -> None:
    if value not in known:
        raise ValueError(f"{name} must be {known[0]!r} or {known[1]!r}, not {value!r}")
