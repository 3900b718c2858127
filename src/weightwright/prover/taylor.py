"""The prover: finds boxes and error terms for a sum of heads, with outward rounding in numpy.

On a box every head is a polynomial with a remainder; the sum of the polynomials is compared with the formula's Taylor
coefficients (they cancel almost entirely), of which a kink leaves two and an infinite slope one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weightwright.claims.certificate import Terms
from weightwright.enclosures.intervals.intervals import ONE, ZERO, Interval, up
from weightwright.enclosures.intervals.jets import jet
from weightwright.expressions import Expression
from weightwright.numbers import Floats
from weightwright.prover.head_sums import Proof, Sum
from weightwright.prover.heads import HeadOnBoxes
from weightwright.prover.sampled import Sampled

ORDER = 10
FIRST_BOXES = 16
MAX_HALVINGS = 50
MAX_BOXES = 1_500
LOOSE = 1.01  # boxes this much above the rounding term of points are halved,
NOTICEABLE = 0.01  # where rounding is more than this share of the target
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


def prove(
    layer: Sum, formula: Expression | Sampled, edges: Floats, dtype: str, target: float, holes: Floats | None = None
) -> Proof:
    """Bound the sum against the formula between the first edge and the last, halving boxes until each is below target
    (or a limit). Nothing is claimed inside holes, (number, 2), whose ends are edges."""
    a, b = edges[:-1], edges[1:]
    if holes is not None:
        claimed = ~((a[:, None] >= holes[:, 0]) & (b[:, None] <= holes[:, 1])).any(axis=1)
        # holes are open: one that begins or ends exactly where the domain does leaves that point to be claimed
        points = np.append(edges[:1][np.isin(edges[:1], holes[:, 0])], edges[-1:][np.isin(edges[-1:], holes[:, 1])])
        a, b = np.append(a[claimed], points), np.append(b[claimed], points)
    tight = _tight_rounding(layer, formula, a, b, dtype)
    before = np.full(len(a), np.inf)
    done: list[tuple[Floats, Floats, _Boxes]] = []
    boxes, most = 0, MAX_BOXES + 4 * len(a)
    for halving in range(MAX_HALVINGS + 1):
        found = _bound(layer, formula, a, b, dtype)
        middle = a / 2 + b / 2
        splittable = (a < middle) & (middle < b)
        # close to the error at the middle itself, and halving did not help: only the prover's own noise is left
        stalled = (found.approximation <= 2 * found.at_middle) & (found.approximation > STALLED * before)
        inflated = (found.rounding > LOOSE * tight) & (found.rounding > NOTICEABLE * target)
        over = ((~(found.approximation <= target) & ~stalled) | inflated) & splittable
        boxes += len(a)
        if halving == MAX_HALVINGS or boxes + 2 * over.sum() > most:
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


def first_edges(layer: Sum, lo: float, hi: float) -> Floats:
    """Where the first boxes end: evenly, or between the anchors of a window."""
    if all(head.window is None for head in layer.heads):
        return np.linspace(lo, hi, FIRST_BOXES + 1)
    between = np.arange(np.ceil(lo), np.floor(hi) + 1) + np.array([[-0.5], [0.5]])
    return np.unique(np.clip(np.append(between.ravel(), [lo, hi]), lo, hi))


def _tight_rounding(layer: Sum, formula: Expression | Sampled, a: Floats, b: Floats, dtype: str) -> float:
    """The rounding term on boxes that are points: what no halving can beat."""
    points = np.unique(np.linspace(a, b, 8))
    rounding = _bound(layer, formula, points, points, dtype).rounding
    return float(np.nanmax(rounding, initial=0.0))


def _collect(done: list[tuple[Floats, Floats, _Boxes]]) -> Proof:
    lows, highs = (np.concatenate([part[i] for part in done]) for i in (0, 1))

    def worst(name: str) -> float:
        return float(np.concatenate([getattr(part[2], name) for part in done]).max()) * SLACK

    boxes = np.stack([lows, highs], axis=1)[np.argsort(lows)]
    return Proof(boxes, Terms(worst("approximation"), worst("leakage"), worst("rounding")), 2.0 * worst("lipschitz"))


def _bound(layer: Sum, formula: Expression | Sampled, a: Floats, b: Floats, dtype: str) -> _Boxes:
    with np.errstate(all="ignore"):
        heads = [HeadOnBoxes(anchors, a, b) for anchors in layer.heads]
        for head in heads:
            head.expand(ORDER)
        m, r = heads[0].m, Interval.exact(heads[0].r)
        if isinstance(formula, Sampled):
            point, box = (formula.jet(at, m, ORDER) for at in (Interval.exact(m), Interval(a, b)))
            unknown, unknown_slope = formula.uncertainty(a, b, m), formula.slope_uncertainty(m)
        else:
            point, box = (jet(formula, at, ORDER) for at in (Interval.exact(m), Interval(a, b)))
            unknown = unknown_slope = np.zeros(1)
        point, box = ([_spread(x, m) for x in coefficients] for coefficients in (point, box))
        P = _polynomial(layer, heads, m)
        # with all coefficients of the formula, with those that a kink leaves, with its range alone
        distances = [_distance(P, point, box, r, order) for order in (ORDER, 1, 0)]
        remainder = sum((_weighted(h, h.remainder) for h in heads), ZERO)
        approximation = np.fmin(np.fmin(distances[0], distances[1]), distances[2])
        return _Boxes(
            (Interval.exact(approximation) + remainder + Interval.exact(unknown)).hi,
            (P[0] - point[0]).magnitude(),
            sum((_weighted(h, h.leakage()) for h in heads), ZERO).hi,
            sum((_weighted(h, h.rounding(dtype)) for h in heads), ZERO).hi,
            up(box[1].magnitude() + unknown_slope),
        )


def _weighted(head: HeadOnBoxes, bound: Floats) -> Interval:
    return Interval.exact(abs(head.anchors.weight)) * Interval.exact(bound)


def _polynomial(layer: Sum, heads: list[HeadOnBoxes], m: Floats) -> list[Interval]:
    """The coefficients of the whole sum at the middles, below ORDER."""
    P = [ZERO] * ORDER
    for head in heads:
        weight = Interval.exact(head.anchors.weight)
        P = [x + weight * Interval.exact(y) for x, y in zip(P, head.polynomial, strict=True)]
    if layer.slope:
        slope = Interval.exact(layer.slope)
        P[0], P[1] = P[0] + slope * Interval.exact(m), P[1] + slope
    return P


def _distance(P: list[Interval], point: list[Interval], box: list[Interval], r: Interval, order: int) -> Floats:
    """(boxes,): |P - F| where F has Taylor coefficients `point` below the order and `box` at the order."""
    total, r_power = ZERO, ONE
    for i in range(max(len(P), order + 1)):
        difference = P[i] if i < len(P) else ZERO
        if i < order:
            difference = difference - point[i]
        elif i == order:
            difference = difference - box[i]
        total = total + difference.absolute() * r_power
        r_power = r_power * r
    return total.hi


def _spread(x: Interval, like: Floats) -> Interval:
    return Interval(np.broadcast_to(x.lo, like.shape), np.broadcast_to(x.hi, like.shape))
