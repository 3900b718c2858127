"""From graphs of columns to networks: what they compute, and what they are made of."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.graphs import (
    attention_block,
    cube,
    largest_error,
    layer_norm,
    lotka_volterra,
    mlp,
    newton_root,
    standardised,
)

import weightwright as ww
from weightwright.certify import certify
from weightwright.compiler.lowering import budget
from weightwright.compiler.lowering.lower import lower
from weightwright.tracing.columns import Columns


def heads(lowered: Any) -> list[int]:
    """How many stand in each layer."""
    return [len(layer.heads) for layer in lowered.network.layers if type(layer).__name__ == "Attention"]


def softmax(k: int) -> Any:
    columns = Columns(None)
    return columns.graph("softmax", columns.softmax([columns.input(i) for i in range(k)]))


#: name -> (graph, domain, tol, heads in each layer, registers at most)
CASES: dict[str, tuple[Any, ww.Box, float, list[int], int]] = {
    "tanh 64-48-10": (mlp([64, 48, 10], "tanh(x)"), cube(64, 0, 1), 1e-6, [48], 2),
    "relu 64-32-10": (mlp([64, 32, 10], "relu(x)"), cube(64, 0, 1), 1e-6, [32], 16),
    "gelu 8-32-32-1": (mlp([8, 32, 32, 1], "gelu(x)"), cube(8, -1, 1), 1e-4, [32, 32], 60),
    "softmax of 5": (softmax(5), cube(5, -4, 4), 1e-6, [1], 5),
    "layer norm of 8": (layer_norm(8, 1e-5), cube(8, -3, 3), 1e-4, [8, 1, 16], 150),
    "Runge-Kutta": (lotka_volterra(), cube(2, 0.5, 2), 1e-6, [2, 2, 2, 2], 16),
    "Newton": (newton_root(3), cube(1, 0.5, 4), 1e-6, [3], 60),
    "standardised": (standardised(6, 1e-2), cube(1, -3, 3), 1e-6, [1, 1, 1, 1, 2], 100),
    "attention": (attention_block(3), cube(2, -1, 1), 1e-6, [3, 12, 1, 12, 4], 60),
}


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest) -> tuple[Any, Any, ww.Box, float, list[int], int]:
    graph, domain, tol, count, registers = CASES[request.param]
    return lower(graph, domain, tol), graph, domain, tol, count, registers


@pytest.mark.few(4)
def test_networks_are_native_and_as_large_as_the_graph(
    case: tuple[Any, Any, ww.Box, float, list[int], int],
) -> None:
    lowered, graph, _, _, count, registers = case
    network = lowered.network
    assert network.native, network.obstacles
    assert heads(lowered) == count
    assert len(network.registers) <= registers
    assert len(set(network.embed.coordinates)) == len(network.embed.coordinates)
    assert network.outputs == tuple(f"out[{m}]" for m in range(len(graph.outputs)))


@pytest.mark.few(4)
def test_networks_compute_their_graphs_and_the_checker_agrees(
    case: tuple[Any, Any, ww.Box, float, list[int], int],
) -> None:
    lowered, graph, domain, tol, *_ = case
    certificate = certify(lowered.network, lowered.composite, domain).certificate
    assert certificate is not None
    assert certificate.status == "PROVEN"
    assert largest_error(lowered, graph, domain) <= certificate.bound <= tol
    assert lowered.estimate <= tol


def test_float32() -> None:
    graph, domain = lotka_volterra(), cube(2, 0.5, 2)
    lowered = lower(graph, domain, 1e-3, "float32")
    certificate = certify(lowered.network, lowered.composite, domain).certificate
    assert certificate is not None
    assert lowered.network.dtype == "float32"
    assert largest_error(lowered, graph, domain) <= certificate.bound <= 1e-3


def test_linear_maps_cost_nothing() -> None:
    columns = Columns(None)
    x = [columns.input(i) for i in range(3)]
    y = [columns.affine(x, [1.0, 2.0, 0.5 * i], 0.25) for i in range(4)]
    z = columns.affine([columns.affine(y, [1.0, -1.0, 2.0, 3.0]), x[0]], [2.0, 1.0], -1.0)
    graph = columns.graph("linear", [*y, z])
    lowered = lower(graph, cube(3, -1, 1), 1e-9)
    assert heads(lowered) == []
    assert lowered.costs == ()
    assert largest_error(lowered, graph, cube(3, -1, 1)) < 1e-14


def test_wide_networks_are_quickly_built() -> None:
    graph = mlp([64, 512, 10], "tanh(x)")
    lower(mlp([64, 4, 10], "tanh(x)"), cube(64, 0, 1), 1e-6)  # the table is cached
    start = time.perf_counter()
    assert heads(lower(graph, cube(64, 0, 1), 1e-6)) == [512]
    assert time.perf_counter() - start < 8


MATRICES: dict[str, tuple[np.ndarray, int]] = {
    "pick": (np.eye(4)[[2, 0, 3, 3]] * -1.5, 1),
    "mean": (np.full((4, 4), 0.25), 1),
    "causal sum": (np.tril(np.ones((4, 4))), 1),
    "stochastic": (np.array([[0.5, 0.5, 0, 0], [0.25, 0.25, 0.25, 0.25], [0, 0.1, 0.9, 0], [1, 0, 0, 0]]), 1),
    "less the mean": (np.eye(4) - 0.25, 2),
    "any signs": (np.array([[1, -2, 0, 0], [0, 0, 0, 0], [0.3, 0, -0.3, 1], [-1, -1, -1, -1.0]]), 2),
    "diagonal": (np.diag([1.0, 2.0, 0.0, 3.0]), 1),
}


@pytest.mark.parametrize("name", MATRICES)
def test_matrices_on_the_tokens(name: str) -> None:
    A, count = MATRICES[name]
    columns = Columns(4)
    x, y = columns.input(0), columns.input(1)
    outputs = [columns.mix(A, x), columns.affine([columns.mix(A, columns.affine([x, y], [1.0, 2.0], 0.5)), x], [2, 1])]
    graph, domain = columns.graph(name, outputs), cube(2, -2, 2)
    lowered = lower(graph, domain, 1e-9)
    assert heads(lowered) == [count]
    assert lowered.network.native
    causal = not np.triu(A, 1).any()  # a token after which nothing has weight is not shown what comes later
    assert all(head.sees.data == "earlier" for head in lowered.network.heads) == causal
    certificate = certify(lowered.network, lowered.composite, domain).certificate
    assert certificate is not None
    assert largest_error(lowered, graph, domain) <= certificate.bound < 1e-12


def test_outputs_may_be_looked_at_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all of them together would take more memory than there is: the tolerance is spent the same way."""
    graph, domain, tol, *_ = CASES["attention"]
    together = lower(graph, domain, tol)
    monkeypatch.setattr(budget, "AT_ONCE", 1)
    alone = lower(graph, domain, tol)
    assert ww.AttentionNetwork(alone.network).digest() == ww.AttentionNetwork(together.network).digest()
    assert alone.costs == together.costs


