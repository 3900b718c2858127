"""The window kernel on a CUDA GPU beside a plain copy, tanh, SDPA and a compiled dense head, in one run.

    python benchmarks/window_gpu.py

Needs torch and triton only: the kernel's file is loaded by its path. Times are medians of triton's do_bench. A token is
read once and written once; that is all the traffic that is counted. Errors are against attention over all anchors in
float64, computed from squares, on the first tokens.
"""

from __future__ import annotations

import importlib.util
import math
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

DEVICE = "cuda"
TOKENS, FEWER = 2**24, 2**22  # FEWER where all scores are computed
CHECKED = 2**16
ANCHORS = (32, 128, 1024)
WINDOWS = {torch.float32: (0.5, 6), torch.float64: (0.25, 12)}  # c, M: the tail is below the unit roundoff
BLOCKS, WARPS = (512, 1024, 2048, 4096), (4, 8)
KERNEL = Path(__file__).parent.parent / "src" / "weightwright" / "runtime" / "kernels" / "window_triton.py"


@dataclass(frozen=True)
class Case:
    """p anchors from `first`, values between -1 and 1, queries that see a whole window."""

    p: int
    c: float
    first: float
    L: Tensor  # (p,)
    values: Tensor  # (p, 1)
    e: Tensor  # (M + 1,)
    t: Tensor  # (TOKENS,)

    @classmethod
    def of(cls, p: int, dtype: torch.dtype) -> Case:
        c, M = WINDOWS[dtype]
        random, first = torch.Generator(DEVICE).manual_seed(0), -(p // 2)
        L = first + torch.arange(p, dtype=dtype, device=DEVICE)
        values = 2 * torch.rand(p, 1, dtype=dtype, device=DEVICE, generator=random) - 1
        e = torch.tensor([math.exp(-c * m * m) for m in range(M + 1)], dtype=torch.float64).to(DEVICE, dtype)
        lo, hi = first + M - 0.5, first + p - 1 - M + 0.5
        t = lo + (hi - lo) * torch.rand(TOKENS, dtype=dtype, device=DEVICE, generator=random)
        return cls(p, c, float(first), L, values, e, t)

    def sdpa(self, t: Tensor) -> Tensor:
        q, K, V = (t.new_zeros(1, 1, n, 8) for n in (len(t), self.p, self.p))
        q[..., 0], q[..., 1], K[..., 0], K[..., 1], V[..., :1] = t, 1.0, 2 * self.L, -(self.L**2), self.values
        return scaled_dot_product_attention(q, K, V, scale=self.c)[0, 0, :, 0]

    def dense(self, t: Tensor) -> Tensor:
        return (torch.softmax(-self.c * (t[:, None] - self.L) ** 2, -1) @ self.values)[:, 0]

    def exact(self, t: Tensor) -> Tensor:
        scores = -self.c * (t.double()[:, None] - self.L.double()) ** 2
        return (torch.softmax(scores, -1) @ self.values.double())[:, 0]


class Report:
    """Prints a line for everything that is timed; remembers how fast the copy was."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype, self.copy = dtype, math.nan
        print(f"\n{dtype}")
        print(f"{'':34} {'us':>10} {'Gtokens/s':>10} {'TB/s':>7} {'of copy':>8} {'error':>8}")

    def line(self, name: str, t: Tensor, run: Callable[[Tensor], Tensor], exact: Tensor | None = None) -> None:
        """Whatever goes wrong is printed, and the next one has its turn."""
        try:
            spent = microseconds(lambda: run(t))
            error = "" if exact is None else f"{float((run(t)[:CHECKED].double() - exact).abs().max()):.0e}"
        except Exception as problem:
            print(f"{name:34} {type(problem).__name__}: {str(problem).splitlines()[0][:80]}", flush=True)
            torch.cuda.empty_cache()
            return
        bandwidth = 2 * t.numel() * t.element_size() / spent / 1e6  # TB/s
        if name == "copy":
            self.copy = bandwidth
        rate = t.numel() / spent / 1e3
        print(
            f"{name:34} {spent:10.1f} {rate:10.2f} {bandwidth:7.3f} {bandwidth / self.copy:8.1%} {error:>8}", flush=True
        )


def microseconds(run: Callable[[], object]) -> float:
    from triton.testing import do_bench

    return 1e3 * float(do_bench(run, return_mode="median"))


def kernel() -> Any:
    spec = importlib.util.spec_from_file_location("window_triton", KERNEL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["window_triton"] = module
    spec.loader.exec_module(module)
    return module


def windowed(window: Any, case: Case, block: int, warps: int) -> Callable[[Tensor], Tensor]:
    return lambda t: window.attend(t, case.values, case.e, case.first, case.c, block, warps)[0]


def fastest(window: Any, case: Case) -> tuple[int, int]:
    """The block size and the number of warps that take the least time, among those that run."""
    times = {}
    for block in BLOCKS:
        for warps in WARPS:
            try:
                run = windowed(window, case, block, warps)
                times[block, warps] = microseconds(lambda run=run: run(case.t))  # type: ignore[misc]
            except Exception as problem:
                print(f"block {block}, {warps} warps: {type(problem).__name__}: {str(problem)[:80]}")
    return min(times, key=lambda key: times[key], default=(window.BLOCK, window.WARPS))


def compare(report: Report, window: Any, p: int) -> None:
    case = Case.of(p, report.dtype)
    exact = case.exact(case.t[:CHECKED])
    default, (block, warps) = windowed(window, case, window.BLOCK, window.WARPS), fastest(window, case)
    report.line(f"window, p={p}", case.t, default, exact)
    report.line(f"window, p={p}, block {block} warps {warps}", case.t, windowed(window, case, block, warps), exact)
    ordered = case.t.sort().values
    report.line(f"window, p={p}, tokens in order", ordered, default, case.exact(ordered[:CHECKED]))
    few = case.t[:FEWER]
    report.line(f"sdpa, p={p}, {FEWER:,} tokens", few, case.sdpa, exact)
    report.line(f"compiled dense, p={p}, {FEWER:,} tokens", few, torch.compile(case.dense), exact)


def main() -> None:
    if not torch.cuda.is_available():
        print("window_gpu.py: skipped, torch sees no CUDA GPU; window_cpu.py runs anywhere")
        return
    if importlib.util.find_spec("triton") is None:
        print("window_gpu.py: skipped, triton is not installed")
        return
    warnings.filterwarnings("ignore", message="TensorFloat32")  # not wanted: the products are meant to be exact
    torch.set_float32_matmul_precision("highest")
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {TOKENS:,} tokens")
    window = kernel()
    for dtype in WINDOWS:
        report = Report(dtype)
        x = torch.rand(TOKENS, dtype=dtype, device=DEVICE)
        out = torch.empty_like(x)
        report.line("copy", x, out.copy_)
        report.line("tanh", x, lambda t, out=out: torch.tanh(t, out=out))  # type: ignore[misc]
        for p in ANCHORS:
            compare(report, window, p)


if __name__ == "__main__":
    with torch.no_grad():
        main()
