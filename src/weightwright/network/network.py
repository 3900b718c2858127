"""A whole network: embed, registers, layers, read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from weightwright.network.laws import enforce, obstacles
from weightwright.network.layers import Attention, Floats, Frozen, Head, Layer, Linear, Loop, Names, Softmax


@dataclass(frozen=True, eq=False)
class Network(Frozen):
    """X (n, inputs) -> embed -> layers -> read -> (n, outputs).

    Registers are constant tokens that stand before the data tokens, in the coordinates of `embed`.
    They serve as keys and are never written: a plain Transformer writes to them too, so a native
    network reads from registers no coordinate that a layer has written.

    Building a network runs its laws: an ill-formed network does not exist.
    """

    inputs: Names
    embed: Linear
    registers: Floats  # (r, d)
    layers: tuple[Layer, ...]
    read: Linear
    tokens: int | None = None  # the number of data tokens, or None for any number
    dtype: str = "float64"

    def __post_init__(self) -> None:
        super().__post_init__()
        enforce(self)

    def __repr__(self) -> str:
        tokens = "any number of tokens" if self.tokens is None else _counted(self.tokens, "token")
        sizes = f"{_counted(len(self.inputs), 'input')}, {_counted(len(self.outputs), 'output')}"
        built = (len(self.layers), "layer"), (len(list(self.heads)), "head"), (len(self.registers), "register")
        return f"Network({tokens}, {sizes}, {', '.join(_counted(*part) for part in built)}, {self.dtype})"

    @property
    def outputs(self) -> Names:
        return self.read.coordinates

    @property
    def obstacles(self) -> tuple[str, ...]:
        """Why an ordinary attention-only Transformer cannot load this network; empty if it can."""
        return tuple(dict.fromkeys(obstacles(self)))

    @property
    def native(self) -> bool:
        """Token-wise maps, position code and residual attention only."""
        return not self.obstacles

    @property
    def one_token_at_a_time(self) -> bool:
        """Whether every output token depends on its own input token alone."""
        linear = [self.embed, self.read, *(layer for layer in self.flat_layers if isinstance(layer, Linear))]
        return (
            not any(map.moves_tokens or map.knows_positions for map in linear)
            and all(head.sees.data in ("none", "self") for head in self.heads)
            and not any(isinstance(layer, Softmax) and layer.over == "tokens" for layer in self.flat_layers)
        )

    @property
    def flat_layers(self) -> Iterator[Layer]:
        """Every layer once, loops opened but not repeated."""
        stack = list(reversed(self.layers))
        while stack:
            layer = stack.pop()
            if isinstance(layer, Loop):
                stack.extend(reversed(layer.layers))
            else:
                yield layer

    @property
    def heads(self) -> Iterator[Head]:
        for layer in self.flat_layers:
            if isinstance(layer, Attention):
                yield from layer.heads


def _counted(count: int, thing: str) -> str:
    return f"{count:,} {thing}{'' if count == 1 else 's'}"
