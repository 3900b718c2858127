"""The checker's rules for networks of one layer and one number: of a formula, or of a function known by samples.

The claim about the heads covers the queries, every term of it holds, and the bound of the network follows from it.
"""

from __future__ import annotations

import dataclasses
import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import arb

from weightwright.checker.core.complaints import (
    LARGEST,
    agree_numbers,
    parse_or_refuse,
    require,
    require_type,
    short,
    terms_hold,
)
from weightwright.checker.core.rounding import SMALLEST, UNIT, StoredHead
from weightwright.checker.one_layer.head import Found, examine
from weightwright.checker.one_layer.nearest import examine_nearest
from weightwright.checker.one_layer.samples import Piece, check_samples, pieces
from weightwright.checker.one_layer.stored import OneLayer, in_window, read_one_layer
from weightwright.claims.certificate import Certificate, local_formula, sampled_in_words
from weightwright.claims.leaf import OPAQUE, Leaf, Samples
from weightwright.claims.one_layer_claims import OneLayerClaim, SampledClaim
from weightwright.claims.scope import DeadZone
from weightwright.enclosures.balls.series import largest, series
from weightwright.expressions import Expression, to_text
from weightwright.limits import count_boxes, hold, tick
from weightwright.network import Network
from weightwright.numbers import FORMATS

#: What a box takes while it waits: its ends as numbers of Python's, in a tuple of a list.
_BYTES_OF_A_BOX = 256
MAX_HALVINGS = 50  # of a stored box, where the checker's enclosure is wider than the prover's was

Hole = tuple[Fraction, Fraction]


@dataclass(frozen=True)
class Target:
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


def agree_one_layer(network: Network, certificate: Certificate, claim: OneLayerClaim) -> tuple[DeadZone, ...]:
    """Refuse (CertificateError) unless the network is within the bound of its formula outside the dead zones."""
    leaf, stored = require_type(claim.leaf, Leaf), _stored(network, certificate)
    agree_numbers(leaf)
    holes = list(_holes(certificate, claim.dead_zones, stored))
    require(not holes or leaf.rule == "taylor", f"no rule {leaf.rule!r} with dead zones")
    hidden = set(claim.possible_assumptions(certificate.domain)) - set(certificate.assumptions)
    require(not hidden, "the certificate hides a dead zone")
    _agree_layer(stored, certificate, leaf, [_formula(certificate, leaf, stored)], holes)
    return claim.zones_on(certificate.domain)


def agree_samples(network: Network, certificate: Certificate, claim: SampledClaim) -> None:
    """The same for a function that is known by samples."""
    leaf, stored = require_type(claim.leaf, Leaf), _stored(network, certificate)
    agree_numbers(leaf)
    _agree_layer(stored, certificate, leaf, list(_pieces(certificate, leaf, claim.samples, stored)), [])
    said = sampled_in_words(claim.samples)
    require(certificate.formula == said, f"the network computes {said!r}, and the certificate says otherwise")


def _stored(network: Network, certificate: Certificate) -> OneLayer:
    """The one layer, whose heads run in the certificate's kernel on an interval."""
    stored = read_one_layer(network)
    windows = {head.window is not None for head in stored.heads}
    require(windows == {certificate.kernel == "anchor"}, f"the heads do not run in kernel {certificate.kernel!r}")
    lo, hi = certificate.domain.lo, certificate.domain.hi
    require(lo.shape == hi.shape == (1,) and bool(lo[0] < hi[0]), f"the domain from {lo} to {hi} is no interval")
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
    formula = parse_or_refuse(certificate.formula, ("x",), "formula")
    expected = to_text(local_formula(formula, stored.centre, stored.scale, stored.mean))
    require(leaf.formula == expected, f"the layer must compute {expected!r}, but the claim is {leaf.formula!r}")
    return Target(parse_or_refuse(leaf.formula, ("s",), "the layer's formula"))


def _pieces(certificate: Certificate, leaf: Leaf, samples: Samples, stored: OneLayer) -> Iterator[Target]:
    """What it must compute between each two samples, in order."""
    name_is_one = isinstance(leaf.formula, str) and leaf.formula.startswith(OPAQUE)
    require(name_is_one, f"{leaf.formula!r} is not a name of a function given by samples")
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
        tick()
        yield reach(Fraction(lo), Fraction(hi), stored, certificate.dtype, outward=-1)


