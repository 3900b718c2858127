"""The networks of UA-4 to UA-7 as arrays: cells, ramps, bump heads, lookup. Nothing is chosen or proven here.

N = n d numbers, n tokens of d features; a grid of g points along each; G = g^N cells, numbered row by row. Along one
number a cell has two ramps, up = clip(s, 0, 1) of s = ((x - v) g/B + 1)/delta and down, its mirror image: both are 1
on the core, and outside of the cell one of them is 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from weightwright.heads.registers import weight_at
from weightwright.network import Attention, FeedForward, Head, Linear, Network, Sees, Softmax, Term
from weightwright.network.layers import Layer
from weightwright.network.token_maps import pick, place, total
from weightwright.numbers import Floats
from weightwright.papers.kit.named_stream import KEY, NamedStream, features

SIGNS = np.array([1.0, -1.0])


@dataclass(frozen=True)
class Grid:
    """n tokens of d features in [-B, B], g cells along each, shells of relative width delta."""

    n: int
    d: int
    g: int
    delta: float
    B: float

    @property
    def N(self) -> int:  # noqa: N802
        return self.n * self.d

    @property
    def cells(self) -> int:
        return self.g**self.N

    @property
    def slope(self) -> float:
        """Of a ramp."""
        return self.g / (self.B * self.delta)

    def shifts(self) -> Floats:
        """(2, g): s = sign slope x + shift, for the ramp up and the ramp down of every point of an axis."""
        k = np.arange(self.g)
        return (SIGNS[:, None] * (self.g - 2 * k - 1) + 1) / self.delta

    def indices(self) -> npt.NDArray[np.intp]:
        """(G, N): where along each number a cell stands."""
        return np.stack(np.unravel_index(np.arange(self.cells), (self.g,) * self.N), axis=1)

    def points(self) -> Floats:
        """(G, n, d): the grid points, as floats."""
        along = self.B * ((2 * np.arange(self.g) + 1) / self.g - 1)
        return along[self.indices()].reshape(self.cells, self.n, self.d)


def bump_network(grid: Grid, values: Floats) -> Network:
    """sum_v f(v) relu(R_v(x) - N + 1) as two feed-forward layers; values (1, G)."""
    n, d, N, g, G = grid.n, grid.d, grid.N, grid.g, grid.cells
    ramps = np.zeros((N, N, g, 4))  # from x_j to the ramp units (i, k, r), r: up, up - 1, down, down - 1
    ramps[range(N), range(N)] = grid.slope * np.repeat(SIGNS, 2)
    starts = np.broadcast_to(np.stack([s - r for s in grid.shifts() for r in (0, 1)], axis=1), (N, g, 4))
    together = np.einsum("ab,r->arb", np.eye(N * g), [1.0, -1.0, 1.0, -1.0])
    which = np.zeros((N * g, G))
    which[(grid.indices() + g * np.arange(N)).T, np.arange(G)] = 1.0
    bumps = tuple(f"bump[{v}]" for v in range(N * g))
    return Network(
        inputs=tuple(f"x[{c}]" for c in range(d)),
        embed=_flatten(n, d),
        registers=np.zeros((0, N)),
        layers=(
            FeedForward(
                bumps,
                ramps.reshape(N, -1),
                starts.reshape(1, -1),
                together.reshape(-1, N * g),
                -np.ones((1, N * g)),
                residual=False,
            ),
            FeedForward(("f",), which, np.full((1, G), 1.0 - N), values.T, np.zeros((1, 1)), residual=False),
        ),
        read=Linear(("f",), (Term(np.eye(1)),), np.zeros((1, 1))),
        tokens=n,
    )


def _flatten(n: int, d: int) -> Linear:
    """All tokens' features as features of one token."""
    places = np.eye(n * d).reshape(n, d, n * d)
    terms = tuple(Term(A, pick(i)) for i, A in enumerate(places))
    return Linear(tuple(f"x[{i}]" for i in range(n * d)), terms, np.zeros((1, n * d)))


