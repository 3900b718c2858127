"""What a construction hands over to be shown: its networks, its counts, a line to draw along, or checks of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from weightwright.constructions.rates import Study
from weightwright.network import cost
from weightwright.network.layers import Floats
from weightwright.runtime import AttentionNetwork

Norm = Literal["inf", "L1", "L2"]  # of the error over the domain
Outcome = Literal["PROVEN", "MEASURED", "FAILED"]


@dataclass(frozen=True)
class Count:
    """One exact count (UA-14): what our formula says, what was built, and the paper's own order as a number."""

    what: str  # "heads, faithful"
    formula: str  # ours, in words
    value: int
    built: int
    order: str | None = None  # the paper's, in words; None where it gives none
    paper: float | None = None

    @property
    def agrees(self) -> bool:
        return self.value == self.built

    @property
    def ratio(self) -> float | None:
        """What was built, as a multiple of the paper's order."""
        return self.built / self.paper if self.paper else None


def counted(
    net: AttentionNetwork,
    what: Literal["layers", "heads", "anchors", "parameters"],
    formula: str,
    value: int,
    order: str | None = None,
    paper: float | None = None,
) -> Count:
    """A count of the network as it was built, beside its formula."""
    name = f"{what}, {net.about.method}" if net.about is not None else what
    return Count(name, formula, value, int(getattr(cost(net.network), what)), order, paper)


@dataclass(frozen=True)
class Check:
    """One variant of a theorem and how it came out. bound is None where nothing is proven.

    measured: the largest error found in the norm (for L1, L2 the Monte-Carlo estimate; `interval` is its 99% interval).
    """

    name: str
    status: Outcome
    bound: float | None
    measured: float | None
    norm: Norm | Literal["1"] = "inf"  # "1": of a vector
    inputs: int = 0
    interval: tuple[float, float] | None = None
    native: bool | None = None
    cost: Mapping[str, float] = field(default_factory=dict)
    chosen: Mapping[str, float] = field(default_factory=dict)
    printed: Mapping[str, float] = field(default_factory=dict)
    bounds: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    reason: str | None = None  # why it failed


@dataclass(frozen=True)
class Line:
    """A line through the inputs, along which target, output, error and attention are drawn.

    at: numbers in [lo, hi] -> inputs (count, n, d). anchors: where they stand on the line; marks: other places worth a
    line of their own (a, b, seams), by name. Output (token, output) is drawn; the error is that of all outputs.
    heads: (number of the attention layer, head) whose weights are drawn, as seen by `token`.
    """

    lo: float
    hi: float
    at: Callable[[Floats], Floats]
    label: str
    anchors: tuple[float, ...] = ()
    marks: Mapping[str, float] = field(default_factory=dict)
    token: int = 0
    output: int = 0
    heads: tuple[tuple[int, int], ...] = ((0, 0),)


@dataclass(frozen=True)
class Instance:
    """A small instance of a theorem. The first network or check is the one whose bound stands for the theorem.

    nets: each with a certificate and `about`; they are measured by `show`. norm: which of `about.bounds` is meant where
    it is not the infinity norm. checks: of what is no network, already measured. studies: where the theorem is one.
    """

    nets: tuple[AttentionNetwork, ...] = ()
    norm: Norm = "inf"
    checks: tuple[Check, ...] = ()
    counts: tuple[Count, ...] = ()
    line: Line | None = None
    studies: tuple[Study, ...] = ()
