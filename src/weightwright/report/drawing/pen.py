"""Text that fits: measured in the font it is drawn in.

Lines, dots and text on a page that is measured in points, 72 to an inch; y grows upwards.
"""

from __future__ import annotations

import functools
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


#: From line to line, in sizes of the text.
LEADING = 1.3
#: Factor by which letters that are fitted to pixels may come out wider.
HINTED = 1.04


@functools.lru_cache(maxsize=4096)
def width(text: str, size: float, bold: bool = False) -> float:
    """In points."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(family="DejaVu Sans", weight="bold" if bold else "normal", size=size)
    return HINTED * float(text_to_path.get_text_width_height_descent(text, font, ismath=False)[0])


def shortened(text: str, size: float, room: float, bold: bool = False) -> str:
    """The text, or as much of its beginning and end as there is room for."""
    if width(text, size, bold) <= room:
        return text
    kept = len(text) - 1
    while kept > 2 and width(_middle_out(text, kept), size, bold) > room:
        kept -= 1
    return _middle_out(text, kept)


def wrap_text(text: str, size: float, room: float, most: int, bold: bool = False) -> list[str]:
    """The text in at most `most` lines, broken at spaces where it can be; the last one is shortened if need be."""
    lines: list[str] = []
    rest = text.strip()
    while rest and len(lines) < most - 1 and width(rest, size, bold) > room:
        cut = _fitting(rest, size, room, bold)
        lines.append(rest[:cut].rstrip())
        rest = rest[cut:].lstrip()
    return [*lines, shortened(rest, size, room, bold)] if rest else lines


def _fitting(text: str, size: float, room: float, bold: bool) -> int:
    """How many characters go on one line: up to a space, else after a sign, else as many as fit."""
    lo, hi = 1, len(text)
    while lo < hi:
        middle = (lo + hi + 1) // 2
        lo, hi = (middle, hi) if width(text[:middle], size, bold) <= room else (lo, middle - 1)
    for signs in (" ", "+-*/,)]:"):
        cut = max(text.rfind(sign, 0, lo) for sign in signs) + 1
        if cut > lo // 3:
            return cut
    return lo


def _middle_out(text: str, kept: int) -> str:
    first = kept - kept // 3
    return f"{text[:first]}…{text[len(text) - kept // 3 :]}"
