"""A feed-forward layer whose units are ramps along one coordinate, as what it is: kinks, slopes and plateaus.

The line of s falls into plateaus and ramps between them: with kinks k_0 < k_1 <= k_2 < k_3 <= ..., ramp j climbs from
k_2j to k_2j+1 with slope W_2[2 j], so that plateau j + 1 lies slope times width above plateau j.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weightwright.errors import LawError
from weightwright.network.layers import FeedForward
from weightwright.numbers import Floats


@dataclass(frozen=True, eq=False)
class RampTable:
    """What the layer computes, m ramps, of the coordinate with this number."""

    coordinate: int
    kinks: Floats  # (2 m,): where ramps start and end, in turn
    slopes: Floats  # (m, outputs)
    first: Floats  # (outputs,): what stands before the first ramp

    @property
    def heights(self) -> Floats:
        """(m, outputs): how far each ramp climbs."""
        heights: Floats = self.slopes * (self.kinks[1::2] - self.kinks[0::2])[:, None]
        return heights

    @property
    def plateaus(self) -> Floats:
        """(m + 1, outputs), in plain floats."""
        return np.cumsum(np.concatenate([self.first[None], self.heights]), axis=0)


def ramps_of(layer: FeedForward, where: str = "the feed-forward layer") -> RampTable:
    """The ramps; LawError where the units are none."""
    rows = np.flatnonzero(layer.W_1.any(axis=1))
    if layer.W_1.shape[1] % 2 or len(rows) > 1 or (layer.W_1[rows] != 1).any():
        raise LawError(f"{where}, W_1: ramps are pairs of units that read one coordinate, each with weight 1")
    kinks, W_2 = -layer.b_1[0], layer.W_2
    starts, ends = kinks[0::2], kinks[1::2]
    following = np.append(starts[1:], np.inf)[: len(ends)]
    wrong = np.flatnonzero((starts >= ends) | (ends > following))
    if len(wrong):
        raise LawError(f"{where}, b_1: ramp {wrong[0]} must end after it starts, and before the next one starts")
    if (W_2[0::2] != -W_2[1::2]).any():
        raise LawError(f"{where}, W_2: the second unit of a ramp must take back what the first one adds")
    coordinate = int(rows[0]) if len(rows) else 0
    return RampTable(coordinate, kinks, W_2[0::2], layer.b_2[0])


def climb(table: RampTable, X: Floats) -> Floats:
    """What the layer adds for X (..., d): the plateau that s stands on, or the one before its ramp and a part of it."""
    s = X[..., table.coordinate]
    passed = np.searchsorted(table.kinks, s, side="right")  # kinks at or below s
    ramp = np.minimum(passed // 2, len(table.slopes) - 1) if len(table.slopes) else passed * 0
    plateau = table.plateaus[passed // 2]
    if not len(table.slopes):
        return plateau
    part = np.where(passed % 2 == 1, s - table.kinks[2 * ramp], 0.0)
    return np.asarray(plateau + table.slopes[ramp] * part[..., None])
