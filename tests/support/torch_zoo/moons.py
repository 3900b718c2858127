"""Two half moons, and small networks trained to tell them apart."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def two_moons(count: int, seed: int, noise: float = 0.1) -> tuple[Tensor, Tensor]:
    """(count, 2) points and their classes, 0 or 1."""
    generator = torch.Generator().manual_seed(seed)
    angle = torch.pi * torch.rand(count, generator=generator, dtype=torch.float64)
    label = torch.randint(2, (count,), generator=generator)
    upper = torch.stack([angle.cos(), angle.sin()], -1)
    lower = torch.stack([1 - angle.cos(), 0.5 - angle.sin()], -1)
    x = torch.where(label[:, None] == 0, upper, lower)
    return x + noise * torch.randn(count, 2, generator=generator, dtype=torch.float64), label


def trained_moons(seed: int = 0, steps: int = 200, activation: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    """A network 2-16-16-2, in eval mode."""
    torch.manual_seed(seed)
    layers = (nn.Linear(2, 16), activation(), nn.Linear(16, 16), activation(), nn.Linear(16, 2))
    net = nn.Sequential(*layers).double()
    x, label = two_moons(256, seed)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), label).backward()
        optimizer.step()
    return net.eval().requires_grad_(False)
