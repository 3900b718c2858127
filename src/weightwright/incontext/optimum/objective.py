"""The objective that a fit is measured by: scikit-learn's, with an intercept that is not penalised."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from flint import arb, arb_mat, fmpq
from numpy.typing import NDArray

from weightwright.enclosures.balls.linear_algebra import Balls, balls, evaluate, matrix, norm, product
from weightwright.incontext.problem.loss import Loss
from weightwright.incontext.problem.problem import Problem
from weightwright.numbers import Floats


@dataclass(frozen=True, eq=False)
class Objective:
    """F(w, c) = sum_i weights_i l(w.x_i + c, y_i) + ridge/2 |w|^2 + l1 |w|_1: no penalty on c.

    X: (n, d). y, weights: (n,). All numbers are meant exactly. Without an intercept, c = 0. With S = sum_i weights_i,
    scikit-learn's objectives are (each up to a factor):

    | estimator | loss | ridge | l1 |
    |---|---|---|---|
    | LinearRegression | squared | 0 | 0 |
    | Ridge | squared | alpha | 0 |
    | Lasso | squared | 0 | alpha S |
    | ElasticNet | squared | alpha (1 - l1_ratio) S | alpha l1_ratio S |
    | LogisticRegression | logistic | 1/C | 0 |
    | PoissonRegressor | poisson | alpha S | 0 |

    >>> from weightwright.incontext import loss
    >>> Objective([[1.0], [2.0]], [1.0, 3.0], loss("squared"), [1.0, 1.0], ridge=Fraction(1, 10)).size
    2
    """

    X: Floats
    y: Floats
    loss: Loss
    weights: Floats
    ridge: Fraction = Fraction(0)
    l1: Fraction = Fraction(0)
    intercept: bool = True

    def __post_init__(self) -> None:
        checked = Problem(self.X, self.y, self.loss, self.weights)
        for name in ("X", "y", "weights"):
            object.__setattr__(self, name, getattr(checked, name))
        for name in ("ridge", "l1"):
            object.__setattr__(self, name, exact_penalty(name, getattr(self, name)))
        if not isinstance(self.intercept, bool):
            raise ValueError(f"intercept={self.intercept!r}: write True or False")

    @property
    def d(self) -> int:
        return self.X.shape[1]

    @property
    def size(self) -> int:
        """How many numbers are fitted: the coefficients and, last, the intercept."""
        return self.d + self.intercept

    @cached_property
    def counted(self) -> NDArray[np.intp]:
        """The numbers of the samples whose weight is not zero; the others do not matter."""
        return np.flatnonzero(self.weights > 0)

    @cached_property
    def sample_weights(self) -> Balls:
        return balls(self.weights[self.counted])

    @cached_property
    def rows(self) -> Floats:
        """What (w, c) is multiplied with: x_i and 1, times y_i for margins; counted samples only."""
        X = self.X[self.counted]
        rows = np.column_stack([X, np.ones(len(X))]) if self.intercept else X
        return rows * self.y[self.counted, None] if self.loss.form == "margin" else rows

    @cached_property
    def matrix(self) -> arb_mat:
        return matrix(self.rows)

    @cached_property
    def transposed(self) -> arb_mat:
        return self.matrix.transpose()

    def penalties(self) -> Balls:
        """The ridge penalty of every fitted number: none for the intercept."""
        return [rational(self.ridge)] * self.d + [arb(0)] * self.intercept

    def arguments(self, v: Balls) -> dict[str, Balls]:
        """What the loss's formula takes at v = (w, c), for every counted sample."""
        x, y = product(self.matrix, v), balls(self.y[self.counted])
        if self.loss.form == "residual":
            return {"x": [a - b for a, b in zip(x, y, strict=True)]}
        return {"x": x} if self.loss.form == "margin" else {"x": x, "y": y}

    def gradient(self, v: Balls, arguments: dict[str, Balls]) -> Balls:
        """Of the smooth part at v, whose arguments these are."""
        slopes = evaluate(self.loss.slope_expression, arguments)
        pulls = [s * slope for s, slope in zip(self.sample_weights, slopes, strict=True)]
        pulled = product(self.transposed, pulls)
        return [g + r * v_r for g, r, v_r in zip(pulled, self.penalties(), v, strict=True)]

    def subgradient_length(self, v: Balls) -> arb:
        """Of the shortest subgradient at v. v: exact."""
        slopes, l1 = self.gradient(v, self.arguments(v)), rational(self.l1)
        return norm([*(shortest(g, w, l1) for g, w in zip(slopes, v[: self.d], strict=False)), *slopes[self.d :]])


def shortest(slope: arb, w: arb, l1: arb) -> arb:
    """The smallest element of slope + l1 times the subdifferential of |.| at the exact number w."""
    if w == 0:
        return (slope - l1).max(arb(0)) - (-slope - l1).max(arb(0))
    return slope + (l1 if w > 0 else -l1)


def rational(x: Fraction) -> arb:
    return arb(fmpq(x.numerator, x.denominator))


def exact_penalty(name: str, given: Any) -> Fraction:
    """The penalty as a fraction; ValueError that names it if it is none."""
    if not isinstance(given, int | float | Fraction | np.floating | np.integer) or isinstance(given, bool):
        raise ValueError(f"{name}={given!r}: a penalty is a number that is not negative")
    if not (math.isfinite(given) and given >= 0):
        raise ValueError(f"{name}={given!r}: a penalty is a finite number that is not negative")
    return Fraction(given) if isinstance(given, Fraction | int) else Fraction(float(given))
