"""One head on boxes of queries: a polynomial with a remainder, leakage, and what rounding can do.

On a box m + [-r, r] the head is N(t) / D(t) with D(t) = sum w_j e^{d_j t} and N(t) = sum w_j e^{d_j t} v_j(t), w_j the
weights at m and d_j = k_j - kappa the slopes around their mean. For a polynomial P the quotient is within
|N - P D| / D of P; D >= e^{-r |D_1|} by Jensen's inequality.

What the prover is given and what it returns.

From the heads' terms to the network's: the query may round once, adding up rounds a few times.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from weightwright.claims.certificate import MAX_TOKENS, Terms
from weightwright.enclosures.intervals.intervals import ONE, ZERO, Interval, exp, line_difference, up
from weightwright.numbers import SMALLEST, UNIT, Floats
from weightwright.prover.machine import FLUSHED
from weightwright.prover.rounding import DOT, WINDOW, HeadOnBox, moved_by, score_errors, window_errors


@dataclass(frozen=True)
class Anchors:
    """A head as stored: scores z_j = slopes_j s + offsets_j (beta included), values values_j + tilts_j s.

    On registers the tilts are 0. The output is multiplied by `weight` and added to the others'.
    """

    slopes: Floats
    offsets: Floats
    values: Floats
    tilts: Floats
    copied: bool  # whether values with a tilt are the input itself, times a power of two: they do not round
    hidden: float  # the score of keys that the head must not see; -inf if there are none
    weight: float = 1.0
    window: Window | None = None


@dataclass(frozen=True)
class Window:
    """Anchors on the whole numbers from `first` on, with scores -c (s - L)^2 up to what they share; only the M on each
    side of the nearest are seen."""

    M: int
    first: int
    c: float


@dataclass(frozen=True)
class Sum:
    """What a layer adds up: slope * s and its heads."""

    heads: tuple[Anchors, ...]
    slope: float = 0.0

    def values(self, s: Floats) -> Floats:
        """The layer's output in plain floats."""

        def head(anchors: Anchors) -> Floats:
            scores = s[:, None] * anchors.slopes + anchors.offsets
            if anchors.window is not None:
                L = anchors.window.first + np.arange(len(anchors.slopes))
                scores = np.where(np.abs(L - np.rint(s)[:, None]) <= anchors.window.M, scores, -np.inf)
            weights = np.exp(scores - scores.max(axis=1, keepdims=True))
            values = anchors.values + s[:, None] * anchors.tilts
            mixed: Floats = (weights * values).sum(axis=1) / weights.sum(axis=1)
            return mixed

        return self.slope * s + sum(anchors.weight * head(anchors) for anchors in self.heads)


@dataclass(frozen=True)
class Proof:
    """Boxes that cover the domain and terms that hold on each of them; NaN where nothing was proven."""

    boxes: Floats
    terms: Terms
    lipschitz: float


def roundings(mean: float, slope: float, weights: list[float]) -> tuple[int, list[int]]:
    """How many roundings the start of the coordinate, slope x + mean, and each weighted head may go through."""
    additions = len(weights) - 1 + bool(mean or slope)
    start = additions + (not _scales_exactly(slope)) + bool(mean and slope)
    return start, [additions + (not _scales_exactly(weight)) for weight in weights]


def _scales_exactly(factor: float) -> bool:
    return factor == 0 or abs(math.frexp(factor)[0]) == 0.5


