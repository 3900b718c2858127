"""Looped rules that read something new, and calls from several threads at once."""

from __future__ import annotations

import threading

import torch
from torch import Tensor

import weightwright as ww


def test_a_rule_that_reads_something_new_is_compiled_anew() -> None:
    rate = {"now": 0.5}

    @ww.incontext.algorithm(steps=3)
    def towards(x: Tensor, m: Tensor) -> Tensor:
        return m - rate["now"] * (m - x.mean(dim=0))

    boxes = {"examples_box": ww.Box([-1.0], [1.0]), "state_box": ww.Box([-2.0], [2.0])}
    first = towards.run([[0.5], [0.25]], [1.0], **boxes)
    assert towards.run([[0.5], [0.25]], [1.0], **boxes).net.network is first.net.network
    rate["now"] = 0.125
    second = towards.run([[0.5], [0.25]], [1.0], **boxes)
    assert second.net.network is not first.net.network
    assert second.errors.max() <= second.bound


def test_a_state_that_leaves_its_box_is_seen_in_every_thread() -> None:
    """One call waits before its second pass until another has ended."""

    @ww.incontext.algorithm(steps=2)
    def flip(x: Tensor, m: Tensor) -> Tensor:
        return 0.4 * x[0] - m

    net = flip.compile(([-1.0], [1.0]), ([-1.0], [1.0]), 1, 1e-6)
    outside, inside = (torch.tensor([[0.5, m]], dtype=torch.float64) for m in (-0.9, 0.01))
    waiting, go, found = threading.Event(), threading.Event(), {}

    def wait(*_: object) -> None:
        if threading.current_thread().name == "outside" and not waiting.is_set():
            waiting.set()
            go.wait(10)

    net.layers[0].layers[-2].register_forward_pre_hook(wait)

    def call(x: Tensor) -> None:
        try:
            found["answer"] = net(x)
        except ww.DomainError as error:
            found["error"] = str(error)

    thread = threading.Thread(target=call, args=(outside,), name="outside")
    thread.start()
    waiting.wait(10)

    def let_it_go_on(*_: object) -> None:
        if threading.current_thread() is not thread:
            go.set()
            thread.join(10)

    net.layers[0].layers[-1].register_forward_pre_hook(let_it_go_on)
    net(inside)
    assert "state[0] = 1.1, outside [-1, 1]" in found.get("error", "nothing was said")
