"""The prover's walk through a network whose target is a ridge or a model for each token: magnitudes and errors.

What comes out is proposed, not proven: plain floats, rounding counted generously. The checker follows what every
coordinate holds and decides.
"""

from __future__ import annotations

import math

import numpy as np

from weightwright.box import Box
from weightwright.claims.certificate import Terms
from weightwright.claims.target import IDENTITY, UNREAD, Composite, TableClaim
from weightwright.network import Attention, Head, Linear, Network
from weightwright.numbers import UNIT, Floats
from weightwright.papers.claims.ridge_functions import RidgeFunctions, TokenModels
from weightwright.prover.machine import AMPLY, EXP_UNITS, HARDLY, SLIGHTLY, SPARE

#: Factor by which the rounding that this walk itself reckons is claimed larger; the tables' own terms are not.
GENEROUS = 2.0


def propose(network: Network, composite: Composite, domain: Box) -> Terms:
    """Terms for the whole network on a domain."""
    shape = (network.tokens or 1, len(network.inputs))
    size = np.broadcast_to(np.maximum(np.abs(domain.lo), np.abs(domain.hi)), shape).astype(np.float64)
    err = np.zeros((3, *shape))
    unit = GENEROUS * UNIT[network.dtype]
    size, err = _linear(network.embed, size, err, unit)
    for index, layer in enumerate(network.layers):
        if isinstance(layer, Linear):
            size, err = _linear(layer, size, err, unit)
        elif isinstance(layer, Attention):
            size, err = _attention(network, composite, layer, index, size, err, unit)
        else:
            return Terms(math.inf, math.inf, math.inf)
    _, err = _linear(network.read, size, err, unit)
    approximation, leakage, rounding = err.max(axis=(1, 2)).tolist()
    if composite.formulas is not None:
        approximation += composite.formulas.error
    slack = 1 + 1e-6
    return Terms(approximation * slack + 1e-250, leakage * slack + 1e-250, rounding * slack + 1e-250)


def _linear(map: Linear, size: Floats, err: Floats, unit: float) -> tuple[Floats, Floats]:
    out_size, out_err = np.abs(map.C), np.zeros((3, 1, 1))
    longest = 2
    for term in map.terms:
        A, S = np.abs(term.A), 1.0 if term.S is None else np.abs(term.S)
        moved, moved_err = (S * size) @ A, (S * err) @ A
        if term.tokens is not None:
            R = np.abs(term.tokens.matrix(len(size)))
            moved, moved_err = R @ moved, R @ moved_err
            longest += int(np.count_nonzero(R, axis=1).max())
        longest += int(np.count_nonzero(term.A, axis=0).max()) + 2
        out_size, out_err = out_size + moved, out_err + moved_err
    out_err = np.broadcast_to(out_err, (3, *out_size.shape)).copy()
    out_err[2] += longest * unit * out_size
    return out_size, out_err


def _attention(
    network: Network, composite: Composite, layer: Attention, index: int, size: Floats, err: Floats, unit: float
) -> tuple[Floats, Floats]:
    width = len(layer.coordinates)
    out_size = size.copy() if layer.residual else np.zeros((len(size), width))
    out_err = err.copy() if layer.residual else np.zeros((3, len(size), width))
    parts = [part for part in composite.parts if part.layer == index]
    gates = [claim for claim in composite.gates if claim.layer == index]
    for part in parts:
        _part(network, layer, part, size, err, out_size, out_err, unit)
    for claim in gates:
        _gate(network, layer.heads[claim.head], size, err, out_size, out_err, unit)
    named = {head for part in parts for head in part.heads} | {claim.head for claim in gates}
    for head in (layer.heads[i] for i in range(len(layer.heads)) if i not in named):
        _mixing(network, head, size, err, out_size, out_err, unit)
    out_err[2] += (len(layer.heads) + 2) * unit * out_size
    return out_size, out_err


def _gate(
    network: Network, head: Head, size: Floats, err: Floats, out_size: Floats, out_err: Floats, unit: float
) -> None:
    source = int(np.flatnonzero(head.W_V[:, 0])[0])
    away = head.W_Q[:, 0].copy()
    away[source] = 0.0
    active = np.broadcast_to(network.embed.C @ away == 0, len(size))
    s = size[:, source].max()
    scores = unit * (12 * s + 2 * EXP_UNITS["dot"][network.dtype] / head.beta)
    sums = 6 * (len(size) + len(network.registers) + 4) * unit * s
    eta = abs(math.log(len(size)) - float(np.log(np.exp(head.beta * network.registers @ head.W_K[:, 1]).sum())))
    own = 2 * SPARE * err[:, :, source].max(axis=1) + [(0.2785 + eta) / head.beta * HARDLY, 0.0, scores + sums]
    weights = np.abs(head.W_O[0])
    out_err += np.where(active[:, None], own[:, None, None] * weights, 0.0)
    out_err[1] += 1e-250 * (1 + s) * weights
    out_size += s * weights


def _part(
    network: Network,
    layer: Attention,
    part: TableClaim,
    size: Floats,
    err: Floats,
    out_size: Floats,
    out_err: Floats,
    unit: float,
) -> None:
    first = layer.heads[part.heads[0]]
    one = int(np.flatnonzero(first.W_Q[:, 1])[0])
    source = next(int(c) for c in np.flatnonzero(first.W_Q[:, 0]) if c != one)
    target = int(np.flatnonzero(first.W_O[part.column])[0])
    scale, terms = first.W_Q[source, 0], part.claim.terms
    slope = (part.claim.lipschitz * scale + abs(part.slope)) * SLIGHTLY
    slip = (part.claim.lipschitz + abs(part.slope) / scale) * unit * max(abs(part.claim.lo), abs(part.claim.hi)) * SPARE
    largest = 0.0
    for index in part.heads:
        head = layer.heads[index]
        held = np.concatenate([network.registers @ head.W_V[:, part.column], size @ np.abs(head.W_V[:, part.column])])
        largest += abs(head.W_O[part.column, target]) * float(np.abs(held).max())
    for token, k in enumerate(part.units):
        incoming = err[:, token, source]
        if k == UNREAD:
            out_err[0, token, target] += AMPLY * largest
        else:
            out_err[:, token, target] += (1 + abs(part.slope) if k == IDENTITY else slope) * incoming
            out_err[:, token, target] += [terms.approximation, terms.leakage, terms.rounding + slip]
            out_err[2, token, target] += 8 * slope * unit * size[token, source]  # forms against the declared ones
        out_size[token, target] += largest


def _mixing(
    network: Network, head: Head, size: Floats, err: Floats, out_size: Floats, out_err: Floats, unit: float
) -> None:
    """Every token receives at most the largest value; weights are off by little."""
    V, V_err = size @ np.abs(head.W_V), err @ np.abs(head.W_V)
    V = np.maximum(V.max(axis=0), np.abs(network.registers @ head.W_V).max(axis=0, initial=0.0))
    W_O = np.abs(head.W_O)
    keys = len(size) + len(network.registers)
    relative = unit * (4 * keys + 2 * EXP_UNITS["dot"][network.dtype] + 64)
    out_size += V @ W_O
    out_err += (AMPLY * V_err.max(axis=1) @ W_O)[:, None]
    out_err[2] += relative * (V @ W_O)
    out_err[1] += 2.0**-900 * (V @ W_O)


PROPOSALS = {RidgeFunctions: propose, TokenModels: propose}
