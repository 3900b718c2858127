"""torch.vmap and torch.func.grad over weights: the module is afterwards what it was."""

from __future__ import annotations

import copy

import pytest
import torch
from support.prompts import made

import weightwright as ww


def mlp() -> ww.AttentionNetwork:
    torch.manual_seed(1)
    module = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1)).double()
    return ww.compile(module, (-1, 1), 1e-6, progress=False)


NETS = {
    "a formula": lambda: ww.approximate("sin(5*x)", (-1, 1), 1e-6, progress=False),
    "a module": mlp,
    "attention": lambda: ww.compile(
        lambda x: torch.softmax(x @ x.mT, -1) @ x, (-1, 1), 1e-6, tokens=3, features=2, progress=False
    ),
}


def call_with(net: ww.AttentionNetwork, weights: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    return torch.func.functional_call(net, weights, (x,))


@pytest.mark.parametrize("first", ["called before", "called inside first"])
@pytest.mark.parametrize("name", NETS)
def test_after_vmap_over_weights_it_is_as_before(name: str, first: str) -> None:
    net = NETS[name]()
    x = torch.full((2, net.network.tokens or 1, len(net.network.inputs)), 0.01, dtype=torch.float64)
    before = copy.deepcopy(net)(x)
    if first == "called before":
        net(x)
    weights = net.state_dict()
    stacked = {key: torch.stack([value, value]) for key, value in weights.items()}
    together = torch.vmap(lambda one: call_with(net, one, x))(stacked)
    assert torch.allclose(together, before.expand_as(together), rtol=0, atol=2 * net.certificate.bound)
    assert net.certificate.status == "PROVEN"
    assert torch.equal(net(x), before)
    torch.func.grad(lambda one: call_with(net, one, x).sum())(
        {key: value for key, value in weights.items() if value.is_floating_point()}
    )
    assert net.certificate.status == "PROVEN"
    assert torch.equal(net(x), before)


def test_after_a_transform_that_fails_it_is_as_before() -> None:
    """What watches states decides by their values, which torch.vmap refuses."""
    net = copy.deepcopy(made("descent", "float64"))
    x = torch.full((2, net.network.tokens, len(net.network.inputs)), 0.01, dtype=torch.float64)
    before = copy.deepcopy(net)(x)
    stacked = {key: torch.stack([value, value]) for key, value in net.state_dict().items()}
    with pytest.raises(RuntimeError, match="vmap"):
        torch.vmap(lambda one: call_with(net, one, x))(stacked)
    assert net.certificate.status == "PROVEN"
    assert torch.equal(net(x), before)


def test_inside_a_transform_the_status_says_that_nothing_is_known(sine: ww.AttentionNetwork) -> None:
    net, said = copy.deepcopy(sine), []
    x = torch.zeros(1, 1, dtype=torch.float64)

    def call(weights: dict[str, torch.Tensor]) -> torch.Tensor:
        with torch.nn.utils.stateless._reparametrize_module(net, weights):
            said.append(net.certificate)
            return net(x)

    torch.vmap(call)({key: torch.stack([value, value]) for key, value in net.state_dict().items()})
    (inside,) = said
    assert inside.status == "EDITED"
    assert "torch.vmap" in inside.why
    assert net.certificate.status == "PROVEN"
