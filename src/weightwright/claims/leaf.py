"""A leaf: what is claimed about the heads of one layer, wherever the layer stands. Nothing is computed here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from weightwright.network.layers import Frozen
from weightwright.numbers import Floats

#: How the name of a function that is not a formula begins, where a claim holds names and formulas alike.
OPAQUE = "opaque "


@dataclass(frozen=True)
class Terms:
    """Where an error comes from. Every number is an upper bound, in the units of the output."""

    approximation: float  # the formula against the heads in exact arithmetic
    leakage: float  # weight on keys that should have none
    rounding: float  # what the dtype makes of it, in any order of summation


@dataclass(frozen=True, eq=False)
class Leaf(Frozen):
    """The heads of layer `layer` add up to the formula of their common query s.

    rule: "taylor" (boxes, Taylor models on each) or "nearest" (the two nearest anchors share the weight). In a
    `SampledClaim` the formula is the function's name, and polynomials through neighbouring samples stand for it.
    lipschitz bounds the formula's slope on [lo, hi], for errors in s itself.
    """

    layer: int  # number of the layer
    formula: str  # in s
    lo: float  # the least s that it is about
    hi: float  # the largest
    rule: Literal["taylor", "nearest"]
    boxes: Floats  # (number of boxes, 2): lo and hi of each; together they cover [lo, hi]
    terms: Terms  # what an error is made of
    lipschitz: float  # a bound of the formula's slope on [lo, hi]


@dataclass(frozen=True, eq=False)
class Samples(Frozen):
    """What is known of a function that is no formula: about its values at points, and a bound on a derivative.

    For every i, |f(x_i) - y_i| <= accuracy; for every x between the first and the last, |f^(order)(x)| <= derivative.
    """

    x: Floats  # increasing
    y: Floats  # values at x
    accuracy: float  # how far each y may be off
    order: int  # of the derivative that is bounded
    derivative: float  # its bound

    def assumptions(self) -> tuple[str, str]:
        """Both, in words: what a proof about such a function leans on."""
        return (
            f"the derivative of f of order {self.order} is at most {self.derivative!r} in size between"
            f" {float(self.x[0])!r} and {float(self.x[-1])!r}, as the caller states",
            f"the {len(self.x)} values of f that are stored are right within {self.accuracy!r}, as is taken for"
            " granted",
        )


@dataclass(frozen=True, eq=False)
class VectorLeaf(Frozen):
    """The same for several variables: the head computes the formula of its query (s0, s1) or (s0, s1, s2).

    lipschitz bounds the formula's slope along each axis on the box from lo to hi, for errors in the query itself.
    """

    layer: int  # number of the layer
    formula: str  # in s0, s1, ...
    lo: Floats  # (d,)
    hi: Floats  # (d,)
    rule: Literal["taylor"]  # Taylor models on boxes
    boxes: Floats  # (number of boxes, 2, d): lo and hi of each; together they cover the box from lo to hi
    terms: Terms  # what an error is made of
    lipschitz: Floats  # (d,)
