"""Compiled networks as stacks of programs: a frozen loop runs a network of several layers from its prompt."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from weightwright.claims.target import Composite
from weightwright.errors import UnsupportedOperation
from weightwright.interpreter.programs import Program
from weightwright.interpreter.virtual_machine import Interpreter
from weightwright.network import Attention, Head, Network, Sees, selection
from weightwright.numbers import Bools, Floats
from weightwright.runtime import AttentionNetwork, interpret

#: Room around the entries that were met on samples, and around those of the weights.
ROOM = 1.5


@dataclass(frozen=True)
class EmulatedNetwork:
    """A network inside an interpreter: `programs` and its registers stand in the prompt, the loop runs all layers.

    Outside the module are the network's embedding and what is read off in the end, both maps of every token by itself.
    stated_error: what the errors of all passes come to, by the slopes that the certificate claims; in plain floats.
    """

    vm: Interpreter
    programs: tuple[Program, ...]
    network: Network
    stated_error: float

    def __call__(self, x: Tensor) -> Tensor:
        """(..., tokens, inputs) -> (..., tokens, outputs), as the network does."""
        embed, read = self.network.embed, self.network.read
        A, C, B, D = (torch.tensor(a, dtype=self.vm.net.dtype) for a in (
            embed.terms[0].A, embed.C, read.terms[0].A, read.C))  # fmt: skip
        stream = self.vm.loop(self.programs, x.to(self.vm.net.dtype) @ A + C)
        return stream @ B + D


def emulate(net: AttentionNetwork, tokens: int, **options: Any) -> EmulatedNetwork:
    """An interpreter that is large enough for a compiled network, with the network as its prompt.

    For networks whose heads look at registers alone: what `compile` makes of functions of single tokens. Heads of a
    layer that look at different registers are programs of their own, since a program says once who sees whom.

    net: a compiled network.
    tokens: how many there will be.
    options: for the `Interpreter`; its bounds are found from the weights and from what samples of the domain lead to.
    """
    network = net.network
    layers = _in_turn(network)
    registers = _without_hiding(network, layers)
    rows = np.concatenate([registers, np.zeros((1, registers.shape[1]))])  # the last is what rows look at
    raw = [_matrices(layer, len(network.embed.coordinates)) for layer in layers]
    sees = [_visible(layer.heads[0], len(registers), tokens) for layer in layers]
    heads, size = max(len(Q) for Q, _, _ in raw), max(Q.shape[1] for Q, _, _ in raw)
    bounds = _bounds(net, layers, rows, raw) | options
    vm = Interpreter(
        tokens, len(network.embed.coordinates), size, heads=heads, rows=len(rows), programs=len(layers), **bounds
    )
    programs = tuple(
        vm.program(Q, K, V, rows=rows, sees=seen, name=f"layer {index}")
        for index, ((Q, K, V), seen) in enumerate(zip(raw, sees, strict=True))
    )
    return EmulatedNetwork(vm, programs, network, _stated(net, layers, vm.certificate.bound))


def _in_turn(network: Network) -> list[Attention]:
    """The layers, each taken apart into heads that look at the same registers."""
    if not network.native or network.embed.C.shape[0] != 1:
        raise UnsupportedOperation("emulate: the network is no plain attention, or knows positions")
    found: list[Attention] = []
    for index, layer in enumerate(network.layers):
        if not isinstance(layer, Attention) or any(head.sees.data != "none" for head in layer.heads):
            raise UnsupportedOperation(f"emulate: a head of layer {index} looks at data tokens")
        groups: dict[Sees, list[Head]] = {}
        for head in layer.heads:
            groups.setdefault(head.sees, []).append(head)
        read = np.any([head.W_Q.any(axis=1) for head in layer.heads], axis=0)
        written = np.any([head.W_O.any(axis=0) for head in layer.heads], axis=0)
        if len(groups) > 1 and (read & written).any():
            raise UnsupportedOperation(f"emulate: heads of layer {index} read what others of the same layer write")
        found += [Attention(layer.coordinates, tuple(heads)) for heads in groups.values()]
    return found


def _without_hiding(network: Network, layers: list[Attention]) -> Floats:
    """Registers without the offsets that hide those of other tables: a program says who sees whom."""
    registers = network.registers.copy()
    for layer in layers:
        start, stop = layer.heads[0].sees.registers
        for head in layer.heads:
            offsets = np.flatnonzero(head.W_K[:, 1])
            for column in offsets:
                registers[:start, column] = registers[stop:, column] = 0.0
    return registers


def _matrices(layer: Attention, d: int) -> tuple[Floats, Floats, Floats]:
    """W_Q, W_K (heads, size, d) and W_V (heads, d, d) with what is written in it; without what hides data tokens."""
    size = max(head.W_Q.shape[1] for head in layer.heads)
    Q, K, V = (np.zeros((len(layer.heads), rows, d)) for rows in (size, size, d))
    for index, head in enumerate(layer.heads):
        own = head.W_Q.shape[1]
        Q[index, :own], K[index, :own] = head.beta * head.W_Q.T, head.W_K.T
        V[index] = head.W_O.T @ head.W_V.T
        K[index][:, head.W_Q.any(axis=1)] = 0.0  # of data tokens, which no head looks at
    return Q, K, V


def _visible(head: Head, r: int, n: int) -> Bools:
    """(r + 1 + n, r + 1 + n): data tokens see their table, registers see the row of zeros."""
    found = np.zeros((r + 1 + n, r + 1 + n), dtype=bool)
    found[: r + 1, r] = True
    found[r + 1 :, slice(*head.sees.registers)] = True
    return found


def _bounds(net: AttentionNetwork, layers: list[Attention], rows: Floats, raw: list[Any]) -> dict[str, float]:
    """As large as the weights, the rows and what samples of the domain lead to, with room."""
    streams = [_stream(net.network, layers[:index], _samples(net)) for index in range(len(layers) + 1)]
    x = max(float(np.abs(rows).max()), *(float(np.abs(stream).max()) for stream in streams))
    found = {"x_max": ROOM * x, "w_max": max(float(np.abs(W).max()) for part in raw for W in part)}
    for place, part in enumerate("qkv"):
        sizes = [0.0]
        for matrices, stream in zip(raw, streams, strict=False):
            tokens = np.concatenate([rows, stream.reshape(-1, rows.shape[1])])
            sizes.append(float(np.abs(np.einsum("nd,mrd->mnr", tokens, matrices[place])).max()))
        found[f"{part}_max"] = ROOM * max(sizes)
    return found


def _stream(network: Network, layers: list[Attention], x: Floats) -> Floats:
    """What data tokens hold after these layers."""
    names = network.embed.coordinates
    return interpret(replace(network, layers=tuple(layers), read=selection(names, names)), x)


def _samples(net: AttentionNetwork) -> Floats:
    """(points, 1, inputs)"""
    assert net.said is not None
    lo, hi = net.said.domain.lo, net.said.domain.hi
    rng = np.random.default_rng(0)
    inside = rng.uniform(lo, hi, (256, len(lo)))
    corners = np.where(rng.random((256, len(lo))) < 0.5, lo, hi)
    return np.concatenate([inside, corners])[:, None]


def _stated(net: AttentionNetwork, layers: list[Attention], bound: float) -> float:
    """e -> (1 + L) e + bound for every pass, L being what its heads move an entry by if all entries move by 1."""
    claim = None if net.said is None else net.said.composite
    steep: dict[int, float] = {}
    for part in claim.parts if isinstance(claim, Composite) else ():
        layer = net.network.layers[part.layer]
        assert isinstance(layer, Attention)
        steep |= {id(layer.heads[index]): part.claim.lipschitz for index in part.heads}
    total = 0.0
    for layer in layers:
        moved = np.zeros(len(net.network.embed.coordinates))
        for head in layer.heads:
            moved += steep.get(id(head), np.inf) * np.abs(head.W_Q[:, 0]).sum() * np.abs(head.W_O[0])
        total = (1 + float(moved.max())) * total + bound
    return total
