"""The command line: `weightwright approximate | compile | memorize | run | check | info | circuit`, and more.

Thin: the work is elsewhere. torch and the rest are imported inside the commands, so that `--help` is quick.
"""

from weightwright.cli.application import app
from weightwright.cli.building import approximate
from weightwright.cli.circuit_command import circuit
from weightwright.cli.compiling import compile
from weightwright.cli.file_commands import check, info, run
from weightwright.cli.machine_command import selftest
from weightwright.cli.memory_command import memorize
from weightwright.cli.program_commands import interpret, interpreter, program
from weightwright.cli.typed_arguments import Command
from weightwright.extensions import registered

__all__ = ["app", "main"]

COMMANDS = (
    approximate, compile, run, check, info, circuit, memorize, interpreter, program, interpret, selftest,
)  # fmt: skip
for command in COMMANDS + tuple(command for added in registered("commands") for command in added):
    app.command(cls=Command)(command)


def main() -> None:
    app()
