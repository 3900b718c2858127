"""The torch modules of the kinds of layer."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from weightwright.network import Attention, FeedForward, Layer, Linear, Loop, Ramps, Softmax
from weightwright.runtime.attention_modules import AttentionLayer
from weightwright.runtime.sparse_maps import LinearMap, SparseMap
from weightwright.runtime.weights import Setting, Weights, part_of


def build_layer(layer: Layer, setting: Setting) -> Weights:
    if isinstance(layer, Linear):
        sparse = layer.moves_tokens and all(term.S is None for term in layer.terms) and not setting.trainable
        return SparseMap(layer, setting) if sparse else LinearMap(layer, setting)
    if isinstance(layer, Attention):
        return AttentionLayer(layer, setting)
    if isinstance(layer, Ramps) and not setting.trainable:
        return RampLayer(layer, setting)
    if isinstance(layer, FeedForward):
        return FeedForwardLayer(layer, setting)
    if isinstance(layer, Softmax):
        return SoftmaxLayer(layer, setting)
    return LoopLayer(layer, setting)


class FeedForwardLayer(Weights):
    was: FeedForward

    def __init__(self, layer: FeedForward, setting: Setting) -> None:
        super().__init__(layer)
        self.residual = layer.residual
        self.keep(setting.dtype, setting.trainable, "W_1", "b_1", "W_2", "b_2")

    alone = True

    @property
    def units(self) -> int:
        """Hidden numbers of a token that are held at a time."""
        return self.matrix("b_1").shape[1]

    def parts(self) -> dict[str, Any]:
        return {name: self.array(name) for name in ("W_1", "b_1", "W_2", "b_2")} | {"residual": self.residual}

    def forward(self, X: Tensor) -> Tensor:
        W_1, b_1, W_2, b_2 = (self.matrix(name) for name in ("W_1", "b_1", "W_2", "b_2"))
        out = torch.relu(X @ W_1 + b_1) @ W_2 + b_2
        return X + out if self.residual else out


class RampLayer(FeedForwardLayer):
    """The same by binary search among the kinks: `network.ramps` says what is computed."""

    units = 1

    def derive(self) -> tuple[int, Tensor, Tensor, Tensor]:
        """(coordinate that is read, kinks, slopes, plateaus)"""
        W_1, W_2 = self.matrix("W_1"), self.matrix("W_2")
        kinks, slopes = -self.matrix("b_1")[0], W_2[0::2]
        heights = slopes * (kinks[1::2] - kinks[0::2]).unsqueeze(-1)
        rows = W_1.any(-1).nonzero().flatten().tolist()
        return (rows or [0])[0], kinks, slopes, torch.cat([self.matrix("b_2"), heights]).cumsum(0)

    def forward(self, X: Tensor) -> Tensor:
        coordinate, kinks, slopes, plateaus = self._kept()
        s = X[..., coordinate].contiguous()
        passed = torch.searchsorted(kinks, s, right=True)  # kinks at or below s
        before = passed.div(2, rounding_mode="floor")
        out = plateaus[before]
        if len(slopes):
            ramp = before.clamp(max=len(slopes) - 1)
            part = torch.where(passed % 2 == 1, s - kinks[2 * ramp], 0.0)
            out = out + slopes[ramp] * part.unsqueeze(-1)
        return X + out if self.residual else out


class SoftmaxLayer(Weights):
    was: Softmax

    def __init__(self, layer: Softmax, setting: Setting) -> None:
        super().__init__(layer)
        self.beta, self.over = layer.beta, layer.over
        self.keep(setting.dtype, setting.trainable)

    @property
    def alone(self) -> bool:
        return self.over == "features"

    def parts(self) -> dict[str, Any]:
        return {"beta": float(self.beta), "over": self.over}

    def forward(self, X: Tensor) -> Tensor:
        return torch.softmax(self.beta * X, -1 if self.over == "features" else -2)


class LoopLayer(Weights):
    was: Loop

    def __init__(self, loop: Loop, setting: Setting) -> None:
        super().__init__(loop)
        self.times = loop.times
        self.layers = nn.ModuleList(build_layer(layer, setting) for layer in loop.layers)
        self.keep(setting.dtype, setting.trainable)

    @property
    def alone(self) -> bool:
        return all(getattr(layer, "alone", False) for layer in self.layers)

    def parts(self) -> dict[str, Any]:
        return {"times": self.times, "layers": read_layers(self.layers)}

    def forward(self, X: Tensor) -> Tensor:
        for _ in range(self.times):
            for layer in self.layers:
                X = layer(X)
        return X


LAYERS = (LinearMap, SparseMap, AttentionLayer, FeedForwardLayer, RampLayer, SoftmaxLayer, LoopLayer)


def read_layers(modules: nn.ModuleList) -> tuple[Layer, ...]:
    """The layers that run now."""
    return tuple(part_of(module, LAYERS, f"layer {i}") for i, module in enumerate(modules))
