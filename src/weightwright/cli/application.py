"""The application that the commands belong to, and what they share: errors, files, progress, output."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup

import weightwright as ww

REFUSED, FAILED = 1, 2  # exit codes

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Net = Annotated[Path, typer.Argument(metavar="NET", help="A saved network (.safetensors).")]
Plot = Annotated[Path | None, typer.Option(metavar="FILE", help="Plot it: a .png, .svg or .pdf.")]
Draw = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Draw the network, layers and heads: a .png, .svg or .pdf.")
]


class _Commands(TyperGroup):
    """Errors that users meet are one line on stderr; anything else is a bug and keeps its traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise
        except ww.CertificateError as error:
            complain(f"the certificate was refused: {error}")
            raise typer.Exit(REFUSED) from error
        except (ww.WeightwrightError, OSError, ValueError, TypeError) as error:
            complain(str(error))
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


def saved_file(path: Path) -> Path:
    """The file, or an error where it is a folder."""
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder, not a saved network")
    return path


def apart(**files: Path | None) -> None:
    """Say before the work what would stop the files from being written after it; no two options name one file."""
    seen: dict[Path, str] = {}
    for option, path in files.items():
        if path is None:
            continue
        writable(path)
        before = seen.setdefault(path.resolve(), option)
        if before != option:
            raise ValueError(f"--{before} and --{option} are the same file, {path}")


def ends(domain: str) -> tuple[list[str], list[str]]:
    """The decimals as they were written, two for each variable: a Box rounds them outward."""
    numbers = domain.replace(",", " ").replace(";", " ").split()
    if not numbers or len(numbers) % 2:
        raise ValueError(
            f"--domain takes two decimals for each variable, as in '-1 1' or -1,1 or '-1 1; 0 2', not {domain!r}"
        )
    return numbers[::2], numbers[1::2]


def writable(path: Path | None) -> None:
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
def progress_shown(message: str) -> Iterator[Callable[[str], None]]:
    """A spinner on stderr that says what is being done; nothing where stderr is no terminal."""
    if not sys.stderr.isatty():
        yield lambda message: None
        return
    with Console(stderr=True).status(message) as status:
        yield lambda message: status.update(message)


def show(facts: dict[str, Any], json: bool) -> None:
    from weightwright import report

    if json:
        typer.echo(report.to_json(facts))
        return
    print_table(report.table(facts))


def print_table(what: Any) -> None:
    Console(width=None if sys.stdout.isatty() else 120).print(what)


def complain(message: str) -> None:
    from weightwright.report.facts.fact_tables import printable

    typer.echo(f"error: {printable(message)}", err=True)
