"""A whole network: embed, registers, layers, read."""

from __future__ import annotations

from weightwright.network.laws import enforce, obstacles
from weightwright.network.layers import Linear, Names, Softmax, Stack
from weightwright.numbers import counted


class Network(Stack):
    """A stack whose laws hold: building one runs them, so that an ill-formed network does not exist.

    Registers serve as keys and are never written: a plain Transformer writes to them too, so a native
    network reads from registers no coordinate that a layer has written.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        enforce(self)

    def __repr__(self) -> str:
        tokens = "any number of tokens" if self.tokens is None else counted(self.tokens, "token")
        sizes = f"{counted(len(self.inputs), 'input')}, {counted(len(self.outputs), 'output')}"
        built = (len(self.layers), "layer"), (len(list(self.heads)), "head"), (len(self.registers), "register")
        return f"Network({tokens}, {sizes}, {', '.join(counted(*part) for part in built)}, {self.dtype})"

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
