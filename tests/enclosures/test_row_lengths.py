"""Rows in floats: lengths never below those in balls, hardly above, and none where rounding would spoil them; sums of
their products with what they are off by."""

from __future__ import annotations

import numpy as np
import pytest
from flint import arb, ctx, fmpq, fmpq_mat
from hypothesis import given
from hypothesis import strategies as st

from weightwright.enclosures.balls.linear_algebra import (
    gram_within,
    inverse,
    matrix,
    row_lengths,
    row_lengths_above,
    within,
)


@pytest.mark.parametrize(("apart", "known"), [(1.0, True), (2.0**-10, True), (2.0**-44, False)])
def test_they_are_above_the_true_ones_and_near(apart: float, known: bool) -> None:
    """apart: by how much two columns differ; the inverse has entries of about its square."""
    rows = np.random.default_rng(0).normal(size=(40, 5)) * 10.0 ** np.arange(-2, 3)
    rows[:, 1] = rows[:, 0] + apart * rows[:, 1]
    with ctx.workprec(128):
        inverted = inverse(matrix(rows).transpose() * matrix(rows))
        assert inverted is not None
        near, exact = row_lengths_above(rows, inverted), row_lengths(matrix(rows), inverted)
        assert (near is not None) == known
        if near is not None:
            for above, true in zip(near.tolist(), exact, strict=True):
                assert true <= arb(above) <= true * (1 + 1e-6)


@given(st.integers(1, 60), st.integers(1, 4), st.integers(0, 10**6), st.floats(-8, 8))
def test_sums_of_products_are_where_they_are_said_to_be(n: int, d: int, seed: int, spread: float) -> None:
    """Against fractions, with weights that are no floats; terms cancel."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, d)) * 10.0 ** (spread * rng.uniform(-1, 1, (n, d)))
    rows[n // 2 :] = rows[: n - n // 2] * (1 + 1e-9)
    thirds = [fmpq(int(k), 3) for k in rng.integers(0, 1000, n)]
    exact = fmpq_mat(d, d)
    for weight, row in zip(thirds, rows.tolist(), strict=True):
        for j in range(d):
            for k in range(d):
                exact[j, k] += weight * fmpq(*row[j].as_integer_ratio()) * fmpq(*row[k].as_integer_ratio())
    with ctx.workprec(128):
        found = gram_within(rows, [arb(weight) for weight in thirds])
        assert found is not None
        assert all(
            ball.contains(arb(true)) for ball, true in zip(within(*found).entries(), exact.entries(), strict=True)
        )
        sizes = np.abs(rows).T @ (np.array([float(arb(w)) for w in thirds])[:, None] * np.abs(rows))
        assert (found[1] <= 8 * (n + 6) * 2.0**-53 * sizes + 1e-200).all()  # hardly more than they may be off by


def test_weights_that_floats_do_not_hold_are_left_to_balls() -> None:
    rows = np.ones((2, 1))
    with ctx.workprec(128):
        assert gram_within(rows, [arb(1), arb(1, 1e-9)]) is None
        assert gram_within(rows, [arb(1), arb(2) ** -600]) is None
        assert gram_within(rows, [arb(1), arb(2) ** 600]) is None
        assert gram_within(np.full((2, 1), 1e200), [arb(1), arb(1)]) is None
        tiny = np.array(
            [[1.5 * 2.0**-575, 2.0**300], [1.0, 0.0]]
        )  # a weight times the first is lost, and is then large
        assert gram_within(tiny, [arb(2.0**-499), arb(1)]) is None
