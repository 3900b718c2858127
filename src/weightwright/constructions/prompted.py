"""The prompted form: examples stand in the prompt, and a pass through the layers is a step of an algorithm.

A prompt has n tokens, one for each example: x, y, the state w, and what the algorithm needs beside it. One pass

    z = alpha w - sum_i f(w . x_i, y_i) u_i
    q = soft(z, tau)  or  sigmoid(clock) (z - p)  or  0
    (w, p) = method (z, q, p, w)

is three layers for every table of f and up to three more. A table gives every example a block of keys of its own,
kappa_j x_i and lambda_j y_i with values v_j u_i, and the query is w: the score is the inner product, which no map of
the stream could compute. Only the first token of a block asks, so a pass costs n P scores for P keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from weightwright.certificates.prompted import Pass
from weightwright.network import Attention, Head, Layer, Linear, Network, Sees, Term
from weightwright.network.laws import rounded
from weightwright.network.layers import Floats

Answer = Literal["gradients", "w", "p"]

#: A gate is t sigmoid(beta t), within 0.2785/beta of relu(t).
GATE_BETA = {"float64": 2.0**36, "float32": 2.0**20}


@dataclass(frozen=True)
class PromptTable:
    """Scores beta (along_j w.x + across_j y + offsets_j), values values_j; weight and mean as in a `Part`."""

    along: Floats
    across: Floats
    offsets: Floats
    values: Floats
    beta: float
    weight: float
    mean: float
    role: str

    @property
    def size(self) -> int:
        return len(self.along)


class Layout:
    """The coordinates of the stream, by groups: d numbers each, or one where it has no index."""

    SINGLE = ("y", "clock", "one", "own", "key_y", "key_c")

    def __init__(self, d: int, groups: Sequence[str]) -> None:
        self.d = d
        self.names: tuple[str, ...] = ()
        self.at: dict[str, list[int]] = {}
        for group in groups:
            new = (group,) if group in self.SINGLE else tuple(f"{group}[{r}]" for r in range(d))
            self.at[group] = list(range(len(self.names), len(self.names) + len(new)))
            self.names += new
        self.width = len(self.names)

    @property
    def gated(self) -> bool:
        return "own" in self.at

    def with_keys(self) -> Layout:
        """The same, and the keys and values of a block."""
        return Layout(self.d, [*self.at, "key", "key_y", "key_c", "value"])

    def map(self, after: Layout, *moves: tuple[str, str, float | Floats], keep: Sequence[str] = ()) -> Floats:
        """The matrix that keeps these groups and adds weight times one group to another; an array has a weight for
        each feature."""
        A = np.zeros((self.width, after.width))
        for source, target, weight in (*((name, name, 1.0) for name in keep), *moves):
            A[self.at[source], after.at[target]] += weight
        return A


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
) -> Network:
    """The network of these passes, one after the other; `arrange` puts other layers (loops) in their place.

    answer: "gradients" (every token's f u; no passes), or the state that is read. own_values: u is an input of its own,
    else it is x. first: what the clock shows at first.
    """
    layout = layout_of(d, passes)
    inputs = _inputs(d, layout, own_values)
    A, C = np.zeros((len(inputs), layout.width)), np.zeros((1, layout.width))
    for row, name in enumerate(inputs):
        A[row, layout.names.index(name)] = 1.0
        if not own_values and name.startswith("x["):
            A[row, layout.names.index("u" + name[1:])] = 1.0
    C[0, layout.at["one"]] = 1.0
    if layout.gated:
        C[0, layout.at["own"]] = 1.0
    if "clock" in layout.at:
        C[0, layout.at["clock"]] = first
    registers = np.zeros((int(layout.gated), layout.width))
    registers[:, layout.at["one"]] = 1.0
    if answer == "gradients":
        layers = gradient_layers(layout, tables)
        outputs, source, R = [f"g[{r}]" for r in range(d)], "g", None
    else:
        layers = tuple(layer for one in passes for layer in pass_layers(layout, tables, one, n, dtype))
        outputs, source, R = [f"answer[{r}]" for r in range(d)], answer, np.eye(1, n)
    read = np.zeros((layout.width, d))
    read[layout.at[source], np.arange(d)] = 1.0
    return Network(
        inputs=inputs,
        embed=Linear(layout.names, (Term(A),), C),
        registers=registers,
        layers=layers if arrange is None else tuple(arrange),
        read=Linear(tuple(outputs), (Term(read, R),), np.zeros((1, d))),
        tokens=n,
        dtype=dtype,
    )


def layout_of(d: int, passes: Sequence[Pass]) -> Layout:
    """The coordinates that these passes need."""
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
    every = ("x", "u", "y", "w", "p", "tau", "clock", "one", "own", "g", "z", "q")
    return Layout(d, [group for group in every if group not in absent])


def _inputs(d: int, layout: Layout, own_values: bool) -> tuple[str, ...]:
    groups = ["x", *(["u"] if own_values else []), "y", "w", *(name for name in ("p", "tau") if name in layout.at)]
    return tuple(layout.names[i] for name in groups for i in layout.at[name])


def pass_layers(layout: Layout, tables: Sequence[PromptTable], one: Pass, n: int, dtype: str) -> tuple[Layer, ...]:
    """The layers of one pass."""
    stays = [name for name in layout.at if name not in ("g", "z", "q")]
    nothing = np.zeros((1, layout.width))
    summed = Linear(
        layout.names,
        (
            Term(rounded(layout.map(layout, ("w", "z", one.alpha), keep=stays), dtype)),
            Term(layout.map(layout, ("g", "z", -1.0)), np.ones((n, n))),
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
    """Every token gets g = f(w . x, y) u, by one block of keys after the other."""
    return tuple(layer for table in tables for layer in _one_table(layout, table))


def _one_table(layout: Layout, table: PromptTable) -> tuple[Layer, ...]:
    wide, d, P = layout.with_keys(), layout.d, table.size

    def spread(factors: Floats, *moves: tuple[str, str, float], keep: Sequence[str] = ()) -> Term:
        return Term(layout.map(wide, *moves, keep=keep), factors.reshape(P, 1), blocks=True)

    repeated = Linear(
        wide.names,
        (
            spread(np.eye(P, 1), keep=list(layout.at)),
            spread(table.along, ("x", "key", 1.0)),
            spread(table.across, ("y", "key_y", 1.0)),
            spread(table.offsets, ("one", "key_c", 1.0)),
            spread(table.values, ("u", "value", 1.0)),
        ),
        np.zeros((1, wide.width)),
    )
    W_Q, W_K, W_V = (np.zeros((wide.width, size)) for size in (d + 2, d + 2, d))
    W_Q[wide.at["w"], np.arange(d)] = 1.0
    W_Q[wide.at["one"], d:] = 1.0
    W_K[[*wide.at["key"], *wide.at["key_y"], *wide.at["key_c"]], np.arange(d + 2)] = 1.0
    W_V[wide.at["value"], np.arange(d)] = 1.0
    W_O = np.zeros((d, wide.width))
    W_O[np.arange(d), wide.at["g"]] = table.weight
    head = Head(table.role, W_Q, W_K, W_V, W_O, table.beta, Sees((0, 0), "block", P, "first"))
    kept = wide.map(layout, *([("u", "g", table.mean)] if table.mean else []), keep=list(layout.at))
    gathered = Linear(layout.names, (Term(kept, np.eye(1, P), blocks=True),), np.zeros((1, layout.width)))
    return repeated, Attention(wide.names, (head,)), gathered


def _threshold(layout: Layout, dtype: str) -> tuple[Layer, ...]:
    """q = relu(z - tau) - relu(-z - tau), by gates."""
    if "tau" not in layout.at:
        return ()
    heads = []
    for sign in (1.0, -1.0):
        for r in range(layout.d):
            t = np.zeros((layout.width, 1))
            t[layout.at["z"][r]], t[layout.at["tau"][r]] = sign, -1.0
            heads.append(_gate(layout, f"soft threshold of z[{r}], {'+' if sign > 0 else '-'}", t, t, [r], sign, dtype))
    return (Attention(layout.names, tuple(heads)),)


def _clock(layout: Layout) -> tuple[Layer, ...]:
    """q = sigmoid(clock) (z - p)."""
    if "clock" not in layout.at:
        return ()
    time, change = np.zeros((layout.width, 1)), np.zeros((layout.width, layout.d))
    time[layout.at["clock"]] = 1.0
    change[layout.at["z"], np.arange(layout.d)], change[layout.at["p"], np.arange(layout.d)] = 1.0, -1.0
    return (Attention(layout.names, (_gate(layout, "momentum", time, change, range(layout.d), 1.0, None),)),)


def _gate(
    layout: Layout, role: str, score: Floats, value: Floats, targets: Sequence[int], sign: float, dtype: str | None
) -> Head:
    """The token itself beside a register of score and value 0: sigmoid(beta score) value, added to q."""
    W_K, W_O = np.zeros((layout.width, 1)), np.zeros((len(targets), layout.width))
    W_K[layout.at["own"]] = 1.0
    W_O[np.arange(len(targets)), [layout.at["q"][r] for r in targets]] = sign
    beta = 1.0 if dtype is None else GATE_BETA[dtype]
    return Head(role, score, W_K, value, W_O, beta, Sees((0, 1), "self"))
