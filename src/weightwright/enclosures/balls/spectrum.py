"""Proven bounds of the eigenvalues of a symmetric matrix of balls.

H - mu I is positive definite if elimination without pivoting meets only positive pivots, in balls. Floating point says
which mu is worth a try.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from flint import arb, arb_mat

from weightwright.enclosures.balls.linear_algebra import float_above
from weightwright.numbers import Floats

#: A first guess is moved by this share, so that the proof has room.
ROOM = 2.0**-20
#: The smallest eigenvalue is looked for down to this share of the largest entry.
LEAST_SHARE = 2.0**-200


def smallest_eigenvalue(H: arb_mat) -> float:
    """A positive float that is not above any eigenvalue; 0 if none can be proven."""
    if not is_positive_definite(H):
        return 0.0
    middle = _middle(H)
    scale = float(np.abs(middle).max())
    guess = float(np.linalg.eigvalsh(middle)[0]) * (1 - ROOM)
    if guess > scale * 2.0**-40 and _is_below(H, guess):
        return guess
    proven = scale
    while proven > scale * LEAST_SHARE and not _is_below(H, proven):
        proven *= 2.0**-8
    if proven <= scale * LEAST_SHARE or proven == 0:
        return 0.0
    for _ in range(8):  # between what is proven and 2^8 times that
        if not _is_below(H, 2 * proven):
            break
        proven *= 2
    return proven


def largest_eigenvalue(H: arb_mat) -> float:
    """A float that is not below any eigenvalue."""
    guess = float(np.linalg.eigvalsh(_middle(H))[-1]) * (1 + ROOM)
    if math.isfinite(guess) and is_positive_definite(_identity(H.nrows(), guess) - H):
        return guess
    rows = [float_above(sum((abs(entry) for entry in row), arb(0))) for row in H.table()]
    return max(rows)  # no eigenvalue is above the largest row sum


def is_positive_definite(H: arb_mat) -> bool:
    """Whether every symmetric matrix in the ball certainly is."""
    left: list[list[arb]] = H.table()
    while left:
        pivot, *rest = left[0]
        if not pivot > 0:
            return False
        factors = [row[0] / pivot for row in left[1:]]
        left = [_reduced(row[1:], factor, rest) for row, factor in zip(left[1:], factors, strict=True)]
    return True


def _reduced(row: Sequence[arb], factor: arb, pivot_row: Sequence[arb]) -> list[arb]:
    return [entry - factor * above for entry, above in zip(row, pivot_row, strict=True)]


def _is_below(H: arb_mat, mu: float) -> bool:
    return is_positive_definite(H - _identity(H.nrows(), mu))


def _identity(d: int, factor: float) -> arb_mat:
    return arb_mat([[arb(factor if i == j else 0) for j in range(d)] for i in range(d)])


def _middle(H: arb_mat) -> Floats:
    return np.array([[float(entry.mid()) for entry in row] for row in H.table()])
