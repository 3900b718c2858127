"""Spectral against faithful heads, both proven and checked, in one run: `make bench`.

For x on [-1, 1] at proven error 1e-4 (p and beta of the faithful head from Corollary G.6), and at other
tolerances where the faithful head still fits; then the spectral head alone where it does not.
"""

from __future__ import annotations

import time

import torch
from rich.console import Console
from rich.table import Table

import weightwright as ww
from weightwright.network import cost

TOKENS = 20_000
REPEATS = 5


def seconds_per_token(nets: list[ww.AttentionNetwork]) -> list[float]:
    """The best of some runs each, taken in turns, so that noise hits all alike."""
    best = [float("inf")] * len(nets)
    for _ in range(REPEATS):
        for index, net in enumerate(nets):
            assert net.certificate is not None
            lo, hi = float(net.certificate.domain.lo[0]), float(net.certificate.domain.hi[0])
            tokens = TOKENS if len(net.network.registers) < 10_000 else TOKENS // 40
            x = torch.linspace(lo, hi, tokens, dtype=torch.float64)[:, None]
            start = time.perf_counter()
            with torch.no_grad():
                net(x)
            best[index] = min(best[index], (time.perf_counter() - start) / tokens)
    return best


def compare(table: Table, formula: str, tol: float) -> None:
    nets = [ww.approximate(formula, (-1, 1), tol, method=method) for method in ("spectral", "faithful")]
    times = seconds_per_token(nets)
    costs = [cost(net.network) for net in nets]
    for name, net, spent, price in zip(("spectral", "faithful"), nets, times, costs, strict=True):
        assert net.certificate is not None
        assert net.certificate.status == "PROVEN"
        table.add_row(
            formula,
            f"{tol:g}",
            name,
            f"{net.certificate.bound:.2e}",
            f"{price.anchors:,}",
            f"{price.bytes:,}",
            f"{1e9 * spent:,.0f} ns",
        )
    ratios = (costs[1].anchors / costs[0].anchors, costs[1].bytes / costs[0].bytes, times[1] / times[0])
    table.add_row("", "", "ratio", "", *(f"{ratio:,.0f}" for ratio in ratios), style="bold")
    table.add_section()


def main() -> None:
    console = Console(width=110)
    table = Table("formula", "tolerance", "head", "proven bound", "anchors", "bytes", "time per token")
    for formula, tol in (("x", 1e-2), ("x", 1e-3), ("x", 1e-4), ("sin(5*x)", 1e-3)):
        compare(table, formula, tol)
    console.print("Spectral against faithful heads on [-1, 1], float64, all PROVEN by the independent checker:")
    console.print(table)
    alone = Table("formula", "tolerance", "anchors", "proven bound", "faithful would need")
    for tol in (1e-6, 1e-8, 1e-10):
        net = ww.approximate("x", (-1, 1), tol)
        assert net.certificate is not None
        alone.add_row(
            "x", f"{tol:g}", str(len(net.network.registers)), f"{net.certificate.bound:.2e}", f"{4 / tol:,.0f}"
        )
    console.print(alone)


if __name__ == "__main__":
    main()
