"""Huber's regression on several data sets of one shape, side by side, in scaled coordinates.

In floats, to plan a run and to see when it is over. What is proven about the answer is computed elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from weightwright.estimators.solving.contexts import padded, relative
from weightwright.estimators.solving.networks import prompt_size
from weightwright.estimators.solving.scaling import Scaling, near_powers_of_two, scaling_of
from weightwright.estimators.solving.solve import Data
from weightwright.numbers import Floats

Indices = NDArray[np.intp]
#: The first scale is at least this share of the largest residual of the middle target.
SMALLEST = 2.0**-30
#: Below this share of the largest target, rounding decides about residuals.
ROUNDING = 2.0**-40


@dataclass(frozen=True, eq=False)
class HuberContexts:
    """Minimise sum_i weights_i (sigma + H(r_i / sigma) sigma) + sum_j penalty_j/2 w_j^2 over theta = (w, sigma), for
    every b: r_i = w . x_i - y_i, and with an intercept the last feature is 1.

    rows: (B, n, D). targets, weights: (B, n); a row of weight 0 and zeros is padding. penalty: (D,). units: (B, D),
    what a coefficient of 1 is in the original coordinates. scale: (B,), where sigma starts. uniform: features
    depend on each other, and steps are of one length so that coefficients stay as short as they can be.
    """

    rows: Floats
    targets: Floats
    weights: Floats
    penalty: Floats
    units: Floats
    scale: Floats
    epsilon: float
    intercept: bool
    uniform: bool

    @property
    def start(self) -> Floats:
        """(B, D + 1): coefficients of 0, and the scale."""
        return np.hstack([np.zeros_like(self.units), self.scale[:, None]])

    @property
    def shared(self) -> bool:
        """Whether all contexts must have one step: step times penalty stands in the weights of the network."""
        return bool(self.penalty.any())

    @property
    def penalties(self) -> Floats:
        """(D + 1,): the scale has none."""
        return np.append(self.penalty, 0.0)

    def some(self, which: Indices) -> HuberContexts:
        """Those contexts only."""
        return replace(
            self,
            rows=self.rows[which],
            targets=self.targets[which],
            weights=self.weights[which],
            units=self.units[which],
            scale=self.scale[which],
        )

    def residuals(self, theta: Floats) -> Floats:
        """(B, n)."""
        return (self.rows @ theta[:, :-1, None])[..., 0] - self.targets

    def slopes(self, theta: Floats, residuals: Floats) -> Floats:
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
        return losses + theta[:, :-1] ** 2 @ self.penalty / 2

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
            g = self.slopes(theta, self.residuals(theta)) + self.penalties * theta
            H = self.hessian(theta)
            for b, state in enumerate(theta):
                if not (np.isfinite(g[b]).all() and np.isfinite(H[b]).all()):
                    continue
                off = np.linalg.lstsq(H[b], g[b], rcond=None)[0]
                far[:, b] = relative(off[:-1], state[:-1], self.units[b]), abs(off[-1] / state[-1])
        return np.where(np.isfinite(far), far, np.inf)

    def floor(self, tol: float) -> Floats:
        """(B,): a scale so small that it may be going to 0."""
        return np.maximum(tol * self.scale, ROUNDING * np.abs(self.targets).max(axis=1))


def huber_contexts(
    problems: Sequence[Data], epsilon: float, alpha: float, intercept: bool
) -> tuple[HuberContexts, list[Scaling]]:
    """scikit-learn's objective over the sum of the weights and over the targets' scale, in scaled coordinates."""
    scalings = [_scaling(data, epsilon, intercept) for data in problems]
    uniform = any(_dependent(scaling.rows(data.X)) for scaling, data in zip(scalings, problems, strict=True))
    if uniform:
        scalings = [_scaling(data, epsilon, intercept, uniform) for data in problems]
    elif alpha:
        scalings = [
            scaling.beside(data.X, data.weights, alpha * scaling.y_scale / float(data.weights.sum()))
            for scaling, data in zip(scalings, problems, strict=True)
        ]
    totals = np.array([data.weights.sum() for data in problems])
    own = np.array([scaling.y_scale for scaling in scalings])
    if alpha and len(problems) > 1:
        scale = np.exp2(np.mean([np.log2(scaling.scale) for scaling in scalings], axis=0))
        y_scale = np.exp2(np.mean(np.log2(own)))
        common = near_powers_of_two(np.append(scale, y_scale))
        scalings = [replace(scaling, scale=common[:-1], y_scale=float(common[-1])) for scaling in scalings]
        totals = np.full_like(totals, totals.max())
    samples = prompt_size(max(len(data.X) for data in problems))
    first, penalty = scalings[0], np.zeros(problems[0].X.shape[1] + intercept)
    # divided twice, since a square may not be a float
    penalty[: len(first.scale)] = 2 * alpha / float(totals[0]) * first.y_scale / first.scale / first.scale
    contexts = HuberContexts(
        rows=padded([scaling.rows(data.X) for scaling, data in zip(scalings, problems, strict=True)], samples),
        targets=padded([scaling.targets(data.y) for scaling, data in zip(scalings, problems, strict=True)], samples),
        weights=padded([data.weights / total for data, total in zip(problems, totals, strict=True)], samples),
        penalty=penalty,
        units=np.stack([scaling.units for scaling in scalings]),
        scale=own / [scaling.y_scale for scaling in scalings],
        epsilon=epsilon,
        intercept=intercept,
        uniform=uniform,
    )
    return contexts, scalings


def _dependent(rows: Floats) -> bool:
    """Columns of zeros do not count: their coefficients stay 0."""
    rows = rows[:, rows.any(axis=0)]
    return bool(np.linalg.matrix_rank(rows) < rows.shape[1])


def _scaling(data: Data, epsilon: float, intercept: bool, uniform: bool = False) -> Scaling:
    weights = data.weights / data.weights.sum()
    middle = _median(data.y, weights) if intercept else 0.0
    size = _scale_around(np.abs(data.y - middle), weights, epsilon)
    return replace(scaling_of(data.X, weights, intercept, uniform), y_mean=middle, y_scale=size)


def _median(y: Floats, weights: Floats) -> float:
    """One of the targets, with half of the weight on either side."""
    order = np.argsort(y, kind="stable")
    return float(y[order][np.searchsorted(np.cumsum(weights[order]), 0.5).clip(max=len(y) - 1)])


def _scale_around(sizes: Floats, weights: Floats, epsilon: float) -> float:
    """The best scale for residuals of these sizes, as a power of two that is hardly below it."""
    largest = float(near_powers_of_two(sizes.max()[None])[0])
    ratios, scale = sizes / largest, 2.0
    lowest = max(float(ratios[ratios > 0].min(initial=1.0)), SMALLEST)
    while scale > lowest and weights @ np.minimum((2 * ratios / scale) ** 2, epsilon**2) <= 1:
        scale /= 2
    return scale * largest if sizes.any() else 1.0
