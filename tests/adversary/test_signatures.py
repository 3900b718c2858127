"""`ww.diagnose`: each signature where it was brought about, on networks, modules and weights."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import weightwright as ww
from weightwright.network.interpreter import attention_weights
from weightwright.papers.theorems.registry import find
from weightwright.runtime import AttentionNetwork


def net_of(beta: float | None) -> AttentionNetwork:
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


def test_a_module_of_torch() -> None:
    """Zero projections look everywhere; large ones on orthogonal tokens look at themselves."""
    module = nn.MultiheadAttention(8, 2, batch_first=True, dropout=0.5).double()
    X = torch.eye(8, dtype=torch.float64)
    with torch.no_grad():
        module.in_proj_weight.zero_()
    assert ww.diagnose(module, X).uniform_attention
    with torch.no_grad():
        module.in_proj_weight[:8] = 100 * torch.eye(8)
        module.in_proj_weight[8:16] = torch.eye(8)
    found = ww.diagnose(module, 100 * X, reference=torch.zeros(8, 8))
    assert [(head.verdict, head.undecided) for head in found.heads] == [("drifts", 0.5)] * 2  # four of eight pick
    assert found.error_at_ends is not None
    assert module.training
    seconds = nn.MultiheadAttention(8, 2).double()
    seconds.load_state_dict(module.state_dict())
    assert ww.diagnose(seconds, X).heads == ww.diagnose(module, X).heads  # tokens first or batch first


def test_weights_alone() -> None:
    spread, picked = torch.full((2, 5, 7), 1 / 7), torch.eye(7)[None].expand(2, 7, 7)
    assert ww.diagnose(spread).uniform_attention
    assert ww.diagnose(picked).healthy
    halves = 0.5 * picked + 0.5 * picked.roll(1, dims=-1)
    found = ww.diagnose(halves)
    assert (found.uniform_attention, found.drift, found.end_artefacts) == (False, True, None)
    assert ww.diagnose(torch.eye(4)).heads[0].name == "head 0"
    assert len(ww.diagnose(torch.full((100, 3, 3), 1 / 3), most_heads=10).heads) == 10
    assert "no errors: give reference" in repr(found)


def test_errors_at_the_ends_are_told_from_those_inside() -> None:
    net, X = net_of(None), inputs(3, 400)
    spoilt = net.about.reference(X.numpy()) + 0.5 * (np.abs(X.numpy()) > 1.95)
    found = ww.diagnose(net, X, reference=torch.tensor(spoilt))
    assert found.end_artefacts
    assert not ww.diagnose(net, X).end_artefacts
    assert "artefacts at the ends" in repr(found)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((nn.Linear(2, 2), torch.zeros(2, 2)), "nn.MultiheadAttention or a tensor of attention weights, not Linear"),
        ((nn.MultiheadAttention(4, 2), torch.zeros(3, 5)), "X has 5 features, but the module takes embed_dim=4"),
        ((nn.MultiheadAttention(4, 2), None), "X must be a tensor .*not NoneType"),
        ((nn.MultiheadAttention(4, 2), torch.full((2, 4), torch.nan)), "X must be finite"),
        ((torch.zeros(3, 3),), "add up to 1 for every query, but sums go from 0 to 0"),
        ((torch.zeros(3),), r"must be floats .*not \(3,\)"),
    ],
)
def test_what_cannot_be_diagnosed_is_named(arguments: tuple[object, ...], said: str) -> None:
    with pytest.raises((TypeError, ValueError), match=said):
        ww.diagnose(*arguments)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="most_heads must be a whole number of at least 1, not 0"):
        ww.diagnose(torch.eye(2), most_heads=0)
    with pytest.raises(ValueError, match="reference needs outputs"):
        ww.diagnose(torch.eye(2), reference=torch.eye(2))
