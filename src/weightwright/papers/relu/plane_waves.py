"""Smooth functions as sums of polynomials along few directions, and those as sums of few ReLUs.

Every polynomial of N variables is a sum of polynomials of t = w.x over enough directions w. A piecewise-linear function
with n pieces of the right lengths is within I^2 / (16 n^2) of a profile phi, I the integral of sqrt|phi''|. With a
common budget the number of all ReLUs is proportional to (sum I_w^(2/3))^(3/2): the fit looks for profiles that make
this small.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import gcd, inf, sqrt

import numpy as np
from numpy.polynomial import Polynomial
from numpy.polynomial import chebyshev as cheb

from weightwright.numbers import Floats
from weightwright.papers.prover.waves import Waves

_ROUNDS, _POINTS, _HELD_OUT = 24, 2000, 6000
_PENALTIES = (1e-5, 1e-6, 1e-7, 1e-8, 1e-10, 1e-12)
_QUASI_NORM = 1 / 3  # I_w^(2/3) is about the curvature's norm to this power
_LESS = 0.95  # a degree is worth its trouble if it saves a twentieth of the units
#: The part of the budget that a fit may use before more directions are tried, by the number of variables.
_ENOUGH = {1: 1.0, 2: 0.25, 3: 0.25, 4: 1.0}
_FINE = 2001  # points along a profile, for its curvature
#: (largest factor, largest sum of squares) of the directions to try, one after another, by the number of variables.
_DIRECTIONS: dict[int, tuple[tuple[int, int], ...]] = {
    1: ((1, 1),),
    2: ((1, 2), (2, 5), (3, 13)),
    3: ((1, 3), (2, 6)),
    4: ((1, 4), (2, 6)),
}
_DEGREES = {1: (2, 4, 6, 8, 10, 12, 15), 2: (2, 3, 4, 5, 6, 8, 11), 3: (2, 3, 4, 5, 6, 9), 4: (2, 3, 4, 5, 6)}


def directions(N: int, largest: int, square: int) -> Floats:
    """(W, N): whole numbers without a common divisor, the first positive, up to these sizes."""
    every = (w for w in product(range(-largest, largest + 1), repeat=N) if 0 < sum(x * x for x in w) <= square)
    kept = [w for w in every if next(x for x in w if x) > 0 and gcd(*w) == 1]
    return np.array(sorted(kept, key=lambda w: sum(abs(x) for x in w)), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class WaveFit:
    """Profiles along directions in z in [-1, 1]^N, and what they cost."""

    w: Floats  # (W, N)
    affine: Floats  # (N + 1, M): of (1, z)
    profiles: Floats  # (W, degree - 1, M): Chebyshev coefficients from degree 2 on, in w.z / sum |w|
    error: float  # the largest found
    cost: float  # sum I_w^(2/3)

    def units(self, budget: float) -> float:
        """About how many ReLUs it takes to come within the budget of the profiles."""
        return sqrt(self.cost**3 / (16 * budget)) if budget > 0 else inf

    def waves(self, lo: Floats, hi: Floats) -> Waves:
        """The same in x from lo to hi: a wave's t is w.z, its profile a polynomial of t."""
        centre, radius = lo / 2 + hi / 2, hi / 2 - lo / 2
        factors = self.w / radius
        lengths = np.abs(self.w).sum(axis=1)
        p, M = self.profiles.shape[1] + 1, self.profiles.shape[2]
        polynomials = np.zeros((M, len(self.w), p + 1))
        for m in range(M):
            for i, length in enumerate(lengths):
                plain = cheb.cheb2poly([0.0, 0.0, *self.profiles[i, :, m]])
                polynomials[m, i, : len(plain)] = plain / length ** np.arange(len(plain))
        slopes = self.affine[1:].T / radius
        affine = np.column_stack([slopes, self.affine[0] - slopes @ centre])
        return Waves(affine, np.column_stack([factors, -factors @ centre]), polynomials)


