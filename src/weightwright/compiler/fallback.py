"""A function whose graph is not known or of no use, built from its values: vector anchors in up to three features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from weightwright.box import Box
from weightwright.compiler.approximate import Kernel, approximate
from weightwright.compiler.several import MAX_VARIABLES, Proof
from weightwright.errors import FormulaError, UnsupportedOperation
from weightwright.runtime import AttentionNetwork
from weightwright.runtime.module import OnDomain

_UNTRACED = ", which cannot be traced"


def sampled(box: Box, tokens: int | None, proof: Proof, derivative_bound: tuple[int, float] | None) -> bool:
    """Whether there is a way without tracing: few features, token by token, and either no proof or a stated bound."""
    few = box.lo.ndim == 1 and len(box.lo) <= MAX_VARIABLES and tokens is None
    return few and (proof == "measured" or (derivative_bound is not None and len(box.lo) == 1))


def from_samples(
    function: Callable[..., Any],
    box: Box,
    tol: float,
    dtype: torch.dtype,
    kernel: Kernel,
    proof: Proof,
    derivative_bound: tuple[int, float] | None,
    on_domain: OnDomain,
    progress: Callable[[str], None],
    why: FormulaError | UnsupportedOperation,
) -> AttentionNetwork:
    """The network of `approximate`. Values come from calling the function with (count, features) float64 tensors.

    why: what is wrong with the graph.
    """

    def of_features(*columns: Any) -> Any:
        X = torch.stack([torch.as_tensor(column, dtype=torch.float64).reshape(-1) for column in columns], dim=-1)
        Y = torch.as_tensor(function(X))
        if Y.shape not in ((len(X),), (len(X), 1)):
            raise FormulaError(
                f"{name} returned shape {tuple(Y.shape)} for {len(X)} tokens; from samples it can have one output only."
                f" It was not traced because: {why}"
            )
        return Y.reshape(-1)

    name = getattr(function, "__name__", type(function).__name__)
    of_features.__name__ = name
    net = approximate(
        of_features,
        box,
        tol,
        dtype=dtype,
        kernel=kernel,
        proof=proof,
        derivative_bound=derivative_bound,
        on_domain=on_domain,
        progress=progress,
    )
    said = net.certificate
    if said is not None and said.measured is not None:
        reason = f"built from values of the function{_UNTRACED if isinstance(why, UnsupportedOperation) else ''}: {why}"
        net.certificate = replace(said, measured=replace(said.measured, reason=reason))
    return net
