"""The application that the commands belong to, and what they share: errors, files, progress, output."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from typer.core import TyperGroup

import weightwright as ww
from weightwright.cli.typed_arguments import name_options, show_flags
from weightwright.export.figures import check_plottable
from weightwright.output_files import check_writable
from weightwright.progress import Tell, show_progress

REFUSED, FAILED = 1, 2  # exit codes

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Net = Annotated[Path, typer.Argument(metavar="NET", help="A saved network (.safetensors).")]
Plot = Annotated[Path | None, typer.Option(metavar="FILE", help="Plot it: a .png, .svg or .pdf.")]
Draw = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Draw the network, layers and heads: a .png, .svg or .pdf.")
]

Engine = Annotated[
    Literal["joblib", "ray"], typer.Option(help="Who runs the parts: this machine's cores, or a ray cluster.")
]
Jobs = Annotated[int | None, typer.Option(metavar="N", min=1, help="Processes at a time; one per core unless given.")]


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
            complain(name_options(str(error), self._options(ctx)))
            raise typer.Exit(FAILED) from error

    def get_params(self, ctx: Any) -> list[Any]:
        return show_flags(super().get_params(ctx))

    def _options(self, ctx: Any) -> dict[str, str]:
        """The arguments of the command that was run, with the options that they are."""
        command = self.get_command(ctx, ctx.invoked_subcommand or "")
        params = [] if command is None else command.params
        return {str(param.name): param.opts[0] for param in params if param.opts[0].startswith("--")}


app = typer.Typer(cls=_Commands, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode="rich")


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


def check_outputs(**files: Path | None) -> None:
    """Say before the work what would stop the files from being written after it; no two options name one file."""
    seen: dict[Path, str] = {}
    for option, path in files.items():
        before = option if path is None else seen.setdefault(path.resolve(), option)
        if before != option:
            raise ValueError(f"--{before} and --{option} are the same file, {path}")
    for path, option in seen.items():
        named = files[option] or path
        if option in ("plot", "draw"):
            check_plottable(named)
        else:
            check_writable(named, *((".safetensors",) if option == "out" else ()))


def progress_shown(message: str) -> AbstractContextManager[Tell]:
    """A spinner on stderr that says what is being done, at once; nothing where stderr is no terminal."""
    return show_progress(True, message, patience=0.0)


def show(facts: dict[str, Any], json: bool) -> None:
    from weightwright import report

    if json:
        typer.echo(report.to_json(facts))
        return
    print_table(report.table(facts))


def print_table(what: Any) -> None:
    if sys.stdout.isatty():
        Console(markup=False).print(what)
        return
    console = Console(markup=False, width=120)
    with console.capture() as printed:
        console.print(what)
    typer.echo("\n".join(line.rstrip() for line in printed.get().splitlines()))


def complain(message: str) -> None:
    from weightwright.report.facts.fact_tables import printable

    typer.echo(f"error: {printable(message)}", err=True)
