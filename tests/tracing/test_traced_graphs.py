"""What the compiler is shown for, traced; and how many columns tracing makes."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
import torch
from support.against_torch import assert_agrees, constants, seeded
from support.graphs import graph_outputs
from torch import nn

from weightwright.claims.graph import AFFINE, ATTENTION, INPUT, KINDS, MIX, PRODUCT, SOFTMAX
from weightwright.tracing.following.traced_function import trace_function

W44 = constants(4, 4)


def kinds(graph: Any) -> dict[str, int]:
    """How many columns of each kind; functions of one number together."""
    names = [node.op if node.op in KINDS else "function" for node in graph.nodes]
    return {name: names.count(name) for name in sorted(set(names))}


def black_scholes(x: Any) -> Any:
    spot, strike, years, sigma, rate = x.unbind(-1)
    root = sigma * torch.sqrt(years)
    d1 = (torch.log(spot / strike) + (rate + sigma**2 / 2) * years) / root
    discounted = strike * torch.exp(-rate * years)
    return spot * torch.special.ndtr(d1) - discounted * torch.special.ndtr(d1 - root)


def test_black_scholes() -> None:
    low, high = np.array([80, 80, 0.1, 0.1, 0]), np.array([120, 120, 2, 0.5, 0.1])
    graph = trace_function(black_scholes, features=5, tokens=None)
    x = np.random.default_rng(0).uniform(low, high, (1, 50, 5))
    np.testing.assert_allclose(graph_outputs(graph, x)[0, :, 0], black_scholes(torch.tensor(x[0])).numpy(), rtol=1e-10)
    assert kinds(graph) == {AFFINE: 5, "function": 8, INPUT: 5, PRODUCT: 8}


def lotka_volterra(x: Any) -> Any:
    a, b, c, d = 1.1, 0.4, 0.4, 0.1
    prey, predators = x[:, 0], x[:, 1]
    return torch.stack([a * prey - b * prey * predators, d * prey * predators - c * predators], dim=1)


def runge_kutta(x: Any, step: float = 0.1) -> Any:
    k1 = lotka_volterra(x)
    k2 = lotka_volterra(x + step / 2 * k1)
    k3 = lotka_volterra(x + step / 2 * k2)
    k4 = lotka_volterra(x + step * k3)
    return x + step / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def test_runge_kutta_needs_one_product_for_every_slope() -> None:
    graph = assert_agrees(runge_kutta, features=2, tokens=None, low=0.5, high=3.0)
    assert kinds(graph)[PRODUCT] == 4


def newton(x: Any) -> Any:
    y = (1 + x) / 2
    for _ in range(5):
        y = 0.5 * (y + x / y)
    return y


@pytest.mark.slow
def test_newton_square_root() -> None:
    graph = assert_agrees(newton, features=1, tokens=None, low=0.5, high=4.0)
    assert kinds(graph)[PRODUCT] == 5


def test_softmax_of_five_is_five_columns() -> None:
    assert kinds(assert_agrees(nn.Softmax(-1), 5, None, -4.0, 4.0)) == {INPUT: 5, SOFTMAX: 5}


def test_standardisation_of_tokens() -> None:
    def standardised(x: Any) -> Any:
        return (x - x.mean(0)) / torch.sqrt(x.var(0, unbiased=False) + 1e-2)

    graph = assert_agrees(standardised, features=1, tokens=6)
    assert kinds(graph) == {AFFINE: 2, "function": 3, INPUT: 1, MIX: 2, PRODUCT: 1}
    assert len(graph.matrices) == 1


class Block(nn.Module):
    """Single-head attention and a two-layer perceptron, each with a residual and a layer norm."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: Any) -> Any:
        h = self.norms[0](x)
        scores = self.q(h) @ self.k(h).T / math.sqrt(h.shape[-1])
        x = x + self.o(torch.softmax(scores, dim=-1) @ self.v(h))
        return x + self.mlp(self.norms[1](x))


def test_an_attention_block() -> None:
    graph = assert_agrees(seeded(lambda: Block(4)), features=4, tokens=4)
    # each norm scales 4 numbers; attention has 4 values
    assert kinds(graph)[PRODUCT] == 4 + 4
    assert kinds(graph)[ATTENTION] == 4
    assert SOFTMAX not in kinds(graph)


def test_a_linear_layer_is_one_column_for_every_output() -> None:
    layer = seeded(lambda: nn.Linear(5, 7))
    graph = trace_function(layer, 5, None)
    assert kinds(graph) == {AFFINE: 7, INPUT: 5}
    weights = np.array([graph.nodes[column].weights for column in graph.outputs])
    assert (weights == layer.weight.detach().numpy()).all()
    assert [graph.nodes[column].constants[0] for column in graph.outputs] == layer.bias.tolist()
    by_hand = trace_function(lambda x: x @ layer.weight.T + layer.bias, 5, None)
    assert kinds(by_hand) == {AFFINE: 7, INPUT: 5}


