"""Whether the dead zones of an accepted certificate are all that there are, and cover as little as is said: measured by
inputs that lie evenly in the domain. For `fuzz_readers.py`."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import torch

import weightwright as ww
from weightwright.claims.certificate import Certificate
from weightwright.claims.graph import Graph
from weightwright.claims.one_layer_claims import OneLayerClaim
from weightwright.claims.target import Composite, TableClaim
from weightwright.enclosures.intervals.jets import values
from weightwright.expressions import parse
from weightwright.limits import DEAD_SHARE
from weightwright.network import Network
from weightwright.papers.claims.ridge_functions import RidgeFunctions, TokenModels
from weightwright.runtime import AttentionNetwork

#: Inputs that a share is measured with, and how seldom a right share may be complained of (Bernstein's inequality).
SAMPLES, CHANCE = 4096, 1e-12
#: Most numbers of an input that a share is measured with.
_MEASURED = 256


def zones_are_shown(network: Network, said: Certificate, rng: np.random.Generator) -> str | None:
    """Every zone of the claim that inputs meet is one of the certificate's, and too many make it conditional."""
    shown = {(zone.lo, zone.hi) for zone in said.zones}
    for holder, zones in _holders(said.claim):
        for lo, hi in zones:
            if (float(lo), float(hi)) in shown:
                continue
            if isinstance(holder, OneLayerClaim):
                return f"the zone from {lo!r} to {hi!r} is not shown"
            met = _hits(network, said, holder, np.array([[lo, hi]]), rng)
            if met is None or met.any():
                return f"the zone from {lo!r} to {hi!r} of an argument is not shown"
    shares = [zone.share for zone in said.zones]
    known = [share for share in shares if share is not None]
    if any(not 0 <= share <= 1 for share in known):
        return f"shares {shares}"
    if (len(known) < len(shares) or sum(known) > DEAD_SHARE * (1 + 1e-9)) and said.status != "CONDITIONAL":
        return f"zones that cover {shares} of the domain, and the status is {said.status}"
    return None


def shares_are_right(network: Network, said: Certificate, rng: np.random.Generator) -> str | None:
    """Inputs that lie evenly in the domain meet the zones no more often than is said, and are refused there."""
    if not said.zones:
        return None
    dead = np.zeros(SAMPLES, dtype=bool)
    state, x = rng.bit_generator.state, None
    for holder, zones in _holders(said.claim):
        rng.bit_generator.state = state  # the same inputs for all
        found = _hits(network, said, holder, np.array(zones, dtype=float).reshape(-1, 2), rng)
        if found is None:
            return None
        dead |= found
    rng.bit_generator.state = state
    x = evenly(network, said, rng, SAMPLES)
    shares = [zone.share for zone in said.zones]
    stated = sum(share for share in shares if share is not None) if None not in shares else None
    if stated is not None and dead.sum() > most_hits(stated):
        return f"{dead.sum()} of {SAMPLES} inputs lie in dead zones that are said to cover {stated!r} of the domain"
    if said.status == "PROVEN" and dead.sum() > most_hits(DEAD_SHARE):
        return f"{dead.sum()} of {SAMPLES} inputs lie in dead zones, and the status is PROVEN"
    return _refused_there(network, said, x, dead) if isinstance(said.claim, OneLayerClaim | Composite) else None


def most_hits(share: float) -> float:
    """More inputs than these lie in a share with a chance below CHANCE: Bernstein's inequality."""
    a, mean = math.log(1 / CHANCE), SAMPLES * min(share, 1.0)
    return mean + a / 3 + math.sqrt(a * a / 9 + 2 * a * mean * (1 - min(share, 1.0)))


def _refused_there(network: Network, said: Certificate, x: np.ndarray, dead: np.ndarray) -> str | None:
    """In a zone nothing is certified, and the network refuses to run. Ends that rounding may move are left out."""
    net = AttentionNetwork(network, said)
    for i in np.flatnonzero(dead)[:3].tolist():
        given = torch.tensor(x[i : i + 1], dtype=net.dtype)
        if not np.array_equal(given.double().numpy(), x[i : i + 1]):
            continue  # rounded, it may lie outside
        if bool(net.certifies(given).any()):
            return f"an input in a dead zone is certified: {x[i].tolist()}"
        try:
            net(given)
        except ww.DomainError:
            continue
        return f"the network runs in a dead zone: {x[i].tolist()}"
    return None


