"""`check`: one saved file in, one certificate with status PROVEN out, or a CertificateError that says why not."""

from __future__ import annotations

import dataclasses
import math
import os
from fractions import Fraction

import numpy as np
from flint import arb

from weightwright.certificates.checker.balls import series, working_precision
from weightwright.certificates.checker.head import SMALLEST, UNIT, Found, examine
from weightwright.certificates.checker.nearest import examine_nearest
from weightwright.certificates.checker.stored import OneHead, read_one_head
from weightwright.certificates.checker.vector import agree_vector
from weightwright.certificates.claims import Certificate, HeadClaim, VectorClaim, assumptions, local_formula
from weightwright.certificates.files import network_digest, read
from weightwright.errors import CertificateError, FormulaError
from weightwright.expressions import Expression, parse, to_text
from weightwright.network import Network
from weightwright.network.laws import PRECISION

MAX_HALVINGS = 50  # of a stored box, where the checker's enclosure is wider than the prover's was
KERNELS = ("dot",)
#: A sixteenth of the largest number, and the exponent of the smallest normal one, per dtype.
LARGEST = {"float64": arb(2) ** 1020, "float32": arb(2) ** 124, "bfloat16": arb(2) ** 124}
LEAST = {"float64": -1022, "float32": -126, "bfloat16": -126}


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
    except (AttributeError, TypeError, ValueError, IndexError, OverflowError) as error:
        raise CertificateError(f"{path}: the certificate is malformed ({error})") from error
    return network, dataclasses.replace(certificate, status="PROVEN")


def _agree(network: Network, certificate: Certificate) -> None:
    with working_precision():
        _identity(network, certificate)
        if any(isinstance(claim, VectorClaim) for claim in certificate.heads):
            agree_vector(network, certificate)
            return
        formula = _parse(certificate.formula, "x", "formula")
        stored = read_one_head(network)
        claim = _only_claim(certificate)
        _domain(certificate, claim, stored)
        expected = to_text(local_formula(formula, stored.centre, stored.scale, stored.mean))
        _require(
            claim.formula == expected,
            f"the head must compute {expected!r}, but the claim is {claim.formula!r}",
        )
        _head(stored, claim, _parse(claim.formula, "s", "the head's formula"))
        _composition(stored, certificate, claim)


def _require(condition: bool, complaint: str) -> None:
    if not condition:
        raise CertificateError(complaint)


def _parse(text: str, variable: str, what: str) -> Expression:
    try:
        return parse(text, (variable,))
    except FormulaError as error:
        raise CertificateError(f"{what}: {error}") from error


def _identity(network: Network, certificate: Certificate) -> None:
    """The certificate is about this network, this dtype, a known kernel and the stated assumptions."""
    _require(certificate.network == network_digest(network), "the certificate is about another network")
    _require(certificate.dtype == network.dtype, f"certified for {certificate.dtype}, stored as {network.dtype}")
    _require(certificate.dtype in UNIT, f"no rule for dtype {certificate.dtype}")
    _require(certificate.kernel in KERNELS, f"no rule for kernel {certificate.kernel!r}")
    _require(set(assumptions(certificate.dtype)) <= set(certificate.assumptions), "the certificate hides an assumption")
    for terms in (certificate.terms, *(claim.terms for claim in certificate.heads)):
        for name, value in dataclasses.asdict(terms).items():
            _number(value, name)
    _number(certificate.bound, "bound")


def _number(value: float, name: str) -> None:
    valid = isinstance(value, float) and math.isfinite(value) and value >= 0
    _require(valid, f"{name} = {value!r} is not a finite number at or above zero")


def _only_claim(certificate: Certificate) -> HeadClaim:
    _require(len(certificate.heads) == 1, f"one head claim was expected, not {len(certificate.heads)}")
    claim = certificate.heads[0]
    _require(isinstance(claim, HeadClaim), "the claim is about several variables")
    assert isinstance(claim, HeadClaim)
    _require((claim.layer, claim.head) == (0, 0), f"the claim is about head {claim.head} of layer {claim.layer}")
    return claim


