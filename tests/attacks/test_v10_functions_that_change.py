"""A function that is another one after some calls: seen at the end of compile, and later by `net.confirm`."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable

import numpy as np
import pytest
import torch

import weightwright as ww
from weightwright.errors import NotRepeatable


class Changing:
    """x, and 2 x once it was called more often than `after`."""

    def __init__(self) -> None:
        self.after, self.calls = math.inf, 0

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return x * (2.0 if self.calls > self.after else 1.0)

    def change(self, message: str = "checking") -> None:
        """As the progress of a compile: from the moment on at which the network is checked it is another function."""
        if message.startswith("checking"):
            self.after = self.calls


def build_scalar(f: Changing) -> ww.AttentionNetwork:
    return ww.compile(lambda x: f(x), (-1, 1), 1e-6, features=1, progress=f.change)


def build_tokens(f: Changing) -> ww.AttentionNetwork:
    return ww.compile(lambda x: f(x) + x.mean(-2, keepdim=True), (-1, 1), 1e-6, features=2, tokens=3, progress=f.change)


def build_window(f: Changing) -> ww.AttentionNetwork:
    return ww.compile(lambda x: f(x), (-1, 1), 1e-3, features=1, kernel="anchor", progress=f.change)


def build_one_head(f: Changing) -> ww.AttentionNetwork:
    return ww.approximate(lambda x: f(x), (-1, 1), 1e-6, progress=f.change)


def build_vector(f: Changing) -> ww.AttentionNetwork:
    return ww.approximate(lambda x, y: f(x) * y, ww.Box([-1, -1], [1, 1]), 0.1, progress=f.change)


def build_sampled(f: Changing) -> ww.AttentionNetwork:
    function = lambda x: np.sin(f(x))  # noqa: E731
    return ww.approximate(function, (-1, 1), 0.1, derivative_bound=(2, 1.0), progress=f.change)


@pytest.mark.parametrize(
    "build", [build_scalar, build_tokens, build_window, build_one_head, build_vector, build_sampled]
)
def test_a_change_during_the_proof_is_seen(build: Callable[[Changing], ww.AttentionNetwork]) -> None:
    with pytest.raises(NotRepeatable, match="has changed while it was compiled"):
        build(Changing())


def test_later_confirm_sees_it() -> None:
    f = Changing()
    net = ww.compile(f, (-1, 1), 1e-6, features=1, progress=False)
    assert net.confirm(f) <= net.certificate.bound + 2.0**-40
    f.change()
    with pytest.raises(NotRepeatable, match=r"the function is -2 at \(-1\), the network -1, and the bound is 0\. "):
        net.confirm(f)


MODULE = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.GELU(), torch.nn.Linear(4, 2)).double()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_weight_that_changes_is_seen_where_it_moves_outputs_beyond_the_bound(dtype: torch.dtype) -> None:
    net = ww.compile(MODULE, (-1, 1), 1e-3, dtype=dtype, progress=False)
    assert 0 < net.confirm(MODULE) <= net.certificate.bound
    with torch.no_grad():
        MODULE[0].weight[0, 0] += 1.0
    try:
        with pytest.raises(NotRepeatable, match=r"output . of the function is"):
            net.confirm(MODULE, seed=3)
    finally:
        with torch.no_grad():
            MODULE[0].weight[0, 0] -= 1.0


def test_functions_of_every_kind_are_their_own() -> None:
    def apart(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.sin(x) * y

    def attend(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x @ x.mT, -1) @ x

    cases: list[tuple[ww.AttentionNetwork, Callable[..., torch.Tensor], Callable[..., torch.Tensor]]] = [
        (ww.approximate(apart, ww.Box([-1, -1], [1, 1]), 0.1, progress=False), apart, lambda x, y: x + y),
        (ww.compile(attend, (-1, 1), 1e-6, tokens=3, features=2, progress=False), attend, lambda x: x),
        (ww.approximate("sin(x)/x", (-1, 1), 1e-6, progress=False), lambda x: torch.sin(x) / x, torch.cos),
        (ww.compile(torch.sign, (-1, 1), 1e-3, features=1, dead_zone=0.1, progress=False), torch.sign, torch.tanh),
        (ww.approximate("step(x)", (-1, 1), 1e-3, dead_zone=0.1, progress=False), lambda x: (x > 0) * 1.0, torch.relu),
    ]
    for net, own, other in cases:
        assert net.confirm(own) <= net.certificate.bound + 2.0**-40
        with pytest.raises(NotRepeatable, match="is not what the network computes"):
            net.confirm(other)


def test_what_fails_or_says_nothing_confirms_nothing() -> None:
    net = ww.approximate("sin(x)", (-1, 1), 1e-6, progress=False)
    for function in (lambda x: x[5000], lambda x: x * np.nan, lambda x: x[:1]):
        with pytest.raises(NotRepeatable):
            net.confirm(function)
    with pytest.raises(TypeError, match=r"not 'sin\(x\)'"):
        net.confirm("sin(x)")
    net.layers[0].heads[0].W_O.mul_(1.5)
    with pytest.raises(ww.WeightwrightError, match="status EDITED"):
        net.confirm(torch.sin)


def test_the_callers_random_numbers_stay() -> None:
    net = ww.approximate("sin(x)", (-1, 1), 1e-6, progress=False)
    torch.manual_seed(5)
    wanted = torch.rand(3)
    torch.manual_seed(5)
    net.confirm(lambda x: torch.sin(x) + 0 * torch.rand(1))
    assert torch.equal(torch.rand(3), wanted)
    assert list(inspect.signature(net.confirm).parameters) == ["function", "inputs", "seed"]
