"""What a drawing shows, as data: columns of boxes, and the numbers of the residual stream that each reads and writes.

Constants, position codes and what stands on registers alone are not followed: they are the same for every input.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from weightwright.network import Attention, FeedForward, Head, Layer, Linear, Loop, Network
from weightwright.network.layers import Names
from weightwright.numbers import Bools, Floats
from weightwright.report.facts.head_kinds import Kind, few, keys_in_words, kinds

#: Boxes of a column; kinds beyond this share the last one.
MOST_BOXES = 8
#: Heads of one kind that get a box each.
MOST_ALONE = 3

#: A coordinate of the stream between two maps that write it anew: (number of the stream, name).
Number = tuple[int, str]


@dataclass(frozen=True)
class DrawnBox:
    """One box: a title, what is said below it, and what goes in and out."""

    title: str
    lines: tuple[str, ...]
    kind: str  # boxes of one kind look alike
    reads: frozenset[Number] = frozenset()
    writes: frozenset[Number] = frozenset()


@dataclass(frozen=True)
class Column:
    heading: str
    boxes: tuple[DrawnBox, ...]


@dataclass(frozen=True)
class Repeat:
    """Columns `first` to `last` run `times` times."""

    first: int
    last: int
    times: int


@dataclass
class Flow:
    """The whole drawing: embed first, read last. order: every coordinate that is followed, by stream and place."""

    columns: list[Column] = field(default_factory=list)
    repeats: list[Repeat] = field(default_factory=list)
    order: dict[Number, int] = field(default_factory=dict)


def flow(network: Network) -> Flow:
    """Columns, boxes and what they read and write."""
    walk = _FlowWalk(network)
    walk.embed()
    walk.layers(network.layers)
    walk.read()
    return walk.flow


class _FlowWalk:
    """Goes through the layers in order; knows which coordinates depend on the input."""

    def __init__(self, network: Network) -> None:
        self.network, self.flow = network, Flow()
        self.stream = 0
        self.names: Names = network.embed.coordinates
        self.live: Bools = np.zeros(len(self.names), dtype=np.bool_)
        self.number = 0  # of the next layer

    def embed(self) -> None:
        embed, inputs = self.network.embed, self.network.inputs
        self.live = _reached(embed, np.ones(len(inputs), dtype=np.bool_))
        writes = self.numbers(self.live)
        said = (f"{_counted(len(inputs), 'number')} a token", _linear_in_words(embed))
        self.column("input and embed", [DrawnBox(few(inputs), said, "embed", frozenset(), writes)])

    def read(self) -> None:
        read = self.network.read
        reads = self.numbers(self.live & (_rows(read) != 0))
        said = (f"{_counted(len(self.network.outputs), 'number')} a token", _linear_in_words(read))
        self.column("read and output", [DrawnBox(few(self.network.outputs), said, "embed", reads)])

    def layers(self, layers: Sequence[Layer]) -> None:
        for layer in layers:
            if isinstance(layer, Loop):
                self.loop(layer)
                continue
            heading = f"layer {self.number}"
            self.number += 1
            if isinstance(layer, Attention):
                heads = f"{heading}: {_counted(len(layer.heads), 'head')}"
                self.change(heads, layer.coordinates, self.attention(layer), layer.residual)
            elif isinstance(layer, FeedForward):
                self.change(heading, layer.coordinates, [self.feed_forward(layer)], layer.residual)
            elif isinstance(layer, Linear):
                used = self.live & (_rows(layer) != 0)
                box = DrawnBox("linear map", (_linear_in_words(layer),), "linear", self.numbers(used))
                self.change(heading, layer.coordinates, [(box, _reached(layer, self.live))], residual=False)
            else:
                box = DrawnBox("softmax", (f"over the {layer.over}",), "softmax", self.numbers(self.live))
                everything = np.ones(len(self.names), dtype=np.bool_)
                self.change(heading, self.names, [(box, everything)], residual=False)

    def loop(self, loop: Loop) -> None:
        """What the first run writes, the second reads: all that heads add to the stream depends on the input."""
        first = len(self.flow.columns)
        for layer in loop.layers:
            if not (isinstance(layer, Attention) and layer.residual):
                break  # another stream begins
            for head in layer.heads:
                self.live = self.live | head.W_O.any(axis=0)
        self.layers(loop.layers)
        self.flow.repeats.append(Repeat(first, len(self.flow.columns) - 1, loop.times))

    def attention(self, layer: Attention) -> list[tuple[DrawnBox, Bools]]:
        groups = kinds([(head.role, keys_in_words(head)) for head in layer.heads])
        if sum(min(len(kind.heads), MOST_ALONE + 1) for kind in groups) <= MOST_BOXES:
            groups = [one for kind in groups for one in _alone(kind)]
        groups = sorted(groups, key=lambda kind: -len(kind.heads)) if len(groups) > MOST_BOXES else groups
        shown, rest = groups, groups[MOST_BOXES - 1 :] if len(groups) > MOST_BOXES else []
        if rest:
            shown = groups[: MOST_BOXES - 1]
        boxes = [
            self.heads([layer.heads[i] for i in kind.heads], _title(kind), _said(kind), kind.name) for kind in shown
        ]
        if rest:
            heads = [layer.heads[i] for kind in rest for i in kind.heads]
            said = (f"{len(rest)} further kinds", few([kind.computes for kind in rest]))
            boxes.append(self.heads(heads, f"{len(heads):,} more heads", said, "more"))
        return boxes

    def heads(self, heads: Sequence[Head], title: str, said: tuple[str, ...], kind: str) -> tuple[DrawnBox, Bools]:
        reads, writes = np.zeros(len(self.names), dtype=np.bool_), np.zeros(heads[0].W_O.shape[1], dtype=np.bool_)
        for head in heads:
            seen = [head.W_Q] if head.sees.data == "none" else [head.W_Q, head.W_K, head.W_V]
            for W in seen:
                reads |= W.any(axis=1)
            writes |= head.W_O.any(axis=0)
        reads &= self.live
        traffic = f"reads {_counted(int(reads.sum()), 'number')}, writes {int(writes.sum()):,}"
        return DrawnBox(title, (*said, traffic), kind, self.numbers(reads)), writes

    def feed_forward(self, layer: FeedForward) -> tuple[DrawnBox, Bools]:
        reads = self.numbers(self.live & layer.W_1.any(axis=1))
        writes: Bools = np.any(layer.W_2 != 0, axis=0)
        said = (f"relu, {_counted(layer.W_1.shape[1], 'hidden unit')}",)
        return DrawnBox("feed-forward", said, "feed-forward", reads), writes

    def change(self, heading: str, names: Names, boxes: list[tuple[DrawnBox, Bools]], residual: bool) -> None:
        """Add a column; what is not residual begins a stream of its own."""
        if not residual:
            self.stream += 1
            self.names, self.live = names, np.zeros(len(names), dtype=np.bool_)
        for _, writes in boxes:
            self.live = self.live | writes
        self.column(heading, [_writing(box, self.numbers(writes)) for box, writes in boxes])

    def column(self, heading: str, boxes: list[DrawnBox]) -> None:
        self.flow.columns.append(Column(heading, tuple(boxes)))

    def numbers(self, chosen: Bools) -> frozenset[Number]:
        for index in np.flatnonzero(chosen).tolist():
            self.flow.order.setdefault((self.stream, self.names[index]), index)
        return frozenset((self.stream, self.names[index]) for index in np.flatnonzero(chosen).tolist())


def _writing(box: DrawnBox, writes: frozenset[Number]) -> DrawnBox:
    return DrawnBox(box.title, box.lines, box.kind, box.reads, writes)


def _alone(kind: Kind) -> list[Kind]:
    if len(kind.heads) > MOST_ALONE:
        return [kind]
    return [Kind((head,), (role,), kind.keys) for head, role in zip(kind.heads, kind.roles, strict=True)]


def _title(kind: Kind) -> str:
    return kind.computes if len(kind.heads) == 1 else f"{len(kind.heads):,} × {kind.computes}"


def _said(kind: Kind) -> tuple[str, ...]:
    if len(kind.heads) == 1:
        return (kind.keys,)
    return (f"{kind.keys} each", few(kind.arguments)) if len(set(kind.roles)) > 1 else (f"{kind.keys} each",)


def _rows(linear: Linear) -> Floats:
    """How much of each coordinate goes in: 0 where none does."""
    return np.sum([np.abs(term.A).sum(axis=1) for term in linear.terms], axis=0) if linear.terms else np.zeros(1)


def _reached(linear: Linear, live: Bools) -> Bools:
    """The coordinates that depend on live ones."""
    found = np.zeros(len(linear.coordinates), dtype=np.bool_)
    for term in linear.terms:
        found |= term.A[live].any(axis=0)
    return found


def _linear_in_words(linear: Linear) -> str:
    if not linear.terms:
        return "a constant"
    words = "moves tokens" if linear.moves_tokens else "token by token"
    return f"{words}, knows positions" if linear.knows_positions else words


def _counted(count: int, thing: str) -> str:
    return f"{count:,} {thing}{'' if count == 1 else 's'}"
