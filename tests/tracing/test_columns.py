"""The builder of graphs: what is equal is built once, what is constant is folded, and only where that is exact."""

from __future__ import annotations

import numpy as np
import pytest
from support.graphs import graph_outputs

import weightwright as ww
from weightwright.claims.graph import AFFINE, PRODUCT
from weightwright.tracing.columns import Columns


def test_only_needed_columns_and_matrices_are_kept() -> None:
    columns = Columns(2)
    x = columns.input(0)
    columns.mix(np.array([[1.0, 2.0], [3.0, 4.0]]), x)
    kept = columns.mix(np.ones((2, 2)), x)
    graph = columns.graph("f", [kept])
    assert [node.op for node in graph.nodes] == ["input", "mix"]
    assert [matrix.tolist() for matrix in graph.matrices] == [[[1.0, 1.0], [1.0, 1.0]]]
    assert graph_outputs(graph, [[1.0], [2.0]]).tolist() == [[3.0], [3.0]]


def test_matrices_that_are_numbers_cost_nothing() -> None:
    columns = Columns(2)
    x = columns.input(0)
    assert columns.mix(np.eye(2), x) == x
    assert columns.mix(2 * np.eye(2), x) == columns.affine([x], [2.0])
    assert columns.constant_of(columns.mix(np.zeros((2, 2)), x)) == 0.0
    assert columns.mix(-0.0 * np.eye(2) + np.ones((2, 2)), x) == columns.mix(np.ones((2, 2)), x)


def test_sums_are_taken_together_only_where_that_is_exact() -> None:
    columns = Columns(None)
    x = columns.input(0)
    assert columns.nodes[columns.affine([x, x], [0.5, 0.25])].weights.tolist() == [0.75]
    assert columns.nodes[columns.affine([x, x], [1.0, 1e-20])].weights.tolist() == [1e-20, 1.0]
    assert columns.constant_of(columns.affine([x, x], [1.0, -1.0])) == 0.0


def test_sums_in_steps_become_one_only_where_that_is_exact() -> None:
    columns = Columns(None)
    x, y, z = (columns.input(i) for i in range(3))
    inner = columns.combined([x, y], [1.0, 0.1], 0.5)
    whole = columns.nodes[columns.combined([inner, z], [-2.0, 1.0], 0.25)]
    assert (whole.of, whole.weights.tolist(), whole.constants.tolist()) == ((x, y, z), [-2.0, -0.2, 1.0], [-0.75])
    assert columns.nodes[columns.combined([inner, z], [0.3, 1.0])].of == (z, inner)
    assert columns.nodes[columns.combined([inner, z], [1.0, 1.0], 1e-20)].of == (z, inner)
    assert columns.nodes[columns.affine([inner, z], [1.0, 1.0])].of == (z, inner)


def test_a_mean_stays_a_column_in_longer_sums_and_takes_constants() -> None:
    columns = Columns(None)
    x, y = columns.input(0), columns.input(1)
    mean = columns.affine([x, y], [0.5, 0.5])
    assert columns.nodes[columns.combined([x, mean], [1.0, -1.0])].of == (x, mean)
    shifted = columns.nodes[columns.combined([mean, columns.constant(3.0)], [1.0, 1.0])]
    assert (shifted.of, shifted.constants.tolist()) == ((x, y), [3.0])


def test_constant_factors_stand_outside_products() -> None:
    columns = Columns(None)
    x, y = columns.input(0), columns.input(1)
    tripled, negative = columns.affine([x], [3.0]), columns.affine([y], [-1.0])
    outside = columns.nodes[columns.product(tripled, negative)]
    assert (outside.op, outside.weights.tolist()) == (AFFINE, [-3.0])
    assert columns.nodes[outside.of[0]].op == PRODUCT
    assert outside.of[0] == columns.product(y, x)


def test_softmax_of_constants_is_constant() -> None:
    columns = Columns(2)
    zero, per_token = columns.constant(0.0), columns.constant(np.log([1.0, 3.0]))
    entries = [columns.constant_of(column) for column in columns.softmax([zero, per_token])]
    np.testing.assert_allclose(np.array(entries), [[0.5, 0.25], [0.5, 0.75]], rtol=1e-15)
    assert columns.constant_of(columns.softmax([columns.input(0)])[0]) == 1.0


def test_numbers_that_are_not_finite_are_refused() -> None:
    columns = Columns(None)
    x = columns.input(0)
    with pytest.raises(ww.FormulaError, match="nan"):
        columns.affine([x], [np.nan])
    with pytest.raises(ww.FormulaError, match="inf"):
        columns.constant(np.inf)
    assert columns.combined([columns.combined([x], [1e200], 1.0)], [1e200]) > x  # not taken apart: 1e400 is no float


def test_tokens_are_not_mixed_where_each_stands_by_itself() -> None:
    columns = Columns(None)
    with pytest.raises(ww.UnsupportedOperation, match="pass tokens=n"):
        columns.mix(np.ones((2, 2)), columns.input(0))
    with pytest.raises(ww.UnsupportedOperation, match="pass tokens=n"):
        columns.constant(np.array([1.0, 2.0]))
