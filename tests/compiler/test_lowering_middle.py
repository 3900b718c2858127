"""Ranges, chains, tolerances and undefined places of graphs of columns."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch
from support.graphs import cube, inputs, largest_error, layer_norm, mlp, newton_root, standardised

import weightwright as ww
from weightwright.approximation.shared_tables import cover
from weightwright.certify import certify
from weightwright.claims.graph import PRODUCT
from weightwright.compiler.lowering import lower as lowering
from weightwright.compiler.lowering.affine_forms import Forms
from weightwright.compiler.lowering.budget import Slopes, sensitivities
from weightwright.compiler.lowering.fusing import fuse
from weightwright.compiler.lowering.lower import lower
from weightwright.compiler.lowering.ranges import Evaluator
from weightwright.compiler.lowering.token_matrices import mixings
from weightwright.prover.graph_values import column_values
from weightwright.tracing.columns import Columns


def ranges(graph: Any, domain: ww.Box) -> Any:
    n, d = graph.tokens or 1, domain.lo.shape[-1]
    forms = Forms(graph, fuse(graph), d)
    return Evaluator(forms).on(np.broadcast_to(domain.lo, (n, d)), np.broadcast_to(domain.hi, (n, d)))


def coded() -> Any:
    """Mixed tokens with constants of their own."""
    columns = Columns(2)
    code = columns.affine([columns.input(0)], [1.0], np.array([1.0, 5.0]))
    mixed = columns.mix(np.array([[1.0, 2.0], [0.0, -1.0]]), code)
    return columns.graph("coded", [columns.apply("tanh(x)", columns.affine([mixed, code], [1.0, 0.5], 0.25)), mixed])


GRAPHS = {
    "coded": (coded(), cube(1, -1, 1)),
    "mlp": (mlp([3, 8, 8, 2], "gelu(x)"), cube(3, -1, 1)),
    "layer norm": (layer_norm(4, 1e-3), cube(4, -3, 3)),
    "tokens": (standardised(4, 1e-2), cube(1, -2, 2)),
    "Newton": (newton_root(3), cube(1, 0.5, 4)),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_ranges_hold_every_column(name: str) -> None:
    graph, domain = GRAPHS[name]
    found = ranges(graph, domain)
    x = inputs(graph, domain, 400, 0)
    for column, values in enumerate(column_values(graph, x)):
        if column in found.forms.place or graph.nodes[column].op in ("input", "affine"):
            try:
                lo, hi = found.of(column)
            except KeyError:  # inside a chain that is one head
                continue
            assert (values >= lo).all()
            assert (values <= hi).all()


def test_ranges_see_what_cancels() -> None:
    columns = Columns(2)
    x = columns.input(0)
    both = columns.affine([x, columns.affine([x], [-1.0], 3.0)], [1.0, 1.0])
    swapped = columns.affine([columns.mix(np.eye(2)[[1, 0]], columns.mix(np.eye(2)[[1, 0]], x)), x], [1.0, -1.0])
    graph = columns.graph("0", [both, swapped])
    found = ranges(graph, cube(1, -1, 1))
    for column, value in zip(graph.outputs, (3.0, 0.0), strict=True):
        assert np.allclose(found.of(column), value, atol=1e-10)


def test_the_lemma_bounds_a_layer_norm() -> None:
    graph = layer_norm(8, 1e-5)
    found = ranges(graph, cube(8, -3, 3))
    products = [k for k, node in enumerate(graph.nodes) if node.op == PRODUCT]
    assert sorted(found.lemmas) == products
    assert graph.nodes[graph.nodes[products[0]].of[found.lemmas[products[0]].index]].op == "1/sqrt(x)"
    lo, hi = found.of(products[0])
    assert np.sqrt(7) < hi[0] < 1.1 * np.sqrt(8)  # and not 5 / sqrt(eps)
    assert lo[0] == -hi[0]


def test_no_lemma_where_a_weight_is_negative() -> None:
    columns = Columns(None)
    f, g = columns.input(0), columns.input(1)
    V = columns.affine([columns.apply("x**2", f), columns.apply("x**2", g)], [1.0, -0.1], 2.0)
    graph = columns.graph("difference", [columns.product(f, columns.apply("1/x", V))])
    assert not ranges(graph, cube(2, -1, 1)).lemmas


def test_chains_of_one_variable_are_one_head() -> None:
    columns = Columns(None)
    x, y = columns.input(0), columns.input(1)
    inner = columns.affine([x, y], [1.0, 2.0])
    s = columns.apply("sin(x)", inner)
    graph = columns.graph("chains", [columns.product(s, columns.apply("exp(x)", s)), columns.apply("relu(x)", s)])
    plan = fuse(graph)
    product, relu = graph.outputs
    assert plan.functions[product].formula == "sin(x)*exp(sin(x))"
    assert graph.nodes[plan.functions[product].base].op == "affine"  # not x and y
    assert plan.functions[relu].formula == "relu(x)"  # a kink inside a chain stays by itself
    assert len(plan.units) == 3  # exp(sin) needs none
    apart = fuse(graph, frozenset([product]))
    assert product not in apart.functions
    assert len(apart.units) == 4


def test_many_different_chains_share_tables_instead() -> None:
    graph = mlp([1, 12, 12, 1], "tanh(x)")
    assert {f.formula for f in fuse(graph).functions.values()} == {"tanh(x)"}


def test_a_chain_whose_table_is_too_large_is_taken_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = Columns(None)
    inner = columns.affine([columns.apply("tanh(x)", columns.input(0))], [2.0])
    graph, domain = columns.graph("chain", [columns.apply("sin(x)", inner)]), cube(1, -1, 1)
    together = lower(graph, domain, 1e-4)
    assert [claim.node for claim in together.composite.fused] == list(graph.outputs)
    assert len(together.network.layers) == 1
    monkeypatch.setattr(lowering, "MOST_FUSED", together.parts[graph.outputs[0]].keys - 1)
    apart = lower(graph, domain, 1e-4)
    assert not apart.composite.fused
    assert len(apart.network.layers) == 2
    for lowered in (together, apart):
        assert largest_error(lowered, graph, domain) < 1e-4


def test_sensitivities() -> None:
    columns = Columns(2)
    x = columns.input(0)
    t = columns.apply("tanh(x)", x)
    s = columns.apply("sin(x)", columns.affine([t], [3.0]), "outer")
    e = columns.apply("exp(x)", x)
    mixed = columns.mix(np.array([[1.0, 1.0], [0.0, 2.0]]), e)
    graph = columns.graph("", [columns.affine([s, mixed], [2.0, 5.0])])
    forms = Forms(graph, fuse(graph, frozenset(range(len(graph.nodes)))), 1)
    found = Evaluator(forms).on(np.full((2, 1), -0.1), np.full((2, 1), 0.1))
    moved, heads = sensitivities(found, Slopes.over(found))
    by_label = {graph.nodes[k].label: value for k, value in moved.items()}
    assert heads == 3
    assert by_label["outer"] == 2.0
    assert by_label["exp(x)"] == 10.0
    assert 5.9 < by_label["tanh(x)"] <= 6.0 * (1 + 1e-9)


def test_costs_are_sorted_and_name_columns() -> None:
    lowered = lower(layer_norm(4, 1e-2), cube(4, -3, 3), 1e-6)
    costs = [cost for _, cost in lowered.costs]
    assert costs == sorted(costs, reverse=True)
    assert any(label.startswith("rsqrt, norm.py:7") for label, _ in lowered.costs)
    assert sum(costs) < 1e-5


def test_logarithms_of_negative_numbers_are_refused_with_the_place() -> None:
    columns = Columns(None)
    x = columns.affine([columns.input(0)], [1.0], -0.5)
    graph = columns.graph("log", [columns.apply("log(x)", x, "log, price.py:3")])
    with pytest.raises(ww.FormulaError, match=re.escape("log, price.py:3: log(x) is undefined")) as refused:
        lower(graph, cube(1, 0, 1), 1e-6)
    lo, hi = map(float, re.search(r"x\[0\] in \[(\S+), (\S+)\] of", str(refused.value)).groups())  # type: ignore[union-attr]
    assert 0 <= lo < hi <= 0.5


def test_standardising_without_eps_is_refused() -> None:
    with pytest.raises(ww.FormulaError, match="add an eps") as refused:
        lower(standardised(3, 0.0), cube(1, -2, 2), 1e-6)
    assert "on token 0" in str(refused.value)
    sides = re.findall(r"x\[\d, 0\] in \[(\S+), (\S+)\]", str(refused.value))
    assert len(sides) == 3
    assert all(float(hi) - float(lo) < 0.2 for lo, hi in sides)


def test_division_by_what_passes_zero_is_refused() -> None:
    columns = Columns(None)
    gap = columns.affine([columns.input(0), columns.input(1)], [1.0, -1.0])
    graph = columns.graph("1/(x - y)", [columns.apply("1/x", gap)])
    with pytest.raises(ww.FormulaError, match=r"1/x is undefined or unbounded"):
        lower(graph, ww.Box([0, 0.5], [1, 2]), 1e-6)
    assert lower(graph, ww.Box([0, 1.5], [1, 2]), 1e-3).network.native


def test_ranges_are_found_part_by_part_where_that_helps() -> None:
    columns = Columns(None)
    x, y = columns.input(0), columns.input(1)
    squares = [columns.apply("x**2", x), columns.product(x, y), columns.apply("x**2", y)]
    V = columns.affine(squares, [1.0, -2.0, 1.0], 0.5)  # 0.5 + (x - y)^2, but ranges do not see it
    graph, domain = columns.graph("root", [columns.apply("sqrt(x)", V)]), cube(2, -1, 1)
    lowered = lower(graph, domain, 1e-3)
    assert np.prod(lowered.composite.splits) > 1
    certificate = certify(lowered.network, lowered.composite, domain).certificate
    assert certificate is not None
    assert largest_error(lowered, graph, domain) <= certificate.bound <= 1e-3


def test_intervals_of_tables_stay_away_from_singularities() -> None:
    lo, hi = cover("1/sqrt(x)", 1e-5, 30.0, 1e-12, "float64")
    assert 0.99e-5 < lo < 1e-5
    assert 30 < hi < 31
    assert cover("tanh(x)", -1.5, 1.6, 1e-9, "float64") == cover("tanh(x)", -1.501, 1.599, 2e-9, "float64")


def test_a_table_that_cannot_be_proven_names_the_column() -> None:
    columns = Columns(None)
    wild = columns.apply("sin(x)", columns.affine([columns.input(0)], [1e5]), "sin, wild.py:1")
    with pytest.raises(ww.ToleranceError, match=re.escape("sin, wild.py:1: for tol=1e-06")):
        lower(columns.graph("wild", [wild]), cube(1, -1, 1), 1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_mixings_add_up_to_their_matrix(seed: int) -> None:
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(5, 5)) * (rng.random((5, 5)) < 0.6)
    total = np.zeros((5, 5))
    for head in mixings(A):
        scores = head.scores if head.padding is None else np.column_stack([head.scores, head.padding])
        weights = np.exp(scores)
        total += head.factor * (weights / weights.sum(axis=1, keepdims=True))[:, :5]
    assert np.abs(total - A).max() < 1e-13


@pytest.mark.parametrize("at", [0.1, 0.3])
def test_a_steep_table_is_proven_at_a_kink_between_two_numbers(at: float) -> None:
    """A box around 0.1 that no number halves: only its ends are queries, and the table is good there."""
    net = ww.compile(lambda x: torch.clamp(x, min=at), (-0.0078125, 1.0078125), 1e-11)
    near = np.nextafter(np.full(200, at), np.linspace(-1, 2, 200))
    x = torch.tensor(np.concatenate([near, np.linspace(-0.0078125, 1.0078125, 2001)]))[:, None, None]
    assert net.certificate.status == "PROVEN"
    assert float((net(x) - x.clamp(min=at)).abs().max()) <= net.certificate.bound <= 1e-11