def test_registers_keep_what_they_hold_after_the_first_layer() -> None:
    """Rows with different sums give the rest to a register of value 0: a plain Transformer must not have written it."""
    columns = Columns(3)
    mixed = columns.mix(np.tril(np.ones((3, 3))), columns.apply("tanh(x)", columns.input(0)))
    graph, domain = columns.graph("sums", [mixed]), cube(1, -1, 1)
    lowered = lower(graph, domain, 1e-9)
    assert lowered.network.native
    net = certify(lowered.network, lowered.composite, domain)
    assert net.certificate is not None
    assert not any("mask" in text for text in net.certificate.assumptions)
    assert largest_error(lowered, graph, domain) <= net.certificate.bound < 1e-9
    assert net.to_transformer_lens().difference <= 1e-12
    written = [dataclasses.replace(head, W_Q=head.W_Q[:, :-1], W_K=head.W_K[:, :-1]) for head in lowered.network.heads]
    layers = zip(lowered.network.layers, written, strict=True)
    careless = [dataclasses.replace(layer, heads=(head,)) for layer, head in layers]
    assert not dataclasses.replace(lowered.network, layers=tuple(careless)).native


def test_constants_of_tokens() -> None:
    columns = Columns(3)
    code = columns.affine([columns.input(0)], [1.0], np.array([0.0, 1.0, 2.0]))
    graph, domain = columns.graph("coded", [columns.apply("sin(x)", code), code]), cube(1, -1, 1)
    lowered = lower(graph, domain, 1e-9)
    assert largest_error(lowered, graph, domain) < 1e-9
    assert lowered.network.native