def _composition(stored: OneLayer, certificate: Certificate, leaf: Leaf) -> None:
    """From the layer's query to the network's input: the query rounds once, adding up rounds a few times."""
    u, smallest = UNIT[certificate.dtype], SMALLEST[certificate.dtype]
    s = max(abs(leaf.lo), abs(leaf.hi))
    query = (u * s if stored.centre else arb(0)) + arb(stored.query_lost)
    # the start of the output and a token's own value take x as it is, while formula and scores take the rounded query
    moves = arb(leaf.lipschitz) + abs(arb(stored.slope) / arb(stored.scale))
    moves += sum((abs(head.weight) * largest(abs(tilt) for tilt in head.tilts) for head in stored.heads), arb(0))
    slip = arb(0) if stored.exact_query else moves * query
    inner = arb(leaf.terms.rounding)
    terms_hold(leaf.terms, inner + slip + adding_up(stored, s, inner, u, smallest), certificate)


def covers(claim: Leaf, stored: OneLayer, lo: float, hi: float, holes: Sequence[Hole], dtype: str) -> None:
    """The claim covers every query that an input between lo and hi can lead to, and the boxes cover the claim but for
    the holes."""
    first, last = reach(Fraction(lo), Fraction(hi), stored, dtype)
    require(
        claim.lo <= first and last <= claim.hi,
        f"queries range over [{float(first)!r}, {float(last)!r}], the claim covers [{claim.lo!r}, {claim.hi!r}]",
    )
    sizes = stored.sizes(max(abs(lo), abs(hi)), max(abs(claim.lo), abs(claim.hi)))
    require(all(size < LARGEST[dtype] for size in sizes), f"a number may overflow {dtype}")
    boxes = claim.boxes
    count_boxes(len(boxes))
    require(boxes.ndim == 2 and boxes.shape[1] == 2 and len(boxes) > 0, f"boxes of shape {boxes.shape}")
    require(bool(np.isfinite(boxes).all() and (boxes[:, 0] <= boxes[:, 1]).all()), "a box is no interval")
    boxes = boxes[np.argsort(boxes[:, 0], kind="stable")]
    covered = np.maximum.accumulate(boxes[:, 1])
    start, end = float(boxes[0, 0]), float(covered[-1])

    def left_out(lo: float, hi: float) -> bool:
        tick()
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


def reach(lo: Fraction, hi: Fraction, stored: OneLayer, dtype: str, outward: int = 1) -> tuple[Fraction, Fraction]:
    """The queries that inputs between lo and hi can lead to; with outward = -1 those that only they can lead to."""
    first, last = sorted((x - Fraction(stored.centre)) * Fraction(stored.scale) for x in (lo, hi))
    if stored.exact_query:
        return first, last
    # a query rounds: relatively, by twice the unit roundoff at most, or to a subnormal number
    slip, least = Fraction(2) ** (1 - FORMATS[dtype].bits), Fraction(stored.query_lost)
    return first - outward * (slip * abs(first) + least), last + outward * (slip * abs(last) + least)


def layer_holds(
    stored: OneLayer, claim: Leaf, targets: list[Target], slopes: bool, holes: Sequence[Hole], floats: bool = True
) -> None:
    """Every term of the claim, and the slope of the formula if it is needed: where a query is not exact.

    floats: whether s is a number that was computed and stored, and not any real one: the arguments of a prompt's tables
    are inner products that no float need be.
    """
    if claim.rule == "nearest":
        formula = targets[0].formula
        require(stored.slope == 0, "the rule 'nearest' is for heads alone")
        found = examine_nearest(
            stored.heads, formula, arb(claim.lo), arb(claim.hi), [(_ball(a), _ball(b)) for a, b in holes]
        )
        _compare(found, claim, "the whole domain")
        if slopes:
            _slopes(formula, claim)
        return
    require(claim.rule == "taylor", f"no rule {claim.rule!r}")
    slope = arb(stored.slope) / arb(stored.scale)
    hold(len(claim.boxes), each=_BYTES_OF_A_BOX)
    boxes = [(heads, target, a, b, MAX_HALVINGS) for heads, target, a, b in _cut(_seen(stored, claim), targets)]
    while boxes:
        count_boxes(1)
        heads, target, a, b, halvings = boxes.pop()
        found = target.within(examine(heads, slope, target.formula, arb(a), arb(b)), a, b)
        middle = a / 2 + b / 2
        if halvings and a < b and not _holds(found, claim, not slopes):
            ends = [(a, middle), (middle, b)] if a < middle < b else []
            if floats and math.nextafter(a, math.inf) >= b:  # no float lies between: only the ends are queries
                ends = [(a, a), (b, b)]
                if slopes:
                    _slope(found.lipschitz, claim, a, b)
            boxes += [(heads, target, *end, halvings - 1) for end in ends]
            if ends:
                continue
        _compare(found, claim, f"[{a!r}, {b!r}]")
        if slopes:
            _slope(found.lipschitz, claim, a, b)


