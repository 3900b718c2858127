"""`check`: one saved file in, one certificate with status PROVEN out, or a CertificateError that says why not."""

from __future__ import annotations

import dataclasses
import math
import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import arb

from weightwright.certificates.checker.balls import largest, series, working_precision
from weightwright.certificates.checker.complaints import LARGEST, LEAST, parsed, require, short, terms_hold
from weightwright.certificates.checker.grid import agree_grid
from weightwright.certificates.checker.head import Found, examine
from weightwright.certificates.checker.nearest import examine_nearest
from weightwright.certificates.checker.rounding import SMALLEST, UNIT, StoredHead
from weightwright.certificates.checker.samples import Piece, check_samples, pieces
from weightwright.certificates.checker.side_by_side import split
from weightwright.certificates.checker.stored import OneLayer, in_window, read_one_layer
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
from weightwright.expressions import Expression, to_text
from weightwright.network import Network
from weightwright.network.laws import PRECISION

MAX_HALVINGS = 50  # of a stored box, where the checker's enclosure is wider than the prover's was
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
    except (AttributeError, TypeError, ValueError, IndexError, OverflowError) as error:
        raise CertificateError(f"{path}: the certificate is malformed ({error})") from error
    return network, dataclasses.replace(certificate, status="PROVEN")


def _agree(network: Network, certificate: Certificate) -> None:
    with working_precision():
        _identity(network, certificate)
        if certificate.grid is not None:
            agree_grid(network, certificate)
            return
        if certificate.parts:
            for part in split(network, certificate):
                _agree(*part)
            return
        require(certificate.norm == math.inf, f"no rule for norm {certificate.norm!r} here")
        if any(isinstance(claim, VectorClaim) for claim in certificate.layers):
            plain = certificate.kernel == "dot" and not certificate.dead_zones and certificate.samples is None
            require(plain, "several variables go with kernel 'dot' and a formula alone")
            agree_vector(network, certificate)
            return
        stored = read_one_layer(network)
        windows = {head.window is not None for head in stored.heads}
        require(windows == {certificate.kernel == "anchor"}, f"the heads do not run in kernel {certificate.kernel!r}")
        claim = _only_claim(certificate)
        _domain(certificate, claim, stored)
        _layer(stored, claim, list(_targets(certificate, claim, stored)))
        _composition(stored, certificate, claim)


@dataclass(frozen=True)
class _Target:
    """What the layer computes between lo and hi: a formula of s, or a polynomial with its uncertainty."""

    formula: Expression
    lo: Fraction | None = None
    hi: Fraction | None = None
    piece: Piece | None = None

    def within(self, found: Found, a: float, b: float) -> Found:
        """What was found about the polynomial, as what is known about the function."""
        if self.piece is None:
            return found
        unknown = self.piece.uncertainty(arb(a).union(arb(b)))
        slope = found.lipschitz + self.piece.slope_uncertainty()
        return dataclasses.replace(found, approximation=found.approximation + unknown, lipschitz=slope)


def _targets(certificate: Certificate, claim: LayerClaim, stored: OneLayer) -> Iterator[_Target]:
    """One for the whole domain, or one between each two samples, in order."""
    if certificate.samples is None:
        formula = parsed(certificate.formula, ("x",), "formula")
        expected = to_text(local_formula(formula, stored.centre, stored.scale, stored.mean))
        require(
            claim.formula == expected,
            f"the layer must compute {expected!r}, but the claim is {claim.formula!r}",
        )
        yield _Target(parsed(claim.formula, ("s",), "the layer's formula"))
        return
    samples, name = certificate.samples, certificate.formula
    require(name.startswith(OPAQUE) and claim.formula == name, f"{name!r} is no name of a function given by samples")
    require(set(samples.assumptions()) <= set(certificate.assumptions), "the certificate hides an assumption")
    require(claim.rule == "taylor", f"no rule {claim.rule!r} for samples")
    check_samples(samples, float(certificate.domain.lo[0]), float(certificate.domain.hi[0]))
    for piece in pieces(samples, stored.centre, stored.scale, stored.mean):
        yield _Target(piece.polynomial, piece.lo, piece.hi, piece)


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


