"""A circuit run node by node in numpy, with the results of some nodes replaced."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from weightwright.circuit.circuit import Circuit, CircuitNode
from weightwright.network import Block, Gather, Head, Mixed, Sees, TokenMap, Total
from weightwright.network.interpreter import move_tokens, run_head, softmax
from weightwright.numbers import Bools, Floats

#: Between the name of a loop and that of a node in its body.
INSIDE = "/"


@dataclass
class CircuitRun:
    """What every node returned, (..., tokens, results). Of nodes in the body of a loop, whose names begin with the
    loop's and a slash, that of the last pass.

    stays: (..., tokens), of every head whether its query is where it is proven, in a loop at every pass."""

    results: dict[str, Floats] = field(default_factory=dict)
    stays: dict[str, Bools] = field(default_factory=dict)
    outputs: Floats = field(default_factory=lambda: np.zeros(0))


def run_circuit(circuit: Circuit, X: Floats, instead: Mapping[str, Floats] | None = None) -> CircuitRun:
    """X: (..., tokens, inputs). instead: by a node's name what it returns, (results,) or (..., tokens, results)."""
    run, X = CircuitRun(), np.asarray(X, dtype=np.float64)
    before, inputs, outputs = X.shape[:-1], 0, list[Floats]()
    for node in circuit.nodes:
        if node.type == "input":
            run.results[node.name] = X[..., inputs : inputs + 1]
            inputs += 1
            continue
        for source in list(circuit.matrices[node.name])[:1]:  # maps may change the number of tokens
            before = run.results[source].shape[:-1]
        slots = _slots(circuit, node, run.results, before)
        result = _result(node, slots, run, instead or {})
        before = result.shape[:-1]
        if instead is not None and node.name in instead:
            result = np.broadcast_to(instead[node.name], result.shape)
        run.results[node.name] = result
        if node.proven:
            run.stays[node.name] = _stays(node, slots)
        if node.type == "output":
            outputs.append(result)
    run.outputs = np.concatenate(outputs, axis=-1)
    return run


def _slots(circuit: Circuit, node: CircuitNode, results: Mapping[str, Floats], before: tuple[int, ...]) -> Floats:
    """(..., tokens, slots): constants, and what the edges bring."""
    total = np.zeros((*before, len(node.slots)))
    for number, slot in enumerate(node.slots):
        total[..., number] = np.asarray(slot.constant)
    for source, matrix in circuit.matrices[node.name].items():
        total = total + results[source] @ matrix
    return total


def _result(node: CircuitNode, slots: Floats, run: CircuitRun, instead: Mapping[str, Floats]) -> Floats:
    match node.type:
        case "output":
            return slots
        case "head":
            return _attend(node, slots)
        case "map":
            scaled = slots if node.scale is None else slots * np.array(node.scale)
            return scaled if node.moves is None else move_tokens(_token_map(node.moves), scaled)
        case "relu":
            return np.maximum(slots, 0.0)
        case "softmax":
            return softmax(node.beta * slots, axis=-1 if node.over == "features" else -2)
        case _:
            return _repeat(node, slots, run, instead)


def _repeat(node: CircuitNode, state: Floats, run: CircuitRun, instead: Mapping[str, Floats]) -> Floats:
    assert node.body is not None
    inner = f"{node.name}{INSIDE}"
    own = {name.removeprefix(inner): value for name, value in instead.items() if name.startswith(inner)}
    for _ in range(node.times):
        once = run_circuit(node.body, state, own)
        state = once.outputs
        for name, stays in once.stays.items():
            run.stays[inner + name] = stays & run.stays.get(inner + name, stays)
        run.results.update({inner + name: result for name, result in once.results.items()})
    return state


def _stays(node: CircuitNode, slots: Floats) -> Bools:
    """Whether the query is in the range that the head is proven on, and in none of the intervals left open."""
    lo, hi = np.array(node.proven).T
    query = slots[..., : len(lo)]
    stays: Bools = ((query >= lo) & (query <= hi)).all(axis=-1)
    for start, end in node.left_open:
        stays = stays & ~((query[..., 0] > start) & (query[..., 0] < end))
    return stays


def _attend(node: CircuitNode, slots: Floats) -> Floats:
    """The head on a stream of its own slots: queries first, then keys, then values."""
    h, v = (
        len(node.keys[0]) if node.keys else sum(slot.name.startswith("query") for slot in node.slots),
        len(node.results),
    )
    stream = slots if node.sees != "none" else np.concatenate([slots, np.zeros((*slots.shape[:-1], h + v))], axis=-1)
    Q, K, V = np.split(np.eye(2 * h + v), [h, 2 * h], axis=1)
    registers = np.zeros((len(node.keys), 2 * h + v))
    if node.keys:
        registers[:, h : 2 * h], registers[:, 2 * h :] = np.array(node.keys), np.array(node.values)
    mask = None if node.mask is None else np.array(node.mask, dtype=bool)
    sees = Sees((0, len(registers)), node.sees, node.block, node.asks)  # type: ignore[arg-type]
    return run_head(Head(node.role, Q, K, V, np.eye(v), node.beta, sees, mask, node.window), stream, registers)


def _token_map(moves: Mapping[str, Any]) -> TokenMap:
    (kind, data), *_ = moves.items()
    match kind:
        case "gather":
            return Gather(tuple(data))
        case "total":
            return Total(data)
        case "block":
            return Block(np.array(data))
        case _:
            return Mixed(np.array(data))
