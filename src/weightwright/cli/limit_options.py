"""The options of commands that read a file: what it may cost."""

from __future__ import annotations

from typing import Annotated

import typer

from weightwright.limits import Limits

#: What stands where no option is given.
DEFAULT = Limits()

Seconds = Annotated[float, typer.Option(metavar="S", help="Time that the file may take; inf for no limit.")]
Megabytes = Annotated[float, typer.Option(metavar="MB", help="Memory that the file may take; inf for no limit.")]
Tokens = Annotated[float, typer.Option(metavar="N", help="Most data tokens, and most registers, of the network.")]
Boxes = Annotated[float, typer.Option(metavar="N", help="Most boxes of the domain that are examined.")]
DeadShare = Annotated[
    float,
    typer.Option(metavar="SHARE", help="Share of the domain that dead zones may cover before a status is CONDITIONAL."),
]
