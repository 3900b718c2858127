"""Text that fits: measured in the font it is drawn in."""

from __future__ import annotations

import functools

#: From line to line, in sizes of the text.
LEADING = 1.3
#: Letters that are fitted to pixels may come out so much wider.
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


def wrapped(text: str, size: float, room: float, most: int, bold: bool = False) -> list[str]:
    """The text in at most so many lines, broken at spaces where it can be; the last one is shortened if need be."""
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
