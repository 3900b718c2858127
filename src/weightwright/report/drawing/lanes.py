"""The residual stream in a drawing: a lane for each number, or for many that go the same ways, from left to right."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace

from weightwright.report.drawing.flow import Flow, Number
from weightwright.report.facts.head_kinds import common, few, pattern

#: Lanes that run side by side. With more, numbers share lanes.
MOST_ROWS = 24

Place = tuple[int, int]  # column, box


@dataclass(frozen=True)
class Lane:
    """Written and read at these boxes. It begins right of the column `start` and has ended where `end` begins."""

    label: str
    count: int
    writers: tuple[Place, ...]
    readers: tuple[Place, ...]
    start: int
    end: int
    row: int


@dataclass(frozen=True)
class _Use:
    writers: frozenset[Place]
    readers: frozenset[Place]


def lanes(flow: Flow) -> list[Lane]:
    """One lane for each number that somebody reads, if they are few; else bundles, by their uses, then by names."""
    uses = _uses(flow)
    numbers = sorted(uses, key=lambda number: (number[0], flow.order[number]))
    ways: list[Callable[[Number], Hashable]] = [
        lambda number: number,
        lambda number: (number[0], pattern(number[1]), uses[number]),
        lambda number: (number[0], uses[number]),
        lambda number: (number[0], pattern(number[1])),
        lambda number: (number[0], min(uses[number].writers), max(uses[number].readers)),
        lambda number: number[0],
    ]
    found: list[Lane] = []
    for way in ways:
        bundles: dict[Hashable, list[Number]] = {}
        for number in numbers:
            bundles.setdefault(way(number), []).append(number)
        found = _placed([_lane(members, uses) for members in bundles.values()])
        if all(lane.row < MOST_ROWS for lane in found):
            break
    return found


def _uses(flow: Flow) -> dict[Number, _Use]:
    writers: dict[Number, set[Place]] = {}
    readers: dict[Number, set[Place]] = {}
    for index, column in enumerate(flow.columns):
        for place, box in enumerate(column.boxes):
            for number in box.writes:
                writers.setdefault(number, set()).add((index, place))
            for number in box.reads:
                readers.setdefault(number, set()).add((index, place))
    return {number: _Use(frozenset(writers[number]), frozenset(readers[number])) for number in readers}


def _lane(members: list[Number], uses: dict[Number, _Use]) -> Lane:
    writers = frozenset[Place]().union(*(uses[number].writers for number in members))
    readers = frozenset[Place]().union(*(uses[number].readers for number in members))
    columns = [column for column, _ in readers]
    start = min(min(column for column, _ in writers), min(columns) - 1)  # in a loop the reader may stand before
    end = max(*columns, *(column + 1 for column, _ in writers))
    label = _label([name for _, name in members])
    return Lane(label, len(members), tuple(sorted(writers)), tuple(sorted(readers)), start, end, row=0)


def _label(names: list[str]) -> str:
    if len(names) == 1:
        return names[0]
    alike = common(names)
    return f"{len(names):,} × {alike}" if alike is not None else f"{len(names):,}: {few(names, 1)}"


def _placed(found: list[Lane]) -> list[Lane]:
    """Each in the first row that is free; the label takes the place under the column where the lane begins."""
    ends: list[int] = []
    placed = []
    for lane in sorted(found, key=lambda lane: lane.start):
        row = next((row for row, end in enumerate(ends) if end <= lane.start), len(ends))
        ends[row : row + 1] = [lane.end]
        placed.append(replace(lane, row=row))
    return placed