def test_a_softmax_of_which_one_entry_is_used() -> None:
    columns = Columns(None)
    x = columns.input(0)
    arguments = [columns.affine([x], [1.0], -2000.0), columns.affine([x], [-900.0], -2000.0), columns.constant(-1999.5)]
    p = columns.softmax(arguments)  # far below the scores that hide other registers elsewhere
    graph, domain = columns.graph("one of three", [p[1]]), cube(1, -1, 1)
    lowered = lower(graph, domain, 1e-9)
    assert lowered.composite.softmaxes[0].nodes.count(-1) == 2
    certificate = certify(lowered.network, lowered.composite, domain).certificate
    assert certificate is not None
    assert largest_error(lowered, graph, domain) <= certificate.bound < 1e-9


def test_a_column_that_is_read_in_several_places_has_one_head() -> None:
    columns = Columns(None)
    x = columns.input(0)
    t = columns.apply("tanh(x)", x)
    s = columns.apply("sin(x)", columns.affine([t, x], [1.0, 1.0]))
    graph, domain = columns.graph("shared", [t, s, columns.affine([t, s], [1.0, 1.0])]), cube(1, -1, 1)
    lowered = lower(graph, domain, 1e-9)
    assert heads(lowered) == [2]  # sin(tanh(x) + x) is one head of x
    assert [(claim.node, claim.base) for claim in lowered.composite.fused] == [(3, 0)]
    assert largest_error(lowered, graph, domain) < 1e-9


def test_the_domain_must_fit() -> None:
    with pytest.raises(ww.DomainError, match="a box of 1 features does not fit a function of 5"):
        lower(softmax(5), cube(1, -1, 1), 1e-6)
    with pytest.raises(ww.DomainError, match="any number of tokens"):
        lower(softmax(2), ww.Box([[0, 0]], [[1, 1]]), 1e-6)
    with pytest.raises(ValueError, match="tol must be a positive finite number, not 0"):
        lower(softmax(2), cube(2, -1, 1), 0)
    with pytest.raises(ValueError, match="dtype must be one of float64"):
        lower(softmax(2), cube(2, -1, 1), 1e-6, "float16")


def test_the_checker_refuses_products_that_are_scaled_otherwise() -> None:
    graph, domain = lotka_volterra(), cube(2, 0.5, 2)
    lowered = lower(graph, domain, 1e-6)
    wrong = tuple(dataclasses.replace(claim, x=claim.x + 0.5) for claim in lowered.composite.products)
    with pytest.raises(ww.ToleranceError):
        certify(lowered.network, dataclasses.replace(lowered.composite, products=wrong), domain, 1e-6)


def test_exports_agree(tmp_path: Path) -> None:
    """Products, a softmax, mixed tokens and a function, in a plain Transformer."""
    columns = Columns(3)
    x = [columns.input(i) for i in range(2)]
    p = columns.softmax([*x, columns.apply("sin(x)", columns.mix(np.full((3, 3), 1 / 3), x[0]))])
    q = columns.mix(np.eye(3)[[1, 1, 1]], columns.product(p[0], x[1]))
    graph, domain = columns.graph("mixed", [q, p[2]]), cube(2, -1, 1)
    net = ww.AttentionNetwork(lower(graph, domain, 1e-6).network)
    assert net.network.native
    net.to_onnx(tmp_path / "net.onnx")
    assert net.to_transformer_lens().difference < 1e-12
