"""The prompted form: examples stand in the prompt, and a pass through the layers is a step of an algorithm.

A prompt has n tokens, one for each example: x, y, the state w, and what the algorithm needs beside it. One pass

    z = alpha w - sum_i f(w . x_i, y_i) u_i
    q = soft(z, tau)  or  sigmoid(clock) (z - p)  or  0
    (w, p) = method (z, q, p, w)

is three layers for every table of f and up to three more. The sum may have a second part, h(w . x_i) r_i: a penalty
whose values r stand in the prompt. After the last pass a read-out may turn the state into predictions, l(w . x_i) of
the last tokens: three layers for every table of l. A table gives every example a block of keys of its own,
kappa_j x_i and lambda_j y_i with values v_j u_i, and the query is w: the score is the inner product, which no map of
the stream could compute. Only the first token of a block asks, so a pass costs n P scores for P keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from weightwright.claims.prompt import Pass
from weightwright.incontext.networks.blocks import Layout, gate, table_layers
from weightwright.incontext.networks.blocks import PromptTable as PromptTable
from weightwright.network import Attention, Gather, Layer, Linear, Network, Term
from weightwright.network.token_maps import pick, total
from weightwright.numbers import rounded

Answer = Literal["gradients", "w", "p"]

#: Groups of one number.
SINGLE = ("y", "clock", "one", "own", "h")
#: The group that a table's function is added to, by the group that it is multiplied with.
TARGETS = {"u": "g", "r": "g", "one": "h"}


@dataclass(frozen=True)
class ReadOut:
    """The network returns what these tables make of the state and each of the last `queries` tokens."""

    tables: Sequence[PromptTable]
    queries: int


def prompted_network(
    n: int,
    d: int,
    tables: Sequence[PromptTable],
    passes: Sequence[Pass],
    arrange: Sequence[Layer] | None,
    answer: Answer,
    own_values: bool,
    dtype: str,
    first: float = 0.0,
    read_out: ReadOut | None = None,
) -> Network:
    """The network of these passes, one after the other; `arrange` puts other layers (loops) in their place.

    answer: "gradients" (every token's f u; no passes), or the state that is read. own_values: u is an input of its own,
    else it is x. first: what the clock shows at first. read_out: what is returned of the state; None: the state itself.
    """
    layout = layout_of(d, passes, tables, read_out is not None)
    inputs = _inputs(d, layout, own_values)
    A, C = np.zeros((len(inputs), layout.width)), np.zeros((1, layout.width))
    for row, name in enumerate(inputs):
        A[row, layout.names.index(name)] = 1.0
        if not own_values and name.startswith("x["):
            A[row, layout.names.index("u" + name[1:])] = 1.0
    C[0, layout.at["one"]] = 1.0
    if "own" in layout.at:
        C[0, layout.at["own"]] = 1.0
    if "clock" in layout.at:
        C[0, layout.at["clock"]] = first
    registers = np.zeros((int("own" in layout.at), layout.width))
    registers[:, layout.at["one"]] = 1.0
    token: Gather | None
    if answer == "gradients":
        layers = gradient_layers(layout, tables)
        outputs, source, token = [f"g[{r}]" for r in range(d)], "g", None
    else:
        layers = tuple(layer for one in passes for layer in pass_layers(layout, tables, one, n, dtype))
        outputs, source, token = [f"answer[{r}]" for r in range(d)], answer, pick(0)
    layers = layers if arrange is None else tuple(arrange)
    if read_out is not None:
        layers = (*layers, *multiplied_layers(layout, read_out.tables, answer))
        outputs, source, token = ["prediction"], "h", Gather(tuple(range(n - read_out.queries, n)))
    read = np.zeros((layout.width, len(outputs)))
    read[layout.at[source], np.arange(len(outputs))] = 1.0
    return Network(
        inputs=inputs,
        embed=Linear(layout.names, (Term(A),), C),
        registers=registers,
        layers=layers,
        read=Linear(tuple(outputs), (Term(read, token),), np.zeros((1, len(outputs)))),
        tokens=n,
        dtype=dtype,
    )


def layout_of(d: int, passes: Sequence[Pass], tables: Sequence[PromptTable] = (), reads: bool = False) -> Layout:
    """The coordinates that these passes and tables need. reads: with one for the read-out."""
    for one in passes:
        if one.alpha.shape not in ((), (d,)):
            raise ValueError(
                f"alpha has shape {one.alpha.shape}; one number is needed, or one for each of {d} features"
            )
    middles = {one.middle for one in passes}
    absent = set()
    if all(len(one.method) == 1 for one in passes):
        absent.add("p")
    if "threshold" not in middles:
        absent.add("tau")
    if "clock" not in middles:
        absent.add("clock")
    if middles <= {"none"}:
        absent.add("own")
    if all(table.factor != "r" for table in tables):
        absent.add("r")
    if not reads:
        absent.add("h")
    every = ("x", "u", "r", "y", "w", "p", "tau", "clock", "one", "own", "g", "z", "q", "h")
    return Layout({group: None if group in SINGLE else d for group in every if group not in absent})


def _inputs(d: int, layout: Layout, own_values: bool) -> tuple[str, ...]:
    given = ["x", *(["u"] if own_values else []), "r", "y", "w", "p", "tau"]
    groups = [name for name in given if name in layout.at]
    return tuple(layout.names[i] for name in groups for i in layout.at[name])


def pass_layers(layout: Layout, tables: Sequence[PromptTable], one: Pass, n: int, dtype: str) -> tuple[Layer, ...]:
    """The layers of one pass."""
    stays = [name for name in layout.at if name not in ("g", "z", "q", "h")]
    nothing = np.zeros((1, layout.width))
    summed = Linear(
        layout.names,
        (
            Term(rounded(layout.map(layout, ("w", "z", one.alpha), keep=stays), dtype)),
            Term(layout.map(layout, ("g", "z", -1.0)), total(n, n)),
        ),
        nothing,
    )
    states = ["w", "p"][: len(one.method)]
    stays = [name for name in stays if name not in ("w", "p")]
    moves = [
        (source, state, float(weight))
        for state, row in zip(states, one.method, strict=True)
        for source, weight in zip(("z", "q", "p", "w"), row, strict=True)
        if weight
    ]
    if "clock" in layout.at:
        moves.append(("one", "clock", one.tick))
    mix = Linear(layout.names, (Term(rounded(layout.map(layout, *moves, keep=stays), dtype)),), nothing)
    middle = {"none": (), "threshold": _threshold(layout, dtype), "clock": _clock(layout)}[one.middle]
    return (*gradient_layers(layout, tables), summed, *middle, mix)


def gradient_layers(layout: Layout, tables: Sequence[PromptTable]) -> tuple[Layer, ...]:
    """Every token gets g = f(w . x, y) u, and h(w . x) r on top where tables say so, by one block of keys after the
    other."""
    return multiplied_layers(layout, tables, "w")


def multiplied_layers(layout: Layout, tables: Sequence[PromptTable], asks: str) -> tuple[Layer, ...]:
    """Every token gets each table's function of (state . x, y) times what it is multiplied with. asks: the state."""
    query, at = layout.reading(asks), layout.at
    return tuple(
        layer
        for table in tables
        for layer in table_layers(
            layout, table, query, at["x"], at[table.factor], at[TARGETS[table.factor]], beside=at["y"][0]
        )
    )


def _threshold(layout: Layout, dtype: str) -> tuple[Layer, ...]:
    """q = relu(z - tau) - relu(-z - tau), by gates."""
    if "tau" not in layout.at:
        return ()
    heads, at = [], layout.at
    for sign in (1.0, -1.0):
        for r, (z, tau, q) in enumerate(zip(at["z"], at["tau"], at["q"], strict=True)):
            t = np.zeros((layout.width, 1))
            t[z], t[tau] = sign, -1.0
            heads.append(gate(layout, f"soft threshold of z[{r}], {'+' if sign > 0 else '-'}", t, t, [q], sign, dtype))
    return (Attention(layout.names, tuple(heads)),)


def _clock(layout: Layout) -> tuple[Layer, ...]:
    """q = sigmoid(clock) (z - p)."""
    if "clock" not in layout.at:
        return ()
    change = layout.reading("z") - layout.reading("p")
    momentum = gate(layout, "momentum", layout.reading("clock"), change, layout.at["q"], 1.0, None)
    return (Attention(layout.names, (momentum,)),)
