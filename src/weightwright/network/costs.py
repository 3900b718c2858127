"""What a network costs: exact counts of what is stored and of what the runtime computes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from weightwright.network.layers import Attention, FeedForward, Head, Layer, Linear, Loop, Term
from weightwright.network.network import Network
from weightwright.network.token_maps import TokenMap
from weightwright.numbers import FORMATS, Floats


@dataclass(frozen=True)
class Cost:
    """layers counts attention and feed-forward layers, loops repeated; the rest counts what is stored.

    anchors: register keys, summed over the heads. multiply_adds: per data token, dense maps, for
    the given number of data tokens.
    """

    layers: int
    heads: int
    anchors: int
    parameters: int
    nonzeros: int
    largest_weight: float
    bytes: int
    multiply_adds: int


def cost(network: Network, tokens: int = 1) -> Cost:
    """The cost of the network on sequences of `tokens` data tokens (or of its own fixed number).

    A map on the token axis counts as its matrix, whatever form it is stored in: what it is stands in the file, what it
    would cost a Transformer that multiplies by it stands here.
    """
    n = network.tokens or tokens
    parts = (network.embed, *network.layers, network.read)
    heads = list(network.heads)
    arrays = list(_arrays(network))
    maps = [map.counts(before) for map, before in _token_maps(parts, n)]
    parameters = sum(array.size for array in arrays) + sum(map.parameters for map in maps)
    largest = [float(np.abs(array).max()) for array in arrays if array.size]
    return Cost(
        layers=_depth(network.layers),
        heads=len(heads),
        anchors=sum(head.sees.registers[1] - head.sees.registers[0] for head in heads),
        parameters=parameters,
        nonzeros=sum(int(np.count_nonzero(array)) for array in arrays) + sum(map.nonzeros for map in maps),
        largest_weight=max((*largest, *(map.largest for map in maps)), default=0.0),
        bytes=parameters * FORMATS[network.dtype].bytes,
        multiply_adds=-(-_work(parts, n)[0] // n),
    )


def count_learnable(network: Network) -> int:
    """Stored numbers other than 0 and 1, which a construction fixes (Remark E.2 of the universal approximation paper).

    Of a map on the token axis the entries of the matrix that it stores; one that gathers or adds up tokens has none.
    """
    parts = (network.embed, *network.layers, network.read)
    stored = [*_arrays(network)]
    for map, _ in _token_maps(parts, network.tokens or 1):
        stored += [value for part in fields(map) if isinstance(value := getattr(map, part.name), np.ndarray)]
    return sum(int(np.count_nonzero((array != 0) & (array != 1))) for array in stored)


def _arrays(value: Any) -> Iterator[Floats]:
    """All that is stored but masks and maps on the token axis."""
    if isinstance(value, np.ndarray):
        if value.dtype != np.bool_:
            yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _arrays(item)
    elif is_dataclass(value) and not isinstance(value, TokenMap):
        for part in fields(value):
            yield from _arrays(getattr(value, part.name))


def _token_maps(layers: tuple[Layer, ...], n: int) -> Iterator[tuple[TokenMap, int]]:
    """Every map on the token axis, and how many tokens it is given; loops opened once."""
    for layer in layers:
        if isinstance(layer, Linear):
            yield from ((term.tokens, n) for term in layer.terms if term.tokens is not None)
        elif isinstance(layer, Loop):
            yield from _token_maps(layer.layers, n)
        n = _tokens_after(layer, n)


def _tokens_after(layer: Layer, n: int) -> int:
    """A loop ends with the tokens that it starts with."""
    terms = layer.terms if isinstance(layer, Linear) else ()
    return max((term.tokens_after(n) for term in terms), default=n)


def _depth(layers: tuple[Layer, ...]) -> int:
    return sum(
        layer.times * _depth(layer.layers) if isinstance(layer, Loop) else isinstance(layer, Attention | FeedForward)
        for layer in layers
    )


def _work(layers: tuple[Layer, ...], n: int) -> tuple[int, int]:
    """Multiply-adds of the layers on n tokens, and how many tokens there are after them."""
    total = 0
    for layer in layers:
        if isinstance(layer, Linear):
            total += sum(n * term.A.size + _moving(term, n) for term in layer.terms)
            n = _tokens_after(layer, n)
        elif isinstance(layer, Attention):
            total += sum(_head(head, n) for head in layer.heads)
        elif isinstance(layer, FeedForward):
            total += n * (layer.W_1.size + layer.W_2.size)
        elif isinstance(layer, Loop):
            total += layer.times * _work(layer.layers, n)[0]
    return total, n


def _head(head: Head, n: int) -> int:
    """Queries, keys and values of data tokens if seen, scores, mixing, output; registers' keys are constant.

    A windowed head computes no more keys than its window, however many there are.
    """
    seen_data = {"none": 0, "self": 1, "block": head.sees.block, "earlier": n, "all": n}[head.sees.data]
    keys = seen_data + (head.sees.registers[1] - head.sees.registers[0] if head.window is None else 2 * head.window + 1)
    asking = n // head.sees.block if head.sees.asks == "first" else n
    own = asking * (head.W_Q.size + head.W_O.size) + (n * (head.W_K.size + head.W_V.size) if seen_data else 0)
    return own + asking * keys * (head.W_Q.shape[1] + head.W_V.shape[1])


def _moving(term: Term, n: int) -> int:
    return 0 if term.tokens is None else term.tokens.counts(n).multiply_adds * term.A.shape[1]
