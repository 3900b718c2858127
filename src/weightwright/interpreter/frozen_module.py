"""The interpreter's weights: frozen, and the same for every program.

Layer 0 has a head for every row w of W_K, W_Q and W_V, which returns w.x: a head can multiply two things that both
stand in the prompt, since scores are bilinear. Layer 1 is the attention head itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from weightwright.claims.program_claim import AnchorTable, InterpreterClaim
from weightwright.network import (
    Attention,
    Head,
    Layer,
    Linear,
    Loop,
    Network,
    Sees,
    Term,
    selection,
    token_map,
    token_wise,
)
from weightwright.numbers import Floats

#: The matrices that a program gives, in the order in which they stand everywhere.
PARTS = ("k", "q", "v")


@dataclass(frozen=True)
class Sizes:
    """tokens: all that stand in a prompt, rows and padding included."""

    tokens: int
    features: int
    head_dim: int
    heads: int
    stacked: bool
    times: int = 0  # programs of a prompt that run in a loop; 0: a single one, without a loop

    @property
    def codes(self) -> int:
        """One for each token that may ask."""
        return self.tokens

    def rows(self, part: str) -> int:
        """Of W_K, W_Q or W_V."""
        return self.features if part == "v" else self.head_dim

    def weights(self) -> Iterator[tuple[str, int, int, int]]:
        """Part, head, row and column of every number of a program."""
        for part in PARTS:
            for place in np.ndindex(self.heads, self.rows(part), self.features):
                yield part, *place

    @property
    def given(self) -> tuple[str, ...]:
        """The weights of a program, as a token of a prompt holds them."""
        if not self.stacked:
            return tuple(_weight(*place) for place in self.weights())
        return tuple(f"w_{part}[{m}, {c}]" for part in PARTS for m in range(self.heads) for c in range(self.features))

    @property
    def inputs(self) -> tuple[str, ...]:
        """What a token of a prompt holds."""
        x, hides = [f"x[{c}]" for c in range(self.features)], [f"hides[{g}]" for g in range(self.codes)]
        weights, hidden = list(self.given), hides.copy()
        for number in range(1, self.times):
            weights += [_later(name, number) for name in self.given]
            hidden += [_later(name, number) for name in hides]
        return (*x, *weights, *(f"code[{g}]" for g in range(self.codes)), *hidden)

    @property
    def carried(self) -> tuple[str, ...]:
        """What waits while a pass runs."""
        return tuple(name for name in self.inputs if name.startswith("later "))

    @property
    def coordinates(self) -> tuple[str, ...]:
        names = ["one", *(f"x[{c}]" for c in range(self.features))]
        names += [f"{what}[{g}]" for what in ("code", "hides") for g in range(self.codes)]
        names += [f"{what} of {part}" for what in ("offset", "value") for part in PARTS]
        names += [_weight(*place) for place in self.weights()]
        names += [f"{part}[{m}, {r}]" for part in PARTS for m in range(self.heads) for r in range(self.rows(part))]
        return (*names, *(f"out[{c}]" for c in range(self.features)), *self.carried)


def _later(name: str, number: int) -> str:
    """What program `number` holds until it is its turn."""
    return f"later {number}: {name}"


def _weight(part: str, head: int, row: int, column: int) -> str:
    return f"w_{part}[{head}, {row}, {column}]"


def build_module(sizes: Sizes, claim: InterpreterClaim, dtype: str) -> Network:
    """The network that the claim is about."""
    places = {name: i for i, name in enumerate(sizes.coordinates)}
    tables = dict(zip(PARTS, claim.tables, strict=True))
    first = tuple(_product_head(sizes, places, tables[part], part, m, r) for part, m, r in _rows(sizes))
    second = tuple(_attention_head(sizes, places, m) for m in range(sizes.heads))
    embed = _embed(sizes, places, tables, claim.away)
    layers: tuple[Layer, ...] = (Attention(sizes.coordinates, first), Attention(sizes.coordinates, second))
    stream, outputs = sizes.coordinates, tuple(f"out[{c}]" for c in range(sizes.features))
    if sizes.times:
        layers = (Loop((embed, *layers, _move_on(sizes)), sizes.times),)
        stream, outputs = sizes.inputs, tuple(f"x[{c}]" for c in range(sizes.features))
        embed = selection(sizes.inputs, sizes.inputs)
    read = selection(stream, outputs)
    registers = np.zeros((0, len(embed.coordinates)))
    return Network(sizes.inputs, embed, registers, layers, read, tokens=sizes.tokens, dtype=dtype)


def _move_on(sizes: Sizes) -> Linear:
    """The end of a pass: the heads' sum is added to x, and the next program takes the place of the one that ran."""
    weights = {(f"x[{c}]", f"x[{c}]"): 1.0 for c in range(sizes.features)}
    weights |= {(f"out[{c}]", f"x[{c}]"): 1.0 for c in range(sizes.features)}
    weights |= {(f"code[{g}]", f"code[{g}]"): 1.0 for g in range(sizes.codes)}
    for name in (*sizes.given, *(f"hides[{g}]" for g in range(sizes.codes))):
        turns = [name, *(_later(name, number) for number in range(1, sizes.times))]
        weights |= {(after, before): 1.0 for before, after in pairwise(turns)}
    return token_wise(sizes.coordinates, sizes.inputs, weights)


