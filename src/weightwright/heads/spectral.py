"""The spectral anchor head: soft weights on a padded uniform grid, values solved for.

Scores -beta (s - L_j)^2 up to what is common to all j; with c = beta D^2 of order 0.1 to 1 (D the spacing)
the weights are smooth, the output is linear in the values, and the error falls exponentially with the
number of anchors p instead of like 1/p.

Choices, and what follows from them: beta is a power of two and D has 12 bits, so that scores are stored
exactly; values are fitted after that by ridge least squares, the ridge keeping them small, since rounding
grows with them; among the fits for one p that meet the tolerance the smallest values are taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg import lstsq

from weightwright.heads.assemble import Table
from weightwright.network.layers import Floats

PADS = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0)  # anchors outside the interval, on each side
C_RANGE = (0.08, 1.2)  # of beta D^2
FEW = 128  # beyond so many anchors only these are tried
MANY_PADS, MANY_C_RANGE = (1.0, 3.0, 6.0), (0.1, 0.4)
RIDGE = 1e-2  # times the tolerance: what the fit may give up for smaller values
LEAST_RIDGE = 1e-15
_GRID_BITS = 12


@dataclass(frozen=True)
class Fit:
    """A table and its error as measured on a grid, an estimate of rounding included."""

    table: Table
    error: float


class Designer:
    """Finds the cheapest head for f on [lo, hi]; remembers what it has fitted."""

    def __init__(self, f: Callable[[Floats], Floats], lo: float, hi: float, tol: float, most: int) -> None:
        self.f, self.lo, self.hi, self.tol, self.most = f, lo, hi, tol, most
        sample = f(np.linspace(lo, hi, 257))
        self.range = float(np.ptp(sample))
        self._fits: dict[int, list[Fit]] = {}

    def candidates(self, aim: float) -> Iterator[Fit]:
        """Fits in the order in which to try to prove them: fewest anchors that seem to meet `aim` first.

        Where none seems to, only the best fit of all.
        """
        p, below = 2, 1
        while self.error(p) > aim:
            if 2 * p > self.most or self._flat(p):
                yield min((fit for fits in self._fits.values() for fit in fits), key=lambda fit: fit.error)
                return
            below, p = p, 2 * p
        enough = [p]
        while p - below > max(1, p // 32):  # halve the gap between too few and enough
            middle = (p + below) // 2
            if self.error(middle) <= aim:
                p = middle
                enough.insert(0, p)
            else:
                below = middle
        for count in [p - 2, p - 1, *enough, p + 1, p + 2, p + 4]:  # odd and even counts differ a little
            good = [fit for fit in self.fits(count) if fit.error <= aim] if 2 <= count <= self.most else []
            if good:  # the smallest values
                yield min(good, key=lambda fit: float(np.abs(fit.table.values).max()))

    def error(self, p: int) -> float:
        return min(fit.error for fit in self.fits(p))

    def fits(self, p: int) -> list[Fit]:
        if p not in self._fits:
            ridge = RIDGE * self.tol / self.range if self.range else 0.0
            self._fits[p] = list(fit_values(self.f, self.lo, self.hi, p, max(ridge, LEAST_RIDGE)))
        return self._fits[p]

    def _flat(self, p: int) -> bool:
        """Whether doubling p stopped helping: rounding rules, or a kink that falls like 1/p."""
        resolved = self.error(p) < 0.1 * self.range
        return p >= 64 and resolved and self.error(p) > 0.4 * self.error(p // 2)


def fit_values(f: Callable[[Floats], Floats], lo: float, hi: float, p: int, ridge: float) -> Iterator[Fit]:
    """The best heads with p anchors on [lo, hi], one for every padding and temperature."""
    middle, half = lo / 2 + hi / 2, hi / 2 - lo / 2
    angles = np.linspace(0.0, np.pi, 2 * (3 * p + 100) + 1)
    s = middle + half * np.cos(angles)
    target = f(s)
    pads, c_range = (PADS, C_RANGE) if p <= FEW else (MANY_PADS, MANY_C_RANGE)
    for pad in pads:
        if p - 1 - 2 * pad <= 0 and p > 2:
            continue
        spacing = _few_bits(2 * half / max(p - 1 - 2 * pad, 1.0))
        grid = _few_bits(middle) + spacing * (np.arange(p, dtype=np.float64) - (p - 1) / 2)
        for beta in _powers_of_two(*(c / spacing**2 for c in c_range)):
            weights = _weights(s, grid, beta)
            values = _solve(weights[::2], target[::2], ridge)  # every second point is left to measure
            residual = np.abs(weights @ values - target).max()
            table = Table(2 * grid, -(grid**2), values, beta)
            yield Fit(table, float(residual) + _rounding_estimate(table))


def _weights(s: Floats, grid: Floats, beta: float) -> Floats:
    scores = -beta * (s[:, None] - grid) ** 2
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    normalised: Floats = weights / weights.sum(axis=1, keepdims=True)
    return normalised


def _solve(weights: Floats, target: Floats, ridge: float) -> Floats:
    """Least squares of the mean squared error plus ridge^2 times the squared values."""
    n, p = weights.shape
    system = np.concatenate([weights, ridge * math.sqrt(n) * np.eye(p)])
    solution: Floats = lstsq(system, np.concatenate([target, np.zeros(p)]), lapack_driver="gelsy")[0]
    return solution


def _rounding_estimate(table: Table) -> float:
    """About what the prover's rounding model will say; only steers the choice."""
    score = float(np.abs(table.beta * table.keys).max())
    return 2.0**-53 * (3 * score + 20) * float(np.abs(table.values).max())


def _few_bits(x: float) -> float:
    """x rounded away from zero to 12 significant bits."""
    mantissa, exponent = math.frexp(x)
    return math.ldexp(math.copysign(math.ceil(abs(mantissa) * 2**_GRID_BITS), x), exponent - _GRID_BITS) if x else 0.0


def _powers_of_two(low: float, high: float) -> Iterator[float]:
    for exponent in range(math.ceil(math.log2(low)), math.floor(math.log2(high)) + 1):
        yield math.ldexp(1.0, exponent)
