"""One head on boxes of queries: a polynomial with a remainder, leakage, and what rounding can do.

On a box m + [-r, r] the head is N(t) / D(t) with D(t) = sum w_j e^{d_j t} and N(t) = sum w_j e^{d_j t} v_j(t), w_j the
weights at m and d_j = k_j - kappa the slopes around their mean. For a polynomial P the quotient is within
|N - P D| / D of P; D >= e^{-r |D_1|} by Jensen's inequality.
"""

from __future__ import annotations

import numpy as np

from weightwright.claims.certificate import MAX_TOKENS
from weightwright.enclosures.intervals.intervals import ONE, ZERO, Interval, exp, line_difference, up
from weightwright.numbers import Floats
from weightwright.prover.head_sums import Anchors
from weightwright.prover.rounding import DOT, WINDOW, HeadOnBox, moved_by, score_errors, window_errors


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