class Fitter:
    """Samples of a function on [-1, 1]^N, and fits to them."""

    def __init__(self, N: int, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.N = N
        corners = np.array(list(product((-1.0, 0.0, 1.0), repeat=N)))
        self.z = np.concatenate([corners, np.cos(np.pi * rng.random((_POINTS, N)))])
        edges = rng.uniform(-1.3, 1.3, (_HELD_OUT, N)).clip(-1, 1)  # many on the faces, where fits are worst
        self.held_out = np.concatenate([edges, corners])

    def best(self, y: Floats, held_out: Floats, budget: float, most: float) -> tuple[WaveFit, WaveFit]:
        """Of the fits to the values (points, M): the one of fewest units within the budget, and the closest one.

        Degrees are added while they save units; directions where the fit takes too many units, or much of the budget.
        """
        fewest = closest = None
        for largest, square in _DIRECTIONS[self.N]:
            w, idle = directions(self.N, largest, square), 0
            for degree in _DEGREES[self.N]:
                problem = _Problem(w, degree, self.z, y, self.held_out, held_out)
                plain = next(problem.fits(_PENALTIES[-1], rounds=1))
                closest = plain if closest is None or plain.error < closest.error else closest
                if plain.error > 2 * budget:  # reweighting does not gain that much
                    continue
                before = _units(fewest, budget)
                fewest = min([fewest or plain, *_fits(problem, budget)], key=lambda fit: _units(fit, budget))
                idle = idle + 1 if _LESS * before < _units(fewest, budget) < inf else 0
                if idle == 2:
                    break
            if fewest is not None and fewest.error <= _ENOUGH[self.N] * budget and _units(fewest, budget) <= most:
                break
        assert closest is not None
        if fewest is None:
            problem = _Problem(closest.w, closest.profiles.shape[1] + 1, self.z, y, self.held_out, held_out)
            closest = min([closest, *problem.fits(_PENALTIES[-1])], key=lambda fit: fit.error)
        return fewest or closest, closest


def _fits(problem: _Problem, budget: float) -> Iterator[WaveFit]:
    """With smaller and smaller penalties, until two of them saved nothing."""
    fewest, idle = inf, 0
    for penalty in _PENALTIES:
        fits = list(problem.fits(penalty))
        yield from fits
        units = min(_units(fit, budget) for fit in fits)
        idle = idle + 1 if units >= fewest < inf else 0
        fewest = min(fewest, units)
        if idle == 2:
            return


def _units(fit: WaveFit | None, budget: float) -> float:
    return inf if fit is None else fit.units(budget - fit.error)


class _Problem:
    """Least squares with a penalty on curvature, for given directions and degree."""

    def __init__(self, w: Floats, degree: int, z: Floats, y: Floats, held_out: Floats, expected: Floats) -> None:
        self.w, self.degree, self.y, self.expected = w, degree, y, expected
        self.A, self.B = self._columns(z), self._columns(held_out)
        t, self.weights = np.polynomial.legendre.leggauss(2 * degree)
        self.second = np.stack([cheb.chebval(t, cheb.chebder(_unit(j), 2)) for j in range(2, degree + 1)], axis=1)
        self.energy = np.einsum("q,qi,qj->ij", self.weights, self.second, self.second)

    def _columns(self, z: Floats) -> Floats:
        t = z @ (self.w / np.abs(self.w).sum(axis=1, keepdims=True)).T
        profiles = np.stack([cheb.chebval(t, _unit(j)) for j in range(2, self.degree + 1)], axis=2)
        return np.column_stack([np.ones(len(z)), z, profiles.reshape(len(z), -1)])

    def fits(self, penalty: float, rounds: int = _ROUNDS) -> Iterator[WaveFit]:
        """Reweighted: directions that bend little are made to bend less, points with large errors count more."""
        N, W, k, M = self.w.shape[1], len(self.w), self.degree - 1, self.y.shape[1]
        stiffness, at = np.ones(W), np.full(len(self.A), 1.0 / len(self.A))
        scale = np.abs(self.y).max() or 1.0
        for number in range(rounds):
            weighted = self.A.T * at
            gram, right = weighted @ self.A, weighted @ self.y
            gram[np.diag_indices_from(gram)] += 1e-14
            bending = gram[1 + N :, 1 + N :].reshape(W, k, W, k)
            for i in range(W):
                bending[i, :, i, :] += penalty * stiffness[i] * self.energy
            solution = np.linalg.solve(gram, right)
            profiles = solution[1 + N :].reshape(W, k, M)
            norms = np.einsum("wim,ij,wjm->w", profiles, self.energy, profiles)
            if number % 4 == 3 or rounds == 1:
                off = float(np.abs(self.B @ solution - self.expected).max())
                curvature = np.abs(np.einsum("qi,wim->wqm", self.second, profiles)).max(axis=2)
                cost = float(((np.sqrt(curvature) @ self.weights) ** (2 / 3)).sum())
                yield WaveFit(self.w, solution[: 1 + N], profiles, off, cost)
            floor = (0.1 ** (2 + number / 4)) * norms.max() + 1e-28 * scale**2
            stiffness = (norms + floor) ** (_QUASI_NORM / 2 - 1)
            stiffness /= stiffness.min()
            error = np.abs(self.A @ solution - self.y).max(axis=1)
            at *= (error / (error.max() or 1.0) + 0.02) ** 0.3
            at /= at.sum()


def _unit(j: int) -> list[float]:
    return [*[0.0] * j, 1.0]


@dataclass(frozen=True, eq=False)
class Bent:
    """Piecewise-linear functions on the range of one wave, one for each output, with common knots."""

    knots: Floats  # (pieces + 1,)
    values: Floats  # (M, pieces + 1)
    error: Floats  # (M,): the largest distance from the profile

    @property
    def slopes(self) -> Floats:
        """(M, pieces)"""
        return np.diff(self.values, axis=1) / np.diff(self.knots)


class Profile:
    """One wave's polynomials on its range, (M, degree + 1), to be replaced by lines."""

    def __init__(self, polynomials: Floats, first: float, last: float) -> None:
        self.polynomials = [Polynomial(row) for row in polynomials]
        self.t = np.linspace(first, last, _FINE)
        bend = np.abs([p.deriv(2)(self.t) for p in self.polynomials]).max(axis=0)
        density = np.sqrt(bend + 1e-3 * bend.max())  # no piece is endless
        steps = (density[1:] + density[:-1]) / 2 * np.diff(self.t)
        self.integral = np.concatenate([[0.0], np.cumsum(steps)])

    @property
    def cost(self) -> float:
        return float(self.integral[-1] ** (2 / 3))

    def bent(self, pieces: int) -> Bent:
        """Lines whose errors are about equal, and equal above and below: knots are moved by half of a chord's."""
        inner = np.interp(np.arange(1, pieces) / pieces * self.integral[-1], self.integral, self.t)
        knots = np.concatenate([self.t[:1], inner, self.t[-1:]])
        h = np.diff(knots) ** 2 / 16
        offset = (np.concatenate([h[:1], h]) + np.concatenate([h, h[-1:]])) / 2
        values = np.array([p(knots) - p.deriv(2)(knots) * offset for p in self.polynomials])
        error = np.array([self._error(p, knots, y) for p, y in zip(self.polynomials, values, strict=True)])
        return Bent(knots, values, error)

    @staticmethod
    def _error(p: Polynomial, knots: Floats, y: Floats) -> float:
        """At many points of every piece."""
        share = np.linspace(0.0, 1.0, 33)
        t = knots[:-1, None] + np.diff(knots)[:, None] * share
        return float(np.abs(y[:-1, None] + np.diff(y)[:, None] * share - p(t)).max())


def total_error(lines: Sequence[Bent]) -> float:
    """What the waves' errors add up to, for the worst output."""
    return float(np.sum([line.error for line in lines], axis=0).max(initial=0.0))


def bend(profiles: list[Profile], budget: float, most: int) -> list[Bent] | None:
    """As few lines as come within the budget, summed over the waves, for every output; None if that takes too many."""
    costs = np.array([profile.cost for profile in profiles])

    def lines(many: float) -> list[Bent]:
        pieces = np.maximum(1, np.round(many * costs)).astype(int)
        return [profile.bent(n) for profile, n in zip(profiles, pieces.tolist(), strict=True)]

    def fits(many: float) -> bool:
        return total_error(lines(many)) <= budget

    low, high = 0.0, 1.0 / max(float(costs.max(initial=0.0)), 1e-300)
    if not profiles or fits(low):
        return lines(low)
    while not fits(high):
        low, high = high, 2 * high
        if high * costs.sum() > 2 * most + len(profiles):
            return None
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return lines(high)
