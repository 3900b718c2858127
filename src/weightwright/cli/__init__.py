"""The command line: `weightwright approximate | compile | run | check | info | selftest | theorems`.

Thin: the work is elsewhere. torch and the rest are imported inside the commands, so that `--help` is quick.
"""

from weightwright.cli.application import app
from weightwright.cli.building import approximate, theorems
from weightwright.cli.compiling import compile
from weightwright.cli.file_commands import check, info, run
from weightwright.cli.machine_command import selftest
from weightwright.cli.typed_arguments import Command

__all__ = ["app", "main"]

app.command(cls=Command)(approximate)
app.command(cls=Command)(compile)
app.command(context_settings={"ignore_unknown_options": True})(run)  # so that -0.5 is a value
app.command()(check)
app.command()(info)
app.command()(selftest)
app.command()(theorems)


def main() -> None:
    app()
