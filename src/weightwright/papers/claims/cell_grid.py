"""What is claimed about networks that look values up on a grid of cells, as data. Nothing is computed here.

[-B, B]^N, N = tokens * features, falls into g^N cells of half width B/g around the grid points
v_k = -B + (2k + 1) B/g; the core of a cell has the half width (1 - delta) B/g, the rest is its shell.
Cells are numbered row by row: the last feature of the last token moves fastest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from weightwright.claims.kinds import OUTPUT_ERROR, Claim
from weightwright.claims.leaf import OPAQUE, Leaf
from weightwright.claims.scope import Subject
from weightwright.network.layers import Frozen
from weightwright.numbers import Floats

Kind = Literal["bumps", "lookup", "softmax"]


@dataclass(frozen=True, eq=False)
class GridClaim(Claim, Frozen):
    """The bound is on the L_p norm of the error: (integral over the domain of the sum over the outputs of
    |network(x) - formula(x)|^p)^(1/p), the network being run on x rounded to the dtype; p is `norm`.

    For every real x of the domain, rounded to the dtype and run: the k-th output is within
    core[k, v] + leakage + rounding of formula k where x is in the core of cell v, and within
    shell[k, v] + rounding where x is in the rest of it.

    kind: "bumps" (feed-forward layers), "lookup" (a layer of bump heads, a layer of heads that pick the largest bump)
    or "softmax" (a layer of bump heads and a softmax).
    """

    kind: Kind
    tokens: int  # of an input
    features: int  # of a token
    g: int  # cells along each number
    delta: float  # share of a cell's half width that its shell takes
    B: float  # the domain is [-B, B] in every number
    formulas: tuple[str, ...]  # in x0, x1, ..., token by token; one for every output
    core: Floats  # (outputs, g^N)
    shell: Floats  # (outputs, g^N)
    leakage: float  # weight on other cells, times the spread of the values
    rounding: float  # what the dtype makes of it
    exceptional: float  # the volume of all shells together, at most
    norm: float  # p of the L_p norm that the certificate's bound is in
    head: Leaf | None = None  # what a bump head computes of its query: clip(s, 0, 1); none for "bumps"
    lipschitz: float | None = None  # of functions that are no formulas, in the infinity norm, as the caller states
    accuracy: float = 0.0  # how far their stored values may be off at the grid points

    rules = ("grid",)
    unsearched = "search looks for one input above the bound, and this network's bounds an L_p norm"

    @property
    def subject(self) -> Subject:
        return "norm"

    @property
    def error_norm(self) -> float:
        return self.norm

    @property
    def bounded(self) -> str:
        return OUTPUT_ERROR if self.norm == math.inf else f"the L_{self.norm:g} norm of the error"

    @property
    def leaves(self) -> Sequence[Leaf]:
        return [] if self.head is None else [self.head]

    @property
    def facts(self) -> dict[str, Any]:
        return {"cells": self.core.shape[1], "delta": self.delta, "exceptional_volume": self.exceptional}

    @property
    def name(self) -> str:
        """What whoever built it calls functions that are not formulas: free text, which nobody checks."""
        return "" if self.lipschitz is None else ", ".join(name.removeprefix(OPAQUE) for name in self.formulas)

    @property
    def stated(self) -> tuple[str, ...]:
        """What a proof about functions that are not formulas leans on, in words."""
        if self.lipschitz is None:
            return ()
        return (
            f"f changes by at most {self.lipschitz!r} times the largest change of an input, as the caller states",
            f"the values of f that are stored are those at the grid points within {self.accuracy!r}, as is taken for"
            " granted",
        )

    def in_words(self) -> str:
        """What the network computes: formulas, or functions that are known by their values."""
        if self.lipschitz is not None:
            what = "a function" if len(self.formulas) == 1 else f"{len(self.formulas)} functions"
            return f"{what} known by {self.core.size:,} values at grid points, which the network holds"
        return self.formulas[0] if len(self.formulas) == 1 else f"({', '.join(self.formulas)})"
