"""Torch functions and modules become graphs of columns that compute the same numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from weightwright.certificates.graphs import AFFINE, INPUT, MIX, PRODUCT, SOFTMAX, Graph
from weightwright.compiler.evaluate import evaluate
from weightwright.compiler.tensors import traced

Function = Callable[[Any], Any]


def constants(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def seeded(make: Callable[[], nn.Module], seed: int = 0) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return make().double().eval()


def assert_agrees(function: Function, features: int, tokens: int | None, low: float = -2.0, high: float = 2.0) -> Graph:
    """The graph of a function, after comparing it with torch itself at random inputs."""
    graph, n = traced(function, features, tokens), tokens or 5
    x = np.random.default_rng(1).uniform(low, high, (6, n, features))
    found = evaluate(graph, x)
    for inputs, outputs in zip(x, found, strict=True):
        expected = torch.as_tensor(function(torch.tensor(inputs)), dtype=torch.float64).detach().numpy()
        if expected.shape == (n,) and len(graph.outputs) == 1:
            expected = expected[:, None]
        assert outputs.shape == (n, expected.shape[-1] if expected.ndim else 1)
        np.testing.assert_allclose(outputs, np.broadcast_to(expected, outputs.shape), rtol=1e-10, atol=1e-10)
    return graph


def kinds(graph: Graph) -> dict[str, int]:
    """How many columns of each kind; functions of one number together."""
    names = [node.op if node.op in (INPUT, AFFINE, PRODUCT, SOFTMAX, MIX) else "function" for node in graph.nodes]
    return {name: names.count(name) for name in sorted(set(names))}


W32, W23, W44, ROW = constants(3, 2), constants(2, 3), constants(4, 4), constants(3)

ELEMENTWISE: dict[str, Function] = {
    **{
        name: getattr(torch, name)
        for name in (
            *("exp", "sin", "cos", "tanh", "sigmoid", "erf", "abs", "relu", "neg", "sign", "atan", "square", "erfc"),
            *("expm1", "exp2", "sinh", "cosh", "arctan", "asinh", "positive"),
        )
    },
    **{
        name: getattr(F, name)
        for name in (
            *("gelu", "silu", "softplus", "softshrink", "leaky_relu", "hardtanh", "relu6", "elu", "celu", "selu"),
            *("logsigmoid", "tanhshrink", "softsign", "hardsigmoid", "hardswish", "mish"),
        )
    },
    "log": lambda x: torch.log(x + 3),
    "log1p": lambda x: torch.log1p(x + 3),
    "log2": lambda x: (x + 3).log2(),
    "log10": lambda x: (x + 3).log10(),
    "sqrt": lambda x: (x + 3).sqrt(),
    "rsqrt": lambda x: (x + 3).rsqrt(),
    "reciprocal": lambda x: (x + 3).reciprocal(),
    "tan": lambda x: torch.tan(x / 2),
    "atanh": lambda x: torch.atanh(x / 3),
    "ndtr": torch.special.ndtr,
    "expit": torch.special.expit,
    "logit": lambda x: torch.logit((x + 3) / 6),
    "softplus with beta": lambda x: F.softplus(x, beta=2),
    "elu with alpha": lambda x: F.elu(x, 0.5),
    "clamp": lambda x: torch.clamp(x, -0.5, 0.7),
    "clamp from below": lambda x: x.clamp(min=0) + x.clamp(min=0.2),
    "clamp from above": lambda x: x.clip(max=0.3),
    "clamp between traced ends": lambda x: torch.clamp(x, x.flip(1) - 0.1, x.flip(1) + 0.1),
    "numbers": lambda x: 2 - x / 3 + 0.1 * x - (1 + x) * 5,
    "constant tensors": lambda x: ROW * x + x / ROW - ROW,
    "numpy constants": lambda x: np.float64(0.5) * x - x / np.float64(3.0) + 2 * np.float64(0.1),
    "alpha": lambda x: torch.add(x, x**2, alpha=3) - torch.sub(x, ROW, alpha=2),
    "products": lambda x: x * x.sin() * x[:, :1],
    "quotients": lambda x: x / (x**2 + 1) + 1 / (3 + x),
    "whole powers": lambda x: x**3 + x**2 + x**1 + x**0 + (x + 3) ** -2 + (x + 3) ** -1,
    "other powers": lambda x: (x + 3) ** 0.5 + (x + 3) ** -0.5 + (x + 3) ** 1.7 + 2**x + 2.5**x,
    "traced powers": lambda x: (x + 3) ** x,
    "tensor of powers": lambda x: (x + 3) ** torch.tensor([0.0, 2.0, 0.3]),
    "maximum": lambda x: torch.maximum(x, x.flip(1)) - torch.minimum(x, x.sin()) + torch.max(x, 0.5 * x),
    "maximum with constants": lambda x: torch.maximum(x, ROW) + torch.minimum(x, torch.tensor(0.2)),
    "logaddexp": lambda x: torch.logaddexp(x, x.flip(1)),
    "lerp": lambda x: torch.lerp(x, x**2, 0.3),
    "hypot": lambda x: torch.hypot(x, x.exp()),
    "addcmul": lambda x: torch.addcmul(x, x, x.exp(), value=0.5),
    "where with constants": lambda x: torch.where(ROW > 0, x, -x) + x.masked_fill(ROW > 0, 7.0),
    "like": lambda x: torch.zeros_like(x) + torch.ones_like(x) * x + torch.full_like(x, 0.3),
    "copies": lambda x: x.clone().contiguous().double().to(torch.float64).detach() + x.new_ones(3),
    "loop": lambda x: sum((x**k / math.factorial(k) for k in range(8)), torch.zeros(3)),
}


@pytest.mark.parametrize("function", ELEMENTWISE.values(), ids=ELEMENTWISE.keys())
def test_operations_on_elements(function: Function) -> None:
    graph = assert_agrees(function, features=3, tokens=None)
    assert graph.tokens is None
    assert not graph.matrices


FEATURES: dict[str, Function] = {
    "sum": lambda x: x.sum(-1),
    "sum, kept": lambda x: x.sum(dim=1, keepdim=True) * x,
    "mean": lambda x: torch.mean(x, 1),
    "var": lambda x: torch.stack([x.var(1), x.var(1, unbiased=False), x.var(dim=1, correction=2)], 1),
    "std": lambda x: torch.std(x, axis=1, correction=0),
    "var_mean": lambda x: torch.stack(torch.var_mean(x, 1), -1),
    "prod": lambda x: x.prod(1),
    "amax": lambda x: torch.amax(x, 1) - x.amin(dim=-1),
    "max": lambda x: x.max(1).values - x.min(dim=1, keepdim=True)[0][:, 0],
    "norms": lambda x: x.norm(dim=1) + torch.linalg.vector_norm(x, 1, dim=1) + torch.linalg.norm(x, dim=1),
    "normalize": lambda x: F.normalize(x, dim=1),
    "logsumexp": lambda x: torch.logsumexp(x, 1),
    "softmax": lambda x: torch.softmax(x, -1) + F.softmax(x, dim=1) + x.softmax(1),
    "softmin": lambda x: F.softmin(x, dim=1),
    "log_softmax": lambda x: F.log_softmax(x, -1),
    "layer_norm": lambda x: F.layer_norm(x, (3,), ROW, 2 * ROW, 1e-3),
    "rms_norm": lambda x: F.rms_norm(x, (3,), ROW, 1e-3),
    "times a matrix": lambda x: x @ W32 + torch.mm(x, W32) + torch.matmul(x, W32),
    "times a vector": lambda x: x @ ROW + torch.mv(x, ROW),
    "linear": lambda x: F.linear(x, W23, W23[:, 0]),
    "einsum": lambda x: torch.einsum("nf,fg->ng", x, W32) + torch.einsum("gf, nf -> ng", W23, x),
    "einsum of one": lambda x: torch.einsum("nf->n", x) + torch.einsum("nf,nf->n", x, x.sin()),
    "outer features": lambda x: torch.einsum("na,nb->nab", x, x.exp()).flatten(1),
    "cumsum by a matrix": lambda x: x @ torch.ones(3, 3, dtype=torch.float64).triu(),
    "indexing": lambda x: torch.cat([x[:, [2, 0]], x[:, 1:], x[..., 1, None], x[:, -1][:, None]], dim=1),
    "mask of features": lambda x: x[:, ROW > 0],
    "unpacking": lambda x: (lambda a, b, c: a * b - c)(*x.unbind(1)),
    "iterating": lambda x: torch.stack([a * b for a, b, _ in x]),
    "transposed": lambda x: (x.T + ROW[:, None]).T * x.transpose(0, 1).mT,
    "reshaped": lambda x: x.reshape(-1, 3, 1).expand(-1, 3, 2).flatten(1).view(len(x), 2, 3).sum(1),
    "permuted": lambda x: x.unsqueeze(0).permute(2, 1, 0).squeeze(-1).movedim(0, 1),
    "split": lambda x: torch.split(x, [1, 2], dim=1)[1] * x.chunk(3, 1)[0],
    "stacked": lambda x: torch.stack([x, x**2, torch.ones(len(x), 3)], dim=1).sum(1),
    "batched matmul": lambda x: (x[:, None, :] @ x[:, :, None]).squeeze(),
    "pad, roll, tril": lambda x: F.pad(x, (1, 0))[:, :3] + x.roll(1, 1) + x[:, :, None].tril()[:, :, 0],
    "per feature loop": lambda x: torch.stack([x[:, i] ** (i + 1) for i in range(x.shape[1])], dim=-1),
    "in place": lambda x: (lambda y: y.__iadd__(x).__imul__(2) + F.relu(y, inplace=True))(x.clone()),
    "a constant": lambda x: torch.tensor([1.0, 2.0]),
    "a number": lambda x: 3.5,
}


@pytest.mark.parametrize("function", FEATURES.values(), ids=FEATURES.keys())
def test_operations_on_features(function: Function) -> None:
    assert_agrees(function, features=3, tokens=None)
    assert_agrees(function, features=3, tokens=4)
    assert_agrees(function, features=3, tokens=1)


POSITIONS = torch.arange(4.0, dtype=torch.float64)[:, None]

TOKENS: dict[str, Function] = {
    "sum over tokens": lambda x: x.sum(0),
    "mean over tokens": lambda x: x - x.mean(dim=0, keepdim=True),
    "sum of all": lambda x: x.sum(),
    "variance of all": lambda x: x.var(),
    "largest of all": lambda x: x.max() + x.amin(),
    "largest over tokens": lambda x: x.amax(0),
    "one token": lambda x: x[2],
    "one element": lambda x: x[1, 2],
    "last token": lambda x: x * x[-1],
    "fewer tokens": lambda x: x[1:3].sum(0) + x[[0, 3]].prod(0),
    "tokens in another order": lambda x: x.flip(0) + x[[1, 0, 3, 2]] * x,
    "tokens rolled": lambda x: (x.roll(1, 0) * x)[:, 0],
    "rows by hand": lambda x: torch.stack([x[0], x[1] * x[0], x[2].exp(), x[3]]),
    "numbers by hand": lambda x: torch.stack([x[0, 0], x[1, 1] * 2]),
    "square matrix on tokens": lambda x: W44 @ x,
    "matrix on tokens": lambda x: (W44[:2] @ x.exp()).sin().flatten(),
    "matrix on transposed tokens": lambda x: (x.T @ W44).T,
    "weights of tokens": lambda x: (POSITIONS * x).sum(0) + torch.einsum("n,nf->f", POSITIONS[:, 0], x),
    "positions": lambda x: torch.sin(x + POSITIONS) * POSITIONS,
    "positions beside features": lambda x: torch.cat([x, POSITIONS.expand(4, 2)], 1) @ constants(5, 2),
    "mask on tokens": lambda x: torch.where(POSITIONS > 1, x, x.exp()),
    "outer of tokens": lambda x: (x[:, None, :] - x[None, :, :]).square().sum(-1).exp().sum(1),
    "gram": lambda x: x @ x.T,
    "gram of features": lambda x: (x.T @ x).flatten(),
    "softmax over tokens": lambda x: torch.softmax(x, 0),
    "softmax over tokens of one feature": lambda x: torch.softmax(x[:, 0], 0),
    "attention": lambda x: torch.softmax(x @ W32 @ (x @ W32).T / 2**0.5, -1) @ x,
    "fused attention": lambda x: F.scaled_dot_product_attention(x @ W32, x.sin() @ W32, x),
    "heads": lambda x: many_heads(x),
    "einsum of tokens": lambda x: torch.einsum("if,jf->ij", x, x.exp()) + torch.einsum("jf,if->ij", x, x.exp()),
    "einsum attention": lambda x: torch.einsum("jf,ij->if", x, torch.softmax(torch.einsum("if,jf->ij", x, x), 1)),
    "flattened": lambda x: x.reshape(-1) @ constants(12, 2),
    "flattened and back": lambda x: torch.sin(x.reshape(12).reshape(4, 3)),
    "transposed result": lambda x: (x[:, :1] @ x[:, 1:2].T).T,
    "linear layer on tokens": lambda x: F.linear(x.T, W44, W44[0]).T,
    "recurrence": lambda x: torch.stack(_recurrence(x)),
    "one row": lambda x: x.mean(0, keepdim=True),
    "outer of vectors": lambda x: torch.outer(x[:, 0], x[:, 1]) + torch.outer(POSITIONS[:, 0], x.sum(1)),
    "inner and dot": lambda x: torch.dot(x[0], x[1]) + torch.inner(x[2], x[3]),
}


def _recurrence(x: Any) -> list[Any]:
    state, states = torch.zeros(3, dtype=torch.float64), []
    for row in x:
        state = torch.tanh(0.5 * state + row)
        states.append(state)
    return states


def many_heads(x: Any) -> Any:
    q, k, v = ((x @ constants(3, 4, seed=seed)).view(4, 2, 2).transpose(0, 1) for seed in range(3))
    return F.scaled_dot_product_attention(q, k, v).transpose(0, 1).reshape(4, 4)


@pytest.mark.parametrize("function", TOKENS.values(), ids=TOKENS.keys())
def test_operations_on_tokens(function: Function) -> None:
    graph = assert_agrees(function, features=3, tokens=4)
    assert graph.tokens == 4
    assert all(matrix.shape == (4, 4) for matrix in graph.matrices)


MODULES: dict[str, tuple[Callable[[], nn.Module], int]] = {
    "tanh mlp like the digits'": (lambda: nn.Sequential(nn.Linear(64, 128), nn.Tanh(), nn.Linear(128, 10)), 64),
    "relu mlp like the digits'": (
        lambda: nn.Sequential(nn.Linear(64, 32), nn.ReLU(inplace=True), nn.Linear(32, 10)),
        64,
    ),
    "gelu mlp": (
        lambda: nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 1)),
        8,
    ),
    "layer norm": (lambda: nn.LayerNorm(8, eps=1e-5), 8),
    "all layers": (
        lambda: nn.Sequential(
            *(nn.Linear(4, 6), nn.Sigmoid(), nn.Identity(), nn.Dropout(0.5), nn.SiLU(), nn.Softplus(), nn.ELU()),
            *(nn.LayerNorm(6), nn.BatchNorm1d(6), nn.Linear(6, 3, bias=False), nn.Softmax(dim=-1), nn.LogSoftmax(1)),
        ),
        4,
    ),
    "rms norm": (lambda: nn.RMSNorm(5), 5),
}


@pytest.mark.parametrize(("make", "features"), MODULES.values(), ids=MODULES.keys())
def test_modules(make: Callable[[], nn.Module], features: int) -> None:
    assert_agrees(seeded(make), features, tokens=None)


def black_scholes(x: Any) -> Any:
    spot, strike, years, sigma, rate = x.unbind(-1)
    root = sigma * torch.sqrt(years)
    d1 = (torch.log(spot / strike) + (rate + sigma**2 / 2) * years) / root
    discounted = strike * torch.exp(-rate * years)
    return spot * torch.special.ndtr(d1) - discounted * torch.special.ndtr(d1 - root)


def test_black_scholes() -> None:
    low, high = np.array([80, 80, 0.1, 0.1, 0]), np.array([120, 120, 2, 0.5, 0.1])
    graph = traced(black_scholes, features=5, tokens=None)
    x = np.random.default_rng(0).uniform(low, high, (1, 50, 5))
    np.testing.assert_allclose(evaluate(graph, x)[0, :, 0], black_scholes(torch.tensor(x[0])).numpy(), rtol=1e-10)
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
    # q.k is 4 numbers for each of 4 keys, attention times values likewise, and each norm scales 4 numbers
    assert kinds(graph)[PRODUCT] == 16 + 16 + 4 + 4
    assert kinds(graph)[SOFTMAX] == 4


def test_a_linear_layer_is_one_column_for_every_output() -> None:
    layer = seeded(lambda: nn.Linear(5, 7))
    graph = traced(layer, 5, None)
    assert kinds(graph) == {AFFINE: 7, INPUT: 5}
    weights = np.array([graph.nodes[column].weights for column in graph.outputs])
    assert (weights == layer.weight.detach().numpy()).all()
    assert [graph.nodes[column].constants[0] for column in graph.outputs] == layer.bias.tolist()
    by_hand = traced(lambda x: x @ layer.weight.T + layer.bias, 5, None)
    assert kinds(by_hand) == {AFFINE: 7, INPUT: 5}


def test_layer_norm_scales_what_is_left_without_the_mean() -> None:
    graph = traced(nn.LayerNorm(8), 8, None)
    # the mean, 8 differences, the mean square with eps; 8 squares and 1 / sqrt; the default weight and bias vanish
    assert kinds(graph) == {AFFINE: 10, "function": 9, INPUT: 8, PRODUCT: 8}


def test_equal_columns_are_built_once() -> None:
    graph = traced(lambda x: torch.sin(x[:, 0] * x[:, 1]) + torch.sin(x[:, 1] * x[:, 0]), 2, None)
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


def test_moving_elements_costs_nothing() -> None:
    graph = traced(lambda x: torch.stack([row.flip(0) for row in x.reshape(12).view(4, 3)]).T.T, 3, 4)
    assert kinds(graph) == {INPUT: 3}
    assert traced(lambda x: x[[2, 1, 0, 3]].sin(), 3, 4).matrices[0].tolist() == np.eye(4)[[2, 1, 0, 3]].tolist()


def test_a_token_is_selected_by_a_matrix_and_a_row_is_placed_by_one() -> None:
    assert traced(lambda x: x[2], 1, 4).matrices[0].tolist() == np.eye(4)[[2, 2, 2, 2]].tolist()
    placed = assert_agrees(lambda x: torch.stack([x[1].exp(), x.sum(0)]), 1, 2)
    assert np.diag([1.0, 0.0]).tolist() in [matrix.tolist() for matrix in placed.matrices]


def test_a_vector_is_one_output_on_the_tokens_or_several_outputs() -> None:
    assert len(traced(lambda x: x.sum(1), 4, 4).outputs) == 1
    assert len(traced(lambda x: x.sum(0), 4, 4).outputs) == 4
    assert len(traced(lambda x: torch.softmax(x, 0).exp()[:, 1], 4, 4).outputs) == 1


def test_labels_name_the_operation_and_its_line() -> None:
    def labelled(x: Any) -> Any:
        y = torch.log(x)  # the line that the label names
        return y * x

    line = labelled.__code__.co_firstlineno + 1
    labels = [node.label for node in traced(labelled, 1, None).nodes]
    assert labels == ["x[0]", f"log, test_tracing.py:{line}", f"mul, test_tracing.py:{line + 1}"]
    assert traced(nn.Sequential(nn.Identity(), nn.Tanh()), 1, None).nodes[-1].label == "tanh, module 1 (Tanh)"


def test_the_weights_of_a_float32_module_are_meant_exactly() -> None:
    layer = seeded(lambda: nn.Linear(2, 1)).float()
    weights = traced(layer, 2, None).nodes[-1].weights
    assert weights.tolist() == layer.weight[0].tolist()


def test_evaluating_takes_a_batch() -> None:
    graph = traced(lambda x: x.mean(0) * x, 2, 3)
    x = np.random.default_rng(0).normal(size=(5, 3, 2))
    np.testing.assert_allclose(evaluate(graph, x), x.mean(axis=1, keepdims=True) * x, rtol=1e-14)
