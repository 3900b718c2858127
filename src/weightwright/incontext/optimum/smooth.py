"""An objective with a smooth convex loss, as Newton's method sees it.

Within |v - p|_M <= r the argument of sample i moves by at most r |a_i|_{M^-1}, where a_i is its row; so its curvature
stays in a known ball. If that is within a factor 1 -+ omega of the curvature k_i in M, the sample's part of the Hessian
is within omega of its part of M. Where it is not (at a kink of the slope, or where k_i = 0), the sample's whole change
counts: by at most s_i (change of curvature) |a_i|^2_{M^-1}.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from flint import arb, arb_mat

from weightwright.enclosures.balls.linear_algebra import Balls, diagonal, evaluate, row_lengths, weighted_rows
from weightwright.enclosures.balls.series import largest
from weightwright.expressions import Expression, differentiate
from weightwright.incontext.optimum.newton import Place
from weightwright.incontext.optimum.objective import Objective

#: A sample whose curvature changes by more than this share counts by its whole change.
SHARE = 0.125


@dataclass(frozen=True)
class SmoothLandscape:
    """The objective as a function of (w, c), or of w without an intercept."""

    objective: Objective

    def at(self, v: Balls) -> Place | None:
        arguments = self.objective.arguments(v)
        curvatures = evaluate(self.curvature, arguments)
        if not all(k.is_finite() for k in curvatures):
            return None
        place = _SmoothPlace(self, v, arguments, [k.mid().max(arb(0)) for k in curvatures])
        return place if all(g.is_finite() for g in place.gradient) else None

    def value(self, v: Balls) -> arb:
        objective = self.objective
        losses = evaluate(objective.loss.value_expression, objective.arguments(v))
        total = sum((s * one for s, one in zip(objective.sample_weights, losses, strict=True)), arb(0))
        return total + sum((r * w * w for r, w in zip(objective.penalties(), v, strict=True)), arb(0)) / 2

    @cached_property
    def curvature(self) -> Expression:
        return differentiate(self.objective.loss.slope_expression)


@dataclass(frozen=True)
class _SmoothPlace:
    landscape: SmoothLandscape
    v: Balls
    arguments: dict[str, Balls]
    curvatures: Balls  # exact, not negative, near the true ones

    @cached_property
    def gradient(self) -> Balls:
        return self.landscape.objective.gradient(self.v, self.arguments)

    @property
    def model(self) -> arb_mat:
        objective = self.landscape.objective
        factors = [s * k for s, k in zip(objective.sample_weights, self.curvatures, strict=True)]
        return objective.transposed * weighted_rows(objective.matrix, factors) + diagonal(objective.penalties())

    def change(self, inverse: arb_mat, radius: arb) -> arb:
        objective = self.landscape.objective
        lengths = row_lengths(objective.matrix, inverse)
        around = arb(0, 1) * radius.upper()
        moved = [x + around * h for x, h in zip(self.arguments["x"], lengths, strict=True)]
        curvatures = evaluate(self.landscape.curvature, {**self.arguments, "x": moved})
        shares, whole = [arb(0)], arb(0)
        for s, k, there, h in zip(objective.sample_weights, self.curvatures, curvatures, lengths, strict=True):
            off = abs(there - k).upper()
            if not off.is_finite():
                return arb.pos_inf()
            if off <= SHARE * k:
                shares.append(off / k if k > 0 else off)
            else:
                whole += s * off * h * h
        return largest(shares) + whole
