"""Modules that run an algorithm on a prompt: copies watch themselves, gradients go through blocks, exports agree."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from support.prompts import made

import weightwright as ww


def leaving() -> tuple[ww.AttentionNetwork, torch.Tensor]:
    """A network and a prompt in its domain whose states leave it."""
    net = made("descent", "float64")
    assert net.certificate is not None
    return net, torch.tensor(np.array(net.certificate.domain.hi)).expand(3, -1).clone()


def test_a_copy_watches_its_own_domain() -> None:
    """It looked at the original's `on_domain` instead."""
    net, prompt = leaving()
    original = copy.deepcopy(net)
    copied, pickled = copy.deepcopy(original), pickle.loads(pickle.dumps(original))
    original.on_domain = "ignore"
    original(prompt)
    for other in (copied, pickled):
        with pytest.raises(ww.DomainError, match="the state"):
            other(prompt)


def test_gradients_pass_through_blocks() -> None:
    """Adding to all of a block in place was refused by torch."""
    net, _ = leaving()
    prompt = 0.1 * torch.tensor(np.random.default_rng(5).uniform(-1, 1, (2, 3, 5)))
    inputs = prompt.clone().requires_grad_()
    out = net(inputs)
    (gradient,) = torch.autograd.grad(out.sum(), inputs)
    assert torch.equal(out, net(prompt))
    moved = prompt.clone()
    moved[0, 1, 2] += 1e-4  # y of the second sample
    assert float(gradient[0, 1, 2]) == pytest.approx(float((net(moved) - net(prompt)).sum()) / 1e-4, rel=1e-3)
    assert gradient[0, 1, 2] != 0


@pytest.mark.parametrize("kind", ["descent", "clock"])
def test_loops_on_a_prompt_can_be_exported(kind: str, tmp_path: Path) -> None:
    """The prompts that an export was compared on made the states leave the domain."""
    net = made(kind, "float64")
    assert net.to_torch(tmp_path / "net.py") <= 1e-14
    assert net.to_onnx(tmp_path / "net.onnx") <= 1e-14
