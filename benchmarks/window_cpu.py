"""Windowed heads against ordinary attention on the same anchors, on the CPU, in one run: `make bench`.

dot: softmax(c Q K^T) V, a slice of the tokens at a time; sdpa: torch's scaled_dot_product_attention, sizes padded to 8;
window: `window_kernel`. Times are the best of some runs each, taken in turns, so that noise hits all alike.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from weightwright.runtime.kernels.window_kernel import attend, decay

ANCHORS = (16, 64, 256, 1024, 4096)
TOKENS = 1_000_000
REPEATS = 5
SCORES = 2**27  # that the slow heads may compute in one run, so that it ends
AT_ONCE = 2**22  # of which so many in memory
WINDOWS = {torch.float64: (0.25, 12), torch.float32: (0.5, 6)}  # c, M: the tail is below the unit roundoff


class Case:
    """p anchors around 0, values between -1 and 1, queries that see a whole window."""

    def __init__(self, p: int, dtype: torch.dtype) -> None:
        self.p, self.dtype = p, dtype
        self.c, most = WINDOWS[self.dtype]
        self.M = min(most, (self.p - 1) // 2)
        random = torch.Generator().manual_seed(0)
        self.L = torch.arange(self.p, dtype=torch.float64) - self.p // 2
        self.values = 2 * torch.rand(self.p, 1, dtype=self.dtype, generator=random) - 1
        lo, hi = float(self.L[self.M]) - 0.5, float(self.L[-1 - self.M]) + 0.5
        self.t = (lo + (hi - lo) * torch.rand(TOKENS, dtype=torch.float64, generator=random)).to(self.dtype)
        self.K = torch.stack([2 * self.L, -(self.L**2)], 1).to(self.dtype)

    def window(self, t: Tensor) -> Tensor:
        return attend(t, self.values, decay(self.c, self.M, self.dtype), float(self.L[0]), self.c)

    def dot(self, t: Tensor) -> Tensor:
        Q = self.c * torch.stack([t, torch.ones_like(t)], 1)
        slices = Q.split(max(1, AT_ONCE // self.p))
        return torch.cat([torch.softmax(part @ self.K.T, -1) @ self.values for part in slices])

    def sdpa(self, t: Tensor) -> Tensor:
        q, K, V = (torch.zeros(1, 1, n, 8, dtype=self.dtype) for n in (len(t), self.p, self.p))
        q[..., 0], q[..., 1], K[..., :2], V[..., :1] = t, 1.0, self.K, self.values
        return scaled_dot_product_attention(q, K, V, scale=self.c)[0, 0, :, :1]

    def exact(self, t: Tensor) -> Tensor:
        """Attention over all anchors in float64, from squares: no large scores cancel."""
        scores = -self.c * (t.double()[:, None] - self.L) ** 2
        return torch.softmax(scores, -1) @ self.values.double()


def nanoseconds(runs: dict[str, tuple[Callable[[Tensor], Tensor], Tensor]]) -> dict[str, float]:
    """Per token, the best of some runs each."""
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(REPEATS):
        for name, (head, t) in runs.items():
            start = time.perf_counter()
            head(t)
            best[name] = min(best[name], 1e9 * (time.perf_counter() - start) / len(t))
    return best


def main() -> None:
    console = Console(width=120)
    threads = torch.get_num_threads()
    console.print(
        f"{TOKENS:,} tokens, torch {torch.__version__}, {threads} threads, {platform.machine()}; ns per token"
    )
    table = Table("p", "dtype", "M", "dot", "sdpa", "window", "dot/window", "sdpa/window", "window off", "dot off")
    for p in ANCHORS:
        for dtype in WINDOWS:
            case = Case(p, dtype)
            few, some = case.t[: SCORES // p], case.t[:4096]
            took = nanoseconds({"dot": (case.dot, few), "sdpa": (case.sdpa, few), "window": (case.window, case.t)})
            off = {
                name: float((head(some).double() - case.exact(some)).abs().max())
                for name, head in (("window", case.window), ("dot", case.dot))
            }
            table.add_row(
                str(p),
                str(dtype).removeprefix("torch."),
                str(case.M),
                *(f"{took[name]:,.0f}" for name in ("dot", "sdpa", "window")),
                *(f"{took[name] / took['window']:.1f}" for name in ("dot", "sdpa")),
                *(f"{off[name]:.0e}" for name in ("window", "dot")),
            )
    console.print(table)
    console.print("off: the largest difference from attention over all anchors in float64, on 4,096 tokens;")
    console.print("values lie in [-1, 1]. dot loses digits where scores of size c p^2 / 4 cancel.")


if __name__ == "__main__":
    with torch.no_grad():
        main()
