"""`net.certifies`, `net.draw`, `net.plot`, dtypes by name: what people do with a network, each in one call."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import weightwright as ww
from weightwright.runtime.weights import DTYPES, dtype_name


def classifier() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 6, bias=False), nn.Tanh(), nn.Linear(6, 3, bias=False)).double()  # a tie at 0


def test_certified_predictions_are_the_originals() -> None:
    module = classifier()
    net = ww.compile(module, (-1, 1), 1e-2, features=2)
    rng = np.random.default_rng(0)
    x = torch.tensor(rng.uniform(-1, 1, (4000, 1, 2)) * 10.0 ** rng.uniform(-12, 0, (4000, 1, 1)))
    surely, wanted = net.certifies(x)[:, 0], module(x)[:, 0].detach()
    assert surely.shape == (4000,)
    assert 0 < int(surely.sum()) < 4000
    assert torch.equal(net(x)[:, 0].argmax(-1)[surely], wanted.argmax(-1)[surely])
    best, second = net(x)[:, 0].topk(2).values.unbind(-1)
    assert torch.equal(surely, best - second > 2 * net.certificate.bound)


def test_the_sign_of_one_output() -> None:
    net = ww.approximate("sin(5*x)", (-1, 1), 1e-2)
    x = torch.linspace(-1, 1, 2001, dtype=torch.float64)[:, None]
    surely = net.certifies(x)
    assert torch.equal(surely, net(x)[:, 0].abs() > net.certificate.bound)
    assert torch.equal(torch.sign(net(x)[:, 0])[surely], torch.sign(torch.sin(5 * x[:, 0]))[surely])


def test_nothing_is_certified_where_nothing_is_claimed() -> None:
    x = torch.linspace(-1, 1, 401, dtype=torch.float64)[:, None]
    measured = ww.approximate("sin(5*x)", (-1, 1), 1e-2, proof="measured")
    assert not measured.certifies(x).any()
    zones = ww.approximate("sign(x)", (-1, 1), 1e-3, dead_zone=0.1)
    assert torch.equal(zones.certifies(x), (x.abs() >= 0.1)[:, 0])
    net = ww.approximate("1 + x**2", (-1, 1), 1e-2, on_domain="ignore")
    assert net.certifies(2 * x).tolist() == (x.abs() <= 0.5)[:, 0].tolist()
    net.layers[0].heads[0].W_O.mul_(2.0)
    assert not net.certifies(x).any()


def test_what_nobody_has_checked_certifies_nothing(tmp_path: Path) -> None:
    x, path = torch.ones(3, 1, dtype=torch.float64), tmp_path / "net.safetensors"
    ww.approximate("2 + sin(x)", (-1, 1), 1e-2).save(path)
    assert ww.load(path).certifies(x).all()
    unchecked = ww.load(path, verify=False)
    assert unchecked.certificate.status == "UNCHECKED"
    assert not unchecked.certifies(x).any()


def test_no_inputs_no_predictions() -> None:
    net, free = ww.compile(classifier(), (-1, 1), 1e-2, features=2), ww.approximate("sin(x)", (-1, 1), 1e-2)
    for shape in ((0,), (0, 3), (4, 0)):
        assert net.certifies(torch.zeros(*shape, 2)).shape == shape
        assert free.certifies(torch.zeros(*shape, 1)).shape == shape


def test_pictures_by_one_call(tmp_path: Path) -> None:
    net = ww.approximate("sin(5*x)", (-1, 1), 1e-2)
    net.draw(tmp_path / "net.svg")
    net.plot(tmp_path / "plot.png")
    assert (tmp_path / "net.svg").read_text().startswith("<?xml")
    assert (tmp_path / "plot.png").read_bytes()[1:4] == b"PNG"


@pytest.mark.parametrize("name", DTYPES)
def test_a_dtype_by_name(name: str) -> None:
    assert dtype_name(name) == dtype_name(f"torch.{name}") == dtype_name(DTYPES[name]) == name
    assert ww.approximate("x/2", (-1, 1), 0.25, dtype=name).dtype == DTYPES[name]
    assert ww.compile(torch.tanh, (-1, 1), 0.25, dtype=name).dtype == DTYPES[name]


def test_an_unknown_dtype_is_named() -> None:
    with pytest.raises(ValueError, match=r"torch.float64, torch.float32 or torch.bfloat16, not 'float16'"):
        ww.approximate("x", (-1, 1), 0.25, dtype="float16")
    with pytest.raises(ValueError, match=r"torch.float64 or torch.float32, not torch.bfloat16"):
        ww.memory.Hopfield(2, dtype=torch.bfloat16)
