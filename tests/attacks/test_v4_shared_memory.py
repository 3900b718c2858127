"""Weights that somebody else can write to: another process, or whoever copied the dictionary of a module's buffers."""

from __future__ import annotations

import copy
import multiprocessing
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any

import pytest
import torch
import torch.multiprocessing as _  # noqa: F401  (from now on tensors are pickled by sharing their memory)

import weightwright as ww

X = torch.linspace(-1, 1, 301, dtype=torch.float64)[:, None]


def edit(weights: dict[str, Any], change: Any, done: Any) -> None:
    """What another process does: halve the weight when it is told, and undo it."""
    for factor in (1.5, 1 / 1.5):
        change.acquire()
        weights["W_O"] *= factor
        done.release()


def holds(net: ww.AttentionNetwork) -> bool:
    """Whether it does what its status says."""
    said = net.certificate
    error = float((net(X).detach() - torch.sin(5 * X)).abs().max())
    return error <= said.bound and (said.status == "PROVEN") == (said.bound < 1)


def test_another_process_edits_a_weight_and_undoes_it(sine: ww.AttentionNetwork) -> None:
    net = copy.deepcopy(sine).share_memory()
    context = multiprocessing.get_context("fork")
    change, done = context.Semaphore(0), context.Semaphore(0)
    weights = {"W_O": dict.get(net.layers[0].heads[0]._buffers, "W_O")}  # as the other process finds it
    other = context.Process(target=edit, args=(weights, change, done))
    other.start()
    try:
        for _ in range(2):
            change.release()
            done.acquire()
            net(X)  # nobody asks for the status in between, which looks at the weights
        assert holds(net)
        assert net.certificate.status == "PROVEN"
    finally:
        other.kill()
        other.join()


def spread(held: Any) -> dict[str, Any]:
    return {**held}


def unite(held: Any) -> dict[str, Any]:
    return held | {}


def unite_from_the_right(held: Any) -> dict[str, Any]:
    return {} | held


def build(held: Any) -> dict[str, Any]:
    return dict(held)


def update(held: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    found.update(held)
    return found


def go_past(held: Any) -> dict[str, Any]:
    return dict(dict.items(held))


WAYS: list[Callable[[Any], dict[str, Any]]] = [spread, unite, unite_from_the_right, build, update, copy.copy, go_past]


@pytest.mark.parametrize("way", WAYS)
def test_however_the_dictionary_of_buffers_is_copied(
    way: Callable[[Any], dict[str, Any]], sine: ww.AttentionNetwork
) -> None:
    net = copy.deepcopy(sine)
    W = dict.get(way(net.layers[0].heads[0]._buffers), "W_O")
    kept = W.clone()
    W.mul_(1.5)
    net(X)
    W.copy_(kept)
    assert holds(net)
    assert net.certificate.status == "PROVEN"


def test_a_part_that_is_sent_to_another_process_shares_its_memory(sine: ww.AttentionNetwork) -> None:
    net = copy.deepcopy(sine)
    head = net.layers[0].heads[0]
    weight = dict.get(head._buffers, "W_O")
    ForkingPickler.dumps(head._buffers)
    assert weight.is_shared()
    weight.mul_(1.5)
    net(X)
    weight.div_(1.5)
    assert holds(net)
