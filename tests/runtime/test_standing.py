"""What is left of a certificate: after a pickle, a copy, a move, a wrong hand; what `check` finds; fine-tuning."""

from __future__ import annotations

import copy
import dataclasses
import io
import pickle
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from support.prompts import made
from support.zoo import ZOO

import weightwright as ww
from weightwright.claims.certificate import Status, agreed, conditional, status_in_words

PAGE = Path(__file__).parents[2] / "docs" / "certificates.md"


def fresh(net: ww.AttentionNetwork) -> ww.AttentionNetwork:
    return ww.AttentionNetwork(net.network, net.certificate)


def by_torch(net: ww.AttentionNetwork) -> ww.AttentionNetwork:
    file = io.BytesIO()
    torch.save(net, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@pytest.mark.parametrize("through", [lambda net: pickle.loads(pickle.dumps(net)), by_torch], ids=["pickle", "torch"])
def test_a_pickle_comes_back_unchecked(sine: ww.AttentionNetwork, through: Any) -> None:
    again = through(sine)
    x = torch.linspace(-1, 1, 50, dtype=torch.float64)[:, None]
    assert torch.equal(again(x), sine(x))
    assert (again.certificate.bound, again.certificate.network) == (sine.certificate.bound, sine.certificate.network)
    assert (again.certificate.status, sine.certificate.status) == ("UNCHECKED", "PROVEN")
    assert again.check().status == again.certificate.status == "PROVEN"
    again.registers.data[0, 4] += 1
    assert through(again).certificate.status == "EDITED"


def test_a_pickle_of_a_network_is_no_larger_than_its_file(tmp_path: Path) -> None:
    net = made("descent", "float64")
    net.save(tmp_path / "net.safetensors")
    assert len(pickle.dumps(net)) <= 2 * (tmp_path / "net.safetensors").stat().st_size


def test_a_copy_is_what_its_weights_are(sine: ww.AttentionNetwork) -> None:
    copied = copy.deepcopy(sine)
    assert copied.certificate.status == "PROVEN"
    copied.embed.C.data[0, 0] += 1
    assert copied.certificate.status == copy.deepcopy(copied).certificate.status == "EDITED"
    assert sine.certificate.status == "PROVEN"


def test_a_certificate_of_another_network_is_refused(sine: ww.AttentionNetwork) -> None:
    other = ww.approximate("x**2", (-1, 1), 1e-3)
    with pytest.raises(ww.CertificateError, match="about another network"):
        ww.AttentionNetwork(sine.network, other.certificate)
    net = fresh(sine)
    net.certificate = other.certificate
    assert net.certificate.status == "EDITED"
    assert net.stored()[1] is None
    assert net.check().status == "EDITED"


def test_a_certificate_that_was_changed_is_not_the_checkers(sine: ww.AttentionNetwork) -> None:
    """A smaller bound, a wider domain or the word PROVEN, written by the caller, were all taken for granted."""
    said = sine.certificate
    changed = (
        dataclasses.replace(said, bound=0.0),
        dataclasses.replace(said, domain=ww.Box([-9.0], [9.0])),
        dataclasses.replace(said, status="UNCHECKED", why=""),
        pickle.loads(pickle.dumps(said)),
        dataclasses.replace(said),
    )
    for other in changed:
        assert ww.AttentionNetwork(sine.network, other).certificate.status == "UNCHECKED"
        net = fresh(sine)
        net.certificate = dataclasses.replace(other, status="PROVEN")
        assert net.certificate.status == "UNCHECKED"
        assert "UNCHECKED: this is not the certificate that the checker returned" in repr(net)
    assert ww.AttentionNetwork(sine.network, dataclasses.replace(said)).check().status == "PROVEN"
    assert copy.deepcopy(fresh(sine)).certificate.status == "PROVEN"


def test_on_another_device_the_machine_is_assumed(sine: ww.AttentionNetwork, monkeypatch: pytest.MonkeyPatch) -> None:
    net = fresh(sine)
    there = torch.zeros(1, device="meta")  # stands for any device that no test of ours has seen
    monkeypatch.setattr("weightwright.runtime.standing._held", lambda module: [there] if module is net else [])
    assert net.certificate.status == "CONDITIONAL"
    assert "arithmetic on meta rounds as the model says" in net.certificate.why
    assert "CONDITIONAL: assuming that arithmetic on meta" in repr(net)
    assert sine.certificate.status == "PROVEN"


@pytest.mark.parametrize(
    ("edit", "least"),
    [
        (lambda net: net.registers.data[3, 4].add_(1e-3), 1e-5),
        (lambda net: net.embed.C.data[0, 5].add_(0.125), 0.1),
        (lambda net: net.layers[0].heads[0].W_O.data.mul_(2), 0.9),
    ],
    ids=["a value", "the mean", "the output"],
)
def test_check_finds_the_bound_that_still_holds(
    sine: ww.AttentionNetwork, edit: Any, least: float, tmp_path: Path
) -> None:
    net = fresh(sine)
    edit(net)
    assert net.certificate.bound == np.inf
    found = net.check()
    assert (found.status, net.certificate) == ("PROVEN", found)
    x = torch.linspace(-1, 1, 4001, dtype=torch.float64)[:, None]
    worst = float((net(x) - torch.sin(5 * x)).abs().max())
    assert max(worst, least) <= found.bound <= 4 * worst
    net.save(tmp_path / "net.safetensors")
    loaded = ww.load(tmp_path / "net.safetensors")
    assert (loaded.certificate.status, loaded.certificate.bound) == ("PROVEN", found.bound)
    assert torch.equal(loaded(x), net(x))


def test_check_of_several_variables_and_layers() -> None:
    product = ww.approximate("x*y", ([-1, -1], [1, 1]), 1e-2)
    torch.manual_seed(1)
    module = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1))
    for net in (product, ww.compile(module, (-1, 1), 1e-2, features=2)):
        before = net.certificate.bound
        net.registers.data.view(-1)[net.registers.flatten().nonzero()[-1]] *= 1 + 2.0**-12
        assert net.certificate.status == "EDITED"
        found = net.check()
        assert found.status == "PROVEN"
        assert before <= found.bound < 1


