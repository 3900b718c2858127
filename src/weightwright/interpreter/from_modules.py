"""Layers of torch as programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from weightwright.interpreter.programs import Program
from weightwright.interpreter.virtual_machine import Interpreter


def from_torch(vm: Interpreter, layer: nn.MultiheadAttention, sees: Any = None, name: str = "") -> Program:
    """The heads of an `nn.MultiheadAttention`; where it has biases, the last feature of the data must be 1.

    Query and key of a head have one entry more than its size where there are biases; the output's bias is shared out
    among the heads, whose weights add up to 1.

    vm: the interpreter that is to run it.
    layer: with one size of features.
    sees: as for `Interpreter.program`.
    name: what messages call it.
    """
    if not isinstance(layer, nn.MultiheadAttention) or layer.in_proj_weight is None:
        raise ValueError(f"layer must be an nn.MultiheadAttention with one size of features, not {layer!r}")
    d, m = layer.embed_dim, layer.num_heads
    h = d // m
    weights = layer.in_proj_weight.detach().double().cpu().numpy().reshape(3, m, h, d)
    out = layer.out_proj.weight.detach().double().cpu().numpy().reshape(d, m, h).transpose(1, 0, 2)  # (m, d, h)
    biased = layer.in_proj_bias is not None
    if not biased:
        return vm.program(weights[0], weights[1], weights[2], out, h**-0.5, sees=sees, name=name or "attention")
    bias = _numbers(layer.in_proj_bias).reshape(3, m, h, 1)
    Q, K, V = np.concatenate([weights, bias], axis=-1)  # (m, h, d + 1)
    V = np.concatenate([out @ V, np.zeros((m, 1, d + 1))], axis=1)  # (m, d + 1, d + 1)
    V[:, :d, d] += _numbers(layer.out_proj.bias) / m
    return vm.program(Q, K, V, None, h**-0.5, sees=sees, name=name or "attention")


def _numbers(parameter: torch.Tensor) -> Any:
    return parameter.detach().double().cpu().numpy()
