"""Keys and values as a network: registers that hold them, heads that read them, token by token.

The stream has these coordinates; with several heads, key, offset and value are numbered:

    x[0]     the input
    data     1 on data tokens, 0 on registers
    key      what multiplies the query, on registers
    offset   what is added to the score, on registers
    value    on registers
    <f>      the output: starts as slope x + mean, the heads add the rest
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from fractions import Fraction

import numpy as np

from weightwright.circuit.contributions import bare_in_words
from weightwright.network import Attention, Head, Network, Sees, selection, token_wise
from weightwright.numbers import FORMATS, SMALLEST, Floats, rounded
from weightwright.prover import Anchors, Sum, Window
from weightwright.prover.machine import FLUSHED

#: How far below the anchors' scores hidden keys are put: e^-1000 of weight is no weight.
HIDDEN = -1024.0

#: The registers of one table: from the first index up to but not including the second.
Rows = tuple[int, int]


@dataclass(frozen=True)
class Own:
    """The token itself as a key, with score beta (key s + offset) and value slope x + value."""

    key: float
    offset: float
    slope: float
    value: float


@dataclass(frozen=True)
class Table:
    """Scores beta (keys_j s + offsets_j) and centred values. beta is a power of two: it multiplies exactly.

    The output of the head is multiplied by `weight`. `own` adds the token itself to the keys. window M: only the
    2 M + 1 anchors nearest to the query have weight; see `heads.window`.
    """

    keys: Floats
    offsets: Floats
    values: Floats
    beta: float = 1.0
    weight: float = 1.0
    own: Own | None = None
    window: int | None = None

    @property
    def size(self) -> int:
        """The number of keys."""
        return len(self.keys) + (self.own is not None)

    def rounded(self, dtype: str) -> Table:
        """The table in numbers of the dtype."""
        keys, offsets, values = (rounded(x, dtype) for x in (self.keys, self.offsets, self.values))
        own = self.own and Own(*(float(rounded(np.array(x), dtype)) for x in astuple(self.own)))
        return replace(self, keys=keys, offsets=offsets, values=values, own=own)

    def anchors(self, query: Query) -> Anchors:
        """The table as the prover sees it."""
        keys, offsets, values, tilts = self.keys, self.offsets, self.values, np.zeros(len(self.keys))
        if self.own is not None:
            keys, offsets = np.append(keys, self.own.key), np.append(offsets, self.own.offset)
            values = np.append(values, self.own.value + self.own.slope * query.centre)
            tilts = np.append(tilts, self.own.slope / query.scale)
        if self.window is not None:
            L = keys / 2  # the offsets are rounded, but a window does not use them
            window = Window(self.window, round(L[0]), self.beta)
            return Anchors(2 * self.beta * L, -self.beta * L**2, values, tilts, True, -math.inf, self.weight, window)
        hidden = HIDDEN if self.own is None else -math.inf
        copied = self.own is None or (self.own.value == 0 and _power_of_two(self.own.slope))
        return Anchors(self.beta * keys, self.beta * offsets, values, tilts, copied, hidden, self.weight)


def _power_of_two(x: float) -> bool:
    return abs(math.frexp(x)[0]) == 0.5


@dataclass(frozen=True)
class Query:
    """s = (x - centre) * scale, with a scale that is a power of two; |s| is 2 at most unless it was made finer."""

    centre: float
    scale: float

    @classmethod
    def covering(cls, lo: float, hi: float, dtype: str) -> Query:
        """Around 0 if the domain holds it (then no bit of x is lost), else around about the middle."""
        centre = 0.0 if lo <= 0 <= hi else float(rounded(np.array(lo / 2 + hi / 2), dtype))
        mantissa, exponent = math.frexp(max(hi - centre, centre - lo))
        return cls(centre, math.ldexp(1.0, (mantissa == 0.5) - exponent))

    def finer(self, factor: float) -> Query:
        """The query in units of 1/factor, a power of two: whole numbers are then the anchors of a windowed head."""
        return Query(self.centre, self.scale * factor)

    def __call__(self, x: float) -> float:
        """The query of x."""
        return (x - self.centre) * self.scale

    def lost(self, dtype: str) -> float | None:
        """What s can be off by for numbers below the normal range; None where it is computed without rounding."""
        if self.centre == 0 and self.scale >= 1 and not FLUSHED[dtype]:
            return None
        return SMALLEST[dtype] + FLUSHED[dtype] * self.scale

    def reach(self, lo: float, hi: float, dtype: str) -> tuple[float, float]:
        """An interval that holds every query of [lo, hi], rounded once in the dtype or not at all."""
        ends = [(Fraction(x) - Fraction(self.centre)) * Fraction(self.scale) for x in (lo, hi)]
        lost = self.lost(dtype)
        if lost is None:
            return float(ends[0]), float(ends[1])  # floats already
        slip, least = Fraction(2) ** (1 - FORMATS[dtype].bits), Fraction(lost)
        first, last = float(ends[0] - slip * abs(ends[0]) - least), float(ends[1] + slip * abs(ends[1]) + least)
        return math.nextafter(first, -math.inf), math.nextafter(last, math.inf)


@dataclass(frozen=True)
class Design:
    """One layer: the output is mean + slope x + the heads of the tables, each with its role in words."""

    tables: tuple[Table, ...]
    roles: tuple[str, ...]
    mean: float
    slope: float = 0.0
    query: Query | None = None  # where the query is not the task's own
    edges: Floats | None = None  # where the first boxes of a proof end, in s; None: evenly

    @property
    def size(self) -> int:
        """The number of keys of all heads."""
        return sum(table.size for table in self.tables)

    def layer(self, query: Query) -> Sum:
        """The design as the prover sees it."""
        return Sum(tuple(table.anchors(query) for table in self.tables), self.slope / query.scale)


def on_registers(
    tables: Sequence[Table], columns: Sequence[int], width: int, first: int = 0, below: int = 0
) -> tuple[Floats, list[Rows]]:
    """Registers that hold the tables one below the other, from row `first` on, and the rows of each.

    below: rows that follow the last table. A table's keys, offsets and values stand in three coordinates from its
    column on. Its offset hides all rows that are not its own, unless the head sees the token itself: then it sees
    nothing else that would have to be hidden.
    """
    ends = (first + np.cumsum([len(table.keys) for table in tables])).tolist()
    rows = [(end - len(table.keys), end) for table, end in zip(tables, ends, strict=True)]
    registers = np.zeros(((rows[-1][1] if rows else first) + below, width))
    for table, column, own in zip(tables, columns, rows, strict=True):
        if table.own is None:
            registers[:, column + 1] = HIDDEN / table.beta
        registers[slice(*own), column : column + 3] = np.stack([table.keys, table.offsets, table.values], axis=1)
    return registers, rows


def table_head(
    table: Table, query: Query, role: str, source: int, one: int, column: int, rows: Rows, results: Floats
) -> Head:
    """The head of a table on registers: its query is (s, 1), s = (coordinate `source` - centre) * scale.

    one: the coordinate that is 1 on data tokens. results: (width,), what every coordinate takes of the head's output.
    """
    W_Q, W_K, W_V = (np.zeros((len(results), size)) for size in (2, 2, 1))
    W_Q[source, 0], W_Q[one, 0], W_Q[one, 1] = query.scale, -query.centre * query.scale, 1.0
    W_K[column, 0], W_K[column + 1, 1] = 1.0, 1.0
    W_V[column + 2, 0] = 1.0
    if table.own is None:
        W_K[one, 1] = HIDDEN / table.beta
        return Head(role, W_Q, W_K, W_V, results[None], table.beta, Sees(rows, "none"), window=table.window)
    W_K[one, 0], W_K[one, 1] = table.own.key, table.own.offset
    W_V[source, 0], W_V[one, 0] = table.own.slope, table.own.value
    return Head(role, W_Q, W_K, W_V, results[None], table.beta, Sees(rows, "self"))


def weight_at(width: int, place: int, weight: float) -> Floats:
    """(width,): the results of a head that writes to one coordinate."""
    results = np.zeros(width)
    results[place] = weight
    return results


def table_names(count: int) -> list[str]:
    """What the coordinates of this many tables are called; with several they are numbered."""
    numbers = [f"[{i}]" for i in range(count)] if count > 1 else [""]
    return [f"{part}{number}" for number in numbers for part in ("key", "offset", "value")]


def assemble(design: Design, query: Query, formula: str, dtype: str = "float64") -> Network:
    """The network that returns mean + slope x + heads((x - centre) * scale)."""
    tables = design.tables
    names = ("x[0]", "data", *table_names(len(tables)), formula)
    columns = range(2, 2 + 3 * len(tables), 3)
    registers, rows = on_registers(tables, columns, len(names))
    _, beside = bare_in_words(formula, design.mean, design.slope, 0.0)
    heads = tuple(
        table_head(table, query, role + beside, 0, 1, column, own, weight_at(len(names), -1, table.weight))
        for table, role, column, own in zip(tables, design.roles, columns, rows, strict=True)
    )
    return Network(
        inputs=("x[0]",),
        embed=token_wise(
            ("x[0]",),
            names,
            {("x[0]", "x[0]"): 1.0, ("x[0]", formula): design.slope},
            {"data": 1.0, formula: design.mean},
        ),
        registers=registers,
        layers=(Attention(names, heads),),
        read=selection(names, (formula,)),
        dtype=dtype,
    )
