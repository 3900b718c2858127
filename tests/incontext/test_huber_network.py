"""Huber's regression with its scale in the state: the network against plain numpy, and its guards."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch

import weightwright as ww
from weightwright.incontext.networks.huber_network import huber_network, huber_prompt, huber_ranges, plain_huber
from weightwright.runtime.watch import all_states

EPSILON, MOMENTUM, STEPS = 1.35, 0.7, 60
SIGMAS, REACH = (0.25, 2.25), 32.0


def data(seed: int = 0, n: int = 30, d: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """A line with noise and a tenth of outliers."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * [2.0, 1.0, 0.5]
    y = X @ [1.0, -2.0, 0.5] + 0.3 + 0.5 * rng.normal(size=n)
    y[::10] += 8.0
    return X, y


def given(intercept: bool, weighted: bool = False) -> dict[str, Any]:
    """A step for each number of the state, a start, and weights of which one is 0."""
    D = 4 + intercept
    start = np.zeros(D)
    start[-1] = 2.0
    step = np.append(0.05 / np.array([4.0, 1.0, 0.25, *([1.0] * intercept)]), 0.02)
    weight = np.random.default_rng(5).uniform(0.5, 2.0, size=30) * (np.arange(30) != 7) if weighted else None
    return {"step": step, "start": start, "sample_weight": weight, "intercept": intercept}


def built(intercept: bool = True, n: int = 30, **more: Any) -> ww.AttentionNetwork:
    """For three features, and as far as the data above lead."""
    usual = {"epsilon": EPSILON, "momentum": MOMENTUM, "steps": STEPS, "sigma_range": SIGMAS, "reach": REACH}
    return huber_network(n, 3, intercept=intercept, **(usual | more))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
def test_every_state_is_the_plain_algorithms(intercept: bool, weighted: bool) -> None:
    (X, y), settings = data(), given(intercept, weighted)
    shrink = 0.3 * settings["step"][:3]
    path = plain_huber(X, y, epsilon=EPSILON, momentum=MOMENTUM, steps=STEPS, shrink=shrink, **settings)
    assert np.abs(path[-1] - path[0]).max() > 0.5  # it moved
    net = built(intercept, n=33, shrink=shrink)  # three tokens are empty
    prompt = huber_prompt(X, y, samples=33, **settings)
    states = all_states(net, prompt)  # (steps + 1, 2, n, D)
    assert np.abs(states - path[:, :, None]).max() < 1e-8
    assert torch.equal(net(prompt)[0].double(), torch.tensor(states[-1, 1, 0]))
    assert net.network.outputs == ("w[0]", "w[1]", "w[2]", *(["intercept"] if intercept else []), "sigma")
    assert net.certificate is None  # nothing is claimed


def objective(state: torch.Tensor, X: np.ndarray, y: np.ndarray, s: np.ndarray, penalty: float) -> torch.Tensor:
    """scikit-learn's, over the sum of the weights; penalty: the factor of |w|^2."""
    w, c, sigma = state[:3], state[3], state[4]
    z = (torch.tensor(X) @ w + c - torch.tensor(y)) / sigma
    h = torch.where(z.abs() <= EPSILON, z**2, 2 * EPSILON * z.abs() - EPSILON**2)
    return (torch.tensor(s) * (sigma + h * sigma)).sum() / float(s.sum()) + penalty * (w**2).sum()


def test_a_pass_is_a_step_down_the_objective() -> None:
    """The slopes are those that automatic differentiation finds."""
    (X, y), settings = data(3), given(True, weighted=True)
    rng = np.random.default_rng(1)
    for _ in range(5):
        start = np.append(rng.normal(size=4), rng.uniform(0.5, 3.0))
        at = settings | {"start": start}
        state = torch.tensor(start, requires_grad=True)
        objective(state, X, y, settings["sample_weight"], penalty=0.05).backward()  # type: ignore[no-untyped-call]
        assert state.grad is not None
        shrink = 2 * 0.05 * settings["step"][:3]
        path = plain_huber(X, y, epsilon=EPSILON, momentum=0.0, steps=1, shrink=shrink, **at)
        assert np.abs(path[1, 1] - (start - settings["step"] * state.grad.numpy())).max() < 1e-13


