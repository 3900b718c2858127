"""What a construction hands over to be shown: its networks, its counts, a line to draw along, or checks of its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Literal

from weightwright.network import Attention, Loop
from weightwright.network.layers import Layer
from weightwright.numbers import Floats
from weightwright.papers.kit.rates import Point, Series, Study
from weightwright.runtime import AttentionNetwork
from weightwright.runtime.watch import ends_a_pass

Outcome = Literal["PROVEN", "MEASURED", "FAILED"]
Orders = Mapping[str, tuple[str, float]]  # the paper's orders by what they count: in words, and as a number

COUNTED = ("layers", "heads", "registers", "width", "parameters")
#: Of a network that reads samples; of one that looks values up on a grid.
IN_A_PROMPT = (*COUNTED, "layers of every kind", "scores a step")
ON_A_GRID = ("layers", "heads", "anchors", "parameters", "registers", "width")


@dataclass(frozen=True)
class Count:
    """One exact count (UA-14): what was built, beside a formula of the construction's own or the paper's order."""

    what: str  # "heads, faithful"
    formula: str  # where value is from, in words
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
    name: str,
    orders: Orders | None = None,
    shown: Sequence[str] = COUNTED,
) -> tuple[Count, ...]:
    """Counts of the network as it was built, beside the paper's orders. shown: what is counted."""
    built = {
        **dataclasses.asdict(net.cost),
        "registers": len(net.network.registers),
        "width": len(net.network.embed.coordinates),
        "layers of every kind": _count_layers(net.network.layers),
        "scores a step": _count_scores(net),
    }
    return tuple(
        Count(f"{what}, {name}", "net.cost", built[what], built[what], *(orders or {}).get(what, ())) for what in shown
    )


def counted_each(
    nets: Mapping[str, AttentionNetwork], orders: Mapping[str, Orders] | None = None, shown: Sequence[str] = COUNTED
) -> tuple[Count, ...]:
    """The same of every network, by its name."""
    counts = (counted(net, name, (orders or {}).get(name), shown) for name, net in nets.items())
    return tuple(chain.from_iterable(counts))


def _count_layers(layers: Sequence[Layer]) -> int:
    return sum(layer.times * _count_layers(layer.layers) if isinstance(layer, Loop) else 1 for layer in layers)


def _count_scores(net: AttentionNetwork) -> int:
    """What the heads of the first pass compute that see a block: a block for each sample, asked by one token."""
    total = 0
    for layer in net.network.flat_layers:
        if isinstance(layer, Attention):
            blocks = [head.sees.block for head in layer.heads if head.sees.data == "block"]
            total += (net.network.tokens or 1) * sum(blocks)
        elif ends_a_pass(layer):
            break
    return total


@dataclass(frozen=True)
class Check:
    """One variant of a theorem and how it came out. bound is None where nothing is proven.

    norm: "inf", "L1", ... of the error over the domain, or "1" of a vector. measured: the largest error found; in L_p
    the Monte-Carlo estimate, with its 99% interval in `interval`, and the target's own norm in `target_norm`. size: the
    largest number of the target that was met.
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
    size: float | None = None

    @property
    def vacuous(self) -> bool:
        """Whether the bound is no smaller than the target itself, so that returning 0 would keep it."""
        own = self._own_size()
        return self.bound is not None and own is not None and self.bound >= own

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the numbers alone do not say."""
        own = self._own_size()
        if own is None or not self.vacuous:
            return ()
        return (f"the bound is vacuous: the target's own size, as far as it was tried, is {own:.3g}",)

    def _own_size(self) -> float | None:
        return self.size if self.norm == "inf" else self.target_norm


def judge(
    claim: Outcome, name: str, bound: float | None, measured: float | None, reason: str | None = None, **facts: Any
) -> Check:
    """What is claimed of a variant, unless there is a reason why it failed."""
    return Check(name, "FAILED" if reason else claim, bound, measured, reason=reason, **facts)


def judge_network(net: AttentionNetwork, name: str, bound: float, measured: float, **facts: Any) -> Check:
    """The same of a network that was proven, with what it costs."""
    said = {"native": net.network.native, "cost": dataclasses.asdict(net.cost)}
    return judge("PROVEN", name, bound, measured, **{**said, **facts})


def judge_series(series: Series, shown: Point, **facts: Any) -> Check:
    """Every point of the series must keep its bound; the one that is shown stands for all."""
    broken = [point for point in series.points if point.bound is None or not point.measured <= point.bound]
    reason = None
    if broken:
        where = broken[0].label or f"{broken[0].value:g}"
        reason = f"at {where} the error is {broken[0].measured!r}, the bound {broken[0].bound!r}"
    return judge("PROVEN", series.name, shown.bound, shown.measured, reason, **facts)


@dataclass(frozen=True)
class Line:
    """A line through the inputs, along which target, output, error and attention are drawn.

    Its points are start + s along for s in [lo, hi]. anchors: where they stand on the line; marks: other places worth a
    line of their own (a, b, seams), by name. Output (token, output) is drawn; the error is that of all outputs.
    heads: (number of the attention layer, head) whose weights are drawn, as seen by `token`.
    """

    lo: float
    hi: float
    start: Floats  # (n, d)
    along: Floats  # (n, d)
    label: str
    anchors: Sequence[float] = ()
    marks: Mapping[str, float] = field(default_factory=dict)
    token: int = 0
    output: int = 0
    heads: tuple[tuple[int, int], ...] = ((0, 0),)

    def at(self, s: Floats) -> Floats:
        """The inputs at numbers s, (count, n, d)."""
        inputs: Floats = self.start + s[:, None, None] * self.along
        return inputs


@dataclass(frozen=True)
class Matrices:
    """Matrices to be compared, by name."""

    title: str
    shown: Mapping[str, Floats]


@dataclass(frozen=True)
class Instance:
    """A small instance of a theorem. The first network or check is the one whose bound stands for the theorem.

    nets: by name, each with a certificate and `about`; they are measured by `show`. checks: of what is no network,
    already measured. studies: drawn with the instance. rates: longer studies, run when they are asked for; None: these.
    drawn: how many of the networks, from the first on, take the inputs of the line.
    """

    nets: Mapping[str, AttentionNetwork] = field(default_factory=dict)
    checks: tuple[Check, ...] = ()
    counts: tuple[Count, ...] = ()
    line: Line | None = None
    studies: tuple[Study, ...] = ()
    rates: Callable[[], tuple[Study, ...]] | None = None
    matrices: Matrices | None = None  # where the theorem is about one
    drawn: int | None = None  # None: all