def network_terms(
    head: Terms,
    lipschitz: float,
    layer: Sum,
    *,
    centre: float,
    scale: float,
    lost: float | None,
    mean: float,
    lo: float,
    hi: float,
    dtype: str,
) -> tuple[Terms, float]:
    """The terms of mean + slope s + heads for queries s in [lo, hi], and their sum, rounded up.

    lipschitz bounds the slope of what the layer computes. lost: what a query can be off by for numbers below the normal
    range; None where it is exact.
    """
    u, tiny = Interval.exact(UNIT[dtype]), Interval.exact(SMALLEST[dtype])
    s = Interval.exact(max(abs(lo), abs(hi)))
    # the start of the output and a token's own value take x as it is, while formula and scores take the rounded query
    moves = Interval.exact(lipschitz) + Interval.exact(abs(layer.slope))
    for anchors in layer.heads:
        moves = moves + Interval.exact(abs(anchors.weight)) * Interval.exact(np.abs(anchors.tilts).max())
    slip = ZERO if lost is None else moves * ((u * s if centre else ZERO) + Interval.exact(lost))
    start, each = roundings(mean, layer.slope, [anchors.weight for anchors in layer.heads])
    # the terms that are added up, as computed, each with the number of roundings it may go through
    total = Interval.exact(float(start)) * (Interval.exact(abs(layer.slope)) * s + Interval.exact(abs(mean)))
    for anchors, count in zip(layer.heads, each, strict=True):
        value = Interval.exact(np.abs(anchors.values).max()) + Interval.exact(np.abs(anchors.tilts).max()) * s
        computed = Interval.exact(abs(anchors.weight)) * value + Interval.exact(head.rounding)
        total = total + Interval.exact(float(count)) * computed
    final = u * total * Interval.exact(1.0 + 16.0 * (len(layer.heads) + 2) * UNIT[dtype])
    below = tiny * Interval.exact(
        float(2 * len(layer.heads) + 2)
    )  # also a power of two may lead below the normal range
    enters = ONE + Interval.exact(abs(layer.slope)) * Interval.exact(
        scale
    )  # x, the heads' results and the output enter products
    for anchors in layer.heads:
        enters = enters + Interval.exact(abs(anchors.weight))
    below = below + Interval.exact(FLUSHED[dtype]) * enters
    rounding = float((Interval.exact(head.rounding) + slip + final + below).hi)
    terms = Terms(head.approximation, head.leakage, rounding)
    whole = up(up(np.float64(terms.approximation) + terms.leakage) + terms.rounding)
    return terms, float(up(whole))


