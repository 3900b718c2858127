"""`check`: one saved file in, one certificate with status PROVEN out, or a CertificateError that says why not."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from flint import arb

from weightwright.certificates.checker.balls import largest, working_precision
from weightwright.certificates.checker.complaints import parsed, require, terms_hold
from weightwright.certificates.checker.composite import agree_composite
from weightwright.certificates.checker.grid import agree_grid
from weightwright.certificates.checker.layer import Hole, Target, adding_up, covers, layer_holds, reach
from weightwright.certificates.checker.loops import agree_one_pass
from weightwright.certificates.checker.prompted import agree_prompted
from weightwright.certificates.checker.rounding import SMALLEST, UNIT
from weightwright.certificates.checker.samples import check_samples, pieces
from weightwright.certificates.checker.side_by_side import split
from weightwright.certificates.checker.stored import OneLayer, read_one_layer
from weightwright.certificates.checker.vector import agree_vector
from weightwright.certificates.claims import (
    OPAQUE,
    Certificate,
    LayerClaim,
    VectorClaim,
    assumptions,
    local_formula,
)
from weightwright.certificates.files import network_digest, read
from weightwright.errors import CertificateError
from weightwright.expressions import to_text
from weightwright.network import Linear, Network

KERNELS = ("dot", "anchor")


def check(path: str | os.PathLike[str]) -> Certificate:
    """Recompute every claim in the file. Returns the certificate, PROVEN; raises CertificateError otherwise."""
    return checked(path)[1]


def checked(path: str | os.PathLike[str]) -> tuple[Network, Certificate]:
    """The network that was read, and its certificate, PROVEN; raises CertificateError otherwise."""
    network, certificate = read(path)
    if certificate is None:
        raise CertificateError(f"{path}: the network has no certificate")
    if certificate.measured is not None:
        raise CertificateError(
            f"{path}: nothing is proven here; an error of {certificate.measured.error:.3g} was measured"
        )
    try:
        _agree(network, certificate)
    except (AttributeError, TypeError, ValueError, LookupError, ArithmeticError) as error:
        raise CertificateError(f"{path}: the certificate is malformed ({error})") from error
    return network, dataclasses.replace(certificate, status="PROVEN")


def _agree(network: Network, certificate: Certificate) -> None:
    with working_precision():
        _identity(network, certificate)
        whole = (certificate.composite, certificate.grid, certificate.prompted)
        kinds = [bool(certificate.layers), bool(certificate.parts), *(claim is not None for claim in whole)]
        require(sum(kinds) <= 1, "a certificate makes claims of one kind")
        whole_or_pass = certificate.one_pass is None or certificate.composite is not None
        require(whole_or_pass, "a claim about one pass goes with a target")
        if certificate.prompted is not None:
            require(certificate.norm == math.inf, f"no rule for norm {certificate.norm!r} here")
            with np.errstate(all="ignore"):  # infinity and NaN are refused where numbers are compared
                agree_prompted(network, certificate, certificate.prompted)
            return
        _ordinary(network)
        if certificate.grid is not None:
            agree_grid(network, certificate)
            return
        require(certificate.norm == math.inf, f"no rule for norm {certificate.norm!r} here")
        if certificate.one_pass is not None:
            with np.errstate(all="ignore"):  # infinity and NaN are refused where numbers are compared
                agree_one_pass(network, certificate, certificate.one_pass)
            return
        if certificate.composite is not None:
            with np.errstate(all="ignore"):  # infinity and NaN are refused where numbers are compared
                agree_composite(network, certificate, certificate.composite)
            return
        if certificate.parts:
            for part in split(network, certificate):
                _agree(*part)
            return
        if any(isinstance(claim, VectorClaim) for claim in certificate.layers):
            plain = certificate.kernel == "dot" and not certificate.dead_zones and certificate.samples is None
            require(plain, "several variables go with kernel 'dot' and a formula alone")
            agree_vector(network, certificate)
            return
        stored = read_one_layer(network)
        windows = {head.window is not None for head in stored.heads}
        require(windows == {certificate.kernel == "anchor"}, f"the heads do not run in kernel {certificate.kernel!r}")
        claim = _only_claim(certificate)
        holes = _domain(certificate, claim, stored)
        require(not holes or claim.rule == "taylor", f"no rule {claim.rule!r} with dead zones")
        layer_holds(stored, claim, list(_targets(certificate, claim, stored)), not stored.exact_query, holes)
        _composition(stored, certificate, claim)


def _ordinary(network: Network) -> None:
    """No map acts on blocks of tokens and every token asks: no rule but that for prompts knows of these."""
    linear = [network.embed, network.read, *(layer for layer in network.flat_layers if isinstance(layer, Linear))]
    require(not any(term.blocks for map in linear for term in map.terms), "no rule for maps on blocks of tokens here")
    require(all(head.sees.asks == "all" for head in network.heads), "no rule for tokens that do not ask here")


def _targets(certificate: Certificate, claim: LayerClaim, stored: OneLayer) -> Iterator[Target]:
    """One for the whole domain, or one between each two samples, in order."""
    if certificate.samples is None:
        formula = parsed(certificate.formula, ("x",), "formula")
        expected = to_text(local_formula(formula, stored.centre, stored.scale, stored.mean))
        require(
            claim.formula == expected,
            f"the layer must compute {expected!r}, but the claim is {claim.formula!r}",
        )
        yield Target(parsed(claim.formula, ("s",), "the layer's formula"))
        return
    samples, name = certificate.samples, certificate.formula
    require(name.startswith(OPAQUE) and claim.formula == name, f"{name!r} is no name of a function given by samples")
    require(set(samples.assumptions()) <= set(certificate.assumptions), "the certificate hides an assumption")
    require(claim.rule == "taylor", f"no rule {claim.rule!r} for samples")
    check_samples(samples, float(certificate.domain.lo[0]), float(certificate.domain.hi[0]))
    for piece in pieces(samples, stored.centre, stored.scale, stored.mean):
        yield Target(piece.polynomial, piece.lo, piece.hi, piece)


def _identity(network: Network, certificate: Certificate) -> None:
    """The certificate is about this network, this dtype, a known kernel and the stated assumptions."""
    require(certificate.network == network_digest(network), "the certificate is about another network")
    require(certificate.dtype == network.dtype, f"certified for {certificate.dtype}, stored as {network.dtype}")
    require(certificate.dtype in UNIT, f"no rule for dtype {certificate.dtype}")
    require(certificate.kernel in KERNELS, f"no rule for kernel {certificate.kernel!r}")
    assumed = assumptions(certificate.dtype, certificate.kernel)
    require(set(assumed) <= set(certificate.assumptions), "the certificate hides an assumption")
    for terms in (certificate.terms, *(claim.terms for claim in certificate.layers)):
        for name, value in dataclasses.asdict(terms).items():
            _number(value, name)
    _number(certificate.bound, "bound")
    for claim in certificate.layers:
        for slope in np.atleast_1d(claim.lipschitz).tolist():
            _number(slope, "lipschitz")


def _number(value: float, name: str) -> None:
    valid = isinstance(value, float) and math.isfinite(value) and value >= 0
    require(valid, f"{name} = {value!r} is not a finite number at or above zero")


def _only_claim(certificate: Certificate) -> LayerClaim:
    require(len(certificate.layers) == 1, f"one layer's claim was expected, not {len(certificate.layers)}")
    claim = certificate.layers[0]
    require(isinstance(claim, LayerClaim) and claim.layer == 0, f"the claim is about layer {claim.layer}")
    assert isinstance(claim, LayerClaim)
    return claim


def _domain(certificate: Certificate, claim: LayerClaim, stored: OneLayer) -> list[Hole]:
    """The claim covers every query that an input of the domain can lead to; the queries that are left out."""
    lo, hi = certificate.domain.lo, certificate.domain.hi
    require(
        lo.shape == hi.shape == (1,) and bool(lo[0] < hi[0]),
        f"the domain {certificate.domain} is no interval",
    )
    holes = list(_holes(certificate, stored))
    covers(claim, stored, float(lo[0]), float(hi[0]), holes, certificate.dtype)
    return holes


def _holes(certificate: Certificate, stored: OneLayer) -> Iterator[tuple[Fraction, Fraction]]:
    """The certificate's dead zones as queries that no input outside them can lead to."""
    for zone in certificate.dead_zones:
        lo, hi = zone
        require(math.isfinite(lo) and math.isfinite(hi) and lo < hi, f"the dead zone {zone!r} is no interval")
    lo, hi = float(certificate.domain.lo[0]), float(certificate.domain.hi[0])
    reached = lo
    for start, end in sorted(certificate.dead_zones):
        reached = max(reached, end) if start <= reached else reached
    require(reached < hi, "the dead zones leave nothing of the domain")
    for lo, hi in certificate.dead_zones:
        yield reach(Fraction(lo), Fraction(hi), stored, certificate.dtype, outward=-1)


def _composition(stored: OneLayer, certificate: Certificate, claim: LayerClaim) -> None:
    """From the layer's query to the network's input: the query rounds once, adding up rounds a few times."""
    u, smallest = UNIT[certificate.dtype], SMALLEST[certificate.dtype]
    s = max(abs(claim.lo), abs(claim.hi))
    query = (u * s if stored.centre else arb(0)) + smallest
    # the start of the output and a token's own value take x as it is, while formula and scores take the rounded query
    moves = arb(claim.lipschitz) + abs(arb(stored.slope) / arb(stored.scale))
    moves += sum((abs(head.weight) * largest(abs(tilt) for tilt in head.tilts) for head in stored.heads), arb(0))
    slip = arb(0) if stored.exact_query else moves * query
    inner = claim.terms
    rounding = arb(inner.rounding) + slip + adding_up(stored, s, arb(inner.rounding), u, smallest)
    terms_hold(inner, rounding, certificate)
