"""A band of a drawing: some columns of boxes side by side, and the lanes of the residual stream under them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weightwright.report.drawing.flow import DrawnBox, Flow, Repeat
from weightwright.report.drawing.lanes import Lane
from weightwright.report.drawing.pen import (
    DIM,
    HEADING,
    INK,
    LANE,
    LEADING,
    NAME,
    QUIET,
    READS,
    SMALL,
    WRITES,
    Pen,
    shortened,
    wrap_text,
)
from weightwright.report.facts.fact_tables import printable

MARGIN = 16.0
BOX = 150.0  # how wide boxes are
PAD, GAP = 5.0, 9.0  # between a box and its text, between boxes
ROW, WIRE = 12.0, 6.0  # from lane to lane, from wire to wire in a gutter
LABELS = 124.0  # where lanes that come from the band above are named
MOST_LINES = 4  # of a title, and of each line under it
BRACE = 1.6 * HEADING  # room for a loop's brace


@dataclass(frozen=True)
class _Drawn:
    """A box with its text in lines, and where it stands: the left upper corner."""

    box: DrawnBox
    title: list[str]
    lines: list[str]
    x: float
    y: float
    height: float

    @property
    def middle(self) -> float:
        return self.y - self.height / 2


class Band:
    """Columns `first` up to but not including `stop`. The origin is the left upper corner of the band."""

    def __init__(self, plan: Flow, found: Sequence[Lane], first: int, stop: int) -> None:
        self.plan, self.first, self.stop = plan, first, stop
        self.lanes = [lane for lane in found if lane.start < stop and _last(lane) >= first]
        self.columns_here = range(first, stop)
        self.reading = {index: self._wired(index, False) for index in self.columns_here}
        self.writing = {index: self._wired(index, True) for index in self.columns_here}
        self.entry = MARGIN + (LABELS if any(lane.start < first for lane in self.lanes) else 0.0)
        self.left: dict[int, float] = {}  # of the boxes of each column
        x = self.entry
        for index in self.columns_here:
            x += _gutter(self.reading[index]) if index > first or self.entry > MARGIN else 0.0
            self.left[index] = x
            x += BOX + _gutter(self.writing[index])
        going_on = any(_last(lane) >= stop for lane in self.lanes)
        self.right = x if going_on else self.left[stop - 1] + BOX
        self.width = self.right + MARGIN
        repeats = [repeat for repeat in plan.repeats if repeat.first < stop and repeat.last >= first]
        self.repeats: list[Repeat] = sorted(repeats, key=lambda repeat: repeat.last - repeat.first)
        top = -(1.7 * HEADING + BRACE * len(repeats))
        self.columns = {index: self._column(index, top) for index in self.columns_here}
        self.floor = min(drawn.y - drawn.height for column in self.columns.values() for drawn in column) - 1.4 * ROW
        used = sorted({lane.row for lane in self.lanes})
        self.rows = {row: place for place, row in enumerate(used)}
        self.height = -self.floor + len(used) * ROW

    def _column(self, index: int, y: float) -> list[_Drawn]:
        drawn = []
        room = BOX - 2 * PAD
        for box in self.plan.columns[index].boxes:
            title = wrap_text(printable(box.title), NAME, room, MOST_LINES, bold=True)
            lines = [line for said in box.lines for line in wrap_text(printable(said), SMALL, room, MOST_LINES)]
            height = 2 * PAD + LEADING * (len(title) * NAME + len(lines) * SMALL)
            drawn.append(_Drawn(box, title, lines, self.left[index], y, height))
            y -= height + GAP
        return drawn

    def _wired(self, column: int, writes: bool) -> list[int]:
        """The boxes of a column that a lane is joined to."""
        joined = {at for lane in self.lanes for at in (lane.writers if writes else lane.readers)}
        return [place for place in range(len(self.plan.columns[column].boxes)) if (column, place) in joined]

    def draw(self, pen: Pen, colours: Mapping[str, str]) -> None:
        for lane in self.lanes:
            self._lane(pen, lane)
        for index, column in self.columns.items():
            heading = shortened(self.plan.columns[index].heading, HEADING, BOX, bold=True)
            pen.text(self.left[index], column[0].y + 0.5 * HEADING, heading, HEADING, INK, weight="bold")
            for place, drawn in enumerate(column):
                self._wires(pen, index, place, drawn)
                _draw_box(pen, drawn, colours[drawn.box.kind])
        for level, repeat in enumerate(self.repeats):
            self._repeat(pen, repeat, level)

    def _lane(self, pen: Pen, lane: Lane) -> None:
        y = self._row(lane)
        begin, room = (self.left[lane.start] + BOX, BOX) if lane.start >= self.first else (self.entry, LABELS)
        readers = [self._read_x(*at) for at in lane.readers if at[0] in self.columns_here]
        writers = [self._write_x(*at) for at in lane.writers if at[0] in self.columns_here]
        goes_on = _last(lane) >= self.stop
        end = self.right if goes_on else max([*readers, *writers])
        pen.line((begin + 2, end), (y, y), LANE, 2.2 if lane.count > 1 else 1.0)
        if goes_on:
            pen.arrow(end + 5, y, LANE)
        pen.text(begin, y, shortened(printable(lane.label), SMALL, room - 2), SMALL, QUIET, ha="right", va="center")
        for at, colour in (*((x, READS) for x in readers), *((x, WRITES) for x in writers)):
            pen.dot(at, y, colour)

    def _wires(self, pen: Pen, index: int, place: int, drawn: _Drawn) -> None:
        """From the lanes that it reads into the box, and from the box to those that it writes."""
        for writes, wired, box_x in ((False, self.reading, drawn.x), (True, self.writing, drawn.x + BOX)):
            if place not in wired[index]:
                continue
            x = self._write_x(index, place) if writes else self._read_x(index, place)
            used = (lane for lane in self.lanes if (index, place) in (lane.writers if writes else lane.readers))
            lowest = min(self._row(lane) for lane in used)
            y = drawn.middle
            pen.line((box_x, x, x), (y, y, lowest), WRITES if writes else READS, 0.9)
            if not writes:
                pen.arrow(box_x, y, READS)

    def _row(self, lane: Lane) -> float:
        return self.floor - self.rows[lane.row] * ROW

    def _read_x(self, column: int, place: int) -> float:
        """Wires of lower boxes stand nearer to them, so that none crosses the way into another."""
        order = self.reading[column]
        return self.left[column] - 2 * WIRE - WIRE * (len(order) - 1 - order.index(place))

    def _write_x(self, column: int, place: int) -> float:
        order = self.writing[column]
        return self.left[column] + BOX + 2 * WIRE + WIRE * (len(order) - 1 - order.index(place))

    def _repeat(self, pen: Pen, repeat: Repeat, level: int) -> None:
        y = 1.7 * HEADING + BRACE * level + self.columns[self.first][0].y
        left, right = self.left[max(repeat.first, self.first)], self.left[min(repeat.last, self.stop - 1)] + BOX
        pen.line((left, left, right, right), (y, y + 4, y + 4, y), QUIET, 1.0)
        pen.text((left + right) / 2, y + 6, f"{repeat.times:,} times", SMALL, QUIET, ha="center")


def _draw_box(pen: Pen, drawn: _Drawn, colour: str) -> None:
    pen.rounded_box(drawn.x, drawn.y, BOX, drawn.height, colour)
    y = drawn.y - PAD
    for lines, size, weight, ink in ((drawn.title, NAME, "bold", INK), (drawn.lines, SMALL, "normal", DIM)):
        for line in lines:
            pen.text(drawn.x + PAD, y, line, size, ink, va="top", weight=weight, zorder=4)
            y -= LEADING * size


def _last(lane: Lane) -> int:
    """The last column that it is joined to."""
    return max(column for column, _ in (*lane.readers, *lane.writers))


def _gutter(wires: Sequence[int]) -> float:
    return 3 * WIRE + WIRE * len(wires) if wires else WIRE
