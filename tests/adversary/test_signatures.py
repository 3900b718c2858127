"""`ww.diagnose`: each signature where it was brought about, on networks, modules and weights."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import weightwright as ww


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
