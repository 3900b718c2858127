"""The distance to the optimum of scikit-learn's multinomial LogisticRegression.

It minimises sum_i s_i (log sum_k exp(z_ik) - z_i,label) + ridge/2 |W|^2, where z_ik = W_k.x_i + b_k. The same number
added to all b_k (and without ridge, the same vector to all W_k) changes nothing; the optimum that is meant has
sum_k b_k = 0 and sum_k W_k = 0, the shortest one. So tau_j/2 (sum_k V_kj)^2 is added for V = (W, b): that moves no such
optimum, and makes it the only one.

Within r of a point in the model's norm z_ik moves by at most t_i = r max_k |e_k a_i|_{M^-1}, so the probabilities
change by a factor between exp(-2 t_i) and exp(2 t_i), and so does v^T (diag p - p p^T) v = min_m sum_k p_k (v_k - m)^2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from flint import arb, arb_mat

from weightwright.enclosures.balls.linear_algebra import (
    Balls,
    balls,
    float_above,
    norm,
    product,
    row_lengths,
    weighted_rows,
)
from weightwright.enclosures.balls.series import largest, working_precision
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
from weightwright.incontext.optimum.newton import enclose_minimum
from weightwright.incontext.problem.problem import Problem
from weightwright.numbers import Floats


def multinomial_distance(problem: Problem, coef: Floats, intercepts: Floats) -> Distance:
    """An upper bound of |(coef, intercepts) - optimum|_2 over all classes (of coef alone without intercepts);
    infinite, and why, where none can be proven.

    problem: the data and the ridge penalty, with the squared loss; its targets are the numbers of the
    classes, 0 .. K - 1. coef: (K, d). intercepts: (K,).

    >>> from weightwright.incontext import Problem, loss
    >>> problem = Problem([[0.0], [1.0], [2.0], [3.0]], [0, 1, 2, 1], loss("squared"), [1.0] * 4, ridge=1)
    >>> round(multinomial_distance(problem, [[-0.25], [0.25], [0.0]], [0.0] * 3).bound, 3)
    0.319
    """
    require_squares_with_ridge(problem)
    classes = np.shape(coef)[0] if np.ndim(coef) == 2 else 0
    if classes < 2:
        raise ValueError(f"coef has shape {np.shape(coef)}; an array of shape (classes, features) is needed")
    for i in np.flatnonzero(~np.isin(problem.y, np.arange(classes)))[:1]:
        raise ValueError(f"labels[{i}] is {float(problem.y[i])!r}; for {classes} rows of coef take 0 to {classes - 1}")
    W = read_numbers("coef", coef, (classes, problem.d)).reshape(classes, -1)
    b = read_numbers("intercepts", intercepts, (classes,)).reshape(classes, 1)
    given = (np.hstack([W, b]) if problem.intercept else W).reshape(-1)
    if not np.isfinite(given).all():
        return nowhere("the coefficients are not finite")
    if not problem.plain_weights.any():
        return nowhere(NO_WEIGHT)
    landscape = MultinomialLandscape(problem.without_idle_samples(), classes)
    zero = [arb(0)] * len(given)
    found = enclose_sharply(
        lambda start, is_sharp: enclose_minimum(landscape, (start, zero), is_sharp), given, len(given)
    )
    if found.box is None:
        return nowhere(found.why)
    with working_precision(BITS[0]):
        gradient = landscape.gradient_length(balls(given))
    return Distance(far_side(given, found.box), 0.0, 0.0, gradient, math.inf, found.why)


@dataclass(frozen=True)
class MultinomialLandscape:
    """What is minimised over V, class by class. problem: the data and the ridge; its targets are the labels."""

    problem: Problem
    classes: int

    @property
    def without_optimum(self) -> str:
        return " (as where planes separate the classes; add a ridge penalty)"

    @cached_property
    def ties(self) -> Balls:
        """tau_j: of the size of the Hessian, so that the model is no worse conditioned by it."""
        sizes = (self.problem.plain_weights[:, None] * self.problem.rows**2).sum(axis=0)
        return balls(np.where((sizes > 0) & np.isfinite(sizes), sizes, 1.0))

    @cached_property
    def labels(self) -> list[int]:
        return [int(label) for label in self.problem.y]

    def blocks(self, v: Balls) -> list[Balls]:
        """What belongs to every class."""
        size = self.problem.size
        return [v[k * size : (k + 1) * size] for k in range(self.classes)]

    def at(self, v: Balls) -> _MultinomialPlace | None:
        shares = []
        for scores in self._scores(v):
            powers = [(z - scores[0]).exp() for z in scores]
            total = sum(powers, arb(0))
            shares.append([power / total for power in powers])
        if not all(p.is_finite() for row in shares for p in row):
            return None
        return _MultinomialPlace(self, v, shares)

    def gradient_length(self, v: Balls) -> float:
        """Of what scikit-learn minimises: without the ties."""
        place = self.at(v)
        return math.inf if place is None else float_above(norm(place.pull))

    def value(self, v: Balls) -> arb:
        total = arb(0)
        for s, label, scores in zip(self.problem.sample_weights(), self.labels, self._scores(v), strict=True):
            total += s * sum(((z - scores[label]).exp() for z in scores), arb(0)).log()
        for block in self.blocks(v):
            total += self.problem.ridge_value(block)
        sums = self.sums(v)
        return total + sum((tau * x * x for tau, x in zip(self.ties, sums, strict=True)), arb(0)) / 2

    def sums(self, v: Balls) -> Balls:
        """Over the classes."""
        return [sum(column, arb(0)) for column in zip(*self.blocks(v), strict=True)]

    def _scores(self, v: Balls) -> list[tuple[arb, ...]]:
        """z_ik, sample by sample."""
        return list(zip(*(product(self.problem.matrix, block) for block in self.blocks(v)), strict=True))


@dataclass(frozen=True)
class _MultinomialPlace:
    landscape: MultinomialLandscape
    v: Balls
    shares: list[Balls]  # the probabilities, sample by sample

    @property
    def gradient(self) -> Balls:
        ties = [tau * x for tau, x in zip(self.landscape.ties, self.landscape.sums(self.v), strict=True)]
        return [g + tie for g, tie in zip(self.pull, ties * self.landscape.classes, strict=True)]

    @cached_property
    def pull(self) -> Balls:
        """The gradient without the ties."""
        landscape, problem = self.landscape, self.landscape.problem
        found: Balls = []
        for k, block in enumerate(landscape.blocks(self.v)):
            off = [p[k] - (label == k) for p, label in zip(self.shares, landscape.labels, strict=True)]
            pulls = product(problem.transposed, [s * o for s, o in zip(problem.sample_weights(), off, strict=True)])
            found += [a + b for a, b in zip(pulls, problem.ridge_slopes(block), strict=True)]
        return found

    @property
    def model(self) -> arb_mat:
        """The Hessian itself."""
        classes, size = self.landscape.classes, self.landscape.problem.size
        whole = [[arb(0)] * (classes * size) for _ in range(classes * size)]
        for k in range(classes):
            for m in range(k, classes):
                for i, row in enumerate(self._block(k, m)):
                    for j, entry in enumerate(row):
                        whole[k * size + i][m * size + j] = whole[m * size + j][k * size + i] = entry
        return arb_mat(whole)

    def _block(self, k: int, m: int) -> list[Balls]:
        problem = self.landscape.problem
        factors = [s * p[k] * ((k == m) - p[m]) for s, p in zip(problem.sample_weights(), self.shares, strict=True)]
        block: list[Balls] = (problem.transposed * weighted_rows(problem.matrix, factors)).table()
        for j, (tau, ridge) in enumerate(zip(self.landscape.ties, problem.ridge_balls(), strict=True)):
            block[j][j] = block[j][j] + tau + (ridge if k == m else 0)
        return block

    def change(self, inverse: arb_mat, radius: arb) -> arb:
        size, table = self.landscape.problem.size, inverse.table()
        longest = arb(0)
        for k in range(self.landscape.classes):
            own = range(k * size, (k + 1) * size)
            block = arb_mat([[table[i][j] for j in own] for i in own])
            longest = longest.max(largest(row_lengths(self.landscape.problem.matrix, block)))
        return (2 * radius.upper() * longest).exp() - 1
