"""Gradients under trace: torch.func.grad and torch.autograd.grad become columns, or are refused with what to write."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from support.graphs import graph_outputs
from torch import Tensor
from torch.func import grad, grad_and_value, hessian, vmap
from torch.nn import functional

import weightwright as ww
from weightwright.claims.graph import KINDS
from weightwright.compiler.loop.proven_rules import trace_and_confirm, trace_rule
from weightwright.tracing.following.traced_function import trace_function

Rule = Callable[[Tensor, Tensor], Tensor]
SAMPLES, FEATURES = 5, 3


def squares(rows: Tensor, w: Tensor) -> Tensor:
    return ((rows[:, :2] @ w - rows[:, 2]) ** 2).mean()


def by_hand(rows: Tensor, w: Tensor) -> Tensor:
    x, y = rows[:, :2], rows[:, 2]
    return w - 0.25 * 2 * ((x @ w - y)[:, None] * x).mean(dim=0)


def by_func(rows: Tensor, w: Tensor) -> Tensor:
    return w - 0.25 * grad(squares, argnums=1)(rows, w)


def by_autograd(rows: Tensor, w: Tensor) -> Tensor:
    v = w.clone().requires_grad_()
    (g,) = torch.autograd.grad(functional.mse_loss(rows[:, :2] @ v, rows[:, 2]), v)
    return w - 0.25 * g


def nesterov(rows: Tensor, s: Tensor) -> Tensor:
    """The gradient ahead of where the state is: with respect to a sum, by either of torch's ways."""
    w, m = s[:2], s[2:]
    ahead = (w + 0.5 * m).detach().requires_grad_()
    g = torch.autograd.grad(squares(rows, ahead), ahead)[0]
    m = 0.5 * m - 0.1 * (g + grad(lambda v: squares(rows, v))(w + 0.5 * m)) / 2
    return torch.cat([w + m, m])


def newton(rows: Tensor, w: Tensor) -> Tensor:
    """A gradient of a gradient."""
    slope = grad(lambda v: torch.log(torch.cosh(rows[:, 0] * v[0] - rows[:, 1])).mean() + 0.5 * v[0] ** 2)
    return w - slope(w) / grad(lambda v: slope(v)[0])(w)


def with_value(rows: Tensor, w: Tensor) -> Tensor:
    g, (value, mean) = grad_and_value(lambda v: (squares(rows, v), (rows * v[0]).mean(dim=0)), has_aux=True)(w)
    return w - 0.1 * g * value + mean[:2]


def of_parameters(rows: Tensor, s: Tensor) -> Tensor:
    """With respect to a dictionary, as people keep parameters."""
    g = grad(lambda p: torch.tanh(rows[:, :2] @ p["w"] + p["b"]).square().mean())({"w": s[:2], "b": s[2]})
    return s - 0.1 * torch.cat([g["w"], g["b"][None]])


def stopped(rows: Tensor, w: Tensor) -> Tensor:
    """What is detached counts as a constant."""
    return w - 0.1 * grad(lambda v: ((rows[:, :2] @ v - (rows[:, 2] * v[0]).detach()) ** 2).mean())(w)


def two_losses(rows: Tensor, w: Tensor) -> Tensor:
    v = w.detach().requires_grad_()
    return w - torch.autograd.grad([(rows[:, 0] * v[0]).square().sum(), rows[:, :2] @ v], v, [None, rows[:, 2]])[0]


def of_examples(rows: Tensor, w: Tensor) -> Tensor:
    """With respect to every number of every example."""
    g = grad(lambda r: torch.tanh(r[:, 0] * r[:, 1] * w[0]).sum() + r[2, 1] * r[0, 0])(rows)
    return w + 0.1 * (g[:, :2] * rows[:, 2:]).mean(dim=0)


def of_single_examples(rows: Tensor, w: Tensor) -> Tensor:
    return w - 0.1 * grad(lambda v: (rows[2, 0] * v[0] - rows[1, 1]) ** 2 + torch.sin(v[1] * rows[0, 0]))(w)


def weighted_sum(rows: Tensor, w: Tensor) -> Tensor:
    """Weights that differ from token to token, and a mean that enters every loss."""
    mean = torch.arange(1.0, SAMPLES + 1, dtype=rows.dtype) @ rows[:, :2] / 8
    return w - 0.1 * grad(lambda v: ((rows[:, :2] - mean) @ v).cumsum(0).square().sum() + (mean @ v) ** 3)(w)


