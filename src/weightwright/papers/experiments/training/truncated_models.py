"""UA-E1, UA-E2: n truncated linear models Range[a,b](w_i . x_i + t_i), drawn and constructed."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from weightwright.papers.experiments.machinery.study_units import Json
from weightwright.papers.experiments.training.constructed_networks import describe_network, run
from weightwright.papers.experiments.training.training_loop import count_training
from weightwright.papers.theorems import constructions


def draw_models(seed: int, n: int, d: int) -> tuple[Tensor, Tensor]:
    """w (n, d) and t (n,), standard normal: fixed for all samples of a run."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, d, generator=generator), torch.randn(n, generator=generator)


def draw_inputs(seed: int, samples: int, n: int, d: int) -> Tensor:
    """(samples, n, d), uniform in [-5, 5]."""
    return torch.rand(samples, n, d, generator=torch.Generator().manual_seed(seed + 500_009)) * 10 - 5


def truncated_values(x: Tensor, w: Tensor, t: Tensor, a: float, b: float) -> Tensor:
    """Range[a,b](w_i . x_i + t_i): (..., n, d) -> (..., n)."""
    return ((x * w).sum(-1) + t).clamp(a, b)


def draw_problem(seeds: list[int], samples: int, n: int, d: int, a: float, b: float) -> tuple[Tensor, Tensor]:
    """X (S, N, n, d) and Y (S, N, n, d) with the value in the first number of each token and 0 in the others."""
    X = torch.stack([draw_inputs(seed, samples, n, d) for seed in seeds])
    Y = torch.zeros_like(X)
    for s, seed in enumerate(seeds):
        Y[s, ..., 0] = truncated_values(X[s], *draw_models(seed, n, d), a, b)
    return X, Y


def draw_held_out(unit: Json) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The first seed's w and t, its held-out X (N, n, d) and their values (N, n), in float64."""
    n, d, seed, half = unit["n"], unit["d"], unit["seeds"][0], unit["width"] / 2
    w, t = (part.double() for part in draw_models(seed, n, d))
    X = draw_inputs(seed, unit["samples"], n, d)[count_training(unit) :].double()
    return w, t, X, truncated_values(X, w, t, -half, half)


def build_truncated(unit: Json, p: int, method: Any) -> tuple[Any, Json]:
    """The constructed network of the first seed's models, and its errors on the held-out samples."""
    w, t, X, Y = draw_held_out(unit)
    half = unit["width"] / 2
    net = constructions.truncated_linear(w.numpy(), t.numpy(), -half, half, (-5.0, 5.0), p=p, method=method)
    return net, describe_network(net, run(net, X)[..., 0] - Y)
