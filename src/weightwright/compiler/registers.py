"""The coordinates of a compiled network and its registers: tables of functions, choices of softmaxes, padding.

The stream has these coordinates, in this order, each only where it is needed:

    one                  1 on data tokens, 0 on registers
    pos[i]               1 on data token i
    register, table      1 on every register; 1 on every register but the padding
    padding              1 on the register of value 0 that takes the rest of a row
    key, offset, value   of a table, on its registers; the offset hides all other registers
    choice[j], offset    one-hot on the registers of a softmax
    the cells            0 on registers
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weightwright.compiler.parts import Part
from weightwright.heads.assemble import HIDDEN, Table
from weightwright.network import Head, Sees
from weightwright.network.layers import Floats


class Registers:
    """Which coordinate is which, what registers hold, and the heads that read them."""

    def __init__(
        self,
        parts: Sequence[Part],
        softmaxes: Sequence[int],  # sizes
        tokens: int,  # 0 where none are mixed
        padded: bool,
        cells: Sequence[str],
        farthest: float,
    ) -> None:
        names = _Names()
        self.one = names.add("one")
        start = len(names.all)
        for i in range(tokens):
            names.add(f"pos[{i}]")
        self.positions = slice(start, start + tokens)
        self.register = names.add("register") if tokens else -1
        self.table, self.padding = (names.add("table"), names.add("padding")) if padded else (-1, -1)
        self._columns: dict[tuple[int, int], int] = {}
        self._rows: dict[tuple[int, int], tuple[int, int]] = {}
        self._tables: dict[tuple[int, int], Table] = {}
        row = 0
        for part in parts:
            for index, table in enumerate(part.tables):
                assert (table.weight, table.own, table.window) == (1.0, None, None)  # as `spectral_part` makes them
                key = id(part), index
                self._columns[key] = names.add(f"key of {part.profile}")
                names.add(f"offset of {part.profile}")
                names.add(f"value of {part.profile}")
                self._tables[key], self._rows[key] = table, (row, row + len(table.keys))
                row += len(table.keys)
        self.hidden = HIDDEN
        while self.hidden > HIDDEN - farthest:  # a power of two, and below every argument of a softmax
            self.hidden *= 2
        self._choices: dict[int, int] = {}
        self._choice_rows: dict[int, tuple[int, int]] = {}
        for k in softmaxes:
            self._choices[k], self._choice_rows[k] = len(names.all), (row, row + k)
            for j in range(k):
                names.add(f"choice[{j}] of {k}")
            names.add(f"offset of choices of {k}")
            row += k
        self.padding_rows = (row, row + 1) if padded else (0, 0)
        self._count = row + padded
        self._first_cell = len(names.all)
        for name in cells:
            names.add(name)
        self.names, self.width = tuple(names.all), len(names.all)

    def cell(self, index: int) -> int:
        return self._first_cell + index

    def registers(self) -> Floats:
        """(registers, coordinates)."""
        held = np.zeros((self._count, self.width))
        for key, table in self._tables.items():
            rows, column = slice(*self._rows[key]), self._columns[key]
            held[:, column + 1] = HIDDEN / table.beta
            held[rows, column], held[rows, column + 1], held[rows, column + 2] = table.keys, table.offsets, table.values
        for k, first in self._choices.items():
            rows = slice(*self._choice_rows[k])
            held[:, first + k] = self.hidden
            held[rows, first : first + k], held[rows, first + k] = np.eye(k), 0.0
        if self.register >= 0:
            held[:, self.register] = 1.0
        if self.padding >= 0:
            held[:, self.table] = 1.0
            held[-1, self.table], held[-1, self.padding] = 0.0, 1.0
        return held

    def part_head(self, part: Part, index: int, source: int, row: Floats, role: str) -> Head:
        """The head of one of a part's tables, on the cell `source`; its result goes to all coordinates of the row."""
        key = id(part), index
        table, column = self._tables[key], self._columns[key]
        W_Q, W_K, W_V = np.zeros((self.width, 2)), np.zeros((self.width, 2)), np.zeros((self.width, 1))
        W_Q[source, 0], W_Q[self.one, 1] = part.query.scale, 1.0
        W_Q[self.one, 0] = -part.query.centre * part.query.scale
        W_K[column, 0], W_K[column + 1, 1], W_K[self.one, 1] = 1.0, 1.0, HIDDEN / table.beta
        W_V[column + 2, 0] = 1.0
        return Head(role, W_Q, W_K, W_V, row[None], table.beta, Sees(self._rows[key], "none"))

    def softmax_head(self, sources: Sequence[int], W_O: Floats, role: str) -> Head:
        """The head whose scores are the cells `sources` and whose weights are its result."""
        k = len(sources)
        first = self._choices[k]
        W_Q, W_K, W_V = np.zeros((self.width, k + 1)), np.zeros((self.width, k + 1)), np.zeros((self.width, k))
        W_Q[list(sources), range(k)] = 1.0
        W_Q[self.one, k] = 1.0
        W_K[first : first + k, :k], W_K[first + k, k], W_K[self.one, k] = np.eye(k), 1.0, self.hidden
        W_V[first : first + k] = np.eye(k)
        return Head(role, W_Q, W_K, W_V, W_O, sees=Sees(self._choice_rows[k], "none"))

    def hide_from_mixing(self, W_K: Floats, n: int, padding: Floats | None) -> None:
        """A mixing head's keys on registers: hidden, but for the padding where it has scores."""
        if padding is None:
            W_K[self.register, n] = HIDDEN
        else:
            W_K[self.table, n] = HIDDEN
            W_K[self.padding, :n] = padding


class _Names:
    """Different names for everything: a name that comes again is numbered."""

    def __init__(self) -> None:
        self.all: list[str] = []
        self._seen: set[str] = set()

    def add(self, name: str) -> int:
        """The number of the coordinate."""
        different, number = name, 1
        while different in self._seen:
            number += 1
            different = f"{name} ({number})"
        self._seen.add(different)
        self.all.append(different)
        return len(self.all) - 1
