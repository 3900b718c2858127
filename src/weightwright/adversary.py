"""`search`: looks for the worst input of a network, against the formula in high precision.

A proof says that no input is worse than the bound; a search says how near the bound comes to the truth, and
would catch a proof that is wrong. It tries the ends and their neighbours, the places where two keys weigh the
same and those between them, an even grid and random inputs; then, again and again, the surroundings of the worst.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np
import torch
from flint import arb

from weightwright.certificates.checker.balls import series, working_precision
from weightwright.certificates.prover.jets import values
from weightwright.errors import WeightwrightError
from weightwright.expressions import Expression, parse
from weightwright.network import Head, Network
from weightwright.network.layers import Floats
from weightwright.runtime import AttentionNetwork

_BATCH = 4096
_EXACT = 64  # inputs of a batch whose error is computed exactly: those that look worst in float64
_SEEDS = 16  # worst inputs so far whose surroundings are searched


@dataclass(frozen=True)
class Worst:
    """The worst input that was found, its error rounded up, and how much was tried."""

    x: float
    error: float
    bound: float
    inputs: int
    seconds: float

    @property
    def violated(self) -> bool:
        """Whether the error exceeds the bound: then something is wrong with the proof, or with the machine."""
        return self.error > self.bound


def search(net: AttentionNetwork, seconds: float = 1.0, seed: int = 0) -> Worst:
    """The worst input of a one-variable network that can be found in about so many seconds (at least one round)."""
    if net.certificate is None:
        raise WeightwrightError("a network without a certificate states no formula to search against")
    if not (math.isfinite(seconds) and seconds >= 0):
        raise ValueError(f"seconds must be a finite number at or above 0, not {seconds!r}")
    lo, hi = float(net.certificate.domain.lo[0]), float(net.certificate.domain.hi[0])
    formula = parse(net.certificate.formula)
    rng = np.random.default_rng(seed)
    start, tried = time.perf_counter(), 0
    worst: list[tuple[float, float]] = []  # (error, x), largest first
    batches = [_special(net, lo, hi), np.linspace(lo, hi, _BATCH), rng.uniform(lo, hi, _BATCH)]
    reach = 0.1
    while batches or time.perf_counter() - start < seconds:
        if not batches:  # around the worst, closer every time, and elsewhere again
            reach = reach / 4 if reach > 1e-12 else 0.1
            centres = np.array([x for _, x in worst])
            near = rng.choice(centres, _BATCH) + (hi - lo) * reach * rng.uniform(-1, 1, _BATCH)
            batches = [near, rng.uniform(lo, hi, _BATCH)]
        x = _taken(net, batches.pop(0), lo, hi)
        worst = sorted({*worst, *_largest_errors(net, formula, x)}, reverse=True)[:_SEEDS]
        tried += len(x)
    error, x_worst = worst[0]
    return Worst(x_worst, error, net.certificate.bound, tried, time.perf_counter() - start)


def _special(net: AttentionNetwork, lo: float, hi: float) -> Floats:
    """Ends, their neighbours, and where the scores of neighbouring keys cross, with the middles between; where the
    crossings are few, what surrounds them, at all scales."""
    ends = np.array([lo, hi, np.nextafter(lo, hi), np.nextafter(hi, lo), lo / 2 + hi / 2, 0.0])
    crossings = np.concatenate([_crossings(net.network, head) for head in net.network.heads])[:_BATCH]
    scales = (hi - lo) * 2.0 ** -np.arange(0, 60, 0.5)
    around = crossings[: _BATCH // len(scales), None] + np.concatenate([-scales, scales])
    return np.concatenate([ends, crossings, (crossings[1:] + crossings[:-1]) / 2, around.ravel()])


def _crossings(network: Network, head: Head) -> Floats:
    """The inputs x at which two keys of the head that are neighbours by slope have the same score."""
    row, constant = network.embed.terms[0].A[0], network.embed.C[0]
    first, stop = head.sees.registers
    keys = network.registers[first:stop] @ head.W_K
    if head.sees.data == "self":
        keys = np.concatenate([keys, [constant @ head.W_K]])
    keys = keys[np.argsort(keys[:, 0], kind="stable")]
    steps = np.diff(keys, axis=0)
    crossings = -steps[steps[:, 0] > 0, 1] / steps[steps[:, 0] > 0, 0]
    slope, shift = row @ head.W_Q[:, 0], constant @ head.W_Q[:, 0]
    return (crossings - shift) / slope if slope else crossings[:0]


def _taken(net: AttentionNetwork, x: Floats, lo: float, hi: float) -> Floats:
    """The inputs as numbers of the network's dtype inside the domain and outside its dead zones, each once."""
    inside = np.clip(np.nan_to_num(x, nan=lo), lo, hi)
    taken = np.unique(np.clip(torch.tensor(inside, dtype=net.dtype).double().numpy(), lo, hi))
    assert net.certificate is not None
    for start, end in net.certificate.dead_zones:
        taken = taken[(taken <= start) | (taken >= end)]
    return taken


def _largest_errors(net: AttentionNetwork, formula: Expression, x: Floats) -> list[tuple[float, float]]:
    """(error rounded up, x) of the inputs that look worst."""
    with torch.no_grad():
        y = net(torch.tensor(x, dtype=net.dtype)[:, None])[:, 0].double().cpu().numpy()
    rough = np.nan_to_num(np.abs(y - values(formula, x)), nan=np.inf)
    top = np.argsort(-rough, kind="stable")[:_EXACT]
    with working_precision():
        exact = [abs(arb(float(y[i])) - series(formula, arb(float(x[i])), 0)[0]).upper() for i in top]
        return [(math.nextafter(float(error), math.inf), float(x[i])) for error, i in zip(exact, top, strict=True)]
