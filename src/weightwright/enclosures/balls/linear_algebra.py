"""Numbers in balls for whole lists at once: formulas, products with matrices, and floats on the safe side.

Linear systems and weighted sums of rows in balls.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from flint import arb, arb_mat, fmpq

from weightwright.enclosures.balls.midrad import LOST, above, gamma
from weightwright.expressions import Expression, Number, Variable, fold
from weightwright.numbers import Floats

Balls = list[arb]

#: Bits to which a weight is known that counts as a float; and the least sizes of weights and of numbers, so that their
#: product is no subnormal number.
_NARROW, _SMALL, _SMALLER = 60, 2.0**-500, 2.0**-400


def evaluate(expression: Expression, at: Mapping[str, Balls]) -> Balls:
    """The expression at every place of the lists; NaN where it is undefined. Sharp for narrow balls only."""
    count = len(next(iter(at.values())))

    def leaf(node: Number | Variable) -> Balls:
        if isinstance(node, Variable):
            return at[node.name]
        return [arb(fmpq(node.value.numerator, node.value.denominator))] * count

    def node(op: str, args: Sequence[Balls]) -> Balls:
        rule = _RULES[op]
        return [rule(*items) for items in zip(*args, strict=True)] if args else [rule()] * count

    return fold(expression, leaf, node)


def balls(array: Floats | Iterable[float]) -> Balls:
    """Floats, exactly."""
    return [arb(float(x)) for x in array]


def matrix(array: Floats) -> arb_mat:
    return arb_mat(np.asarray(array, dtype=np.float64).tolist())


def product(A: arb_mat, x: Balls) -> Balls:
    """A x, entry by entry."""
    column: Balls = (A * arb_mat([[entry] for entry in x])).entries()
    return column


def norm(x: Iterable[arb]) -> arb:
    """The Euclidean length."""
    return sum((entry * entry for entry in x), arb(0)).nonnegative_part().sqrt()


def float_above(x: arb) -> float:
    """A float that is not below any number of the ball; infinity where nothing is known."""
    if x.is_nan():
        return math.inf
    top = x.upper()
    nearest = float(top)
    return nearest if math.isinf(nearest) or arb(nearest) >= top else math.nextafter(nearest, math.inf)


def float_below(x: arb) -> float:
    return -float_above(-x)


def _quotient(a: arb, b: arb) -> arb:
    return arb.nan() if b.contains(0) else a / b


def _sigmoid(a: arb) -> arb:
    return 1 / (1 + (-a).exp())


def _sign(a: arb) -> arb:
    """Any value between where the sign is not known."""
    if a > 0:
        return arb(1)
    if a < 0:
        return arb(-1)
    return arb.nan() if a.is_nan() else arb(0, 1)


_RULES: dict[str, Callable[..., arb]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": _quotient,
    "pow": lambda a, b: a**b,
    "neg": lambda a: -a,
    "pi": arb.pi,
    "e": arb.const_e,
    "exp": arb.exp,
    "log": arb.log,
    "sqrt": arb.sqrt,
    "sin": arb.sin,
    "cos": arb.cos,
    "tan": arb.tan,
    "atan": arb.atan,
    "tanh": arb.tanh,
    "sigmoid": _sigmoid,
    "softplus": lambda a: a.exp().log1p(),
    "gelu": lambda a: a * (1 + (a / arb(2).sqrt()).erf()) / 2,
    "silu": lambda a: a * _sigmoid(a),
    "erf": arb.erf,
    "abs": abs,
    "relu": lambda a: a.max(arb(0)),
    "sign": _sign,
    "step": lambda a: (1 + _sign(a)) / 2,
    "max": lambda a, b: a.max(b),
    "min": lambda a, b: a.min(b),
    "clip": lambda a, lo, hi: a.max(lo).min(hi),
}


def solve(G: arb_mat, b: Balls) -> Balls | None:
    """G^-1 b; None where G is not proven to be nonsingular."""
    try:
        found: Balls = G.solve(arb_mat([[entry] for entry in b])).entries()
    except ZeroDivisionError:
        return None
    return found if all(entry.is_finite() for entry in found) else None


def inverse(G: arb_mat) -> arb_mat | None:
    """G^-1; None where G is not proven to be nonsingular."""
    try:
        found = G.inv()
    except ZeroDivisionError:
        return None
    return found if all(entry.is_finite() for entry in found.entries()) else None


def diagonal(entries: Balls) -> arb_mat:
    return arb_mat([[entry if i == j else arb(0) for j in range(len(entries))] for i, entry in enumerate(entries)])


def weighted_rows(rows: arb_mat, weights: Balls) -> arb_mat:
    """Every row times its weight."""
    if all(weight == 1 for weight in weights):
        return rows
    return arb_mat([[s * a for a in row] for s, row in zip(weights, rows.table(), strict=True)])


def gram_within(rows: Floats, weights: Balls) -> tuple[Floats, Floats] | None:
    """The sum of w_i a_i a_i^T over the rows a_i, and what it is off by at most, entry by entry; None where floats do
    not hold the weights, or numbers are so small or large that w_i a_i might not be held.

    Every term is rounded n + 3 times and, with its weight, once and by 2^-60 more, relative to its size; the sum of the
    sizes comes out of floats in the same way.
    """
    w = np.array([float(weight.mid()) for weight in weights])
    held = all(weight.rel_accuracy_bits() >= _NARROW for weight in weights)
    if not held or not (((np.abs(w) > _SMALL) | (w == 0)) & (np.abs(w) < 1 / _SMALL)).all():
        return None
    n, sizes = len(rows), np.abs(rows)
    if not (((sizes > _SMALLER) | (sizes == 0)) & (sizes < 1 / _SMALLER)).all():
        return None
    with np.errstate(all="ignore"):
        found = rows.T @ (w[:, None] * rows)
        off = above(above(sizes.T @ (np.abs(w)[:, None] * sizes), n + 4) * gamma(n + 6), 2) + LOST
    return (found, off) if np.isfinite(found).all() and np.isfinite(off).all() else None


def within(near: Floats, off: Floats) -> arb_mat:
    """Matrices whose entries are off by at most so much."""
    pairs = (zip(row, errors, strict=True) for row, errors in zip(near.tolist(), off.tolist(), strict=True))
    return arb_mat([[arb(x, error) for x, error in pair] for pair in pairs])


def dot(a: Balls, b: Balls) -> arb:
    return sum((x * y for x, y in zip(a, b, strict=True)), arb(0))


def root(x: arb) -> arb:
    """Of a number that is known not to be negative."""
    return x.nonnegative_part().sqrt()


def length(x: Balls, inverted: arb_mat) -> arb:
    """|x|_{M^-1}, where the inverse of M is given."""
    return root(dot(x, product(inverted, x)))


def row_lengths(rows: arb_mat, inverted: arb_mat) -> Balls:
    """|a|_{M^-1} of every row a."""
    pulled = (rows * inverted).table()
    return [root(dot(row, other)) for row, other in zip(rows.table(), pulled, strict=True)]


def row_lengths_above(rows: Floats, inverted: arb_mat) -> Floats | None:
    """Floats that are not below |a|_{M^-1} of every row a, nor far above it; None where rounding would make them so.

    a^T P a in floats, P near M^-1, is off by at most the sum of |a_j| |a_k| (gamma |P_jk| + |P_jk - (M^-1)_jk|), gamma
    for the 2 d + 2 roundings of every term.
    """
    entries, d = inverted.table(), rows.shape[1]
    P = np.array([[float(entry.mid()) for entry in row] for row in entries])
    pairs = (zip(row, near, strict=True) for row, near in zip(entries, P.tolist(), strict=True))
    off = np.array([[float_above(abs(x - arb(p))) for x, p in pair] for pair in pairs])
    sizes = np.abs(rows)
    with np.errstate(all="ignore"):
        squares = ((rows @ P) * rows).sum(axis=1)
        room = np.abs(P) * ((2 * d + 6) * 2.0**-53) + off
        lost = 4 * LOST * max(1.0, float(sizes.max(initial=0.0)))  # what is too small to be held, times an entry
        errors = above(((sizes @ room) * sizes).sum(axis=1), 2 * d + 4) + lost
        if not (np.isfinite(errors).all() and (errors <= squares / 4).all()):
            return None
        return above(np.sqrt(above(squares + errors, 1)), 1)


def box_around(centre: Balls, inverted: arb_mat, radius: arb) -> Balls:
    """In every coordinate what is within the radius of the centre in the norm |.|_M: at most that times the root of
    (M^-1)_jj."""
    diagonals = [row[j] for j, row in enumerate(inverted.table())]
    widths = [(radius * root(entry)).upper() for entry in diagonals]
    return [x + arb(0, 1) * width for x, width in zip(centre, widths, strict=True)]
