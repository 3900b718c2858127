"""Lines, dots and text on a page that is measured in points, 72 to an inch; y grows upwards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

TITLE, HEADING, NAME, SMALL = 12.0, 9.5, 8.5, 7.0  # sizes of text
INK, DIM, QUIET, READS, WRITES, LANE = "#222222", "#444444", "#666666", "#2f6db3", "#c4622d", "#9a9a9a"


class Pen:
    """Draws on the axes, from the place `at` on."""

    def __init__(self, axes: Any) -> None:
        self.axes, self.at = axes, (0.0, 0.0)

    def text(self, x: float, y: float, text: str, size: float, colour: str, **options: Any) -> None:
        options = {"ha": "left", "va": "baseline"} | options
        dx, dy = self.at
        self.axes.text(x + dx, y + dy, text, fontsize=size, color=colour, parse_math=False, **options)

    def line(self, x: Sequence[float], y: Sequence[float], colour: str, thick: float) -> None:
        dx, dy = self.at
        x, y = [a + dx for a in x], [b + dy for b in y]
        self.axes.plot(x, y, color=colour, linewidth=thick, solid_capstyle="round", solid_joinstyle="round", zorder=1)

    def dot(self, x: float, y: float, colour: str) -> None:
        dx, dy = self.at
        self.axes.plot([x + dx], [y + dy], "o", color=colour, markersize=3.6, markeredgewidth=0, zorder=2)

    def arrow(self, x: float, y: float, colour: str) -> None:
        dx, dy = self.at
        self.axes.fill([x + dx, x + dx - 5, x + dx - 5], [y + dy, y + dy + 2.4, y + dy - 2.4], color=colour, lw=0)

    def rounded_box(self, x: float, y: float, width: float, height: float, colour: str) -> None:
        """x, y: the left upper corner."""
        from matplotlib.patches import FancyBboxPatch

        corner = x + self.at[0], y - height + self.at[1]
        style = "round,pad=0,rounding_size=3"
        self.axes.add_patch(FancyBboxPatch(corner, width, height, style, fc=colour, ec="#777777", lw=0.8, zorder=3))

    def square(self, x: float, y: float, side: float, colour: str) -> None:
        dx, dy = self.at
        left, top = x + dx, y + dy
        self.axes.fill([left, left + side, left + side, left], [top, top, top - side, top - side], color=colour, lw=0)
