"""A network that was not made for it does not pass as one whose heads may be zeroed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from support.forging import proven, refused

import weightwright as ww
import weightwright.compiler.lowering.lower as lowering


def off_centre(x: torch.Tensor) -> torch.Tensor:
    return (torch.sin(x[:, :1]) + 3) * (torch.exp(x[:, 1:]) + 2)


def two_sigmoids(x: torch.Tensor) -> torch.Tensor:
    return torch.exp(3 * (torch.sigmoid(x[:, :1]) + torch.sigmoid(x[:, 1:])))


BESIDE = {
    "a line": (lambda: ww.compile(torch.relu, (-0.5, 4), 1e-6), "something stands beside the heads"),
    "a constant": (lambda: ww.compile(torch.exp, (0, 1), 1e-6), "something stands beside the heads"),
    "the line of a kink": (lambda: ww.compile(torch.abs, (-1, 2), 1e-6), "something stands beside the heads"),
    "shifted factors": (lambda: ww.compile(off_centre, (-1, 1), 1e-3, features=2), "something stands beside"),
    "a chain": (lambda: ww.compile(lambda x: torch.sin(torch.tanh(2 * x)), (-1, 1), 1e-6), "ablatable: chains"),
}


def flagged(net: ww.AttentionNetwork, ablatable: object = True):  # type: ignore[no-untyped-def]
    said = net.said
    return replace(said, claim=replace(said.claim, ablatable=ablatable))


@pytest.mark.few(3)
@pytest.mark.parametrize("name", BESIDE)
def test_what_stands_beside_heads_is_seen(name: str, tmp_path: Path) -> None:
    make, said = BESIDE[name]
    net = make()
    proven(net.network, net.said, tmp_path)
    refused(net.network, flagged(net), tmp_path, said)


def test_the_flag_is_a_truth_value(tmp_path: Path) -> None:
    net = ww.compile(torch.tanh, (-1, 1), 1e-6, ablatable=True)
    proven(net.network, net.said, tmp_path)
    refused(net.network, flagged(net, ablatable=2), tmp_path, "ablatable")


def test_ranges_must_hold_whatever_is_zeroed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bare heads, but tables that cover no more than the function itself needs."""
    assert ww.compile(two_sigmoids, (-1, 1), 1e-3, features=2, ablatable=True).certificate.status == "PROVEN"
    whole = lowering.defined_ranges
    monkeypatch.setattr(lowering, "defined_ranges", lambda *args: whole(*args[:-2], False, args[-1]))
    with pytest.raises(ww.ToleranceError):
        ww.compile(two_sigmoids, (-1, 1), 1e-3, features=2, ablatable=True)


def attention(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x @ x.mT, -1) @ x


SHARED = {
    "a function": lambda: ww.compile(torch.tanh, (-1, 1), 1e-6, ablatable=True),
    "a softmax": lambda: ww.compile(lambda x: torch.softmax(x, -1), (-1, 1), 1e-6, features=2, ablatable=True),
    "attention": lambda: ww.compile(attention, (-1, 1), 1e-6, features=2, tokens=3, ablatable=True),
}


@pytest.mark.parametrize("name", SHARED)
def test_no_two_heads_compute_the_same(name: str, tmp_path: Path) -> None:
    """Two heads, each half of what one was: without one of them half of the function is left."""
    net = SHARED[name]()
    network, layer, claim = net.network, net.network.layers[0], net.said.claim
    half = replace(layer.heads[0], W_O=layer.heads[0].W_O / 2)
    heads = (half, *layer.heads[1:], replace(half, role="the other half"))
    forged = replace(network, layers=(replace(layer, heads=heads), *network.layers[1:]))
    twice = {
        kind: (*getattr(claim, kind), replace(getattr(claim, kind)[0], **{field: place}))
        for kind, field, place in (
            ("parts", "heads", (len(heads) - 1,)),
            ("softmaxes", "head", len(heads) - 1),
            ("attentions", "head", len(heads) - 1),
        )
        if getattr(claim, kind)
    }
    terms = net.said.terms
    wider = replace(terms, leakage=4 * terms.leakage, rounding=4 * terms.rounding)
    said = replace(net.said, claim=replace(claim, **twice), terms=wider, bound=1e-5)
    proven(forged, replace(said, claim=replace(said.claim, ablatable=False)), tmp_path)
    refused(forged, said, tmp_path, "compute what another head computes too")
