"""From a network to its circuit: what every coordinate of the stream is made of, layer by layer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from weightwright.circuit.circuit import Circuit, CircuitEdge, CircuitNode, Slot
from weightwright.circuit.contributions import Contribution, Place, contributions, contributions_in_loop
from weightwright.claims.certificate import Certificate, computed_in_words
from weightwright.network import Attention, Block, FeedForward, Gather, Head, Layer, Linear, Loop, Network, Total
from weightwright.network.layers import Names, Term
from weightwright.network.token_maps import TokenMap
from weightwright.numbers import Floats

#: A result: the name of a node and the place among its results.
Source = tuple[str, int]


def take_apart(network: Network, said: Certificate | None) -> Circuit:
    """The circuit of a network; said: what is known of it."""
    walk = _Apart(network.registers, contributions(network, said), contributions_in_loop(network, said))
    for name in network.inputs:
        walk.add(CircuitNode(name, "input", results=(name,)))
    start = _Stream(network.inputs, [{(name, 0): 1.0} for name in network.inputs], np.zeros((1, len(network.inputs))))
    stream = walk.linear(start, network.embed, "embed")
    stream = walk.linear(walk.layers(stream, network.layers), network.read, "read")
    walk.outputs(stream)
    name = "a network without a certificate" if said is None else computed_in_words(said)
    return walk.circuit(name, network.dtype, network.tokens)


class _Stream:
    """What every coordinate holds: coefficients of results, and a constant for all tokens or for each."""

    def __init__(self, names: Names, holds: list[dict[Source, float]], constants: Floats) -> None:
        self.names, self.holds, self.constants = names, holds, constants

    def plus(self, other: _Stream) -> _Stream:
        holds = [_sum([(1.0, a), (1.0, b)]) for a, b in zip(self.holds, other.holds, strict=True)]
        return _Stream(self.names, holds, self.constants + other.constants)


class _Apart:
    def __init__(
        self, registers: Floats, known: Mapping[Place, Contribution], in_loop: Mapping[Place, Contribution]
    ) -> None:
        self.registers, self.known, self.in_loop = registers, known, in_loop
        self.nodes: list[CircuitNode] = []
        self.edges: list[CircuitEdge] = []
        self.names: set[str] = set()

    def circuit(self, name: str, dtype: str, tokens: int | None) -> Circuit:
        return Circuit(name, dtype, tokens, tuple(self.nodes), tuple(self.edges))

    def add(self, node: CircuitNode) -> None:
        self.nodes.append(node)
        self.names.add(node.name)

    def outputs(self, stream: _Stream) -> None:
        for place, name in enumerate(stream.names):
            own = name if name not in self.names else f"output {name}"
            slots = self.slots(own, stream, [(name, np.eye(len(stream.names))[place])])
            self.add(CircuitNode(own, "output", slots=slots, results=(name,), reads=(name,)))

    def slots(self, node: str, stream: _Stream, columns: Sequence[tuple[str, Floats]]) -> tuple[Slot, ...]:
        """Slots that read the stream with these weights, and the edges into them."""
        made = []
        for number, (name, weights) in enumerate(columns):
            for place in np.flatnonzero(weights).tolist():
                for (source, result), held in stream.holds[place].items():
                    coefficient = held * float(weights[place])
                    self.edges.append(CircuitEdge(source, result, node, number, stream.names[place], coefficient))
            made.append(Slot(name, _shortest(stream.constants @ weights)))
        return tuple(made)

    def layers(self, stream: _Stream, layers: Sequence[Layer]) -> _Stream:
        for index, layer in enumerate(layers):
            match layer:
                case Linear():
                    stream = self.linear(stream, layer, f"L{index}", index)
                case Attention():
                    added = self.attention(stream, layer, index)
                    stream = stream.plus(added) if layer.residual else added
                case FeedForward():
                    added = self.feed_forward(stream, layer, index)
                    stream = stream.plus(added) if layer.residual else added
                case Loop():
                    stream = self.loop(stream, layer, index)
                case _:
                    stream = self.whole(
                        stream, CircuitNode(f"L{index}", "softmax", index, over=layer.over, beta=layer.beta)
                    )
        return stream

    def whole(self, stream: _Stream, node: CircuitNode) -> _Stream:
        """A node that reads every coordinate and writes it anew."""
        names, size = stream.names, len(stream.names)
        slots = self.slots(node.name, stream, list(zip(names, np.eye(size), strict=True)))
        self.add(replace(node, slots=slots, results=names, reads=names, writes=names))
        return _Stream(names, [{(node.name, place): 1.0} for place in range(size)], np.zeros((1, size)))

    def loop(self, stream: _Stream, loop: Loop, index: int) -> _Stream:
        inside, names = _Apart(self.registers, self.in_loop, self.in_loop), stream.names
        for name in names:
            inside.add(CircuitNode(name, "input", results=(name,)))
        begin = _Stream(names, [{(name, 0): 1.0} for name in names], np.zeros((1, len(names))))
        inside.outputs(inside.layers(begin, loop.layers))
        role = f"a loop that runs {loop.times} times"
        body = inside.circuit(f"one pass of layer {index}", "", None)
        return self.whole(stream, CircuitNode(f"L{index}", "loop", index, role=role, times=loop.times, body=body))

    def feed_forward(self, stream: _Stream, layer: FeedForward, index: int) -> _Stream:
        name, m = f"L{index}", layer.W_1.shape[1]
        slots = self.slots(name, stream, [(f"hidden[{i}]", layer.W_1[:, i]) for i in range(m)])
        slots = tuple(
            Slot(s.name, tuple(c + float(b) for c in s.constant)) for s, b in zip(slots, layer.b_1[0], strict=True)
        )
        results = tuple(slot.name for slot in slots)
        reads, writes = _named(stream.names, layer.W_1.any(axis=1)), _named(layer.coordinates, layer.W_2.any(axis=0))
        self.add(
            CircuitNode(
                name, "relu", index, role="feed-forward", slots=slots, results=results, reads=reads, writes=writes
            )
        )
        return _Stream(layer.coordinates, _written(name, layer.W_2), layer.b_2)

    def attention(self, stream: _Stream, layer: Attention, index: int) -> _Stream:
        d = len(layer.coordinates)
        holds: list[dict[Source, float]] = [{} for _ in range(d)]
        for number, head in enumerate(layer.heads):
            self.head(stream, layer.coordinates, head, (index, number))
            for place, more in enumerate(_written(_head_name((index, number)), head.W_O)):
                holds[place].update(more)
        return _Stream(layer.coordinates, holds, np.zeros((1, d)))

    def head(self, stream: _Stream, written: Names, head: Head, place: Place) -> None:
        columns = [(f"query[{i}]", w) for i, w in enumerate(head.W_Q.T)]
        read = head.W_Q.any(axis=1)
        if head.sees.data != "none":
            columns += [(f"key[{i}]", w) for i, w in enumerate(head.W_K.T)]
            columns += [(f"value[{j}]", w) for j, w in enumerate(head.W_V.T)]
            read = read | head.W_K.any(axis=1) | head.W_V.any(axis=1)
        fits = self.registers.shape[1] == len(stream.names)  # else they stand in other coordinates, and none is seen
        seen = self.registers[slice(*head.sees.registers)] if fits else self.registers[:0]
        keys, values = (_rows(seen @ W if len(seen) else np.zeros((0, W.shape[1]))) for W in (head.W_K, head.W_V))
        known = self.known.get(place)
        name = _head_name(place)
        live = np.array([bool(holds) for holds in stream.holds])
        self.add(
            CircuitNode(
                name,
                "head",
                *place,
                role=head.role,
                kind=_kind(head) if known is None else known.kind,
                slots=self.slots(name, stream, columns),
                results=tuple(f"result[{j}]" for j in range(head.W_V.shape[1])),
                reads=_named(stream.names, read & live),
                writes=_named(written, head.W_O.any(axis=0)),
                beta=head.beta,
                keys=keys,
                values=values,
                sees=head.sees.data,
                block=head.sees.block,
                asks=head.sees.asks,
                mask=None if head.mask is None else _rows(head.mask.astype(int)),
                window=head.window,
                **_said(known),
            )
        )

    def linear(self, stream: _Stream, map: Linear, name: str, index: int | None = None) -> _Stream:
        """Maps of every token by itself become coefficients; what moves or scales tokens is a node."""
        parts: list[list[tuple[float, dict[Source, float]]]] = [[] for _ in map.coordinates]
        constants = map.C
        for number, term in enumerate(map.terms):
            plain = term.tokens is None and term.S is None
            taken = stream if plain else self.moved(stream, map, term, f"{name}T{number}", index)
            for place, target in zip(*np.nonzero(term.A), strict=True):
                parts[target].append((float(term.A[place, target]), taken.holds[place]))
            constants = constants + taken.constants @ term.A
        return _Stream(map.coordinates, [_sum(part) for part in parts], constants)

    def moved(self, stream: _Stream, map: Linear, term: Term, name: str, index: int | None) -> _Stream:
        """The stream after R (S * X): a node for the coordinates that are read."""
        size, used = len(stream.names), np.flatnonzero(term.A.any(axis=1)).tolist()
        names, edges = tuple(stream.names[place] for place in used), len(self.edges)
        node = CircuitNode(
            name,
            "map",
            index,
            role="scales tokens" if term.tokens is None else "moves tokens",
            slots=self.slots(name, stream, [(stream.names[place], np.eye(size)[place]) for place in used]),
            results=names,
            reads=names,
            writes=_named(map.coordinates, term.A.any(axis=0)),
            moves=None if term.tokens is None else _as_data(term.tokens),
            scale=None if term.S is None else _rows(np.broadcast_to(term.S, (len(term.S), size))[:, used]),
        )
        if len(self.edges) == edges:  # it moves constants alone: an edge of 0 says how many tokens there are
            some = next((source for holds in stream.holds for source in holds), None)
            self.edges += [CircuitEdge(*some, name, 0, names[0], 0.0)] if some is not None and names else []
        self.add(node)
        holds: list[dict[Source, float]] = [{} for _ in stream.names]
        for result, place in enumerate(used):
            holds[place] = {(name, result): 1.0}
        return _Stream(stream.names, holds, np.zeros((1, size)))


def _head_name(place: Place) -> str:
    return f"L{place[0]}H{place[1]}"


def _kind(head: Head) -> str:
    """Where nothing is claimed: a table if it looks at registers alone."""
    return "table" if head.sees.data == "none" else "head"


def _said(known: Contribution | None) -> dict[str, Any]:
    if known is None:
        return {}
    together = tuple(_head_name(place) for place in known.together)
    fields = ("function", "argument", "proven", "left_open", "error", "weight")
    return {name: getattr(known, name) for name in fields} | {"together": together}


def _written(name: str, W: Floats) -> list[dict[Source, float]]:
    """What a node's results bring to every coordinate."""
    holds: list[dict[Source, float]] = [{} for _ in range(W.shape[1])]
    for result, place in zip(*np.nonzero(W), strict=True):
        holds[place][name, int(result)] = float(W[result, place])
    return holds


def _sum(parts: Sequence[tuple[float, dict[Source, float]]]) -> dict[Source, float]:
    if len(parts) == 1 and parts[0][0] == 1.0:
        return parts[0][1]
    total = defaultdict[Source, float](float)
    for factor, holds in parts:
        for source, held in holds.items():
            total[source] += factor * held
    return dict(total)


def _shortest(constants: Floats) -> tuple[float, ...]:
    """One number where all tokens have the same."""
    return (float(constants[0]),) if (constants == constants[0]).all() else tuple(constants.tolist())


def _named(names: Names, chosen: Any) -> Names:
    return tuple(names[place] for place in np.flatnonzero(chosen).tolist())


def _rows(matrix: Any) -> tuple[tuple[Any, ...], ...]:
    return tuple(tuple(row) for row in np.asarray(matrix).tolist())


def _as_data(map: TokenMap) -> dict[str, Any]:
    match map:
        case Gather():
            return {"gather": list(map.sources)}
        case Total():
            return {"total": map.after}
        case Block():
            return {"block": map.R.tolist()}
        case _:
            return {"matrix": map.R.tolist()}
