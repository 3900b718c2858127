"""The command line: `weightwright approximate | run | check | info | theorems`. Thin; the work is done elsewhere.

torch and the rest are imported inside the commands, so that `weightwright --help` is quick.
"""

from __future__ import annotations

import dataclasses
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from typer.core import TyperGroup

import weightwright as ww

REFUSED, FAILED = 1, 2  # exit codes

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Net = Annotated[Path, typer.Argument(metavar="NET", help="A saved network (.safetensors).")]
Plot = Annotated[Path | None, typer.Option(metavar="FILE", help="Draw it: a .png, .svg or .pdf.")]


class _Commands(TyperGroup):
    """Errors that users meet are one line on stderr; anything else is a bug and keeps its traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise
        except ww.CertificateError as error:
            _complain(f"the certificate was refused: {error}")
            raise typer.Exit(REFUSED) from error
        except (ww.WeightwrightError, OSError, ValueError, TypeError) as error:
            _complain(str(error))
            raise typer.Exit(FAILED) from error


app = typer.Typer(
    cls=_Commands, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich"
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"weightwright {ww.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Write a function; get attention weights that compute it, and a proof of how well."""


@app.command()
def approximate(
    formula: Annotated[
        str,
        typer.Argument(
            metavar="FORMULA",
            help="In x, as in 'sin(5*x)', or in x, y and z. Put -- before one that begins with a minus.",
        ),
    ],
    domain: Annotated[
        str,
        typer.Option(metavar="'LO HI'", help="Two decimals for each variable, as in '-1 1' or -1,1 or '-1 1, 0 2'."),
    ],
    tol: Annotated[float, typer.Option(help="The error that the network may have, anywhere on the domain.")],
    method: Annotated[
        Literal["spectral", "faithful"], typer.Option(help="Fewest anchors, or the papers' construction.")
    ] = "spectral",
    dtype: Annotated[
        Literal["float64", "float32", "bfloat16"], typer.Option(help="What the network runs in, and the bound covers.")
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
    max_anchors: Annotated[int | None, typer.Option(help="Give up beyond so many anchors.")] = None,
    json: Json = False,
) -> None:
    """Find a network that computes FORMULA within the tolerance, and prove it."""
    for path in (out, plot):
        _writable(path)
    if out is not None and plot is not None and out.resolve() == plot.resolve():
        raise ValueError(f"--out and --plot are the same file, {out}")
    box = ww.Box(*_ends(domain))
    with _progress("starting") as progress:
        from weightwright import report
        from weightwright.compiler.approximate import MAX_ANCHORS
        from weightwright.runtime.module import DTYPES

        if plot is not None:
            report.check_plottable(plot)
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
    facts |= {key: str(path) for key, path in (("saved", out), ("plot", plot)) if path is not None}
    _show(facts, json)


@app.command(context_settings={"ignore_unknown_options": True})  # so that -0.5 is a value
def run(
    path: Net,
    values: Annotated[
        list[str] | None, typer.Argument(metavar="VALUES", help="Numbers; from standard input if there are none.")
    ] = None,
    on_domain: Annotated[
        Literal["raise", "clamp", "ignore"], typer.Option(help="What to do with values outside the domain.")
    ] = "raise",
    json: Json = False,
) -> None:
    """Check the network, run it, and print x, network(x) and the proven bound, a line each.

    A network of several inputs takes as many values at a time; one of sequences all numbers of a sequence, token by
    token, and prints a line for each token. The bound is - where nothing is proven: outside the domain, in a dead zone,
    and where it was only measured or bounds a norm.
    """
    with _progress("checking the certificate"):
        import torch

        from weightwright import report
        from weightwright.adversary import excepted

        net = ww.load(_file(path), on_domain=on_domain)
    tokens, features = net.network.tokens, len(net.network.inputs)
    sequences = tokens not in (None, 1) or len(net.network.outputs) > 1
    count = (tokens or 1) * features
    numbers = _numbers(values or _from_stdin())
    if len(numbers) % count:
        what = f" ({tokens} tokens of {features})" if sequences else ""
        raise ValueError(f"the network takes {count} numbers at a time{what}, and {len(numbers)} were given")
    x = torch.tensor(numbers, dtype=net.dtype).reshape(-1, tokens or 1, features)  # shown as the network takes them
    with torch.no_grad():
        y = net(x)
    if sequences:
        rows = report.value_facts(net, x.tolist(), y.tolist(), excepted(net, x))
    else:
        rows = report.value_facts(net, x[:, 0].tolist(), y[:, 0, 0].tolist(), excepted(net, x))
    if json:
        said = net.certificate
        typer.echo(report.to_json({"file": str(path), "status": said.status if said else None, "values": rows}))
    else:
        typer.echo("\n".join(report.value_lines(net, rows, heading=sys.stdout.isatty())))


@app.command()
def check(
    path: Net,
    search: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Also look so long for an input that exceeds the bound.")
    ] = None,
    json: Json = False,
) -> None:
    """Recompute every claim in the file with the independent checker. Exit code 1 if it disagrees."""
    with _progress("checking the certificate") as progress:
        from weightwright import report

        start = time.perf_counter()
        certificate = ww.check(_file(path))
        seconds = time.perf_counter() - start
        facts = {"file": str(path), **report.certificate_facts(certificate), "seconds": seconds}
        worst, unsearched = None, None
        if search is not None:
            progress("looking for the worst input")
            try:
                worst = ww.search(ww.load(path, verify=False), search)
                facts["search"] = dataclasses.asdict(worst)
            except ww.WeightwrightError as error:  # what was checked is shown all the same
                unsearched = error
    _show(facts, json)
    if unsearched is not None:
        raise unsearched
    if worst is not None and worst.violated:
        raise ww.CertificateError(f"at x = {worst.x!r} the error is {worst.error!r}, above the bound {worst.bound!r}")


