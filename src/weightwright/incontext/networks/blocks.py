"""Attention that multiplies: every token becomes a block of keys, and a function of an inner product meets a vector.

A table holds keys kappa_j, offsets and values v_j. Every token gets a block with keys kappa_j k and values v_j u, where
k and u stand in its own coordinates, and asks with a query q: the head returns f(q . k) u. A product of two numbers of
the stream is no linear map of it; this is how a layer computes one. Only the first token of a block asks, so a table of
P keys costs n P scores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from weightwright.network import Attention, Block, Head, Layer, Linear, Sees, Term
from weightwright.numbers import Floats

#: A gate is t sigmoid(beta t), within 0.2785/beta of relu(t).
GATE_BETA = {"float64": 2.0**36, "float32": 2.0**20}


@dataclass(frozen=True)
class PromptTable:
    """Scores beta (along_j w.x + across_j y + offsets_j), values values_j; weight and mean as in a `ProposedTable`.
    factor: the group of the stream that its function is multiplied with."""

    along: Floats
    across: Floats
    offsets: Floats
    values: Floats
    beta: float
    weight: float
    mean: float
    role: str
    factor: str = "u"

    @property
    def size(self) -> int:
        return len(self.along)


class Layout:
    """The coordinates of the stream, by groups, each with its size; None: one number, whose name has no index."""

    def __init__(self, sizes: Mapping[str, int | None]) -> None:
        self.sizes = dict(sizes)
        self.names: tuple[str, ...] = ()
        self.at: dict[str, list[int]] = {}
        for group, size in self.sizes.items():
            new = (group,) if size is None else tuple(f"{group}[{r}]" for r in range(size))
            self.at[group] = list(range(len(self.names), len(self.names) + len(new)))
            self.names += new
        self.width = len(self.names)

    def with_keys(self, query: int, value: int, beside: bool) -> Layout:
        """The same, and the keys and values of a block, of these sizes. beside: with a key for one more number."""
        keys = {"key": query, **({"key_y": None} if beside else {}), "key_c": None, "value": value}
        return Layout(self.sizes | keys)

    def map(self, after: Layout, *moves: tuple[str, str, float | Floats], keep: Sequence[str] = ()) -> Floats:
        """The matrix that keeps these groups and adds weight times one group to another; an array has a weight for
        each feature."""
        A = np.zeros((self.width, after.width))
        for source, target, weight in (*((name, name, 1.0) for name in keep), *moves):
            A[self.at[source], after.at[target]] += weight
        return A

    def reading(self, group: str) -> Floats:
        """(width, size): the matrix that reads this group."""
        return np.eye(self.width)[:, self.at[group]]


def table_layers(
    layout: Layout,
    table: PromptTable,
    query: Floats,
    key: Sequence[int],
    value: Sequence[int],
    target: Sequence[int],
    beside: int | None = None,
    fresh: Sequence[str] = (),
) -> tuple[Layer, ...]:
    """Every token gets f(q . k) u, added to the coordinates `target`: three layers.

    query: (width, h), what makes q of the stream. key, value: the coordinates of k and u. beside: the coordinate of the
    number that `across` multiplies, where the table has one. fresh: groups that are 0 from here on.
    """
    h, v, P = len(key), len(value), table.size
    wide = layout.with_keys(h, v, beside is not None)
    kept = [group for group in layout.at if group not in fresh]

    def spread(factors: Floats, sources: Sequence[int], into: str) -> Term:
        A = np.zeros((layout.width, wide.width))
        A[sources, wide.at[into]] = 1.0
        return Term(A, Block(factors.reshape(P, 1)))

    repeated = Linear(
        wide.names,
        (
            Term(layout.map(wide, keep=kept), Block(np.eye(P, 1))),
            spread(table.along, key, "key"),
            *(() if beside is None else (spread(table.across, [beside], "key_y"),)),
            spread(table.offsets, layout.at["one"], "key_c"),
            spread(table.values, value, "value"),
        ),
        np.zeros((1, wide.width)),
    )
    ones = 1 if beside is None else 2  # the query's last numbers, for what does not depend on q
    W_Q, W_K, W_V = (np.zeros((wide.width, size)) for size in (h + ones, h + ones, v))
    W_Q[: layout.width, :h] = query
    W_Q[wide.at["one"], h:] = 1.0
    W_K[[*wide.at["key"], *wide.at.get("key_y", ()), *wide.at["key_c"]], np.arange(h + ones)] = 1.0
    W_V[wide.at["value"], np.arange(v)] = 1.0
    W_O = np.zeros((v, wide.width))
    W_O[np.arange(v), target] = table.weight
    head = Head(table.role, W_Q, W_K, W_V, W_O, table.beta, Sees((0, 0), "block", P, "first"))
    back = wide.map(layout, keep=list(layout.at))
    if table.mean:
        back[value, target] += table.mean
    gathered = Linear(layout.names, (Term(back, Block(np.eye(1, P))),), np.zeros((1, layout.width)))
    return repeated, Attention(wide.names, (head,)), gathered


def gate(
    layout: Layout, role: str, score: Floats, value: Floats, targets: Sequence[int], sign: float, dtype: str | None
) -> Head:
    """The token itself beside a register of score and value 0: sigmoid(beta score) value, added to these coordinates.
    The stream has a coordinate "own", which is 1 on tokens and 0 on the register. dtype None: beta is 1."""
    W_K, W_O = np.zeros((layout.width, 1)), np.zeros((len(targets), layout.width))
    W_K[layout.at["own"]] = 1.0
    W_O[np.arange(len(targets)), targets] = sign
    beta = 1.0 if dtype is None else GATE_BETA[dtype]
    return Head(role, score, W_K, value, W_O, beta, Sees((0, 1), "self"))
