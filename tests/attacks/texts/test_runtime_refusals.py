"""What a network that cannot run, or cannot be watched, raises: an error of ours that says what to do."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn.utils import parametrize

import weightwright as ww


class Half(torch.nn.Module):
    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return weight / 2


def test_a_parametrized_weight_is_refused_with_what_to_do() -> None:
    net = ww.approximate("tanh(x)", (-1, 1), 1e-3, progress=False)
    head, x = net.layers[0].heads[0], torch.zeros(1, 1, dtype=torch.float64)
    parametrize.register_parametrization(head, "W_O", Half(), unsafe=True)
    with pytest.raises(
        ww.WeightwrightError, match=r"put W_O of this .* back, .*remove_parametrizations\(module, 'W_O'\)"
    ):
        net(x)
    assert net.certificate.status == "EDITED"


@pytest.mark.parametrize(
    "wrap",
    [
        lambda net: torch.compile(net, backend="eager"),
        lambda net: torch.compile(net, backend="eager", fullgraph=True),
        lambda net: torch.compile(net, backend="aot_eager"),
        torch.vmap,
    ],
    ids=["eager", "in one graph", "aot", "mapped"],
)
def test_dead_zones_of_arguments_are_refused_under_torch_compile(wrap: Callable[..., Callable[..., object]]) -> None:
    torch._dynamo.reset()
    net = ww.compile(torch.sign, (-1, 1), 1e-3, features=1, dead_zone=0.1, progress=False)
    x = torch.tensor([[[0.5]], [[0.7]]], dtype=torch.float64)
    with pytest.raises(
        ww.DomainError, match=r"\(-0\.1 to 0\.1\), and the numbers cannot be compared .* on_domain='ignore'"
    ):
        wrap(net)(x)
    assert net(x).shape == (2, 1, 1)


@pytest.mark.parametrize("name", ["weight", "matrix"])
def test_weights_for_the_modules_own_use_change_the_status(name: str) -> None:
    """docs/trust.md, "What no guard can see": a call may not notice, the status does."""
    net = ww.approximate("tanh(x)", (-1, 1), 1e-3, progress=False)
    net(torch.zeros(1, 1, dtype=torch.float64))
    getattr(net.layers[0].heads[0], name)("W_O").mul_(2)
    assert net.certificate.status == "EDITED"
