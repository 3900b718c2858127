"""The distance to the optimum of scikit-learn's HuberRegressor, which fits a scale beside the coefficients.

It minimises sum_i s_i (sigma + h(z_i) sigma) + alpha |w|^2 over (w, c, sigma), where z_i = (w.x_i + c - y_i) / sigma
and h(z) = z^2 for |z| <= epsilon, 2 epsilon |z| - epsilon^2 beyond. That is convex with a continuous gradient for
sigma > 0. An inlier's Hessian is (2 s_i / sigma) u u^T with u = (x_i, 1, -z_i), an outlier's is zero.

How much the Hessian changes within r of a point, relative to the model M = sum over inliers + 2 alpha: write the
inliers' part as B^T B with a row for each. If the rows change by e_i, then B^T B changes by at most 2 eta + eta^2 with
eta^2 = sum |e_i|^2_{M^-1}, since |B|_{M^-1} <= 1. A sample that may be on both sides of the kink counts as a whole.

Where scikit-learn's Huber objective is smallest at scale 0, since every sample can be fitted exactly.

With phi(r, sigma) = sigma + h(r / sigma) sigma = max over |psi| <= epsilon of 2 psi r + (1 - psi^2) sigma, what is
minimised is sum_i s_i phi(r_i, sigma) + alpha |w|^2 for sigma > 0, and for sigma = 0 its limit. At r = 0, sigma = 0
every slope (2 psi, 1 - psi^2) is a subgradient of phi. So (w, c, 0) with all r_i = 0 is a minimum if there are psi_i
with |psi_i| <= epsilon,

    sum_i s_i psi_i (x_i, 1) + alpha (w, 0) = 0   and   sum_i s_i (1 - psi_i^2) >= 0.

It is the only one if alpha > 0: w is unique by convexity, and phi vanishes at (0, 0) only. If alpha = 0, all exact fits
are minima. All of this is computed in fractions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np
from flint import arb, arb_mat, fmpq, fmpq_mat
from scipy.linalg import qr

from weightwright.enclosures.balls.linear_algebra import (
    Balls,
    balls,
    diagonal,
    float_above,
    norm,
    product,
    root,
    row_lengths,
    row_lengths_above,
    weighted_rows,
)
from weightwright.enclosures.balls.midrad import LOST
from weightwright.enclosures.balls.series import working_precision
from weightwright.incontext.errors.distance import Distance
from weightwright.incontext.optimum.enclosure import (
    BITS,
    NO_WEIGHT,
    enclose_sharply,
    far_side,
    nowhere,
    read_numbers,
    require_squares_with_ridge,
)
from weightwright.incontext.optimum.least_squares import enclose_least_squares
from weightwright.incontext.optimum.newton import Place, enclose_minimum
from weightwright.incontext.problem.problem import Problem, rational
from weightwright.numbers import Floats


def exact_fit(problem: Problem, epsilon: Fraction) -> list[fmpq] | None:
    """(w, c) of the only minimum, w alone without an intercept, if it is proven to be at scale 0. No weight may be 0.

    >>> from weightwright.incontext import Problem, loss
    >>> line = Problem([[0.0], [1.0], [2.0]], [1.0, 3.0, 5.0], loss("squared"), [1.0] * 3, intercept=True)
    >>> exact_fit(line, Fraction(2))
    [2, 1]
    """
    if isinstance(problem.ridge, np.ndarray):  # what follows is about one alpha
        return None
    rows, y, weights = problem.rows, problem.y, [fmpq(s.numerator, s.denominator) for s in problem.exact_weights()]
    chosen = _independent(rows)
    if not problem.has_ridge and len(chosen) < problem.size:
        return None
    fit, multipliers = [fmpq(0)] * problem.size, list[fmpq]()
    if chosen:
        X = _exact(problem.X[chosen])
        found = _shortest(X, [_fraction(t) for t in y[chosen].tolist()], problem.intercept)
        if found is None:
            return None
        fit, multipliers = found
    if not all(_fits(row, target, fit) for row, target in zip(rows.tolist(), y.tolist(), strict=True)):
        return None
    ridge, total = Fraction(problem.ridge), sum(weights, fmpq(0))
    for s, multiplier in zip([weights[i] for i in chosen], multipliers, strict=True):
        pull = fmpq(ridge.numerator, 2 * ridge.denominator) * multiplier  # alpha l = -s psi
        if abs(pull) > s * fmpq(epsilon.numerator, epsilon.denominator):
            return None
        total -= pull * pull / s
    return fit if total >= 0 else None


def _independent(rows: Floats) -> list[int]:
    """As many rows as are independent, by floats: if they are not, the system is singular."""
    rank = int(np.linalg.matrix_rank(rows))
    _, order = qr(rows.T, mode="r", pivoting=True)
    return [int(i) for i in order[:rank]]


def _shortest(X: list[list[fmpq]], y: list[fmpq], intercept: bool) -> tuple[list[fmpq], list[fmpq]] | None:
    """(w, c) with the shortest w that fits these samples exactly, and the multipliers l with w = sum_i l_i
    x_i and, with an intercept, sum_i l_i = 0."""
    n = len(X)
    points = fmpq_mat(X)
    gram = (points * points.transpose()).table()
    system = [[*row, *[fmpq(1)] * intercept] for row in gram] + [[fmpq(1)] * n + [fmpq(0)]] * intercept
    try:
        found = fmpq_mat(system).solve(fmpq_mat([[t] for t in [*y, *[fmpq(0)] * intercept]])).entries()
    except ZeroDivisionError:
        return None
    w = (points.transpose() * fmpq_mat([[entry] for entry in found[:n]])).entries()
    return [*w, *found[n:]], found[:n]


def _fits(row: Sequence[float], target: float, fit: Sequence[fmpq]) -> bool:
    return bool(sum((_fraction(x) * a for x, a in zip(row, fit, strict=True)), fmpq(0)) == _fraction(target))


def _exact(X: Floats) -> list[list[fmpq]]:
    return [[_fraction(x) for x in row] for row in X.tolist()]


def _fraction(x: float) -> fmpq:
    return fmpq(*float(x).as_integer_ratio())


@dataclass(frozen=True)
class HuberDistance(Distance):
    """scale: |scale - optimal scale| is not above it. The other fields are about coefficients and intercept."""

    scale: float = math.inf


def huber_distance(problem: Problem, epsilon: float | Fraction, coef: Floats, c: float, scale: float) -> HuberDistance:
    """Upper bounds of |(coef, c) - optimum|_2 (coef alone without an intercept) and of the scale's distance;
    infinite, and why, where none can be proven. The best scale is 0 where all samples can be fitted exactly
    and the penalty is not strong.

    problem: the squared loss of the data, with a ridge of 2 alpha.

    >>> from weightwright.incontext import Problem, loss
    >>> X, y = [[0.0], [1.0], [2.0], [3.0], [4.0]], [0.0, 1.5, 1.75, 3.25, 40.0]
    >>> line = Problem(X, y, loss("squared"), [1.0] * 5, intercept=True)
    >>> found = huber_distance(line, 1.35, [1.5], -0.5, 0.75)
    >>> round(found.bound, 4), round(found.scale, 4)
    (0.0886, 0.0892)
    """
    require_squares_with_ridge(problem)
    kink = _read_epsilon(epsilon)
    w, sigma = read_numbers("coef", coef, (problem.d,)), read_numbers("scale", scale, ())
    given = np.concatenate([w, read_numbers("c", c, ()), sigma] if problem.intercept else [w, sigma])
    if not np.isfinite(given).all():
        return _unknown("the coefficients are not finite")
    if not problem.plain_weights.any():
        return _unknown(NO_WEIGHT)
    problem = problem.without_idle_samples()
    fit = exact_fit(problem, kink)
    if fit is not None:
        why = "all samples can be fitted exactly, so the best scale is 0"
        return HuberDistance(_to_fit(given[:-1], fit), 0.0, 0.0, math.inf, math.inf, why, abs(float(sigma[0])))
    landscape = HuberLandscape(problem, kink)
    found = enclose_sharply(
        lambda start, is_sharp: enclose_minimum(landscape, _starts(landscape, start), is_sharp),
        given,
        problem.size,
    )
    if found.box is None:
        known = landscape.without_optimum in found.why
        more = "" if known else ". The best scale may be zero, where most samples can be fitted exactly"
        return _unknown(found.why + more)
    with working_precision(BITS[0]):
        place = landscape.at(balls(given))
        gradient = float_above(norm(place.gradient)) if place else math.inf
    bounds = far_side(given[:-1], found.box[:-1]), far_side(given[-1:], found.box[-1:])
    return HuberDistance(bounds[0], 0.0, 0.0, gradient, math.inf, found.why, bounds[1])


def _to_fit(given: Floats, fit: list[fmpq]) -> float:
    with working_precision(BITS[0]):
        return far_side(given, [arb(entry) for entry in fit])


def _read_epsilon(given: float | Fraction) -> Fraction:
    if not 1 <= given < math.inf:
        raise ValueError(f"epsilon={given!r}: samples within epsilon scales are inliers; it must be at least 1")
    return Fraction(given)


def _unknown(why: str) -> HuberDistance:
    nothing = nowhere(why)
    return HuberDistance(**vars(nothing))


def _starts(landscape: HuberLandscape, given: Balls) -> Iterator[Balls]:
    """The given numbers; least squares with a scale at which every sample is an inlier; and the same of the given
    inliers alone, without a penalty: where they can be fitted but for rounding, the scale is as small as that."""
    yield given
    problem, epsilon = landscape.problem, rational(landscape.epsilon)
    inside = [bool(abs(r) <= epsilon * given[-1]) for r in problem.arguments(given[:-1])["x"]]
    for some in (problem, _unpenalised(problem, inside)):
        squares = None if some is None else enclose_least_squares(some)[0]
        if squares is not None and some is not None:
            middle = [entry.mid() for entry in squares]
            widest = max((abs(r) for r in some.arguments(middle)["x"]), key=float)
            if widest > 0:
                yield [*middle, widest / epsilon]


def _unpenalised(problem: Problem, which: Sequence[bool]) -> Problem | None:
    """Least squares of these samples alone; None where they are too few to determine it."""
    if sum(which) < problem.size:
        return None
    used = np.array(which)
    weights = None if problem.weights is None else problem.weights[used]
    return replace(problem, X=problem.X[used], y=problem.y[used], weights=weights, ridge=0.0)


@dataclass(frozen=True)
class HuberLandscape:
    """What is minimised over (w, c, sigma). problem: the squared loss of the same data, with ridge 2 alpha."""

    problem: Problem
    epsilon: Fraction

    @property
    def without_optimum(self) -> str:
        return " with a scale above 0 (as where nearly all samples can be fitted exactly)"

    def at(self, v: Balls) -> Place | None:
        if not v[-1] > 0:
            return None
        z = [r / v[-1] for r in self.problem.arguments(v[:-1])["x"]]
        return _HuberPlace(self, v, z) if all(entry.is_finite() for entry in z) else None

    def value(self, v: Balls) -> arb:
        sigma, epsilon = v[-1], rational(self.epsilon)
        if not sigma > 0:
            return arb.nan()
        total = self.problem.ridge_value(v[:-1])
        for s, r in zip(self.problem.sample_weights(), self.problem.arguments(v[:-1])["x"], strict=True):
            z = r / sigma
            clipped = z.max(-epsilon).min(epsilon)
            total += s * sigma * (1 + clipped * (2 * z - clipped))
        return total


@dataclass(frozen=True)
class _HuberPlace:
    landscape: HuberLandscape
    v: Balls
    z: Balls

    @cached_property
    def is_inlier(self) -> list[bool]:
        """Whether the model counts the sample; the change says whether rightly so."""
        epsilon = rational(self.landscape.epsilon)
        return [bool(abs(entry.mid()) <= epsilon) for entry in self.z]

    @cached_property
    def directions(self) -> arb_mat:
        """u = (x_i, 1, -z_i), with the exact middle of z_i."""
        rows = self.landscape.problem.matrix.table()
        return arb_mat([[*row, -entry.mid()] for row, entry in zip(rows, self.z, strict=True)])

    @cached_property
    def gradient(self) -> Balls:
        problem, epsilon = self.landscape.problem, rational(self.landscape.epsilon)
        clipped = [entry.max(-epsilon).min(epsilon) for entry in self.z]
        weights = problem.sample_weights()
        pulled = product(problem.transposed, [2 * s * psi for s, psi in zip(weights, clipped, strict=True)])
        scale = sum((s * (1 - psi * psi) for s, psi in zip(weights, clipped, strict=True)), arb(0))
        return [*(a + b for a, b in zip(pulled, problem.ridge_slopes(self.v[:-1]), strict=True)), scale]

    @property
    def factors(self) -> Balls:
        """2 s_i / sigma."""
        return [2 * s / self.v[-1] for s in self.landscape.problem.sample_weights()]

    @property
    def model(self) -> arb_mat:
        counted = [f if inside else arb(0) for f, inside in zip(self.factors, self.is_inlier, strict=True)]
        ridges = diagonal([*self.landscape.problem.ridge_balls(), arb(0)])
        return self.directions.transpose() * weighted_rows(self.directions, counted) + ridges

    def _lengths(self, inverse: arb_mat, unit: arb) -> tuple[Balls, Balls]:
        """Not below |(x_i, 1, 0)| and |u| in the norm of the inverse, nor far above."""
        rows, z = self.landscape.problem.rows, np.array([float(entry.mid()) for entry in self.z])
        arguments = row_lengths_above(np.column_stack([rows, np.zeros(len(z))]), inverse)
        lengths = row_lengths_above(np.column_stack([rows, -z]), inverse)
        if arguments is None or lengths is None:
            table = self.landscape.problem.matrix.table()
            return row_lengths(arb_mat([[*row, arb(0)] for row in table]), inverse), row_lengths(
                self.directions, inverse
            )
        # u has the exact middle of z_i, which is within a unit in the last place of its float
        moved = [(2.0**-52 * abs(entry) + LOST) * unit.upper() for entry in z.tolist()]
        return balls(arguments), [arb(one) + by for one, by in zip(lengths.tolist(), moved, strict=True)]

    def change(self, inverse: arb_mat, radius: arb) -> arb:
        epsilon, around = rational(self.landscape.epsilon), arb(0, 1) * radius.upper()
        unit = root(inverse.table()[-1][-1])  # |(0, 0, 1)|_{M^-1}
        arguments, lengths = self._lengths(inverse, unit)
        sigma = self.v[-1] + around * unit
        if not sigma > 0:
            return arb.pos_inf()
        shrunk = root(self.v[-1] / sigma)
        squares, whole = arb(0), arb(0)
        for z, inside, f, a, u in zip(self.z, self.is_inlier, self.factors, arguments, lengths, strict=True):
            there = (z * self.v[-1] + around * a) / sigma
            turned = abs(there - z.mid()).upper() * unit
            if inside and abs(there) <= epsilon:
                change = abs(shrunk - 1).upper() * u + shrunk.upper() * turned
                squares += f * change * change
            elif inside or not abs(there) >= epsilon:
                whole += (f * shrunk * shrunk).upper() * (u + turned) * (u + turned)
        eta = root(squares)
        return (2 * eta + eta * eta + whole).upper()
