"""Hooks: a part's output per token, looked at and replaced, by torch's own hooks and in one call."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from support.zoo import ZOO
from torch import nn

import weightwright as ww


@pytest.fixture(scope="module")
def net() -> ww.AttentionNetwork:
    """Two layers of ReLUs: heads that are computed at once as long as nobody looks at them."""
    torch.manual_seed(5)
    module = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)).double()
    return ww.compile(module, (-1, 1), 1e-5, features=2)


def draw(*shape: int) -> torch.Tensor:
    return torch.tensor(np.random.default_rng(1).uniform(-1, 1, shape))


@pytest.mark.parametrize("name", ZOO)
def test_the_stream_is_the_sum_of_what_is_kept(name: str) -> None:
    net = ww.AttentionNetwork(ZOO[name]())
    x = draw(3, net.network.tokens or 6, len(net.network.inputs))
    y, parts = net.run_with_cache(x)
    assert (y - net(x)).abs().max() <= 1e-12
    assert torch.equal(parts["read"], y)
    before = parts["embed"]
    for number, layer in enumerate(net.layers):
        after = parts[f"L{number}"]
        if type(layer).__name__ == "AttentionLayer":
            added = sum(parts[f"L{number}H{i}"] for i in range(len(layer.heads)))
            assert (after - added - (before if layer.residual else 0)).abs().max() <= 1e-12
        before = after
    assert not any(module._forward_hooks for module in net.modules())


def test_a_head_is_seen_per_token_and_replaced(net: ww.AttentionNetwork) -> None:
    x, seen = draw(5, 3, 2), []
    plain = net(x)
    head = net.layers[1].heads[2]
    looking = head.register_forward_hook(lambda module, inputs, output: seen.append(output))
    assert (net(x) - plain).abs().max() <= 1e-14
    assert seen[0].shape == (5, 3, len(net.network.embed.coordinates))
    assert net.certificate.status == "EDITED"
    looking.remove()
    zero = head.register_forward_hook(lambda module, inputs, output: torch.zeros_like(output))
    ablated = net(x)
    zero.remove()
    assert net.certificate.status == "PROVEN"
    assert torch.equal(net.run_with_hooks(x, {"L1H2": 0.0}), ablated)
    assert torch.equal(net.run_with_hooks(x, {"L1H2": torch.zeros_like}), ablated)
    read = net.network.read.terms[0].A
    assert (
        plain - ablated - seen[0] @ torch.tensor(read)
    ).abs().max() <= 1e-14  # the last layer's heads add to outputs


def test_one_run_patched_into_another(net: ww.AttentionNetwork) -> None:
    clean, other = draw(2, 4, 2).unbind()
    y, parts = net.run_with_cache(clean)
    for point in ("embed", "L0", "L1", "read"):
        assert (net.run_with_hooks(other, {point: parts[point]}) - y).abs().max() <= 1e-14
    heads = {name: part for name, part in parts.items() if name.startswith("L0H")}
    patched = net.run_with_hooks(other, heads | {"embed": parts["embed"]})
    assert (patched - y).abs().max() <= 1e-14
    assert (net.run_with_hooks(other, {"L0H0": parts["L0H0"]}) - y).abs().max() > 1e-3


def test_every_pass_of_a_loop() -> None:
    net = ww.AttentionNetwork(ZOO["looped"]())
    x = draw(6, 2)
    y, parts = net.run_with_cache(x)
    times = net.layers[0].times
    inner = "L0/L0"
    assert "L0/L0H0" in parts
    assert parts[inner].shape[0] == times > 1
    calls: list[int] = []
    same = net.run_with_hooks(x, {inner: lambda output: calls.append(1) or output})
    assert torch.equal(same, y)
    assert len(calls) == times


def test_backward_hooks_see_every_head(net: ww.AttentionNetwork) -> None:
    seen = []
    hook = net.layers[0].heads[1].register_full_backward_hook(lambda module, inputs, outputs: seen.append(outputs))
    net(draw(3, 2).requires_grad_()).sum().backward()
    hook.remove()
    assert seen[0][0].shape == (3, len(net.network.embed.coordinates))


def test_what_cannot_be_put_there_is_named(net: ww.AttentionNetwork) -> None:
    with pytest.raises(ValueError, match=r"there is no part 'L1H9'; write 'L1H\d' or"):
        net.run_with_hooks(draw(1, 2), {"L1H9": 0.0})
    with pytest.raises(ValueError, match=r"'L0' returns \(1, \d+\), which \(7, 3\) does not fit"):
        net.run_with_hooks(draw(1, 2), {"L0": draw(7, 3)})
    with pytest.raises(ValueError, match=r"the function for 'L0H0' returns None"):
        net.run_with_hooks(draw(1, 2), {"L0H0": lambda output: None})  # type: ignore[arg-type,return-value]
    assert not any(module._forward_hooks for module in net.modules())
