"""Columns cut into pieces that every map moves as wholes: a map of the stream is then a few sums of pieces.

The maps of prompted networks copy groups of coordinates to groups, each times a number or a number for each feature.
Written as matrices they are diagonals; cut where a diagonal begins or ends, the columns fall into pieces.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from weightwright.numbers import Floats

#: The most pieces of one stream: a network with more is no prompted one, and runs faster as whole streams.
MOST_PIECES = 64


class Space:
    """The columns of a stream, of queries or of values, and where they are cut."""

    def __init__(self, width: int, cuts: Sequence[int] = ()) -> None:
        self.width, self.cuts = width, {0, width, *cuts}

    def pieces(self) -> list[slice]:
        ends = sorted(self.cuts)
        return [slice(a, b) for a, b in itertools.pairwise(ends)]


@dataclass(frozen=True)
class Move:
    """A piece times weights, (its width,), becomes part of another."""

    source: int
    target: int
    weights: Floats


class Map:
    """A matrix (columns of the source, columns of the target) as its diagonals."""

    def __init__(self, A: Floats, source: Space, target: Space) -> None:
        self.A, self.source, self.target = A, source, target
        self.diagonals = find_diagonals(A)

    def cut(self) -> bool:
        """Cut both spaces where a diagonal begins, ends, or crosses a cut of the other; whether that was new."""
        a, b = self.source.cuts, self.target.cuts
        before = len(a) + len(b)
        for i, j, length in self.diagonals:
            a |= {i, i + length, *(cut - j + i for cut in b if j < cut < j + length)}
            b |= {j, j + length, *(cut - i + j for cut in a if i < cut < i + length)}
        return len(a) + len(b) > before

    def moves(self) -> list[Move]:
        """Once the spaces are cut."""
        starts = {piece.start: k for k, piece in enumerate(self.source.pieces())}
        found = []
        for k, piece in enumerate(self.target.pieces()):
            length = piece.stop - piece.start
            for i, j, count in self.diagonals:
                if j <= piece.start < j + count:
                    row = i + piece.start - j
                    rows, columns = row + np.arange(length), piece.start + np.arange(length)
                    found.append(Move(starts[row], k, self.A[rows, columns]))
        return found


def find_diagonals(A: Floats) -> list[tuple[int, int, int]]:
    """(row, column, length) of every run of entries along a diagonal."""
    rows, columns = np.nonzero(A)
    order = np.lexsort((rows, columns - rows))
    rows, columns = rows[order], columns[order]
    breaks = np.flatnonzero((np.diff(rows) != 1) | (np.diff(columns) != 1)) + 1
    ends = [0, *breaks.tolist(), len(rows)] if len(rows) else []
    return [(int(rows[a]), int(columns[a]), b - a) for a, b in itertools.pairwise(ends)]


def cut_together(maps: Sequence[Map]) -> bool:
    """Cut all spaces until every map moves whole pieces; False where that takes too many."""
    while sum(one.cut() for one in maps):
        if any(len(space.cuts) > MOST_PIECES for one in maps for space in (one.source, one.target)):
            return False
    return True


def group_ends(names: Sequence[str]) -> list[int]:
    """Where groups of coordinates end: w[0], w[1] are of one group."""
    groups = [name.split("[")[0] for name in names]
    return [k for k in range(1, len(groups)) if groups[k] != groups[k - 1]]
