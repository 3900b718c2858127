"""The search for networks of one to three numbers, token by token, against a formula.

It tries the ends and their neighbours, the places where two keys weigh the
same and those between them, an even grid and random inputs; then, again and again, the surroundings of the worst.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from flint import arb

from weightwright.adversary.worst import Worst
from weightwright.claims.certificate import VARIABLES, is_formula
from weightwright.enclosures.balls.series import series_along, working_precision
from weightwright.enclosures.intervals.jets import values_at
from weightwright.errors import WeightwrightError
from weightwright.expressions import Expression, parse
from weightwright.network import Head, Network
from weightwright.numbers import Floats
from weightwright.runtime import AttentionNetwork

#: Inputs of a batch: of the first ones, and of later ones, which double up to here.
_BATCH, _LARGE_BATCH = 4096, 2**16
_EXACT = 64  # inputs of a batch whose error is computed exactly: those that look worst in float64
_SEEDS = 16  # worst inputs so far whose surroundings are searched


def search_points(
    net: AttentionNetwork, seconds: float, seed: int, *, reference: Callable[[Floats], Floats] | None
) -> Worst:
    """The worst input found in about `seconds` seconds, at least one round."""
    if net.certificate is None:
        raise WeightwrightError("a network without a certificate states no formula to search against")
    if not (math.isfinite(seconds) and seconds >= 0):
        raise ValueError(f"seconds must be a finite number at or above 0, not {seconds!r}")
    lo, hi = (np.array(end) for end in (net.certificate.domain.lo, net.certificate.domain.hi))
    if lo.shape not in ((1,), (2,), (3,)):
        raise WeightwrightError(f"search takes networks of one to three inputs, not a domain of shape {lo.shape}")
    said = net.certificate.formula
    if reference is None and not is_formula(said):
        raise WeightwrightError(f"{said!r} is not a formula: search needs the function itself, reference=...")
    names = VARIABLES[: len(lo)]
    target = _Reference(parse(said, names), names) if reference is None else _Called(reference)
    rng = np.random.default_rng(seed)
    start, tried = time.perf_counter(), 0
    worst: list[tuple[float, tuple[float, ...]]] = []  # (error, x), largest first
    batches = [_special(net, lo, hi), _even(lo, hi), rng.uniform(lo, hi, (_BATCH, len(lo)))]
    reach, size = 0.1, _BATCH
    while batches or (worst and time.perf_counter() - start < seconds):
        if not batches:  # around the worst, closer every time, and elsewhere again
            reach, size = reach / 4 if reach > 1e-12 else 0.1, min(2 * size, _LARGE_BATCH)
            centres = np.array([x for _, x in worst])
            near = rng.choice(centres, size) + (hi - lo) * reach * rng.uniform(-1, 1, (size, len(lo)))
            batches = [near, rng.uniform(lo, hi, (size, len(lo)))]
        x = _taken(net, batches.pop(0), lo, hi)
        if not len(x):  # all in dead zones
            continue
        worst = sorted({*worst, *_largest_errors(net, target, x)}, reverse=True)[:_SEEDS]
        tried += len(x)
    if not worst:
        raise WeightwrightError("the dead zones leave no input to try")
    error, at = worst[0]
    return Worst(at if len(at) > 1 else at[0], error, net.certificate.bound, tried, time.perf_counter() - start)


def _even(lo: Floats, hi: Floats) -> Floats:
    """An even grid of about a batch of points."""
    return _product([np.linspace(a, b, round(_BATCH ** (1 / len(lo)))) for a, b in zip(lo, hi, strict=True)])


def _product(axes: list[Floats]) -> Floats:
    return np.stack([x.ravel() for x in np.meshgrid(*axes, indexing="ij")], axis=1)


def _special(net: AttentionNetwork, lo: Floats, hi: Floats) -> Floats:
    """Ends, their neighbours, and where neighbouring keys weigh the same, with the middles between; every such place
    of one axis with every one of the others, or a random part of these."""
    axes = [_special_places(net, i, float(a), float(b)) for i, (a, b) in enumerate(zip(lo, hi, strict=True))]
    most = round((4 * _BATCH) ** (1 / len(axes)))
    rng = np.random.default_rng(0)
    few = [x if len(axes) == 1 or len(x) <= most else np.append(x[:2], rng.choice(x[2:], most - 2)) for x in axes]
    return _product(few)


def _special_places(net: AttentionNetwork, axis: int, lo: float, hi: float) -> Floats:
    """Along one axis; where the crossings of keys are few, also what surrounds them, at all scales."""
    crossings = np.concatenate([_crossings(net.network, head, axis) for head in net.network.heads])[:_BATCH]
    scales = (hi - lo) * 2.0 ** -np.arange(0, 60, 0.5)
    around = crossings[: _BATCH // len(scales), None] + np.concatenate([-scales, scales])
    ends = np.array([lo, hi, np.nextafter(lo, hi), np.nextafter(hi, lo), lo / 2 + hi / 2, 0.0])
    return np.concatenate([ends, crossings, (crossings[1:] + crossings[:-1]) / 2, around.ravel()])


def _crossings(network: Network, head: Head, axis: int) -> Floats:
    """The inputs at which two keys of the head that are neighbours along the axis have the same score."""
    row, constant = network.embed.terms[0].A[axis], network.embed.C[0]
    first, stop = head.sees.registers
    keys = network.registers[first:stop] @ head.W_K
    if head.sees.data == "self":
        keys = np.concatenate([keys, [constant @ head.W_K]])
    others = np.delete(keys, [axis, keys.shape[1] - 1], axis=1)
    keys = keys[(others == others[0]).all(axis=1)][:, [axis, -1]]  # one row of a product grid
    keys = keys[np.argsort(keys[:, 0], kind="stable")]
    steps = np.diff(keys, axis=0)
    crossings = -steps[steps[:, 0] > 0, 1] / steps[steps[:, 0] > 0, 0]
    slope, shift = row @ head.W_Q[:, axis], constant @ head.W_Q[:, axis]
    return (crossings - shift) / slope if slope else crossings[:0]


def _taken(net: AttentionNetwork, x: Floats, lo: Floats, hi: Floats) -> Floats:
    """The inputs as numbers of the network's dtype inside the domain and outside its dead zones, each once."""
    inside = np.clip(np.where(np.isnan(x), lo, x), lo, hi)
    taken = np.clip(torch.tensor(inside, dtype=net.dtype).double().numpy(), lo, hi)
    # rows are sorted as records, which takes long; numbers alone are not
    taken = np.unique(taken)[:, None] if taken.shape[1] == 1 else np.unique(taken, axis=0)
    assert net.certificate is not None
    for start, end in net.certificate.dead_zones:
        taken = taken[(taken[:, 0] <= start) | (taken[:, 0] >= end)]
    return taken


