"""Where scikit-learn's Huber objective is smallest at scale 0, since every sample can be fitted exactly.

With phi(r, sigma) = sigma + h(r / sigma) sigma = max over |psi| <= epsilon of 2 psi r + (1 - psi^2) sigma, what is
minimised is sum_i s_i phi(r_i, sigma) + alpha |w|^2 for sigma > 0, and for sigma = 0 its limit. At r = 0, sigma = 0
every slope (2 psi, 1 - psi^2) is a subgradient of phi. So (w, c, 0) with all r_i = 0 is a minimum if there are psi_i
with |psi_i| <= epsilon,

    sum_i s_i psi_i (x_i, 1) + alpha (w, 0) = 0   and   sum_i s_i (1 - psi_i^2) >= 0.

It is the only one if alpha > 0: w is unique by convexity, and phi vanishes at (0, 0) only. If alpha = 0, all exact fits
are minima. All of this is computed in fractions.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from flint import fmpq, fmpq_mat
from scipy.linalg import qr

from weightwright.network.layers import Floats


def exact_fit(
    X: Floats, y: Floats, weights: Floats, epsilon: Fraction, alpha: Fraction, intercept: bool
) -> list[fmpq] | None:
    """(w, c) of the only minimum, w alone without an intercept, if it is proven to be at scale 0. weights: positive.

    >>> X, y = np.array([[0.0], [1.0], [2.0]]), np.array([1.0, 3.0, 5.0])
    >>> exact_fit(X, y, np.ones(3), Fraction(2), Fraction(0), intercept=True)
    [2, 1]
    """
    rows = np.hstack([X, np.ones((len(X), 1))]) if intercept else X
    chosen = _independent(rows)
    if not alpha and len(chosen) < rows.shape[1]:
        return None
    fit, multipliers = [fmpq(0)] * rows.shape[1], list[fmpq]()
    if chosen:
        found = _shortest(_exact(X[chosen]), [_fraction(t) for t in y[chosen].tolist()], intercept)
        if found is None:
            return None
        fit, multipliers = found
    if not all(_fits(row, target, fit) for row, target in zip(rows.tolist(), y.tolist(), strict=True)):
        return None
    penalty = fmpq(alpha.numerator, alpha.denominator)
    total = sum(map(_fraction, weights.tolist()), fmpq(0))
    for s, multiplier in zip(weights[chosen].tolist(), multipliers, strict=True):
        pull = penalty * multiplier  # -s psi
        if abs(pull) > _fraction(s) * fmpq(epsilon.numerator, epsilon.denominator):
            return None
        total -= pull * pull / _fraction(s)
    return fit if total >= 0 else None


def _independent(rows: Floats) -> list[int]:
    """As many rows as are independent, by floats: if they are not, the system is singular."""
    rank = int(np.linalg.matrix_rank(rows))
    _, order = qr(rows.T, mode="r", pivoting=True)
    return [int(i) for i in order[:rank]]


def _shortest(X: list[list[fmpq]], y: list[fmpq], intercept: bool) -> tuple[list[fmpq], list[fmpq]] | None:
    """(w, c) with the shortest w that fits these samples exactly, and the multipliers l with w = sum_i l_i x_i and,
    with an intercept, sum_i l_i = 0."""
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