@app.command()
def info(path: Net, plot: Plot = None, json: Json = False) -> None:
    """Show what is in the file, as claimed. Nothing is proven or checked."""
    _writable(plot)
    with _progress("reading") as progress:
        from weightwright import report

        if plot is not None:
            report.check_plottable(plot)
        net = ww.load(_file(path), verify=False)
        facts = {"file": str(path), **report.network_facts(net, f"weightwright check {shlex.quote(str(path))}")}
        if plot is not None:
            progress("drawing")
            report.plot_network(net, plot)
            facts["plot"] = str(plot)
    _show(facts, json)


@app.command()
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
    from weightwright.constructions.registry import THEOREMS, find

    one = id is not None and id.lower() != "all"
    if (plot is not None or rates) and not one:
        raise ValueError("--plot and --rates take one theorem: name its ID")
    if write is not None and (id is not None or json):
        raise ValueError("--write builds all theorems and prints no facts: leave out ID and --json")
    chosen = [find(id)] if one and id is not None else list(THEOREMS.values())
    for path in (plot, write):
        _writable(path)
    if id is None and write is None and not json:
        from weightwright.report.theorems import theorem_list

        _print(theorem_list(chosen))
        return
    with _progress("starting") as progress:
        from weightwright.report import theorem_runs

        if write is not None:
            shown, studies = theorem_runs.write(write, chosen, progress), None
        else:
            shown, studies = theorem_runs.run(chosen, plot, rates, progress)
    if json:
        typer.echo(theorem_runs.to_json(shown, studies))
    else:
        _print(theorem_runs.told(shown, studies, one))
    if json and not one:
        typer.echo(theorem_runs.total(shown), err=True)
    if any(result.status == "FAILED" for result in shown):
        raise typer.Exit(REFUSED)


def _ends(domain: str) -> tuple[list[str], list[str]]:
    """The decimals as they were written, two for each variable: a Box rounds them outward."""
    ends = domain.replace(",", " ").split()
    if not ends or len(ends) % 2:
        raise ValueError(
            f"--domain takes two decimals for each variable, as in '-1 1' or -1,1 or '-1 1, 0 2', not {domain!r}"
        )
    return ends[::2], ends[1::2]


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


def _file(path: Path) -> Path:
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder, not a saved network")
    return path


def _writable(path: Path | None) -> None:
    """Say before the work what would stop the file from being written after it."""
    if path is None:
        return
    if path.is_dir():
        raise IsADirectoryError(f"cannot write {path}: it is a folder")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"cannot write {path}: there is no folder {path.parent}")
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(f"cannot write {path}: the folder {path.parent} is not yours to write to")


@contextmanager
def _progress(message: str) -> Iterator[Callable[[str], None]]:
    """A spinner on stderr that says what is being done; nothing where stderr is no terminal."""
    if not sys.stderr.isatty():
        yield lambda message: None
        return
    with Console(stderr=True).status(message) as status:
        yield lambda message: status.update(message)


def _show(facts: dict[str, Any], json: bool) -> None:
    from weightwright import report

    if json:
        typer.echo(report.to_json(facts))
        return
    _print(report.table(facts))


def _print(what: Any) -> None:
    Console(width=None if sys.stdout.isatty() else 120).print(what)


def _complain(message: str) -> None:
    from weightwright.report.tables import printable

    typer.echo(f"error: {printable(message)}", err=True)


def main() -> None:
    app()


if __name__ == "__main__":
    main()
