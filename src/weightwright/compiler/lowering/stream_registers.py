"""The coordinates of a compiled network and its registers: tables of functions, choices of softmaxes, padding.

The stream has these coordinates, in this order, each only where it is needed:

    one                  1 on data tokens, 0 on registers
    pos[i]               1 on data token i
    register, table      1 on every register; 1 on every register but the first
    padding              1 on the first register, which has no value: it takes the rest of a row
    key, offset, value   of a table, on its registers; the offset hides all other registers
    choice[j], offset    one-hot on the registers of a softmax
    the cells            0 on registers

Where tokens are mixed, a head takes what cells hold, and registers must go on holding 0 there, also in a plain
Transformer, which runs every head on them: their queries have an entry of their own, 0 on data tokens, that hides
everything from them but what has no value.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from weightwright.approximation.table import ProposedTable
from weightwright.compiler.lowering.token_matrices import Mixing
from weightwright.heads.registers import HIDDEN, Rows, on_registers, table_head
from weightwright.network import Head, Network, Sees
from weightwright.numbers import Floats


class Registers:
    """Which coordinate is which, what registers hold, and the heads that read them."""

    def __init__(
        self,
        parts: Sequence[ProposedTable],
        softmaxes: Sequence[int],  # sizes
        tokens: int,  # 0 where none are mixed
        cells: Sequence[str],
        farthest: float,
    ) -> None:
        names = _Names()
        self.one = names.add("one")
        start = len(names.all)
        for i in range(tokens):
            names.add(f"pos[{i}]")
        self.positions = slice(start, start + tokens)
        self.mixes = tokens > 0
        if self.mixes:
            self.register, self.table, self.padding = (names.add(name) for name in ("register", "table", "padding"))
        self._tables = [(part, index) for part in parts for index in range(len(part.tables))]
        self._columns: list[int] = []
        self.padding_rows = (0, 1)
        row = int(self.mixes)
        for part, index in self._tables:
            table = part.tables[index]
            assert (table.weight, table.own, table.window) == (1.0, None, None)  # as `propose_table` makes them
            self._columns.append(names.add(f"key of {part.profile}"))
            names.add(f"offset of {part.profile}")
            names.add(f"value of {part.profile}")
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
        self._first_cell = len(names.all)
        for name in cells:
            names.add(name)
        self.names, self.width = tuple(names.all), len(names.all)
        self._held, self._places = self._hold()

    def cell(self, index: int) -> int:
        return self._first_cell + index

    def registers(self) -> Floats:
        """(registers, coordinates)."""
        return self._held

    def _hold(self) -> tuple[Floats, dict[tuple[int, int], tuple[int, Rows]]]:
        """What registers hold; and where a part's tables stand: column and rows."""
        tables, below = [part.tables[index] for part, index in self._tables], sum(self._choices)
        held, rows = on_registers(tables, self._columns, self.width, int(self.mixes), below)
        for k, first in self._choices.items():
            own = slice(*self._choice_rows[k])
            held[:, first + k] = self.hidden
            held[own, first : first + k], held[own, first + k] = np.eye(k), 0.0
        if self.mixes:
            held[:, self.register], held[1:, self.table], held[0, self.padding] = 1.0, 1.0, 1.0
        keys = ((id(part), index) for part, index in self._tables)
        return held, dict(zip(keys, zip(self._columns, rows, strict=True), strict=True))

    def part_head(self, part: ProposedTable, index: int, source: int, row: Floats, role: str) -> Head:
        """The head of one of a part's tables, on the cell `source`; its result goes to all coordinates of the row."""
        table = part.tables[index]
        column, rows = self._places[id(part), index]
        head = table_head(table, part.query, role, source, self.one, column, rows, row)
        if not self.mixes:
            return head
        W_Q, W_K = self._sparing_registers(head.W_Q, head.W_K, HIDDEN / table.beta)
        return dataclasses.replace(head, W_Q=W_Q, W_K=W_K)

    def softmax_head(self, sources: Sequence[int], W_O: Floats, role: str) -> Head:
        """The head whose scores are the cells `sources` and whose weights are its result."""
        k = len(sources)
        first = self._choices[k]
        W_Q, W_K, W_V = np.zeros((self.width, k + 1)), np.zeros((self.width, k + 1)), np.zeros((self.width, k))
        W_Q[list(sources), range(k)] = 1.0
        W_Q[self.one, k] = 1.0
        W_K[first : first + k, :k], W_K[first + k, k], W_K[self.one, k] = np.eye(k), 1.0, self.hidden
        W_V[first : first + k] = np.eye(k)
        W_Q, W_K = self._sparing_registers(W_Q, W_K, self.hidden)
        return Head(role, W_Q, W_K, W_V, W_O, sees=Sees(self._choice_rows[k], "none"))

    def _sparing_registers(self, W_Q: Floats, W_K: Floats, hidden: float) -> tuple[Floats, Floats]:
        """One more entry of query and key, for registers only: they see none that has a value."""
        if not self.mixes:
            return W_Q, W_K
        W_Q, W_K = (np.pad(W, ((0, 0), (0, 1))) for W in (W_Q, W_K))
        W_Q[self.register, -1], W_K[self.table, -1] = 1.0, hidden
        return W_Q, W_K

    def mixing_head(self, mixing: Mixing, W_V: Floats, W_O: Floats, role: str) -> Head:
        """A head with constant scores. Data tokens see data tokens, those before them alone where no later one has
        weight, and the padding where it has scores; registers see registers, whose cells hold 0."""
        n = len(mixing.scores)
        W_Q, W_K = np.zeros((self.width, n + 2)), np.zeros((self.width, n + 2))
        W_Q[self.positions, :n], W_Q[self.one, n], W_Q[self.register, n + 1] = np.eye(n), 1.0, 1.0
        W_K[self.positions, :n], W_K[self.one, n + 1] = mixing.scores.T, HIDDEN
        W_K[self.register if mixing.padding is None else self.table, n] = HIDDEN
        if mixing.padding is not None:
            W_K[self.padding, :n] = mixing.padding
        seen = (0, 0) if mixing.padding is None else self.padding_rows
        causal = bool((mixing.scores[np.triu_indices(n, 1)] == HIDDEN).all()) and n > 1
        return Head(role, W_Q, W_K, W_V, W_O, sees=Sees(seen, "earlier" if causal else "all"))

    def attention_head(
        self,
        queries: Sequence[int],
        keys: Sequence[int],
        values: Sequence[int],
        seen: Floats | None,
        W_O: Floats,
        role: str,
    ) -> Head:
        """Scores are products of cells. What a token does not see, and registers, are hidden by further entries; so are
        data tokens from registers."""
        n, h = self.positions.stop - self.positions.start, len(queries)
        coded = 0 if seen is None else n
        W_Q, W_K = np.zeros((self.width, h + 2 + coded)), np.zeros((self.width, h + 2 + coded))
        W_Q[list(queries), range(h)] = W_K[list(keys), range(h)] = 1.0
        W_Q[self.one, h], W_K[self.register, h] = 1.0, self.hidden
        W_Q[self.register, h + 1], W_K[self.one, h + 1] = 1.0, self.hidden
        if seen is not None:
            W_Q[self.positions, h + 2 :], W_K[self.positions, h + 2 :] = np.eye(n), self.hidden * (1 - seen.T)
        W_V = np.zeros((self.width, len(values)))
        W_V[list(values), range(len(values))] = 1.0
        return Head(role, W_Q, W_K, W_V, W_O, sees=Sees((0, 0), "all"))


def hide_register(network: Network) -> Floats:
    """(coordinates,): what a register of another network holds, so that no head of this compiled one looks at it: the
    offset that hides data tokens from tables, and that it is a register like any with a value."""
    names = network.embed.coordinates
    hidden = np.array([float(name in ("register", "table")) for name in names])
    for head in network.heads:
        for place, entry in np.argwhere(head.W_K == 1.0):
            if names[place].startswith("offset of "):
                hidden[place] = head.W_K[names.index("one"), entry]
    return hidden


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