def test_check_says_that_no_bound_holds(sine: ww.AttentionNetwork) -> None:
    net = fresh(sine)
    net.layers[0].residual = False
    found = net.check()
    assert (found.status, found.bound) == ("EDITED", np.inf)
    assert "the checker: no rule covers this network" in found.why
    for nothing in (ww.AttentionNetwork(sine.network), ww.approximate("x", (-1, 1), 0.1, proof="measured")):
        with pytest.raises(ww.CertificateError):
            nothing.check()


@pytest.mark.parametrize("name", ZOO)
def test_every_weight_can_be_trained(name: str) -> None:
    net = ww.AttentionNetwork(ZOO[name]())
    free = net.trainable()
    n, d = net.network.tokens or 4, len(net.network.inputs)
    x = torch.tensor(np.random.default_rng(3).normal(size=(2, n, d)))
    y = free(x)
    assert free.certificate is None
    assert torch.allclose(y, net(x), rtol=0, atol=1e-12)
    assert list(free.state_dict()) == list(net.state_dict())
    y.square().sum().backward()
    assert all(weight.grad is not None for weight in free.parameters() if weight.numel() and name != "constant")
    with torch.no_grad():
        for weight in free.parameters():
            weight.add_(0 if weight.grad is None else 0.01 * weight.grad.sign())
    if name != "windowed":  # whose anchors stand on whole numbers
        net.load_state_dict(free.state_dict())
        assert torch.allclose(net(x), free(x), rtol=0, atol=1e-12)


def test_fine_tuned_weights_are_edited_ones(sine: ww.AttentionNetwork) -> None:
    net, free = fresh(sine), sine.trainable()
    x = torch.linspace(-1, 1, 50, dtype=torch.float64)[:, None]
    step = torch.optim.SGD([free.registers], lr=1e-9)
    free(x).sum().backward()
    step.step()
    net.load_state_dict(free.state_dict())
    assert net.certificate.status == "EDITED"
    assert torch.allclose(net(x), free(x), rtol=0, atol=1e-12)
    assert sine.certificate.status == "PROVEN"


def test_a_status_says_what_it_assumes_in_the_same_line(sine: ww.AttentionNetwork) -> None:
    said = sine.certificate
    once = conditional(said, ["a", "b"])
    assert status_in_words(once.status, once.why) == "CONDITIONAL: assuming that a; b"
    assert conditional(dataclasses.replace(said, status="UNCHECKED"), ["a"]).status == "UNCHECKED"
    assert (agreed(once).status, conditional(said, []).status) == ("PROVEN", "PROVEN")


def test_the_page_has_every_status_in_one_table() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| **")]
    found = [row.split("**")[1] for row in rows]
    assert found == list(get_args(Status))
