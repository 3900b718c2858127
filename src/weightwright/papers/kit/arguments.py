"""Arguments that constructions share: what they must be, and what is said of those that are not."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from weightwright.box import Box
from weightwright.numbers import Floats, is_positive


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
    if value is not None and not is_positive(value):
        raise ValueError(f"{name} must be a positive finite number, not {value!r}")


def whole(name: str, value: int | None, least: int, why: str = "") -> None:
    if value is not None and (not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least):
        raise ValueError(f"{name} must be a whole number of at least {least}{why}, not {value!r}")


def known_method(method: str) -> None:
    if method not in ("faithful", "spectral"):
        raise ValueError(f"method must be 'faithful' or 'spectral', not {method!r}")


def one_given(names: str, first: object, second: object) -> None:
    """ValueError unless one of two arguments is given and the other is None; names: "tol or p"."""
    if (first is None) == (second is None):
        raise ValueError(f"give either {names}, not both and not neither")
