"""How a product of two columns becomes the difference of two squares, balanced and scaled."""

from __future__ import annotations

import math

from weightwright.claims.graph import ProductClaim
from weightwright.compiler.lowering.ranges import ColumnRanges

#: Bits of the middles that are taken off the factors.
BITS = 20


#: A factor counts as reaching at least this share of how far the other does.
LEAST = 2.0**-40


def product_claim(unit: int, ranges: ColumnRanges, off: tuple[float, float], lemma: int) -> ProductClaim:
    """How a product becomes two squares of numbers in [-1, 1]; off: what the two factors may be off by."""
    of = ranges.forms.graph.nodes[unit].of
    ends = [(float(lo.min()), float(hi.max())) for lo, hi in (ranges.of(c) for c in of)]
    around = [(0.0, max(map(abs, interval))) if ranges.ablatable else _middle(*interval) for interval in ends]
    (x, a), (y, b) = around
    a, b = a + off[0], b + off[1]
    a, b = max(a, LEAST * b), max(b, LEAST * a)  # a factor that hardly moves
    balance = 2.0 ** round(math.log2(b / a) / 2) if a > 0 and b > 0 else 1.0
    reach = (balance * a + b / balance) * (1 + 2.0**-20)
    scale = 2.0 ** math.floor(-math.log2(reach)) if reach > 0 else 1.0
    return ProductClaim(unit, balance, scale, x, y, lemma)


def _middle(lo: float, hi: float) -> tuple[float, float]:
    """The middle in few bits, or 0 if that costs little; and how far the interval reaches from it."""
    middle = lo / 2 + hi / 2
    if abs(middle) <= (hi - lo) / 32:
        return 0.0, max(abs(lo), abs(hi))
    mantissa, exponent = math.frexp(middle)
    few = math.ldexp(round(mantissa * 2**BITS), exponent - BITS)
    return few, max(hi - few, few - lo)
