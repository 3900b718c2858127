"""Multinomial logistic regression by the softmax of attention: the network against plain numpy and the objective."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from weightwright.incontext.networks.multinomial_network import (
    multinomial_network,
    multinomial_prompt,
    plain_multinomial,
)
from weightwright.runtime.watch import all_states

STEP = np.array([0.4, 1.0, 2.0, 1.0])
MOMENTUM, STEPS = 0.8, 80


def data(seed: int, classes: int, n: int = 25) -> tuple[np.ndarray, Any]:
    """Clouds around one centre for each class, that overlap; the last feature is the intercept's."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % classes
    centres = rng.normal(size=(classes, 3))
    X = (centres[labels] + rng.normal(size=(n, 3))) * [1.5, 1.0, 0.5]
    return np.hstack([X, np.ones((n, 1))]), labels


def objective(W: torch.Tensor, X: np.ndarray, labels: Any, s: np.ndarray, penalty: np.ndarray) -> torch.Tensor:
    losses = torch.nn.functional.cross_entropy(torch.tensor(X) @ W.T, torch.tensor(labels), reduction="none")
    return (torch.tensor(s) * losses).sum() / float(s.sum()) + (torch.tensor(penalty) * W**2).sum() / 2


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_every_state_is_the_plain_algorithms(classes: int) -> None:
    X, labels = data(0, classes)
    rng = np.random.default_rng(1)
    given: dict[str, Any] = {
        "step": STEP,
        "start": rng.normal(size=(classes, 4)),
        "sample_weight": rng.uniform(0.5, 2.0, size=25) * (np.arange(25) != 6),
    }
    shrink = rng.uniform(0.0, 0.05, size=(classes, 4))
    path = plain_multinomial(X, labels, classes, momentum=MOMENTUM, steps=STEPS, shrink=shrink, **given)
    assert np.abs(path[-1] - path[0]).max() > 0.5  # it moved
    net = multinomial_network(28, 4, classes, momentum=MOMENTUM, steps=STEPS, shrink=shrink)  # three tokens are empty
    prompt = multinomial_prompt(X, labels, classes, samples=28, **given)
    states = all_states(net, prompt)  # (steps + 1, 2, n, classes d)
    assert np.abs(states - path.reshape(STEPS + 1, 2, 1, -1)).max() < 1e-11
    assert torch.equal(net(prompt)[0].double(), torch.tensor(states[-1, 1, 0]))
    assert net.network.outputs[-1] == f"w[{classes - 1}][3]"


def test_a_pass_is_a_step_down_the_objective() -> None:
    X, labels = data(2, 3)
    rng = np.random.default_rng(3)
    s, start = rng.uniform(0.5, 2.0, size=25), rng.normal(size=(3, 4))
    penalty = np.array([0.1, 0.2, 0.3, 0.0])
    W = torch.tensor(start, requires_grad=True)
    objective(W, X, labels, s, penalty).backward()  # type: ignore[no-untyped-call]
    assert W.grad is not None
    path = plain_multinomial(
        X, labels, 3, step=STEP, momentum=0.0, steps=1, shrink=STEP * penalty, start=start, sample_weight=s
    )
    assert np.abs(path[1, 1] - (start - STEP * W.grad.numpy())).max() < 1e-14


def test_it_arrives_where_the_objective_is_flat() -> None:
    X, labels = data(4, 3)
    penalty = np.array([0.1, 0.1, 0.1, 0.1])
    net = multinomial_network(25, 4, 3, momentum=MOMENTUM, steps=600, shrink=STEP * penalty)
    W = net(multinomial_prompt(X, labels, 3, step=STEP))[0].reshape(3, 4).detach().requires_grad_()
    objective(W, X, labels, np.ones(25), penalty).backward()  # type: ignore[no-untyped-call]
    assert W.grad is not None
    assert float(W.grad.abs().max()) < 1e-12


def test_contexts_in_one_batch_and_other_names_of_classes() -> None:
    X, labels = data(5, 3)
    renamed = np.array([2, 0, 1])[labels]
    net = multinomial_network(25, 4, 3, momentum=MOMENTUM, steps=STEPS, shrink=0.01)
    prompts = [multinomial_prompt(X, each, 3, step=STEP) for each in (labels, renamed)]
    first, second = net(torch.stack(prompts)).reshape(2, 3, 4).numpy()
    assert np.abs(second[[2, 0, 1]] - first).max() < 1e-12


def test_float32() -> None:
    X, labels = data(6, 3)
    path = plain_multinomial(X, labels, 3, step=STEP, momentum=MOMENTUM, steps=STEPS, shrink=0.01)
    net = multinomial_network(25, 4, 3, momentum=MOMENTUM, steps=STEPS, shrink=float(np.float32(0.01)), dtype="float32")
    W = net(multinomial_prompt(X, labels, 3, step=STEP, dtype="float32"))[0].reshape(3, 4).numpy()
    assert np.abs(W - path[-1, 1]).max() < 1e-4


def test_what_cannot_be_is_refused() -> None:
    X, labels = data(7, 3)
    usual: dict[str, Any] = {"n": 25, "d": 4, "classes": 3, "momentum": 0.5, "steps": 2}
    for name in ("n", "d", "classes", "steps"):
        with pytest.raises(ValueError, match=f"{name} must be at least 1"):
            multinomial_network(**(usual | {name: 0}))
    with pytest.raises(ValueError, match="shrink has shape"):
        multinomial_network(**usual, shrink=np.zeros(3))
    with pytest.raises(ValueError, match="momentum must be"):
        multinomial_network(**(usual | {"momentum": 1.0}))
    for wrong in (labels - 1, labels + 1, labels[:-1], labels.astype(float)):
        with pytest.raises(ValueError, match="labels="):
            multinomial_prompt(X, wrong, 3, step=STEP)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="step="):
        multinomial_prompt(X, labels, 3, step=-STEP)
    with pytest.raises(ValueError, match="start="):
        multinomial_prompt(X, labels, 3, step=STEP, start=np.zeros((4, 3)))
    with pytest.raises(ValueError, match="sample_weight="):
        multinomial_prompt(X, labels, 3, step=STEP, sample_weight=np.zeros(25))
