"""The functions that the heads of a network look up, as plain arrays: along the argument, from one end to the other.

The layers of a table are run on tokens that are made for it. Nothing is claimed here; a bound is the certificate's.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from weightwright.claims.leaf import Leaf
from weightwright.claims.prompt import PromptClaim, Summand, argument_in_words
from weightwright.enclosures.intervals.jets import values
from weightwright.expressions import parse
from weightwright.network import Attention, Head, Layer, Linear
from weightwright.numbers import Floats
from weightwright.runtime import AttentionNetwork
from weightwright.runtime.watch import Guard, flat, guards_of

#: The number of points along the argument of a table.
POINTS = 241
#: Points fill this share of a table, so that rounding does not carry an argument beyond its end.
INSIDE = 1 - 2.0**-15


@dataclass(frozen=True, eq=False)
class DrawnTable:
    """A function that a head looks up, along its argument. weights, values: (points, keys) and (keys,), of
    the table's first head. exact: the function itself. bound: what is proven of the error, None where nothing
    is. first, last: the arguments of the examples before the first pass and after the last."""

    formula: str
    argument: str
    s: Floats
    found: Floats
    exact: Floats
    weights: Floats
    values: Floats
    bound: float | None
    first: Floats
    last: Floats

    @property
    def errors(self) -> Floats:
        return np.abs(self.found - self.exact)


def proven_tables(net: AttentionNetwork, x: Floats, y: Floats, states: tuple[Floats, Floats]) -> Iterator[DrawnTable]:
    """Of a certified network: each summand of the loss's slope. x, y: the examples. states: the first and the last."""
    assert net.certificate is not None
    assert isinstance(net.certificate.claim, PromptClaim)
    layers = [layer for layer, _ in flat(net.network.layers, net.layers)]
    starts = [layer for layer, attention in itertools.pairwise(layers) if _has_blocks(attention)]
    for summand in net.certificate.claim.summands:
        own, starts = starts[: summand.tables], starts[summand.tables :]
        claim, along = summand.claim, summand.along
        if along is None or not isinstance(claim, Leaf):
            continue
        s, stream = _along(net, summand)
        found, weights, heights = _looked_up(net, own, stream, "g[0]")
        first, last = (along[0] * (x @ state) + along[1] * y for state in states)
        terms = claim.terms
        bound = math.nextafter(math.fsum((terms.approximation, terms.leakage, terms.rounding)), math.inf)
        exact = values(parse(summand.formula, ("x",)), s)
        argument = argument_in_words(along)
        yield DrawnTable(summand.formula, argument, s, found, exact, weights, heights, bound, first, last)


def _has_blocks(layer: Layer) -> bool:
    return isinstance(layer, Attention) and layer.heads[0].sees.data == "block"


def _along(net: AttentionNetwork, summand: Summand) -> tuple[Floats, Floats]:
    """Arguments from one end of the table to the other, and tokens that have them, with u = (1, 0, ...)."""
    assert summand.along is not None
    assert net.certificate is not None
    assert isinstance(summand.claim, Leaf)
    claim, (a, b), names = summand.claim, summand.along, net.network.embed.coordinates
    s = _points(net, claim.lo / summand.scale, claim.hi / summand.scale)
    stream = np.zeros((POINTS, len(names)))
    stream[:, [names.index("one"), names.index("u[0]")]] = 1.0
    if a:
        state = float(np.atleast_2d(net.certificate.domain.hi)[0, net.network.inputs.index("w[0]")])  # a power of two
        stream[:, names.index("w[0]")] = state
        stream[:, names.index("x[0]")] = s / a / state
    else:
        stream[:, names.index("y")] = s / b
    return s, stream


def _points(net: AttentionNetwork, lo: float, hi: float) -> Floats:
    """Numbers of the network's dtype, as float64."""
    s = INSIDE * np.linspace(lo, hi, POINTS)
    return torch.tensor(s, dtype=net.dtype).double().numpy()


