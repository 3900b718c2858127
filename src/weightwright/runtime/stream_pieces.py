"""The stream as a list of pieces, of which every coordinate that is looked at is a column or a constant.

`Stream` says where each coordinate stands while a plan is made; a `Sum` of `Map`s is what a plan keeps of a product.
Shapes: T tokens of the whole batch, d coordinates, m and k columns of a piece before and after.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from weightwright.numbers import Floats
from weightwright.runtime.sparse_maps import numbers


@dataclass(frozen=True, eq=False)
class Map:
    """Y -> Y W + plus for a piece Y (T, m), by what W is: columns that are picked and scaled, or a matrix."""

    W: Tensor | None  # (m, k); None if columns are picked
    picked: Tensor | slice | None  # (k,), or neighbours; None: all, in their order
    scales: Tensor | None  # (k,); None: ones

    def __call__(self, Y: Tensor, plus: Tensor | None) -> Tensor:
        if self.W is not None:
            return Y @ self.W if plus is None else torch.addmm(plus, Y, self.W)
        if isinstance(self.picked, slice):
            Y = Y[:, self.picked]
        elif self.picked is not None:
            Y = Y.index_select(1, self.picked)
        Y = Y if self.scales is None else Y * self.scales
        return Y if plus is None else Y + plus

    def columns(self, k: int, device: torch.device) -> Tensor:
        """(k,) whole numbers: which are picked, where none is multiplied by a matrix."""
        if isinstance(self.picked, Tensor):
            return self.picked
        first = 0 if self.picked is None else self.picked.start
        return torch.arange(first, first + k, device=device)

    def matrix(self, m: int, like: Tensor) -> Tensor:
        """(m, k): W, written out where columns are picked."""
        if self.W is not None:
            return self.W
        whole = torch.eye(m, dtype=like.dtype, device=like.device)
        picked = whole if self.picked is None else whole[:, self.picked]
        return (picked if self.scales is None else picked * self.scales).contiguous()


def map_of(W: Tensor) -> Map:
    entries = numbers(W)
    if not (np.count_nonzero(entries, axis=0) == 1).all():
        return Map(W.contiguous(), None, None)
    sources = np.abs(entries).argmax(axis=0)
    scales = W[torch.tensor(sources), torch.arange(W.shape[1])]
    return Map(None, _picked(sources, len(entries), W.device), None if bool((scales == 1).all()) else scales)


def _picked(sources: npt.NDArray[np.intp], count: int, device: torch.device) -> Tensor | slice | None:
    """Columns, of so many as there are: neighbours are looked at where they stand, others are copied."""
    if not len(sources) or (np.diff(sources) != 1).any():
        return torch.tensor(sources, device=device)
    first, last = int(sources[0]), int(sources[-1]) + 1
    return None if (first, last) == (0, count) else slice(first, last)


@dataclass(frozen=True, eq=False)
class Sum:
    """The sum of maps of pieces, and a row: (T, k)."""

    terms: tuple[tuple[int, Map], ...]
    row: Tensor  # (k,)
    is_zero: bool  # the row

    def scale_and_row(self, piece: int) -> tuple[Tensor, Tensor] | None:
        """(a, b) if this is a y + b for the only column y of a piece, one number from one number."""
        if len(self.terms) != 1 or self.terms[0][0] != piece or len(self.row) != 1:
            return None
        map = self.terms[0][1]
        if map.W is not None or map.picked is not None:
            return None
        return self.row.new_ones(()) if map.scales is None else map.scales[0], self.row[0]

    def __call__(self, pieces: Sequence[Tensor]) -> Tensor:
        total = None if self.is_zero and self.terms else self.row
        for piece, map in self.terms:
            total = map(pieces[piece], total)
        assert total is not None
        return total if self.terms else total.expand(len(pieces[0]), -1).clone()  # no view of a weight leaves


class Stream:
    """What every coordinate holds, while the plan is made: a number, or a column of a piece."""

    def __init__(self, coordinates: int) -> None:
        """All coordinates are one piece."""
        self.width = coordinates
        self.constants: dict[int, float] = {}
        self.places = {coordinate: (0, coordinate) for coordinate in range(coordinates)}
        self.widths = [coordinates]  # of the pieces

    def add_piece(self, coordinates: Sequence[int], unused: int = 0) -> None:
        """A new piece holds these coordinates from now on, and after them so many columns that nobody reads."""
        for column, coordinate in enumerate(coordinates):
            self.constants.pop(coordinate, None)
            self.places[coordinate] = len(self.widths), column
        self.widths.append(len(coordinates) + unused)

    def times(self, W: Tensor, plus: Tensor | None = None) -> Sum:
        """The stream times W (d, k), plus a row (k,)."""
        entries = numbers(W)
        read, terms = rows_of(entries), list[tuple[int, Map]]()
        for piece, width in enumerate(self.widths):
            waiting = [(c, column) for c, (holder, column) in self.places.items() if holder == piece and c in read]
            while waiting:  # two coordinates may hold one column: their weights are not added up, that would round
                cut, taken, later = W.new_zeros(width, W.shape[1]), np.zeros((width, W.shape[1]), dtype=bool), []
                for c, column in waiting:
                    if (taken[column] & (entries[c] != 0)).any():
                        later.append((c, column))
                        continue
                    cut[column] += W[c]
                    taken[column] |= entries[c] != 0
                terms.append((piece, map_of(cut)))
                waiting = later
        row = W.new_zeros(W.shape[1]) if plus is None else plus
        known = [c for c in self.constants if c in read]
        if known:
            row = row + W.new_tensor([self.constants[c] for c in known]) @ W[known]
        return Sum(tuple(terms), row, not bool(row.any()))

    def whole(self, like: Tensor) -> Sum:
        """All coordinates."""
        return self.times(torch.eye(self.width, dtype=like.dtype, device=like.device))

    def is_constant(self, column: Floats) -> bool:
        """Whether a column of a map reads constants alone."""
        return all(int(c) in self.constants for c in np.flatnonzero(column))


def rows_of(entries: Floats) -> set[int]:
    """The coordinates that a map reads."""
    return set(np.flatnonzero(entries.any(axis=1)).tolist())
