"""float32 against float64 and kernel "dot" against "anchor", all proven, timed in one run: `make bench`.

Every network is what `approximate` returns for the tolerance; the largest error is what a search of a second finds.
Times are the best of some runs each on a million tokens, taken in turns, so that noise hits all alike; ratios are to
the first row.
"""

from __future__ import annotations

import time

import torch
from rich.console import Console
from rich.table import Table

import weightwright as ww

TOKENS, REPEATS = 1_000_000, 3
CASES = (("sin(5*x)", 1e-5), ("sin(50*x)", 1e-4), ("sin(200*x)", 1e-3))
KINDS = tuple((dtype, kernel) for dtype in (torch.float64, torch.float32) for kernel in ("dot", "anchor"))


def nanoseconds(nets: list[ww.AttentionNetwork]) -> list[float]:
    best = [float("inf")] * len(nets)
    x = torch.rand(TOKENS, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 2 - 1
    for _ in range(REPEATS):
        for index, net in enumerate(nets):
            inputs = x.to(net.dtype)
            start = time.perf_counter()
            with torch.no_grad():
                net(inputs)
            best[index] = min(best[index], 1e9 * (time.perf_counter() - start) / TOKENS)
    return best


def built(formula: str, tol: float, dtype: torch.dtype, kernel: str) -> ww.AttentionNetwork | ww.ToleranceError:
    try:
        return ww.approximate(formula, (-1, 1), tol, dtype=dtype, kernel=kernel)
    except ww.ToleranceError as error:
        return error


def compare(table: Table, formula: str, tol: float) -> None:
    results = [built(formula, tol, *kind) for kind in KINDS]
    nets = [net for net in results if isinstance(net, ww.AttentionNetwork)]
    times = dict(zip(nets, nanoseconds(nets), strict=True))
    for (dtype, kernel), net in zip(KINDS, results, strict=True):
        row = (formula, f"{tol:g}", str(dtype).removeprefix("torch."), kernel)
        if isinstance(net, ww.ToleranceError):
            table.add_row(*row, "", f"not below {net.best:.2e}", "", "", "")
            continue
        assert net.certificate is not None
        assert net.certificate.status == "PROVEN"
        table.add_row(
            *row,
            f"{len(net.network.registers):,}",
            f"{net.certificate.bound:.2e}",
            f"{ww.search(net).error:.2e}",
            f"{times[net]:,.0f} ns",
            f"{times[nets[0]] / times[net]:.1f}",
        )
    table.add_section()


def main() -> None:
    table = Table(
        "formula",
        "tolerance",
        "dtype",
        "kernel",
        "anchors",
        "proven bound",
        "largest found",
        "per token",
        "times faster",
    )
    for formula, tol in CASES:
        compare(table, formula, tol)
    console = Console(width=120)
    console.print(f"On [-1, 1], a million tokens, {torch.get_num_threads()} threads:")
    console.print(table)


if __name__ == "__main__":
    main()
