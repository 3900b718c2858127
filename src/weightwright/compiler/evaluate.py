"""A graph of columns in plain float64 numbers."""

from __future__ import annotations

from functools import cache

import numpy as np

from weightwright.certificates.graphs import AFFINE, INPUT, MIX, PRODUCT, SOFTMAX, Graph, Node
from weightwright.certificates.prover.jets import values
from weightwright.expressions import Expression, parse
from weightwright.network.layers import Floats


def evaluate(graph: Graph, x: Floats) -> Floats:
    """x (batch, tokens, features) to (batch, tokens, outputs). What is not defined somewhere is nan there."""
    columns = list[Floats]()
    for node in graph.nodes:
        columns.append(_column(graph, node, columns, x))
    return np.stack([columns[output] for output in graph.outputs], axis=-1)


def _column(graph: Graph, node: Node, columns: list[Floats], x: Floats) -> Floats:
    """(batch, tokens)"""
    parts = [columns[column] for column in node.of]
    if node.op == INPUT:
        return x[..., node.index]
    if node.op == AFFINE:
        total = np.broadcast_to(node.constants, x.shape[:2]).copy()
        for weight, part in zip(node.weights, parts, strict=True):
            total += weight * part
        return total
    if node.op == PRODUCT:
        return parts[0] * parts[1]
    if node.op == SOFTMAX:
        scores = np.stack(parts)
        powers = np.exp(scores - scores.max(axis=0))
        return np.asarray(powers[node.index] / powers.sum(axis=0))
    if node.op == MIX:
        return parts[0] @ graph.matrices[node.index].T
    return values(_parsed(node.op), parts[0].ravel()).reshape(x.shape[:2])


@cache
def _parsed(formula: str) -> Expression:
    return parse(formula, ("x",))
