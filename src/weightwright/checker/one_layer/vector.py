"""The checker's rules for a head of several variables: what a certificate with a `VectorLayerClaim` must satisfy.

On a box m + [-r, r] with weights p_j at m and slopes d_j around their mean, N(t) = sum p_j v_j e^{d_j.t} and
D(t) = sum p_j e^{d_j.t}; the head is N/D. G = N - F D is a polynomial below the total degree K, bounded by its
Bernstein coefficients, and what is left: N and D beyond the degree K, F beyond it somewhere on the ray to t, and the
products of F's polynomial with what D has in the degrees that are missing.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np
from flint import arb, arb_mat

from weightwright.checker.core.complaints import (
    LARGEST,
    agree_numbers,
    parse_or_refuse,
    require,
    require_type,
    short,
    terms_hold,
)
from weightwright.checker.core.rounding import SMALLEST, UNIT, coarse, exp_error, moved_by
from weightwright.checker.one_layer.head import leakage
from weightwright.checker.one_layer.stored_vector import VectorHead, read_vector_head
from weightwright.claims.certificate import VARIABLES, Certificate, vector_formula
from weightwright.claims.leaf import VectorLeaf
from weightwright.claims.one_layer_claims import VectorLayerClaim
from weightwright.enclosures.balls.cover import is_covered
from weightwright.enclosures.balls.polynomials import Degrees, expand, largest_on_box, multiply, shape
from weightwright.enclosures.balls.series import largest, series_along
from weightwright.expressions import Expression, to_text
from weightwright.limits import count_boxes, hold, tick
from weightwright.network import Network
from weightwright.numbers import FORMATS

ORDER = {2: 12, 3: 10}  # the total degree K, by the number of variables
#: How many boxes may be halved, where the checker's enclosure is wider: for each stored one, and in all.
HALVINGS = (2, 200)
#: What a ball of a few bits takes in memory.
_BYTES_OF_A_BALL = 96


def agree_vector(network: Network, certificate: Certificate, vector: VectorLayerClaim) -> None:
    """Refuse (CertificateError) unless the network is within the bound of its formula of several numbers."""
    claim, d = require_type(vector.leaf, VectorLeaf), len(network.inputs)
    agree_numbers(claim)
    require(certificate.kernel == "dot", "several variables go with kernel 'dot'")
    require(claim.layer == 0, f"the claim is about layer {claim.layer}")
    require(claim.rule == "taylor", f"no rule {claim.rule!r}")
    require(d in ORDER, f"no rule for {d} variables")
    _shapes(certificate, claim, d)
    stored = read_vector_head(network)
    _domain(certificate, claim, stored)
    formula = parse_or_refuse(certificate.formula, VARIABLES[:d], "formula")
    expected = to_text(vector_formula(formula, stored.centres, stored.scales, stored.mean))
    require(claim.formula == expected, f"the head must compute {expected!r}, but the claim is {claim.formula!r}")
    names = tuple(f"s{i}" for i in range(d))
    local, slopes = parse_or_refuse(claim.formula, names, "the head's formula"), [not exact for exact in stored.exact]
    head_holds(Examiner(stored, local, names, claim, slopes), claim)
    _composition(stored, certificate, claim)


def _shapes(certificate: Certificate, claim: VectorLeaf, d: int) -> None:
    lo, hi = certificate.domain.lo, certificate.domain.hi
    require(
        lo.shape == hi.shape == (d,) and bool((lo < hi).all() and np.isfinite([lo, hi]).all()),
        f"the domain {certificate.domain} is no box of {d} intervals",
    )
    claims_a_box(claim, d)


def claims_a_box(claim: VectorLeaf, d: int) -> None:
    """The claim is about a box of d axes, with boxes and slopes of as many."""
    require(claim.lo.shape == claim.hi.shape == claim.lipschitz.shape == (d,), "a claim of another number of axes")
    require(bool((np.isfinite(claim.lipschitz) & (claim.lipschitz >= 0)).all()), "a slope's bound is no number")
    require(bool(np.isfinite([claim.lo, claim.hi]).all() and (claim.lo < claim.hi).all()), "the claim has no box")
    boxes = claim.boxes
    require(boxes.ndim == 3 and boxes.shape[1:] == (2, d) and len(boxes) > 0, f"boxes of shape {boxes.shape}")
    require(bool(np.isfinite(boxes).all() and (boxes[:, 0] <= boxes[:, 1]).all()), "a box is no box")


def _domain(certificate: Certificate, claim: VectorLeaf, stored: VectorHead) -> None:
    """The claim covers every query that an input of the domain can lead to, and the boxes cover the claim."""
    dtype = certificate.dtype
    for i, exact in enumerate(stored.exact):
        centre, scale = Fraction(stored.centres[i]), Fraction(stored.scales[i])
        ends = [(Fraction(float(x[i])) - centre) * scale for x in (certificate.domain.lo, certificate.domain.hi)]
        first, last = sorted(ends)
        if not exact:  # a query rounds: relatively, by twice the unit roundoff at most, or to a subnormal number
            slip, least = Fraction(2) ** (1 - FORMATS[dtype].bits), Fraction(stored.query_lost(i))
            first, last = first - slip * abs(first) - least, last + slip * abs(last) + least
        require(
            Fraction(float(claim.lo[i])) <= first and last <= Fraction(float(claim.hi[i])),
            f"query {i} ranges over [{float(first)!r}, {float(last)!r}], the claim covers"
            f" [{float(claim.lo[i])!r}, {float(claim.hi[i])!r}]",
        )
    x = np.maximum(np.abs(certificate.domain.lo), np.abs(certificate.domain.hi)).tolist()
    s = np.maximum(np.abs(claim.lo), np.abs(claim.hi)).tolist()
    require(all(size < LARGEST[dtype] for size in stored.sizes(x, s)), f"a number may overflow {dtype}")
    require(is_covered(claim.lo, claim.hi, claim.boxes), "the boxes do not cover the claim")


def head_holds(examiner: Examiner, claim: VectorLeaf) -> None:
    """Every term of the claim on every box; where the enclosure is too wide, on its halves."""
    count_boxes(len(claim.boxes))
    boxes = [(a, b) for a, b in claim.boxes.tolist()]
    budget = HALVINGS[0] * len(boxes) + HALVINGS[1]
    while boxes:
        count_boxes(1)
        a, b = boxes.pop()
        found = examiner.examine(a, b)
        complaint = found.complaint(claim)
        if not complaint:
            continue
        axis, budget = found.axis, budget - 1
        middle = a[axis] / 2 + b[axis] / 2
        where = " x ".join(f"[{x!r}, {y!r}]" for x, y in zip(a, b, strict=True))
        require(budget > 0 and a[axis] < middle < b[axis], f"{complaint} on {where}")
        boxes += [
            (a, [middle if i == axis else y for i, y in enumerate(b)]),
            ([middle if i == axis else x for i, x in enumerate(a)], b),
        ]


@dataclass(frozen=True)
class _Found:
    """Upper bounds on one box; a NaN says that nothing could be shown. axis: along which to halve."""

    terms: dict[str, arb]
    slopes: list[arb]
    axis: int

    def complaint(self, claim: VectorLeaf) -> str:
        """What is claimed and could not be shown; empty if there is nothing."""
        for name, limit in dataclasses.asdict(claim.terms).items():
            if not self.terms[name] <= limit:
                return f"{name}: {short(self.terms[name])} could be shown, {limit:.6g} is claimed"
        for i, (slope, limit) in enumerate(zip(self.slopes, claim.lipschitz.tolist(), strict=True)):
            if not slope <= limit:
                return f"slope along axis {i}: {short(slope)} could be shown, {limit:.6g} is claimed"
        return ""


class Examiner:
    """One head and one formula, to be looked at box by box. slopes: for each axis, whether that of the formula is."""

    def __init__(
        self, stored: VectorHead, formula: Expression, names: Sequence[str], claim: VectorLeaf, slopes: Sequence[bool]
    ) -> None:
        self.stored, self.formula, self.names, self.sloped = stored, formula, names, slopes
        self.d = len(names)
        self.head, self.slopes = stored.plain, stored.slopes
        self.keys = arb_mat([list(row) for row in zip(*stored.slopes, strict=True)])  # (p, d)
        self.shape = shape(self.d, ORDER[self.d] - 1)
        self.powers = _monomial_table(stored.slopes, self.shape)  # (monomials, p)
        self.limit = claim.terms.rounding
        reach = [arb(x).max(arb(y)) for x, y in zip(np.abs(claim.lo).tolist(), np.abs(claim.hi).tolist(), strict=True)]
        self.simple_rounding = self._rounding_anywhere(reach)

    def examine(self, a: Sequence[float], b: Sequence[float]) -> _Found:
        """Everything that can be shown on the box from a to b."""
        m = [((arb(x) + arb(y)) / 2).mid() for x, y in zip(a, b, strict=True)]
        r = [(arb(y) - c).max(c - arb(x)).upper() for x, y, c in zip(a, b, m, strict=True)]
        box = [c + arb(0, radius) for c, radius in zip(m, r, strict=True)]
        scores = self._scores(m)
        top = max(range(len(scores)), key=lambda j: float(scores[j].mid()))
        weights = [(z - scores[top]).exp() for z in scores]
        total = sum(weights, arb(0))
        p = [w / total for w in weights]
        local = _Local(self, p, r)
        lines = {name: (x, arb(0, radius)) for name, x, radius in zip(self.names, box, r, strict=True)}
        on_rays = series_along(self.formula, lines, ORDER[self.d])
        point = expand(self.formula, self.names, m, ORDER[self.d] - 1)
        centre = point[0].mid() if point[0].is_finite() else arb(0)
        point[0], on_rays[0] = point[0] - centre, on_rays[0] - centre
        approximation = local.distance(centre, point, on_rays)
        away = on_rays[0].abs_upper() + approximation  # |output - centre|
        fall = sum((abs(k[top]) * radius for k, radius in zip(self.slopes, r, strict=True)), arb(0))
        rounding = self.simple_rounding
        if not rounding <= self.limit:
            rounding = local.rounding(box, scores, centre, away)
        terms = {"approximation": approximation, "leakage": self._leakage(scores[top] - fall)}
        slopes = [self._slope(box, i) if wanted else arb(0) for i, wanted in enumerate(self.sloped)]
        return _Found(terms | {"rounding": rounding}, slopes, local.axis(a, b))

    def _leakage(self, highest: arb) -> arb:
        if self.head.hidden is None:
            return arb(0)
        return leakage(self.head.hidden, highest, largest(abs(v) for v in self.head.values))

    def _scores(self, s: Sequence[arb]) -> list[arb]:
        products = (self.keys * arb_mat(self.d, 1, list(s))).entries()
        return [z + c for z, c in zip(products, self.head.offsets, strict=True)]

    def _slope(self, box: Sequence[arb], axis: int) -> arb:
        lines = {name: (x, arb(int(i == axis))) for i, (name, x) in enumerate(zip(self.names, box, strict=True))}
        return series_along(self.formula, lines, 1)[1].abs_upper()

    def _rounding_anywhere(self, s: Sequence[arb]) -> arb:
        """A crude bound that holds for every query up to s: all scores as large as the largest."""
        off = self.score_errors(s, [_products(self.slopes, s, j) + abs(c) for j, c in enumerate(self.head.offsets)])
        size = largest(_products(self.slopes, s, j) + abs(c) for j, c in enumerate(self.head.offsets))
        worst = self.log_error(largest(off), 2 * size, largest(off))
        return coarse(self.head, [worst] * len(off), [abs(v) for v in self.head.values])

    def score_errors(self, s: Sequence[arb], scores: Sequence[arb]) -> list[arb]:
        """How far each score can be off, queries at most s and scores at most these: docs/certificates.md."""
        if self.head.off is not None:
            return self.head.off
        u, tiny, d = UNIT[self.head.dtype], SMALLEST[self.head.dtype], self.d
        out = []
        for j, (offset, score) in enumerate(zip(self.head.offsets, scores, strict=True)):
            products = _products(self.slopes, s, j)
            nodes = products + (d - 1) * (products + abs(offset) + score) / 2 + score
            keys = sum((abs(k[j]) for k in self.slopes), arb(0)) / self.stored.beta
            out.append((u * (1 + u) ** d * nodes + (d + keys) * tiny).upper())
        return out

    def log_error(self, off: arb, gap: arb, worst: arb) -> arb:
        """The logarithm of a weight: score, shift by the maximum, exponential."""
        u = UNIT[self.head.dtype]
        return off + u * (1 + u) * (gap + 2 * worst) + exp_error(self.head.dtype)


class _Local:
    """The head around the middle of one box: weights p, slopes around their mean, what they do within r."""

    def __init__(self, examiner: Examiner, p: list[arb], r: list[arb]) -> None:
        self.of, self.p, self.r = examiner, p, r
        slopes = examiner.slopes
        self.mean = [sum((w * k for w, k in zip(p, axis, strict=True)), arb(0)).mid() for axis in slopes]
        self.steps = [[k - centre for k in axis] for axis, centre in zip(slopes, self.mean, strict=True)]
        self.reach = [_products(self.steps, r, j).upper() for j in range(len(p))]  # |d_j|.r
        self.grown = [(w * x.exp()).upper() for w, x in zip(p, self.reach, strict=True)]
        drift = [abs(sum((w * k for w, k in zip(p, axis, strict=True)), arb(0))) for axis in self.steps]
        self.drift = sum((x * radius for x, radius in zip(drift, r, strict=True)), arb(0)).exp().upper()

    def axis(self, a: Sequence[float], b: Sequence[float]) -> int:
        """Along which the head changes most, of those that can be halved."""

        def change(i: int) -> float:
            spread = sum((w * abs(k) for w, k in zip(self.p, self.steps[i], strict=True)), arb(0))
            return float(spread * self.r[i]) if a[i] < a[i] / 2 + b[i] / 2 < b[i] else -1.0

        return max(range(len(self.r)), key=change)

    def distance(self, centre: arb, point: list[arb], on_rays: list[arb]) -> arb:
        """|N/D - F| on the box, at full order, by slopes (all that a kink leaves) and by the range of F."""
        deviations = [v - centre for v in self.of.head.values]
        order = len(on_rays) - 1
        tails, value_tails = [], []
        term = self.grown
        for k in range(order + 1):
            tick()  # an order goes through all keys
            tails.append(sum(term, arb(0)))
            if k in (1, order):
                value_tails.append(sum((t * abs(v) for t, v in zip(term, deviations, strict=True)), arb(0)))
            term = [t * x / (k + 1) for t, x in zip(term, self.reach, strict=True)]
        here = abs(sum((w * v for w, v in zip(self.p, deviations, strict=True)), arb(0)) - point[0])
        by_slope = here + value_tails[0] + abs(point[0]) * tails[1]
        bounds = [by_slope + change * tails[0] for change in (abs(on_rays[1]), abs(on_rays[0] - point[0]))]
        sizes = self._sizes(point)
        beyond = value_tails[-1] + sum(
            (sizes[k] * tails[order - k] for k in range(order)), abs(on_rays[order]) * tails[0]
        )
        if beyond.is_finite() and all(x.is_finite() for x in point):
            bounds.append(largest_on_box(self._gap(deviations, point), self.r, self.of.shape) + beyond)
        finite = [(bound * self.drift).upper() for bound in bounds if bound.is_finite()]
        return min(finite, key=float).upper() if finite else arb.nan()

    def _sizes(self, point: list[arb]) -> list[arb]:
        """For each degree, how large the terms of F's polynomial get together on the box."""
        within = self.of.shape
        sizes = [arb(0)] * (within.degree + 1)
        for coefficient, exponents in zip(point, within.monomials, strict=True):
            size = abs(coefficient)
            for radius, e in zip(self.r, exponents, strict=True):
                size *= radius**e
            sizes[sum(exponents)] += size
        return sizes

    def _gap(self, deviations: list[arb], point: list[arb]) -> list[arb]:
        """The coefficients of N - F D: with the stored slopes first, then times e^{-mean.t}."""
        within = self.of.shape
        moments = arb_mat([[w * v, w] for w, v in zip(self.p, deviations, strict=True)])
        both = (self.of.powers * moments).entries()
        gap = [n - fd for n, fd in zip(both[::2], multiply(point, both[1::2], within), strict=True)]
        return multiply(gap, _exponential([-x for x in self.mean], within), within)

    def rounding(self, box: Sequence[arb], scores: list[arb], centre: arb, away: arb) -> arb:
        """docs/certificates.md, "Rounding": scores, shift, exponential; then sums and products."""
        of = self.of
        sizes = [(abs(z) + _products(of.slopes, self.r, j)).upper() for j, z in enumerate(scores)]
        off = of.score_errors([x.abs_upper() for x in box], sizes)
        worst = largest(off)
        errors = [of.log_error(d, gap, worst) for d, gap in zip(off, self._gaps(box), strict=True)]
        # log p_j is concave in s, so it stays below its tangent at the middle
        p = [(w * self.drift).upper() for w in self.grown]
        shifts = [abs(v - centre) + away for v in of.head.values]
        values = [abs(v) for v in of.head.values]
        top = max(range(len(scores)), key=lambda j: float(scores[j].mid()))
        return moved_by(of.head, p, errors, shifts, values, abs(centre) + away, top)

    def _gaps(self, box: Sequence[arb]) -> list[arb]:
        """max_i z_i - z_j over the box: convex in s, so largest at a corner."""
        gaps = [arb(0)] * len(self.p)
        for signs in product((-1, 1), repeat=len(box)):
            corner = [x.mid() + sign * radius for x, sign, radius in zip(box, signs, self.r, strict=True)]
            scores = self.of._scores(corner)
            top = largest(scores)
            gaps = [gap.max((top - z).upper()) for gap, z in zip(gaps, scores, strict=True)]
        return gaps


