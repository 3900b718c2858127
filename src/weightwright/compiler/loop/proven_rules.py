"""A network that runs a rule in a loop: one pass compiled like any function, then once more with its own result.

Passes are joined by two linear maps. The first takes the examples, which the stream has kept, and copies the first
token's new state to every token: exactly, whatever rounding has made of the others. The second is the embedding.

An update rule in PyTorch as a graph of columns: (examples, state) to the new state.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from weightwright.approximation.task import outward
from weightwright.box import Box
from weightwright.certify import certify
from weightwright.claims.graph import ATTENTION, INPUT, MIX, SOFTMAX, Graph, Node
from weightwright.claims.prompt import LoopClaim
from weightwright.claims.target import UNREAD, TableClaim
from weightwright.compiler.attempts import certify_graph
from weightwright.compiler.compile import without_jumps
from weightwright.compiler.lowering.lower import Lowered
from weightwright.compiler.request import Request
from weightwright.errors import FormulaError, ToleranceError, UnsupportedOperation
from weightwright.network import Attention, Layer, Linear, Loop, Network, Term
from weightwright.network.token_maps import copy
from weightwright.numbers import Bools
from weightwright.runtime import AttentionNetwork
from weightwright.runtime.module import OnDomain
from weightwright.tracing.advice import advice
from weightwright.tracing.following.torch_gradients import follow_gradients
from weightwright.tracing.guard.confirm import confirm_rule
from weightwright.tracing.guard.running_error import known_domain
from weightwright.tracing.operands import as_traced
from weightwright.tracing.repeated import graphs_differ, repeated
from weightwright.tracing.sheet import Sheet
from weightwright.tracing.symbolic import Traced
from weightwright.tracing.user_source import boundary, swallow_nothing


def trace_rule(rule: Callable[..., Any], samples: int, features: int, states: int, name: str) -> Graph:
    """The columns of rule(examples (samples, features), state (states,)), on a token for every example.

    The inputs of a token are its example's features, then the state, the same on every token. The outputs are all
    inputs, as they are, then the new state.

    >>> trace_rule(lambda x, w: w - (x * w).mean(dim=0), samples=3, features=2, states=2, name="r").outputs[:4]
    (0, 1, 2, 3)
    """
    return repeated(lambda: _trace(rule, Sheet(samples, free=False), features, states, name), graphs_differ, name)


def trace_and_confirm(
    rule: Callable[..., Any], samples: int, examples: Box, state: Box, name: str
) -> tuple[Graph, Callable[[], None]]:
    """The same, after comparing it with the rule itself on examples and states of the boxes; and what compares them
    once more when the network is there: NotRepeatable where the rule has changed."""
    features, states = examples.lo.shape[-1], state.lo.shape[-1]
    box = side_by_side(examples, state)
    with known_domain(box):
        graph = trace_rule(rule, samples, features, states, name)
        without_jumps(graph)
        once_more = functools.partial(_trace, rule, features=features, states=states, name=name)
        return graph, confirm_rule(rule, graph, once_more, box, (features, states))


def is_still(rule: Callable[..., Any], graph: Graph, samples: int, examples: Box, state: Box) -> bool:
    """Whether the rule is what it was when the graph was traced on these boxes: it may read what has changed since."""
    with known_domain(side_by_side(examples, state)):
        again = trace_rule(rule, samples, examples.lo.shape[-1], state.lo.shape[-1], graph.name)
    return not graphs_differ(again, graph)


def the_rule(graph: Graph, states: int) -> Graph:
    """The same columns with the new state alone for outputs."""
    return dataclasses.replace(graph, outputs=graph.outputs[-states:])


@boundary
def _trace(rule: Callable[..., Any], sheet: Sheet, features: int, states: int, name: str) -> Graph:
    examples = sheet.input(features)  # (samples, features)
    inputs = [sheet.columns.input(place) for place in range(features + states)]
    state = np.array(inputs[features:]) * (sheet.n + 1)  # codes of columns that hold the same on every token
    sheet.shared.update(inputs[features:])
    with swallow_nothing(), follow_gradients():
        result = rule(Traced(sheet, examples, 0 if sheet.n > 1 else None), Traced(sheet, state, None))
    graph = sheet.columns.graph(name, [*inputs, *_new_state(sheet, result, states, name)])
    return dataclasses.replace(graph, nodes=tuple(_named(node, features) for node in graph.nodes))


def _named(node: Node, features: int) -> Node:
    if node.op != INPUT or node.index < features:
        return node
    return dataclasses.replace(node, label=f"state[{node.index - features}]")


def _new_state(sheet: Sheet, result: Any, states: int, name: str) -> list[int]:
    if isinstance(result, torch.Tensor):
        result = as_traced(sheet, result)
    if not isinstance(result, Traced):
        raise UnsupportedOperation(f"{name} returns {type(result).__name__}, not the new state as a tensor")
    if tuple(result.shape) != (states,):
        raise UnsupportedOperation(
            f"{name} returns shape {tuple(result.shape)} for a state of shape ({states},); return the new state,"
            f" {states} numbers (means over the examples are taken along dim=0)"
        )
    with sheet.operation(f"what {name} returns"):
        return sheet.settled(result.codes, None)


#: What to do where a pass cannot be proven.
UNPROVEN = "or run(..., proof='measured'), which proves nothing"
LARGER = (
    "What may help: clamp what is divided by or add a constant to it, smaller boxes of examples and state, a larger tol"
)


def compile_rule(
    rule: Callable[..., Any],
    name: str,
    steps: int,
    samples: int,
    examples: Box,
    state: Box,
    tol: float,
    on_domain: OnDomain = "raise",
    progress: Callable[[str], None] = lambda message: None,
) -> AttentionNetwork:
    """The rule, `steps` times in a loop, on (samples, features + states): an example and the first state a token.

    examples: (features,) or (samples, features); state: (states,). From any examples and any state of these boxes one
    pass is within the certificate's bound, at most tol, of the rule. Every token returns the last state.
    """
    features, states = examples.lo.shape[-1], state.lo.shape[-1]
    box = outward(side_by_side(examples, state), "float64")
    asked = Request(rule, box, tol, "float64", "dot", samples, "proven", None, on_domain, progress)
    progress("tracing")
    graph, compare_again = trace_and_confirm(rule, samples, examples, state, name)
    progress(f"lowering {len(graph.nodes)} columns")

    def certify_loop(lowered: Lowered) -> AttentionNetwork:
        return certify(*put_in_loop(lowered, graph, (features, states), steps), box)

    try:
        net = certify_graph(graph, asked, certify_loop, f"{LARGER}; {UNPROVEN}")
    except ToleranceError as error:
        said = str(error) if str(error).endswith(UNPROVEN) else f"{error}. {LARGER}; {UNPROVEN}"
        raise ToleranceError(said + advise_on(graph, str(error)), error.best) from error
    except FormulaError as error:
        raise type(error)(f"{error}; {UNPROVEN}{advise_on(graph, str(error))}") from error
    compare_again()
    return net


def advise_on(graph: Graph, error: str) -> str:
    """What to do about this very error, where it is one that rules often meet."""
    said = []
    if "the claim covers" in error or "errors of its argument included" in error:
        said.append(
            "A column reaches farther than its table, since errors of the columns before it grow on the way: mostly a"
            " quotient such as EM's (r * x).mean(0) / r.mean(0), whose divisor comes near 0 somewhere in the boxes,"
            " though not on your data. Clamp the divisor (torch.clamp(r.mean(0), min=0.05)), divide means and not sums,"
            " add a constant to a variance, or give smaller boxes (state_box=, examples_box=)"
        )
    if error.startswith("div") and "1/x is undefined" in error:
        said.append(
            "Shares such as EM's p / p.sum(1) are torch.softmax of the logarithms of p, which divides by nothing; other"
            " divisors can be clamped"
        )
    if "linalg_" in error:
        said.append(
            "A linear system is solved by its determinant, which must stay away from 0 as ranges show: add a larger"
            " multiple of the identity to the matrix, or take steps towards the solution, w + step * (b - A @ w)"
        )
    if any(node.label.startswith("grad") and ("step(" in node.op or "sign(" in node.op) for node in graph.nodes):
        said.append(f"The rule takes a gradient that may jump: {advice('grad')}")
    return "".join(f". {what}" for what in said)


def put_in_loop(lowered: Lowered, graph: Graph, sizes: tuple[int, int], steps: int) -> tuple[Network, LoopClaim]:
    """The loop around one pass, and what is claimed about the pass: its outputs are all inputs, then the new state.

    sizes: the numbers of an example, and of the state.
    """
    e, s = sizes
    one = _renamed(lowered.network, e, s)
    n, width, places = one.tokens, len(one.embed.coordinates), one.read.terms[0].A.argmax(axis=0)
    assert n is not None
    pick = np.eye(width)[:, places]  # (width, inputs and new state)
    stays, new = np.zeros((width, e + s)), np.zeros((width, e + s))
    stays[:, :e], new[:, e:] = pick[:, :e], pick[:, e + s :]
    gather = Linear(one.inputs, (Term(stays), Term(new, copy(n))), np.zeros((1, e + s)))
    read = Linear(one.inputs[e:], (Term(pick[:, e : e + s]),), np.zeros((1, s)))
    network = dataclasses.replace(one, layers=(Loop((*one.layers, gather, one.embed), steps),), read=read)
    rule = the_rule(graph, s)
    needed = tokens_read(rule)
    parts = tuple(dataclasses.replace(part, units=_read(part, rule, needed)) for part in lowered.composite.parts)
    return network, LoopClaim(e, s, dataclasses.replace(lowered.composite, target=rule, parts=parts))


def tokens_read(graph: Graph) -> Bools:
    """(columns, tokens): where a column's number has a part in the outputs of the first token. Softmax and attention
    count on all tokens, since a claim about their head is about all of them."""
    read = np.zeros((len(graph.nodes), graph.tokens or 1), dtype=bool)
    read[list(graph.outputs), 0] = True
    for place in reversed(range(len(graph.nodes))):
        node = graph.nodes[place]
        if node.op in (SOFTMAX, ATTENTION):
            read[place] = True
        for k in node.of:
            read[k] |= (graph.matrices[node.index][read[place]] != 0).any(axis=0) if node.op == MIX else read[place]
    return read


def _read(part: TableClaim, graph: Graph, read: Bools) -> tuple[int, ...]:
    """The part's units, where anybody reads them."""
    n, K = graph.tokens or 1, len(graph.nodes)

    def column(unit: int) -> int:
        return unit // n if unit // n < K else (unit // n - K) // 2

    return tuple(unit if read[column(unit), token] else UNREAD for token, unit in enumerate(part.units))


def _renamed(network: Network, e: int, s: int) -> Network:
    """Inputs and outputs by what they are."""
    inputs = tuple(f"x[{c}]" for c in range(e)) + tuple(f"state[{j}]" for j in range(s))
    outputs = [f"kept {name}" for name in inputs] + [f"new state[{j}]" for j in range(s)]
    new = dict(zip((f"out[{m}]" for m in range(len(outputs))), outputs, strict=True))

    def named(layer: Layer) -> Any:
        assert isinstance(layer, Linear | Attention)
        return dataclasses.replace(layer, coordinates=tuple(new.get(name, name) for name in layer.coordinates))

    layers = tuple(named(layer) for layer in network.layers)
    return dataclasses.replace(
        network, inputs=inputs, embed=named(network.embed), layers=layers, read=named(network.read)
    )


def side_by_side(examples: Box, state: Box) -> Box:
    """(features + states,), or (samples, features + states)."""
    rows = examples.lo.shape[:-1]
    ends = [
        np.concatenate([a, np.broadcast_to(b, (*rows, len(b)))], axis=-1)
        for a, b in ((examples.lo, state.lo), (examples.hi, state.hi))
    ]
    return Box(*ends)
