"""`net.check`: the bound that holds of a network as it is now, found from the claim that was made about it.

What is proposed is a guess: the claim as it was, then with larger terms, by how far the outputs moved on a few inputs.
The checker decides, on the weights that run.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import torch

from weightwright.certify import certify, confirm
from weightwright.checker.one_layer.layer import reach
from weightwright.checker.one_layer.stored import read_one_layer
from weightwright.checker.one_layer.stored_vector import read_vector_head
from weightwright.claims.certificate import VARIABLES, Certificate, Terms, local_formula, vector_formula
from weightwright.claims.leaf import Leaf, VectorLeaf
from weightwright.claims.one_layer_claims import OneLayerClaim, SampledClaim, VectorLayerClaim
from weightwright.claims.prompt import LoopClaim, PromptClaim
from weightwright.claims.target import Composite
from weightwright.enclosures.balls.series import working_precision
from weightwright.errors import CertificateError, ToleranceError, WeightwrightError
from weightwright.expressions import parse, to_text
from weightwright.network import Network
from weightwright.runtime import AttentionNetwork

#: Larger terms that are tried one after the other: factors of what the outputs were seen to move by.
ROOM = (2.0, 32.0, 1024.0)
#: Sequences on which the outputs are compared with those before the edit.
_SEQUENCES = 512
_SEED = 16


def recheck(net: AttentionNetwork) -> Certificate:
    """The certificate of the network as it is now: with the bound that the checker agreed with, or still EDITED, the
    bound infinite and `why` what the checker said."""
    said = net.said
    if said is None:
        raise CertificateError("the network has no certificate, so there is no claim to check")
    if said.measured is not None:
        raise CertificateError(f"nothing was claimed that could be checked: the error was measured ({said.formula!r})")
    try:
        network = net.network
    except WeightwrightError as error:
        return _refused(net, str(error))
    refusal = ""
    for candidate in _candidates(net, network, said):
        try:
            net.certificate = candidate if candidate.status != "UNCHECKED" else confirm(network, candidate)
        except CertificateError as error:
            refusal = refusal or str(error)
            continue
        found = net.certificate
        assert found is not None
        return found
    return _refused(net, f"the checker: {refusal}")


def _refused(net: AttentionNetwork, why: str) -> Certificate:
    now = net.certificate
    assert now is not None
    nothing = Terms(math.inf, math.inf, math.inf)
    return dataclasses.replace(
        now, status="EDITED", why="; ".join(filter(None, (now.why, why))), bound=math.inf, terms=nothing
    )


def _candidates(net: AttentionNetwork, network: Network, said: Certificate) -> Iterator[Certificate]:
    """Certificates about the network as it is, the smallest bounds first."""
    digest, claim = net.digest(), said.claim
    same = dataclasses.replace(said, network=digest, status="UNCHECKED", why="")
    yield same
    if digest == said.network:
        return
    if isinstance(claim, Composite | LoopClaim | PromptClaim):
        yield from _composed(network, claim, said)
        if isinstance(claim, Composite):
            drift = _drift(net, network, said)
            for room in ROOM if math.isfinite(drift) else ():
                yield from _composed(network, _with_room(claim, room * drift), said)
    elif isinstance(claim, OneLayerClaim | SampledClaim | VectorLayerClaim):
        drift = _drift(net, network, said)
        for room in ROOM if math.isfinite(drift) else ():
            try:
                with working_precision():
                    leaf = _moved(network, claim.leaf, same)
            except CertificateError:
                return
            yield _larger(same, leaf, room * drift, room)


def _composed(network: Network, claim: Composite | LoopClaim | PromptClaim, said: Certificate) -> Iterator[Certificate]:
    try:
        found = certify(network, claim, said.domain).certificate
    except ToleranceError:
        return
    assert found is not None
    yield found


def _with_room(claim: Composite, more: float) -> Composite:
    """Every table may be off by more."""
    parts = (
        dataclasses.replace(part, claim=dataclasses.replace(part.claim, terms=_plus(part.claim.terms, more, 1.0)))
        for part in claim.parts
    )
    return dataclasses.replace(claim, parts=tuple(parts))


def _larger(same: Certificate, leaf: Leaf | VectorLeaf, more: float, room: float) -> Certificate:
    """The certificate of one layer with larger terms."""
    steeper: Any = room * leaf.lipschitz
    leaf = dataclasses.replace(leaf, terms=_plus(leaf.terms, more, room), lipschitz=steeper)
    terms = _plus(same.terms, more, 2 * room)
    terms = dataclasses.replace(terms, rounding=terms.rounding + 2 * leaf.terms.rounding)
    total = sum(Fraction(term) for term in dataclasses.astuple(terms))
    before: Any = same.claim
    claim = dataclasses.replace(before, leaf=leaf)
    return dataclasses.replace(same, claim=claim, terms=terms, bound=math.nextafter(float(total), math.inf))


def _plus(terms: Terms, more: float, room: float) -> Terms:
    return Terms(terms.approximation + more, room * terms.leakage, room * terms.rounding + more * 2.0**-20)


def _moved(network: Network, leaf: Leaf | VectorLeaf, said: Certificate) -> Leaf | VectorLeaf:
    """The leaf with the formula and the range that the embedding and the query now ask for."""
    if isinstance(leaf, VectorLeaf):
        head, names = read_vector_head(network), VARIABLES[: len(network.inputs)]
        local = vector_formula(parse(said.formula, names), head.centres, head.scales, head.mean)
        return dataclasses.replace(leaf, formula=to_text(local))
    stored = read_one_layer(network)
    if isinstance(said.claim, OneLayerClaim):
        local = local_formula(parse(said.formula), stored.centre, stored.scale, stored.mean)
        leaf = dataclasses.replace(leaf, formula=to_text(local))
    lo, hi = (Fraction(float(end[0])) for end in (said.domain.lo, said.domain.hi))
    first, last = reach(lo, hi, stored, network.dtype)
    if leaf.lo <= first and last <= leaf.hi:
        return leaf
    lo_end, hi_end = math.nextafter(float(first), -math.inf), math.nextafter(float(last), math.inf)
    ends = np.linspace(lo_end, hi_end, 2 * len(leaf.boxes) + 1)
    boxes = np.stack([ends[:-1], ends[1:]], axis=1)
    return dataclasses.replace(leaf, lo=lo_end, hi=hi_end, boxes=boxes)


def _drift(net: AttentionNetwork, network: Network, said: Certificate) -> float:
    """How far outputs moved on random inputs and corners of the domain, since the network was built."""
    n, d = network.tokens or 1, len(network.inputs)
    lo, hi = (np.broadcast_to(end, (n, d)) for end in (said.domain.lo, said.domain.hi))
    shares = np.random.default_rng(_SEED).uniform(0, 1, (_SEQUENCES, n, d))
    shares[:2] = np.arange(2)[:, None, None]
    x = torch.tensor(lo + shares * (hi - lo), dtype=net.dtype)
    with torch.no_grad():
        before, after = (AttentionNetwork(one)(x).double() for one in (net.was, network))
    return float((after - before).abs().max()) if before.shape == after.shape else math.inf
