"""UA-14 for networks that read examples from their prompt: exact counts as formulas, beside what was built.

n samples, d features, B the width of the stream, W = B + 2 d + 2 the same with the keys and values of a block. One
table of P keys takes three layers: a linear map to W, a head, a linear map back. A pass has two linear maps more, and a
threshold 2 d gates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weightwright.constructions.instance import Count, counted
from weightwright.network import Attention, Loop
from weightwright.network.layers import Layer
from weightwright.runtime import AttentionNetwork
from weightwright.runtime.prompts import ends_a_pass


@dataclass(frozen=True)
class Shape:
    """What the counts depend on. tables: keys of each. passes: as they stand in the layers; steps: as they are run; 0
    for a network that returns every sample's f u. values: u is an input of its own."""

    n: int
    d: int
    tables: Sequence[int]
    passes: int = 0
    steps: int = 0
    threshold: bool = False
    values: bool = False

    @property
    def width(self) -> int:
        """x, u, w, g, z, q; y, one; tau and a mark of the samples where there is a threshold."""
        return 6 * self.d + 2 + (self.d + 1 if self.threshold else 0)


def counts_prompted(shape: Shape) -> dict[str, int]:
    """Attention layers (as run), heads (as stored), registers, width and all numbers that are stored.

    >>> counts_prompted(Shape(3, 2, [33]))["parameters"]
    2266
    """
    n, d, B = shape.n, shape.d, shape.width
    W, gates = B + 2 * d + 2, 2 * d if shape.threshold else 0
    inputs = 2 * d + 1 + d * (shape.values + shape.threshold)
    tables = sum(6 * B * W + 6 * P + W + B + 4 * W * (d + 1) for P in shape.tables)
    around = 3 * B * B + n * n + 2 * B + 4 * B * gates
    stored = shape.passes if shape.steps else 1
    parameters = inputs * B + B + stored * tables + shape.passes * around + B * d + d + (n if shape.steps else 0)
    registers = int(shape.threshold)
    return {
        "layers": max(shape.steps, 1) * len(shape.tables) + (shape.steps if gates else 0),
        "heads": stored * (len(shape.tables) + gates),
        "registers": registers,
        "width": B,
        "parameters": parameters + registers * B,
    }


def counted_prompted(
    net: AttentionNetwork, name: str, shape: Shape, paper: Mapping[str, tuple[str, float]] | None = None
) -> tuple[Count, ...]:
    """All of them, the layers of every kind, and the scores of a step."""
    paper = paper or {}
    every = 3 * len(shape.tables) + (3 if shape.threshold else 2 if shape.steps else 0)
    own = {
        "layers of every kind": ("3 a table, 2 or 3 a pass", max(shape.steps, 1) * every, _all_layers(net)),
        "scores a step": ("n times the keys of a sample", shape.n * sum(shape.tables), _scores(net, shape.n)),
    }
    return (
        *counted(net, "counts_prompted", counts_prompted(shape), paper, name),
        *(Count(f"{what}, {name}", *given, *paper.get(what, ())) for what, given in own.items()),
    )


def _all_layers(net: AttentionNetwork) -> int:
    def count(layers: Sequence[Layer]) -> int:
        return sum(layer.times * count(layer.layers) if isinstance(layer, Loop) else 1 for layer in layers)

    return count(net.network.layers)


def _scores(net: AttentionNetwork, n: int) -> int:
    """What the heads of the first pass compute that see a block: a block for each sample, asked by one token."""
    total = 0
    for layer in net.network.flat_layers:
        if isinstance(layer, Attention):
            total += sum(n * head.sees.block for head in layer.heads if head.sees.data == "block")
        elif ends_a_pass(layer):
            break
    return total
