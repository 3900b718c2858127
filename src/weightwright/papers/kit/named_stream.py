"""Networks of attention layers, written by the names of the coordinates: what a head asks for, sees, takes and adds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from weightwright.network import Attention, Head, Linear, Network, Sees, Term, selection
from weightwright.numbers import Floats

#: Numbers by the group of coordinates that they belong to.
Blocks = Mapping[str, npt.ArrayLike]

#: The score of key (L, -L^2/2) and query (s, 1), for heads whose keys stand in two coordinates.
QUERY: dict[str, npt.ArrayLike] = {"s": [1.0, 0.0], "one": [0.0, 1.0]}
KEY: dict[str, npt.ArrayLike] = {"key": [1.0, 0.0], "offset": [0.0, 1.0]}


class NamedStream:
    """The coordinates of a stream by groups: how many, or what they are called; None: one, called as its group.

    >>> stream = NamedStream({"x": 2, "one": None, "out": ["f"]})
    >>> stream.names, stream.at["out"]
    (('x[0]', 'x[1]', 'one', 'f'), slice(3, 4, None))
    """

    def __init__(self, groups: Mapping[str, int | Sequence[str] | None]) -> None:
        self.names: tuple[str, ...] = ()
        self.at: dict[str, slice] = {}
        for group, held in groups.items():
            new = (group,) if held is None else features(group, held) if isinstance(held, int) else tuple(held)
            self.at[group] = slice(len(self.names), len(self.names) + len(new))
            self.names += new
        self.width = len(self.names)

    def tokens(self, count: int, blocks: Blocks) -> Floats:
        """(count, width): tokens that hold these numbers in these groups, and 0 elsewhere."""
        held = np.zeros((count, self.width))
        for group, block in blocks.items():
            held[:, self.at[group]] = block
        return held

    def reads(self, blocks: Blocks) -> Floats:
        """(width, size): the map that multiplies these groups with these blocks, (group, size) each."""
        size = max(np.shape(block)[-1] for block in blocks.values())
        return np.ascontiguousarray(self.tokens(size, {group: _columns(block) for group, block in blocks.items()}).T)

    def head(
        self, role: str, beta: float, sees: Sees, query: Blocks, key: Blocks, value: Blocks, result: Blocks
    ) -> Head:
        """The head of these queries, keys and values; result: (value, group) each, what it adds to these groups."""
        W_V = self.reads(value)
        return Head(role, self.reads(query), self.reads(key), W_V, self.tokens(W_V.shape[1], result), beta, sees)

    def network(
        self,
        inputs: Sequence[str],
        embed: Term,
        C: Floats,
        heads: Sequence[Iterable[Head]],
        outputs: str,
        registers: Floats | None = None,
        tokens: int | None = None,
        dtype: str = "float64",
    ) -> Network:
        """The inputs by the map `embed` and a code C, an attention layer for every list of heads, the group outputs."""
        return Network(
            inputs=tuple(inputs),
            embed=Linear(self.names, (embed,), C),
            registers=np.zeros((0, self.width)) if registers is None else registers,
            layers=tuple(Attention(self.names, tuple(layer)) for layer in heads),
            read=selection(self.names, self.names[self.at[outputs]]),
            tokens=tokens,
            dtype=dtype,
        )


def _columns(block: npt.ArrayLike) -> Floats:
    """(size, group)"""
    return np.atleast_2d(np.asarray(block, dtype=np.float64)).T


def features(name: str, size: int) -> tuple[str, ...]:
    """What the coordinates of a group are called."""
    return tuple(f"{name}[{i}]" for i in range(size))
