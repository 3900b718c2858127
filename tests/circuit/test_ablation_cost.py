"""What `ablatable=True` costs beside the default: run with -rP to see the figures of docs/circuits.md."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from support.torch_zoo.moons import trained_moons
from torch import nn

import weightwright as ww

torch.manual_seed(5)
GELU = nn.Sequential(nn.Linear(3, 12), nn.GELU(), nn.Linear(12, 2)).double().eval()
SIGMOIDS = nn.Sequential(nn.Linear(3, 8), nn.Sigmoid(), nn.Linear(8, 8), nn.Sigmoid(), nn.Linear(8, 1)).double().eval()
HARD = nn.Sequential(nn.Linear(3, 8), nn.Hardtanh(), nn.Linear(8, 1)).double().eval()
BLOCK = nn.MultiheadAttention(4, 2, batch_first=True).double().eval()

CASES: dict[str, tuple[Callable[..., Any], tuple[float, float], dict[str, Any]]] = {
    "two moons, 2-16-16-2 ReLU": (trained_moons(seed=1), (-2.0, 3.0), {}),
    "3-12-2 GELU": (GELU, (-1.0, 1.0), {}),
    "3-8-8-1 sigmoid": (SIGMOIDS, (-1.0, 1.0), {}),
    "3-8-1 hardtanh": (HARD, (-2.0, 2.0), {}),
    "two heads, tanh, 4 tokens": (
        lambda x: torch.tanh(BLOCK(x, x, x)[0]), (-1.0, 1.0), {"features": 4, "tokens": 4},
    ),
    "(sin x + 3) (exp y + 2)": (
        lambda x: (torch.sin(x[:, :1]) + 3) * (torch.exp(x[:, 1:]) + 2), (-1.0, 1.0), {"features": 2},
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_cost_of_ablatable(name: str) -> None:
    function, domain, options = CASES[name]
    rows = []
    for ablatable in (False, True):
        start = time.perf_counter()
        net = ww.compile(function, domain, 1e-6, ablatable=ablatable, **options)
        rows.append((net.cost.heads, net.cost.anchors, net.certificate.bound, time.perf_counter() - start))
        assert net.certificate.status == "PROVEN"
    heads, keys, bounds, seconds = zip(*rows, strict=True)
    counts = " | ".join(f"{before} → {after}" for before, after in (heads, keys))
    print(f"| {name} | {counts} | {bounds[0]:.2g} → {bounds[1]:.2g} | {seconds[1] / seconds[0]:.1f} |")
