"""The problem that an algorithm solves: examples, a loss, weights of the examples, penalties, and maybe an intercept.

The one home of penalised linear problems. In balls here, for what is proven; `contexts` has several problems side by
side in floats, for what is run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from flint import arb, arb_mat, fmpq

from weightwright.enclosures.balls.linear_algebra import (
    Balls,
    balls,
    diagonal,
    evaluate,
    matrix,
    norm,
    product,
    weighted_rows,
)
from weightwright.enclosures.balls.series import working_precision
from weightwright.incontext.problem.loss import Loss
from weightwright.numbers import Floats, counted

Penalty = float | Fraction | Floats


@dataclass(frozen=True, eq=False)
class Problem:
    """Minimise F(w, b) = sum_i c_i l(w.x_i + b, y_i) + sum_r (ridge_r/2 w_r^2 + l1_r |w_r|).

    X: (n, d).
    y: (n,).
    weights: the c_i, (n,); None is exactly 1/n each.
    ridge, l1: a number, or an array with one for each feature; 0 for one without penalty.
    intercept: whether b is fitted too, without a penalty, as the last of the fitted numbers (the last column of `rows`
    is then 1); else b = 0.
    v: the fitted numbers, as balls.

    All numbers are meant exactly. With S the sum of the weights, scikit-learn's objectives are (each up to a factor):

    | estimator | loss | ridge | l1 |
    |---|---|---|---|
    | LinearRegression | squared | 0 | 0 |
    | Ridge | squared | alpha | 0 |
    | Lasso | squared | 0 | alpha S |
    | ElasticNet | squared | alpha (1 - l1_ratio) S | alpha l1_ratio S |
    | LogisticRegression | logistic | 1/C | 0 |
    | PoissonRegressor | poisson | alpha S | 0 |

    >>> from weightwright.incontext import loss
    >>> Problem([[1.0], [2.0]], [1.0, 3.0], loss("squared"), ridge=0.1).d
    1
    """

    X: Floats
    y: Floats
    loss: Loss
    weights: Floats | None = None
    ridge: Penalty = 0.0
    l1: Penalty = 0.0
    intercept: bool = False

    def __repr__(self) -> str:
        size = f"{counted(self.n, 'sample')} of {counted(self.X.shape[1], 'feature')}"
        return f"Problem({size}, {self.loss.name[:30]}{', with an intercept' if self.intercept else ''})"

    def __post_init__(self) -> None:
        X = _array("X", self.X, 2)
        y = _array("y", self.y, 1)
        if not isinstance(self.loss, Loss):
            raise ValueError(f"loss must be a Loss, not {self.loss!r}; write loss('squared') or loss(formula=...)")
        if X.size == 0:
            raise ValueError(f"X has shape {X.shape}; at least one sample and one feature are needed")
        object.__setattr__(self, "X", X)
        if len(y) != self.n:
            raise ValueError(f"y has {len(y)} entries and X has {self.n} rows; every sample needs one target")
        object.__setattr__(self, "y", y)
        _require_targets(y, self.loss)
        if self.weights is not None:
            object.__setattr__(self, "weights", _sample_weights(self.weights, self.n))
        for name in ("ridge", "l1"):
            given = getattr(self, name)
            if not (isinstance(given, Fraction) and given >= 0):
                object.__setattr__(self, name, read_penalty(name, given, self.d))
        if not isinstance(self.intercept, bool | np.bool_):
            raise ValueError(f"intercept={self.intercept!r}: write True or False")
        object.__setattr__(self, "intercept", bool(self.intercept))

    @property
    def n(self) -> int:
        """Examples."""
        return len(self.X)

    @property
    def d(self) -> int:
        """Features."""
        return self.X.shape[1]

    @property
    def size(self) -> int:
        """How many numbers are fitted: the coefficients and, last, the intercept."""
        return self.d + self.intercept

    @property
    def ridges(self) -> Floats:
        """(size,): the ridge penalty of every fitted number, in floats."""
        return np.array([float(size) for size in self.exact_ridges()])

    @property
    def l1s(self) -> Floats:
        """(size,): the l1 penalty of every fitted number, in floats."""
        return np.array([float(size) for size in self.exact_l1s()])

    @property
    def has_ridge(self) -> bool:
        """Whether any feature has a ridge penalty."""
        return any(self.exact_ridges())

    @property
    def has_l1(self) -> bool:
        """Whether any feature has an l1 penalty."""
        return any(self.exact_l1s())

    @cached_property
    def rows(self) -> Floats:
        """(n, size): what the fitted numbers are multiplied with, x_i and maybe 1; for margins times y_i."""
        rows = np.column_stack([self.X, np.ones(self.n)]) if self.intercept else self.X
        return rows * self.y[:, None] if self.loss.form == "margin" else rows

    @cached_property
    def matrix(self) -> arb_mat:
        """The rows, exactly."""
        return matrix(self.rows)

    @cached_property
    def transposed(self) -> arb_mat:
        """The columns, exactly."""
        return self.matrix.transpose()

    @cached_property
    def row_lengths(self) -> Balls:
        """The Euclidean length of every row."""
        with working_precision():
            return [norm(balls(row)) for row in self.rows]

    def without_idle_samples(self) -> Problem:
        """The same problem without the samples of weight 0, which do not matter; one must be left."""
        if self.weights is None or self.weights.all():
            return self
        used = self.weights > 0
        return replace(self, X=self.X[used], y=self.y[used], weights=self.weights[used])

    @property
    def plain_weights(self) -> Floats:
        """(n,): the c_i, in floats."""
        return np.full(self.n, 1 / self.n) if self.weights is None else self.weights

    def exact_weights(self) -> list[Fraction]:
        """The c_i, as fractions."""
        return [Fraction(1, self.n)] * self.n if self.weights is None else list(map(Fraction, self.weights.tolist()))

    def sample_weights(self) -> Balls:
        """The c_i, exactly or (1/n) within the working precision."""
        return [arb(1) / self.n] * self.n if self.weights is None else balls(self.weights)

    def exact_ridges(self) -> list[Fraction]:
        """The ridge penalty of every fitted number; none of the intercept."""
        return self._of_each(self.ridge)

    def exact_l1s(self) -> list[Fraction]:
        """The l1 penalty of every fitted number; none of the intercept."""
        return self._of_each(self.l1)

    def ridge_balls(self) -> Balls:
        """The ridge penalty of every fitted number, as balls."""
        return [rational(size) for size in self.exact_ridges()]

    def l1_balls(self) -> Balls:
        """The l1 penalty of every fitted number, as balls."""
        return [rational(size) for size in self.exact_l1s()]

    def plain_arguments(self, products: Floats) -> tuple[Floats, ...]:
        """What the loss's formula takes, in floats: residuals or margins, or w.x and y.

        products: (..., n), of the fitted numbers with the rows.
        """
        if self.loss.form == "residual":
            return (products - self.y,)
        return (products,) if self.loss.form == "margin" else (products, self.y)

    def arguments(self, v: Balls) -> dict[str, Balls]:
        """What the loss's formula takes at the fitted numbers v, for every sample."""
        x, y = product(self.matrix, v), balls(self.y)
        if self.loss.form == "residual":
            return {"x": [a - b for a, b in zip(x, y, strict=True)]}
        return {"x": x} if self.loss.form == "margin" else {"x": x, "y": y}

    def gradient(self, v: Balls, arguments: dict[str, Balls] | None = None) -> Balls:
        """Of the smooth part: sum c_i l' x_i + ridge_r v_r.

        arguments: those at v, if at hand.
        """
        slopes = evaluate(self.loss.slope_expression, self.arguments(v) if arguments is None else arguments)
        pulls = [c * slope for c, slope in zip(self.sample_weights(), slopes, strict=True)]
        return [pull + own for pull, own in zip(product(self.transposed, pulls), self.ridge_slopes(v), strict=True)]

    def ridge_slopes(self, v: Balls) -> Balls:
        """The ridge penalty's part of the gradient."""
        return [ridge * entry for ridge, entry in zip(self.ridge_balls(), v, strict=True)]

    def ridge_value(self, v: Balls) -> arb:
        """The ridge penalty's part of F."""
        return sum((slope * entry for slope, entry in zip(self.ridge_slopes(v), v, strict=True)), arb(0)) / 2

    def gram(self, factors: Balls) -> arb_mat:
        """The Hessian of the smooth part: the rows' products, weighted, and the ridge penalties.

        factors: c_i times the curvature of sample i.
        """
        return self.transposed * weighted_rows(self.matrix, factors) + diagonal(self.ridge_balls())

    def _of_each(self, penalty: Penalty) -> list[Fraction]:
        own = penalty.tolist() if isinstance(penalty, np.ndarray) else [penalty] * self.d
        return [*map(Fraction, own), *[Fraction(0)] * self.intercept]


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


