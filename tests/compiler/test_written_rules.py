"""Rules as people write them: with gradients of losses, small linear systems and angles; and what refusals advise."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
import torch
from support.graphs import graph_outputs
from torch import Tensor
from torch.nn import functional

import weightwright as ww
from weightwright.claims.graph import Graph
from weightwright.compiler.loop.proven_rules import advise_on, trace_and_confirm

ROWS = np.random.default_rng(0).uniform(-1, 1, (5, 3))


def logistic(rows: Tensor, w: Tensor) -> Tensor:
    def loss(v: Tensor) -> Tensor:
        return (
            functional.binary_cross_entropy_with_logits(rows[:, :2] @ v, torch.sigmoid(rows[:, 2]))
            + 0.1 * v.square().sum()
        )

    return w - 0.5 * torch.func.grad(loss)(w)


def newton(rows: Tensor, w: Tensor) -> Tensor:
    x, y = rows[:, :2], rows[:, 2]
    v = w.clone().requires_grad_()
    (g,) = torch.autograd.grad(((x @ v - y) ** 2).mean() / 2 + 0.75 * (v**2).sum(), v)
    return w - torch.linalg.solve(x.T @ x / len(x) + 1.5 * torch.eye(2, dtype=x.dtype), g)


def angles(rows: Tensor, w: Tensor) -> Tensor:
    return w + 0.25 * torch.atan2(rows[:, :1] - w, rows[:, 1:2] + 2).mean(dim=0)


@pytest.mark.parametrize(("rule", "states", "tol"), [
    pytest.param(logistic, 2, 1e-7, marks=pytest.mark.slow), (newton, 2, 1e-6),
    pytest.param(angles, 1, 1e-7, marks=pytest.mark.slow),
])  # fmt: skip
def test_they_run_as_proven_networks(rule: Callable[..., Tensor], states: int, tol: float) -> None:
    made = ww.incontext.algorithm(steps=3)(rule)
    run = made.run(ROWS, [0.125] * states, tol=tol)
    assert run.net.certificate is not None
    assert run.net.certificate.status == "PROVEN"
    assert 0 < run.errors.max() <= run.bound <= tol
    assert run.deviation.max() <= 3 * tol
    again = made.run(ROWS, [0.125] * states, tol=tol)  # what was compiled is kept, also where ranges were asked for
    assert again.net.network is run.net.network


def solutions(rows: Tensor, w: Tensor) -> Tensor:
    """All that systems of three rows and fewer are asked for."""
    eye = torch.eye(3, dtype=rows.dtype)
    A = 0.25 * rows.T @ rows + 2 * eye + torch.outer(w, rows[0]) / 8  # not symmetric
    several = torch.linalg.solve(A, torch.stack([w, rows[1]], dim=1))
    batch = torch.linalg.solve(A[None, :2, :2] + rows[:2, :2, None] * 0.1, rows[:2, :2])
    one = torch.linalg.solve(A[2:, 2:], w[:1]) + torch.linalg.det(A[:2, :2])
    return several.sum(dim=1) + torch.linalg.inv(A)[1] + torch.det(A) / 8 + batch.sum() + one


def test_small_systems_are_solved() -> None:
    graph, _ = trace_and_confirm(
        solutions, 5, ww.Box([-0.5] * 3, [0.5] * 3), ww.Box([-0.5] * 3, [0.5] * 3), "solutions"
    )
    rng = np.random.default_rng(2)
    rows, w = rng.uniform(-0.5, 0.5, (5, 3)), rng.uniform(-0.5, 0.5, 3)
    found = graph_outputs(graph, np.column_stack([rows, np.tile(w, (5, 1))]))[:, -3:]
    assert np.abs(found - solutions(torch.tensor(rows), torch.tensor(w)).numpy()).max() < 1e-14


def test_larger_systems_are_refused() -> None:
    def rule(rows: Tensor, w: Tensor) -> Tensor:
        return torch.linalg.solve(torch.eye(4, dtype=w.dtype) + w.outer(w), w)

    with pytest.raises(ww.UnsupportedOperation, match=r"linalg\.solve of a matrix of 4 rows.*w \+ step"):
        ww.incontext.algorithm(steps=1)(rule).run(ROWS, [0.5] * 4)


def em(x: Tensor, s: Tensor) -> Tensor:
    """Means and variances of two normal distributions, as the books have it."""
    mean, variance = s[:2], s[2:]
    r = torch.softmax(-((x - mean) ** 2) / (2 * variance), dim=1)
    new = (r * x).mean(dim=0) / r.mean(dim=0)
    return torch.cat([new, (r * (x - new) ** 2).mean(dim=0) / r.mean(dim=0) + 0.01])


def shares(x: Tensor, s: Tensor) -> Tensor:
    p = torch.exp(-8 * (x - s) ** 2)
    return (p / p.sum(dim=1, keepdim=True) * x).mean(dim=0)


def singular(rows: Tensor, w: Tensor) -> Tensor:
    x = rows[:, :2]
    return torch.linalg.solve(x.T @ x / len(x) + 0.01 * torch.eye(2, dtype=x.dtype), w)


def clamped(rows: Tensor, w: Tensor) -> Tensor:
    return w - torch.func.grad(lambda v: torch.clamp(rows[:, :2] @ v, -0.1, 0.1).sum())(w)


POINTS = np.random.default_rng(0).normal(0, 0.3, (8, 1)) + np.repeat([-1.0, 1.0], 4)[:, None]
FARTHER = "no bound can be composed: queries range over [-4.6, 4.6], the claim covers [-1.0, 1.0]"
UNDEFINED = "div, rules.py:2: 1/x is undefined or unbounded on token 0"
EM, SHARES = r"Clamp the divisor \(torch\.clamp\(r\.mean\(0\)", r"torch\.softmax of the logarithms of p"


@pytest.mark.parametrize(("error", "said"), [(FARTHER, EM), (UNDEFINED, SHARES), ("tol=1 cannot be proven", "^$")])
def test_errors_of_em_come_with_advice(error: str, said: str) -> None:
    assert re.search(said, advise_on(Graph("rule", (), ()), error))


@pytest.mark.parametrize(
    ("rule", "rows", "first", "said"),
    [
        pytest.param(em, POINTS, [-0.5, 0.5, 1.0, 1.0], f"of its argument included.*{EM}", marks=pytest.mark.slow),
        pytest.param(shares, POINTS, [-0.5, 0.5], SHARES, marks=pytest.mark.slow),
        (singular, ROWS, [0.5, 0.5], "add a larger multiple of the identity"),
        (clamped, ROWS, [0.5, 0.5], "gradient that may jump: .*huber_loss"),
    ],
)
def test_refusals_say_what_to_do(rule: Callable[..., Tensor], rows: object, first: list[float], said: str) -> None:
    with pytest.raises(ww.WeightwrightError, match=said):
        ww.incontext.algorithm(steps=4)(rule).run(rows, first, tol=1e-2)


@pytest.mark.slow
def test_the_advice_on_em_helps() -> None:
    def clamping(x: Tensor, s: Tensor) -> Tensor:
        mean, variance = s[:2], s[2:]
        r = torch.softmax(-((x - mean) ** 2) / (2 * variance), dim=1)
        counts = torch.clamp(r.mean(dim=0), min=0.05)
        new = (r * x).mean(dim=0) / counts
        return torch.cat([new, (r * (x - new) ** 2).mean(dim=0) / counts + 0.01])

    run = ww.incontext.algorithm(steps=4)(clamping).run(POINTS, [-0.5, 0.5, 1.0, 1.0], tol=1e-2)
    assert run.net.certificate is not None
    assert run.net.certificate.status == "PROVEN"


def test_a_rule_may_take_gradients_where_they_are_switched_off() -> None:
    rule = ww.incontext.algorithm(steps=2)(newton)
    with torch.no_grad():
        states = rule.plain(ROWS, [0.5, 0.5])
    x, y = ROWS[:, :2], ROWS[:, 2]
    best = np.linalg.solve(x.T @ x / 5 + 1.5 * np.eye(2), x.T @ y / 5)
    assert np.abs(states[-1] - best).max() < 1e-15
