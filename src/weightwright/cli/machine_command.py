"""`weightwright selftest`: what this machine makes of the rounding model that certificates lean on."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

import weightwright as ww
from weightwright.cli.application import Json, print_table, progress_shown

if TYPE_CHECKING:
    from weightwright.runtime.selftest import Measured


def selftest(
    short: Annotated[bool, typer.Option("--short", help="Fewer inputs: seconds instead of a minute.")] = False,
    device: Annotated[str, typer.Option(help="Where torch computes: cpu, or cuda for a GPU.")] = "cpu",
    seed: Annotated[int, typer.Option(help="Of the inputs that are drawn.")] = 0,
    json: Json = False,
) -> None:
    """Measure this machine against the rounding model. Exit code 1 if it departs from it.

    Every bfloat16 number at batches of 1, 7 and 4,096; exp, division, products and sums in float32 and float64 near
    subnormal numbers, ends and ties; one thread and all. A search and no proof.
    """
    with progress_shown("measuring sums, products, divisions and exponentials"):
        from weightwright import report

        rows = ww.selftest(short, device, seed)
    departs = [row for row in rows if row.departs]
    if json:
        facts = [{**dataclasses.asdict(row), "departs": row.departs} for row in rows]
        typer.echo(report.to_json({"device": device, "seed": seed, "agrees": not departs, "rows": facts}))
    else:
        print_table(_table(rows))
    if departs:
        names = ", ".join(sorted({f"{row.operation} in {row.dtype} (kernel {row.kernel!r})" for row in departs}))
        raise ww.CertificateError(f"this machine departs from the rounding model: {names}; no bound holds here")


def _table(rows: list[Measured]) -> Table:
    """One line for each row of the model: found, and allowed in brackets."""
    table = Table(
        "operation", "dtype", "kernel", "relative error, u", "below normal, η", "subnormal inputs", "results", ""
    )
    for row in rows:
        flushed = "taken for 0" if row.flushes else "kept"
        table.add_row(
            row.operation, row.dtype, row.kernel, f"{row.units:.3g} ({row.allowed.units})",
            f"{row.lost:.3g} ({row.allowed.lost})", f"{flushed} ({'may be' if row.allowed.flushes else 'kept'})",
            f"{row.results:,}", "DEPARTS" if row.departs else "agrees",
        )  # fmt: skip
    return table
