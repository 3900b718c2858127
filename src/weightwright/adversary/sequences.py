"""The search for networks of several tokens, layers or outputs, against their declared target.

It tries corners, random inputs, and inputs at which the argument of a unit stands where two keys weigh the same, half
way between such places, at a kink, or at the edge of a dead zone; then the surroundings of the worst.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from flint import arb

from weightwright.adversary.graphs import GraphTarget
from weightwright.adversary.worst import Worst
from weightwright.claims.graph import Graph
from weightwright.claims.target import Composite
from weightwright.enclosures.balls.series import working_precision
from weightwright.errors import WeightwrightError
from weightwright.extensions import registry
from weightwright.network import Attention, Network
from weightwright.numbers import Bools, Floats
from weightwright.runtime import AttentionNetwork

_COUNT, _LARGE_COUNT = 512, 2**13  # inputs of the first rounds, and of later ones, which double up to here
_EXACT = 8  # of which the error is computed exactly: those that look worst in float64
_SEEDS = 8  # worst inputs so far whose surroundings are searched
_SCORES = 2**23  # scores computed at a time


def search_sequences(
    net: AttentionNetwork, composite: Composite, seconds: float, seed: int, first: bool = False
) -> Worst:
    """The worst input found in about `seconds` seconds, at least one round. first: the network returns what
    the target, a graph, says of the first token."""
    if not (math.isfinite(seconds) and seconds >= 0):
        raise ValueError(f"seconds must be a finite number at or above 0, not {seconds!r}")
    assert net.certificate is not None
    n, d = net.network.tokens or 1, len(net.network.inputs)
    lo, hi = (np.broadcast_to(end, (n, d)).ravel() for end in (net.certificate.domain.lo, net.certificate.domain.hi))
    target, rng = _target(composite, n, d, first), np.random.default_rng(seed)
    places = _places(net.network, composite)
    start, tried, rounds, reach, size = time.perf_counter(), 0, 0, 0.1, _COUNT
    worst: list[tuple[float, tuple[float, ...]]] = []
    while rounds < 3 or (worst and time.perf_counter() - start < seconds):
        if rounds == 0:
            x = np.where(rng.random((size, n * d)) < 0.5, lo, hi)
        elif rounds % 3 == 1 or not worst:
            x = target.aimed(rng, rng.uniform(lo, hi, (size, n * d)), lo, hi, places)
        else:
            reach, size = reach / 4 if reach > 1e-12 else 0.1, min(2 * size, _LARGE_COUNT)
            centres = np.array([at for _, at in worst])
            x = rng.choice(centres, size) + (hi - lo) * reach * rng.uniform(-1, 1, (size, n * d))
        x = np.clip(torch.tensor(np.clip(x, lo, hi), dtype=net.dtype).double().numpy(), lo, hi)
        x, rounds = x[~target.in_zones(x)], rounds + 1
        if len(x):
            worst = sorted({*worst, *_largest_errors(net, target, x.reshape(-1, n, d))}, reverse=True)[:_SEEDS]
            tried += len(x)
    if not worst:
        raise WeightwrightError("the dead zones leave no input to try")
    error, at = worst[0]
    return Worst(at if len(at) > 1 else at[0], error, net.certificate.bound, tried, time.perf_counter() - start)


def excepted(net: AttentionNetwork, x: torch.Tensor) -> list[bool]:
    """For inputs (count, tokens, features): whether a dead zone of a unit's argument takes them out of the claim."""
    composite = None if net.said is None else net.said.composite
    flat = x.double().flatten(1).cpu().numpy()
    if composite is None:
        return [False] * len(flat)
    found: list[bool] = _target(composite, x.shape[1], x.shape[2], False).in_zones(flat).tolist()
    return found


class SearchTarget(Protocol):
    """What a network is compared with, as the search asks for it. Inputs are (count, tokens * features)."""

    def rough(self, x: Floats) -> Floats:
        """All outputs in plain floats, (count, outputs)."""

    def exact(self, x: Floats, index: int) -> arb:
        """One output at one input."""

    def in_zones(self, x: Floats) -> Bools:
        """(count,): where nothing is claimed."""

    def aimed(self, rng: np.random.Generator, x: Floats, lo: Floats, hi: Floats, places: Floats) -> Floats:
        """Every input moved so that a random unit has its argument at one of the places."""


def _target(composite: Composite, n: int, d: int, first: bool) -> SearchTarget:
    """Of a graph ours, of other targets what extensions register under "search targets"."""
    if isinstance(composite.target, Graph):
        return GraphTarget(composite, composite.target, (n, d), first)
    found: SearchTarget = registry("search targets")[type(composite.target)](composite, n * d)
    return found


def _places(network: Network, composite: Composite) -> Floats:
    """Where a unit's argument is worth trying: crossings of keys, the middles between, kinks, edges of zones."""
    found: list[Sequence[float] | Floats] = [[0.0]]
    for part in composite.parts[:64]:
        layer = network.layers[part.layer]
        assert isinstance(layer, Attention)
        found += [part.zones.ravel(), [part.claim.lo, part.claim.hi]]
        for index in part.heads[:64]:
            head = layer.heads[index]
            start, stop = head.sees.registers
            held = network.registers[start:stop] if head.sees.data == "none" else network.embed.C
            keys = held @ head.W_K
            keys = keys[np.argsort(keys[:, 0], kind="stable")]
            steps = np.diff(keys, axis=0)
            crossings = -steps[steps[:, 0] > 0, 1] / steps[steps[:, 0] > 0, 0]
            one = int(np.flatnonzero(head.W_Q[:, 1])[0])
            source = next(int(c) for c in np.flatnonzero(head.W_Q[:, 0]) if c != one)
            s = (crossings - head.W_Q[one, 0]) / head.W_Q[source, 0]
            found += [s, (s[1:] + s[:-1]) / 2]
    return np.unique(np.concatenate([np.asarray(x, dtype=np.float64) for x in found]))


def _largest_errors(net: AttentionNetwork, target: SearchTarget, x: Floats) -> list[tuple[float, tuple[float, ...]]]:
    """(error rounded up, x) of the inputs that look worst."""
    width = max([len(net.network.embed.C), x.shape[1]]) ** 2
    size = max(1, _SCORES // width)
    with torch.no_grad():
        parts = [net(torch.tensor(x[i : i + size], dtype=net.dtype)).double() for i in range(0, len(x), size)]
    y = torch.cat(parts).reshape(len(x), -1).cpu().numpy()
    flat = x.reshape(len(x), -1)
    rough = np.nan_to_num(np.abs(y - target.rough(flat)), nan=np.inf)
    top = np.argsort(-rough.max(axis=1), kind="stable")[:_EXACT]
    found = []
    with working_precision():
        for i in top:
            index = int(rough[i].argmax())
            error = abs(arb(float(y[i, index])) - target.exact(flat[i], index)).upper()
            rounded_up = 0.0 if error == 0 else math.nextafter(float(error), math.inf)
            rounded_up = math.inf if math.isnan(rounded_up) else rounded_up  # no number is as wrong as can be
            found.append((rounded_up, tuple(flat[i].tolist())))
    return found
