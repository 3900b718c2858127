"""The optimum of least squares in balls: by the normal equations, and where they are singular, of minimum norm.

A solve that succeeds in balls proves that the matrix is nonsingular. Where it fails, the data's rank is found in whole
numbers: the floats of a column are integers times one power of two.
"""

from __future__ import annotations

import numpy as np
from flint import arb, arb_mat, fmpz_mat

from weightwright.enclosures.balls.linear_algebra import (
    Balls,
    balls,
    dot,
    matrix,
    product,
    solve,
    weighted_rows,
)
from weightwright.incontext.problem.problem import Problem
from weightwright.numbers import Floats


def normal_equations(problem: Problem) -> tuple[arb_mat, Balls]:
    """G and b: the gradient of the smooth part at v is G v - b."""
    weights, y = problem.sample_weights(), balls(problem.y)
    return problem.gram(weights), product(weighted_rows(problem.matrix, weights).transpose(), y)


def enclose_least_squares(problem: Problem) -> tuple[Balls | None, int]:
    """The optimum of the squared loss without l1, as balls, and how many columns are independent (of each
    other and of a constant, if there is an intercept). None if more bits are needed.

    Where there are fewer independent columns than features, it is the optimum with the smallest |w|. No
    weight may be 0.
    """
    n, d = problem.n, problem.d
    if problem.has_ridge or n > d:
        found = solve(*normal_equations(problem))
        if found is not None or problem.has_ridge:
            return found, d
    else:
        found = _interpolating(problem)
        if found is not None:
            return found, n - problem.intercept
    return _of_minimum_norm(problem)


def _interpolating(problem: Problem) -> Balls | None:
    """The shortest w with w.x_i + c = y_i for all i: w = X^T m with X X^T m + c 1 = y and, if c is free, sum m = 0."""
    X, n = problem.X, problem.n
    inner = (matrix(X) * matrix(X.T)).table()
    if problem.intercept:
        inner = [[*row, arb(1)] for row in inner] + [[arb(1)] * n + [arb(0)]]
    found = solve(arb_mat(inner), balls(problem.y) + [arb(0)] * problem.intercept)
    return None if found is None else product(matrix(X.T), found[:n]) + found[n:]


def _of_minimum_norm(problem: Problem) -> tuple[Balls | None, int]:
    """Through a basis of the columns: x_j = sum_p B_pj x_p + offset_j, exactly. And how many columns it has.

    In the basis least squares is unique: u, e. Then w is the shortest one with B w = u, and c = e - offset.w.
    """
    free = int(problem.intercept)
    columns = np.roll(problem.rows, free, axis=1)  # ones first, so that they are in the basis
    pivots, relations = _column_relations(columns)
    rank = len(pivots) - free
    if not pivots:
        return [arb(0)] * problem.d, rank
    basis = matrix(columns[:, pivots])
    scaled = weighted_rows(basis, problem.sample_weights())
    u = solve(basis.transpose() * scaled, product(scaled.transpose(), balls(problem.y)))
    w = None if u is None else _shortest([row[free:] for row in relations[free:]], u[free:], problem.d)
    if u is None or w is None:
        return None, rank
    return ([*w, u[0] - dot(relations[0][1:], w)] if free else w), rank


def _shortest(B: list[Balls], u: Balls, d: int) -> Balls | None:
    """The shortest w with B w = u, for independent rows."""
    if not B:
        return [arb(0)] * d
    rows = arb_mat(B)
    m = solve(rows * rows.transpose(), u)
    return None if m is None else product(rows.transpose(), m)


def _column_relations(columns: Floats) -> tuple[list[int], list[Balls]]:
    """A basis among the columns, as early as possible, and the coefficients (of the basis, for every column)."""
    whole, shifts = _whole_numbers(columns)
    gram = whole.transpose() * whole  # its columns have the same relations
    reduced, denominator, rank = gram.rref()
    table = reduced.table()[:rank]
    pivots = [next(j for j, entry in enumerate(row) if entry != 0) for row in table]
    found = []
    for pivot, row in zip(pivots, table, strict=True):
        scales = [arb(2) ** (shifts[pivot] - shift) for shift in shifts]
        found.append([arb(entry) / arb(denominator) * scale for entry, scale in zip(row, scales, strict=True)])
    return pivots, found


def _whole_numbers(columns: Floats) -> tuple[fmpz_mat, list[int]]:
    """Every column times a power of two that makes it whole, and the exponents of these powers."""
    scaled, shifts = [], []
    for column in columns.T:
        ratios = [float(x).as_integer_ratio() for x in column]
        common = max(below for _, below in ratios)
        scaled.append([above * (common // below) for above, below in ratios])
        shifts.append(common.bit_length() - 1)
    return fmpz_mat(scaled).transpose(), shifts
