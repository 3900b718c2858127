"""The spectral anchor head: soft weights on a padded uniform grid, values solved for.

Scores -beta (s - L_j)^2 up to what is common to all j; with c = beta D^2 of order 0.1 to 1 (D the spacing)
the weights are smooth, the output is linear in the values, and the error falls exponentially with the
number of anchors p instead of like 1/p.

Choices, and what follows from them: beta is a power of two and D has few bits, so that scores are stored
exactly or nearly so; values are fitted after that by ridge least squares, the ridge keeping them small, since rounding
grows with them; among the fits for one p that meet the tolerance the smallest values are taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.linalg import lstsq
from threadpoolctl import ThreadpoolController

from weightwright.enclosures.intervals.intervals import Interval
from weightwright.heads.registers import Table
from weightwright.numbers import FORMATS, UNIT, Floats, rounded
from weightwright.prover.machine import EXP_UNITS
from weightwright.prover.rounding import any_order

PADS = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 8.0, 10.0)  # anchors outside the interval, on each side
C_RANGE = (0.08, 1.2)  # of beta D^2
#: Number of anchors beyond which only these paddings and temperatures are tried.
FEW = 48
MANY_PADS, MANY_C_RANGE = (1.0, 3.0, 6.0, 9.0), (0.1, 0.4)
RIDGE = 1e-2  # times the tolerance: what the fit may give up for smaller values
LEAST_RIDGE = 1e-15
LARGEST_VALUE = 100.0  # times the range of f, unless nothing else fits
_GRID_BITS = 12
#: Largest number of soft anchors that is tried: what more would be needed for asks for another head, or more bits.
MAX_SPECTRAL = {"float64": 512, "float32": 256, "bfloat16": 32}


@dataclass(frozen=True)
class SpectralFit:
    """A table and its error as measured on a grid, an estimate of rounding included."""

    table: Table
    error: float


class SpectralDesigner:
    """Finds the cheapest head for f on [lo, hi]; remembers what it has fitted."""

    def __init__(self, f: Callable[[Floats], Floats], lo: float, hi: float, tol: float, most: int, dtype: str) -> None:
        self.f, self.lo, self.hi, self.tol, self.most, self.dtype = f, lo, hi, tol, most, dtype
        sample = f(np.linspace(lo, hi, 8 * most + 1))
        self.range = float(np.ptp(sample))
        self.too_steep = bool(np.abs(np.diff(sample)).max() > self.range / 4)  # for any grid of that many points
        self._fits: dict[int, list[SpectralFit]] = {}

    def candidates(self, aim: float) -> Iterator[SpectralFit]:
        """Fits in the order in which to try to prove them: fewest anchors that seem to meet `aim` first.

        Where none seems to, the best fits of all.
        """
        p, below = 2, 1
        while self.error(p) > aim:
            if 2 * p > self.most or self._flat(p):
                best = [min(fits, key=lambda fit: fit.error) for fits in self._fits.values()]
                yield from sorted(best, key=lambda fit: fit.error)[:3]
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

    def fits(self, p: int) -> list[SpectralFit]:
        if p not in self._fits:
            with np.errstate(all="ignore"):
                ridge = float(np.clip(RIDGE * self.tol / np.float64(self.range or np.inf), LEAST_RIDGE, 1.0))
                fits = list(fit_values(self.f, self.lo, self.hi, p, ridge, self.dtype))
            small = [fit for fit in fits if np.abs(fit.table.values).max() <= LARGEST_VALUE * self.range]
            self._fits[p] = small or fits
        return self._fits[p]

    def _flat(self, p: int) -> bool:
        """Whether doubling p stopped helping: rounding rules, or a kink that falls like 1/p."""
        resolved = self.error(p) < 0.1 * self.range or self.too_steep
        return p >= 64 and resolved and self.error(p) > 0.4 * self.error(p // 2)


def soft_keys(lo: float, hi: float, p: int, pad: float, c: float, dtype: str) -> Table:
    """p soft anchors on [lo, hi], `pad` of them outside on each side, beta D^2 about c; the values are still 0."""
    middle, half = lo / 2 + hi / 2, hi / 2 - lo / 2
    bits = min(_GRID_BITS, FORMATS[dtype].bits // 2)
    spacing = _few_bits(2 * half / max(p - 1 - 2 * pad, 1.0), bits)
    grid = _few_bits(middle, bits) + spacing * (np.arange(p, dtype=np.float64) - (p - 1) / 2)
    beta = math.ldexp(1.0, round(math.log2(c / spacing**2)))
    return Table(rounded(2 * grid, dtype), rounded(-(grid**2), dtype), np.zeros(p), beta)


def fit_values(
    f: Callable[[Floats], Floats], lo: float, hi: float, p: int, ridge: float, dtype: str
) -> Iterator[SpectralFit]:
    """The best heads with p anchors on [lo, hi], one for every padding and temperature."""
    middle, half = lo / 2 + hi / 2, hi / 2 - lo / 2
    angles = np.linspace(0.0, np.pi, 2 * (3 * p + 100) + 1)
    s = middle + half * np.cos(angles)
    target = f(s)
    bits = min(_GRID_BITS, FORMATS[dtype].bits // 2)
    pads, c_range = (PADS, C_RANGE) if p <= FEW else (MANY_PADS, MANY_C_RANGE)
    for pad in pads:
        if p - 1 - 2 * pad <= 0 and p > 2:
            continue
        spacing = _few_bits(2 * half / max(p - 1 - 2 * pad, 1.0), bits)
        grid = _few_bits(middle, bits) + spacing * (np.arange(p, dtype=np.float64) - (p - 1) / 2)
        keys, offsets = rounded(2 * grid, dtype), rounded(-(grid**2), dtype)
        for beta in _powers_of_two(*(c / spacing**2 for c in c_range)):
            scores = beta * (s[:, None] * keys + offsets)
            weights = np.exp(scores - scores.max(axis=1, keepdims=True))
            weights /= weights.sum(axis=1, keepdims=True)
            values = rounded(solve(weights[::2], target[::2], ridge), dtype)  # every second point is left to measure
            output = weights @ values
            residual = np.abs(output - target).max()
            few = slice(None, None, 1 + p // 4)  # rounding varies slowly
            spent = rounding_estimate(weights[few], scores[few], values, output[few], dtype)
            yield SpectralFit(Table(keys, offsets, values, beta), float(np.nan_to_num(residual + spent, nan=np.inf)))


def solve(weights: Floats, target: Floats, ridge: float) -> Floats:
    """Least squares of the mean squared error plus ridge^2 times the squared values."""
    n, p = weights.shape
    system = np.concatenate([weights, ridge * math.sqrt(n) * np.eye(p)])
    with _blas().limit(limits=1, user_api="blas"):  # two threads wait for each other longer than one works
        solution: Floats = lstsq(system, np.concatenate([target, np.zeros(p)]), lapack_driver="gelsy")[0]
    return solution


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


def rounding_estimate(weights: Floats, scores: Floats, values: Floats, output: Floats, dtype: str) -> float:
    """About what the prover's rounding model will say; only steers the choice."""
    u = UNIT[dtype]
    off = 2 * np.abs(scores) + scores.max(axis=1, keepdims=True) - scores + EXP_UNITS["dot"][dtype]
    moved = u * (weights * np.abs(values - output[:, None]) * off).sum(axis=1)
    products = weights * np.abs(values)
    sums = [any_order(Interval.exact(terms), Interval.exact(u)).hi for terms in (products, weights)]
    total = moved + sums[0] + np.abs(output) * sums[1] + 3 * u * products.sum(axis=1)
    return 1.05 * float(total.max())


def _few_bits(x: float, bits: int) -> float:
    """x rounded away from zero to `bits` significant bits."""
    mantissa, exponent = math.frexp(x)
    return math.ldexp(math.copysign(math.ceil(abs(mantissa) * 2**bits), x), exponent - bits) if x else 0.0


def _powers_of_two(low: float, high: float) -> Iterator[float]:
    for exponent in range(math.ceil(math.log2(low)), math.floor(math.log2(high)) + 1):
        yield math.ldexp(1.0, exponent)