def _rows(sizes: Sizes) -> Iterator[tuple[str, int, int]]:
    for part in PARTS:
        for m, r in np.ndindex(sizes.heads, sizes.rows(part)):
            yield part, m, r


def _embed(sizes: Sizes, places: dict[str, int], tables: dict[str, AnchorTable], away: float) -> Linear:
    inputs = {name: i for i, name in enumerate(sizes.inputs)}
    shape = len(inputs), len(places)
    A = np.zeros(shape)
    for name, place in inputs.items():
        if name.split("[")[0] in ("x", "code", "hides") or name.startswith("later "):
            A[place, places[name]] = 1.0
    terms = [Term(A)]
    for part, table in tables.items():
        for source, names in _sources(sizes, part):
            A, R = np.zeros(shape), np.zeros((sizes.tokens, sizes.tokens))
            for given, kept in names:
                A[inputs[given], places[kept]] = 1.0
            R[: len(table.kappa), source] = table.kappa
            terms.append(Term(A, token_map(R)))
    C = np.zeros((sizes.tokens, len(places)))
    C[:, places["one"]] = 1.0
    for part, table in tables.items():
        C[:, places[f"offset of {part}"]] = away
        C[: len(table.kappa), places[f"offset of {part}"]] = table.offsets
        C[: len(table.kappa), places[f"value of {part}"]] = table.values
    return Linear(sizes.coordinates, tuple(terms), C)


def _sources(sizes: Sizes, part: str) -> Iterator[tuple[int, list[tuple[str, str]]]]:
    """Tokens that hold weights of a part, and which number of theirs is which weight."""
    own = [place for place in sizes.weights() if place[0] == part]
    if not sizes.stacked:
        yield 0, [(_weight(*place), _weight(*place)) for place in own]
        return
    for row in range(sizes.rows(part)):
        yield row, [(f"w_{part}[{m}, {c}]", _weight(part, m, r, c)) for _, m, r, c in own if r == row]


def _product_head(sizes: Sizes, places: dict[str, int], table: AnchorTable, part: str, m: int, r: int) -> Head:
    d, width = sizes.features, len(places)
    W_Q, W_K, W_V, W_O = (np.zeros(shape) for shape in ((width, d + 1), (width, d + 1), (width, 1), (1, width)))
    for c in range(d):
        W_Q[places[f"x[{c}]"], c] = W_K[places[_weight(part, m, r, c)], c] = 1.0
    W_Q[places["one"], d] = W_K[places[f"offset of {part}"], d] = 1.0
    W_V[places[f"value of {part}"], 0] = W_O[0, places[f"{part}[{m}, {r}]"]] = 1.0
    role = f"{part}[{m}, {r}] = w.x, w being row {r} of W_{part.upper()} in the prompt"
    return Head(role, W_Q, W_K, W_V, W_O, table.beta, Sees((0, 0), "all"))


def _attention_head(sizes: Sizes, places: dict[str, int], m: int) -> Head:
    h, g, d, width = sizes.head_dim, sizes.codes, sizes.features, len(places)
    W_Q, W_K, W_V, W_O = (np.zeros(shape) for shape in ((width, h + g), (width, h + g), (width, d), (d, width)))
    for r in range(h):
        W_Q[places[f"q[{m}, {r}]"], r] = W_K[places[f"k[{m}, {r}]"], r] = 1.0
    for i in range(g):
        W_Q[places[f"code[{i}]"], h + i] = W_K[places[f"hides[{i}]"], h + i] = 1.0
    for c in range(d):
        W_V[places[f"v[{m}, {c}]"], c] = W_O[c, places[f"out[{c}]"]] = 1.0
    return Head(f"the attention head {m} of the program", W_Q, W_K, W_V, W_O, 1.0, Sees((0, 0), "all"))


def domain_ends(sizes: Sizes, claim: InterpreterClaim) -> tuple[Floats, Floats]:
    """What the numbers of a token may be."""
    ends = {"x": (-claim.x_max, claim.x_max), "code": (0.0, 1.0), "hides": (-claim.hidden, 0.0)}
    kinds = (name.partition(": ")[2] or name for name in sizes.inputs)
    pairs = [ends.get(kind.split("[")[0], (-claim.w_max, claim.w_max)) for kind in kinds]
    lo, hi = np.array(pairs).T
    return lo, hi
