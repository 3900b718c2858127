"""Graphs and formulas in float64, with a running error: where any float64 evaluation of the same operations ends up.

Every column is an interval. It holds the exact number, what numpy makes of it, and what torch makes of it: sums in
any order, library functions within a few units, constants that were rounded once more (1 / 3 for a division by 3).
A jump or a kink inside an interval gives all that lies on both sides, so nothing is refused near one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache

import numpy as np

from weightwright.box import Box
from weightwright.claims.graph import AFFINE, ATTENTION, INPUT, MIX, PRODUCT, SOFTMAX, Graph, Node, sees
from weightwright.enclosures.intervals.intervals import Interval
from weightwright.enclosures.intervals.jets import apply
from weightwright.expressions import Expression, Number, Variable, fold, parse
from weightwright.numbers import Floats
from weightwright.tracing.columns import HELD
from weightwright.tracing.sheet import COLUMN_RANGES

#: Roundings, in units of 2^-53 of what is rounded, that an operation is given beside its own: torch's and ours differ
#: in how they divide, raise to powers and scale. 8 stands for four roundings on either side.
ROUNDINGS = 8
UNIT = 2.0**-53
#: Added on both sides for what underflows: products of numbers below 2^-500 are compared with nothing finer.
LEAST = 2.0**-1000

_WITHOUT_ROUNDING = ("neg", "abs", "relu", "max", "min", "clip", "sign", "step")

_parsed = lru_cache(maxsize=4096)(lambda text: parse(text, ("x",)))


def enclose_columns(graph: Graph, x: Interval) -> list[Interval]:
    """Every column, (count, tokens) each, on inputs (count, tokens, features)."""
    columns = list[Interval]()
    softmaxes = dict[tuple[int, ...], list[Interval]]()
    with np.errstate(all="ignore"):  # what is not finite is not compared
        for node in graph.nodes:
            columns.append(_column(graph, node, columns, x, softmaxes))
    return columns


@contextmanager
def known_domain(box: Box) -> Iterator[None]:
    """Functions that are followed inside may ask where their columns lie on the box."""

    def enclose(graph: Graph, tokens: int) -> list[Interval]:
        lo, hi = (np.broadcast_to(end, (1, tokens, end.shape[-1])) for end in (box.lo, box.hi))
        return enclose_columns(graph, Interval(lo, hi))

    token = COLUMN_RANGES.set(enclose)
    try:
        yield
    finally:
        COLUMN_RANGES.reset(token)


def enclose_formula(expression: Expression, at: Mapping[str, Interval]) -> Interval:
    """A formula of some variables, every operation with its roundings."""

    def leaf(node: Number | Variable) -> Interval:
        return at[node.name] if isinstance(node, Variable) else Interval.rational(node.value)

    def made(op: str, args: Sequence[Interval]) -> Interval:
        result = apply(op, [[arg] for arg in args], 0)[0]
        return result if op in _WITHOUT_ROUNDING else _widened(result)

    with np.errstate(all="ignore"):
        return fold(expression, leaf, made)


def _column(
    graph: Graph, node: Node, columns: list[Interval], x: Interval, softmaxes: dict[tuple[int, ...], list[Interval]]
) -> Interval:
    of = [columns[k] for k in node.of]
    if node.op == INPUT:
        return x[:, :, node.index]
    if node.op == HELD:
        return of[0]
    if node.op == AFFINE:
        return _sum(of, node.weights, np.broadcast_to(node.constants, x.lo.shape[:2]))
    if node.op == PRODUCT:
        return _widened(of[0] * of[1])
    if node.op == MIX:
        return _mix(graph.matrices[node.index], of[0])
    if node.op == ATTENTION:
        return _attention(graph, node, of)
    if node.op == SOFTMAX:
        if node.of not in softmaxes:
            softmaxes[node.of] = _softmax(of)
        return softmaxes[node.of][node.index]
    return enclose_formula(_parsed(node.op), {"x": of[0]})


def _widened(x: Interval, roundings: float = ROUNDINGS) -> Interval:
    slack = roundings * UNIT * x.magnitude() + LEAST
    return Interval(x.lo - slack, x.hi + slack)


def _sum(of: Sequence[Interval], weights: Floats, constants: Floats) -> Interval:
    """n terms in any order: off by at most about n roundings of the sum of their sizes, here and in torch."""
    if not of:
        return Interval(constants, constants)
    lo, hi = np.stack([term.lo for term in of]), np.stack([term.hi for term in of])  # (k, count, tokens)
    return _weighted(np.maximum(weights, 0.0), np.minimum(weights, 0.0), lo, hi, constants, len(of))


def _weighted(above: Floats, below: Floats, lo: Floats, hi: Floats, constants: Floats, terms: int) -> Interval:
    """Positive and negative weights, (k,) each."""
    least = np.tensordot(above, lo, 1) + np.tensordot(below, hi, 1) + constants
    most = np.tensordot(above, hi, 1) + np.tensordot(below, lo, 1) + constants
    size = np.tensordot(above - below, np.maximum(np.abs(lo), np.abs(hi)), 1) + np.abs(constants)
    slack = ROUNDINGS * (terms + 2) * UNIT * size + LEAST
    return Interval(least - slack, most + slack)


def _mix(matrix: Floats, x: Interval) -> Interval:
    above, below = np.maximum(matrix, 0.0).T, np.minimum(matrix, 0.0).T
    slack = ROUNDINGS * (len(matrix) + 2) * UNIT * (x.magnitude() @ (above - below)) + LEAST
    return Interval(x.lo @ above + x.hi @ below - slack, x.hi @ above + x.lo @ below + slack)


def _attention(graph: Graph, node: Node, of: list[Interval]) -> Interval:
    """If no score is off by more than D, the mean moves by at most D / 2 times what the values spread over."""
    h = len(of) // 2
    q, k = (np.stack([c.lo / 2 + c.hi / 2 for c in part]) for part in (of[:h], of[h:-1]))  # (h, count, tokens)
    dq, dk = (np.stack([(c.hi - c.lo) / 2 for c in part]) for part in (of[:h], of[h:-1]))
    size = np.einsum("rci,rcj->cij", np.abs(q) + dq, np.abs(k) + dk)
    off = size - np.einsum("rci,rcj->cij", np.abs(q), np.abs(k)) + ROUNDINGS * (h + 8) * UNIT * (1 + size)
    seen = sees(graph, node)
    scores = np.where(seen, np.einsum("rci,rcj->cij", q, k), -np.inf)
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))
    weights = weights / weights.sum(axis=2, keepdims=True)
    v = of[-1]
    lo, hi = (np.where(seen, end[:, None, :], other) for end, other in ((v.lo, np.inf), (v.hi, -np.inf)))
    spread = hi.max(axis=2) - lo.min(axis=2)
    D = np.where(seen, off, 0.0).max(axis=2) + ROUNDINGS * UNIT * (8 + 2 * np.where(seen, size, 0.0).max(axis=2))
    slack = spread * D + ROUNDINGS * (len(seen) + 8) * UNIT * v.magnitude().max(axis=1, keepdims=True)
    mean = [np.einsum("cij,cj->ci", weights, end) for end in (v.lo, v.hi)]
    return Interval(mean[0] - slack - LEAST, mean[1] + slack + LEAST)


def _softmax(of: Sequence[Interval]) -> list[Interval]:
    """Entry j is least where score j is least and all others are largest. A score's rounding counts relatively."""
    lo, hi = np.stack([score.lo for score in of]), np.stack([score.hi for score in of])
    top = hi.max(axis=0)
    low, high = np.exp(lo - top), np.exp(hi - top)
    roundings = ROUNDINGS * (len(of) + 4 + np.maximum(np.abs(lo), np.abs(hi)).max(axis=0))
    entries = []
    for j in range(len(of)):
        others_low, others_high = np.delete(low, j, axis=0).sum(axis=0), np.delete(high, j, axis=0).sum(axis=0)
        entries.append(_widened(Interval(low[j] / (low[j] + others_high), high[j] / (high[j] + others_low)), roundings))
    return entries
