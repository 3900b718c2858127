"""The kinds of layer. Arrays are float64 and read-only; `laws` says what makes them well formed.

n tokens (rows), d coordinates (columns), h the size of a query, v the size of a value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from weightwright.network.frozen import Frozen as Frozen
from weightwright.network.token_maps import TokenMap
from weightwright.numbers import Bools, Floats

Names = tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Term(Frozen):
    """One summand R (S * X) A of a `Linear`, R being the map on the tokens."""

    A: Floats  # (d_in, d_out), on the features
    tokens: TokenMap | None = None  # None: every token stays where it is
    S: Floats | None = None  # (n_in, 1) or (n_in, d_in), a scale per position

    def tokens_after(self, n: int) -> int:
        """The number of tokens that n tokens become."""
        return n if self.tokens is None else self.tokens.tokens_after(n)


@dataclass(frozen=True, eq=False)
class Linear(Frozen):
    """X -> sum of R (S * X) A, plus C. The coordinates name the columns of the result."""

    coordinates: Names
    terms: tuple[Term, ...]
    C: Floats  # (1, d_out): the same for every token; (n_out, d_out): a position code

    @property
    def moves_tokens(self) -> bool:
        return any(term.tokens is not None for term in self.terms)

    @property
    def knows_positions(self) -> bool:
        """Whether a position has a code or a scale of its own."""
        return self.C.shape[0] != 1 or any(term.S is not None for term in self.terms)


@dataclass(frozen=True)
class Sees:
    """The keys that a query may look at, and the tokens that ask.

    registers: the register tokens seen, from the first index up to but not including the second; (0, 0) for none.
    data: which data tokens: "none", "self", "block" (the block of `block` tokens it stands in),
    "earlier" (itself and those before it: the causal mask) or "all".
    asks: "first": of every block only the first token asks, and the head adds nothing to the others; one query a
    block costs as many scores as there are tokens.
    """

    registers: tuple[int, int] = (0, 0)
    data: Literal["none", "self", "block", "earlier", "all"] = "all"
    block: int = 0
    asks: Literal["all", "first"] = "all"


@dataclass(frozen=True, eq=False)
class Head(Frozen):
    """softmax(beta X W_Q (Z W_K)^T) Z W_V W_O, with Z the tokens that X's tokens see.

    window None: ordinary attention over all the keys that are seen. window M: the keys are registers (2 L, -L^2) on
    the whole numbers L, the query is (t, 1), and only the 2 M + 1 anchors nearest to t have weight,
    exp(-beta (t - L)^2) each: powers of one exponential, whatever the number of anchors. A query so near to an end of
    the grid that M anchors are missing on one side counts as the last one that has them.
    """

    role: str  # what the head computes, in words
    W_Q: Floats  # (d, h)
    W_K: Floats  # (d, h)
    W_V: Floats  # (d, v)
    W_O: Floats  # (v, d_out)
    beta: float = 1.0
    sees: Sees = Sees()
    mask: Bools | None = None  # (n, n): query i may see data token j; only with sees.data == "all"
    window: int | None = None


@dataclass(frozen=True, eq=False)
class Attention(Frozen):
    """The sum of the heads, added to X if residual."""

    coordinates: Names
    heads: tuple[Head, ...]
    residual: bool = True


@dataclass(frozen=True, eq=False)
class FeedForward(Frozen):
    """relu(X W_1 + b_1) W_2 + b_2, added to X if residual. Only the memorisers need it."""

    coordinates: Names
    W_1: Floats  # (d, m)
    b_1: Floats  # (1, m)
    W_2: Floats  # (m, d_out)
    b_2: Floats  # (1, d_out)
    residual: bool = True


@dataclass(frozen=True, eq=False)
class Ramps(FeedForward):
    """A feed-forward layer whose hidden units are ramps of one coordinate s, side by side on its line: units 2 j and
    2 j + 1 bend where ramp j starts and ends, and the second takes back what the first adds. Laws check it.

    In exact arithmetic it is the feed-forward layer that it is. It is run by a binary search among the kinks: the ramps
    before s add their heights, which are summed once, and at most one ramp is computed (`network.ramps`).
    """


@dataclass(frozen=True)
class Softmax:
    """softmax(beta X) over the features of each token, or over the tokens of each feature."""

    beta: float = 1.0
    over: Literal["features", "tokens"] = "features"


@dataclass(frozen=True)
class Loop:
    """The same layers again and again, with the same weights."""

    layers: tuple[Layer, ...]
    times: int


Layer = Linear | Attention | FeedForward | Ramps | Softmax | Loop


@dataclass(frozen=True, eq=False)
class Stack(Frozen):
    """What a network is made of, whether its laws hold or not: X (n, inputs) -> embed -> layers -> read.

    Registers are constant tokens that stand before the data tokens, in the coordinates of `embed`.
    """

    inputs: Names
    embed: Linear
    registers: Floats  # (r, d)
    layers: tuple[Layer, ...]
    read: Linear
    tokens: int | None = None  # the number of data tokens, or None for any number
    dtype: str = "float64"

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


def token_wise(
    inputs: Sequence[str],
    outputs: Sequence[str],
    weights: Mapping[tuple[str, str], float],
    constants: Mapping[str, float] | None = None,
) -> Linear:
    """A token-wise map given by names: output = sum of weights[input, output] * input + constant."""
    A = np.zeros((len(inputs), len(outputs)))
    for (source, target), weight in weights.items():
        A[inputs.index(source), outputs.index(target)] = weight
    C = np.zeros((1, len(outputs)))
    for target, constant in (constants or {}).items():
        C[0, outputs.index(target)] = constant
    return Linear(tuple(outputs), (Term(A),), C)


def selection(inputs: Sequence[str], outputs: Sequence[str]) -> Linear:
    """The token-wise map that keeps the named coordinates."""
    return token_wise(inputs, outputs, {(name, name): 1.0 for name in outputs})
