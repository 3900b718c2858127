"""A problem with a smooth convex loss, as Newton's method sees it.

Within |v - p|_M <= r the argument of sample i moves by at most r |a_i|_{M^-1}, where a_i is its row; so its
curvature stays in a known ball. If that is within a factor 1 -+ omega of the curvature k_i in M, the sample's
part of the Hessian is within omega of its part of M. Where it is not (at a kink of the slope, or where k_i =
0), the sample's whole change counts: by at most s_i (change of curvature) |a_i|^2_{M^-1}.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from flint import arb, arb_mat, ctx

from weightwright.enclosures.balls.linear_algebra import (
    Balls,
    balls,
    diagonal,
    evaluate,
    gram_within,
    row_lengths,
    row_lengths_above,
    within,
)
from weightwright.enclosures.balls.series import largest
from weightwright.expressions import Expression, differentiate
from weightwright.incontext.optimum.enclosure import BITS
from weightwright.incontext.optimum.newton import Place
from weightwright.incontext.problem.problem import Problem

#: A sample whose curvature may change by more than this share of itself counts by its whole change.
SHARE = 0.125
#: The model is taken from floats where its smallest eigenvalue is this many times what their entries are off by.
SHARP = 2.0**20


@dataclass(frozen=True)
class SmoothLandscape:
    """F as a function of all fitted numbers."""

    problem: Problem

    @property
    def without_optimum(self) -> str:
        if self.problem.loss.targets == "counts":
            if self.problem.intercept and not self.problem.y.any():
                return " (all counts are 0, so the best intercept is minus infinity)"
            return " (as where all counts are 0 on one side of a plane; add a ridge penalty)"
        return (
            " (as where a plane separates the labels; add a ridge penalty)"
            if self.problem.loss.form == "margin"
            else ""
        )

    def at(self, v: Balls) -> Place | None:
        arguments = self.problem.arguments(v)
        curvatures = evaluate(self.curvature, arguments)
        if not all(k.is_finite() for k in curvatures):
            return None
        place = _SmoothPlace(self, v, arguments, [k.mid().max(arb(0)) for k in curvatures])
        return place if all(g.is_finite() for g in place.gradient) else None

    def value(self, v: Balls) -> arb:
        losses = evaluate(self.problem.loss.value_expression, self.problem.arguments(v))
        total = sum((s * one for s, one in zip(self.problem.sample_weights(), losses, strict=True)), arb(0))
        return total + self.problem.ridge_value(v)

    @cached_property
    def curvature(self) -> Expression:
        return differentiate(self.problem.loss.slope_expression)


@dataclass(frozen=True)
class _SmoothPlace:
    landscape: SmoothLandscape
    v: Balls
    arguments: dict[str, Balls]
    curvatures: Balls  # exact, not negative, near the true ones

    @cached_property
    def gradient(self) -> Balls:
        return self.landscape.problem.gradient(self.v, self.arguments)

    @property
    def model(self) -> arb_mat:
        """Out of floats where that is sharp: the smallest eigenvalue is far above what they are off by. In balls once
        more bits are asked for, which floats have not."""
        problem = self.landscape.problem
        factors = [s * k for s, k in zip(problem.sample_weights(), self.curvatures, strict=True)]
        found = gram_within(problem.rows, factors) if ctx.prec <= BITS[0] else None
        if found is None:
            return problem.gram(factors)
        near, off = found
        ridges = problem.ridge_balls()
        least = np.linalg.eigvalsh(near + np.diag([float(ridge.mid()) for ridge in ridges]))[0]
        return within(near, off) + diagonal(ridges) if least > SHARP * off.sum() else problem.gram(factors)

    def change(self, inverse: arb_mat, radius: arb) -> arb:
        problem = self.landscape.problem
        near = row_lengths_above(problem.rows, inverse)
        lengths = row_lengths(problem.matrix, inverse) if near is None else balls(near)
        around = arb(0, 1) * radius.upper()
        moved = [x + around * h for x, h in zip(self.arguments["x"], lengths, strict=True)]
        curvatures = evaluate(self.landscape.curvature, {**self.arguments, "x": moved})
        shares, whole = [arb(0)], arb(0)
        for s, k, there, h in zip(problem.sample_weights(), self.curvatures, curvatures, lengths, strict=True):
            off = abs(there - k).upper()
            if not off.is_finite():
                return arb.pos_inf()
            if off <= SHARE * k:
                shares.append(off / k if k > 0 else off)
            else:
                whole += s * off * h * h
        return largest(shares) + whole
