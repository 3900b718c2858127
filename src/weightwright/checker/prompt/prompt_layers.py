"""A network with a prompt, written down once more from what is claimed about it, and compared bit by bit.

Only the tables, the betas of gates and the names of the outputs are read off the network; every other number follows.
docs/certificates.md, "In context", says what the layers are for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weightwright.checker.core.complaints import must
from weightwright.claims.prompt import Pass, PromptClaim
from weightwright.limits import hold, tick
from weightwright.network import Attention, Block, Gather, Head, Linear, Loop, Network, Sees, Term
from weightwright.network.layers import Layer, Names
from weightwright.network.token_maps import pick, total
from weightwright.numbers import Floats

Entry = tuple[str, str, float]


@dataclass(frozen=True)
class StoredTable:
    """Scores beta (kappa_j w.x + lam_j y + c_j), values v_j; what is added to f is weight * their mean + `mean`, times
    what the coordinates `factor` hold."""

    kappa: Floats  # (P,), as all four
    lam: Floats
    c: Floats
    v: Floats
    beta: float
    weight: float
    mean: float
    factor: str = "u"


@dataclass(frozen=True)
class ReadPrompt:
    """What is left to look at once every layer stands as it must."""

    tables: list[StoredTable]
    read_out: list[StoredTable]  # its tables
    gate_betas: list[float]  # one for each pass with thresholds
    times: list[int]  # how often each pass runs


def read_prompt(network: Network, prompt: PromptClaim) -> ReadPrompt:
    """Refuse (CertificateError) a network that is not made as the claim says, layer by layer."""
    must(prompt.features < len(network.inputs), f"its inputs are {network.inputs}")
    layout = _Layout(network, prompt)
    must(network.inputs == layout.inputs, f"its inputs are {network.inputs}")
    _compare(network.embed, layout.embed(), "embed")
    gates = prompt.has("threshold") or prompt.has("clock")
    must(_same(network.registers, layout.registers(gates)), "its registers are other ones")
    asked = 0 if prompt.read_out is None else 3 * prompt.read_out.tables
    must(asked < len(network.layers), "it has no layers but those of its read-out")
    cut = len(network.layers) - asked
    groups = list(_groups(network.layers[:cut]))
    must(len(groups) > 0, "it has no layers")
    owners = [summand.factor for summand in prompt.summands for _ in range(summand.tables)]
    tables = [_table(groups[0][1][3 * i : 3 * i + 3], layout, factor) for i, factor in enumerate(owners)]
    read_out = _read_out(network.layers[cut:], layout)
    read = ReadPrompt(tables, read_out, [], [])
    waiting: list[Pass | None] = list(prompt.passes) or [None]
    for times, layers in groups:
        must(len(layers) > 0, "a loop of nothing")
        start = 0
        while start < len(layers):
            must(len(waiting) > 0, "it has more passes than are claimed")
            start = _pass_stands(layers, start, layout, read, waiting.pop(0))
            read.times.append(times)
    must(not waiting, "it has fewer passes than are claimed")
    must(bool(prompt.passes) or read.times == [1], "gradients are computed once")
    _compare(network.read, layout.read(network.read.coordinates), "read")
    return read


def _read_out(layers: Sequence[Layer], layout: _Layout) -> list[StoredTable]:
    """The tables of the read-out, whose layers come last and are what they must be."""
    found = []
    for start in range(0, len(layers), 3):
        own = list(layers[start : start + 3])
        table = _table(own, layout, "one")
        for offset, (layer, expected) in enumerate(zip(own, layout.table(table), strict=True)):
            _compare(layer, expected, f"layer {start + offset} of the read-out")
        found.append(table)
    return found


def _groups(layers: Sequence[Layer]) -> Iterator[tuple[int, list[Layer]]]:
    """Neighbouring layers that run equally often, and how often; every loop is a group of its own."""
    plain: list[Layer] = []
    for layer in layers:
        if not isinstance(layer, Loop):
            plain.append(layer)
            continue
        if plain:
            yield 1, plain
        plain = []
        yield layer.times, list(layer.layers)
    if plain:
        yield 1, plain


def _pass_stands(layers: list[Layer], start: int, layout: _Layout, read: ReadPrompt, step: Pass | None) -> int:
    """The layers of one pass, from `start` on, are what they must be; returns where the next one starts."""
    expected = [layer for table in read.tables for layer in layout.table(table)]
    if step is not None:
        expected.append(layout.update(step))
        at = start + len(expected)
        if step.middle == "threshold":
            beta = _beta(layers[at]) if at < len(layers) else 1.0
            read.gate_betas.append(beta)
            expected.append(layout.threshold(beta))
        elif step.middle == "clock":
            expected.append(layout.clocked())
        expected.append(layout.mix(step))
    must(start + len(expected) <= len(layers), "a pass is cut short")
    for offset, layer in enumerate(expected):
        _compare(layers[start + offset], layer, f"layer {offset} of a pass")
    return start + len(expected)


def _table(layers: list[Layer], layout: _Layout, factor: str) -> StoredTable:
    """The numbers of a table where they must stand; whether all else is as it must be is seen later."""
    must(len(layers) == 3, "a table takes three layers")
    spread, attend, gather = layers
    maps = isinstance(spread, Linear) and isinstance(gather, Linear)
    must(maps and isinstance(attend, Attention), "a table takes a map, a head and a map")
    assert isinstance(spread, Linear)
    assert isinstance(attend, Attention)
    assert isinstance(gather, Linear)
    must(len(spread.terms) == 5 and len(attend.heads) == 1 and len(gather.terms) == 1, "a table has five terms, a head")
    columns = []
    for term in spread.terms[1:]:
        repeats = isinstance(term.tokens, Block) and term.tokens.R.shape[1] == 1 and len(term.tokens.R) > 0
        must(repeats, "no column of keys")
        assert isinstance(term.tokens, Block)
        columns.append(term.tokens.R[:, 0])
    must(len({len(column) for column in columns}) == 1, "the columns of a table are of unequal length")
    kappa, lam, c, v = columns
    head = attend.heads[0]
    sources, targets = layout.multiplied(factor)
    written = (len(targets), len(spread.coordinates))
    must(head.W_O.shape == written, f"a head writes by a map of shape {head.W_O.shape}")
    must(gather.terms[0].A.shape == (len(spread.coordinates), len(layout.base)), "the last map of a table")
    weight = float(head.W_O[0, layout.at(targets[0])])
    mean = float(gather.terms[0].A[layout.at(sources[0]), layout.at(targets[0])])
    return StoredTable(kappa, lam, c, v, head.beta, weight, mean, factor)


def _beta(layer: Layer) -> float:
    must(isinstance(layer, Attention) and len(layer.heads) > 0, "gates were expected")
    assert isinstance(layer, Attention)
    return layer.heads[0].beta


def _compare(found: Any, expected: Any, where: str) -> None:
    must(_same(found, expected), f"{where} is not what it must be")


def _same(found: Any, expected: Any) -> bool:
    """Equal numbers, names and flags all through; what a head is for in words does not matter."""
    if isinstance(expected, np.ndarray):
        tick()
        fits = isinstance(found, np.ndarray) and found.shape == expected.shape
        return fits and bool((found == expected).all())
    if type(found) is not type(expected):
        return False
    if isinstance(expected, tuple):
        return len(found) == len(expected) and all(map(_same, found, expected))
    if dataclasses.is_dataclass(expected):
        names = [part.name for part in dataclasses.fields(expected) if part.name != "role"]
        return all(_same(getattr(found, name), getattr(expected, name)) for name in names)
    return bool(found == expected)


class _Layout:
    """The coordinates of the network, and its layers as they must be."""

    def __init__(self, network: Network, prompt: PromptClaim) -> None:
        must(network.tokens is not None, "the number of samples must be fixed")
        assert network.tokens is not None
        self.n, self.d, self.prompt = network.tokens, prompt.features, prompt
        self.states = "wp"[: prompt.states]
        tau = prompt.has("threshold")
        own, own_values = tau or prompt.has("clock"), prompt.own_values
        penalty = ["r"] if prompt.has_penalty else []
        given = [*(["u"] if own_values else []), *penalty, "y", *self.states, *(["tau"] if tau else [])]
        self.inputs = self._names(["x", *given])
        rest = [*(["tau"] if tau else []), *(["clock"] if prompt.has("clock") else [])]
        held = ["x", "u", *penalty, "y", *self.states, *rest]
        self.kept = self._names([*held, "one", *(["own"] if own else [])])  # all but what a pass works with
        self.base = self.kept + self._names(["g", "z", "q", *(["h"] if prompt.read_out is not None else [])])

    def _names(self, groups: Iterable[str]) -> Names:
        """One coordinate for each feature, but for what is a single number."""
        single = ("y", "clock", "one", "own", "h")
        return tuple(name for group in groups for name in ([group] if group in single else self.all(group)))

    def all(self, group: str) -> list[str]:
        return [f"{group}[{r}]" for r in range(self.d)]

    def at(self, name: str) -> int:
        return self.base.index(name)

    def multiplied(self, factor: str) -> tuple[list[str], list[str]]:
        """The coordinates that a table's function is multiplied with, and those that the products are added to."""
        return (["one"], ["h"]) if factor == "one" else (self.all(factor), self.all("g"))

    def pairs(self, source: str, target: str, weight: float | Floats = 1.0) -> list[Entry]:
        """weight: of all features, or one for each."""
        weights = np.broadcast_to(weight, (self.d,)).tolist()
        return list(zip(self.all(source), self.all(target), weights, strict=True))

    def embed(self) -> Linear:
        copies = [(name, name, 1.0) for name in self.inputs]
        if not self.prompt.own_values:
            copies += self.pairs("x", "u")
        C = np.zeros((1, len(self.base)))
        for name, value in (("one", 1.0), ("own", 1.0), ("clock", self.prompt.clock)):
            if name in self.base:
                C[0, self.at(name)] = value
        return Linear(self.base, (Term(_map(self.inputs, self.base, copies)),), C)

    def registers(self, gates: bool) -> Floats:
        rows = np.zeros((int(gates), len(self.base)))
        rows[:, self.at("one")] = 1.0
        return rows

    def table(self, table: StoredTable) -> tuple[Layer, ...]:
        """Every token becomes a block of keys, its first asks them, and the first is kept."""
        sources, targets = self.multiplied(table.factor)
        held = [f"value[{r}]" for r in range(len(sources))]
        wide = (*self.base, *self.all("key"), "key_y", "key_c", *held)
        P, d, ones = len(table.kappa), self.d, [1.0] * len(sources)
        first = np.zeros((P, 1))
        first[0] = 1.0
        parts: list[tuple[list[Entry], Floats]] = [
            ([(name, name, 1.0) for name in self.base], first),
            (self.pairs("x", "key"), table.kappa[:, None]),
            ([("y", "key_y", 1.0)], table.lam[:, None]),
            ([("one", "key_c", 1.0)], table.c[:, None]),
            (list(zip(sources, held, ones, strict=True)), table.v[:, None]),
        ]
        terms = tuple(Term(_map(self.base, wide, entries), Block(R)) for entries, R in parts)
        slots = tuple(str(i) for i in range(d + 2))
        asks = self.prompt.answer if table.factor == "one" else "w"
        W_Q = _map(wide, slots, [*zip(self.all(asks), slots, [1.0] * d, strict=False), *_ones("one", slots[d:])])
        keys = (*self.all("key"), "key_y", "key_c")
        W_K = _map(wide, slots, zip(keys, slots, [1.0] * (d + 2), strict=True))
        own = tuple(str(i) for i in range(len(sources)))
        W_V = _map(wide, own, zip(held, own, ones, strict=True))
        W_O = _map(own, wide, zip(own, targets, [table.weight] * len(targets), strict=True))
        head = Head("", W_Q, W_K, W_V, W_O, table.beta, Sees((0, 0), "block", P, asks="first"))
        kept = [(name, name, 1.0) for name in self.base]
        means = list(zip(sources, targets, [table.mean] * len(targets), strict=True))
        gather = Term(_map(wide, self.base, [*kept, *means]), Block(first.T))
        return self._linear(terms, wide), Attention(wide, (head,)), self._linear((gather,), self.base)

    def update(self, step: Pass) -> Linear:
        kept = [(name, name, 1.0) for name in self.kept]
        own = Term(_map(self.base, self.base, [*kept, *self.pairs("w", "z", step.alpha)]))
        others = Term(_map(self.base, self.base, self.pairs("g", "z", -1.0)), total(self.n, self.n))
        return self._linear((own, others), self.base)

    def threshold(self, beta: float) -> Attention:
        heads = []
        for sign in (1.0, -1.0):
            for z, q, tau in zip(self.all("z"), self.all("q"), self.all("tau"), strict=True):
                excess = _map(self.base, ("0",), [(z, "0", sign), (tau, "0", -1.0)])
                W_K, W_O = _map(self.base, ("0",), [("own", "0", 1.0)]), _map(("0",), self.base, [("0", q, sign)])
                heads.append(Head("", excess, W_K, excess, W_O, beta, Sees((0, 1), "self")))
        return Attention(self.base, tuple(heads))

    def clocked(self) -> Attention:
        W_Q, W_K = (_map(self.base, ("0",), [(name, "0", 1.0)]) for name in ("clock", "own"))
        slots = tuple(self.all("q"))
        W_V = _map(self.base, slots, [*self.pairs("z", "q"), *self.pairs("p", "q", -1.0)])
        W_O = _map(slots, self.base, self.pairs("q", "q"))
        return Attention(self.base, (Head("", W_Q, W_K, W_V, W_O, 1.0, Sees((0, 1), "self")),))

    def mix(self, step: Pass) -> Linear:
        states = {*self.all("w"), *self.all("p")}
        entries = [(name, name, 1.0) for name in self.kept if name not in states]
        for state, row in zip(self.states, step.method.tolist(), strict=True):
            for source, weight in zip("zqpw", row, strict=True):
                entries += self.pairs(source, state, weight) if weight else []
        if "clock" in self.base:
            entries.append(("one", "clock", step.tick))
        return self._linear((Term(_map(self.base, self.base, entries)),), self.base)

    def read(self, outputs: Names) -> Linear:
        if self.prompt.read_out is not None:
            must(len(outputs) == 1, f"it has {len(outputs)} outputs, not one prediction")
            asked = Gather(tuple(range(self.n - self.prompt.queries, self.n)))
            return self._linear((Term(_map(self.base, outputs, [("h", outputs[0], 1.0)]), asked),), outputs)
        must(len(outputs) == self.d, f"it has {len(outputs)} outputs, not one for each of {self.d} features")
        source = "g" if self.prompt.answer == "gradients" else self.prompt.answer
        A = _map(self.base, outputs, zip(self.all(source), outputs, [1.0] * self.d, strict=True))
        return self._linear((Term(A, pick(0) if self.prompt.passes else None),), outputs)

    def _linear(self, terms: tuple[Term, ...], names: Names) -> Linear:
        return Linear(names, terms, np.zeros((1, len(names))))


def _ones(source: str, targets: Sequence[str]) -> list[Entry]:
    return [(source, target, 1.0) for target in targets]


def _map(rows: Sequence[str], columns: Sequence[str], entries: Iterable[Entry]) -> Floats:
    hold(len(rows) * len(columns))
    A = np.zeros((len(rows), len(columns)))
    row, column = ({name: i for i, name in enumerate(names)} for names in (rows, columns))
    for source, target, weight in entries:
        A[row[source], column[target]] = weight
    return A
