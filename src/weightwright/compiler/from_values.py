"""A function whose graph is not known or of no use, built from its values: vector anchors in up to three features."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from weightwright.approximation.approximate import approximate
from weightwright.compiler.request import Request
from weightwright.errors import FormulaError, UnsupportedOperation
from weightwright.runtime import AttentionNetwork
from weightwright.runtime.module import DTYPES

_UNTRACED = ", which cannot be traced"


def build_from_values(asked: Request, why: FormulaError | UnsupportedOperation) -> AttentionNetwork:
    """The network of `approximate`. Values come from calling the function with (count, features) float64 tensors.

    why: what is wrong with the graph.
    """
    function = asked.function

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
        asked.box,
        asked.tol,
        dtype=DTYPES[asked.dtype],
        kernel=asked.kernel,
        proof=asked.proof,
        derivative_bound=asked.derivative_bound,
        on_domain=asked.on_domain,
        progress=asked.progress,
    )
    said = net.certificate
    if said is not None and said.measured is not None:
        reason = f"built from values of the function{_UNTRACED if isinstance(why, UnsupportedOperation) else ''}: {why}"
        net.certificate = replace(said, claim=replace(said.measured, reason=reason))
    return net
