"""Keys and values as a network: registers that hold them, one head that reads them, token by token.

The stream has six coordinates:

    x[0]     the input
    data     1 on data tokens, 0 on registers
    key      what multiplies the query, on registers
    offset   what is added to the score, on registers
    value    on registers
    <f>      the output: starts as the mean of f, the head adds the rest
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from weightwright.certificates.prover import Anchors
from weightwright.certificates.prover.rounding import UNDERFLOW
from weightwright.network import Attention, Head, Network, Sees, selection, token_wise
from weightwright.network.laws import PRECISION, rounded
from weightwright.network.layers import Floats

#: How far below the anchors' scores hidden keys are put: e^-1000 of weight is no weight.
HIDDEN = -1024.0


@dataclass(frozen=True)
class Table:
    """Scores beta (keys_j s + offsets_j) and centred values. beta is a power of two: it multiplies exactly.

    window M: only the 2 M + 1 anchors nearest to the query have weight; see `heads.window`.
    """

    keys: Floats
    offsets: Floats
    values: Floats
    beta: float = 1.0
    window: int | None = None

    def rounded(self, dtype: str) -> Table:
        """The table in numbers of the dtype."""
        keys, offsets, values = (rounded(array, dtype) for array in (self.keys, self.offsets, self.values))
        return Table(keys, offsets, values, self.beta, self.window)

    @property
    def anchors(self) -> Anchors:
        """The table as the prover sees it."""
        return Anchors(self.beta * self.keys, self.beta * self.offsets, self.values, HIDDEN)


@dataclass(frozen=True)
class Query:
    """s = (x - centre) * scale, with a scale that is a power of two; |s| <= 1 unless it was made finer."""

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

    @property
    def exact(self) -> bool:
        """Whether s is computed without rounding."""
        return self.centre == 0 and self.scale >= 1

    def reach(self, lo: float, hi: float, dtype: str) -> tuple[float, float]:
        """An interval that holds every query of [lo, hi], rounded once in the dtype or not at all."""
        ends = [(Fraction(x) - Fraction(self.centre)) * Fraction(self.scale) for x in (lo, hi)]
        if self.exact:
            return float(ends[0]), float(ends[1])  # floats already
        slip, least = Fraction(2) ** (1 - PRECISION[dtype][0]), Fraction(UNDERFLOW[dtype])
        first, last = float(ends[0] - slip * abs(ends[0]) - least), float(ends[1] + slip * abs(ends[1]) + least)
        return math.nextafter(first, -math.inf), math.nextafter(last, math.inf)


def assemble(table: Table, query: Query, mean: float, formula: str, role: str, dtype: str = "float64") -> Network:
    """The one-head network that returns mean + head((x - centre) * scale)."""
    names = ("x[0]", "data", "key", "offset", "value", formula)
    registers = np.zeros((len(table.keys), len(names)))
    registers[:, 2], registers[:, 3], registers[:, 4] = table.keys, table.offsets, table.values
    W_Q, W_K, W_V = np.zeros((6, 2)), np.zeros((6, 2)), np.zeros((6, 1))
    W_Q[0, 0], W_Q[1, 0], W_Q[1, 1] = query.scale, -query.centre * query.scale, 1.0
    W_K[2, 0], W_K[3, 1], W_K[1, 1] = 1.0, 1.0, HIDDEN / table.beta
    W_V[4, 0] = 1.0
    W_O = np.zeros((1, 6))
    W_O[0, 5] = 1.0
    sees = Sees(registers=(0, len(table.keys)), data="none")
    head = Head(role, W_Q, W_K, W_V, W_O, table.beta, sees, window=table.window)
    return Network(
        inputs=("x[0]",),
        embed=token_wise(("x[0]",), names, {("x[0]", "x[0]"): 1.0}, {"data": 1.0, formula: mean}),
        registers=registers,
        layers=(Attention(names, (head,)),),
        read=selection(names, (formula,)),
        dtype=dtype,
    )
