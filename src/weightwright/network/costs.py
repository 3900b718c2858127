"""What a network costs: exact counts of what is stored and of what the runtime computes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weightwright.network.layers import Attention, FeedForward, Head, Layer, Linear, Loop, Term
from weightwright.network.network import Network
from weightwright.network.storage import encode
from weightwright.numbers import FORMATS


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
    """The cost of the network on sequences of `tokens` data tokens (or of its own fixed number)."""
    n = network.tokens or tokens
    arrays = [array for array in encode(network)[1].values() if array.dtype != np.bool_]
    parameters = sum(array.size for array in arrays)
    heads = list(network.heads)
    work, _ = _work((network.embed, *network.layers, network.read), n)
    return Cost(
        layers=_depth(network.layers),
        heads=len(heads),
        anchors=sum(head.sees.registers[1] - head.sees.registers[0] for head in heads),
        parameters=parameters,
        nonzeros=sum(int(np.count_nonzero(array)) for array in arrays),
        largest_weight=max((float(np.abs(array).max()) for array in arrays if array.size), default=0.0),
        bytes=parameters * FORMATS[network.dtype].bytes,
        multiply_adds=-(-work // n),
    )


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
            total += sum(n * term.A.size + _token_map(term, n) for term in layer.terms)
            n = max((term.tokens_after(n) for term in layer.terms), default=n)
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


def _token_map(term: Term, n: int) -> int:
    if term.R is None:
        return 0
    return term.R.size * term.A.shape[1] * (n // term.R.shape[1] if term.blocks else 1)
