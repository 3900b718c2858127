"""Descent on every prefix of the examples, exactly; and how far a network may be from it whose passes are within a
bound of theirs.

With delta_t the distance of the network's w from the exact one after t steps, everything in the Euclidean norm, and e
the certificate's bound on each of A, b, x, the first state and one pass,

    delta_(t+1) <= rho delta_t + |alpha - alpha*| |w| + |rate - rate*| |A w - b|
                   + rate sqrt(d) e (|w|_1 + 1) + sqrt(d) e,    rho = |alpha* I - rate* A|,

w the network's, alpha* = 1 - step ridge and rate* = step / (examples c) being no floats. The prediction is then within
delta |x| + e (|w|_1 + 1) of the exact one. All of it is computed in balls, rounded up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from flint import arb, arb_mat

from weightwright.enclosures.balls.linear_algebra import float_above, norm
from weightwright.enclosures.balls.series import working_precision
from weightwright.enclosures.balls.spectrum import largest_eigenvalue
from weightwright.incontext.networks.causal_network import PrefixDescent
from weightwright.numbers import Floats

#: Bits of the balls.
BITS = 192


@dataclass(frozen=True)
class PrefixErrors:
    """What is proven of the predictions of one prompt, one for each x in it: (examples,) each.

    `bounds` comes from the certificate and the examples alone. The others are distances of numbers that are there,
    enclosed in balls and rounded up: `optimum` is at most `arithmetic` + `missing`, and often far less.
    """

    bounds: Floats  # proven before the network runs: |prediction - exact descent's|
    arithmetic: Floats  # |prediction - exact descent's|, of these predictions
    missing: Floats | None  # |exact descent's - optimum's|: what further steps would change; None without a ridge
    optimum: Floats | None  # |prediction - optimum's|

    def __repr__(self) -> str:
        far = "no ridge, no one optimum" if self.optimum is None else f"{self.optimum.max():.3g} from the optimum's"
        largest = f"bounds {self.bounds.max():.3g}, arithmetic {self.arithmetic.max():.3g}"
        return f"PrefixErrors({len(self.bounds)} predictions: at most {largest}; {far})"


def exact_predictions(descent: PrefixDescent, X: Floats, y: Floats) -> Floats:
    """(examples,): what exact descent predicts at every x, rounded to floats.

    X: (examples, features); y: (examples,). Each prediction takes the examples before it.
    """
    with working_precision(BITS):
        predicted = [_Prefix(descent, X[:i], y[:i]).descend(X[i])[0] for i in range(len(X))]
        return np.array([float(p.mid()) for p in predicted])


def enclose_errors(descent: PrefixDescent, X: Floats, y: Floats, predicted: Floats, bound: float) -> PrefixErrors:
    """How far predictions of the network are from exact descent, and from the optimum.

    X, y: the examples, (examples, features) and (examples,).
    predicted: what the network returned, (examples,).
    bound: the certificate's.
    """
    bounds, arithmetic, missing, optimum = [], [], [], []
    with working_precision(BITS):
        for i in range(len(X)):
            prefix, found = _Prefix(descent, X[:i], y[:i]), arb(float(predicted[i]))
            exact, off = prefix.descend(X[i], bound)
            bounds.append(float_above(off))
            arithmetic.append(float_above(abs(found - exact)))
            if descent.ridge > 0:
                best = prefix.optimum(X[i])
                missing.append(float_above(abs(exact - best)))
                optimum.append(float_above(abs(found - best)))
    ends = (np.array(missing), np.array(optimum)) if descent.ridge > 0 else (None, None)
    return PrefixErrors(np.array(bounds), np.array(arithmetic), *ends)


def bound_everywhere(descent: PrefixDescent, bound: float) -> float:
    """The largest distance from exact descent of any prediction, for all prompts in the ranges whose states stay in
    theirs; infinity where the step is so large that errors may grow without end."""
    sizes = descent.ranges.x, descent.ranges.y, float(descent.sizes[-2])  # of x and y, and of w as a pass may begin
    d, x, y, w = descent.features, *(arb(size) for size in sizes)
    with working_precision(BITS):
        e, root, one = arb(bound), arb(d).sqrt(), _Numbers.of(descent)
        # c times examples is the most that shares add up to: no eigenvalue is above that times the largest |x|^2
        largest = arb(descent.examples) * one.share * d * x * x
        rho = one.contraction(largest)
        if not rho <= 1:
            return math.inf
        size = arb(descent.examples) * one.share * x * y
        slope = largest * root * w + root * size
        off, each = root * e, one.one_step(e, d, root * w, d * w, slope)
        for _ in range(descent.steps):
            off = (rho * off + each).upper()
        return float_above(off * root * x + e * (d * w + 1))


@dataclass(frozen=True)
class _Numbers:
    """The numbers of a step, as they should be and as floats have them."""

    alpha: arb
    rate: arb
    share: arb
    alpha_off: arb
    rate_off: arb

    @classmethod
    def of(cls, descent: PrefixDescent) -> _Numbers:
        step, share = arb(descent.step), arb(descent.share)
        alpha, rate = 1 - step * arb(descent.ridge), step / (descent.examples * share)
        return cls(alpha, rate, share, abs(alpha - arb(descent.alpha)), abs(rate - arb(descent.rate)))

    def contraction(self, largest: arb) -> arb:
        """rho, for eigenvalues of A between 0 and the largest."""
        ends = abs(self.alpha).upper(), abs(self.alpha - self.rate * largest).upper()
        return max(ends[0], ends[1])

    def one_step(self, e: arb, d: int, w: arb, w_1: arb, slope: arb) -> arb:
        """What one more step adds: |w|, |w|_1 and |A w - b| are at most these."""
        root = arb(d).sqrt()
        own = root * e * (1 + (self.rate + self.rate_off) * (w_1 + 1))
        return (self.alpha_off * w + self.rate_off * slope + own).upper()


class _Prefix:
    """The examples before one x."""

    def __init__(self, descent: PrefixDescent, X: Floats, y: Floats) -> None:
        self.descent, self.one = descent, _Numbers.of(descent)
        d = descent.features
        # floats of the prompt are exact, and so are sums of few products in these bits, or nearly
        rows = arb_mat([[arb(float(a)) for a in row] for row in X]) if len(X) else arb_mat(0, d)
        targets = arb_mat([[arb(float(b))] for b in y]) if len(y) else arb_mat(0, 1)
        self.A = rows.transpose() * rows * self.one.share if len(X) else arb_mat(d, d)
        self.b = rows.transpose() * targets * self.one.share if len(X) else arb_mat(d, 1)

    def descend(self, x: Floats, bound: float = 0.0) -> tuple[arb, arb]:
        """(exact prediction at x, how far from it a network may be whose certificate has this bound)"""
        d, one, e = self.descent.features, self.one, arb(bound)
        rho = one.contraction(arb(largest_eigenvalue(self.A)))
        w, off = arb_mat(d, 1), (arb(d).sqrt() * e).upper()
        for _ in range(self.descent.steps):
            slope = self.A * w - self.b
            if bound:
                each = self._each(w, slope, off, e)
                off = (rho * off + each).upper()
            w = w * one.alpha - slope * one.rate
        at = [arb(float(a)) for a in x]
        exact = sum((a * b for a, b in zip(at, w.entries(), strict=True)), arb(0))
        sizes = sum((abs(a) for a in w.entries()), arb(0)) + arb(d).sqrt() * off
        return exact, (off * norm(at) + e * (sizes + 1)).upper()

    def _each(self, w: arb_mat, slope: arb_mat, off: arb, e: arb) -> arb:
        """What one more step adds, from a w that is so far from this one."""
        d = self.descent.features
        length, sum_of = norm(w.entries()) + off, sum((abs(a) for a in w.entries()), arb(0)) + arb(d).sqrt() * off
        steep = norm(slope.entries()) + norm(self.A.entries()) * off
        return self.one.one_step(e, d, length, sum_of, steep)

    def optimum(self, x: Floats) -> arb:
        """The prediction of the optimum, with a ridge: (A / (c examples) + ridge) w = b / (c examples)."""
        d, descent = self.descent.features, self.descent
        scale = 1 / (descent.examples * self.one.share)
        ridge = arb_mat([[arb(descent.ridge if i == j else 0) for j in range(d)] for i in range(d)])
        w = (self.A * scale + ridge).solve(self.b * scale)
        return sum((arb(float(a)) * b for a, b in zip(x, w.entries(), strict=True)), arb(0))
