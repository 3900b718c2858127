"""Linear systems and weighted sums of rows in balls."""

from __future__ import annotations

from flint import arb, arb_mat

from weightwright.incontext.arithmetic import Balls, product


def solved(G: arb_mat, b: Balls) -> Balls | None:
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
    return arb_mat([[s * a for a in row] for s, row in zip(weights, rows.table(), strict=True)])


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


def box_around(centre: Balls, inverted: arb_mat, radius: arb) -> Balls:
    """In every coordinate what is within the radius of the centre in the norm |.|_M: at most that times the root of
    (M^-1)_jj."""
    diagonals = [row[j] for j, row in enumerate(inverted.table())]
    widths = [(radius * root(entry)).upper() for entry in diagonals]
    return [x + arb(0, 1) * width for x, width in zip(centre, widths, strict=True)]