def of_a_sum(rows: Tensor, w: Tensor) -> Tensor:
    """Every example hands back the same number."""
    return w - 0.01 * grad(lambda v: (rows[:, :2] + v).sum() ** 2 + (rows[:, 2] - v[0]).mean() ** 3)(w)


LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "logistic": lambda s, y: functional.binary_cross_entropy_with_logits(s, torch.sigmoid(y)),
    "weighted": lambda s, y: functional.binary_cross_entropy_with_logits(
        s, torch.sigmoid(y), pos_weight=torch.tensor(2.0)
    ),
    "margin": lambda s, y: functional.soft_margin_loss(s, y, reduction="sum"),
    "huber": lambda s, y: functional.huber_loss(s, y, delta=0.5),
    "smooth": lambda s, y: functional.smooth_l1_loss(s, y, beta=0.25),
    "hinge": lambda s, y: (torch.relu(1 - s * y) ** 2).mean(),
    "weighted hinge": lambda s, y: (torch.exp(s) * torch.relu(1 - s * y) ** 2).mean(),
    "own": lambda s, y: (torch.exp(-s * y) + torch.sqrt(1 + (s - y) ** 2) + torch.atan(s) / (2 + y)).mean(),
    "softmax": lambda s, y: -torch.softmax(torch.stack([s, y, s * y], dim=1), dim=1)[:, 0].mean(),
    "two entries": lambda s, y: (torch.softmax(torch.stack([y, s, -s], dim=1), dim=1)[:, 1:] * y[:, None]).sum(),
    "entropy": lambda s, y: -torch.log_softmax(torch.stack([s, y, s * y], dim=1), dim=1)[:, 0].mean(),
    "spread": lambda s, y: torch.var(s) + (s - y).norm(p=2).square(),
}


def of_loss(loss: Callable[[Tensor, Tensor], Tensor]) -> Rule:
    return lambda rows, w: w - 0.1 * grad(lambda v: loss(rows[:, :2] @ v, rows[:, 2]))(w)


RULES: dict[str, tuple[Rule, int]] = {
    **{rule.__name__: (rule, 2) for rule in (by_func, by_autograd, with_value, stopped, two_losses, of_examples)},
    **{rule.__name__: (rule, 2) for rule in (of_single_examples, weighted_sum, of_a_sum)},
    "nesterov": (nesterov, 4),
    "newton": (newton, 1),
    "of_parameters": (of_parameters, 3),
    **{name: (of_loss(loss), 2) for name, loss in LOSSES.items()},
}


def box(size: int) -> ww.Box:
    return ww.Box([-1.0] * size, [1.0] * size)


@pytest.mark.parametrize("name", RULES)
def test_the_columns_are_what_torch_computes(name: str) -> None:
    """The guard agrees; and beside it, numbers that it did not choose."""
    rule, states = RULES[name]
    graph, _ = trace_and_confirm(rule, SAMPLES, box(FEATURES), box(states), name)
    assert {node.op for node in graph.nodes if node.op not in KINDS}.isdisjoint({"held", "step(x)", "sign(x)"})
    rng = np.random.default_rng(len(name))
    for _ in range(3):
        rows, state = rng.uniform(-1, 1, (SAMPLES, FEATURES)), rng.uniform(-1, 1, states)
        prompt = np.column_stack([rows, np.tile(state, (SAMPLES, 1))])
        found = graph_outputs(graph, prompt)[:, -states:]
        wanted = rule(torch.tensor(rows), torch.tensor(state)).detach().numpy()
        assert np.abs(found - wanted).max() < 1e-13


@pytest.mark.parametrize("rule", [by_func, by_autograd])
def test_the_columns_are_those_of_the_gradient_by_hand(rule: Rule) -> None:
    """So a gradient costs what its formula does: the same products, the same means."""
    first, second = (trace_rule(one, 4, FEATURES, 2, "rule") for one in (rule, by_hand))
    assert Counter(node.op for node in first.nodes) == Counter(node.op for node in second.nodes)