@dataclass(frozen=True)
class _Reference:
    """The formula, in floats to sort by and exactly to report."""

    formula: Expression
    names: tuple[str, ...]

    def rough(self, x: Floats) -> Floats:
        return values_at(self.formula, self.names, x)

    def exact(self, x: Floats) -> arb:
        lines = {name: (arb(float(value)), arb(0)) for name, value in zip(self.names, x, strict=True)}
        return series_along(self.formula, lines, 0)[0]


@dataclass(frozen=True)
class _Called:
    """A function that is no formula: its own values are all there is."""

    function: Callable[[Floats], Floats]

    def rough(self, x: Floats) -> Floats:
        return self.function(x)

    def exact(self, x: Floats) -> arb:
        return arb(float(self.function(x[None])[0]))


def _largest_errors(
    net: AttentionNetwork, reference: _Reference | _Called, x: Floats
) -> list[tuple[float, tuple[float, ...]]]:
    """(error rounded up, x) of the inputs that look worst."""
    with torch.no_grad():
        y = net(torch.tensor(x, dtype=net.dtype))[:, 0].double().cpu().numpy()
    rough = np.nan_to_num(np.abs(y - reference.rough(x)), nan=np.inf)
    top = np.argsort(-rough, kind="stable")[:_EXACT]
    with working_precision():
        exact = [abs(arb(float(y[i])) - reference.exact(x[i])).upper() for i in top]
        return [
            (math.nextafter(float(error), math.inf), tuple(x[i].tolist())) for error, i in zip(exact, top, strict=True)
        ]
