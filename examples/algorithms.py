"""Five update rules in PyTorch, each run as a looped attention network beside PyTorch itself.

    python examples/algorithms.py            prints the table of docs/algorithms.md
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

import weightwright as ww
from weightwright.incontext import AlgorithmRun, Rule

EPS = 1e-4


@ww.incontext.algorithm(steps=50)
def momentum(rows: Tensor, state: Tensor) -> Tensor:
    """Heavy-ball descent for least squares: rows are (x, y), the state is (w, velocity)."""
    x, y = rows[:, :3], rows[:, 3]
    w, velocity = state[:3], state[3:]
    gradient = (x * (x @ w - y)[:, None]).mean(dim=0)
    velocity = 0.5 * velocity - 0.4 * gradient
    return torch.cat([w + velocity, velocity])


@ww.incontext.algorithm(steps=8)
def newton(rows: Tensor, w: Tensor) -> Tensor:
    """Newton's method for logistic regression with a ridge of 0.5: rows are (x, label 0 or 1)."""
    x, y = rows[:, :2], rows[:, 2]
    p = torch.sigmoid(x @ w)
    g = (x * (p - y)[:, None]).mean(dim=0) + 0.5 * w
    s = p * (1 - p)
    a, c = (s[:, None] * x**2).mean(dim=0) + 0.5
    b = (s * x[:, 0] * x[:, 1]).mean()
    r = 1 / (a * c - b**2)
    return w - torch.stack([c * g[0] - b * g[1], a * g[1] - b * g[0]]) * r


@ww.incontext.algorithm(steps=10)
def kmeans(points: Tensor, centres: Tensor) -> Tensor:
    """Two centres in the plane. A point belongs to the nearer one by a softmax of -20 times the squared distances:
    hard assignment, but for e^(-20 gap) where the two squared distances are `gap` apart."""
    c = centres.reshape(2, 2)
    distances = ((points[:, None, :] - c) ** 2).sum(dim=2)  # (n, 2)
    shares = torch.softmax(-20 * distances, dim=1)
    counts = torch.clamp(shares.mean(dim=0), min=0.1)
    return ((shares[:, :, None] * points[:, None, :]).mean(dim=0) / counts[:, None]).flatten()


@ww.incontext.algorithm(steps=30)
def power(rows: Tensor, v: Tensor) -> Tensor:
    """Power iteration: the first principal axis of the examples, without forming their covariance."""
    u = (rows * (rows @ v)[:, None]).mean(dim=0)
    return u * torch.rsqrt((u**2).sum() + EPS)


@ww.incontext.algorithm(steps=30)
def sinkhorn(K: Tensor, v: Tensor) -> Tensor:
    """Sinkhorn's scaling of a positive 4 x 4 matrix: the factors v of its columns; those of its rows are 1/(K v)."""
    u = 1 / (K @ v)
    return 0.25 / (K * u[:, None]).mean(dim=0)