def _domain(certificate: Certificate, claim: HeadClaim, stored: OneHead) -> None:
    """The claim covers every query that an input of the domain can lead to, and the boxes cover the claim."""
    lo, hi = certificate.domain.lo, certificate.domain.hi
    _require(
        lo.shape == hi.shape == (1,) and bool(lo[0] < hi[0]),
        f"the domain {certificate.domain} is no interval",
    )
    first, last = sorted((Fraction(x) - Fraction(stored.centre)) * Fraction(stored.scale) for x in (lo[0], hi[0]))
    reach = [first, last]
    if (
        not stored.exact_query
    ):  # a query rounds: relatively, by twice the unit roundoff at most, or to a subnormal number
        slip, least = (Fraction(2) ** e for e in (1 - PRECISION[certificate.dtype][0], LEAST[certificate.dtype]))
        reach = [first - slip * abs(first) - least, last + slip * abs(last) + least]
    _require(
        claim.lo <= reach[0] and reach[1] <= claim.hi,
        f"queries range over [{float(first)!r}, {float(last)!r}] and round, the claim covers"
        f" [{claim.lo!r}, {claim.hi!r}]",
    )
    sizes = stored.sizes(max(abs(lo[0]), abs(hi[0])), max(abs(claim.lo), abs(claim.hi)))
    _require(all(size < LARGEST[certificate.dtype] for size in sizes), f"a number may overflow {certificate.dtype}")
    boxes = claim.boxes
    _require(boxes.ndim == 2 and boxes.shape[1] == 2 and len(boxes) > 0, f"boxes of shape {boxes.shape}")
    _require(bool(np.isfinite(boxes).all() and (boxes[:, 0] <= boxes[:, 1]).all()), "a box is no interval")
    boxes = boxes[np.argsort(boxes[:, 0], kind="stable")]
    covered = np.maximum.accumulate(boxes[:, 1])
    start, end = float(boxes[0, 0]), float(covered[-1])
    gaps = np.flatnonzero(boxes[1:, 0] > covered[:-1])
    _require(len(gaps) == 0, f"no box covers what follows {[float(x) for x in covered[gaps]]}")
    covers = start <= claim.lo and claim.hi <= end
    _require(covers, f"the boxes cover [{start!r}, {end!r}], not [{claim.lo!r}, {claim.hi!r}]")


def _head(stored: OneHead, claim: HeadClaim, formula: Expression) -> None:
    """Every term of the claim, and the slope of the formula if the query rounds."""
    if claim.rule == "nearest":
        found = examine_nearest(stored.head, formula, arb(claim.lo), arb(claim.hi))
        _compare(found, claim, "the whole domain")
        for a, b in claim.boxes.tolist() if not stored.exact_query else []:
            _slope(series(formula, arb(a).union(arb(b)), 1)[1], claim, a, b)
        return
    _require(claim.rule == "taylor", f"no rule {claim.rule!r}")
    boxes = [(a, b, MAX_HALVINGS) for a, b in claim.boxes.tolist()]
    while boxes:
        a, b, halvings = boxes.pop()
        found = examine(stored.head, formula, arb(a), arb(b))
        middle = a / 2 + b / 2
        if halvings and a < middle < b and not _holds(found, claim, stored.exact_query):
            boxes += [(a, middle, halvings - 1), (middle, b, halvings - 1)]
            continue
        _compare(found, claim, f"[{a!r}, {b!r}]")
        if not stored.exact_query:
            _slope(found.lipschitz, claim, a, b)


def _holds(found: Found, claim: HeadClaim, exact_query: bool) -> bool:
    terms = dataclasses.asdict(claim.terms).items()
    return all(bool(getattr(found, name) <= limit) for name, limit in terms) and (
        exact_query or bool(found.lipschitz <= claim.lipschitz)
    )


def _compare(found: Found, claim: HeadClaim, where: str) -> None:
    for name, limit in dataclasses.asdict(claim.terms).items():
        shown = getattr(found, name)
        _require(shown <= limit, f"{name} on {where}: {_short(shown)} could be shown, {limit:.6g} is claimed")


def _slope(found: arb, claim: HeadClaim, a: float, b: float) -> None:
    shown = abs(found)
    _require(
        shown <= claim.lipschitz,
        f"slope on [{a!r}, {b!r}]: {_short(shown)} could be shown, {claim.lipschitz:.6g} is claimed",
    )


def _short(number: arb) -> str:
    return f"{float(number):.6g}" if number.is_finite() else "nothing"


def _composition(stored: OneHead, certificate: Certificate, claim: HeadClaim) -> None:
    """From the head's query to the network's input: the query rounds once, adding the mean rounds once."""
    u, smallest = UNIT[certificate.dtype], SMALLEST[certificate.dtype]
    s = max(abs(claim.lo), abs(claim.hi))
    query = (u * s if stored.centre else arb(0)) + smallest
    slip = arb(0) if stored.exact_query else arb(claim.lipschitz) * query
    largest = float(np.abs(stored.values).max())
    final = u * (abs(arb(stored.mean)) + largest + arb(claim.terms.rounding)) if stored.mean else arb(0)
    head, whole = claim.terms, certificate.terms
    rounding = arb(head.rounding) + slip + final
    _require(head.approximation <= whole.approximation, "approximation is smaller than its head's")
    _require(head.leakage <= whole.leakage, "leakage is smaller than its head's")
    _require(rounding <= whole.rounding, f"rounding: {_short(rounding)} is needed, {whole.rounding:.6g} is claimed")
    total = sum(Fraction(term) for term in (whole.approximation, whole.leakage, whole.rounding))
    _require(
        total <= Fraction(certificate.bound),
        f"the terms add up to {float(total):.6g}, the bound is {certificate.bound:.6g}",
    )
