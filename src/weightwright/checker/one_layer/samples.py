"""The checker's rule for a function that is known by samples and a bound on a derivative.

On the interval between two neighbouring samples f is the polynomial p through k of them, k the order of the
derivative: |f - p| <= M / k! prod |s - s_i| + accuracy sum |l_i(s)|, l_i Lagrange's polynomials.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np
from flint import arb, fmpq

from weightwright.claims.certificate import Samples
from weightwright.errors import CertificateError
from weightwright.expressions import Apply, Expression, Number, Variable
from weightwright.limits import tick
from weightwright.numbers import Floats

MOST = 200_000
HIGHEST = 12  # order of a derivative


@dataclass(frozen=True)
class Piece:
    """A polynomial of s that stands for the function on [lo, hi], with what it is worth there. None: no end.

    Beyond its last sample a function goes on as any function with the same bound on its derivative would.
    """

    lo: Fraction | None
    hi: Fraction | None
    polynomial: Expression
    nodes: tuple[Fraction, ...]
    derivative: Fraction  # of order k, in s
    accuracy: Fraction

    def uncertainty(self, box: arb) -> arb:
        """How far the function may be from the polynomial on a ball inside the interval."""
        nodes = [_ball(node) for node in self.nodes]
        product = _ball(self.derivative) / math.factorial(len(nodes))
        for node in nodes:
            product *= abs(box - node)
        weights = arb(0)
        for i, node in enumerate(nodes):
            weight = arb(1)
            for j, other in enumerate(nodes):
                weight *= abs(box - other) / abs(node - other) if j != i else 1
            weights += weight
        return (product + weights * _ball(self.accuracy)).upper()

    def slope_uncertainty(self) -> arb:
        """f - p has k zeros, so f' - p' has k - 1 and a derivative of order k - 1 below M; then the samples' errors.

        (A query that rounds may lie beyond the last sample: there the function goes on as its polynomial would, whose
        slope is examined, and with it the approximation already holds.)
        """
        k, nodes = len(self.nodes), self.nodes
        if k == 1:
            return _ball(self.derivative)
        width, gap = (nodes[-1] - nodes[0]) * Fraction(1025, 1024), min(b - a for a, b in pairwise(nodes))
        smooth = self.derivative * width ** (k - 1) / math.factorial(k - 1)
        return _ball(smooth + k * (k - 1) * width ** (k - 2) / gap ** (k - 1) * self.accuracy)


def check_samples(samples: Samples, lo: float, hi: float) -> None:
    """CertificateError unless they are well formed and reach over the whole domain."""
    x, y, k = samples.x, samples.y, samples.order
    whole = isinstance(k, int) and not isinstance(k, bool) and 1 <= k <= HIGHEST
    shaped = x.ndim == 1 and x.shape == y.shape and max(2, k if whole else 2) <= len(x) <= MOST
    numbers = [samples.accuracy, samples.derivative]
    floats = x.dtype == y.dtype == np.float64
    finite = shaped and floats and bool(np.isfinite(x).all() and np.isfinite(y).all() and (x[1:] > x[:-1]).all())
    valid = all(isinstance(n, float) and math.isfinite(n) and n >= 0 for n in numbers)
    if not (whole and finite and valid):
        raise CertificateError("the samples are malformed")
    if not (x[0] <= lo and hi <= x[-1]):
        raise CertificateError(f"the samples reach from {x[0]!r} to {x[-1]!r}, not over [{lo!r}, {hi!r}]")


def _watched(numbers: Floats) -> Iterator[float]:
    """The numbers, with a look at the clock before each."""
    for number in numbers.tolist():
        tick()
        yield number


def pieces(samples: Samples, centre: float, scale: float, mean: float) -> Iterator[Piece]:
    """The function's pieces in s, in order."""
    k = samples.order
    s = [(Fraction(x) - Fraction(centre)) * Fraction(scale) for x in _watched(samples.x)]
    y = [Fraction(value) - Fraction(mean) for value in _watched(samples.y)]
    derivative = Fraction(samples.derivative) / Fraction(scale) ** k
    for i in range(len(s) - 1):
        tick()
        start = min(max(i - (k - 2) // 2, 0), len(s) - k)
        if k > 1:
            ranges = [(s[i], s[i + 1], start)]
        else:  # the nearer of the two
            middle = (s[i] + s[i + 1]) / 2
            ranges = [(s[i], middle, i), (middle, s[i + 1], i + 1)]
        for lo, hi, first in ranges:
            nodes, values = s[first : first + k], y[first : first + k]
            yield Piece(
                lo if lo != s[0] else None,
                hi if hi != s[-1] else None,
                _newton(nodes, values),
                tuple(nodes),
                derivative,
                Fraction(samples.accuracy),
            )


def _newton(nodes: list[Fraction], values: list[Fraction]) -> Expression:
    """The polynomial through the points, by divided differences."""
    column, coefficients = values, [values[0]]
    for width in range(1, len(nodes)):
        column = [(b - a) / (nodes[i + width] - nodes[i]) for i, (a, b) in enumerate(pairwise(column))]
        coefficients.append(column[0])
    result: Expression = Number(coefficients[-1])
    for node, coefficient in zip(reversed(nodes[:-1]), reversed(coefficients[:-1]), strict=True):
        step = Apply("sub", (Variable("s"), Number(node)))
        result = Apply("add", (Apply("mul", (result, step)), Number(coefficient)))
    return result


def _ball(value: Fraction) -> arb:
    return arb(fmpq(value.numerator, value.denominator))
