"""Several problems of one shape, side by side, in scaled coordinates: what one call of a network is about.

In floats, to plan a run and to see when it is over; nothing is proven here (`problem` is for that). The kinds: a loss
of one number, several classes in one model, and Huber's regression, which fits a scale beside the coefficients.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from weightwright.incontext.problem.loss import Loss
from weightwright.numbers import Floats

Indices = NDArray[np.intp]
#: A scale below this share of the largest target may be rounding: it counts as going to 0.
ROUNDING = 2.0**-40
#: Errors are compared with the length of the scaled coefficients, or with this length where they are shorter.
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

    @property
    def shares_step(self) -> bool:
        """Whether all contexts must have one step: step times ridge stands in the weights of the network."""
        return bool(self.ridge.any())

    def some(self, which: Indices) -> Self:
        """Those contexts only."""
        batches = ("rows", "targets", "weights", "l1", "units", "start")
        return replace(self, **{name: getattr(self, name)[which] for name in batches})

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
        return self.pull(self.slopes(self.arguments(theta)), self.pulls) + self.ridge * theta

    def pull(self, slopes: Floats, pulls: Floats) -> Floats:
        """(B, D): slopes times rows, summed over the samples."""
        return np.asarray((slopes[:, None] @ pulls)[:, 0], dtype=np.float64)

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
        """(B,): about how far the optimum is, relative to the coefficients: a Newton step, on the features
        that a proximal step leaves away from 0."""
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
        return relative_size(off, theta, units)


@dataclass(frozen=True, eq=False)
class MultinomialContexts(Contexts):
    """The same for K classes: a state has K D numbers, and so have ridge, l1, units and start. targets: (B, n, K), 1
    for the class of a sample, else 0. loss: the logistic one, whose slopes have several classes here."""

    @property
    def classes(self) -> int:
        return self.targets.shape[2]

    def arguments(self, theta: Floats) -> Floats:
        """(B, n, K): W x for every sample."""
        return self.rows @ np.swapaxes(theta.reshape(len(theta), self.classes, -1), 1, 2)

    def slopes(self, arguments: Floats) -> Floats:
        """(B, n, K): by how much each class is too likely."""
        return self._likely(arguments) - self.targets

    def pull(self, slopes: Floats, pulls: Floats) -> Floats:
        return (np.swapaxes(slopes, 1, 2) @ pulls).reshape(len(pulls), -1)

    def hessian(self, theta: Floats) -> Floats:
        p = self._likely(self.arguments(theta))
        B, _, D = self.rows.shape
        H = np.empty((B, self.classes, D, self.classes, D))
        for k in range(self.classes):
            for m in range(self.classes):
                curved = (p[..., k] * ((k == m) - p[..., m]))[..., None] * self.pulls
                H[:, k, :, m] = np.swapaxes(curved, 1, 2) @ self.rows
        return H.reshape(B, self.classes * D, -1) + np.diag(self.ridge)

    def steepest(self) -> Floats:
        """diag(p) - p p^T is at most 1/2, so one class's part is above the whole."""
        D = self.features
        return np.swapaxes(self.pulls, 1, 2) @ self.rows / 2 + np.diag(self.ridge[:D])

    @staticmethod
    def _likely(arguments: Floats) -> Floats:
        powers = np.exp(arguments - arguments.max(axis=2, keepdims=True))
        return powers / powers.sum(axis=2, keepdims=True)


