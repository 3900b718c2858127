"""Affine combinations of forms of one coordinate, many at a time."""

from __future__ import annotations

import numpy as np

from weightwright.certificates.checker.midrad import LOST, Balls, U, above, gamma, power_of_two
from weightwright.certificates.checker.stream import Row
from weightwright.network.layers import Floats


def combination(weights: Floats, rows: list[Row], constant: float = 0.0) -> Row:
    """constant + the sum of weights[i] rows[i], each a form of one coordinate."""
    ids = np.concatenate([np.zeros(1, dtype=np.int64), *(np.array(row.ids, dtype=np.int64) for row in rows)])
    mid = np.concatenate([[constant], *(w * row.forms.mid[:, 0] for w, row in zip(weights, rows, strict=True))])
    own = np.concatenate([[1.0], *(row.forms.mid[:, 0] for row in rows)])
    rad = np.concatenate([np.zeros(1), *(row.forms.rad[:, 0] for row in rows)])
    factor = np.concatenate([np.ones(1), *(np.full(len(row.ids), w) for w, row in zip(weights, rows, strict=True))])
    exact = ((power_of_two(factor) | power_of_two(own)) & (np.abs(mid) > LOST)) | (own == 0) | (factor == 0)
    exact[0] = True
    rounded = np.where(exact, 0.0, U * np.abs(mid) + LOST)
    spread = np.where((rad == 0) | (factor == 0), 0.0, np.abs(factor) * rad + LOST)
    every, place = np.unique(ids, return_inverse=True)
    total, size, radius = (np.zeros(len(every)) for _ in range(3))
    np.add.at(total, place, mid)
    np.add.at(size, place, np.abs(mid))
    np.add.at(radius, place, rounded + spread)
    count = np.bincount(place, weights=mid != 0, minlength=len(every))
    added = np.where(count > 1, gamma(count) * size, 0.0)
    most = 4 + int(np.bincount(place).max())
    return Row(tuple(every.tolist()), Balls(total[:, None], _up(radius + added, most)[:, None]))


def _up(radius: Floats, roundings: int) -> Floats:
    return np.where(radius == 0, 0.0, above(radius, roundings))


def of_one(id: int) -> Row:
    """The basis function itself."""
    return Row((0, id), Balls.exact(np.array([[0.0], [1.0]])))
