"""The prover's side of a `FormulasClaim` with waves: boxes on which formulas are close to polynomials along waves.

Formulas are enclosed by interval Taylor models; the polynomials are plain floats, whose roundings the slack covers:
the checker, which decides, encloses both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb, factorial

import numpy as np

from weightwright.enclosures.intervals import intervals as iv
from weightwright.enclosures.intervals.intervals import Interval
from weightwright.enclosures.intervals.jets import jet_along
from weightwright.enclosures.intervals.polynomials import Indices, coefficients, largest_on_box, monomials
from weightwright.expressions import Expression
from weightwright.numbers import Floats

ORDER = {1: 16, 2: 12, 3: 10, 4: 7}  # of the Taylor remainder, by the number of variables
SLACK = 1.0 + 2.0**-8  # what is claimed above what was found: the checker goes another way
_AT_ONCE = 128


@dataclass(frozen=True, eq=False)
class Waves:
    """outputs_m = affine_m . (x, 1) + sum over w and j of polynomials[m, w, j] t_w^j, t_w = waves_w . (x, 1)."""

    affine: Floats  # (M, N + 1)
    waves: Floats  # (W, N + 1)
    polynomials: Floats  # (M, W, degree + 1)

    def __call__(self, x: Floats) -> Floats:
        """(points, M) at (points, N)."""
        t = x @ self.waves[:, :-1].T + self.waves[:, -1]
        powers = t[..., None] ** np.arange(self.polynomials.shape[-1])
        return x @ self.affine[:, :-1].T + self.affine[:, -1] + np.einsum("pwj,mwj->pm", powers, self.polynomials)

    def coefficients(self, at: Floats, output: int, degree: int) -> Floats:
        """(monomials, points): one output's Taylor coefficients, in plain floats."""
        N = at.shape[1]
        table = monomials(N, degree)
        t = at @ self.waves[:, :-1].T + self.waves[:, -1]  # (points, W)
        out = np.zeros((len(table.degrees), len(at)))
        p = self.polynomials.shape[-1]
        for j in range(min(p, degree + 1)):
            own = [self.polynomials[output, :, i] * comb(i, j) * t ** (i - j) for i in range(j, p)]
            for k in np.flatnonzero(table.degrees == j):
                exponents = table.exponents[k]
                many = factorial(j) / np.prod([factorial(int(e)) for e in exponents])
                out[k] = sum(own) @ (many * np.prod(self.waves[:, :-1] ** exponents, axis=1))
        out[0] += at @ self.affine[output, :-1] + self.affine[output, -1]
        out[1 : N + 1] += self.affine[output, :-1, None]
        return out


@dataclass(frozen=True, eq=False)
class WavesProof:
    boxes: Floats  # (number, 2, N)
    bound: float  # on |formula - waves|, for all outputs and boxes
    complete: bool  # whether the bound is at most what was asked for


def prove_waves(
    formulas: Sequence[Expression], waves: Waves, lo: Floats, hi: Floats, goal: float, most: int
) -> WavesProof:
    """Halve the box until the bound is at most the goal on every part, or `most` parts were looked at."""
    todo = np.array([[lo, hi]])
    done: list[Floats] = []
    bound, looked = 0.0, 0
    while len(todo):
        part, todo = todo[-_AT_ONCE:], todo[:-_AT_ONCE]
        looked += len(part)
        found, axis = _examine(formulas, waves, part)
        good = found <= goal
        if looked + len(todo) + 2 * (~good).sum() > most:
            return WavesProof(np.concatenate([*done, part, todo]), float(np.inf), False)
        done.append(part[good])
        bound = max(bound, found[good].max(initial=0.0))
        halves = np.repeat(part[~good], 2, axis=0)
        rows, cut = np.arange(0, len(halves), 2), axis[~good]
        middle = halves[rows, 0, cut] / 2 + halves[rows, 1, cut] / 2
        halves[rows, 1, cut] = halves[rows + 1, 0, cut] = middle
        todo = np.concatenate([todo, halves])
    return WavesProof(np.concatenate(done), bound, True)


def _examine(formulas: Sequence[Expression], waves: Waves, boxes: Floats) -> tuple[Floats, Indices]:
    """(boxes,) each: a bound on |formula - waves|, and the axis along which to halve."""
    N = boxes.shape[2]
    order = ORDER[N]
    table, names = monomials(N, order - 1), tuple(f"x{i}" for i in range(N))
    a, b = boxes[:, 0], boxes[:, 1]
    m = a / 2 + b / 2
    r = iv.up(np.maximum(b - m, m - a))
    box = {name: Interval(a[:, i], b[:, i]) for i, name in enumerate(names)}
    rays = {name: Interval(-r[:, i], r[:, i]) for i, name in enumerate(names)}
    worst, spread = np.zeros(len(boxes)), np.zeros((len(boxes), N))
    for output, formula in enumerate(formulas):
        point = coefficients(formula, names, m, order - 1)
        gap = point - Interval.exact(waves.coefficients(m, output, order - 1))
        beyond = np.broadcast_to(jet_along(formula, box, rays, order)[order].magnitude(), len(boxes))
        with np.errstate(all="ignore"):
            worst = np.maximum(worst, largest_on_box(gap, r, table) + beyond)  # NaN stays
        # the axis whose variable has most part in what bends
        bent = table.degrees >= 2
        sizes = gap[bent].magnitude() * np.prod(r[None] ** table.exponents[bent][:, None], axis=2)
        spread += np.nan_to_num(sizes.T @ table.exponents[bent], nan=0.0, posinf=0.0)
    unknown = ~np.isfinite(worst) | (spread.max(axis=1) == 0)
    spread[unknown] = (r / r.max(axis=0))[unknown]
    return worst, spread.argmax(axis=1)
