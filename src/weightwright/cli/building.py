"""`weightwright approximate` and `weightwright theorems`: networks from formulas and from the papers."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Literal

import typer

import weightwright as ww
from weightwright.cli.application import REFUSED, Draw, Json, Plot, check_outputs, print_table, progress_shown, show
from weightwright.cli.typed_arguments import read_ends


def approximate(
    formula: Annotated[
        str,
        typer.Argument(
            metavar="FORMULA",
            help="In x, as in 'sin(5*x)', or in x, y and z.",
        ),
    ],
    domain: Annotated[
        str,
        typer.Option(metavar="'LO HI'", help="Two numbers for each variable, as in '-1 1' or -pi,pi or '-1 1; 0 2'."),
    ],
    tol: Annotated[float, typer.Option(help="The error that the network may have, anywhere on the domain.")],
    method: Annotated[
        Literal["spectral", "faithful"], typer.Option(help="Fewest anchors, or the papers' construction.")
    ] = "spectral",
    dtype: Annotated[
        Literal["float64", "float32", "bfloat16"],
        typer.Option(metavar="DTYPE", help="What it runs in, and the bound covers: float64, float32 or bfloat16."),
    ] = "float64",
    kernel: Annotated[
        Literal["dot", "anchor"],
        typer.Option(help="Ordinary attention, or a window of nearby anchors with one exponential per token."),
    ] = "dot",
    sees: Annotated[
        Literal["registers", "self"],
        typer.Option(help="For a formula that bends: keys on registers only, or fewer keys, the token being one."),
    ] = "registers",
    dead_zone: Annotated[
        float, typer.Option(metavar="D", help="For a formula that jumps: claim nothing within D of a jump.")
    ] = 0.0,
    proof: Annotated[
        Literal["proven", "measured"], typer.Option(help="Prove the bound, or only search for the largest error.")
    ] = "proven",
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Save the network: a .safetensors.")] = None,
    plot: Plot = None,
    draw: Draw = None,
    max_anchors: Annotated[int | None, typer.Option(help="Give up beyond this number of anchors.")] = None,
    json: Json = False,
) -> None:
    """Find a network that computes FORMULA within the tolerance, and prove it."""
    check_outputs(out=out, plot=plot, draw=draw)
    box = ww.Box(*read_ends(domain))
    with progress_shown("starting") as progress:
        from weightwright import report
        from weightwright.approximation.approximate import MAX_ANCHORS
        from weightwright.runtime.module import DTYPES

        limit = MAX_ANCHORS if max_anchors is None else max_anchors
        progress("looking for a head")
        start = time.perf_counter()
        net = ww.approximate(
            formula,
            box,
            tol,
            method,
            dtype=DTYPES[dtype],
            kernel=kernel,
            sees=sees,
            dead_zone=dead_zone,
            proof=proof,
            max_anchors=limit,
            progress=progress,
        )
        facts = report.approximation_facts(net, tol, method, time.perf_counter() - start)
        if out is not None:
            net.save(out)
        if plot is not None:
            progress("drawing")
            report.plot_network(net, plot)
        if draw is not None:
            progress("drawing")
            report.draw_network(net, draw)
    written = (("saved", out), ("plot", plot), ("drawing", draw))
    facts |= {key: str(path) for key, path in written if path is not None}
    show(facts, json)


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
    from weightwright.theorems.registry import THEOREMS, find

    one = id is not None and id.lower() != "all"
    if (plot is not None or rates) and not one:
        raise ValueError("--plot and --rates take one theorem: name its ID")
    if write is not None and (id is not None or json):
        raise ValueError("--write builds all theorems and prints no facts: leave out ID and --json")
    chosen = [find(id)] if one and id is not None else list(THEOREMS.values())
    check_outputs(plot=plot, write=write)
    if id is None and write is None and not json:
        from weightwright.report.theorems.theorem_tables import theorem_list

        print_table(theorem_list(chosen))
        return
    with progress_shown("starting") as progress:
        from weightwright.report.theorems import theorem_page as theorem_runs

        if write is not None:
            shown, studies = theorem_runs.write(write, chosen, progress), None
        else:
            shown, studies = theorem_runs.run(chosen, plot, rates, progress)
    if json:
        typer.echo(theorem_runs.to_json(shown, studies))
    else:
        print_table(theorem_runs.told(shown, studies, one))
    if json and not one:
        typer.echo(theorem_runs.total(shown), err=True)
    if any(result.status == "FAILED" for result in shown):
        raise typer.Exit(REFUSED)
