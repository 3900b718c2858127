"""A layer as the prover sees it: heads as stored, what they add up to, and what is proven of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weightwright.claims.certificate import Terms
from weightwright.numbers import Floats


@dataclass(frozen=True)
class Anchors:
    """A head as stored: scores z_j = slopes_j s + offsets_j (beta included), values values_j + tilts_j s.

    On registers the tilts are 0. The output is multiplied by `weight` and added to the others'.
    """

    slopes: Floats
    offsets: Floats
    values: Floats
    tilts: Floats
    copied: bool  # whether values with a tilt are the input itself, times a power of two: they do not round
    hidden: float  # the score of keys that the head must not see; -inf if there are none
    weight: float = 1.0
    window: Window | None = None


@dataclass(frozen=True)
class Window:
    """Anchors on the whole numbers from `first` on, with scores -c (s - L)^2 up to what they share; only the M on each
    side of the nearest are seen."""

    M: int
    first: int
    c: float


@dataclass(frozen=True)
class Sum:
    """What a layer adds up: slope * s and its heads."""

    heads: tuple[Anchors, ...]
    slope: float = 0.0

    def values(self, s: Floats) -> Floats:
        """The layer's output in plain floats."""

        def head(anchors: Anchors) -> Floats:
            scores = s[:, None] * anchors.slopes + anchors.offsets
            if anchors.window is not None:
                L = anchors.window.first + np.arange(len(anchors.slopes))
                scores = np.where(np.abs(L - np.rint(s)[:, None]) <= anchors.window.M, scores, -np.inf)
            weights = np.exp(scores - scores.max(axis=1, keepdims=True))
            values = anchors.values + s[:, None] * anchors.tilts
            mixed: Floats = (weights * values).sum(axis=1) / weights.sum(axis=1)
            return mixed

        return self.slope * s + sum(anchors.weight * head(anchors) for anchors in self.heads)


@dataclass(frozen=True)
class Proof:
    """Boxes that cover the domain and terms that hold on each of them; NaN where nothing was proven."""

    boxes: Floats
    terms: Terms
    lipschitz: float
