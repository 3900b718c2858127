"""A graph of columns in plain floats: what a network is compared with, and where its numbers lie. No bound."""

from __future__ import annotations

import numpy as np

from weightwright.claims.graph import AFFINE, ATTENTION, INPUT, MIX, PRODUCT, SOFTMAX, Graph, Node, sees
from weightwright.enclosures.intervals.jets import values
from weightwright.expressions import parse
from weightwright.numbers import Floats


def evaluate(graph: Graph, x: Floats) -> Floats:
    """(count, tokens, features) -> (count, tokens, outputs)."""
    columns = column_values(graph, x)
    return np.stack([columns[k] for k in graph.outputs], axis=-1)


def attention_values(graph: Graph, node: Node, of: list[Floats]) -> Floats:
    """(count, tokens), of columns of that shape."""
    q, k, v = (np.stack(part) for part in (of[: len(of) // 2], of[len(of) // 2 : -1], of[-1:]))
    scores = np.einsum("rci,rcj->cij", q, k)
    scores = np.where(sees(graph, node), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))
    mean: Floats = np.einsum("cij,cj->ci", weights / weights.sum(axis=2, keepdims=True), v[0])
    return mean


def column_values(graph: Graph, x: Floats) -> list[Floats]:
    """Every column at every input: (count, tokens) each."""
    columns: list[Floats] = []
    for node in graph.nodes:
        of = [columns[k] for k in node.of]
        if node.op == INPUT:
            value = x[:, :, node.index]
        elif node.op == AFFINE:
            value = np.broadcast_to(node.constants, x.shape[:2])
            if of:
                value = np.einsum("kct,k->ct", np.stack(of), node.weights) + value
        elif node.op == PRODUCT:
            value = of[0] * of[1]
        elif node.op == MIX:
            value = of[0] @ graph.matrices[node.index].T
        elif node.op == ATTENTION:
            value = attention_values(graph, node, of)
        elif node.op == SOFTMAX:
            scores = np.stack(of)
            weights = np.exp(scores - scores.max(axis=0))
            value = weights[node.index] / weights.sum(axis=0)
        else:
            value = np.asarray(values(parse(node.op, ("x",)), of[0].ravel())).reshape(of[0].shape)
        columns.append(value)
    return columns
