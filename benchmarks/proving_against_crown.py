"""Proving a head: Taylor models and the checker here against CROWN from auto_LiRPA, in one run: `make bench`.

Both bound |head - formula| over [-1, 1] for the same stored weights, in exact arithmetic (CROWN knows no rounding).
CROWN is given the interval cut into more and more parts; its bounds are plain floats. Without auto_LiRPA only our side
is run.
"""

from __future__ import annotations

import time

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

import weightwright as ww
from weightwright.checker.one_layer.stored import read_one_layer

FORMULA, TOL = "x", 1e-6
PARTS = (1, 64, 4096, 65_536)


class Difference(nn.Module):
    """head(x) - x with the scores of the stored head, as CROWN sees it."""

    def __init__(self, net: ww.AttentionNetwork) -> None:
        super().__init__()
        (head,) = read_one_layer(net.network).heads
        k, c, v = (torch.tensor([float(x) for x in part]) for part in (head.slopes, head.offsets, head.values))
        self.score, self.mix = nn.Linear(1, len(k)).double(), nn.Linear(len(k), 1, bias=False).double()
        with torch.no_grad():
            self.score.weight[:, 0], self.score.bias[:], self.mix.weight[0] = k, c, v

    def forward(self, x: Tensor) -> Tensor:
        return self.mix(torch.softmax(self.score(x), dim=-1)) - x


def ours(table: Table) -> ww.AttentionNetwork:
    start = time.perf_counter()
    net = ww.approximate(FORMULA, (-1, 1), TOL)
    proven = time.perf_counter() - start
    assert net.certificate is not None
    boxes = len(net.certificate.claim.leaf.boxes)
    table.add_row(
        "weightwright, design, proof and check", f"{boxes}", f"{net.certificate.bound:.3e}", f"{proven:.2f} s"
    )
    return net


def crown(table: Table, net: ww.AttentionNetwork) -> None:
    try:
        from auto_LiRPA import BoundedModule, BoundedTensor
        from auto_LiRPA.perturbations import PerturbationLpNorm
    except ImportError as problem:
        table.add_row("CROWN", "", f"skipped, auto_LiRPA cannot be imported: {str(problem).partition(' (')[0]}", "")
        return
    for parts in PARTS:
        edges = torch.linspace(-1, 1, parts + 1, dtype=torch.float64)[:, None]
        lo, hi = edges[:-1], edges[1:]
        middle = (lo + hi) / 2
        start = time.perf_counter()
        try:
            bounded = BoundedModule(Difference(net), middle, device="cpu")
            inputs = BoundedTensor(middle, PerturbationLpNorm(norm=float("inf"), x_L=lo, x_U=hi))
            low, high = bounded.compute_bounds(x=(inputs,), method="CROWN")
            found = f"{float(torch.maximum(low.abs(), high.abs()).max()):.3e}"
        except Exception as problem:  # whatever the peer does not support is printed, and the next one has its turn
            found = f"{type(problem).__name__}: {str(problem).splitlines()[0][:60]}"
        table.add_row("CROWN", f"{parts:,}", found, f"{time.perf_counter() - start:.2f} s")


def measured(net: ww.AttentionNetwork) -> float:
    x = np.linspace(-1, 1, 200_001)[:, None]
    with torch.no_grad():
        return float((Difference(net)(torch.tensor(x))).abs().max())


def main() -> None:
    table = Table("who", "boxes", "bound on the error", "time")
    net = ours(table)
    crown(table, net)
    console = Console(width=110)
    anchors = len(net.network.registers)
    console.print(f"{FORMULA} on [-1, 1], {anchors} anchors; the error is {measured(net):.3e} at 200,001 points:")
    console.print(table)


if __name__ == "__main__":
    main()
