"""Shared by the tests of tracing: constants, modules, and the comparison of a graph with torch itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from support.graphs import graph_outputs
from torch import nn

from weightwright.tracing.following.traced_function import trace_function

Function = Callable[[Any], Any]


def constants(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def seeded(make: Callable[[], nn.Module], seed: int = 0) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return make().double().eval()


def assert_agrees(function: Function, features: int, tokens: int | None, low: float = -2.0, high: float = 2.0) -> Any:
    """The graph of a function, after comparing it with torch itself at random inputs."""
    graph, n = trace_function(function, features, tokens), tokens or 5
    x = np.random.default_rng(1).uniform(low, high, (6, n, features))
    found = graph_outputs(graph, x)
    for inputs, outputs in zip(x, found, strict=True):
        expected = torch.as_tensor(function(torch.tensor(inputs)), dtype=torch.float64).detach().numpy()
        if expected.shape == (n,) and len(graph.outputs) == 1:
            expected = expected[:, None]
        assert outputs.shape == (n, expected.shape[-1] if expected.ndim else 1)
        np.testing.assert_allclose(outputs, np.broadcast_to(expected, outputs.shape), rtol=1e-10, atol=1e-10)
    return graph