def _holders(value: Any) -> list[tuple[Any, list[tuple[float, float]]]]:
    """Whatever has dead zones in a claim, however deep, and these."""
    found = []
    for name in ("dead_zones", "zones"):
        held = getattr(value, name, None) if isinstance(value, OneLayerClaim | TableClaim) else None
        if held is not None and len(held):
            found.append((value, [tuple(zone) for zone in (held.tolist() if isinstance(held, np.ndarray) else held)]))
    inside: Any = ()
    if dataclasses.is_dataclass(value):
        inside = (getattr(value, field.name) for field in dataclasses.fields(value))
    elif isinstance(value, tuple):
        inside = value
    for part in inside:
        found += _holders(part)
    return found


def evenly(network: Network, said: Certificate, rng: np.random.Generator, count: int) -> np.ndarray:
    """(count, tokens, features), spread evenly over the domain, rounded to the dtype."""
    tokens = network.tokens or (len(said.domain.lo) if said.domain.lo.ndim == 2 else 1)
    lo, hi = (np.broadcast_to(end, (tokens, said.domain.lo.shape[-1])) for end in (said.domain.lo, said.domain.hi))
    share = rng.random((count, *lo.shape))
    x = lo * (1 - share) + hi * share
    dtype = ww.runtime.module.DTYPES[network.dtype]
    return np.clip(torch.tensor(x).to(dtype).double().numpy(), lo, hi)


def _hits(
    network: Network, said: Certificate, holder: Any, zones: np.ndarray, rng: np.random.Generator
) -> np.ndarray | None:
    """(SAMPLES,): which of the inputs meet a zone of a holder; None where that cannot be told."""
    if said.domain.lo.size * (network.tokens or 1) > _MEASURED:
        return None
    x = evenly(network, said, rng, SAMPLES)
    if isinstance(holder, OneLayerClaim):
        arguments = x[:, :, 0]
    elif isinstance(said.claim, Composite):
        found = _arguments(said.claim, holder, x)
        if found is None:
            return None
        arguments = found
    else:
        return None
    inside = (arguments[..., None] > zones[:, 0]) & (arguments[..., None] < zones[:, 1])
    return inside.any(axis=(1, 2))


def _arguments(claim: Composite, part: TableClaim, x: np.ndarray) -> np.ndarray | None:
    """(count, units): the arguments of the units that a part computes, in plain floats."""
    target, count = claim.target, len(x)
    known = [(t, unit) for t, unit in enumerate(part.units) if unit >= 0]
    with np.errstate(all="ignore"):
        if isinstance(target, TokenModels):
            found = [x[:, t] @ target.weights[t] + target.shifts[t] for t, _ in known]
        elif isinstance(target, RidgeFunctions):
            columns = list(x.reshape(count, -1).T)
            for profile, row, shift in zip(target.profiles, target.arguments, target.shifts, strict=True):
                s = sum((w * c for w, c in zip(row.tolist(), columns, strict=False)), np.zeros(count)) + shift
                columns.append(values(parse(profile, ("x",)), s))
            found = [columns[0] * 0 + _affine(target, unit, columns) for _, unit in known]
        else:
            held = _graph_floats(target, x)
            if held is None:
                return None
            size = target.tokens or 1
            found = [held[target.nodes[unit // size].of[0]][:, t] for t, unit in known]
    return np.stack(found, axis=1) if found else np.zeros((count, 0))


def _affine(target: RidgeFunctions, unit: int, columns: list[np.ndarray]) -> np.ndarray:
    row = target.arguments[unit].tolist()
    return sum((w * c for w, c in zip(row, columns, strict=False)), np.zeros(len(columns[0]))) + target.shifts[unit]


def _graph_floats(graph: Graph, x: np.ndarray) -> list[np.ndarray] | None:
    """Every column in plain floats, (count, tokens) each; None where it has attention."""
    columns: list[np.ndarray] = []
    for node in graph.nodes:
        of = [columns[k] for k in node.of]
        if node.op == "input":
            new = x[:, :, node.index]
        elif node.op == "affine":
            new = sum((w * c for w, c in zip(node.weights.tolist(), of, strict=True)), np.zeros(x.shape[:2]))
            new = new + node.constants
        elif node.op == "product":
            new = of[0] * of[1]
        elif node.op == "mix":
            new = of[0] @ graph.matrices[node.index].T
        elif node.op == "softmax":
            powers = np.exp(np.stack(of) - np.max(of, axis=0))
            new = powers[node.index] / powers.sum(axis=0)
        elif node.op == "attention":
            return None
        else:
            new = values(parse(node.op, ("x",)), of[0].ravel()).reshape(of[0].shape)
        columns.append(np.asarray(new))
    return columns