def _domain(certificate: Certificate, claim: LayerClaim, stored: OneLayer) -> None:
    """The claim covers every query that an input of the domain can lead to, and the boxes cover the claim."""
    lo, hi = certificate.domain.lo, certificate.domain.hi
    require(
        lo.shape == hi.shape == (1,) and bool(lo[0] < hi[0]),
        f"the domain {certificate.domain} is no interval",
    )
    first, last = _reach(Fraction(lo[0]), Fraction(hi[0]), stored, certificate.dtype)
    require(
        claim.lo <= first and last <= claim.hi,
        f"queries range over [{float(first)!r}, {float(last)!r}], the claim covers [{claim.lo!r}, {claim.hi!r}]",
    )
    sizes = stored.sizes(max(abs(lo[0]), abs(hi[0])), max(abs(claim.lo), abs(claim.hi)))
    require(all(size < LARGEST[certificate.dtype] for size in sizes), f"a number may overflow {certificate.dtype}")
    boxes = claim.boxes
    require(boxes.ndim == 2 and boxes.shape[1] == 2 and len(boxes) > 0, f"boxes of shape {boxes.shape}")
    require(bool(np.isfinite(boxes).all() and (boxes[:, 0] <= boxes[:, 1]).all()), "a box is no interval")
    boxes = boxes[np.argsort(boxes[:, 0], kind="stable")]
    covered = np.maximum.accumulate(boxes[:, 1])
    start, end = float(boxes[0, 0]), float(covered[-1])
    holes = list(_holes(certificate, stored))

    def left_out(lo: float, hi: float) -> bool:
        return any(hole[0] <= lo and hi <= hole[1] for hole in holes)

    for i in np.flatnonzero(boxes[1:, 0] > covered[:-1]).tolist():
        gap = float(covered[i]), float(boxes[i + 1, 0])
        require(left_out(*gap), f"no box covers what follows [{gap[0]!r}]")
    # zones are open: where one begins or ends exactly at an end of the domain, that end is claimed
    first_covered = start <= claim.lo or any(hole[0] < claim.lo and start <= hole[1] for hole in holes)
    last_covered = claim.hi <= end or any(hole[0] <= end and claim.hi < hole[1] for hole in holes)
    require(
        first_covered and last_covered,
        f"the boxes cover [{start!r}, {end!r}], not [{claim.lo!r}, {claim.hi!r}]",
    )


def _reach(lo: Fraction, hi: Fraction, stored: OneLayer, dtype: str, outward: int = 1) -> tuple[Fraction, Fraction]:
    """The queries that inputs between lo and hi can lead to; with outward = -1 those that only they can lead to."""
    first, last = sorted((x - Fraction(stored.centre)) * Fraction(stored.scale) for x in (lo, hi))
    if stored.exact_query:
        return first, last
    # a query rounds: relatively, by twice the unit roundoff at most, or to a subnormal number
    slip, least = (Fraction(2) ** e for e in (1 - PRECISION[dtype][0], LEAST[dtype]))
    return first - outward * (slip * abs(first) + least), last + outward * (slip * abs(last) + least)


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
        yield _reach(Fraction(lo), Fraction(hi), stored, certificate.dtype, outward=-1)


def _layer(stored: OneLayer, claim: LayerClaim, targets: list[_Target]) -> None:
    """Every term of the claim, and the slope of the formula if the query rounds."""
    if claim.rule == "nearest":
        formula = targets[0].formula
        require(len(stored.heads) == 1 and stored.slope == 0, "the rule 'nearest' is for one head")
        found = examine_nearest(stored.heads[0], formula, arb(claim.lo), arb(claim.hi))
        _compare(found, claim, "the whole domain")
        for a, b in claim.boxes.tolist() if not stored.exact_query else []:
            _slope(series(formula, arb(a).union(arb(b)), 1)[1], claim, a, b)
        return
    require(claim.rule == "taylor", f"no rule {claim.rule!r}")
    slope = arb(stored.slope) / arb(stored.scale)
    boxes = [(heads, target, a, b, MAX_HALVINGS) for heads, target, a, b in _cut(_seen(stored, claim), targets)]
    while boxes:
        heads, target, a, b, halvings = boxes.pop()
        found = target.within(examine(heads, slope, target.formula, arb(a), arb(b)), a, b)
        middle = a / 2 + b / 2
        if halvings and a < middle < b and not _holds(found, claim, stored.exact_query):
            boxes += [(heads, target, a, middle, halvings - 1), (heads, target, middle, b, halvings - 1)]
            continue
        _compare(found, claim, f"[{a!r}, {b!r}]")
        if not stored.exact_query:
            _slope(found.lipschitz, claim, a, b)


