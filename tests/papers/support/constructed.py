"""Networks of the papers' constructions, each built once in a process, and the numbers they are built from."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
import torch
from torch import nn

import weightwright as ww

SORT = ("min(x0, x1)", "max(x0, x1)")


def normal(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def arrays(seed: int, inputs: int, units: int, outputs: int) -> tuple[np.ndarray, ...]:
    """A ReLU network as torch has it."""
    return (
        normal(seed, units, inputs) / math.sqrt(inputs),
        normal(seed + 1, units),
        normal(seed + 2, outputs, units) / math.sqrt(units),
        normal(seed + 3, outputs),
    )


def module(seed: int, inputs: int, units: int, outputs: int) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(inputs, units), nn.ReLU(), nn.Linear(units, outputs)).double()


#: Of each construction at least three settings; the id comes first.
CASES: dict[str, Callable[[], ww.AttentionNetwork]] = {
    "UA-2, p": lambda: ww.constructions.truncated_linear(normal(1, 3, 2), normal(2, 3), -1.0, 1.0, (-1, 1), p=16),
    "UA-2, tol": lambda: ww.constructions.truncated_linear(normal(3, 2, 3), normal(4, 2), -0.3, 0.5, (-2, 1), tol=0.05),
    "UA-2, soft": lambda: ww.constructions.truncated_linear(
        normal(5, 3, 1), normal(6, 3), 2.0, 3.0, (-3, 3), p=9, beta=150.0
    ),
    "UA-2, one token": lambda: ww.constructions.truncated_linear([[1.0]], [0.0], -1.0, 1.0, (-20, 20), p=3),
    "UA-2, three rows": lambda: ww.constructions.truncated_linear(
        normal(7, 3, 2), normal(8, 3), -1.0, 2.0, (-1, 1), p=12, G=lambda k: k // 4, dead_zone=1e-3
    ),
    "UA-2, rows that alternate": lambda: ww.constructions.truncated_linear(
        normal(9, 2, 1), normal(10, 2), -1.0, 1.0, (-3, 3), p=6, G=[0, 1, 0, 1, 1, 0], dead_zone=1e-4
    ),
    "UA-2, a box": lambda: ww.constructions.truncated_linear(
        normal(11, 2, 2), [5.0, -5.0], -1.0, 1.0, ww.Box([[-6, 0], [4, -1]], [[-4, 0.5], [6, 1]]), p=10
    ),
    "UA-2, float32": lambda: ww.constructions.truncated_linear(
        normal(1, 3, 2), normal(2, 3), -1.0, 1.0, (-1, 1), p=16, dtype="float32"
    ),
    "UA-2, bfloat16": lambda: ww.constructions.truncated_linear(
        normal(1, 3, 2) / 4, normal(2, 3) / 4, -1.0, 1.0, (-1, 1), p=6, beta=16.0, dtype="bfloat16"
    ),
    "UA-2, float32, three rows": lambda: ww.constructions.truncated_linear(
        normal(7, 3, 2), normal(8, 3), -1.0, 2.0, (-1, 1), p=12, G=lambda k: k // 4, dead_zone=1e-3, dtype="float32"
    ),
    "UA-2, spectral": lambda: ww.constructions.truncated_linear(
        normal(1, 3, 2), normal(2, 3), -1.0, 1.0, (-1, 1), p=16, method="spectral"
    ),
    "UA-2, spectral, float32": lambda: ww.constructions.truncated_linear(
        normal(12, 3, 2) / 4, normal(13, 3) / 4, 0.0, 5.0, (-1, 1), tol=1e-4, method="spectral", dtype="float32"
    ),
    "UA-2, spectral, bfloat16": lambda: ww.constructions.truncated_linear(
        normal(1, 3, 2) / 4, normal(2, 3) / 4, -1.0, 1.0, (-1, 1), tol=1.0, method="spectral", dtype="bfloat16"
    ),
    "UA-3, H": lambda: ww.constructions.truncated_linear_heads(normal(14, 2), normal(15, 6), -1.0, 1.0, (-1, 1), H=4),
    "UA-3, tol": lambda: ww.constructions.truncated_linear_heads(
        normal(16, 1), normal(17, 5), 0.5, 1.0, (-2, 2), tol=0.02
    ),
    "UA-3, three tokens": lambda: ww.constructions.truncated_linear_heads(
        [1.0, -2.0], [0.0, 0.5, -3.0], -1.0, 0.25, (-1, 1), H=5
    ),
    "UA-3, one head": lambda: ww.constructions.truncated_linear_heads(
        normal(18, 3), normal(19, 9), -1.0, 1.0, (-1, 1), H=1
    ),
    "UA-3, soft": lambda: ww.constructions.truncated_linear_heads(
        normal(14, 2), normal(15, 5), -1.0, 1.0, (-1, 1), H=2, beta=60.0
    ),
    "UA-3, w per token": lambda: ww.constructions.truncated_linear_heads(
        normal(20, 5, 2), normal(21, 5), -1.0, 1.0, (-1, 1), H=3
    ),
    "UA-3, float32": lambda: ww.constructions.truncated_linear_heads(
        normal(14, 2), normal(15, 6), -1.0, 1.0, (-1, 1), H=4, dtype="float32"
    ),
    "UA-3, spectral": lambda: ww.constructions.truncated_linear_heads(
        normal(14, 2) / 2, normal(15, 6) / 2, -1.0, 1.0, (-1, 1), tol=1e-4, method="spectral"
    ),
    "UA-8, sort": lambda: ww.constructions.relu_network(SORT, 2, (-1, 1), tol=1e-6),
    "UA-8, faithful": lambda: ww.constructions.relu_network(SORT, 2, (-1, 1), tol=0.1, method="faithful"),
    "UA-8, plane waves": lambda: ww.constructions.relu_network(["x0*x1", "sin(x0)*cos(x1)"], 2, (-1, 1), tol=5e-2),
    "UA-8, a module": lambda: ww.constructions.relu_network(module(22, 4, 5, 2), 2, (-1, 1), tol=1e-5),
    "UA-8, kinks and lines": lambda: ww.constructions.relu_network(["abs(x0 - x1) + 2*x1", "x0"], 1, (-2, 1), tol=1e-4),
    "UA-9, square": lambda: ww.constructions.token_mixing(normal(23, 4, 4), normal(24, 3, 2), (-1, 1)),
    "UA-9, zeros": lambda: ww.constructions.token_mixing(
        [[0.0, -2.0, 0.0], [1e-3, 0, 0], [0, 0, 0]], [[0.0, 1.0]], (-5, 1)
    ),
    "UA-9, one token": lambda: ww.constructions.token_mixing([[-3.0]], normal(25, 2, 2), (-1, 1)),
    "UA-10, arrays": lambda: ww.constructions.native_relu(arrays(26, 6, 4, 3), 3, (-1, 1)),
    "UA-10, a module": lambda: ww.constructions.native_relu(module(27, 4, 6, 4), 2, (-2, 0.5), tol=1e-4),
    "UA-10, beta": lambda: ww.constructions.native_relu(arrays(28, 3, 5, 2), 1, (-1, 1), beta=64.0),
    "UA-13, relu": lambda: ww.constructions.relu(normal(29, 3, 2), normal(30, 3), (-1, 1), p=16),
    "UA-13, relu, spectral": lambda: ww.constructions.relu(
        normal(29, 3, 2), normal(30, 3), (-1, 1), tol=1e-5, method="spectral"
    ),
    "UA-13, relu, float32": lambda: ww.constructions.relu(
        normal(31, 2, 3), normal(32, 2), (-1, 1), tol=0.1, dtype="float32"
    ),
    "UA-13, hard tanh": lambda: ww.constructions.hard_tanh(normal(29, 3, 2), normal(30, 3), (-1, 1), p=16),
    "UA-13, hard tanh, tol": lambda: ww.constructions.hard_tanh(normal(31, 2, 3), normal(32, 2), (-1, 1), tol=0.1),
    "UA-13, hard tanh, narrow": lambda: ww.constructions.hard_tanh(
        normal(31, 2, 3) / 9, normal(32, 2) / 9, (-1, 1), p=5
    ),
    "UA-13, clipped": lambda: ww.constructions.clipped_relu(normal(29, 3, 2), normal(30, 3), 0.5, (-1, 1), p=16),
    "UA-13, clipped, tol": lambda: ww.constructions.clipped_relu(
        normal(31, 2, 3), normal(32, 2), 2.0, (-1, 1), tol=0.1
    ),
    "UA-13, clipped, far": lambda: ww.constructions.clipped_relu(normal(31, 2, 3), [3.0, -9.0], 1.0, (-1, 1), p=8),
}


@cache
def made(name: str) -> ww.AttentionNetwork:
    return CASES[name]()
