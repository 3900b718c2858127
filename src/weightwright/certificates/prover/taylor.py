"""The prover: finds boxes and error terms for an anchor head, with outward rounding in numpy.

On a box m + [-r, r] the head is N(t) / D(t) with D(t) = sum w_j e^{d_j t}, w_j the weights at m and
d_j = k_j - kappa the slopes around their mean. Taylor coefficients of N - F D at m (they cancel almost
entirely) and a remainder give the approximation error; D >= e^{-r |D_1|} by Jensen's inequality.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weightwright.certificates.claims import MAX_TOKENS, Terms
from weightwright.certificates.prover.anchors import Anchors, Proof
from weightwright.certificates.prover.intervals import ONE, ZERO, Interval, exp, up
from weightwright.certificates.prover.jets import jet
from weightwright.certificates.prover.rounding import HeadOnBox, rounding_bound
from weightwright.expressions import Expression
from weightwright.network.layers import Floats

ORDER = 10
FIRST_BOXES = 16
MAX_HALVINGS = 50
MAX_BOXES = 1_500
LOOSE = 1.01  # boxes this much above the rounding term of points are halved,
NOTICEABLE = 0.01  # where rounding is more than so much of the target
STALLED = 0.9  # a half that keeps more than this of its parent's bound is not halved again
#: What is claimed above what was found, so that the checker's other route to the same number agrees.
SLACK = 1.0 + 2.0**-9


@dataclass(frozen=True)
class _Boxes:
    """Upper bounds for each of some boxes."""

    approximation: Floats
    at_middle: Floats  # the approximation error at the middle of the box
    leakage: Floats
    rounding: Floats
    lipschitz: Floats


def prove(anchors: Anchors, formula: Expression, lo: float, hi: float, dtype: str, target: float) -> Proof:
    """Bound the head against the formula on [lo, hi], halving boxes until each is below target (or a limit)."""
    edges = np.linspace(lo, hi, FIRST_BOXES + 1)
    a, b = edges[:-1], edges[1:]
    tight = _tight_rounding(anchors, formula, lo, hi, dtype)
    before = np.full(FIRST_BOXES, np.inf)
    done: list[tuple[Floats, Floats, _Boxes]] = []
    boxes = 0
    for halving in range(MAX_HALVINGS + 1):
        found = _bound(anchors, formula, a, b, dtype)
        middle = a / 2 + b / 2
        splittable = (a < middle) & (middle < b)
        # close to the error at the middle itself, and halving did not help: only the prover's own noise is left
        stalled = (found.approximation <= 2 * found.at_middle) & (found.approximation > STALLED * before)
        inflated = (found.rounding > LOOSE * tight) & (found.rounding > NOTICEABLE * target)
        over = ((~(found.approximation <= target) & ~stalled) | inflated) & splittable
        boxes += len(a)
        if halving == MAX_HALVINGS or boxes + 2 * over.sum() > MAX_BOXES:
            over[:] = False
        done.append(
            (
                a[~over],
                b[~over],
                _Boxes(*(getattr(found, name)[~over] for name in found.__dataclass_fields__)),
            )
        )
        if not over.any():
            break
        before = np.tile(found.approximation[over], 2)
        a, b = np.concatenate([a[over], middle[over]]), np.concatenate([middle[over], b[over]])
    return _collect(done)


def _tight_rounding(anchors: Anchors, formula: Expression, lo: float, hi: float, dtype: str) -> float:
    """The rounding term on boxes that are points: what no halving can beat."""
    points = np.linspace(lo, hi, 8 * FIRST_BOXES + 1)
    rounding = _bound(anchors, formula, points, points, dtype).rounding
    return float(np.nanmax(rounding, initial=0.0))


def _collect(done: list[tuple[Floats, Floats, _Boxes]]) -> Proof:
    lows, highs = (np.concatenate([part[i] for part in done]) for i in (0, 1))

    def worst(name: str) -> float:
        return float(np.concatenate([getattr(part[2], name) for part in done]).max()) * SLACK

    boxes = np.stack([lows, highs], axis=1)[np.argsort(lows)]
    return Proof(boxes, Terms(worst("approximation"), worst("leakage"), worst("rounding")), 2.0 * worst("lipschitz"))


def _bound(anchors: Anchors, formula: Expression, a: Floats, b: Floats, dtype: str) -> _Boxes:
    with np.errstate(all="ignore"):
        at = _AtMiddle(anchors, a, b)
        point, box = jet(formula, Interval.exact(at.m), ORDER), jet(formula, Interval(a, b), ORDER)
        centre = np.nan_to_num(_spread(point[0], at.m).middle())  # subtracted from values and formula alike
        point = [_spread(point[0] - Interval.exact(centre), at.m), *(_spread(x, at.m) for x in point[1:])]
        box = [_spread(box[0] - Interval.exact(centre), at.m), *(_spread(x, at.m) for x in box[1:])]
        high_order, at_middle = at.distance(centre, point, box, ORDER)
        low_order, _ = at.distance(centre, point, box, 1)  # all that is left at a kink
        approximation = np.fmin(high_order, low_order)
        return _Boxes(
            approximation,
            at_middle,
            at.leakage(),
            at.rounding(centre, up(box[0].magnitude() + approximation), dtype),
            box[1].magnitude(),
        )


class _AtMiddle:
    """Everything about the head at the middle of each box; arrays are (boxes, anchors)."""

    def __init__(self, anchors: Anchors, a: Floats, b: Floats) -> None:
        self.anchors, self.a, self.b = anchors, a, b
        self.m = a / 2 + b / 2
        self.r = up(np.maximum(b - self.m, self.m - a))
        self.k, self.c, self.v = (Interval.exact(x) for x in (anchors.slopes, anchors.offsets, anchors.values))
        self.z = self.k * Interval.exact(self.m[:, None]) + self.c
        top = self.z.lo.argmax(axis=1)
        rows = np.arange(len(self.m))
        # differences of scores first, so that common parts cancel before rounding
        self.top_slope = anchors.slopes[top]
        relative = (self.k - Interval.exact(self.top_slope[:, None])) * Interval.exact(self.m[:, None]) + (
            self.c - Interval.exact(anchors.offsets[top][:, None])
        )
        relative = Interval(relative.lo.copy(), relative.hi.copy())
        relative.lo[rows, top] = relative.hi[rows, top] = 0.0
        self.top_score = self.z[rows, top]
        weight = exp(relative)
        self.w = weight / _column(weight.sum())
        kappa = (self.w.middle() * anchors.slopes).sum(axis=1)
        self.d = self.k - Interval.exact(kappa[:, None])
        self.reach = self.d.absolute() * Interval.exact(self.r[:, None])  # |d_j| r
        # kappa is not exactly the mean slope; what is left of it drifts over the box
        self.drift = exp((self.w * self.d).sum().absolute() * Interval.exact(self.r))
        self.growth = exp(self.reach)

    def distance(self, centre: Floats, point: list[Interval], box: list[Interval], order: int) -> tuple[Floats, Floats]:
        """(boxes,): upper bounds on |N/D - F| over the box, from Taylor models of the order, and at its middle."""
        r = Interval.exact(self.r)
        deviation = self.v - Interval.exact(centre[:, None])
        term = self.w  # w_j d_j^i / i!
        tail = self.w * self.growth  # w_j (|d_j| r)^i / i! e^{|d_j| r}
        D: list[Interval] = []
        tails: list[Interval] = []
        total, r_power = ZERO, ONE
        at_middle = np.zeros(0)
        for i in range(order + 1):
            tails.append(tail.sum())
            if i < order:
                D.append(term.sum())
                coefficient = (term * deviation).sum()
                for j in range(i + 1):
                    coefficient = coefficient - point[j] * D[i - j]
                total = total + coefficient.absolute() * r_power
                at_middle = coefficient.magnitude() if i == 0 else at_middle
                r_power = r_power * r
                step = Interval.exact(float(i + 1))
                term = term * self.d / step
                tail = tail * self.reach / step
        total = total + (tail * deviation.absolute()).sum()
        r_power = ONE
        for j in range(order):
            total = total + point[j].absolute() * r_power * tails[order - j]
            r_power = r_power * r
        beyond = box[order].absolute() * r_power
        if order == 1:  # where the slope is unknown or infinite, how far the formula moves
            moves = (box[0] - point[0]).absolute()
            beyond = Interval(np.fmin(beyond.lo, moves.lo), np.fmin(beyond.hi, moves.hi))
        total = total + beyond * tails[0]
        return (total * self.drift).hi, at_middle

    def leakage(self) -> Floats:
        """(boxes,): what MAX_TOKENS hidden keys can add if a plain Transformer sees them."""
        gap = self.top_score - Interval.exact(np.abs(self.top_slope)) * Interval.exact(self.r)
        weight = exp(Interval.exact(self.anchors.hidden) - gap)
        largest = float(np.abs(self.anchors.values).max())
        return (weight * Interval.exact(2.0 * MAX_TOKENS * largest)).hi

    def rounding(self, centre: Floats, away: Floats, dtype: str) -> Floats:
        """(boxes,): the rounding model, fed with bounds over the box; away bounds |g - centre|."""
        r, slopes = Interval.exact(self.r[:, None]), Interval.exact(np.abs(self.anchors.slopes))
        deviation = (self.v - Interval.exact(centre[:, None])).absolute() + Interval.exact(away[:, None])
        ends = [self.k * Interval.exact(end[:, None]) + self.c for end in (self.a, self.b)]
        gaps = [Interval.exact(z.hi.max(axis=1, keepdims=True)) - z for z in ends]  # convex: largest at an end
        return rounding_bound(
            HeadOnBox(
                query=np.maximum(np.abs(self.a), np.abs(self.b))[:, None],
                slopes=np.abs(self.anchors.slopes),
                scores=(self.z.absolute() + slopes * r).hi,
                gaps=np.maximum(gaps[0].hi, gaps[1].hi),
                # log p_j is concave: p_j(s) <= p_j(m) e^{slope at m times distance}
                weights=(self.w * self.growth * _column(self.drift)).hi,
                deviations=deviation.hi,
                values=np.abs(self.anchors.values),
                output=up(np.abs(centre) + away)[:, None],
            ),
            dtype,
        )


def _column(x: Interval) -> Interval:
    return Interval(x.lo[:, None], x.hi[:, None])


def _spread(x: Interval, like: Floats) -> Interval:
    return Interval(np.broadcast_to(x.lo, like.shape), np.broadcast_to(x.hi, like.shape))