class HeadOnBoxes:
    """Everything about a head at the middle of each box; arrays are (boxes, anchors), of anchors that are seen there.

    With a window a box must lie between two neighbouring whole numbers and a half.
    """

    def __init__(self, anchors: Anchors, a: Floats, b: Floats) -> None:
        self.anchors, self.a, self.b = anchors, a, b
        self.m = a / 2 + b / 2
        self.r = up(np.maximum(b - self.m, self.m - a))
        seen = _seen(anchors, self.m)
        slopes, offsets = anchors.slopes[seen], anchors.offsets[seen]
        self.k, self.c, self.tilt = (Interval.exact(x) for x in (slopes, offsets, anchors.tilts[seen]))
        middle = Interval.exact(self.m[:, None])
        self.v = Interval.exact(anchors.values[seen])
        if anchors.tilts.any():
            self.v = self.v + self.tilt * middle
        self.z = self.k * middle + self.c
        self.top = self.z.lo.argmax(axis=1)
        rows = np.arange(len(self.m))
        relative = line_difference(
            slopes, slopes[rows, self.top][:, None], offsets, offsets[rows, self.top][:, None], self.m[:, None]
        )
        relative.lo[rows, self.top] = relative.hi[rows, self.top] = 0.0
        weight = exp(relative)
        total = _column(weight.sum())
        self.w = weight / total
        kappa = (self.w.middle() * slopes).sum(axis=1)
        self.d = self.k - Interval.exact(kappa[:, None])
        self.reach = self.d.absolute() * Interval.exact(self.r[:, None])  # |d_j| r
        self.heaviest = exp(relative + self.reach) / total  # w_j e^{|d_j| r}: both factors may overflow
        # kappa is not exactly the mean slope; what is left of it drifts over the box
        self.drift = exp((self.w * self.d).sum().absolute() * Interval.exact(self.r))
        self.polynomial, self.remainder = self._expand(1)

    def expand(self, order: int) -> None:
        """Find `polynomial`, coefficients (boxes,) below the order, and `remainder`, how far off it is on the box."""
        self.polynomial, self.remainder = self._expand(order)

    def _expand(self, order: int) -> tuple[list[Floats], Floats]:
        r = Interval.exact(self.r)
        P = [(self.w.middle() * self.v.middle()).sum(axis=1)]
        deviation = self.v - Interval.exact(P[0][:, None])
        term, before = self.w, ZERO  # w_j d_j^i / i!, and the one before it
        tail, tail_before = self.heaviest, ZERO  # w_j (|d_j| r)^i / i! e^{|d_j| r}
        D: list[Interval] = []
        tails = [tail.sum()]
        total, r_power = ZERO, ONE
        for i in range(order):
            D.append(term.sum())
            coefficient = (term * deviation).sum()
            if i:
                coefficient = coefficient + (before * self.tilt).sum()
                for j in range(1, i):
                    coefficient = coefficient - Interval.exact(P[j]) * D[i - j]
                P.append(np.nan_to_num((coefficient / D[0]).middle()))
                coefficient = coefficient - Interval.exact(P[i]) * D[0]
            total = total + coefficient.absolute() * r_power
            r_power = r_power * r
            step = Interval.exact(float(i + 1))
            term, before = term * self.d / step, term
            tail, tail_before = tail * self.reach / step, tail
            tails.append(tail.sum())
        total = total + (tail * deviation.absolute()).sum() + (tail_before * self.tilt.absolute()).sum() * r
        r_power = r
        for j in range(1, order):
            total = total + Interval.exact(np.abs(P[j])) * r_power * tails[order - j]
            r_power = r_power * r
        return P, (total * self.drift).hi

    def leakage(self) -> Floats:
        """(boxes,): what MAX_TOKENS hidden keys can add if a plain Transformer sees them."""
        if self.anchors.hidden == -np.inf:
            return np.zeros_like(self.m)
        ends = [self.k * Interval.exact(end[:, None]) + self.c for end in (self.a, self.b)]
        top = Interval.exact(np.minimum(ends[0].lo, ends[1].lo).max(axis=1))  # the best line is nowhere below this
        weight = exp(Interval.exact(self.anchors.hidden) - top)
        return (weight * Interval.exact(2.0 * MAX_TOKENS) * Interval.exact(self.values().max(axis=1))).hi

    def values(self) -> Floats:
        """(boxes, anchors): the largest |v_j| over the box."""
        return (self.v.absolute() + self.tilt.absolute() * Interval.exact(self.r[:, None])).hi

    def rounding(self, dtype: str) -> Floats:
        """(boxes,): the rounding model, fed with bounds over the box."""
        r = Interval.exact(self.r[:, None])
        away, r_power = Interval.exact(self.remainder), ONE
        for coefficient in self.polynomial[1:]:
            r_power = r_power * Interval.exact(self.r)
            away = away + Interval.exact(np.abs(coefficient)) * r_power
        centre = self.polynomial[0]
        deviation = (self.v - Interval.exact(centre[:, None])).absolute() + self.tilt.absolute() * r + _column(away)
        ends = [self.k * Interval.exact(end[:, None]) + self.c for end in (self.a, self.b)]
        gaps = [Interval.exact(z.hi.max(axis=1, keepdims=True)) - z for z in ends]  # convex: largest at an end
        window = self.anchors.window
        box = HeadOnBox(
            query=np.maximum(np.abs(self.a), np.abs(self.b))[:, None],
            slopes=self.k.magnitude(),
            scores=(self.z.absolute() + self.k.absolute() * r).hi,
            gaps=np.maximum(gaps[0].hi, gaps[1].hi),
            # log p_j is concave: p_j(s) <= p_j(m) e^{slope at m times distance}
            weights=(self.heaviest * _column(self.drift)).hi,
            deviations=deviation.hi,
            values=self.values(),
            roundings=(self.tilt.lo != 0) * (not self.anchors.copied) + (DOT if window is None else WINDOW),
            output=up(np.abs(centre) + away.hi)[:, None],
            top=self.top,
        )
        errors = score_errors(box, dtype) if window is None else window_errors(window.M, dtype, len(self.m))
        return moved_by(box, errors, dtype)


def _seen(anchors: Anchors, m: Floats) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """(boxes, anchors): the indices of the anchors that the head sees on the boxes with these middles."""
    if anchors.window is None:
        return np.broadcast_to(np.arange(len(anchors.slopes)), (len(m), len(anchors.slopes)))
    M, last = anchors.window.M, len(anchors.slopes) - 1
    nearest = np.clip(np.rint(m).astype(np.int64) - anchors.window.first, M, last - M)
    return nearest[:, None] + np.arange(-M, M + 1)


def _column(x: Interval) -> Interval:
    return Interval(x.lo[:, None], x.hi[:, None])
