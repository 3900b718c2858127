"""Small networks of every kind that users make: functions of numbers, compiled torch functions, learners, memories."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

import weightwright as ww


def random_weights(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) / 2


def mlp(x: torch.Tensor) -> torch.Tensor:
    """Two inputs, three units."""
    return torch.tanh(x @ random_weights(0, 2, 3)) @ random_weights(1, 3, 1)


def attention(x: torch.Tensor) -> torch.Tensor:
    """One head between tokens of two features."""
    query, key, value = (random_weights(seed, 2, 2) for seed in (2, 3, 4))
    return torch.softmax((x @ query) @ (x @ key).T, dim=-1) @ (x @ value)


def layer_norm(x: torch.Tensor) -> torch.Tensor:
    apart = x - x.mean(dim=-1, keepdim=True)
    return apart / torch.sqrt((apart**2).mean(dim=-1, keepdim=True) + 0.1)


@ww.incontext.algorithm(steps=2)
def average(rows: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
    return 0.5 * state + rows.mean(dim=0)


def fitted(model: ww.incontext.Ridge | ww.incontext.LogisticRegression, *, classes: bool) -> ww.AttentionNetwork:
    X = np.random.default_rng(0).uniform(-1, 1, (6, 2))
    y = X @ [1.0, -0.5]
    return model.fit(X, (y > 0).astype(int) if classes else y).network_


SQUARE = ww.Box([-1, -1], [1, 1])
BUILDERS: dict[str, Callable[[], ww.AttentionNetwork]] = {
    "formula": lambda: ww.approximate("sin(5*x)", (-1, 1), 1e-4),
    "formula in float32": lambda: ww.approximate("exp(x)", (-1, 1), 1e-3, dtype="float32"),
    "absolute value": lambda: ww.approximate("abs(x)", (-1, 1), 1e-3),
    "two variables": lambda: ww.approximate("x*y", SQUARE, 0.1),
    "samples": lambda: ww.approximate(np.sin, (-1, 1), 0.1, derivative_bound=(2, 1.0)),
    "mlp": lambda: ww.compile(mlp, SQUARE, 1e-3),
    "relu layer": lambda: ww.compile(lambda x: torch.relu(x @ random_weights(5, 2, 2)), SQUARE, 1e-2),
    "product": lambda: ww.compile(lambda x: x[:, :1] * torch.exp(x[:, 1:]), SQUARE, 1e-3),
    "layer norm": lambda: ww.compile(layer_norm, SQUARE, 0.1),
    "attention": lambda: ww.compile(attention, SQUARE, 1e-2, tokens=2),
    "attention in float32": lambda: ww.compile(attention, SQUARE, 1e-1, tokens=2, dtype="float32"),
    "loop": lambda: average.compile(([-1.0], [1.0]), ([-2.0], [2.0]), samples=2),
    "ridge": lambda: fitted(ww.incontext.Ridge(alpha=0.5), classes=False),
    "logistic regression": lambda: fitted(ww.incontext.LogisticRegression(C=0.5), classes=True),
    "memory": lambda: ww.memorize([["a", "b"], ["b", "a"]], [[0, 1], [2, 1]]),
    "interpreter": lambda: ww.Interpreter(2, 1, 1, anchors=6).net,
}  # fmt: skip
