"""A drawing of a network: layers as columns, heads as boxes with what they compute, the residual stream below them."""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING, Any

from weightwright.claims.certificate import (
    Certificate,
    bound_in_words,
    computed_in_words,
    measured_in_words,
    round_up,
    status_in_words,
)
from weightwright.export.figures import check_plottable, write_figure
from weightwright.network import Network
from weightwright.report.drawing.band import MARGIN, Band
from weightwright.report.drawing.flow import Flow, flow
from weightwright.report.drawing.lanes import lanes
from weightwright.report.drawing.pen import (
    INK,
    LANE,
    LEADING,
    NAME,
    QUIET,
    READS,
    SMALL,
    TITLE,
    WRITES,
    Pen,
    width,
    wrap_text,
)
from weightwright.report.facts.fact_tables import interval, printable

if TYPE_CHECKING:
    from weightwright.runtime import AttentionNetwork

#: Columns side by side; with more there are several bands, one below the other.
MOST_COLUMNS = 7
LEAST_WIDTH = 452.0
PASTELS = ("#dbe9f6", "#fbe6cf", "#dff0d8", "#eadff2", "#f9dcdc", "#d9f0ef", "#f6f1c9", "#ece3db")
PLAIN = {"embed": "#eeeeee", "linear": "#eeeeee", "more": "#f6f6f6"}
SQUARES = 10  # tokens or registers that are drawn before the rest is only counted


def draw_network(net: AttentionNetwork, path: str | os.PathLike[str]) -> None:
    """Write the drawing of any network, whole or not at all. Equal networks give equal files."""
    check_plottable(path)
    write_figure(path, lambda: network_figure(net))


def network_figure(net: AttentionNetwork) -> Any:
    """The title, the sequence, the bands one below the other, and what the lines mean."""
    from matplotlib.figure import Figure

    plan = flow(net.network)
    bands = _bands(plan)
    page_width = max(LEAST_WIDTH, *(band.width for band in bands))
    head = _heading(net, page_width - 2 * MARGIN)
    top = MARGIN + sum(size * LEADING for _, size, _ in head) + 3.0 * NAME
    page_height = top + sum(band.height + MARGIN for band in bands) + 1.5 * MARGIN
    figure = Figure(figsize=(page_width / 72, page_height / 72))
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_xlim(0, page_width)
    axes.set_ylim(-page_height, 0)
    axes.set_axis_off()
    pen, y = Pen(axes), -MARGIN
    for text, size, colour in head:
        pen.text(MARGIN, y, text, size, colour, va="top", weight="bold" if size == TITLE else "normal")
        y -= size * LEADING
    _sequence(pen, net.network, MARGIN, y - 0.8 * NAME)
    _legend(pen, MARGIN, MARGIN - page_height)
    pen.at = (0.0, -top)
    colours = _colours(plan)
    for band in bands:
        band.draw(pen, colours)
        pen.at = (0.0, pen.at[1] - band.height - MARGIN)
    return figure


def _bands(plan: Flow) -> list[Band]:
    """Of about as many columns each."""
    columns = len(plan.columns)
    count = -(-columns // MOST_COLUMNS)
    ends = [round(index * columns / count) for index in range(count + 1)]
    found = lanes(plan)
    return [Band(plan, found, first, stop) for first, stop in itertools.pairwise(ends)]


def _heading(net: AttentionNetwork, room: float) -> list[tuple[str, float, str]]:
    """Lines with their sizes and colours: what it computes, how well, of what size it is."""
    said, counts = net.certificate, net.cost
    name = "a network without a certificate" if said is None else printable(computed_in_words(said))
    lines = [(line, TITLE, INK) for line in wrap_text(name, TITLE, room, 2, bold=True)]
    if said is not None:
        lines += [(line, NAME, INK) for line in wrap_text(printable(_claim(said)), NAME, room, 4)]
    sizes = ((counts.layers, "layer"), (counts.heads, "head"), (counts.parameters, "parameter"))
    size = ", ".join(f"{count:,} {thing}{'' if count == 1 else 's'}" for count, thing in sizes)
    return [*lines, (f"{size}, {net.network.dtype}", NAME, QUIET)]


def _claim(said: Certificate) -> str:
    where = f"on {interval(said.domain.lo.tolist(), said.domain.hi.tolist())}"
    if said.status == "EDITED":
        return status_in_words(said.status, said.why)
    if said.measured is not None:
        return f"{said.status}: {measured_in_words(said)} {round_up(said.measured.error)} {where}"
    bound = bound_in_words(said) if said.subject in ("norm", "label") else round_up(said.bound)
    error = "error of one pass" if said.subject == "pass" else "error"
    _, _, given = status_in_words(said.status, said.why).partition(": ")
    return f"{said.status}: {error} at most {bound} {where}{given and ', '}{given}"


def _legend(pen: Pen, x: float, y: float) -> None:
    """What the lines are."""
    parts = (
        (LANE, 1.0, "a number of the residual stream"),
        (LANE, 2.2, "several"),
        (WRITES, 0.9, "is written"),
        (READS, 0.9, "is read"),
    )
    for colour, thick, words in parts:
        pen.line((x, x + 16), (y, y), colour, thick)
        pen.text(x + 20, y, words, SMALL, QUIET, va="center")
        x += width(words, SMALL) + 34


def _sequence(pen: Pen, network: Network, x: float, y: float) -> None:
    """The sequence: registers, then data tokens, a square each."""
    registers, tokens = len(network.registers), network.tokens
    data = "any number of data tokens" if tokens is None else f"{tokens:,} data token{'' if tokens == 1 else 's'}"
    kept = f"{registers:,} register{'' if registers == 1 else 's'} (constant tokens)"
    for count, colour, words in ((registers, "#d9a441", kept), (tokens or 3, "#5b8fc7", data)):
        if not count:
            continue
        for _ in range(min(count, SQUARES)):
            pen.square(x, y, 6, colour)
            x += 7.5
        if count > SQUARES or (words is data and tokens is None):
            pen.text(x, y - 6, "…", NAME, QUIET)
            x += 10
        pen.text(x + 2, y - 3, words, SMALL, QUIET, va="center")
        x += width(words, SMALL) + 18


def _colours(plan: Flow) -> dict[str, str]:
    kinds = dict.fromkeys(box.kind for column in plan.columns for box in column.boxes)
    own = [kind for kind in kinds if kind not in PLAIN]
    return PLAIN | {kind: PASTELS[index % len(PASTELS)] for index, kind in enumerate(own)}
