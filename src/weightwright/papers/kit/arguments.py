"""Truncated linear models, Range[a,b](w_i . x_i + t_i) for every token i: arguments, targets and where to look."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from weightwright.box import Box
from weightwright.numbers import UNIT, Floats
from weightwright.papers.claims.ridge_functions import TokenModels


def models(w: npt.ArrayLike, t: npt.ArrayLike, domain: Box | tuple[float, float]) -> tuple[Floats, Floats, Box]:
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


def token_box(domain: Box | tuple[float, float], n: int, d: int) -> Box:
    """A box of shape (n, d) from an interval, a box per feature, or a box per token and feature."""
    box = Box.of(domain)
    if box.lo.shape not in ((1,), (d,), (n, d)):
        raise ValueError(f"domain must be an interval, or a box of shape ({d},) or ({n}, {d}), not {box.lo.shape}")
    return Box(np.broadcast_to(box.lo, (n, d)).copy(), np.broadcast_to(box.hi, (n, d)).copy())


def pad_tokens(X: npt.ArrayLike, tokens: int) -> Floats:
    """(..., n, d) with zero tokens behind, (..., tokens, d): a shorter input for a network of `tokens` tokens.

    X: up to `tokens` tokens.
    tokens: how many the network takes.

    Remark G.3: where each output depends on its own token alone (UA-2, UA-3) the first n outputs are those of the
    padded input's first n tokens; the domain must hold 0.

    >>> pad_tokens([[1.0, 2.0]], 3).tolist()
    [[1.0, 2.0], [0.0, 0.0], [0.0, 0.0]]
    """
    given = np.asarray(X, dtype=np.float64)
    if given.ndim < 2:
        raise ValueError(f"X must have shape (..., n, d), not {given.shape}")
    whole("tokens", tokens, given.shape[-2], f": X has {given.shape[-2]} tokens")
    behind = [(0, 0)] * (given.ndim - 2) + [(0, tokens - given.shape[-2]), (0, 0)]
    return np.pad(given, behind)


def interval(a: float, b: float) -> tuple[float, float]:
    if not (math.isfinite(a) and math.isfinite(b) and a < b):
        raise ValueError(f"a and b must be finite with a < b, not a = {a!r}, b = {b!r}")
    return float(a), float(b)


def positive(name: str, value: float | None) -> None:
    if value is not None and not (isinstance(value, int | float) and math.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be a positive finite number, not {value!r}")


def whole(name: str, value: int | None, least: int, why: str = "") -> None:
    if value is not None and (not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least):
        raise ValueError(f"{name} must be a whole number of at least {least}{why}, not {value!r}")


def reach(w: Floats, t: Floats, box: Box, dtype: str) -> tuple[float, float]:
    """An interval for all w_i . x_i + t_i, as computed in the dtype."""
    middle, half = box.lo / 2 + box.hi / 2, box.hi / 2 - box.lo / 2
    centre, radius = (w * middle).sum(axis=1) + t, (np.abs(w) * half).sum(axis=1)
    largest = float((np.abs(w) * np.maximum(np.abs(box.lo), np.abs(box.hi))).sum(axis=1).max() + np.abs(t).max())
    slack = 64 * (w.shape[1] + 4) * UNIT[dtype] * largest
    return float((centre - radius).min()) - slack, float((centre + radius).max()) + slack


def target(profiles: Sequence[str], w: Floats, t: Floats) -> TokenModels:
    """Output (i, r) is profiles[r](w_i . x_i + t_i): unit i * rows + r."""
    return TokenModels(tuple(profiles), w, t)


def arguments_of(x: Floats, w: Floats, t: Floats) -> Floats:
    """w_i . x_i + t_i for inputs (count, n, d), in plain floats."""
    s: Floats = (x * w).sum(axis=2) + t
    return s


def aimed(w: Floats, t: Floats, box: Box, places: Floats) -> Callable[[np.random.Generator, int], Floats]:
    """Probes whose arguments lie at the given places, or as near as the domain allows, and random ones."""
    norms = (w**2).sum(axis=1)

    def probes(rng: np.random.Generator, count: int) -> Floats:
        x = rng.uniform(box.lo, box.hi, (count, *w.shape))
        corners = np.where(rng.random((count // 8 + 1, *w.shape)) < 0.5, box.lo, box.hi)
        x[: len(corners)] = corners[:count]
        chosen = rng.choice(places, (count, len(w)))
        away = rng.choice([0.0, 1e-15, -1e-15, 1e-9, -1e-9, 1e-4, -1e-4], (count, len(w)))
        wanted = chosen + away * max(1.0, float(np.abs(places).max()))
        for _ in range(3):  # what is cut off at the faces is made up for along the other features
            missing = wanted - arguments_of(x, w, t)
            step = np.divide(missing, norms, out=np.zeros_like(missing), where=norms > 0)[:, :, None] * w
            aims = np.arange(count) >= count // 4
            x = np.where(aims[:, None, None], np.clip(x + step, box.lo, box.hi), x)
        return x

    return probes
