"""The problem that an algorithm solves: examples, a loss, weights of the examples, ridge and l1 penalties."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from flint import arb, arb_mat

from weightwright.enclosures.balls.linear_algebra import Balls, balls, evaluate, matrix, norm, product
from weightwright.enclosures.balls.series import working_precision
from weightwright.incontext.problem.loss import Loss
from weightwright.numbers import Floats


@dataclass(frozen=True, eq=False)
class Problem:
    """Minimise F(w) = sum_i c_i l(w.x_i, y_i) + sum_r (ridge_r/2 w_r^2 + l1_r |w_r|).

    X: (n, d). y: (n,). weights: the c_i, (n,); None is exactly 1/n each. ridge, l1: a number, or an array with one for
    each feature; 0 for one without penalty, such as the ones of an intercept. All floats are meant exactly.

    >>> from weightwright.incontext import loss
    >>> Problem([[1.0], [2.0]], [1.0, 3.0], loss("squared"), ridge=0.1).d
    1
    """

    X: Floats
    y: Floats
    loss: Loss
    weights: Floats | None = None
    ridge: float | Floats = 0.0
    l1: float | Floats = 0.0

    def __post_init__(self) -> None:
        X = _array("X", self.X, 2)
        y = _array("y", self.y, 1)
        if not isinstance(self.loss, Loss):
            raise ValueError(f"loss must be a Loss, not {self.loss!r}; write loss('squared') or loss(formula=...)")
        if X.size == 0:
            raise ValueError(f"X has shape {X.shape}; at least one sample and one feature are needed")
        if len(y) != len(X):
            raise ValueError(f"y has {len(y)} entries and X has {len(X)} rows; every sample needs one target")
        object.__setattr__(self, "X", X)
        object.__setattr__(self, "y", y)
        _require_targets(y, self.loss)
        if self.weights is not None:
            object.__setattr__(self, "weights", _sample_weights(self.weights, len(X)))
        for name in ("ridge", "l1"):
            object.__setattr__(self, name, penalty(name, getattr(self, name), self.d))

    @property
    def n(self) -> int:
        return len(self.X)

    @property
    def d(self) -> int:
        return self.X.shape[1]

    @property
    def ridges(self) -> Floats:
        """(d,): the ridge penalty of every feature."""
        return np.broadcast_to(self.ridge, (self.d,))

    @property
    def l1s(self) -> Floats:
        """(d,): the l1 penalty of every feature."""
        return np.broadcast_to(self.l1, (self.d,))

    @property
    def has_l1(self) -> bool:
        """Whether any feature has an l1 penalty."""
        return bool(np.any(self.l1))

    @cached_property
    def rows(self) -> Floats:
        """(n, d): what w is multiplied with, x_i or, for margins, y_i x_i."""
        return self.X * self.y[:, None] if self.loss.form == "margin" else self.X

    @cached_property
    def row_lengths(self) -> Balls:
        """The Euclidean length of every row."""
        with working_precision():
            return [norm(balls(row)) for row in self.rows]

    def sample_weights(self) -> Balls:
        """The c_i, exactly or (1/n) within the working precision."""
        return [arb(1) / self.n] * self.n if self.weights is None else balls(self.weights)

    def arguments(self, w: Balls, rows: arb_mat | None = None) -> dict[str, Balls]:
        """What the loss's formula takes, for every sample. rows: the rows as a matrix of balls, if at hand."""
        x = product(matrix(self.rows) if rows is None else rows, w)
        y = balls(self.y)
        if self.loss.form == "residual":
            return {"x": [a - b for a, b in zip(x, y, strict=True)]}
        return {"x": x} if self.loss.form == "margin" else {"x": x, "y": y}

    def gradient(self, w: Balls) -> Balls:
        """Of the smooth part: sum c_i l' x_i + ridge_r w_r."""
        slopes = evaluate(self.loss.slope_expression, self.arguments(w))
        pulls = [c * slope for c, slope in zip(self.sample_weights(), slopes, strict=True)]
        own = zip(product(matrix(self.rows.T), pulls), balls(self.ridges), w, strict=True)
        return [g + ridge * w_r for g, ridge, w_r in own]


def _array(name: str, given: Any, dimensions: int) -> Floats:
    try:
        array = np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be an array of numbers, not {type(given).__name__} {given!r:.60}") from None
    if array.ndim != dimensions:
        wanted = "(samples, features)" if dimensions == 2 else "(samples,)"
        raise ValueError(f"{name} has shape {array.shape}; an array of shape {wanted} is needed")
    for index in np.argwhere(~np.isfinite(array))[:1]:
        place = ", ".join(map(str, index))
        raise ValueError(f"{name}[{place}] is {float(array[tuple(index)])!r}; only finite numbers can be used")
    array.flags.writeable = False
    return array


def _require_targets(y: Floats, loss: Loss) -> None:
    if loss.targets == "signs":
        wrong, wanted = ~np.isin(y, (-1.0, 1.0)), "labels 1 or -1"
    elif loss.targets == "counts":
        wrong, wanted = y < 0, "targets that are not negative"
    else:
        return
    for i in np.flatnonzero(wrong)[:1]:
        raise ValueError(f"y[{i}] is {float(y[i])!r}; the loss {loss.name} needs {wanted}")


def _sample_weights(given: Any, n: int) -> Floats:
    weights = _array("weights", given, 1)
    if len(weights) != n:
        raise ValueError(f"weights has {len(weights)} entries and X has {n} rows; every sample needs one weight")
    for i in np.flatnonzero(weights < 0)[:1]:
        raise ValueError(f"weights[{i}] is {float(weights[i])!r}; weights cannot be negative")
    return weights


def penalty(name: str, given: Any, features: int) -> float | Floats:
    """A number for all features, or an array with one for each; ValueError for what is no penalty."""
    try:
        array = np.array(given)
    except ValueError:  # lists of unequal length
        array = np.array(None)
    if array.dtype.kind not in "iuf":
        raise ValueError(f"{name}={given!r}: a penalty is a number that is not negative, or an array of such numbers")
    if array.shape not in ((), (features,)):
        raise ValueError(f"{name} has shape {array.shape}; give one number, or one for each of {features} features")
    array = array.astype(np.float64)
    for index in np.argwhere(~(np.isfinite(array) & (array >= 0)))[:1]:
        where = f"{name}[{index[0]}]" if array.ndim else name
        raise ValueError(f"{where}={float(array[tuple(index)])!r}: a penalty is a finite number that is not negative")
    array.flags.writeable = False
    return array if array.ndim else float(array)


def penalty_in_words(size: float | Floats) -> str:
    """A number as it is, an array by its smallest and largest.

    >>> penalty_in_words(0.5), penalty_in_words(np.array([0.5, 0.0]))
    ('0.5', '0 to 0.5')
    """
    return f"{np.min(size):g} to {np.max(size):g}" if np.ndim(size) else repr(size)