def guarded_tables(
    net: AttentionNetwork, first: Mapping[int, Floats], last: Mapping[int, Floats]
) -> Iterator[DrawnTable]:
    """Of a network whose tables are guarded, and nothing is proven. first, last: by the identity of a layer
    what went into it, one row for each example."""
    for layer, guard in guards_of(net):
        if id(layer) not in first:
            continue
        head = _head_after(net, layer)
        target = net.network.embed.coordinates[int(np.flatnonzero(head.W_O.any(axis=0))[0])]
        s = _points(net, guard.lo, guard.hi)
        stream = _tokens_for(net, guard, s, _value_of(layer))
        if not np.allclose(_arguments(stream, guard), s):
            continue
        found, weights, heights = _looked_up(net, [layer], stream, target)
        formula = head.role.rsplit(" of ", 1)[0]
        argument = guard.what if not guard.shift else f"{guard.what} - {guard.shift:.3g}"
        at = (_arguments(X, guard) for X in (first[id(layer)], last[id(layer)]))
        yield DrawnTable(formula, argument, s, found, values(parse(formula, ("x",)), s), weights, heights, None, *at)


def _arguments(X: Floats, guard: Guard) -> Floats:
    return np.asarray(((X @ guard.query) * X[:, list(guard.key)]).sum(axis=1))


def _head_after(net: AttentionNetwork, layer: Layer) -> Head:
    """The head of the table that begins with this layer."""
    layers = [one for one, _ in flat(net.network.layers, net.layers)]
    attention = layer if isinstance(layer, Attention) else layers[layers.index(layer) + 1]
    assert isinstance(attention, Attention)
    return attention.heads[0]


def _value_of(layer: Layer) -> int | None:
    """The coordinate of what the table's result is multiplied by; a table on registers has none."""
    return int(np.flatnonzero(layer.terms[-1].A.any(axis=1))[0]) if isinstance(layer, Linear) else None


def _tokens_for(net: AttentionNetwork, guard: Guard, s: Floats, value: int | None) -> Floats:
    """Tokens whose argument is s, and whose value is 1."""
    names = net.network.embed.coordinates
    stream, one, query = np.zeros((len(s), len(names))), names.index("one"), guard.query[:, 0]
    stream[:, one] = 1.0
    if value is not None:
        stream[:, value] = 1.0
    free = np.where(np.isin(np.arange(len(names)), [*guard.key, one]), 0.0, query)
    place = int(np.argmax(np.abs(free)))
    if guard.key == (one,):
        stream[:, place] = (s - query[one]) / query[place]
    else:
        stream[:, place] = 1 / query[place]
        stream[:, guard.key[0]] = s
    return stream


def _looked_up(
    net: AttentionNetwork, tables: Sequence[Layer], stream: Floats, target: str
) -> tuple[Floats, Floats, Floats]:
    """What the tables that begin with these layers make of the stream; the weights and the values of the first."""
    layers = list(flat(net.network.layers, net.layers))
    X = torch.tensor(stream, dtype=net.dtype)[None]
    place = net.network.embed.coordinates.index(target)
    shown: list[tuple[Floats, Floats]] = []
    with torch.no_grad():
        for start in tables:
            at = next(i for i, (layer, _) in enumerate(layers) if layer is start)
            if not isinstance(start, Attention):
                X, at = layers[at][1](X), at + 1
            attention = layers[at][0]
            assert isinstance(attention, Attention)
            head, keys = attention.heads[0], X[0].double().numpy()
            seen = keys[: head.sees.block] if head.sees.block else net.network.registers[slice(*head.sees.registers)]
            heights = (seen @ head.W_V @ head.W_O)[:, attention.coordinates.index(target)]
            shown.append((head_weights(head, keys, net.network.registers), heights))
            X = layers[at][1](X)
            if not isinstance(start, Attention):
                X = layers[at + 1][1](X)
    return X[0, :, place].double().numpy() - stream[:, place], *shown[0]


def head_weights(head: Head, X: Floats, registers: Floats) -> Floats:
    """(tokens that ask, keys): registers first, then those of the data tokens that each of them sees. X: the
    stream, (n, d); tokens see themselves, their own block or no data token."""
    size = {"none": 0, "self": 1, "block": head.sees.block}[head.sees.data]
    blocks = X.reshape(-1, max(size, 1), X.shape[-1])  # (n / size, size, d)
    asking = blocks[:, :1] if head.sees.asks == "first" else blocks
    Q = head.beta * (asking @ head.W_Q)
    start, stop = head.sees.registers
    seen = registers[start:stop] @ head.W_K if stop > start else np.zeros((0, head.W_K.shape[1]))
    scores = Q @ seen.T
    if size:
        scores = np.concatenate([scores, Q @ np.swapaxes(blocks @ head.W_K, 1, 2)], axis=-1)
    scores = scores.reshape(-1, scores.shape[-1])
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))
