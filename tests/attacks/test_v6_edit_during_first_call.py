"""A weight that is edited and restored while a call makes its plan: later calls compute what the weights are."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch

import weightwright as ww

X = torch.linspace(-1, 1, 301, dtype=torch.float64)[:, None]


def calls_of(action: Callable[[], Any]) -> int:
    """How many calls of functions of this package an action makes."""
    return run_between(action, 0, 0, lambda _: None)


def run_between(action: Callable[[], Any], first: int, last: int, write: Callable[[float], Any]) -> int:
    """Run it; at one call inside write 1.5, at a later one 1: what another thread may do there."""
    calls = 0

    def profile(frame: Any, event: str, _: Any) -> None:
        nonlocal calls
        if event == "call" and "weightwright" in frame.f_code.co_filename:
            calls += 1
            if calls in (first, last):
                sys.setprofile(None)
                write(1.5 if calls == first else 1.0)
                sys.setprofile(profile)

    sys.setprofile(profile)
    try:
        action()
    finally:
        sys.setprofile(None)
    return calls


def attack(
    net: ww.AttentionNetwork, x: torch.Tensor, wanted: torch.Tensor, weight: torch.Tensor, places: int
) -> list[str]:
    """Everything that was seen: calls after which the status is PROVEN and the output is not."""
    kept, wrong = weight.clone(), []
    weight.mul_(1.5)
    count = calls_of(lambda: net(x))
    for first in range(1, count, max(1, count // places)):
        for length in (count // 40, count // 10, count // 2):
            weight.copy_(kept).mul_(0.5)
            net(x)  # a plan of other weights, so that the next call makes a new one
            weight.copy_(kept)
            run_between(lambda: net(x), first, first + length, lambda factor: weight.copy_(factor * kept))
            weight.copy_(kept)
            off = float((net(x) - wanted).abs().max())
            if net.certificate.status == "PROVEN" and not off <= net.certificate.bound:
                wrong.append(f"edited at call {first} of {count}, for {length}: error {off:.3g}")
    return wrong


#: How many places of a call are attacked.
PLACES = pytest.mark.parametrize("places", [8, pytest.param(40, marks=pytest.mark.slow)])


@PLACES
def test_one_head(places: int, sine: ww.AttentionNetwork) -> None:
    net = copy.deepcopy(sine)
    assert attack(net, X, torch.sin(5 * X), net.layers[0].heads[0].W_O, places) == []


@PLACES
def test_several_layers(places: int) -> None:
    net = ww.compile(lambda x: torch.tanh(torch.sin(x) + x), (-1, 1), 1e-6, features=1, ablatable=True, progress=False)
    x = X[:, None]
    wanted = torch.tanh(torch.sin(x) + x)
    for weight in (net.layers[0].heads[0].W_Q, net.registers, net.read.C):
        assert attack(net, x, wanted, weight, places) == []
