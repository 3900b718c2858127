"""`weightwright approximate`: networks from formulas."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Literal

import typer

import weightwright as ww
from weightwright.cli.application import Draw, Json, Plot, check_outputs, progress_shown, show
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
