"""The prover for a head of several variables: boxes and error terms, with outward rounding in numpy.

On a box m + [-r, r] the head is N(t) / D(t) with D(t) = sum w_j e^{d_j.t}, w_j the weights at m and d_j the slopes
around their mean. Taylor coefficients of N - F D at m below a total degree K cancel almost entirely; what is left
is bounded along rays, sum w_j |v_j| (|d_j|.r)^K / K! e^{|d_j|.r} and F's coefficient of order K in every direction
of the box. D >= e^{-|sum w_j d_j|.r} by Jensen's inequality.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from weightwright.claims.certificate import MAX_TOKENS, Terms
from weightwright.enclosures.intervals.intervals import ONE, TINY, ZERO, Interval, exp, up
from weightwright.enclosures.intervals.jets import jet_along
from weightwright.enclosures.intervals.polynomials import (
    Indices,
    Monomials,
    coefficients,
    largest_on_box,
    monomials,
    multiply,
)
from weightwright.expressions import Expression
from weightwright.numbers import Bools, Floats
from weightwright.prover.rounding import DOT, HeadOnBox, moved_by
from weightwright.prover.vector_rounding import VectorAnchors, log_errors, rounding_anywhere, score_errors

#: The total degree K of what is left, by the number of variables.
ORDER = {1: 10, 2: 10, 3: 10}
FIRST_BOXES = {1: 16, 2: 4, 3: 2}  # along each axis
POINTS = {1: 64, 2: 12, 3: 5}  # along each axis, where rounding is looked at
MAX_HALVINGS = 60
LOOSE = 1.05  # boxes this much above the rounding term of points are halved, where the total matters
STALLED = 0.95  # a half that keeps more than this of its parent's bound, close to the middle's error, is left alone
SLACK = 1.0 + 2.0**-8  # what is claimed above what was found: the checker goes another way
NEGLIGIBLE = 1e-3  # rounding below this part of the target is not looked at closely
_AT_ONCE = 2**21  # numbers in a table of monomials


@dataclass(frozen=True)
class VectorProof:
    """Boxes that cover the domain and terms that hold on each of them; NaN where nothing was proven.

    complete: whether every box was halved as far as it helps, and not only as far as the limit allowed.
    """

    boxes: Floats  # (number, 2, d)
    terms: Terms
    lipschitz: Floats  # (d,)
    complete: bool


@dataclass(frozen=True)
class _Case:
    """A head, its formula and its dtype; a crude bound on rounding where that is good enough."""

    anchors: VectorAnchors
    formula: Expression
    dtype: str
    crude_rounding: float | None


@dataclass(frozen=True)
class _VectorBoxes:
    """Upper bounds for each of some boxes, and the axis to halve next."""

    approximation: Floats
    at_middle: Floats
    leakage: Floats
    rounding: Floats
    lipschitz: Floats  # (boxes, d)
    axis: Floats

    def kept(self, which: Bools) -> _VectorBoxes:
        return _VectorBoxes(*(getattr(self, name)[which] for name in self.__dataclass_fields__))


@dataclass(frozen=True)
class Goal:
    """What a proof should reach: the approximation term alone, all terms together, and with how many boxes at most."""

    approximation: float
    total: float
    boxes: int


def prove_vector(
    anchors: VectorAnchors, formula: Expression, lo: Floats, hi: Floats, dtype: str, goal: Goal
) -> VectorProof:
    """Bound the head against the formula on the box, halving parts that are above the goal."""
    crude = rounding_anywhere(anchors, lo, hi, dtype)
    case = _Case(anchors, formula, dtype, crude if crude < NEGLIGIBLE * goal.approximation else None)
    target, most = goal.approximation, goal.boxes
    tight = _tight_rounding(case, lo, hi)
    a, b = _grid(lo, hi, FIRST_BOXES[len(lo)])
    before = np.full(len(a), np.inf)
    done: list[tuple[Floats, Floats, _VectorBoxes]] = []
    count, complete = 0, True
    for halving in range(MAX_HALVINGS + 1):
        found = _bound(case, a, b)
        rows, axis = np.arange(len(a)), found.axis.astype(np.int64)
        middle = a[rows, axis] / 2 + b[rows, axis] / 2
        splittable = (a[rows, axis] < middle) & (middle < b[rows, axis])
        stalled = (found.approximation <= 2 * found.at_middle) & (found.approximation > STALLED * before)
        inflated = (found.rounding > LOOSE * tight) & (found.approximation + found.rounding > goal.total)
        over = ((~(found.approximation <= target) & ~stalled) | inflated) & splittable
        count += len(a)
        if over.any() and (halving == MAX_HALVINGS or count + 2 * int(over.sum()) > most):
            over[:], complete = False, False
        done.append((a[~over], b[~over], found.kept(~over)))
        if not over.any():
            break
        before = np.tile(found.approximation[over], 2)
        a, b = _halved(a[over], b[over], axis[over], middle[over])
    return _collect(done, complete)


def _tight_rounding(case: _Case, lo: Floats, hi: Floats) -> float:
    """The rounding term on boxes that are points: what no halving can beat."""
    if case.crude_rounding is not None:
        return case.crude_rounding
    a, b = _grid(lo, hi, POINTS[len(lo)])
    points = np.concatenate([a, b])
    return float(np.nanmax(_bound(case, points, points).rounding, initial=0.0))


def _grid(lo: Floats, hi: Floats, count: int) -> tuple[Floats, Floats]:
    edges = [np.linspace(x, y, count + 1) for x, y in zip(lo, hi, strict=True)]
    ends = [
        np.stack([part.ravel() for part in np.meshgrid(*which, indexing="ij")], axis=1)
        for which in ([e[:-1] for e in edges], [e[1:] for e in edges])
    ]
    return ends[0], ends[1]


def _halved(a: Floats, b: Floats, axis: Indices, middle: Floats) -> tuple[Floats, Floats]:
    rows = np.arange(len(a))
    left_end, right_start = b.copy(), a.copy()
    left_end[rows, axis] = right_start[rows, axis] = middle
    return np.concatenate([a, right_start]), np.concatenate([left_end, b])


def _collect(done: list[tuple[Floats, Floats, _VectorBoxes]], complete: bool) -> VectorProof:
    boxes = np.concatenate([np.stack([a, b], axis=1) for a, b, _ in done])

    def worst(name: str) -> Floats:
        found: Floats = np.concatenate([getattr(part, name) for _, _, part in done]).max(axis=0) * SLACK
        return found

    terms = Terms(*(float(worst(name)) for name in ("approximation", "leakage", "rounding")))
    return VectorProof(boxes, terms, 2.0 * worst("lipschitz"), complete)


def _bound(case: _Case, a: Floats, b: Floats) -> _VectorBoxes:
    """Some boxes at a time, so that the tables of monomials stay small."""
    d = a.shape[1]
    rows = len(monomials(d, ORDER[d] - 1).degrees)
    step = max(1, _AT_ONCE // (rows * len(case.anchors.values)))
    with np.errstate(all="ignore"):
        parts = [_some(case, a[i : i + step], b[i : i + step]) for i in range(0, len(a), step)]
    return _VectorBoxes(
        *(np.concatenate([getattr(part, name) for part in parts]) for name in _VectorBoxes.__dataclass_fields__)
    )


def _some(case: _Case, a: Floats, b: Floats) -> _VectorBoxes:
    anchors, formula = case.anchors, case.formula
    d, names = a.shape[1], [f"s{i}" for i in range(a.shape[1])]
    at = _AtMiddle(anchors, a, b)
    point = coefficients(formula, names, at.m, ORDER[d] - 1)
    centre = np.nan_to_num(point.middle()[0])  # subtracted from values and formula alike
    point = _shifted(point, centre)
    box = {name: Interval(a[:, i], b[:, i]) for i, name in enumerate(names)}
    rays = {name: Interval(-at.r[:, i], at.r[:, i]) for i, name in enumerate(names)}
    beyond = jet_along(formula, box, rays, ORDER[d])
    beyond = [_spread(x, centre) for x in (beyond[0] - Interval.exact(centre), *beyond[1:])]
    high, at_middle = at.distance(centre, point, beyond, ORDER[d])
    low, _ = at.distance(centre, point[:1], beyond, 1)  # all that is left at a kink
    approximation = np.fmin(high, low)
    crude = case.crude_rounding
    away = up(beyond[0].magnitude() + approximation)
    return _VectorBoxes(
        approximation,
        at_middle,
        at.leakage(),
        at.rounding(centre, away, case.dtype) if crude is None else np.full(len(a), crude),
        np.stack([_slope(formula, box, name, centre) for name in names], axis=1),
        at.axis().astype(np.float64),
    )


def _shifted(point: Interval, centre: Floats) -> Interval:
    first = point[:1] - Interval.exact(centre)
    return Interval(np.concatenate([first.lo, point.lo[1:]]), np.concatenate([first.hi, point.hi[1:]]))


def _spread(x: Interval, like: Floats) -> Interval:
    return Interval(np.broadcast_to(x.lo, like.shape), np.broadcast_to(x.hi, like.shape))


def _slope(formula: Expression, box: dict[str, Interval], name: str, like: Floats) -> Floats:
    """(boxes,): a bound on the derivative along one axis."""
    step = {other: ONE if other == name else ZERO for other in box}
    return _spread(jet_along(formula, box, step, 1)[1], like).magnitude()


class _AtMiddle:
    """Everything about the head at the middle of each box; arrays are (boxes, anchors) unless noted."""

    def __init__(self, anchors: VectorAnchors, a: Floats, b: Floats) -> None:
        self.anchors, self.a, self.b = anchors, a, b
        self.m = a / 2 + b / 2
        self.r = up(np.maximum(b - self.m, self.m - a))  # (boxes, d)
        z = self._scores(self.m)
        rows, top = np.arange(len(a)), z.lo.argmax(axis=1)
        relative = self._scores(self.m, top)
        relative.lo[rows, top] = relative.hi[rows, top] = 0.0
        self.z, self.top_score, self.top_slope = z, z[rows, top], anchors.slopes[top]
        weight = exp(relative)
        self.w = weight / _column(weight.sum())
        kappa = self.w.middle() @ anchors.slopes
        self.d = Interval.exact(anchors.slopes) - Interval.exact(kappa[:, None, :])  # (boxes, anchors, d)
        self.plain_d = anchors.slopes - kappa[:, None, :]  # off by a unit roundoff at most
        self.reach = (self.d.absolute() * Interval.exact(self.r[:, None, :])).sum()  # |d_j|.r
        means = (Interval(self.w.lo[:, None], self.w.hi[:, None]) * _axes_first(self.d)).sum()  # (boxes, d)
        self.drift = exp((means.absolute() * Interval.exact(self.r)).sum())  # (boxes,)
        self.growth = exp(self.reach)

    def _scores(self, s: Floats, top: Floats | None = None) -> Interval:
        """Scores at s, or their differences from the top one: common parts cancel before anything rounds."""
        k, c = Interval.exact(self.anchors.slopes), Interval.exact(self.anchors.offsets)
        if top is not None:
            k = k - Interval.exact(self.anchors.slopes[top][:, None, :])
            c = c - Interval.exact(self.anchors.offsets[top][:, None])
        total = (k * Interval.exact(s[:, None, :])).sum() + c
        return Interval(total.lo.copy(), total.hi.copy())

    def axis(self) -> Floats:
        """(boxes,): the axis along which the head changes most."""
        spread = np.sqrt((self.w.middle()[:, :, None] * self.plain_d**2).sum(axis=1))
        return np.argmax(np.where(self.b > self.a, self.r * spread, 0.0), axis=1)

    def distance(self, centre: Floats, point: Interval, beyond: list[Interval], order: int) -> tuple[Floats, Floats]:
        """(boxes,): upper bounds on |N/D - F| over the box, by Taylor models of the order, and at its middle."""
        table = monomials(self.a.shape[1], order - 1)
        N, D = self._moments(centre, table)
        gap = N - multiply(point, D, table)
        formula = point.absolute() * _powers(self.r, table)
        tails, value_tail = self._tails(centre, order)
        total = Interval.exact(largest_on_box(gap, self.r, table)) + value_tail
        for k in range(order):
            part = formula[table.degrees == k]
            total = total + Interval(part.lo.T, part.hi.T).sum() * tails[order - k]
        last = beyond[order].absolute()
        if order == 1:  # where the slope is unknown or infinite, how far the formula moves
            moves = (beyond[0] - point[0]).absolute()
            last = Interval(np.fmin(last.lo, moves.lo), np.fmin(last.hi, moves.hi))
        total = total + last * tails[0]
        return (total * self.drift).hi, gap[0].magnitude()

    def _moments(self, centre: Floats, table: Monomials) -> tuple[Interval, Interval]:
        """(monomials, boxes) each: coefficients of N and D, in plain floats with what they may be off by.

        A monomial of degree n is off by 3 n roundings at most, a weight by the width of its interval, the deviation
        of a value by one rounding, a sum of p terms by p.
        """
        basis = np.empty((*self.w.lo.shape, len(table.degrees)))
        basis[..., 0] = 1.0
        for k in range(1, len(table.degrees)):
            axis = int(np.flatnonzero(table.exponents[k])[0])
            before = table.exponents[k].copy()
            before[axis] -= 1
            parent = int(np.flatnonzero((table.exponents == before).all(axis=1))[0])
            basis[..., k] = basis[..., parent] * self.plain_d[..., axis] / table.exponents[k, axis]
        deviation = self.anchors.values - centre[:, None]
        weight = self.w.middle()
        units = 3.0 * table.degree + basis.shape[1] + 16.0
        doubt = (self.w.hi - self.w.lo) + self.w.hi * (units * 2.0**-53)
        sums = np.stack([weight * deviation, weight], axis=1) @ basis  # (boxes, 2, monomials)
        off = np.stack([doubt * np.abs(deviation), doubt], axis=1) @ np.abs(basis)
        off = off * (1.0 + 2.0**-20) + basis.shape[1] * TINY * (1.0 + np.abs(basis).max(axis=(1, 2)))[:, None, None]
        found = Interval.exact(sums) + Interval(-off, off)
        return tuple(Interval(found.lo[:, i].T, found.hi[:, i].T) for i in (0, 1))  # type: ignore[return-value]

    def _tails(self, centre: Floats, order: int) -> tuple[list[Interval], Interval]:
        """sum w_j (|d_j|.r)^k / k! e^{|d_j|.r} for k up to the order, and the last with |v_j - centre|."""
        term = self.w * self.growth
        tails = [term.sum()]
        for k in range(1, order + 1):
            term = term * self.reach / Interval.exact(float(k))
            tails.append(term.sum())
        deviation = (Interval.exact(self.anchors.values) - Interval.exact(centre[:, None])).absolute()
        return tails, (term * deviation).sum()

    def leakage(self) -> Floats:
        """(boxes,): what MAX_TOKENS hidden keys can add if a plain Transformer sees them."""
        fall = (Interval.exact(np.abs(self.top_slope)) * Interval.exact(self.r)).sum()
        weight = exp(Interval.exact(self.anchors.hidden) - (self.top_score - fall))
        largest = float(np.abs(self.anchors.values).max())
        return (weight * Interval.exact(2.0 * MAX_TOKENS * largest)).hi

    def rounding(self, centre: Floats, away: Floats, dtype: str) -> Floats:
        """(boxes,): the rounding model, fed with bounds over the box; away bounds |g - centre|."""
        deviation = (Interval.exact(self.anchors.values) - Interval.exact(centre[:, None])).absolute()
        k = Interval.exact(np.abs(self.anchors.slopes))
        scores = self.z.absolute() + (k * Interval.exact(self.r[:, None, :])).sum()
        gaps = self._gaps()
        sizes = HeadOnBox(
            query=np.zeros((len(self.a), 1)),  # these two would only lead to the errors that are given below
            slopes=np.zeros(len(self.anchors.values)),
            scores=scores.hi,
            gaps=gaps,
            weights=(self.w * self.growth * _column(self.drift)).hi,
            deviations=(deviation + Interval.exact(away[:, None])).hi,
            values=np.broadcast_to(np.abs(self.anchors.values), scores.hi.shape),
            roundings=np.full_like(scores.hi, DOT),
            output=up(np.abs(centre) + away)[:, None],
            top=self.z.lo.argmax(axis=1),
        )
        off = score_errors(self.anchors, np.maximum(np.abs(self.a), np.abs(self.b)), scores, dtype)
        return moved_by(sizes, log_errors(off, gaps, dtype), dtype)

    def _gaps(self) -> Floats:
        """max_i z_i - z_j over the box: convex in s, so largest at a corner."""
        gaps = np.zeros_like(self.w.lo)
        for corner in product((False, True), repeat=self.a.shape[1]):
            z = self._scores(np.where(np.array(corner), self.b, self.a))
            gaps = np.maximum(gaps, (Interval.exact(z.hi.max(axis=1, keepdims=True)) - z).hi)
        return gaps


def _powers(r: Floats, table: Monomials) -> Interval:
    """(monomials, boxes): the largest |t^alpha| on the box."""
    out = np.ones((len(table.degrees), len(r)))
    for k, exponents in enumerate(table.exponents):
        for axis, exponent in enumerate(exponents):
            for _ in range(exponent):
                out[k] = up(out[k] * r[:, axis])
    return Interval(np.zeros_like(out), out)


def _axes_first(d: Interval) -> Interval:
    return Interval(d.lo.transpose(0, 2, 1), d.hi.transpose(0, 2, 1))


def _column(x: Interval) -> Interval:
    return Interval(x.lo[:, None], x.hi[:, None])
