"""Five update rules in PyTorch, each run as a looped attention network beside PyTorch itself.

python examples/algorithms.py                    prints the table of docs/algorithms.md
python examples/algorithms.py kmeans --draw k.png    one of them, with a picture of its network
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

import weightwright as ww
from weightwright.claims.certificate import round_up
from weightwright.incontext import AlgorithmRun, Rule


@ww.incontext.algorithm(steps=50)
def momentum(rows: Tensor, state: Tensor) -> Tensor:
    """Heavy-ball descent for least squares: rows are (x, y), the state is (w, velocity)."""
    x, y = rows[:, :3], rows[:, 3]
    w, velocity = state[:3], state[3:]
    gradient = (x * (x @ w - y)[:, None]).mean(dim=0)
    velocity = 0.5 * velocity - 0.8 * gradient
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
    r = 1 / (a * c - b**2)  # above 0, as ranges show where |x| <= 1.25: no clamp is needed
    return w - torch.stack([c * g[0] - b * g[1], a * g[1] - b * g[0]]) * r


@ww.incontext.algorithm(steps=10)
def kmeans(points: Tensor, centres: Tensor) -> Tensor:
    """Two centres in the plane. A point belongs to the nearer one by a softmax of -20 times the squared distances:
    hard assignment, but for e^(-20 gap) where the two squared distances are `gap` apart."""
    c = centres.reshape(2, 2)
    distances = ((points[:, None, :] - c) ** 2).sum(dim=2)  # (n, 2)
    shares = torch.softmax(-20 * distances, dim=1)
    counts = torch.clamp(shares.mean(dim=0), min=0.1)  # a tenth of all points at least
    return ((shares[:, :, None] * points[:, None, :]).mean(dim=0) / counts[:, None]).flatten()


@ww.incontext.algorithm(steps=30)
def power(rows: Tensor, v: Tensor) -> Tensor:
    """Power iteration: the first principal axis of the examples, without forming their covariance. The 0.01 keeps
    the root away from 0; it only makes v shorter than 1, by the root of 1 - 0.01 / eigenvalue^2."""
    u = (rows * (rows @ v)[:, None]).mean(dim=0)
    return u * torch.rsqrt((u**2).sum() + 0.01)


@ww.incontext.algorithm(steps=30)
def sinkhorn(K: Tensor, v: Tensor) -> Tensor:
    """Sinkhorn's scaling of a positive 4 x 4 matrix until its rows and columns have mean 1: the factors v of its
    columns; those of its rows are u."""
    u = 1 / (K * v).mean(dim=1)
    return 1 / (K * u[:, None]).mean(dim=0)


#: A rule, examples and first state, and the error of one pass that is asked for.
Problem = tuple[Rule, np.ndarray, np.ndarray, float]


def least_squares(rng: np.random.Generator, n: int = 30) -> Problem:
    x = rng.uniform(-1, 1, (n, 3))
    y = x @ np.array([0.5, -0.25, 0.75]) + 0.05 * rng.normal(size=n)
    return momentum, np.column_stack([x, y]), np.zeros(6), 1e-9


def labels(rng: np.random.Generator, n: int = 40) -> Problem:
    x = rng.uniform(-1, 1, (n, 2))
    y = x @ np.array([2.0, -1.0]) + 0.3 * rng.normal(size=n) > 0
    return newton, np.column_stack([x, y.astype(float)]), np.zeros(2), 1e-9


def clusters(rng: np.random.Generator, n: int = 100) -> Problem:
    middles = np.repeat([[-0.6, -0.4], [0.5, 0.5]], [n // 2, n - n // 2], axis=0)
    return kmeans, middles + 0.15 * rng.normal(size=(n, 2)), np.array([-0.2, 0.1, 0.3, 0.0]), 2e-8


def cloud(rng: np.random.Generator, n: int = 30) -> Problem:
    x = rng.uniform(-1, 1, (n, 4)) * [1.0, 0.6, 0.4, 0.3]
    return power, x / np.sqrt(np.linalg.eigvalsh(x.T @ x / n)[-1]), np.full(4, 0.5), 1e-8


def matrix(rng: np.random.Generator) -> Problem:
    return sinkhorn, rng.uniform(0.5, 1.5, (4, 4)), np.ones(4), 1e-9


PROBLEMS: dict[str, Callable[[np.random.Generator], Problem]] = {
    "momentum": least_squares,
    "newton": labels,
    "kmeans": clusters,
    "power": cloud,
    "sinkhorn": matrix,
}


def run(name: str, seed: int = 0, progress: Callable[[str], None] = lambda message: None) -> AlgorithmRun:
    """One of the five, on data from this seed."""
    rule, examples, first, tol = PROBLEMS[name](np.random.default_rng(seed))
    return rule.run(examples, first, tol=tol, progress=progress)


def row(name: str, found: AlgorithmRun, seconds: float) -> str:
    """A line of the table in docs/algorithms.md."""
    network = found.net.network
    heads, layers = len(list(network.heads)), len(list(network.flat_layers))
    sizes = f"{network.tokens} | {found.states.shape[1]} | {len(found.states) - 1} | {heads} in {layers - 2} layers"
    said = f"{round_up(found.bound)} | {found.errors.max():.1e} | {found.deviation[-1]:.1e}"
    return f"| {name} | {sizes} | {said} | {seconds:.0f} s |"


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("names", nargs="*", default=list(PROBLEMS), metavar="NAME", help=", ".join(PROBLEMS))
    asked.add_argument("--draw", metavar="FILE", help="a picture of the last network")
    given = asked.parse_args()
    print("| rule | examples | state | passes | heads of a pass | bound on one pass, proven | errors of passes, largest"
          " | last state, from PyTorch's | compiled in, CPU |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|---|")
    for name in given.names:
        start = time.process_time()
        found = run(name)
        print(row(name, found, time.process_time() - start), flush=True)
    if given.draw:
        from weightwright.report import draw_network

        draw_network(found.net, given.draw)


if __name__ == "__main__":
    main()