@dataclass(frozen=True, eq=False)
class HuberContexts(Contexts):
    """Minimise sum_i weights_i (sigma + H(r_i / sigma) sigma) + sum_j ridge_j/2 w_j^2 over theta = (w, sigma), for
    every b: r_i = w . x_i - y_i, H quadratic up to epsilon. With an intercept the last feature is 1.

    loss: the squared one. start: (B, D + 1), its last column where sigma starts. uniform: features depend on each
    other, and steps are of one length so that coefficients stay as short as they can be.
    """

    epsilon: float
    intercept: bool
    uniform: bool

    @property
    def penalties(self) -> Floats:
        """(D + 1,): the ridge of the coefficients; the scale has none."""
        return np.append(self.ridge, 0.0)

    def residuals(self, theta: Floats) -> Floats:
        """(B, n)."""
        return self.arguments(theta[:, :-1]) - self.targets

    def gradient(self, theta: Floats) -> Floats:
        """(B, D + 1)."""
        return self.loss_gradient(theta, self.residuals(theta)) + self.penalties * theta

    def loss_gradient(self, theta: Floats, residuals: Floats) -> Floats:
        """(B, D + 1): the gradient but for the penalty, from the residuals."""
        psi = np.clip(residuals / theta[:, -1:], -self.epsilon, self.epsilon)
        weighted = self.weights * psi
        pulled = (weighted[:, None] @ self.rows)[:, 0]
        return np.hstack([2 * pulled, (self.weights - weighted * psi).sum(axis=1, keepdims=True)])

    def values(self, theta: Floats) -> Floats:
        """(B,): what is minimised."""
        sigma = theta[:, -1:]
        z = self.residuals(theta) / sigma
        psi = np.clip(z, -self.epsilon, self.epsilon)
        losses = (self.weights * sigma * (1 + psi * (2 * z - psi))).sum(axis=1)
        return losses + theta[:, :-1] ** 2 @ self.ridge / 2

    def hessian(self, theta: Floats, everyone: bool = False) -> Floats:
        """(B, D + 1, D + 1). everyone: as if no sample were an outlier."""
        z = self.residuals(theta) / theta[:, -1:]
        clipped = np.clip(z, -self.epsilon, self.epsilon)
        u = np.concatenate([self.rows, -clipped[..., None]], axis=2)
        counted = self.weights * (everyone | (z == clipped)) * (2 / theta[:, -1:])
        return np.swapaxes(counted[..., None] * u, 1, 2) @ u + np.diag(self.penalties)

    def remaining(self, theta: Floats) -> Floats:
        """(B,): about how far the optimum is: of the coefficients or of the scale, whichever is more."""
        return self.missing(theta).max(axis=0)

    def missing(self, theta: Floats) -> Floats:
        """(2, B): a Newton step of the coefficients relative to them, and of the scale relative to it."""
        far = np.full((2, len(theta)), np.inf)
        with np.errstate(all="ignore"):
            g, H = self.gradient(theta), self.hessian(theta)
            for b, state in enumerate(theta):
                if not (np.isfinite(g[b]).all() and np.isfinite(H[b]).all()):
                    continue
                off = np.linalg.lstsq(H[b], g[b], rcond=None)[0]
                far[:, b] = relative_size(off[:-1], state[:-1], self.units[b]), abs(off[-1] / state[-1])
        return np.where(np.isfinite(far), far, np.inf)

    def floor(self, tol: float) -> Floats:
        """(B,): a scale that is not above it may be going to 0."""
        return np.maximum(tol * self.start[:, -1], ROUNDING * np.abs(self.targets).max(axis=1))


def relative_size(off: Floats, theta: Floats, units: Floats) -> float:
    """How far a state is off, relative to it, in the original or in the scaled coordinates, whichever is more: in the
    one a feature of small spread may hide all others, in the other a feature that hardly matters."""
    original = np.linalg.norm(off * units) / max(float(np.linalg.norm(theta * units)), SMALL * float(units.max()))
    return float(max(original, np.linalg.norm(off) / max(float(np.linalg.norm(theta)), SMALL)))


def pad(arrays: Sequence[Floats], samples: int) -> Floats:
    """Arrays of unequal length side by side, each filled up with rows of zeros: (B, samples, ...)."""
    total = np.zeros((len(arrays), samples, *arrays[0].shape[1:]))
    for place, array in zip(total, arrays, strict=True):
        place[: len(array)] = array
    return total
