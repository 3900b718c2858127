"""Prompted networks run by pieces of the stream: within the bound of whole streams, edits and watchers seen."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from support.prompts import KINDS, D, N, errors, made
from support.prompts import prompts as all_prompts
from support.running import reference_outputs

import weightwright as ww
from weightwright.incontext.networks.multinomial_network import multinomial_network
from weightwright.runtime.passes.by_pieces import run_by_pieces
from weightwright.runtime.passes.values import Product, add_up


@pytest.mark.few(11)
@pytest.mark.parametrize(("kind", "dtype"), KINDS)
def test_every_pass_keeps_the_bound(kind: str, dtype: str) -> None:
    """Prompts with corners, tiny numbers, and states that differ from token to token; and the same with one state."""
    net = made(kind, dtype)
    found = [error for prompt in all_prompts(net, 3, 1) for error in errors(net, prompt, by_pieces=True)]
    found += [error for prompt in prompts(net, 2, shared=True) for error in errors(net, prompt, by_pieces=True)]
    assert len(found) >= 2
    assert max(found) <= net.certificate.bound


@pytest.mark.parametrize(("kind", "dtype"), KINDS[:10:3])
def test_rounding_keeps_its_term(kind: str, dtype: str) -> None:
    net = made(kind, dtype)
    found = [error for prompt in all_prompts(net, 3, 2) for error in errors(net, prompt, True, by_pieces=True)]
    assert max(found) <= net.certificate.terms.rounding


def prompts(net: ww.AttentionNetwork, count: int, shared: bool, seed: int = 0) -> torch.Tensor:
    """Inside the domain, small enough that two passes stay there; shared: all tokens hold the same states."""
    domain, rng = net.said.domain, np.random.default_rng(seed)
    lo, hi = np.atleast_2d(domain.lo), np.atleast_2d(domain.hi)
    x = 0.1 * rng.uniform(lo, hi, (count, N, lo.shape[1]))
    if shared:
        own = ("x", "u", "y")
        states = [i for i, name in enumerate(net.network.inputs) if name.split("[")[0] not in own]
        x[..., states] = x[:, :1, states]
    return torch.tensor(x).to(net.dtype)


@contextmanager
def as_whole_streams(net: ww.AttentionNetwork) -> Iterator[None]:
    """A hook of another's, which changes nothing, and is shown whole streams."""
    hook = net.register_forward_hook(lambda *_: None)
    try:
        yield
    finally:
        hook.remove()


@pytest.mark.parametrize(
    ("kind", "dtype"), [("threshold", "float64"), ("clock", "float32"), ("kinks", "float64"), ("gradients", "float32")]
)
def test_they_are_the_network(kind: str, dtype: str) -> None:
    """Of the interpreter in float64, and of whole streams, within the bound of every pass."""
    net = made(kind, dtype)
    room = 4 * net.certificate.bound  # two passes, each of which makes little of what the last was off by
    for shared in (True, False):
        for count in (1, 7):
            x = prompts(net, count, shared)
            found = run_by_pieces(net, x)
            assert found is not None
            assert torch.equal(found, net(x))
            reference = np.stack([reference_outputs(net, one) for one in x])
            assert np.abs(found.double().numpy() - reference).max() <= room
            with as_whole_streams(net):
                assert (net(x) - found).abs().max() <= room


def test_strides_threads_and_further_axes_change_nothing_much() -> None:
    net = made("clock", "float64")
    x = prompts(net, 6, shared=True)
    found, room = net(x), net.certificate.bound
    strided = torch.empty(6, x.shape[2], N, dtype=x.dtype).mT.copy_(x)
    assert not strided.is_contiguous()
    assert (net(strided) - found).abs().max() <= room
    assert torch.equal(net(x.reshape(2, 3, N, -1)), found.reshape(2, 3, 1, D))
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        assert (net(x) - found).abs().max() <= room
    finally:
        torch.set_num_threads(threads)


def test_edits_are_seen_by_kept_plans() -> None:
    """By any way: through the weight, behind torch's back, a setting, a layer of another network; and undone."""
    net = copy.deepcopy(made("descent", "float64"))
    x = prompts(net, 2, shared=True)
    before = net(x)
    key = net.layers[0].layers[0].terms[1].tokens.R
    key.data[0] *= 1.5
    assert not torch.equal(net(x), before)
    key.data[0] /= 1.5
    assert torch.equal(net(x), before)
    net.layers[0].times = 1
    once = net(x)
    assert not torch.equal(once, before)
    other = copy.deepcopy(made("descent", "float64"))
    other(x)
    other.layers[0] = net.layers[0]
    assert torch.equal(other(x), once)


def test_a_copy_has_a_plan_of_its_own() -> None:
    net = copy.deepcopy(made("descent", "float64"))
    x = prompts(net, 1, shared=True)
    before = net(x)
    copied = copy.deepcopy(net)
    copied.layers[0].layers[0].terms[1].tokens.R.data[0] *= 1.5
    assert not torch.equal(copied(x), before)
    assert torch.equal(net(x), before)


def test_what_leaves_its_range_is_said_as_whole_streams_say_it() -> None:
    net = made("descent", "float64")
    prompt = torch.tensor(np.array(net.certificate.domain.hi)).expand(N, -1).clone()
    assert run_by_pieces(net, prompt) is None
    with pytest.raises(ww.DomainError, match="the state"):
        net(prompt)
    free = copy.deepcopy(net)
    free.on_domain = "ignore"
    assert run_by_pieces(free, prompt) is not None


def test_an_argument_that_leaves_its_range_is_seen() -> None:
    """Where no state does: w.x of the first pass already."""
    net = made("logistic", "float64")
    domain = net.certificate.domain
    prompt = torch.tensor(np.array(domain.hi)).expand(N, -1).clone()
    assert run_by_pieces(net, prompt) is None
    with pytest.raises(ww.DomainError, match=r"w\.x"):
        net(prompt)


def test_a_network_without_passes_or_in_training_runs_as_it_did() -> None:
    single = ww.approximate("x", domain=(-1, 1), tol=1e-3)
    assert run_by_pieces(single, torch.zeros(1, 1, dtype=torch.float64)) is None
    net = made("descent", "float64")
    assert run_by_pieces(net.trainable(), prompts(net, 1, shared=True)) is None


def test_several_classes_run_by_pieces() -> None:
    net = multinomial_network(5, 2, 3, momentum=0.5, steps=4, shrink=0.01)
    x = torch.tensor(np.random.default_rng(1).normal(size=(3, 5, len(net.network.inputs))))
    found = run_by_pieces(net, x)
    assert found is not None
    with as_whole_streams(net):
        assert (net(x) - found).abs().max() <= 1e-13


def test_a_power_of_two_times_the_base_is_multiplied_out() -> None:
    """The bound counts no rounding for that product; merged into a coefficient it would round once more."""
    base, coefficient = torch.tensor([[[3.0], [5.0]]]), torch.tensor([[[0.1], [0.2]]])
    product = Product(coefficient, base)
    assert isinstance(add_up([(product, 1.0), (base, 0.3)]), Product)
    assert isinstance(add_up([(product, 1.0), (base, -0.5)]), torch.Tensor)
