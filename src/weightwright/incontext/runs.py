"""What a run of an algorithm in context was: every state, and two distances that are never mixed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from weightwright.constructions.passes import Algorithm
from weightwright.incontext.problem import Problem
from weightwright.network.layers import Floats
from weightwright.runtime import AttentionNetwork
from weightwright.runtime.prompts import ends_a_pass, flat


@dataclass(frozen=True, eq=False)
class Run:
    """states: (steps + 1, 1 or 2, d), w and p before the first step and after each, as the network had them."""

    problem: Problem
    algorithm: Algorithm
    values: Floats
    step: float
    states: Floats
    net: AttentionNetwork

    @property
    def path(self) -> Floats:
        """(steps + 1, d): the answer after every step."""
        return self.states[:, 1 if self.algorithm.answer == "p" else 0]

    @property
    def w(self) -> Floats:
        """The answer."""
        return self.path[-1]


def states_of(net: AttentionNetwork, prompt: Tensor) -> Floats:
    """The states of the first token, (steps + 1, states, ..., d), read off the stream at the end of every pass."""
    names = net.network.embed.coordinates
    inputs = net.network.inputs
    states = [group for group in ("w", "p") if f"{group}[0]" in inputs]

    def picked(X: Tensor, columns: tuple[str, ...]) -> Tensor:
        places = [[i for i, name in enumerate(columns) if name.split("[")[0] == group] for group in states]
        return torch.stack([X[..., 0, place] for place in places])  # (states, ..., d)

    found = [picked(prompt, inputs)]
    hooks = [
        module.register_forward_hook(lambda _, __, X: found.append(picked(X, names)))
        for layer, module in flat(net.network.layers, net.layers)
        if ends_a_pass(layer)
    ]
    try:
        with torch.no_grad():
            net(prompt)
    finally:
        for hook in hooks:
            hook.remove()
    return np.stack([state.double().numpy() for state in found])
