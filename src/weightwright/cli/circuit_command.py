"""`weightwright circuit`: a saved network taken apart."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

import weightwright as ww
from weightwright.cli.application import Net, check_outputs, progress_shown, saved_file
from weightwright.cli.limit_options import DEFAULT, Boxes, Megabytes, Seconds, Tokens

if TYPE_CHECKING:
    from weightwright.circuit import Circuit


def circuit(
    path: Net,
    json: Annotated[bool, typer.Option("--json", help="Print the whole circuit as one JSON object.")] = False,
    draw: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw nodes and edges: a .png, .svg or .pdf.")
    ] = None,
    seconds: Seconds = DEFAULT.seconds,
    megabytes: Megabytes = DEFAULT.megabytes,
    tokens: Tokens = DEFAULT.tokens,
    boxes: Boxes = DEFAULT.boxes,
) -> None:
    """Show the network as nodes and edges: what each head really adds to the stream, what it reads and writes.

    As claimed in the file; nothing is checked. --json has every number: docs/circuits.md runs a circuit from it.
    """
    check_outputs(draw=draw)
    with progress_shown("reading") as progress:
        from weightwright import report

        if draw is not None:
            report.check_plottable(draw)
        net = ww.load(saved_file(path), verify=False, seconds=seconds, megabytes=megabytes, tokens=tokens, boxes=boxes)
        found = net.circuit()
        if draw is not None:
            progress("drawing")
            found.draw(draw)
    if json:
        typer.echo(found.to_json())
    elif draw is not None:
        typer.echo(f"circuit drawn to {draw}")
    else:
        _show(found)


def _show(found: Circuit) -> None:
    """One line for each node, and how many edges end in it."""
    from weightwright.report import printable

    table = Table("node", "what it adds", "keys", "reads", "writes", "edges in", box=None, pad_edge=False)
    for node in found.nodes:
        keys = str(len(node.keys)) if node.type == "head" else ""
        reads, writes = (str(len(names)) if names else "" for names in (node.reads, node.writes))
        edges = str(len(found.into(node.name)))
        # as Text: names such as "[red]" are not for the console to obey
        name, role = (Text(printable(text)) for text in (node.name, node.role or node.type))
        table.add_row(name, role, keys, reads, writes, edges)
    Console(soft_wrap=False, markup=False).print(table)
    typer.echo(f"{len(found.nodes):,} nodes, {len(found.edges):,} edges; --json prints them all")
