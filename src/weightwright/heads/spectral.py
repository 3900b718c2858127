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
C_RANGE = (0.08, 1.2)
RIDGE = 1e-2  # times the tolerance: what the fit may give up for smaller values
LEAST_RIDGE = 1e-15
_GRID_BITS = 12


@dataclass(frozen=True)
class Fit:
    """A table and its error as measured on a grid, an estimate of rounding included."""

    table: Table
    error: float


def cheapest(f: Callable[[Floats], Floats], lo: float, hi: float, tol: float, most: int) -> Iterator[Fit]:
    """Fits in the order in which to try to prove them: fewest anchors that seem to meet tol first.

    If none seems to with at most `most` anchors, the best fit that was seen is the only one.
    """
    best: Fit | None = None
    p, below = 2, 1
    while p <= most:
        fit = fit_values(f, lo, hi, p, tol)
        best = fit if best is None or fit.error < best.error else best
        if fit.error <= tol:
            break
        below, p = p, 2 * p
    else:
        assert best is not None
        yield best
        return
    above = {p: fit}
    while p - below > 1:  # halve the gap between too few and enough
        middle = (p + below) // 2
        candidate = fit_values(f, lo, hi, middle, tol)
        if candidate.error <= tol:
            p, above[middle] = middle, candidate
        else:
            below = middle
    yield from (above[enough] for enough in sorted(above))
    for more in (1, 2, 4):
        if p + more <= most:
            yield fit_values(f, lo, hi, p + more, tol)


def fit_values(f: Callable[[Floats], Floats], lo: float, hi: float, p: int, tol: float) -> Fit:
    """The best head with p anchors on [lo, hi] over paddings and temperatures."""
    middle, half = lo / 2 + hi / 2, hi / 2 - lo / 2
    angles = np.linspace(0.0, np.pi, 6 * p + 60)
    fitted = middle + half * np.cos(angles)
    between = middle + half * np.cos((angles[1:] + angles[:-1]) / 2)
    target, check = f(fitted), f(between)
    ridge = max(RIDGE * tol / float(np.ptp(target)), LEAST_RIDGE) if np.ptp(target) else LEAST_RIDGE
    fits = []
    for pad in PADS:
        if p - 1 - 2 * pad <= 0 and p > 2:
            continue
        spacing = _few_bits(2 * half / max(p - 1 - 2 * pad, 1.0))
        grid = _few_bits(middle) + spacing * (np.arange(p) - (p - 1) / 2)
        for beta in _powers_of_two(*(c / spacing**2 for c in C_RANGE)):
            values = _solve(_weights(fitted, grid, beta), target, ridge)
            residual = np.abs(_weights(between, grid, beta) @ values - check).max()
            table = Table(2 * grid, -(grid**2), values, beta)
            fits.append(Fit(table, float(residual) + _rounding_estimate(table)))
    good = [fit for fit in fits if fit.error <= tol]
    if good:
        return min(good, key=lambda fit: float(np.abs(fit.table.values).max()))
    return min(fits, key=lambda fit: fit.error)


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
