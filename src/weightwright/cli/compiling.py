"""`weightwright compile`: a function or module from a Python file to a network."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

import weightwright as ww
from weightwright.cli.app import Draw, Json, apart, ends, progress_shown, show
from weightwright.cli.loading import Target, load_target, told_where


def compile(
    target: Annotated[
        str,
        typer.Argument(
            metavar="FILE.py:NAME",
            help="The function or module, in a file or in a module (package.module:name); dots in the name go deeper."
            " A class of torch modules, or a function without arguments, is called to get it.",
        ),
    ],
    domain: Annotated[
        str,
        typer.Option(
            metavar="'LO HI'",
            help="Two decimals for each feature, as in '80 120; 0.1 2'; two alone stand for all features.",
        ),
    ],
    tol: Annotated[float, typer.Option(help="The error that the network may have, anywhere on the domain.")],
    tokens: Annotated[
        int | None, typer.Option(metavar="N", help="How many tokens there are; any number if each is by itself.")
    ] = None,
    features: Annotated[
        int | None, typer.Option(metavar="N", help="Numbers per token, where --domain has one interval for all.")
    ] = None,
    dtype: Annotated[
        Literal["float64", "float32", "bfloat16"], typer.Option(help="What the network runs in, and the bound covers.")
    ] = "float64",
    proof: Annotated[
        Literal["proven", "measured"], typer.Option(help="Prove the bound, or only search for the largest error.")
    ] = "proven",
    kernel: Annotated[
        Literal["dot", "anchor"],
        typer.Option(help="Ordinary attention, or for one function of one number a window of nearby anchors."),
    ] = "dot",
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Save the network: a .safetensors.")] = None,
    draw: Draw = None,
    json: Json = False,
) -> None:
    """Compile a PyTorch function or module to an attention-only network, and prove how well it computes it.

    It takes a tensor of shape (tokens, features). The file is run, as Python would run it.
    """
    apart(out=out, draw=draw)
    lo, hi = ends(domain)
    box: Any = ww.Box(lo, hi) if len(lo) > 1 else (lo[0], hi[0])
    with progress_shown("starting") as progress:
        from weightwright import report
        from weightwright.runtime.module import DTYPES

        if draw is not None:
            report.check_plottable(draw)
        progress(f"loading {target}")
        loaded = load_target(target)
        start = time.perf_counter()
        with told_where(loaded.file):
            net = ww.compile(
                loaded.function,
                box,
                tol,
                dtype=DTYPES[dtype],
                kernel=kernel,
                tokens=tokens,
                features=features,
                proof=proof,
                progress=progress,
            )
        facts = _facts(net, loaded, target, tol, time.perf_counter() - start)
        if out is not None:
            net.save(out)
        if draw is not None:
            progress("drawing")
            report.draw_network(net, draw)
    facts |= {key: str(path) for key, path in (("saved", out), ("drawing", draw)) if path is not None}
    show(facts, json)


def _facts(net: ww.AttentionNetwork, loaded: Target, target: str, tol: float, seconds: float) -> dict[str, Any]:
    from weightwright import report

    assert net.certificate is not None
    said = report.certificate_facts(net.certificate)
    called = {"called": loaded.called} if loaded.called else {}
    return {"target": target, **called, **report.compilation_facts(net, said, tol, seconds)}
