"""A linear model for each token, w_i . x_i + t_i: the numbers of all tokens, a target, and where to look."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from weightwright.box import Box
from weightwright.numbers import UNIT, Floats, rounded
from weightwright.papers.claims.ridge_functions import TokenModels
from weightwright.papers.kit.arguments import token_box


@dataclass(frozen=True, eq=False)
class Models:
    """w_i . x_i + t_i for n tokens of d features in a domain."""

    w: Floats  # (n, d)
    t: Floats  # (n,)
    box: Box  # (n, d)
    dtype: str

    @property
    def ends(self) -> tuple[float, float]:
        """An interval for all w_i . x_i + t_i, as computed in the dtype."""
        w, t, box = self.w, self.t, self.box
        middle, half = box.lo / 2 + box.hi / 2, box.hi / 2 - box.lo / 2
        centre, radius = (w * middle).sum(axis=1) + t, (np.abs(w) * half).sum(axis=1)
        largest = float((np.abs(w) * np.maximum(np.abs(box.lo), np.abs(box.hi))).sum(axis=1).max() + np.abs(t).max())
        slack = 64 * (w.shape[1] + 4) * UNIT[self.dtype] * largest
        return float((centre - radius).min()) - slack, float((centre + radius).max()) + slack

    @property
    def factors(self) -> tuple[Floats | float, Floats | None]:
        """What features are multiplied with, (d, 1), where w_i is the same for all tokens; else 1, and a scale for each
        position."""
        if (self.w == self.w[0]).all():
            return rounded(self.w[:1].T, self.dtype), None
        return 1.0, rounded(self.w, self.dtype)

    def target(self, profiles: Sequence[str]) -> TokenModels:
        """Output (i, r) is profiles[r](w_i . x_i + t_i): unit i * rows + r."""
        return TokenModels(tuple(profiles), self.w, self.t)

    def arguments(self, x: Floats) -> Floats:
        """w_i . x_i + t_i for inputs (count, n, d), in plain floats."""
        s: Floats = (x * self.w).sum(axis=2) + self.t
        return s

    def probes(self, places: Floats) -> Callable[[np.random.Generator, int], Floats]:
        """Inputs whose arguments lie at the given places, or as near as the domain allows, and random ones."""
        w, box, norms = self.w, self.box, (self.w**2).sum(axis=1)

        def probes(rng: np.random.Generator, count: int) -> Floats:
            x = rng.uniform(box.lo, box.hi, (count, *w.shape))
            corners = np.where(rng.random((count // 8 + 1, *w.shape)) < 0.5, box.lo, box.hi)
            x[: len(corners)] = corners[:count]
            chosen = rng.choice(places, (count, len(w)))
            away = rng.choice([0.0, 1e-15, -1e-15, 1e-9, -1e-9, 1e-4, -1e-4], (count, len(w)))
            wanted = chosen + away * max(1.0, float(np.abs(places).max()))
            for _ in range(3):  # what is cut off at the faces is made up for along the other features
                missing = wanted - self.arguments(x)
                step = np.divide(missing, norms, out=np.zeros_like(missing), where=norms > 0)[:, :, None] * w
                aims = np.arange(count) >= count // 4
                x = np.where(aims[:, None, None], np.clip(x + step, box.lo, box.hi), x)
            return x

        return probes


def read_models(w: npt.ArrayLike, t: npt.ArrayLike, domain: Box | tuple[float, float]) -> tuple[Floats, Floats, Box]:
    """w (n, d) and t (n,) as arrays, and the domain as a box of shape (n, d); errors name what does not fit."""
    W, T = np.array(w, dtype=np.float64), np.array(t, dtype=np.float64)
    if W.ndim != 2 or not W.size:
        raise ValueError(f"w must have shape (n, d), one weight vector for each token, not {W.shape}")
    if T.shape != (len(W),):
        raise ValueError(f"t must have shape ({len(W)},), one shift for each token, not {T.shape}")
    for name, array in (("w", W), ("t", T)):
        if not np.isfinite(array).all():
            raise ValueError(f"{name} must be finite, but has {array[~np.isfinite(array)][0]!r}")
    return W, T, token_box(domain, *W.shape)
