"""Torch functions and modules become graphs of columns that compute the same numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from support.against_torch import Function, assert_agrees, constants, seeded
from torch import nn
from torch.nn import functional as F  # noqa: N812

import weightwright as ww

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
    "elu with alpha": lambda x: F.elu(x, 0.5) + F.celu(x, alpha=0.5),
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
    assert_agrees(function, features=3, tokens=3)  # as many tokens as features: no axis is taken for another
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
    "cumsum": lambda x: x.cumsum(0) * x.cumsum(1) + x[:, 0].cumsum(0)[:, None],
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


def random_function(seed: int, n: int) -> Function:
    """Eight steps, each of one or two earlier tensors; a step whose shapes do not fit is left out."""

    def step(rng: np.random.Generator, a: Any, b: Any) -> Any:
        axis = int(rng.integers(a.ndim))
        steps: list[Callable[[], Any]] = [
            *(lambda: torch.tanh(a), lambda: a * b, lambda: a + 0.5 * b, lambda: a @ b / 4, lambda: a.softmax(axis)),
            *(lambda: a.sum(axis, keepdim=True), lambda: a.sum(axis), lambda: a[-1], lambda: a.flip(0)),
            *(lambda: a.transpose(0, -1), lambda: torch.stack([a, b], axis), lambda: a.reshape(-1)),
            *(lambda: a.unsqueeze(axis), lambda: torch.tensor(matrix) @ a, lambda: a - torch.tensor(matrix[0])),
        ]
        matrix = rng.normal(size=(n, n))
        return steps[rng.integers(len(steps))]()

    def function(x: Any) -> Any:
        rng, made = np.random.default_rng(seed), [x]
        for _ in range(8):
            a, b = (made[i] for i in rng.integers(len(made), size=2))
            try:
                y = step(rng, a, b)
            except (RuntimeError, ww.UnsupportedOperation):
                continue
            made += [y] if y.ndim and y.numel() <= 60 else []
        return torch.cat([y.reshape(-1) for y in made[-3:]])

    return function


@pytest.mark.parametrize(("n", "features"), [(3, 3), (2, 3), (4, 2), (1, 3)])
def test_random_functions(n: int, features: int) -> None:
    for seed in range(20):
        assert_agrees(random_function(seed, n), features, n)
