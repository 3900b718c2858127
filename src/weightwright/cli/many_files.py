"""`weightwright check` of several files: a line for each, and one exit code."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import typer

from weightwright.cli.application import FAILED, REFUSED, print_table, progress_shown
from weightwright.engines import Engine, run_everywhere
from weightwright.errors import CertificateError, WeightwrightError
from weightwright.limits import LimitOptions

Facts = dict[str, Any]


def check_many(paths: list[Path], limits: LimitOptions, engine: Engine, jobs: int | None, json: bool) -> None:
    """Check files through an engine, show what came out in the order in which they were given, and exit.

    Exit code 1 if one is refused, else 2 if one could not be checked.
    """
    with progress_shown(f"checking {len(paths)} files") as progress:
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


def check_files(
    paths: Sequence[Path], limits: LimitOptions, engine: Engine, jobs: int | None = None
) -> Iterator[Facts]:
    """What the independent checker says of each file, as they become ready: `file`, `status`, `bound`, its
    `subject`, `seconds`.

    paths: saved networks.
    limits: what each may cost.
    engine, jobs: as for `run_everywhere`.

    A file that is refused has "refused" as its status, one that cannot be read or is beyond a limit "error"; both have
    `why`.
    """
    return run_everywhere(_Check(limits), [str(path) for path in paths], engine, jobs)


class _Check:
    """Checks a file; an object and not a closure, so that it can be sent to another process."""

    def __init__(self, limits: LimitOptions) -> None:
        self.limits = limits

    def __call__(self, path: str) -> Facts:
        from weightwright.checker.check import check

        start = time.perf_counter()
        found: Facts = {"file": path, "status": "error", "bound": None}
        try:
            certificate = check(path, **self.limits)
            found |= {"status": certificate.status, "claim": certificate.formula}
            found |= {"bound": certificate.bound, "subject": certificate.subject}
        except CertificateError as error:
            found |= {"status": "refused", "why": str(error)}
        except (WeightwrightError, OSError, ValueError) as error:
            found |= {"why": str(error)}
        return found | {"seconds": time.perf_counter() - start}
