"""Constant matrices on the tokens whose rows have different sums, so that an ordinary Transformer can hold them.

The weights of a head add up to 1. What a row lacks would go to a register of value 0, but registers of an ordinary
Transformer keep no 0 where a layer has written. So after the first layer the token itself takes what its row lacks, and
a product with constants takes it off again: A v = B v - r v with B = A + diag(r), all exact.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from weightwright.certificates.graphs import AFFINE, INPUT, MIX, PRODUCT, Graph, Node
from weightwright.compiler.mixing import needs_padding
from weightwright.network.layers import Floats


def with_equal_sums(graph: Graph) -> Graph:
    """The same function; mixes of what heads have computed have rows of one sum where that can be had exactly."""
    raw = _raw(graph)
    split = {
        k: pair
        for k, node in enumerate(graph.nodes)
        if node.op == MIX and not raw[node.of[0]] and (pair := _equal_sums(graph.matrices[node.index])) is not None
    }
    if not split:
        return graph
    nodes, matrices, places = list[Node](), list(graph.matrices), list[int]()
    known: dict[int, int] = {}  # matrix -> the one that replaces it
    for k, node in enumerate(graph.nodes):
        of = tuple(places[c] for c in node.of)
        if k not in split:
            nodes.append(replace(node, of=of))
        else:
            B, rest = split[k]
            if node.index not in known:
                known[node.index] = len(matrices)
                matrices.append(B)
            first = len(nodes)
            nodes.append(replace(node, of=of, index=known[node.index]))
            nodes.append(Node(AFFINE, constants=rest, label="what rows lack"))
            nodes.append(Node(PRODUCT, (of[0], first + 1), label=f"{node.label}, what rows lack"))
            nodes.append(Node(AFFINE, (first, first + 2), np.array([1.0, -1.0]), label=node.label))
        places.append(len(nodes) - 1)
    return replace(graph, nodes=tuple(nodes), outputs=tuple(places[c] for c in graph.outputs), matrices=tuple(matrices))


def _raw(graph: Graph) -> list[bool]:
    """Whether a column is affine in the inputs: no head has written it."""
    raw: list[bool] = []
    for node in graph.nodes:
        raw.append(node.op == INPUT or (node.op == AFFINE and all(raw[c] for c in node.of)))
    return raw


def _equal_sums(A: Floats) -> tuple[Floats, Floats] | None:
    """B = A + diag(rest) exactly, with rows of nearly one sum; None where A needs no rest, or floats have none."""
    if not needs_padding(A):
        return None
    sums = A.sum(axis=1)
    B = A + np.diag(sums.max() - sums)
    rest = np.diag(B) - np.diag(A)
    exact = all(Fraction(a) + Fraction(r) == Fraction(b) for a, r, b in zip(np.diag(A), rest, np.diag(B), strict=True))
    return (B, rest) if exact and not needs_padding(B) else None