def test_functions_of_tokens_take_gradients_too() -> None:
    graph = trace_function(lambda x: grad(lambda v: (v[:, 0] * v[:, 1] ** 2).sum())(x), features=2, tokens=3)
    x = np.random.default_rng(0).uniform(-1, 1, (1, 3, 2))
    a, b = x[0].T
    assert np.abs(graph_outputs(graph, x)[0] - np.stack([b**2, 2 * a * b], axis=1)).max() < 1e-15


def decides(rows: Tensor, w: Tensor) -> Tensor:
    def loss(v: Tensor) -> Tensor:
        with torch.no_grad():
            target = 2 * v[0]
        return ((rows[:, :2] @ v) ** 2).mean() + v[0] * target

    return w - grad(loss)(w)


def backwards(rows: Tensor, w: Tensor) -> Tensor:
    v = w.clone().requires_grad_()
    squares(rows, v).backward()
    return w - v.grad


REFUSED: list[tuple[Any, str]] = [
    (backwards, r"backward cannot be traced .*torch\.func\.grad\(loss\)\(w\), or torch\.autograd\.grad\(loss, w\)"),
    (lambda rows, w: w - w.grad, r"\.grad of a traced tensor.*torch\.func\.grad"),
    (lambda rows, w: w - torch.autograd.grad(squares(rows, w), w)[0], r"w = w\.detach\(\)\.requires_grad_\(\)"),
    (lambda rows, w: w - hessian(lambda v: squares(rows, v))(w) @ w, r"hessian cannot be traced .*twice for second"),
    (
        lambda rows, w: w - vmap(grad(lambda v, r: r[0] * v[0] ** 2), (None, 0))(w, rows).mean(0),
        "examples at once",
    ),
    (lambda rows, w: w - grad(lambda v: rows[:, :2] @ v)(w), r"returns shape \(5,\).*return one number"),
    (lambda rows, w: w - grad(lambda v: (rows[:, :2] @ v).abs().mean())(w), "huber_loss for abs"),
    (lambda rows, w: w - grad(lambda v: torch.relu(rows[:, :2] @ v).mean())(w), r"relu\(x\)\*\*2"),
    (lambda rows, w: w - grad(lambda v, c: v[0] * c, 1)(w, torch.ones(())), "with respect to a constant"),
    (decides, "does not compute what was traced"),
]


@pytest.mark.parametrize(("rule", "said"), REFUSED)
def test_refusals_say_what_to_write(rule: Rule, said: str) -> None:
    with pytest.raises(ww.UnsupportedOperation, match=said):
        trace_and_confirm(rule, SAMPLES, box(FEATURES), box(2), "rule")


def test_the_guard_finds_a_gradient_that_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were the walk backwards wrong by one part in ten billion, the rule would be refused."""
    from weightwright.tracing.following import torch_gradients

    right = torch_gradients.column_gradients

    def wrong(sheet: Any, *args: Any) -> list[int]:
        return [sheet.columns.combined([column], [1 + 1e-10]) for column in right(sheet, *args)]

    monkeypatch.setattr(torch_gradients, "column_gradients", wrong)
    with pytest.raises(ww.UnsupportedOperation, match="does not compute what was traced"):
        trace_and_confirm(by_func, SAMPLES, box(FEATURES), box(2), "rule")


def test_torch_is_left_as_it_was() -> None:
    """For plain tensors torch's own gradient runs, in the middle of a trace, in another thread, and afterwards."""
    from torch._functorch import apis, eager_transforms

    names = [(eager_transforms, "grad_and_value_impl"), (eager_transforms, "_vjp_with_argnums"), (apis, "vmap_impl")]
    before = [getattr(module, name) for module, name in names]
    plain = list[float]()

    def rule(rows: Tensor, w: Tensor) -> Tensor:
        thread = threading.Thread(target=lambda: plain.append(float(grad(torch.sin)(torch.tensor(0.0)))))
        thread.start()
        thread.join()
        twice = vmap(lambda v: 2 * v)(torch.tensor([0.25, 0.5], dtype=torch.float64))
        return w - grad(torch.exp)(torch.tensor(0.0, dtype=torch.float64)) * twice * by_func(rows, w)

    trace_rule(rule, SAMPLES, FEATURES, 2, "rule")
    assert set(plain) == {1.0}
    with pytest.raises(ww.UnsupportedOperation):
        trace_rule(lambda rows, w: w - grad(lambda v: v)(w), SAMPLES, FEATURES, 2, "rule")
    assert [getattr(module, name) for module, name in names] == before
