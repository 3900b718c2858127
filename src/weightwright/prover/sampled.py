"""The prover's stand-in for a function that is known by samples and a bound on a derivative.

Between two neighbouring samples the function is the polynomial through the k nearest ones (k the order of the
derivative), up to M / k! times the product of the distances, and up to the errors of the samples.
"""

from __future__ import annotations

import math

import numpy as np

from weightwright.claims.certificate import Samples
from weightwright.enclosures.intervals.intervals import ONE, ZERO, Interval
from weightwright.enclosures.intervals.jets import Jet
from weightwright.numbers import Floats
from weightwright.prover.machine import SLIGHTLY


class Sampled:
    """f(centre + s / scale) - mean as polynomials of s, one between each two samples."""

    def __init__(self, samples: Samples, centre: float, scale: float, mean: float) -> None:
        self.k = samples.order
        # differences with the centre are exact or nearly so; what rounding leaves moves s, and is enclosed
        self.s = (Interval.exact(samples.x) - Interval.exact(centre)) * Interval.exact(scale)
        self.y = Interval.exact(samples.y) - Interval.exact(mean)
        self.accuracy = Interval.exact(samples.accuracy)
        self.derivative = Interval.exact(samples.derivative) / Interval.exact(scale**self.k)  # in s

    def edges(self, lo: float, hi: float) -> Floats:
        """Where one polynomial ends and the next begins."""
        return np.unique(np.clip(np.concatenate([[lo, hi], self.s.middle()]), lo, hi))

    def _nodes(self, m: Floats) -> tuple[Interval, Interval]:
        """(boxes, k): the samples whose polynomial holds on boxes with these middles."""
        cell = np.clip(np.searchsorted(self.s.middle(), m) - 1, 0, len(self.s.lo) - 2)
        if self.k == 1:  # the nearer of the two
            start = cell + (m - self.s.middle()[cell] > self.s.middle()[cell + 1] - m)
        else:
            start = np.clip(cell - (self.k - 2) // 2, 0, len(self.s.lo) - self.k)
        index = start[:, None] + np.arange(self.k)
        return self.s[index], self.y[index]

    def jet(self, at: Interval, m: Floats, order: int) -> Jet:
        """Coefficients 0..order of the polynomials at the points or boxes `at`, which have the middles m."""
        nodes, values = self._nodes(m)
        differences = _divided_differences(nodes, values)
        result: Jet = [ZERO] * (order + 1)
        for i in reversed(range(self.k)):  # Horner: result * (s - s_i) + difference_i
            step = at - nodes[:, i]
            shifted = [result[j] * step + (result[j - 1] if j else ZERO) for j in range(order + 1)]
            result = [shifted[0] + differences[i], *shifted[1:]]
        return result

    def uncertainty(self, a: Floats, b: Floats, m: Floats) -> Floats:
        """(boxes,): how far the function may be from its polynomial."""
        nodes, _ = self._nodes(m)
        distance = (Interval(a[:, None], b[:, None]) - nodes).absolute()
        product = ONE
        for i in range(self.k):
            product = product * distance[:, i]
        remainder = self.derivative * product / Interval.exact(float(math.factorial(self.k)))
        weights = ZERO  # of the samples' errors: the Lagrange polynomials
        for i in range(self.k):
            weight = ONE
            for j in range(self.k):
                if j != i:
                    weight = weight * distance[:, j] / (nodes[:, i] - nodes[:, j]).absolute()
            weights = weights + weight
        return (remainder + weights * self.accuracy).hi

    def slope_uncertainty(self, m: Floats) -> Floats:
        """(boxes,): how far the function's slope may be from its polynomial's."""
        nodes, _ = self._nodes(m)
        if self.k == 1:
            return np.broadcast_to(self.derivative.hi, m.shape)
        width = (nodes[:, -1] - nodes[:, 0]) * Interval.exact(SLIGHTLY)  # a query that rounds may lie a little beyond
        gap = Interval.exact((nodes[:, 1:] - nodes[:, :-1]).lo.min(axis=1))
        power = ONE
        for _ in range(self.k - 2):
            power = power * width
        spread = power / _power(gap, self.k - 1) * Interval.exact(float(self.k * (self.k - 1))) * self.accuracy
        return (self.derivative * power * width / Interval.exact(float(math.factorial(self.k - 1))) + spread).hi


def _power(x: Interval, n: int) -> Interval:
    return x if n == 1 else x * _power(x, n - 1)


def _divided_differences(nodes: Interval, values: Interval) -> list[Interval]:
    """The coefficients of Newton's form."""
    k = nodes.lo.shape[1]
    column = [values[:, i] for i in range(k)]
    found = [column[0]]
    for width in range(1, k):
        column = [(column[i + 1] - column[i]) / (nodes[:, i + width] - nodes[:, i]) for i in range(k - width)]
        found.append(column[0])
    return found