def read_penalty(name: str, given: Any, features: int) -> float | Floats:
    """A number for all features, or an array with one for each; ValueError for what is no penalty."""
    try:
        array = np.array(given)
    except ValueError:  # lists of unequal length
        array = np.array(None)
    if array.dtype.kind not in "iuf":
        raise ValueError(f"{name}={given!r}: a penalty is a number that is not negative, or an array of such numbers")
    if array.shape not in ((), (features,)):
        raise ValueError(f"{name} has shape {array.shape}; give one number, or one for each of {features} features")
    for index in np.argwhere(~(np.isfinite(array) & (array >= 0)))[:1]:
        shown = f"{name}[{index[0]}]={float(array[index[0]])!r}" if array.ndim else f"{name}={given}"
        raise ValueError(f"{shown}: a penalty is a finite number that is not negative")
    array = array.astype(np.float64)
    array.flags.writeable = False
    return array if array.ndim else float(array)


def penalty_in_words(size: Penalty) -> str:
    """A number as it is, an array by its smallest and largest.

    >>> penalty_in_words(0.5), penalty_in_words(np.array([0.5, 0.0]))
    ('0.5', '0 to 0.5')
    """
    return f"{np.min(size):g} to {np.max(size):g}" if isinstance(size, np.ndarray) else str(size)


def soft_threshold(z: Balls, taus: Balls) -> Balls:
    """sign(z) max(|z| - tau, 0), entry by entry."""
    nothing = arb(0)
    return [(z_r - tau).max(nothing) - (-z_r - tau).max(nothing) for z_r, tau in zip(z, taus, strict=True)]


def shortest_subgradient(slopes: Balls, v: Balls, l1s: Balls) -> Balls:
    """The shortest vector of slopes + l1 times the subdifferential of |.| at the exact numbers v."""
    return [_shortest(*entry) for entry in zip(slopes, v, l1s, strict=True)]


def _shortest(slope: arb, w: arb, l1: arb) -> arb:
    if l1 == 0:
        return slope
    return soft_threshold([slope], [l1])[0] if w == 0 else slope + (l1 if w > 0 else -l1)


def rational(x: Fraction) -> arb:
    """A fraction, within the working precision."""
    return arb(fmpq(x.numerator, x.denominator))
