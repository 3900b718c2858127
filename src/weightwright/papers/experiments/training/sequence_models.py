"""UA-E3: sequence-to-sequence targets from a random ReLU network, and two trained attention layers."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from weightwright.papers.experiments.training.batched_models import Group, MappedAttention


def draw_relu_network(seed: int, numbers: int, m: int, normal: bool) -> nn.Sequential:
    """Linear, ReLU, Linear on `numbers` inputs with m hidden units, float64.

    normal: standard normal weights; else uniform in +-1/sqrt(inputs), as torch starts its layers.
    """
    generator = torch.Generator().manual_seed(seed + 77)
    layers = (nn.Linear(numbers, m, dtype=torch.float64), nn.Linear(m, numbers, dtype=torch.float64))
    network = nn.Sequential(layers[0], nn.ReLU(), layers[1]).requires_grad_(False)
    for layer in layers:
        for weight in (layer.weight, layer.bias):
            if normal:
                weight.copy_(torch.randn(weight.shape, generator=generator, dtype=torch.float64))
            else:
                drawn = torch.rand(weight.shape, generator=generator, dtype=torch.float64)
                weight.copy_((2 * drawn - 1) / layer.in_features**0.5)
    return network


def draw_sequences(seed: int, samples: int, n: int, d: int) -> Tensor:
    """(samples, n, d), uniform in [0, 1]."""
    return torch.rand(samples, n, d, generator=torch.Generator().manual_seed(seed))


def apply_to_sequences(network: nn.Module, X: Tensor) -> Tensor:
    """The network on flattened sequences: every output number depends on the whole input."""
    return network(X.double().flatten(-2)).view(X.shape).to(X.dtype)


def stack_two_layers(group: Group, n: int, p: int, d: int, hidden: int, per_position: bool = True) -> nn.Sequential:
    """Attention after A_1, attention after A_2, and the first n tokens are read: (G, B, n, d) -> (G, B, n, d)."""
    return nn.Sequential(
        MappedAttention(group, n, p, p, d, hidden, hidden, per_position),
        MappedAttention(group, p, p, n, hidden, hidden, d, per_position),
    )
