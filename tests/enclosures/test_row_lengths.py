"""Lengths of rows in floats: never below those in balls, hardly above, and none where rounding would spoil them."""

from __future__ import annotations

import numpy as np
import pytest
from flint import arb

from weightwright.enclosures.balls.linear_algebra import inverse, matrix, row_lengths, row_lengths_above
from weightwright.enclosures.balls.series import working_precision


@pytest.mark.parametrize(("apart", "known"), [(1.0, True), (2.0**-10, True), (2.0**-44, False)])
def test_they_are_above_the_true_ones_and_near(apart: float, known: bool) -> None:
    """apart: by how much two columns differ; the inverse has entries of about its square."""
    rows = np.random.default_rng(0).normal(size=(40, 5)) * 10.0 ** np.arange(-2, 3)
    rows[:, 1] = rows[:, 0] + apart * rows[:, 1]
    with working_precision():
        inverted = inverse(matrix(rows).transpose() * matrix(rows))
        assert inverted is not None
        near, exact = row_lengths_above(rows, inverted), row_lengths(matrix(rows), inverted)
        assert (near is not None) == known
        if near is not None:
            for above, true in zip(near.tolist(), exact, strict=True):
                assert true <= arb(above) <= true * (1 + 1e-6)
