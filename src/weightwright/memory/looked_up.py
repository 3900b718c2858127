"""LR-6: functions of sequences by quantising, context ids and look-up: a rank-1 head between two feed-forward layers.

Source: the low-rank self-attention paper, Proposition 1. The first layer rounds every number of [0, 1] to the middle of
one of D cells by steep ramps; the head gives every context of cells an id; the second layer returns f there. Without
positions f must be permutation equivariant, and a context is the multiset of all cells and the token's own; with
positions f is any continuous function, and every sequence of cells has ids of its own.

Deviations: (58), (59) and (67) are derived anew: D - 1 ramps for D cells, no penalty, since the domain is [0, 1] and
the module says so, and look-up by the id of a token, not by a sum over tokens. Sequences with a cell twice are kept:
what the head sees is the multiset. Values are taken at the middles of cells, which halves the error.

Error in the norm (integral of the sum over tokens and outputs of |f - net|^p)^(1/p): at most
    L/(2 D) (n k)^(1/p) + 2 M (n k V)^(1/p),
for outputs that change by at most L times the largest change of an input, |f| <= M, k outputs a token, and V, the
volume where an input lies on a ramp, at most n d D w for ramps of width w: first order in 1/D.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from weightwright.box import Box
from weightwright.claims.certificate import MeasuredClaim, measured_certificate
from weightwright.claims.files import network_digest
from weightwright.errors import BudgetError, WeightwrightError
from weightwright.memory.context_mapping import search
from weightwright.memory.data_set import Sequences
from weightwright.memory.memory_network import mapping_layers, ramp_layer
from weightwright.memory.projection import Projection
from weightwright.network import Attention, FeedForward, Head, Network, selection
from weightwright.numbers import Floats
from weightwright.runtime import AttentionNetwork

#: Width of a quantising ramp: what lies on one may be off by any value of f.
RAMP = 2.0**-24
#: Tokens of all sequences of cells together, at most: about a gigabyte while they are looked at.
MOST_TOKENS = 2**21
#: Inputs that the error is measured on, and permutations that equivariance is tried with.
_INPUTS, _PERMUTED = 4096, 64

#: (B, n, d) -> (B, n) or (B, n, k), in numpy.
Function = Callable[[Floats], Floats]


@dataclass(frozen=True)
class LookupCost:
    """What a network by quantising takes, before it is built."""

    cells: int  # of one token: D^d
    sequences: int  # of cells, up to order without positions
    tokens: int  # of all of them: ids that are looked up
    quantising_units: int
    lookup_units: int  # at most


@dataclass(frozen=True)
class LookupFacts:
    """What such a network says of itself, in `net.about`."""

    granularity: int
    cost: LookupCost
    error: float  # measured, in the L_p norm
    p: float
    largest_error: float  # found at one input; inputs on a ramp may be worse
    stated: float | None  # the error that the docstring's formula gives, where the caller states `lipschitz`


def lookup_cost(tokens: int, features: int, granularity: int, positions: bool = False) -> LookupCost:
    """Sizes by formula; nothing is built.

    >>> lookup_cost(3, 1, 8).sequences, lookup_cost(3, 1, 8, positions=True).sequences
    (120, 512)
    """
    cells = granularity**features
    sequences = cells**tokens if positions else math.comb(cells + tokens - 1, tokens)
    units = 2 * features * (granularity - 1) + positions
    return LookupCost(cells, sequences, tokens * sequences, units, 2 * tokens * sequences)


def equivariant(
    f: Function,
    tokens: int,
    features: int = 1,
    granularity: int = 8,
    positions: bool = False,
    *,
    p: float = 1.0,
    lipschitz: float | None = None,
    seed: int = 0,
) -> AttentionNetwork:
    """A network that looks f up on a grid of granularity^(tokens features) cells of [0, 1]: its L_p error is measured.

    f: takes (B, tokens, features) and returns (B, tokens) or (B, tokens, outputs), permutation equivariant unless
    `positions`. lipschitz: by how much an output changes at most for a change of 1 of every input; then `net.about`
    states an error. The input has a position, counted from 0, as its last number if `positions`.

    >>> net = equivariant(lambda x: x[..., 0] - x[..., 0].mean(1, keepdims=True), 3, granularity=6)
    >>> net.about.cost.sequences, net.about.error < 0.5, net.certificate.status
    (56, True, 'MEASURED')
    """
    cost = _affordable(tokens, features, granularity, positions)
    if not positions:
        _is_equivariant(f, tokens, features, seed)
    middles = (np.arange(granularity) + 0.5) / granularity
    cells = np.array(list(itertools.product(middles, repeat=features)))  # (V, d)
    cells_of = range(len(cells))
    if positions:
        numbers = np.array(list(itertools.product(cells_of, repeat=tokens)))  # (N, n)
    else:
        numbers = np.array(list(itertools.combinations_with_replacement(cells_of, tokens)))
    values = _values(f, cells[numbers]).reshape(cost.tokens, -1)
    contexts = _contexts(numbers, positions)
    values = values[contexts]  # tokens of one context have one value, bit by bit
    classes = np.unique(values, axis=0, return_inverse=True)[1].reshape(-1)
    data = Sequences(numbers.reshape(-1), np.full(len(numbers), tokens), (), cells)
    found = search(data, classes, positions, False, "float64", "same", seed)
    network = _network(found.projection, found.ids, classes, values, granularity, positions)
    x = np.random.default_rng(seed + 1).uniform(size=(_INPUTS, tokens, features))
    y = _run(network, x, positions)
    off = np.abs(y - _values(f, x))
    error = float(np.mean((off**p).sum(axis=(1, 2))) ** (1 / p))
    claim = MeasuredClaim(error, _INPUTS, "random inputs against f", "values are looked up, not proven", norm=float(p))
    lo, hi = [0.0] * features, [1.0] * features
    box = Box([*lo, 0.0], [*hi, max(tokens - 1.0, 1.0)]) if positions else Box(lo, hi)
    named = getattr(f, "__name__", "f")
    said = measured_certificate(claim, named, box, "float64", "dot", network_digest(network))
    net = AttentionNetwork(network, said)
    stated = None
    if lipschitz is not None:
        largest, rare = (
            float(np.abs(values).max()) + lipschitz / (2 * granularity),
            tokens * features * granularity * RAMP,
        )
        each = lipschitz / (2 * granularity) + 2 * largest * rare ** (1 / p)
        stated = each * (tokens * values.shape[1]) ** (1 / p)
    net.about = LookupFacts(granularity, cost, error, p, float(off.max()), stated)
    return net


def _run(network: Network, x: Floats, positions: bool) -> Floats:
    """(B, n, outputs)"""
    places = np.broadcast_to(np.arange(float(x.shape[1]))[:, None], (*x.shape[:2], 1))
    with torch.no_grad():
        out: Floats = AttentionNetwork(network)(
            torch.tensor(np.concatenate([x, places], axis=-1) if positions else x)
        ).numpy()
    return out


def _affordable(tokens: int, features: int, granularity: int, positions: bool) -> LookupCost:
    for name, value, least in (("tokens", tokens, 1), ("features", features, 1), ("granularity", granularity, 2)):
        if type(value) is not int or value < least:
            raise ValueError(f"{name} must be a whole number of at least {least}, not {value!r}")
    cost = lookup_cost(tokens, features, granularity, positions)
    if cost.tokens > MOST_TOKENS:
        raise BudgetError(
            f"granularity={granularity} has {cost.sequences:,} sequences of cells, {cost.tokens:,} ids; at most"
            f" {MOST_TOKENS:,} are looked up: take a smaller granularity"
        )
    return cost


def _values(f: Function, x: Floats) -> Floats:
    """(B, n, k), finite."""
    found = np.asarray(f(x), dtype=np.float64)
    found = found[..., None] if found.ndim == 2 else found
    if found.ndim != 3 or found.shape[:2] != x.shape[:2]:
        raise ValueError(f"f must return {x.shape[:2]} or {x.shape[:2]} and a number of outputs, not {found.shape}")
    if not np.isfinite(found).all():
        raise ValueError("f must be finite on [0, 1]")
    return found


def _is_equivariant(f: Function, n: int, d: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.uniform(size=(_PERMUTED, n, d))
    order = np.argsort(rng.uniform(size=(_PERMUTED, n)), axis=1)[:, :, None]
    before, after = _values(f, x), _values(f, np.take_along_axis(x, order, axis=1))
    moved = np.abs(after - np.take_along_axis(before, order, axis=1)).max()
    if moved > 1e-9 * (1 + np.abs(before).max()):
        raise WeightwrightError(
            f"f is not permutation equivariant: permuting the tokens moves an output by {moved:.3g}; positions=True"
            " takes any function"
        )


def _contexts(numbers: np.ndarray, positions: bool) -> np.ndarray:
    """(N n,): the first token that has the same context; without positions tokens of one cell in a sequence are one."""
    N, n = numbers.shape
    own = np.arange(N * n).reshape(N, n)
    if not positions:
        for k in range(1, n):  # cells stand in order
            own[:, k] = np.where(numbers[:, k] == numbers[:, k - 1], own[:, k - 1], own[:, k])
    return own.reshape(-1)


def _network(found: Projection, ids: Floats, classes: np.ndarray, values: Floats, D: int, positions: bool) -> Network:
    inputs, embed, attention = mapping_layers(found, positions, False, 1)
    d, outputs = len(found.key), values.shape[1]
    x, numbers = inputs[:d], len(inputs)
    stream = (*x, "id", *(f"y[{j}]" for j in range(outputs)))
    (head,) = attention.heads
    start, A = embed.C[0, : d + 1], embed.terms[0].A[:, : d + 1]  # what the embedding of a memory would do
    steps = 2 * d * (D - 1)
    W_1, b_1 = np.zeros((numbers, steps + positions)), np.zeros((1, steps + positions))
    W_2, b_2 = np.zeros((steps + positions, len(stream))), np.zeros((1, len(stream)))
    at = np.arange(1, D) / D
    for i in range(d):
        own = slice(2 * i * (D - 1), 2 * (i + 1) * (D - 1))
        W_1[i, own] = 1.0 / RAMP
        b_1[0, own] = np.stack([0.5 - at / RAMP, -0.5 - at / RAMP], axis=1).ravel()
        W_2[own, : d + 1] = np.tile([[1.0], [-1.0]], (D - 1, 1)) * A[i] / D
    if positions:
        W_1[d, steps], W_2[steps, : d + 1] = 1.0, A[d]
    b_2[0, : d + 1] = start + A[:d].sum(axis=0) / (2 * D)
    quantise = FeedForward(stream, W_1, b_1, W_2, b_2, residual=False)
    width = len(stream)
    W_Q, W_K, W_V = (np.zeros((width, W.shape[1])) for W in (head.W_Q, head.W_K, head.W_V))
    W_Q[:d], W_K[:d], W_V[:d] = head.W_Q[:d], head.W_K[:d], head.W_V[:d]
    W_O = np.zeros((head.W_O.shape[0], width))
    W_O[:, d] = head.W_O[:, d]
    mapped = Attention(stream, (Head(head.role, W_Q, W_K, W_V, W_O, head.beta, head.sees),))
    lookup = ramp_layer(stream, ids, classes, values, "float64", False)
    names = stream[d + 1 :]
    return Network(
        inputs, selection(inputs, inputs), np.zeros((0, numbers)), (quantise, mapped, lookup), selection(stream, names)
    )
