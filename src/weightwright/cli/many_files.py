"""`weightwright check` of several files: a line for each, and one exit code."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import typer

from weightwright.cli.application import FAILED, REFUSED, print_table, progress_shown
from weightwright.limits import LimitOptions


def check_many(
    paths: list[Path], limits: LimitOptions, engine: Literal["joblib", "ray"], jobs: int | None, json: bool
) -> None:
    """Check files through an engine, show what came out in the order in which they were given, and exit.

    Exit code 1 if one is refused, else 2 if one could not be checked.
    """
    with progress_shown(f"checking {len(paths)} files") as progress:
        from weightwright.experiments.machinery.certifying import check_files

        found = {}
        for one in check_files(paths, limits, engine, jobs):
            found[one["file"]] = one
            progress(
                f"{len(found)} of {len(paths)} checked, {sum(x['status'] == 'PROVEN' for x in found.values())} proven"
            )
    facts = [found[str(path)] for path in paths]
    _show_checked(facts, json)
    states = {one["status"] for one in facts}
    if states & {"refused", "error"}:
        raise typer.Exit(REFUSED if "refused" in states else FAILED)


def _show_checked(facts: list[dict[str, Any]], json: bool) -> None:
    from rich.table import Table

    from weightwright.claims.scope import OF_SUBJECT, round_up
    from weightwright.report import to_json
    from weightwright.report.facts.fact_tables import printable

    if json:
        typer.echo(to_json({"files": facts}))
        return
    table = Table("file", "status", "bound", "claim, or why not", "seconds")
    for one in facts:
        bound = "-" if one["bound"] is None else f"{round_up(one['bound'])}{OF_SUBJECT[one['subject']]}"
        said = printable(str(one.get("why", one.get("claim"))))
        table.add_row(printable(str(one["file"])), str(one["status"]), bound, said, f"{one['seconds']:.2f}")
    print_table(table)
