"""The checker's rules for networks of one layer and one number: of a formula, or of a function known by samples."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

from flint import arb

from weightwright.checker.core.complaints import parsed, require, terms_hold, typed
from weightwright.checker.core.identity import agree_numbers
from weightwright.checker.core.rounding import SMALLEST, UNIT
from weightwright.checker.one_layer.layer import Hole, Target, adding_up, covers, layer_holds, reach
from weightwright.checker.one_layer.samples import check_samples, pieces
from weightwright.checker.one_layer.stored import OneLayer, read_one_layer
from weightwright.claims.certificate import OPAQUE, Certificate, local_formula
from weightwright.claims.leaf import Leaf, OneLayerClaim, SampledClaim, Samples
from weightwright.enclosures.balls.series import largest
from weightwright.expressions import to_text
from weightwright.network import Network


def agree_one_layer(network: Network, certificate: Certificate, claim: OneLayerClaim) -> None:
    """Refuse (CertificateError) unless the network is within the bound of its formula outside the dead zones."""
    leaf, stored = typed(claim.leaf, Leaf), _stored(network, certificate)
    agree_numbers(leaf)
    holes = list(_holes(certificate, claim.dead_zones, stored))
    require(not holes or leaf.rule == "taylor", f"no rule {leaf.rule!r} with dead zones")
    _agree_layer(stored, certificate, leaf, [_formula(certificate, leaf, stored)], holes)


def agree_samples(network: Network, certificate: Certificate, claim: SampledClaim) -> None:
    """The same for a function that is known by samples."""
    leaf, stored = typed(claim.leaf, Leaf), _stored(network, certificate)
    agree_numbers(leaf)
    _agree_layer(stored, certificate, leaf, list(_pieces(certificate, leaf, claim.samples, stored)), [])


def _stored(network: Network, certificate: Certificate) -> OneLayer:
    """The one layer, whose heads run in the certificate's kernel on an interval."""
    stored = read_one_layer(network)
    windows = {head.window is not None for head in stored.heads}
    require(windows == {certificate.kernel == "anchor"}, f"the heads do not run in kernel {certificate.kernel!r}")
    lo, hi = certificate.domain.lo, certificate.domain.hi
    require(lo.shape == hi.shape == (1,) and bool(lo[0] < hi[0]), f"the domain {certificate.domain} is no interval")
    return stored


def _agree_layer(
    stored: OneLayer, certificate: Certificate, leaf: Leaf, targets: list[Target], holes: list[Hole]
) -> None:
    """The leaf covers every query that an input of the domain can lead to, it holds, and the bound follows from it."""
    require(leaf.layer == 0, f"the claim is about layer {leaf.layer}")
    lo, hi = float(certificate.domain.lo[0]), float(certificate.domain.hi[0])
    covers(leaf, stored, lo, hi, holes, certificate.dtype)
    layer_holds(stored, leaf, targets, not stored.exact_query, holes)
    _composition(stored, certificate, leaf)


def _formula(certificate: Certificate, leaf: Leaf, stored: OneLayer) -> Target:
    """What the layer must compute of its query, on the whole domain."""
    formula = parsed(certificate.formula, ("x",), "formula")
    expected = to_text(local_formula(formula, stored.centre, stored.scale, stored.mean))
    require(leaf.formula == expected, f"the layer must compute {expected!r}, but the claim is {leaf.formula!r}")
    return Target(parsed(leaf.formula, ("s",), "the layer's formula"))


def _pieces(certificate: Certificate, leaf: Leaf, samples: Samples, stored: OneLayer) -> Iterator[Target]:
    """What it must compute between each two samples, in order."""
    name = certificate.formula
    require(name.startswith(OPAQUE) and leaf.formula == name, f"{name!r} is no name of a function given by samples")
    require(set(samples.assumptions()) <= set(certificate.assumptions), "the certificate hides an assumption")
    require(leaf.rule == "taylor", f"no rule {leaf.rule!r} for samples")
    check_samples(samples, float(certificate.domain.lo[0]), float(certificate.domain.hi[0]))
    for piece in pieces(samples, stored.centre, stored.scale, stored.mean):
        yield Target(piece.polynomial, piece.lo, piece.hi, piece)


def _holes(certificate: Certificate, zones: Sequence[tuple[float, float]], stored: OneLayer) -> Iterator[Hole]:
    """The dead zones as queries that no input outside them can lead to."""
    for zone in zones:
        lo, hi = zone
        require(math.isfinite(lo) and math.isfinite(hi) and lo < hi, f"the dead zone {zone!r} is no interval")
    reached = float(certificate.domain.lo[0])
    for start, end in sorted(zones):
        reached = max(reached, end) if start <= reached else reached
    require(reached < float(certificate.domain.hi[0]), "the dead zones leave nothing of the domain")
    for lo, hi in zones:
        yield reach(Fraction(lo), Fraction(hi), stored, certificate.dtype, outward=-1)


def _composition(stored: OneLayer, certificate: Certificate, leaf: Leaf) -> None:
    """From the layer's query to the network's input: the query rounds once, adding up rounds a few times."""
    u, smallest = UNIT[certificate.dtype], SMALLEST[certificate.dtype]
    s = max(abs(leaf.lo), abs(leaf.hi))
    query = (u * s if stored.centre else arb(0)) + smallest
    # the start of the output and a token's own value take x as it is, while formula and scores take the rounded query
    moves = arb(leaf.lipschitz) + abs(arb(stored.slope) / arb(stored.scale))
    moves += sum((abs(head.weight) * largest(abs(tilt) for tilt in head.tilts) for head in stored.heads), arb(0))
    slip = arb(0) if stored.exact_query else moves * query
    inner = arb(leaf.terms.rounding)
    terms_hold(leaf.terms, inner + slip + adding_up(stored, s, inner, u, smallest), certificate)
