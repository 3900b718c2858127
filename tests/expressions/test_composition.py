"""Chains of columns as one formula."""

from __future__ import annotations

import numpy as np
import pytest
from support.formulas import formula_values

import weightwright as ww
from weightwright.claims.chain import compose_chain
from weightwright.expressions import to_text
from weightwright.tracing.columns import Columns


def test_a_function_of_its_own_argument_is_itself() -> None:
    columns = Columns(None)
    t = columns.apply("tanh(3*x)", columns.affine([columns.input(0)], [2.0], 1.0))
    graph = columns.graph("t", [t])
    assert to_text(compose_chain(graph, 2, 1)) == "tanh(3*x)"
    assert to_text(compose_chain(graph, 2, 0)) == "tanh(3*(2*x + 1))"


def test_newton_steps_are_one_formula() -> None:
    columns = Columns(None)
    a = columns.input(0)
    y = columns.affine([a], [0.5], 0.5)
    for _ in range(5):
        y = columns.affine([y, columns.product(a, columns.apply("1/x", y))], [0.5, 0.5])
    graph = columns.graph("sqrt", [y])
    text = to_text(compose_chain(graph, graph.outputs[0], 0))
    x = np.linspace(0.5, 4, 9)
    assert np.abs(formula_values(text, ("x",), x[:, None]) - np.sqrt(x)).max() < 1e-8


def test_what_depends_on_more_is_refused() -> None:
    columns = Columns(2)
    a, b = columns.input(0), columns.input(1)
    both = columns.apply("exp(x)", columns.affine([a, b], [1.0, 1.0]))
    coded = columns.apply("exp(x)", columns.affine([a], [1.0], np.array([1.0, 2.0])))
    mixed = columns.apply("exp(x)", columns.mix(np.full((2, 2), 0.5), a))
    chosen = columns.apply("exp(x)", columns.softmax([a, b])[0])
    graph = columns.graph("", [both, coded, mixed, chosen])
    for column, words in zip(graph.outputs, ("alone", "every token", "alone", "alone"), strict=True):
        with pytest.raises(ww.FormulaError, match=words):
            compose_chain(graph, column, 0)
    assert to_text(compose_chain(graph, graph.outputs[0], graph.nodes[graph.outputs[0]].of[0])) == "exp(x)"


def test_deep_chains_do_not_recurse() -> None:
    columns = Columns(None)
    y = columns.input(0)
    for _ in range(3000):
        y = columns.apply("sin(x)", y)
    graph = columns.graph("", [y])
    assert to_text(compose_chain(graph, 3000, 0)).count("sin") == 3000