def test_contexts_in_one_batch() -> None:
    settings = given(True)
    runs = [data(seed) for seed in (0, 1)]
    paths = [plain_huber(X, y, epsilon=EPSILON, momentum=MOMENTUM, steps=STEPS, **settings) for X, y in runs]
    net = built()
    answers = net(torch.stack([huber_prompt(X, y, **settings) for X, y in runs]))
    assert np.abs(answers[:, 0].numpy() - np.stack([path[-1, 1] for path in paths])).max() < 1e-8


def test_float32() -> None:
    (X, y), settings = data(), given(True)
    path = plain_huber(X, y, epsilon=EPSILON, momentum=MOMENTUM, steps=STEPS, **settings)
    prompt = huber_prompt(X, y, dtype="float32", **settings)
    assert np.abs(built(dtype="float32", head_tol=1e-4)(prompt)[0].numpy() - path[-1, 1]).max() < 1e-3


@pytest.mark.slow
def test_arguments_that_leave_their_tables_are_errors() -> None:
    (X, y), settings = data(), given(True)
    path = plain_huber(X, y, epsilon=EPSILON, momentum=MOMENTUM, steps=STEPS, **settings)
    (lo, hi), reach = huber_ranges(path, X, y)
    prompt = huber_prompt(X, y, **settings)
    built(sigma_range=(lo, hi), reach=reach)(prompt)  # they are what is needed
    with pytest.raises(ww.DomainError, match=r"sigma of token 0 became .* a sigma_range that holds it"):
        built(sigma_range=(1.01 * lo, 1.01 * hi))(prompt)
    with pytest.raises(ww.DomainError, match=r"sigma of token 0 became 2, outside \[.*, 1.99\]"):
        built(sigma_range=(0.25, 1.99))(prompt)
    short = built(reach=0.99 * reach)
    with pytest.raises(ww.DomainError, match=r"the residual w.x \+ c - y of token .* larger reach"):
        short(prompt)
    for same in (copy.deepcopy(short), pickle.loads(pickle.dumps(short))):
        with pytest.raises(ww.DomainError, match="larger reach"):
            same(prompt)
        same.on_domain = "ignore"
        same(prompt)
    with pytest.raises(ww.DomainError, match="became nan"):
        built()(prompt * torch.nan)


def test_what_cannot_be_is_refused() -> None:
    (X, y), settings = data(), given(True)
    usual: dict[str, Any] = {"epsilon": EPSILON, "momentum": MOMENTUM, "steps": 1}
    for wrong in ((0.0, 1.0), (2.0, 1.0)):
        with pytest.raises(ValueError, match="sigma_range="):
            huber_network(3, 2, sigma_range=wrong, reach=1.0, **usual)
    with pytest.raises(ValueError, match="reach must be positive"):
        huber_network(3, 2, sigma_range=(1.0, 2.0), reach=0.0, **usual)
    with pytest.raises(ValueError, match="step times ridge"):
        huber_network(3, 2, sigma_range=(1.0, 2.0), reach=1.0, shrink=2.0, **usual)
    for name, value, message in (
        ("step", np.zeros(5), "step="),
        ("start", np.zeros(5), "sigma, positive"),
        ("sample_weight", -np.ones(30), "sample_weight="),
        ("samples", 29, "give at least 30"),
    ):
        with pytest.raises(ValueError, match=message):
            huber_prompt(X, y, **(settings | {name: value}))
    with pytest.raises(ValueError, match="finite numbers"):
        huber_prompt(X + np.where(np.arange(30) == 4, np.inf, 0.0)[:, None], y, **settings)
    with pytest.raises(ValueError, match="y has shape"):
        huber_prompt(X, y[:-1], **settings)
    with pytest.raises(ValueError, match=r"sigma became .* smaller step"):
        plain_huber(
            X,
            y,
            **(settings | {"start": np.append(np.zeros(4), 50.0), "step": np.full(5, 3.0)}),
            **(usual | {"steps": 100}),
        )
