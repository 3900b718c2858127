"""The command line run inside the test's own process, and in one of its own where that is what is tested."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import typer.main
from typer.testing import CliRunner, Result

from weightwright.cli import app


def weightwright(*args: str | Path, stdin: str | bytes | None = None, columns: int | None = None) -> Result:
    """Runs a command; any error that is no exit is a failed test."""
    env = None if columns is None else {"COLUMNS": str(columns), "TERMINAL_WIDTH": str(columns)}
    return CliRunner().invoke(app, [str(arg) for arg in args], input=stdin, env=env, catch_exceptions=False)


def command_group() -> click.Group:
    """All commands, with their options."""
    return typer.main.get_command(app)


def printed(*args: str | Path, stdin: str | None = None) -> str:
    result = weightwright(*args, stdin=stdin)
    assert result.exit_code == 0, result.stderr
    assert result.stderr == ""
    return result.stdout


def printed_json(*args: str | Path, stdin: str | None = None) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(printed(*args, "--json", stdin=stdin))
    return facts


def complaint(result: Result, code: int) -> str:
    """The one line on stderr of a command that failed."""
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ")
    return line


def helps_in_whole_words(command: str) -> None:
    """In 80 columns flags are shown as flags, and choices are not cut."""
    helped = weightwright(command, "--help", columns=80).stdout
    assert "<bool>" not in helped
    assert "--help " in helped
    assert "bfloat1\n" not in helped.replace(" ", "").replace("│", "")


def process(*args: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "weightwright.cli", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, **options)
