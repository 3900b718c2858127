"""Several problems of one shape, side by side, in scaled coordinates: what one call of a network is about.

In floats, to plan a run and to see when it is over. What is proven about the answer is computed elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import expit

from weightwright.incontext.problem.loss import Loss
from weightwright.numbers import Floats

#: Scaled coefficients that are smaller count as this large when errors are compared with them.
SMALL = 0.01


@dataclass(frozen=True, eq=False)
class Contexts:
    """Minimise sum_i weights_i l(theta.x_i, y_i) + sum_r ridge_r/2 theta_r^2 + l1_r |theta_r|, for every b.

    rows: (B, n, D), for margins times the label. targets, weights: (B, n); a row of weight 0 and zeros is padding.
    ridge: (D,). l1: (B, D). units: (B, D), what a state of 1 is in the original coordinates. start: (B, D).
    """

    loss: Loss
    rows: Floats
    targets: Floats
    weights: Floats
    ridge: Floats
    l1: Floats
    units: Floats
    start: Floats

    @property
    def features(self) -> int:
        return self.rows.shape[2]

    @property
    def samples(self) -> int:
        return self.rows.shape[1]

    @cached_property
    def pulls(self) -> Floats:
        """(B, n, D): rows times their weights."""
        return self.weights[..., None] * self.rows

    @cached_property
    def has_l1(self) -> bool:
        return bool(self.l1.any())

    def arguments(self, theta: Floats) -> Floats:
        """(B, n): theta.x for every sample."""
        return (self.rows @ theta[..., None])[..., 0]

    def slopes(self, arguments: Floats) -> Floats:
        """l' at every sample."""
        if self.loss.name == "squared":
            return arguments - self.targets
        if self.loss.name == "logistic":
            return -expit(-arguments)
        return np.exp(arguments) - self.targets

    def curvatures(self, arguments: Floats) -> Floats:
        if self.loss.name == "squared":
            return np.ones_like(arguments)
        if self.loss.name == "logistic":
            return expit(arguments) * expit(-arguments)
        return np.exp(arguments)

    def gradient(self, theta: Floats) -> Floats:
        """(B, D): of the smooth part."""
        return self.pulled(self.slopes(self.arguments(theta)), self.pulls) + self.ridge * theta

    def pulled(self, slopes: Floats, pulls: Floats) -> Floats:
        """(B, D): slopes times rows, summed over the samples."""
        return np.asarray(np.einsum("bn,bnd->bd", slopes, pulls), dtype=np.float64)

    def hessian(self, theta: Floats) -> Floats:
        """(B, D, D): of the smooth part."""
        curved = self.curvatures(self.arguments(theta))[..., None] * self.pulls
        return np.swapaxes(curved, 1, 2) @ self.rows + np.diag(self.ridge)

    def steepest(self) -> Floats:
        """(B, D, D): above all second derivatives of the logistic loss; of other losses those at the start."""
        if self.loss.name != "logistic":
            return self.hessian(self.start)
        return 0.25 * np.swapaxes(self.pulls, 1, 2) @ self.rows + np.diag(self.ridge)

    def remaining(self, theta: Floats) -> Floats:
        """(B,): about how far the optimum is, relative to the coefficients: a Newton step, on the features that a
        proximal step leaves away from 0."""
        with np.errstate(all="ignore"):
            g, H = self.gradient(theta), self.hessian(theta)
            far = np.empty(len(theta))
            for b in range(len(theta)):
                far[b] = self._newton(theta[b], g[b], H[b], self.l1[b], self.units[b])
        return np.where(np.isfinite(far), far, np.inf)

    @staticmethod
    def _newton(theta: Floats, g: Floats, H: Floats, l1: Floats, units: Floats) -> float:
        if not (np.isfinite(g).all() and np.isfinite(H).all()):
            return np.inf
        step = 1 / max(float(np.linalg.norm(H, 2)), 1e-300)
        z = theta - step * g
        new = np.sign(z) * np.maximum(np.abs(z) - step * l1, 0)
        active = (new != 0) | (l1 == 0)
        off = theta * ~active
        reduced = g[active] + np.sign(new[active]) * l1[active]
        off[active] = np.linalg.lstsq(H[np.ix_(active, active)], reduced, rcond=None)[0]
        return relative(off, theta, units)


def relative(off: Floats, theta: Floats, units: Floats) -> float:
    """How far a state is off, relative to it, in the original or in the scaled coordinates, whichever is more: in the
    one a feature of small spread may hide all others, in the other a feature that hardly matters."""
    original = np.linalg.norm(off * units) / max(float(np.linalg.norm(theta * units)), SMALL * float(units.max()))
    return float(max(original, np.linalg.norm(off) / max(float(np.linalg.norm(theta)), SMALL)))


def padded(rows: Sequence[Floats], samples: int) -> Floats:
    """Arrays of unequal length on top of each other, filled up with zeros to so many rows: (B, samples, ...)."""
    total = np.zeros((len(rows), samples, *rows[0].shape[1:]))
    for place, array in zip(total, rows, strict=True):
        place[: len(array)] = array
    return total