def test_layer_norm_scales_what_is_left_without_the_mean() -> None:
    graph = trace_function(nn.LayerNorm(8), 8, None)
    # the mean, 8 differences, the mean square with eps; 8 squares and 1 / sqrt; the default weight and bias vanish
    assert kinds(graph) == {AFFINE: 10, "function": 9, INPUT: 8, PRODUCT: 8}


def test_equal_columns_are_built_once() -> None:
    graph = trace_function(lambda x: torch.sin(x[:, 0] * x[:, 1]) + torch.sin(x[:, 1] * x[:, 0]), 2, None)
    assert kinds(graph) == {AFFINE: 1, "function": 1, INPUT: 2, PRODUCT: 1}
    assert graph.nodes[-1].weights.tolist() == [2.0]


def test_a_sum_in_a_loop_is_one_column() -> None:
    def weighted(x: Any) -> Any:
        total = 0.25
        for i in range(6):
            total += (i + 1) * x[:, i].exp()
        return total - 1

    graph = assert_agrees(weighted, 6, None)
    assert kinds(graph) == {AFFINE: 1, "function": 6, INPUT: 6}


def test_a_square_matrix_on_tokens_is_one_column_for_every_feature() -> None:
    assert kinds(trace_function(lambda x: W44 @ x, 3, 4)) == {INPUT: 3, MIX: 3}
    assert kinds(trace_function(lambda x: x.cumsum(0), 3, 4)) == {INPUT: 3, MIX: 3}


def test_moving_elements_costs_nothing() -> None:
    graph = trace_function(lambda x: torch.stack([row.flip(0) for row in x.reshape(12).view(4, 3)]).T.T, 3, 4)
    assert kinds(graph) == {INPUT: 3}
    assert (
        trace_function(lambda x: x[[2, 1, 0, 3]].sin(), 3, 4).matrices[0].tolist() == np.eye(4)[[2, 1, 0, 3]].tolist()
    )


def test_a_token_is_selected_by_a_matrix_and_a_row_is_placed_by_one() -> None:
    assert trace_function(lambda x: x[2], 1, 4).matrices[0].tolist() == np.eye(4)[[2, 2, 2, 2]].tolist()
    placed = assert_agrees(lambda x: torch.stack([x[1].exp(), x.sum(0)]), 1, 2)
    assert np.diag([1.0, 0.0]).tolist() in [matrix.tolist() for matrix in placed.matrices]


def test_a_vector_is_one_output_on_the_tokens_or_several_outputs() -> None:
    assert len(trace_function(lambda x: x.sum(1), 4, 4).outputs) == 1
    assert len(trace_function(lambda x: x.sum(0), 4, 4).outputs) == 4
    assert len(trace_function(lambda x: torch.softmax(x, 0).exp()[:, 1], 4, 4).outputs) == 1


def test_labels_name_the_operation_and_its_line() -> None:
    def labelled(x: Any) -> Any:
        y = torch.log(x)  # the line that the label names
        return y * x

    line = labelled.__code__.co_firstlineno + 1
    labels = [node.label for node in trace_function(labelled, 1, None).nodes]
    assert labels == ["x[0]", f"log, test_traced_graphs.py:{line}", f"mul, test_traced_graphs.py:{line + 1}"]
    assert trace_function(nn.Sequential(nn.Identity(), nn.Tanh()), 1, None).nodes[-1].label == "tanh, module 1 (Tanh)"
    assert {node.label for node in trace_function(nn.LayerNorm(2), 2, None).nodes[2:]} == {
        "layer_norm, module LayerNorm",  # on the way
        "layer_norm[0], module LayerNorm",
        "layer_norm[1], module LayerNorm",
    }
    assert {re.split(r"[\[,]", node.label)[0] for node in trace_function(lambda x: x @ x.T, 2, 2).nodes[2:]} == {
        "matmul"
    }


def test_the_weights_of_a_float32_module_are_meant_exactly() -> None:
    layer = seeded(lambda: nn.Linear(2, 1)).float()
    weights = trace_function(layer, 2, None).nodes[-1].weights
    assert weights.tolist() == layer.weight[0].tolist()


def test_evaluating_takes_a_batch() -> None:
    graph = trace_function(lambda x: x.mean(0) * x, 2, 3)
    x = np.random.default_rng(0).normal(size=(5, 3, 2))
    np.testing.assert_allclose(graph_outputs(graph, x), x.mean(axis=1, keepdims=True) * x, rtol=1e-14)
