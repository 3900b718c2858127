"""What a construction hands over to be shown: its networks, its counts, a line to draw along, or checks of its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from weightwright.numbers import Floats
from weightwright.papers.kit.rates import Study
from weightwright.runtime import AttentionNetwork

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
    formula: str,
    values: Mapping[str, int],
    paper: Mapping[str, tuple[str, float]] | None = None,
    name: str | None = None,
) -> tuple[Count, ...]:
    """Counts of the network as it was built beside what the formula gives: by `Cost`'s names, "registers" or "width".

    paper: the paper's order in words and as a number, for those that it has. name: the network's, if not its method.
    """
    name = name or net.about.method
    built = {
        **dataclasses.asdict(net.cost),
        "registers": len(net.network.registers),
        "width": len(net.network.embed.coordinates),
    }
    return tuple(
        Count(f"{what}, {name}", formula, value, int(built[what]), *(paper or {}).get(what, ()))
        for what, value in values.items()
    )


@dataclass(frozen=True)
class Check:
    """One variant of a theorem and how it came out. bound is None where nothing is proven.

    norm: "inf", "L1", ... of the error over the domain, or "1" of a vector. measured: the largest error found; in L_p
    the Monte-Carlo estimate, with its 99% interval in `interval`, and the target's own norm in `target_norm`.
    """

    name: str
    status: Outcome
    bound: float | None
    measured: float | None
    norm: str = "inf"
    inputs: int = 0
    interval: tuple[float, float] | None = None
    native: bool | None = None
    cost: Mapping[str, float] = field(default_factory=dict)
    chosen: Mapping[str, float] = field(default_factory=dict)
    printed: Mapping[str, float] = field(default_factory=dict)
    bounds: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    reason: str | None = None  # why it failed
    target_norm: float | None = None  # an estimate


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
class Matrices:
    """Matrices to be compared, by name."""

    title: str
    shown: Mapping[str, Floats]


@dataclass(frozen=True)
class Instance:
    """A small instance of a theorem. The first network or check is the one whose bound stands for the theorem.

    nets: each with a certificate and `about`; they are measured by `show`. names: of the networks, where their methods
    do not tell them apart. checks: of what is no network, already measured. studies: where the theorem is one.
    drawn: how many of the networks, from the first on, take the inputs of the line.
    """

    nets: tuple[AttentionNetwork, ...] = ()
    names: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()
    counts: tuple[Count, ...] = ()
    line: Line | None = None
    studies: tuple[Study, ...] = ()
    matrices: Matrices | None = None  # where the theorem is about one
    drawn: int | None = None  # None: all

    @property
    def variants(self) -> dict[str, AttentionNetwork]:
        """The networks by name."""
        return dict(zip(self.names or [net.about.method for net in self.nets], self.nets, strict=True))
