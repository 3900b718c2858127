"""The prover's copy of the rounding model, in the form its rules use: unit roundoffs by operation, dtype and kernel.

The checker has a copy of its own, which says more; a test holds the two side by side.
"""

from __future__ import annotations

from weightwright.numbers import SMALLEST

#: Unit roundoffs that an exponential is off by, relative to it, by kernel and dtype.
EXP_UNITS = {
    "dot": {"float64": 8, "float32": 40, "bfloat16": 2},
    "anchor": {"float64": 8, "float32": 8, "bfloat16": 2},
}
#: The same for a division by the sum of the weights, and for a product with a weight.
DIVISION_UNITS = {"dot": 2, "anchor": 4}
PRODUCT_UNITS = 1
#: What a number that enters a product of matrices may be off by for being taken for 0: the smallest normal number
#: where subnormal ones may be flushed.
FLUSHED = {"float64": 0.0, "float32": 0.0, "bfloat16": SMALLEST["bfloat16"]}

#: What proposals that were found in plain floats are made larger by, so that the checker finds them large enough: for a
#: few roundings in float64, for a sum of them, for terms of second order in u, for both.
HARDLY, SLIGHTLY, SPARE, AMPLY = 1.0001, 1.001, 1.01, 1.02


def assumptions(dtype: str, kernel: str) -> tuple[str, ...]:
    """What the rounding model takes for granted; every certificate that uses it says so."""
    exp = f"exp is computed within {EXP_UNITS[kernel][dtype] // 2} units in the last place"
    if kernel == "anchor":
        exp += f", division within {DIVISION_UNITS[kernel] // 2}"
    sums = "sums may be taken in any order, with or without fused multiply-add; arithmetic rounds to nearest"
    return exp, sums + ("; products may take subnormal numbers for 0" if FLUSHED[dtype] else "")
