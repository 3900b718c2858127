"""`weightwright run`, `check` and `info`: what can be done with a saved network."""

from __future__ import annotations

import dataclasses
import shlex
import sys
import time
from pathlib import Path
from typing import Annotated, Literal

import typer

import weightwright as ww
from weightwright.claims.certificate import status_in_words
from weightwright.claims.memory_claim import MemoryClaim
from weightwright.cli.application import (
    Draw,
    Engine,
    Jobs,
    Json,
    Net,
    Plot,
    check_outputs,
    progress_shown,
    saved_file,
    show,
)
from weightwright.cli.limit_options import DEFAULT, Boxes, DeadShare, Megabytes, Seconds, Tokens
from weightwright.cli.many_files import check_many
from weightwright.cli.memory_command import label_file
from weightwright.limits import LimitOptions


def run(
    path: Net,
    values: Annotated[
        list[str] | None, typer.Argument(metavar="VALUES", help="Numbers; from standard input if there are none.")
    ] = None,
    on_domain: Annotated[
        Literal["raise", "clamp", "ignore"], typer.Option(help="What to do with values outside the domain.")
    ] = "raise",
    json: Json = False,
    seconds: Seconds = DEFAULT.seconds,
    megabytes: Megabytes = DEFAULT.megabytes,
    tokens: Tokens = DEFAULT.tokens,
    boxes: Boxes = DEFAULT.boxes,
    dead_share: DeadShare = DEFAULT.dead_share,
) -> None:
    """Check the network, run it, and print x, network(x) and the proven bound, a line each.

    A network of several inputs takes as many values at a time; one of sequences all numbers of a sequence, token by
    token, and prints a line for each token. The bound is - where nothing is proven: outside the domain, in a dead zone,
    and where it was only measured or bounds a norm. A network that remembers a corpus takes a file, a token a line, and
    prints every token with its label.
    """
    with progress_shown("checking the certificate"):
        import torch

        from weightwright import report
        from weightwright.adversary.sequences import excepted

        net = ww.load(
            saved_file(path),
            on_domain=on_domain,
            seconds=seconds,
            megabytes=megabytes,
            tokens=tokens,
            boxes=boxes,
            dead_share=dead_share,
        )
    if net.said is not None and isinstance(net.said.claim, MemoryClaim):
        label_file(net, values, json)
        return
    rows_of, features = net.network.tokens, len(net.network.inputs)
    sequences = rows_of not in (None, 1) or len(net.network.outputs) > 1
    count = (rows_of or 1) * features
    numbers = _numbers(values or _from_stdin())
    if len(numbers) % count:
        what = f" ({rows_of} tokens of {features})" if sequences else ""
        raise ValueError(f"the network takes {count} numbers at a time{what}, and {len(numbers)} were given")
    x = torch.tensor(numbers, dtype=net.dtype).reshape(-1, rows_of or 1, features)  # shown as the network takes them
    with torch.no_grad():
        y = net(x)
    if sequences:
        rows = report.value_facts(net, x.tolist(), y.tolist(), excepted(net, x))
    else:
        rows = report.value_facts(net, x[:, 0].tolist(), y[:, 0, 0].tolist(), excepted(net, x))
    said = net.certificate
    if json:
        why = {"why": said.why} if said is not None and said.why else {}
        status = said.status if said is not None else None
        typer.echo(report.to_json({"file": str(path), "status": status, **why, "values": rows}))
    else:
        typer.echo("\n".join(report.value_lines(net, rows, heading=sys.stdout.isatty())))
        if said is not None and said.status != "PROVEN":  # not among the values, which may go to another program
            typer.echo(f"status {report.printable(status_in_words(said.status, said.why))}", err=True)


def check(
    paths: Annotated[list[Path], typer.Argument(metavar="NET...", help="Saved networks (.safetensors).")],
    search: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", min=0, help="Also look so long for an input that exceeds the bound."),
    ] = None,
    engine: Engine = "joblib",
    jobs: Jobs = None,
    json: Json = False,
    seconds: Seconds = DEFAULT.seconds,
    megabytes: Megabytes = DEFAULT.megabytes,
    tokens: Tokens = DEFAULT.tokens,
    boxes: Boxes = DEFAULT.boxes,
    dead_share: DeadShare = DEFAULT.dead_share,
) -> None:
    """Recompute every claim in the file with the independent checker. Exit code 1 if it disagrees.

    Several files are checked at once, on all cores or on a ray cluster; exit code 1 if any of them is refused.
    """
    limits: LimitOptions = {
        "seconds": seconds, "megabytes": megabytes, "tokens": tokens, "boxes": boxes, "dead_share": dead_share,
    }  # fmt: skip
    if len(paths) > 1 or engine == "ray":
        if search is not None:
            raise ValueError("search looks into one file at a time; give one, or leave --search away")
        check_many([saved_file(one) for one in paths], limits, engine, jobs, json)
        return
    (path,) = paths
    with progress_shown("checking the certificate") as progress:
        from weightwright import report

        start = time.perf_counter()
        certificate = ww.check(saved_file(path), **limits)
        took = time.perf_counter() - start
        facts = {"file": str(path), **report.certificate_facts(certificate), "seconds": took}
        worst, unsearched = None, None
        if search is not None:
            progress("looking for the worst input")
            try:
                worst = ww.search(ww.load(path, verify=False, **limits), search)
                facts["search"] = dataclasses.asdict(worst)
            except ww.WeightwrightError as error:  # what was checked is shown all the same
                unsearched = error
    show(facts, json)
    if unsearched is not None:
        raise unsearched
    if worst is not None and worst.violated:
        raise ww.CertificateError(f"at x = {worst.x!r} the error is {worst.error!r}, above the bound {worst.bound!r}")


def info(
    path: Net,
    plot: Plot = None,
    draw: Draw = None,
    json: Json = False,
    seconds: Seconds = DEFAULT.seconds,
    megabytes: Megabytes = DEFAULT.megabytes,
    tokens: Tokens = DEFAULT.tokens,
    boxes: Boxes = DEFAULT.boxes,
) -> None:
    """Show what is in the file, as claimed. Nothing is proven or checked.

    --plot is for functions of one or two variables: the function and the error. --draw shows any network's layers.
    """
    check_outputs(plot=plot, draw=draw)
    with progress_shown("reading") as progress:
        from weightwright import report

        net = ww.load(saved_file(path), verify=False, seconds=seconds, megabytes=megabytes, tokens=tokens, boxes=boxes)
        facts = {"file": str(path), **report.network_facts(net, f"weightwright check {shlex.quote(str(path))}")}
        if plot is not None:
            progress("drawing")
            report.plot_network(net, plot)
            facts["plot"] = str(plot)
        if draw is not None:
            progress("drawing")
            report.draw_network(net, draw)
            facts["drawing"] = str(draw)
    show(facts, json)


def _numbers(texts: list[str]) -> list[float]:
    def number(text: str) -> float:
        try:
            return float(text)
        except ValueError:
            raise ValueError(f"{text!r} is not a number") from None

    return [number(text) for text in texts]


def _from_stdin() -> list[str]:
    if sys.stdin.isatty():
        typer.echo("reading values; end with Ctrl-D", err=True)
    texts = sys.stdin.buffer.read().decode(errors="replace").split()
    if not texts:
        raise ValueError("no values: give them after the file, or on standard input")
    return texts
