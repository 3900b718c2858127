"""An update rule in PyTorch as a graph of columns: (examples, state) to the new state."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import weightwright.compiler.tensors  # noqa: F401  (registers all operations)
from weightwright.certificates.graphs import INPUT, Graph, Node
from weightwright.compiler.tracing.operands import as_traced
from weightwright.compiler.tracing.repeated import graphs_differ, repeated
from weightwright.compiler.tracing.sheet import Sheet
from weightwright.compiler.tracing.symbolic import Traced
from weightwright.compiler.tracing.user_source import boundary
from weightwright.errors import UnsupportedOperation


def traced_rule(rule: Callable[..., Any], samples: int, features: int, states: int, name: str) -> Graph:
    """The columns of rule(examples (samples, features), state (states,)), on a token for every example.

    The inputs of a token are its example's features, then the state, the same on every token. The outputs are all
    inputs, as they are, then the new state.

    >>> traced_rule(lambda x, w: w - (x * w).mean(dim=0), samples=3, features=2, states=2, name="r").outputs[:4]
    (0, 1, 2, 3)
    """
    return repeated(lambda: _trace(rule, Sheet(samples, free=False), features, states, name), graphs_differ, name)


def the_rule(graph: Graph, states: int) -> Graph:
    """The same columns with the new state alone for outputs."""
    return dataclasses.replace(graph, outputs=graph.outputs[-states:])


@boundary
def _trace(rule: Callable[..., Any], sheet: Sheet, features: int, states: int, name: str) -> Graph:
    examples = sheet.input(features)  # (samples, features)
    inputs = [sheet.columns.input(place) for place in range(features + states)]
    state = np.array(inputs[features:]) * (sheet.n + 1)  # codes of columns that hold the same on every token
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
