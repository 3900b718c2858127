"""Random functions of torch tensors: several inputs, several tokens, up to six operations deep."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

Step = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class RandomFunction:
    """Steps on a matrix of (tokens, features), each followed by a linear map that keeps numbers small."""

    steps: tuple[Step, ...]
    names: tuple[str, ...]
    tokens: int | None
    features: int

    def __call__(self, x: Tensor) -> Tensor:
        for step in self.steps:
            x = step(x)
        return x


def random_function(seed: int, deepest: int = 6) -> RandomFunction:
    rng = np.random.default_rng(seed)
    d, tokens = int(rng.integers(1, 4)), [None, 2, 3][int(rng.integers(3))]
    names, steps = [], []
    for _ in range(int(rng.integers(1, deepest + 1))):
        kinds = list(_STEPS) + (list(_MIXING) if tokens else [])
        name = kinds[int(rng.integers(len(kinds)))]
        names.append(name)
        steps.append((_STEPS | _MIXING)[name](rng, d, tokens or 1))
    return RandomFunction(tuple(steps), tuple(names), tokens, d)


def _linear(rng: np.random.Generator, d: int, size: float = 1.0) -> Step:
    W = torch.tensor(size * rng.uniform(-1, 1, (d, d)) / d)
    b = torch.tensor(rng.uniform(-0.5, 0.5, d))
    return lambda x: x @ W + b


def _function(function: Step) -> Callable[[np.random.Generator, int, int], Step]:
    def make(rng: np.random.Generator, d: int, n: int) -> Step:
        linear = _linear(rng, d, 1.5)
        return lambda x: function(linear(x))

    return make


def _product(rng: np.random.Generator, d: int, n: int) -> Step:
    one, other = _linear(rng, d), _linear(rng, d)
    return lambda x: one(x) * other(x)


def _residual(rng: np.random.Generator, d: int, n: int) -> Step:
    linear = _linear(rng, d)
    return lambda x: x + torch.sin(linear(x))


def _norm(rng: np.random.Generator, d: int, n: int) -> Step:
    def step(x: Tensor) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        return centred / torch.sqrt((centred**2).mean(-1, keepdim=True) + 0.05)

    return step


def _matrix(rng: np.random.Generator, d: int, n: int) -> Step:
    A = torch.tensor(rng.uniform(-1, 1, (n, n)))
    return lambda x: A @ x


def _attend(rng: np.random.Generator, d: int, n: int) -> Step:
    q, k = _linear(rng, d), _linear(rng, d)
    return lambda x: torch.softmax(q(x) @ k(x).T, dim=-1) @ x


_STEPS: dict[str, Callable[[np.random.Generator, int, int], Step]] = {
    "tanh": _function(torch.tanh),
    "exp": _function(torch.exp),
    "gelu": _function(torch.nn.functional.gelu),
    "relu": _function(torch.relu),
    "square": _function(lambda x: x**2),
    "divide": _function(lambda x: 1 / (1.2 + x**2)),
    "softmax": _function(lambda x: torch.softmax(3 * x, dim=-1)),
    "maximum": _function(lambda x: torch.maximum(x, -x / 2)),
    "product": _product,
    "residual": _residual,
    "norm": _norm,
}
_MIXING: dict[str, Callable[[np.random.Generator, int, int], Step]] = {
    "mean": lambda rng, d, n: lambda x: x - x.mean(0),
    "matrix": _matrix,
    "attend": _attend,
    "first": lambda rng, d, n: lambda x: x * x[0],
}
