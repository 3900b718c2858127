"""`ww.diagnose` on networks of the constructions: each signature where it was brought about."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import weightwright as ww
from weightwright.network.interpreter import attention_weights
from weightwright.papers.theorems.registry import find


def net_of(beta: float | None) -> ww.AttentionNetwork:
    return ww.constructions.truncated_linear(np.ones((3, 1)), np.zeros(3), -1.0, 1.0, (-2, 2), p=24, beta=beta)


def inputs(seed: int, count: int = 100) -> torch.Tensor:
    return torch.tensor(np.random.default_rng(seed).uniform(-2, 2, (count, 3, 1)))


def test_every_signature_is_found_where_it_was_brought_about() -> None:
    for check in find("SU-4").instance().checks:
        assert check.reason is None
        assert check.status == "MEASURED"


def test_the_numbers_are_those_of_the_weights() -> None:
    net, X = net_of(40.0), inputs(2)
    found = ww.diagnose(net, X)
    weights = attention_weights(net.network, X.numpy())
    entropy = -(weights * np.log(weights)).sum(axis=-1).mean() / np.log(24)
    (head,) = found.heads
    assert head.entropy == pytest.approx(entropy, rel=1e-9)
    assert head.largest == pytest.approx(weights.max(axis=-1).mean())
    assert head.undecided == (weights.max(axis=-1) < 0.9).mean()
    assert ww.diagnose(torch.tensor(weights)).heads[0].entropy > 0
    assert found.proven
    assert "its certificate is PROVEN" in repr(found)


def test_errors_at_the_ends_are_told_from_those_inside() -> None:
    net, X = net_of(None), inputs(3, 400)
    spoilt = net.about.reference(X.numpy()) + 0.5 * (np.abs(X.numpy()) > 1.95)
    found = ww.diagnose(net, X, reference=torch.tensor(spoilt))
    assert found.end_artefacts
    assert not ww.diagnose(net, X).end_artefacts
    assert "artefacts at the ends" in repr(found)