def _products(slopes: Sequence[Sequence[arb]], s: Sequence[arb], j: int) -> arb:
    """sum over the axes of |k_ji| s_i."""
    return sum((abs(axis[j]) * x for axis, x in zip(slopes, s, strict=True)), arb(0))


def _exponential(slope: Sequence[arb], within: Degrees) -> list[arb]:
    """The coefficients of e^{slope.t}."""
    tick()
    out = []
    for exponents in within.monomials:
        term = arb(1)
        for x, e in zip(slope, exponents, strict=True):
            term *= x**e / math.factorial(e)
        out.append(term)
    return out


def _monomial_table(slopes: Sequence[Sequence[arb]], within: Degrees) -> arb_mat:
    """Column j: the coefficients of e^{k_j.t}."""
    hold(len(slopes[0]) * len(within), each=_BYTES_OF_A_BALL)
    columns = [_exponential(slope, within) for slope in zip(*slopes, strict=True)]
    return arb_mat([list(row) for row in zip(*columns, strict=True)])


def _composition(stored: VectorHead, certificate: Certificate, claim: VectorLeaf) -> None:
    """From the head's query to the network's input: each query rounds once, adding the mean rounds once."""
    u, slip = UNIT[certificate.dtype], arb(0)
    for i, exact in enumerate(stored.exact):
        s = max(abs(float(claim.lo[i])), abs(float(claim.hi[i])))
        query = (u * s if stored.centres[i] else arb(0)) + arb(stored.query_lost(i))
        slip += arb(0) if exact else arb(float(claim.lipschitz[i])) * query
    value = largest(abs(v) for v in stored.plain.values)
    final = u * (abs(arb(stored.mean)) + value + arb(claim.terms.rounding)) if stored.mean else arb(0)
    enters = 2 * arb(stored.machine.flushed)  # the head's result and the output enter a product each
    rounding = arb(claim.terms.rounding) + slip + final + enters
    terms_hold(claim.terms, rounding, certificate)
