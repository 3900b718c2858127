"""The checker's copy of the rounding model: what a machine may make of one operation, by operation, dtype and kernel.

The prover has a copy of its own. `weightwright selftest` measures a machine against this one; docs/certificates.md,
"The machine", says where the rules use each row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from weightwright.numbers import SMALLEST, UNIT


@dataclass(frozen=True)
class Rounding:
    """|computed - exact| <= units u |exact| + lost eta, u the unit roundoff and eta the smallest normal number.
    flushes: what enters may be taken for 0 where it is below eta, and is then off by up to eta more."""

    units: int
    lost: int = 1
    flushes: bool = False


#: Moves numbers and compares them: a copy, a choice, a maximum, a change of sign, a product with 0 or 1 out of a map.
COPY = Rounding(0, 0)
#: One addition or one product, in nearest rounding; a result below eta may be flushed.
ONCE = Rounding(1)
#: Every product and every addition inside a product of matrices, which are taken in any order. bfloat16: processors
#: with dot products of bfloat16 take subnormal numbers for 0, at some sizes of batch and not at others.
INSIDE = {"float64": ONCE, "float32": ONCE, "bfloat16": Rounding(1, flushes=True)}
#: Twice the units in the last place. float32 in kernel "dot": torch's quick one in flash attention. bfloat16: computed
#: in float32 and rounded.
EXP = {
    "dot": {"float64": Rounding(8), "float32": Rounding(40), "bfloat16": Rounding(2)},
    "anchor": {"float64": Rounding(8), "float32": Rounding(8), "bfloat16": Rounding(2)},
}
#: A softmax may multiply by the reciprocal of its sum; kernel "anchor" divides, within 2 units in the last place.
DIVISION = {"dot": Rounding(2), "anchor": Rounding(4)}

TABLE: dict[tuple[str, str, str], Rounding] = {
    (operation, dtype, kernel): row
    for dtype in UNIT
    for kernel in EXP
    for operation, row in {
        "copy": COPY,
        "sum": ONCE,
        "product": ONCE,
        "matrix product": INSIDE[dtype],
        "exp": EXP[kernel][dtype],
        "division": DIVISION[kernel],
    }.items()
}


@dataclass(frozen=True)
class Machine:
    """The rows of one dtype and kernel, as the rules use them."""

    dtype: str
    kernel: str = "dot"

    def row(self, operation: str) -> Rounding:
        return TABLE[operation, self.dtype, self.kernel]

    @property
    def unit(self) -> float:
        """u."""
        return UNIT[self.dtype]

    @property
    def smallest(self) -> float:
        """eta."""
        return SMALLEST[self.dtype]

    @property
    def flushed(self) -> float:
        """What a number that enters a product of matrices may be off by for being taken for 0."""
        return self.smallest if self.row("matrix product").flushes else 0.0

    @property
    def exp_off(self) -> float:
        """What the logarithm of a computed exponential is off by at most; in floats, times `midrad.ROOM` a bound."""
        return -math.log1p(-self.row("exp").units * self.unit)


def assumed(dtype: str, kernel: str) -> tuple[str, ...]:
    """The model in words; every certificate says them."""
    machine = Machine(dtype, kernel)
    exp, division = (f"{machine.row(name).units // 2}" for name in ("exp", "division"))
    divides = f", division within {division}" if kernel == "anchor" else ""
    sums = "sums may be taken in any order, with or without fused multiply-add; arithmetic rounds to nearest"
    flushes = "; products may take subnormal numbers for 0" if machine.flushed else ""
    return f"exp is computed within {exp} units in the last place{divides}", sums + flushes
