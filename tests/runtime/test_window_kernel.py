"""The Triton kernel against the torch code: on a GPU where there is one, else in triton's interpreter."""

from __future__ import annotations

import os

import pytest
import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")
pytest.importorskip("triton")

from support.one_head import one_table

import weightwright as ww
from weightwright.heads.registers import Table
from weightwright.runtime.kernels import window_triton
from weightwright.runtime.kernels.window_kernel import attend, decay

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
UNIT = {torch.float64: 2.0**-53, torch.float32: 2.0**-24}


@pytest.mark.parametrize("dtype", UNIT)
@pytest.mark.parametrize("n", [0, 1, 5, 1024, 3001])
@pytest.mark.parametrize(
    ("p", "M", "c", "v", "first"), [(40, 6, 0.5, 1, -20), (1024, 12, 0.25, 2, 7), (3, 1, 1.0, 1, 0)]
)
def test_kernel_and_torch_agree(dtype: torch.dtype, n: int, p: int, M: int, c: float, v: int, first: int) -> None:
    """Inside the grid, beyond it and half way between anchors; the same bits on every run."""
    random = torch.Generator().manual_seed(n)
    values = (2 * torch.rand(p, v, dtype=dtype, generator=random) - 1).to(DEVICE)
    t = first + (p + 3) * torch.rand(n, dtype=dtype, generator=random) - 2
    t[: n // 3] = torch.round(2 * t[: n // 3]) / 2
    t, e = t.to(DEVICE), decay(c, M, dtype).to(DEVICE)
    computed = window_triton.attend(t, values, e, float(first), c).T
    on_cpu = attend(t.cpu(), values.cpu(), e.cpu(), float(first), c)
    assert computed.shape == (n, v)
    assert (computed.cpu() - on_cpu).abs().le(40 * (M + 1) * UNIT[dtype]).all()
    assert torch.equal(computed, window_triton.attend(t, values, e, float(first), c).T)


def test_infinite_queries_and_nan() -> None:
    t = torch.tensor([-torch.inf, -18.5, torch.inf, 14.5, torch.nan], device=DEVICE)
    values, e = torch.rand(37, 1, device=DEVICE), decay(0.5, 2, torch.float32).to(DEVICE)
    y = window_triton.attend(t, values, e, -20.0, 0.5)[0]
    assert torch.equal(y[:4:2].cpu(), window_triton.attend(t[1:4:2], values, e, -20.0, 0.5)[0].cpu())
    assert y[4].isnan()
    assert not y[:4].isnan().any()


@pytest.mark.skipif(DEVICE == "cpu", reason="no GPU")
def test_a_network_on_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel runs where no gradient is wanted; where one is, torch does, and they agree."""
    L = torch.arange(-30.0, 31.0, dtype=torch.float64).numpy()
    net = ww.AttentionNetwork(one_table(Table(2 * L, -(L**2), L / 32, 0.25, window=12), (0.0, 8.0))).cuda()
    x = torch.linspace(-2, 2, 3001, dtype=torch.float64, device="cuda")[:, None].requires_grad_()
    calls = []
    kernel = window_triton.attend
    monkeypatch.setattr(window_triton, "attend", lambda *given: calls.append(1) or kernel(*given))
    with torch.no_grad():
        fast = net(x)
    assert calls == [1]
    slow = net(x)
    assert calls == [1]
    assert (fast - slow).abs().max() <= 1e-13
    (slope,) = torch.autograd.grad(slow.sum(), x)
    assert (slope - 0.25).abs().max() <= 1e-6
