"""The command line: `weightwright approximate | compile | run | check | info | circuit | selftest | theorems`.

Thin: the work is elsewhere. torch and the rest are imported inside the commands, so that `--help` is quick.
"""

from weightwright.cli.application import app
from weightwright.cli.building import approximate, theorems
from weightwright.cli.circuit_command import circuit
from weightwright.cli.compiling import compile
from weightwright.cli.file_commands import check, info, run
from weightwright.cli.machine_command import selftest

__all__ = ["app", "main"]

app.command()(approximate)
app.command()(compile)
app.command(context_settings={"ignore_unknown_options": True})(run)  # so that -0.5 is a value
app.command()(check)
app.command()(info)
app.command()(circuit)
app.command()(selftest)
app.command()(theorems)


def main() -> None:
    app()
