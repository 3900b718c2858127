"""A picture of a circuit: nodes in columns, in the order in which they run, and the edges between them."""

from __future__ import annotations

import os
from collections import defaultdict
from typing import Any

from weightwright.circuit.circuit import Circuit, CircuitNode
from weightwright.export.figures import check_plottable, write_figure
from weightwright.report.drawing.pen import INK, LEADING, NAME, QUIET, READS, SMALL, TITLE, WRITES, Pen, wrap_text
from weightwright.report.facts.fact_tables import printable

#: Nodes of a column that are drawn; those that are left out are counted.
MOST = 24
BOX, HIGH, GAP, BETWEEN, MARGIN = 150.0, 34.0, 8.0, 110.0, 24.0  # in points
FILLS = {"input": "#eeeeee", "output": "#eeeeee", "head": "#dbe9f6", "map": "#ece3db", "loop": "#eadff2"}
#: Thinnest and thickest line; the thickest is the largest coefficient into a column.
THIN, THICK = 0.3, 2.6
#: Edges that are drawn; of more the largest.
MOST_EDGES = 1500


def draw_circuit(circuit: Circuit, path: str | os.PathLike[str]) -> None:
    """Write the picture, whole or not at all."""
    check_plottable(path)
    write_figure(path, lambda: circuit_figure(circuit))


def circuit_figure(circuit: Circuit) -> Any:
    """Columns: inputs, layers, outputs. Lines: blue where the coefficient is positive, red where it is negative."""
    from matplotlib.figure import Figure

    columns = _columns(circuit)
    high = max(len(column[:MOST]) + (len(column) > MOST) for column in columns)
    page = 2 * MARGIN + len(columns) * BOX + (len(columns) - 1) * BETWEEN, 5 * MARGIN + high * (HIGH + GAP)
    figure = Figure(figsize=(page[0] / 72, page[1] / 72))
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_xlim(0, page[0])
    axes.set_ylim(-page[1], 0)
    axes.set_axis_off()
    pen, y = Pen(axes), -MARGIN
    title = f"{circuit.title}: {len(circuit.nodes):,} nodes, {len(circuit.edges):,} edges"
    for line in wrap_text(title, TITLE, page[0] - 2 * MARGIN, 2, bold=True):
        pen.text(MARGIN, y, line, TITLE, INK, va="top", weight="bold")
        y -= TITLE * LEADING
    places = _boxes(pen, columns, -3 * MARGIN, high)
    drawn = _lines(pen, circuit, places)
    shown = "" if drawn == len(circuit.edges) else f", {drawn:,} of {len(circuit.edges):,} edges drawn"
    legend = f"coefficients: blue above 0, red below 0, as thick as they are large{shown}"
    pen.text(MARGIN, MARGIN / 2 - page[1], legend, SMALL, QUIET)
    return figure


def _columns(circuit: Circuit) -> list[list[CircuitNode]]:
    """One for the inputs, one for each layer that has nodes, one for the outputs; maps beside what they belong to."""
    found: dict[tuple[int, int], list[CircuitNode]] = defaultdict(list)
    for node in circuit.nodes:
        stage = {"input": 0, "output": 3}.get(node.type, 2 if node.layer is not None or node.name[0] == "r" else 1)
        found[stage, -1 if node.layer is None else node.layer].append(node)
    return [found[key] for key in sorted(found)]


def _boxes(pen: Pen, columns: list[list[CircuitNode]], top: float, high: int) -> dict[str, tuple[float, float]]:
    """Left edge and middle of every box that is drawn, by the node's name; columns stand in the middle."""
    places = {}
    for number, column in enumerate(columns):
        spare = high - len(column[:MOST]) - (len(column) > MOST)
        x, y = MARGIN + number * (BOX + BETWEEN), top - spare / 2 * (HIGH + GAP)
        for node in column[:MOST]:
            pen.rounded_box(x, y, BOX, HIGH, FILLS.get(node.type, "#f6f1c9"))
            lines = [printable(node.name), *wrap_text(printable(node.role or node.kind), SMALL, BOX - 8, 2)]
            for row, text in enumerate(lines):
                bold = {"weight": "bold"} if row == 0 else {}
                pen.text(x + 4, y - 9 - row * SMALL * LEADING, text, NAME if row == 0 else SMALL, INK, zorder=4, **bold)
            places[node.name] = x, y - HIGH / 2
            y -= HIGH + GAP
        if len(column) > MOST:
            pen.text(x + 4, y - NAME, f"and {len(column) - MOST:,} more", NAME, QUIET)
    return places


def _lines(pen: Pen, circuit: Circuit, places: dict[str, tuple[float, float]]) -> int:
    """The edges between boxes that are drawn, the largest first; returns their number."""
    largest = defaultdict[float, float](float)
    edges = [edge for edge in circuit.edges if edge.source in places and edge.target in places]
    edges = sorted(edges, key=lambda edge: -abs(edge.coefficient))[:MOST_EDGES]
    for edge in edges:
        x = places[edge.target][0]
        largest[x] = max(largest[x], abs(edge.coefficient))
    for edge in edges:
        (x, y), (x_to, y_to) = places[edge.source], places[edge.target]
        share = abs(edge.coefficient) / largest[x_to] if largest[x_to] else 0.0
        pen.line((x + BOX, x_to), (y, y_to), READS if edge.coefficient > 0 else WRITES, THIN + (THICK - THIN) * share)
    return len(edges)
