"""`weightwright theorems` and `weightwright reproduce`: the papers' theorems, built, and their studies, run again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from weightwright.cli.application import (
    REFUSED,
    Engine,
    Jobs,
    Json,
    Plot,
    check_outputs,
    complain,
    print_table,
    progress_shown,
)

#: Exit code of a program that the user stopped, as shells count it: 128 + SIGINT.
_STOPPED = 130


def theorems(
    id: Annotated[
        str | None, typer.Argument(metavar="ID", help="Build this one, as in UA-2; 'all' for all of them.")
    ] = None,
    rates: Annotated[bool, typer.Option("--rates", help="Also how the error moves with the parameters.")] = False,
    plot: Plot = None,
    write: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Build all, and write the page with figures beside it.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print a JSON list of what was built and nothing else.")] = False,
) -> None:
    """List the theorems; or build one, measure it and show how it came out. Exit code 1 if one fails."""
    from weightwright.papers.theorems.registry import THEOREMS, find

    one = id is not None and id.lower() != "all"
    if (plot is not None or rates) and not one:
        raise ValueError("--plot and --rates take one theorem: name its ID")
    if write is not None and (id is not None or json):
        raise ValueError("--write builds all theorems and prints no facts: leave out ID and --json")
    chosen = [find(id)] if one and id is not None else list(THEOREMS.values())
    check_outputs(plot=plot, write=write)
    if id is None and write is None and not json:
        from weightwright.papers.pages.theorem_tables import theorem_list

        print_table(theorem_list(chosen))
        return
    with progress_shown("starting") as progress:
        from weightwright.papers.pages.theorem_page import run, write_page
        from weightwright.papers.pages.theorem_tables import theorem_summary, theorem_table, theorems_json, total_time

        if write is not None:
            shown, studies = write_page(write, chosen, progress), None
        else:
            shown, studies = run(chosen, plot, rates, progress)
    if json:
        typer.echo(theorems_json(shown, studies))
    else:
        print_table(theorem_table(shown[0], studies or ()) if one else theorem_summary(shown))
    if json and not one:
        typer.echo(total_time(shown), err=True)
    if any(result.status == "FAILED" for result in shown):
        raise typer.Exit(REFUSED)


def reproduce(
    study: Annotated[str, typer.Argument(metavar="ID", help="UA-E1, ..., LR-E1; or all, for every study.")],
    quick: Annotated[bool, typer.Option("--quick", help="Small settings: all studies in some minutes.")] = False,
    full: Annotated[bool, typer.Option("--full", help="The paper's own sizes, for a GPU.")] = False,
    seeds: Annotated[int | None, typer.Option(metavar="N", min=1, help="Runs with different random numbers.")] = None,
    epochs: Annotated[int | None, typer.Option(metavar="N", min=1, help="Epochs of training, for one study.")] = None,
    device: Annotated[str, typer.Option(help="Where models are trained: cpu, cuda, cuda:1.")] = "cpu",
    engine: Engine = "joblib",
    jobs: Jobs = None,
    data: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="LR-E1: a corpus, a token a line, the label last; several: give it again."),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="PATTERN", help="Work on these parts only, as in 'trained-*'.")
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(metavar="N", min=0.0, help="Stop after so long; the same command goes on.")
    ] = None,
    join: Annotated[
        list[Path] | None, typer.Option(metavar="DIR", help="Take parts that are missing from this folder of a run.")
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where records and figures go.")] = Path("reproduction"),
    json: Json = False,
) -> None:
    """Run a study of the papers again, trained models beside constructed networks, and say what came out.

    DIR gets ID.json (all numbers, settings, seeds, versions, times), ID.png, ID.svg and ID.md. A run that was
    interrupted goes on where it stopped when the same command is given again: DIR/ID.parts keeps finished parts, and
    every minute where a training stands. Parts can be made on several machines and devices, and joined.
    """
    if quick and full:
        raise ValueError("--quick and --full contradict each other; give one of them")
    if epochs is not None and study.lower() == "all":
        raise ValueError(f"--epochs {epochs} is for one study: give its ID in the place of all")
    for path in data or ():
        if not path.is_file():
            raise FileNotFoundError(f"--data {path}: there is no such file")
    with progress_shown(f"reading what {study} needs") as progress:
        from weightwright.papers.experiments.catalogue import STUDIES, find_study
        from weightwright.papers.experiments.machinery.study import Options
        from weightwright.papers.experiments.reproducing import UnfinishedError
        from weightwright.papers.experiments.reproducing import reproduce as run_study

        asked = list(STUDIES.values()) if study.lower() == "all" else [find_study(study)]
        options = Options(quick, seeds, device, tuple(data or ()), full, epochs)
        records = []
        for one in asked:
            try:
                found = run_study(one, out, options, engine, jobs, progress, only or (), minutes, join or ())
                records.append(found)
            except UnfinishedError as unfinished:
                complain(f"{unfinished}; what is there stands in {out}, and the same command goes on with it")
                raise typer.Exit(_STOPPED) from None
            except KeyboardInterrupt:
                complain(f"stopped in {one.id}; what is finished stands in {out}, and the same command goes on with it")
                raise typer.Exit(_STOPPED) from None
    if json:
        from weightwright.papers.experiments.machinery.study_units import write_json

        typer.echo(write_json(records[0] if len(records) == 1 and study.lower() != "all" else {"studies": records}))
        return
    for record in records:
        _show(record, out)


def _show(record: dict[str, Any], out: Path) -> None:
    from rich.table import Table

    from weightwright.papers.experiments.machinery.trends import trend_in_words
    from weightwright.papers.experiments.study_tables import cell_text

    typer.echo(f"{record['study']}: {record['title']} ({record['source']})")
    table = Table()
    for column in record["columns"]:
        table.add_column(column, overflow="fold")
    for row in record["rows"]:
        table.add_row(*map(cell_text, row))
    print_table(table)
    for verdict in record["verdicts"]:
        typer.echo(f"{verdict['reproduced']}: {verdict['claim']}: {verdict['because']}")
    for trend in record["trends"]:
        typer.echo(f"trend: {trend_in_words(trend)}")
    for cut in record["settings"]["cut"]:
        typer.echo(f"smaller than in the paper: {cut}")
    typer.echo(f"written: {out / record['study']}.json, .png, .svg, .md")


COMMANDS = (reproduce, theorems)