def attention_network(
    grid: Grid, values: Floats, anchors: int, beta_bumps: float, beta: float, second_layer: bool, sequence: bool
) -> Network:
    """Bump heads, the sum over the tokens, and a second layer or a softmax that picks; values (outputs, G).

    The stream: x[.] the input; at[.] a one-hot position code; key, offset and value on registers, for the bump heads;
    bump[.], on data tokens what the bump heads write, on registers a one-hot key; and for a second layer f[.], on
    registers the values, and out[.], the outputs.
    sequence: the outputs, token by token, go back to n tokens of d features.
    """
    n, d, G, K = grid.n, grid.d, grid.cells, len(values)
    groups = {"x": d, "at": n, "key": None, "offset": None, "value": None, "bump": G}
    stream = NamedStream(groups | ({"f": K, "out": K} if second_layer else {}))
    L, one = np.arange(anchors)[:, None] / anchors, np.eye(G)
    registers = stream.tokens(anchors, {"key": L, "offset": -(L**2) / 2, "value": L})
    layers: list[Layer] = [Attention(stream.names, tuple(_bump_heads(stream, grid, anchors, beta_bumps)))]
    if second_layer:
        registers = np.concatenate([registers, stream.tokens(G, {"bump": one, "f": values.T})])
        keep = np.zeros((stream.width, stream.width))
        keep[stream.at["bump"], stream.at["bump"]] = one
        picks = tuple(_pick(stream, k, K, Sees((anchors, anchors + G), "none"), beta) for k in range(K))
        layers += [_summed(stream.names, keep, n), Attention(stream.names, picks)]
        weights = stream.reads({"out": np.eye(K)})
    else:
        layers += [_summed(features("bump", G), stream.reads({"bump": one}), n), Softmax(beta)]
        weights = values.T
    return Network(
        inputs=stream.names[:d],
        embed=Linear(stream.names, (Term(np.eye(d, stream.width)),), stream.tokens(n, {"at": np.eye(n)})),
        registers=registers,
        layers=tuple(layers),
        read=unflatten(weights, n, d) if sequence else Linear(("f",), (Term(weights),), np.zeros((1, 1))),
        tokens=n,
    )


def _summed(names: tuple[str, ...], A: Floats, n: int) -> Linear:
    """What this map keeps, added up over the tokens."""
    return Linear(names, (Term(A, total(n, 1)),), np.zeros((1, len(names))))


def unflatten(weights: Floats, n: int, d: int) -> Linear:
    """The features of one token, n d of them after the weights, as n tokens of d features."""
    terms = tuple(Term(weights[:, i * d : (i + 1) * d], place(i, n)) for i in range(n))
    return Linear(features("y", d), terms, np.zeros((1, d)))


def _bump_heads(stream: NamedStream, grid: Grid, anchors: int, beta: float) -> Iterator[Head]:
    """One for every cell, feature and sign, in this order: on token i it writes a ramp of x_ic to bump[v]."""
    along, shifts, G = grid.indices().reshape(grid.cells, grid.n, grid.d), grid.shifts(), grid.cells
    for v in range(G):
        for c in range(grid.d):
            for sign, shift, ramp in zip(SIGNS, shifts, ("up", "down"), strict=True):
                slope = np.zeros((grid.d, 2))
                slope[c, 0] = grid.slope * sign
                yield stream.head(
                    f"bump {v}, ramp {ramp} of x[{c}]",
                    beta,
                    Sees((0, anchors), "none"),
                    query={"x": slope, "at": np.stack([shift[along[v, :, c]], np.ones(grid.n)], axis=1)},
                    key=KEY,
                    value={"value": [1.0]},
                    result={"bump": weight_at(G, v, 1.0)},
                )


def _pick(stream: NamedStream, k: int, outputs: int, sees: Sees, beta: float) -> Head:
    """The head whose scores are beta times the bumps, and whose values are those of output k."""
    bumps, own = {"bump": np.eye(stream.at["bump"].stop - stream.at["bump"].start)}, weight_at(outputs, k, 1.0)
    return stream.head(f"look up output {k}", beta, sees, bumps, bumps, {"f": own[:, None]}, {"out": own})