def _seen(stored: OneLayer, claim: LayerClaim) -> Iterator[tuple[list[StoredHead], float, float]]:
    """The boxes, with the keys that the heads see there. A box is cut where the nearest anchor of a window changes; a
    query half way between two anchors may round to either, so both count."""
    if all(head.window is None for head in stored.heads):
        yield from ((stored.heads, a, b) for a, b in claim.boxes.tolist())
        return
    for a, b in claim.boxes.tolist():
        for i in range(math.ceil(a - 0.5), math.floor(b + 0.5) + 1):
            left, right = max(a, i - 0.5), min(b, i + 0.5)
            if left <= right:
                yield [in_window(head, i) for head in stored.heads], left, right


def _cut(
    boxes: Iterator[tuple[list[StoredHead], float, float]], targets: list[_Target]
) -> Iterator[tuple[list[StoredHead], _Target, float, float]]:
    """The boxes, each cut where one target ends and the next begins, rounded outward to floats."""
    if len(targets) == 1:
        yield from ((heads, targets[0], a, b) for heads, a, b in boxes)
        return
    starts = [target.lo for target in targets[1:] if target.lo is not None]
    for heads, a, b in boxes:
        reached = a
        for target in targets[bisect_left(starts, Fraction(a)) : bisect_right(starts, Fraction(b)) + 1]:
            left = a if target.lo is None or target.lo <= a else _float_below(target.lo)
            right = b if target.hi is None or b <= target.hi else -_float_below(-target.hi)
            if left <= right:
                require(left <= reached, f"no piece covers what follows [{reached!r}]")
                reached = max(reached, right)
                yield heads, target, max(a, left), min(b, right)
        require(reached >= b, f"no piece covers what follows [{reached!r}]")


def _float_below(x: Fraction) -> float:
    nearest = float(x)
    return nearest if Fraction(nearest) <= x else math.nextafter(nearest, -math.inf)


def _holds(found: Found, claim: LayerClaim, exact_query: bool) -> bool:
    terms = dataclasses.asdict(claim.terms).items()
    return all(bool(getattr(found, name) <= limit) for name, limit in terms) and (
        exact_query or bool(found.lipschitz <= claim.lipschitz)
    )


def _compare(found: Found, claim: LayerClaim, where: str) -> None:
    for name, limit in dataclasses.asdict(claim.terms).items():
        shown = getattr(found, name)
        require(shown <= limit, f"{name} on {where}: {short(shown)} could be shown, {limit:.6g} is claimed")


def _slope(found: arb, claim: LayerClaim, a: float, b: float) -> None:
    shown = abs(found)
    require(
        shown <= claim.lipschitz,
        f"slope on [{a!r}, {b!r}]: {short(shown)} could be shown, {claim.lipschitz:.6g} is claimed",
    )


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
    rounding = arb(inner.rounding) + slip + _adding_up(stored, s, arb(inner.rounding), u, smallest)
    terms_hold(inner, rounding, certificate)


def _adding_up(stored: OneLayer, s: float, spent: arb, u: arb, smallest: arb) -> arb:
    """slope x + mean + weighted heads: every term goes through all additions, and through its own products."""
    starts = bool(stored.slope or stored.mean)
    additions = len(stored.heads) + starts - 1
    start = additions + (not _exact_factor(arb(stored.slope))) + bool(stored.slope and stored.mean)
    total = start * (abs(arb(stored.slope)) * s / stored.scale + abs(arb(stored.mean)))
    counts = [additions + (not _exact_factor(head.weight)) for head in stored.heads]
    for head, count in zip(stored.heads, counts, strict=True):
        total += count * (abs(head.weight) * stored.largest_value(head, s) + spent)
    lost = (2 * len(stored.heads) + 2) * smallest  # also a power of two may lead below the normal range
    return u * total * (1 + 8 * (len(stored.heads) + 2) * u) + lost


def _exact_factor(factor: arb) -> bool:
    """Whether products with it are exact: 0 or a power of two."""
    return bool(factor == 0) or abs(math.frexp(float(factor))[0]) == 0.5
