"""The plan by which a network runs computes what the network is: against numpy, at all batches, layouts and threads."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from support.built import built, copied, layers
from support.networks import attending, by_hand, linear
from support.running import reference_outputs
from support.zoo import ZOO
from torch import nn

import weightwright as ww
from weightwright.runtime.running_plan import ModuleLayer, Plan
from weightwright.runtime.table_layer import TableLayer

MANY = 10**5


#: Networks of tables: several heads with one table, several tables, windows, layers on layers, tokens.
NETS = (
    "sine, 1e-6", "exponential, float32", "tanh, bfloat16", "window, float32", "half a square", "two kinks",
    "tanh layers", "tanh layers, float32", "relu layers", "tables of all kinds", "mean in a softmax",
)  # fmt: skip


def inputs(net: ww.AttentionNetwork, batch: int, seed: int = 0) -> torch.Tensor:
    """Of the domain, its ends among them."""
    box, n = net.said.domain, net.was.tokens or 1
    rng = np.random.default_rng(seed)
    x = box.lo + (box.hi - box.lo) * rng.uniform(size=(batch, n, len(net.was.inputs)))
    x[0] = box.lo
    x[-1] = box.hi
    return torch.tensor(x).to(net.dtype).clamp(torch.tensor(box.lo).to(net.dtype), torch.tensor(box.hi).to(net.dtype))


def allowed(net: ww.AttentionNetwork) -> float:
    """What rounding may do by the certificate, twice: numpy rounds as well."""
    return 2 * net.said.terms.rounding


@pytest.mark.few(6)
@pytest.mark.parametrize("name", NETS)
def test_plans_compute_what_numpy_does(name: str) -> None:
    net = built(name)
    for batch in (1, 7):
        x = inputs(net, batch)
        y = net(x)
        exact = reference_outputs(net, x)
        assert np.abs(y.double().numpy() - exact).max() <= allowed(net)
        wide = torch.cat([x, x], -1)[..., : x.shape[-1]]  # every second number of memory
        turned = x.mT.contiguous().mT
        for other in (wide, turned, torch.stack([x, x])[1]):
            assert np.abs(net(other).double().numpy() - exact).max() <= allowed(net)
    assert net(x[:0]).shape == y[:0].shape


@pytest.mark.parametrize("name", NETS)
def test_large_batches_run_in_parts_on_any_number_of_threads(name: str) -> None:
    net, before = built(name), torch.get_num_threads()
    x = inputs(net, MANY if net.was.tokens is None else MANY // 50)
    some = torch.randperm(len(x), generator=torch.Generator().manual_seed(1))[:500]
    exact = reference_outputs(net, x[some])
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            for given in (x, x.mT.contiguous().mT):
                y = net(given)
                assert np.abs(y[some].double().numpy() - exact).max() <= allowed(net)
    finally:
        torch.set_num_threads(before)


def test_tables_are_shared_and_what_nobody_reads_does_not_exist() -> None:
    net = built("tanh layers, float32")
    plan = Plan(net)
    embed, layer = plan.steps
    assert isinstance(layer, TableLayer)
    assert len(embed.before.row) == 5  # of 11 coordinates those that the heads ask by; constants are numbers
    (group,) = layer.groups  # five heads, one table
    assert net.cost.heads == 5
    assert group.numbers == 5
    assert layer.before.terms == ()  # the outputs were constants before
    ((piece, map),) = plan.read.terms
    assert (piece, map.W, map.picked, map.scales) == (2, None, None, None)  # what is read is the piece itself


@pytest.mark.parametrize("name", ZOO)
def test_every_kind_of_layer_has_a_plan(name: str) -> None:
    """Layers that are no tables are called as modules, on the whole stream."""
    network = ZOO[name]()
    net = ww.AttentionNetwork(network)
    x = torch.tensor(np.random.default_rng(5).normal(size=(4, network.tokens or 3, len(network.inputs))))
    y = net(x.to(net.dtype))
    assert np.abs(y.double().numpy() - reference_outputs(network, x.to(net.dtype))).max() <= 1e-9
    assert all(isinstance(step, TableLayer | ModuleLayer) for step in net._plan.steps)


def doubled() -> Any:
    """Two coordinates hold the same input, and a head reads both; what it writes was not 0 before."""
    names = ("a", "b", "one", "out")
    embed = linear(names, [[1.0, 1.0, 0.0, 0.0]], [[0.0, 0.0, 1.0, 0.5]])
    registers = np.array([[1.0, 0.0, 2.0, 0.0], [-1.0, 0.25, 3.0, 0.0]])
    W_Q, W_K = np.array([[0.1, 0], [0.7, 0], [0, 1], [0, 0]]), np.array([[1.0, 0], [0, 1], [0, 0], [0, 0]])
    W_V, W_O = np.array([[0.0], [0], [1], [0]]), np.array([[0.0, 0, 0, 1]])
    layer = attending(names, W_Q, W_K, W_V, W_O, 3.0, (0, 2), "none")
    read = linear(("y",), [[1.0], [0], [0], [2.0]], [[0.25]])
    return by_hand(("x",), embed, (layer,), read, registers=registers)


def test_an_input_twice_in_the_stream_a_beta_that_is_no_power_of_two_and_constants() -> None:
    network = doubled()
    net, X = ww.AttentionNetwork(network), np.linspace(-2, 2, 41).reshape(-1, 1, 1)
    y = net(torch.tensor(X))
    assert np.abs(y.numpy() - reference_outputs(network, X)).max() <= 1e-14
    assert len(net._plan.steps[0].groups[0].queries.terms) == 2  # weights are not added up: that would round
    plain = ww.AttentionNetwork(network)
    plain.register_forward_hook(lambda *_: None)  # part by part
    assert (plain(torch.tensor(X)) - y).abs().max() <= 1e-14


def test_edits_are_seen_whoever_holds_the_weights() -> None:
    net = copied("sine, 1e-6")
    x = inputs(net, 7)
    y, plan = net(x), net._plan
    assert net(x) is not y
    assert net._plan is plan  # nothing changed: kept
    held = net.registers
    net(x)
    compared = net._plan
    assert compared is not plan  # somebody may write from now on: with copies to compare with
    net(x)
    assert net._plan is compared
    held.numpy()[0, :] += 0.125  # torch does not count this
    z = net(x)
    assert (z - y).abs().max() > 1e-3
    assert np.abs(z.numpy() - reference_outputs(net, x)).max() <= 1e-9
    net.layers[0].heads[0].beta = 1.5
    w = net(x)
    assert not torch.equal(w, z)
    assert np.abs(w.numpy() - reference_outputs(net, x)).max() <= 1e-9
    net.layers[0].heads[0].forward = lambda X: torch.zeros_like(X)
    assert not net(x).equal(w)


def test_heads_of_another_network_read_the_registers_of_their_own() -> None:
    one = copied("sine, 1e-6")
    other = copy.deepcopy(one)
    other.registers.mul_(0.5)
    x = inputs(one, 7)
    y = one(x)
    other.layers[0] = one.layers[0]
    assert not torch.equal(other(x), y)  # the head reads the other's registers now
    assert torch.equal(one(x), y)


def test_nothing_that_comes_out_is_a_view_of_what_went_in() -> None:
    names = ("a",)
    same = linear(names, np.eye(1))
    net = ww.AttentionNetwork(by_hand(("x",), same, (), same))
    x = torch.ones(3, 1, dtype=torch.float64)
    net(x).zero_()
    assert x.eq(1).all()


def test_gradients_pass_through_the_plan() -> None:
    net = built("sine, 1e-6")
    x = inputs(net, 2**17).mul(0.9).requires_grad_()
    (slope,) = torch.autograd.grad(net(x).sum(), x)
    assert (slope - 5 * torch.cos(5 * x)).abs().max() <= 1e-3


def test_a_million_inputs_take_little_memory() -> None:
    """Below 1 GB: the stream of this network would take 600 MB, its scores 5 GB."""
    import resource

    net = layers(8, 32, 2, between=nn.ReLU, dtype="float32")
    x = torch.zeros(10**6, 8)
    net(x[:10])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert net(x).shape == (10**6, 2)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000