def _seen(stored: OneLayer, claim: Leaf) -> Iterator[tuple[list[StoredHead], float, float]]:
    """The boxes, with the keys that the heads see there. A box is cut where the nearest anchor of a window changes; a
    query half way between two anchors may round to either, so both count."""
    if all(head.window is None for head in stored.heads):
        yield from ((stored.heads, a, b) for a, b in claim.boxes.tolist())
        return
    for a, b in claim.boxes.tolist():
        for i in range(math.ceil(a - 0.5), math.floor(b + 0.5) + 1):
            tick()
            left, right = max(a, i - 0.5), min(b, i + 0.5)
            if left <= right:
                yield [in_window(head, i) for head in stored.heads], left, right


def _cut(
    boxes: Iterator[tuple[list[StoredHead], float, float]], targets: list[Target]
) -> Iterator[tuple[list[StoredHead], Target, float, float]]:
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
            tick()
            if left <= right:
                require(left <= reached, f"no piece covers what follows [{reached!r}]")
                reached = max(reached, right)
                yield heads, target, max(a, left), min(b, right)
        require(reached >= b, f"no piece covers what follows [{reached!r}]")


def _ball(x: Fraction) -> arb:
    return arb(x.numerator) / arb(x.denominator)


def _float_below(x: Fraction) -> float:
    nearest = float(x)
    return nearest if Fraction(nearest) <= x else math.nextafter(nearest, -math.inf)


def _holds(found: Found, claim: Leaf, exact_query: bool) -> bool:
    terms = dataclasses.asdict(claim.terms).items()
    return all(bool(getattr(found, name) <= limit) for name, limit in terms) and (
        exact_query or bool(found.lipschitz <= claim.lipschitz)
    )


def _compare(found: Found, claim: Leaf, where: str) -> None:
    for name, limit in dataclasses.asdict(claim.terms).items():
        shown = getattr(found, name)
        require(shown <= limit, f"{name} on {where}: {short(shown)} could be shown, {limit:.6g} is claimed")


def _slopes(formula: Expression, claim: Leaf) -> None:
    """The slope on every box; where its enclosure is too wide, on the halves."""
    boxes = [(a, b, MAX_HALVINGS) for a, b in claim.boxes.tolist()]
    while boxes:
        count_boxes(1)
        a, b, halvings = boxes.pop()
        found, middle = series(formula, arb(a).union(arb(b)), 1)[1], a / 2 + b / 2
        if halvings and a < middle < b and not abs(found) <= claim.lipschitz:
            boxes += [(a, middle, halvings - 1), (middle, b, halvings - 1)]
        else:
            _slope(found, claim, a, b)


def _slope(found: arb, claim: Leaf, a: float, b: float) -> None:
    shown = abs(found)
    require(
        shown <= claim.lipschitz,
        f"slope on [{a!r}, {b!r}]: {short(shown)} could be shown, {claim.lipschitz:.6g} is claimed",
    )


def adding_up(stored: OneLayer, s: float, spent: arb, u: arb, smallest: arb) -> arb:
    """slope x + mean + weighted heads: every term goes through all additions, and through its own products."""
    starts = bool(stored.slope or stored.mean)
    additions = len(stored.heads) + starts - 1
    start = additions + (not exact_factor(arb(stored.slope))) + bool(stored.slope and stored.mean)
    total = start * (abs(arb(stored.slope)) * s / stored.scale + abs(arb(stored.mean)))
    counts = [additions + (not exact_factor(head.weight)) for head in stored.heads]
    for head, count in zip(stored.heads, counts, strict=True):
        total += count * (abs(head.weight) * stored.largest_value(head, s) + spent)
    lost = (2 * len(stored.heads) + 2) * smallest  # also a power of two may lead below the normal range
    # x, the heads' results and the output enter a product each
    enters = abs(arb(stored.slope)) + sum((abs(head.weight) for head in stored.heads), arb(1))
    lost += arb(stored.machine.flushed) * enters
    return u * total * (1 + 8 * (len(stored.heads) + 2) * u) + lost


def exact_factor(factor: arb) -> bool:
    """Whether products with it are exact: 0 or a power of two."""
    return bool(factor == 0) or abs(math.frexp(float(factor))[0]) == 0.5
