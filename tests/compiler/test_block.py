"""A pre-norm Transformer block on 8 tokens: layer norm, two heads of attention, a GELU network."""

from __future__ import annotations

import time

import pytest
import torch
from torch import Tensor, nn

import weightwright as ww

TOKENS = 8


class Block(nn.Module):
    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width, eps) for _ in range(2))
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        h = self.norms[0](x)
        x = x + self.attention(h, h, h, need_weights=False)[0]
        return x + self.mlp(self.norms[1](x))


@pytest.mark.slow
@pytest.mark.parametrize("width", [4, 8])
@pytest.mark.parametrize(("eps", "status"), [(1e-5, "MEASURED"), (1.0, "PROVEN")])
def test_a_block_is_proven_or_measured_with_its_reason(width: int, eps: float, status: str) -> None:
    """With the eps of torch errors of the first norm count 1e5 times in the second: no bound, and it says so."""
    torch.manual_seed(0)
    block = Block(width, eps).double().eval()
    box, tol, start = ww.Box([-1] * width, [1] * width), 1e-2, time.perf_counter()
    try:
        net = ww.compile(block, box, tol, tokens=TOKENS)
    except ww.ToleranceError:
        net = ww.compile(block, box, tol, tokens=TOKENS, proof="measured")
    assert time.perf_counter() - start < 60
    said = net.certificate
    assert said is not None
    assert said.status == status
    assert said.measured is None or said.measured.reason
    x = torch.rand(200, TOKENS, width, dtype=torch.float64) * 2 - 1
    with torch.no_grad():
        assert float((net(x) - block(x)).abs().max()) <= tol
