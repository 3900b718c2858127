"""UA-2, UA-3, UA-8, UA-9, UA-10 and UA-13 alike: proven, under their bounds, counted, saved; and bad arguments."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from papers.support.constructed import CASES, SORT, arrays, made, normal
from papers.support.measuring import error_within_bound
from support.running import reference_outputs, torch_outputs
from torch import nn

import weightwright as ww
from weightwright import constructions


@pytest.mark.few(7)
@pytest.mark.parametrize("name", CASES)
def test_no_input_that_is_found_is_worse_than_the_bound(name: str) -> None:
    net = made(name)
    assert net.certificate.status == "PROVEN"
    assert net.certificate.norm == math.inf
    assert net.about.id == name.partition(",")[0]
    assert net.about.bounds["everywhere"] == net.certificate.bound
    error_within_bound(net, 512, seed=3)
    worst = ww.search(net, 0.0, seed=4)
    assert not worst.violated
    assert worst.inputs > 0
    # what is measured against in floats is what the certificate is about, which the search computes exactly
    x = np.reshape(worst.x, (1, net.network.tokens, -1))
    error = np.abs(torch_outputs(net, x) - net.about.reference(x)).max()
    assert abs(error - worst.error) <= {"float64": 1e-13, "float32": 1e-6, "bfloat16": 0.1}[net.network.dtype]


@pytest.mark.few(4)
@pytest.mark.parametrize("name", [
    "UA-2, three rows", "UA-2, spectral", "UA-2, bfloat16", "UA-3, H", "UA-3, w per token", "UA-8, sort",
    "UA-8, plane waves", "UA-9, square", "UA-10, arrays", "UA-13, relu",
])  # fmt: skip
def test_saved_loaded_checked_and_interpreted(name: str, tmp_path: Path) -> None:
    net, path = made(name), tmp_path / "net.safetensors"
    net.save(path)
    assert ww.check(path).status == "PROVEN"
    again = ww.load(path)
    for name in ("bound", "terms", "formula", "assumptions", "network"):
        assert getattr(again.certificate, name) == getattr(net.certificate, name)
    X = net.about.probes(np.random.default_rng(6), 60)
    X = np.clip(torch.tensor(X).to(net.dtype).double().numpy(), net.certificate.domain.lo, net.certificate.domain.hi)
    assert (torch_outputs(again, X) == torch_outputs(net, X)).all()
    unit = {"float64": 1e-9, "bfloat16": 1.0}[net.network.dtype]
    assert np.abs(reference_outputs(net, X) - torch_outputs(net, X)).max() <= unit
    assert torch_outputs(net, X[0]).shape == net.about.reference(X[:1]).shape[1:]  # without a batch


@pytest.mark.parametrize("name", ["UA-2, p", "UA-3, H", "UA-8, sort", "UA-9, square", "UA-10, arrays", "UA-13, relu"])
def test_inputs_that_do_not_fit(name: str) -> None:
    net = made(name)
    n, d = net.network.tokens, len(net.network.inputs)
    with pytest.raises(ValueError, match=f"x must have {n} tokens, not {n + 1}"):
        net(torch.zeros(n + 1, d, dtype=torch.float64))
    with pytest.raises(ValueError, match=rf"x must have shape \(\.\.\., tokens, {d}\)"):
        net(torch.zeros(n, d + 1, dtype=torch.float64))
    far = torch.zeros(3, n, d, dtype=torch.float64)
    far[1, n - 1, d - 1] = 7.5
    with pytest.raises(ww.DomainError, match=rf"of token {n - 1} is 7\.5, outside \[-1\.0, 1\.0\], off by 6\.5"):
        net(far)
    clamped = ww.AttentionNetwork(net.network, net.certificate, on_domain="clamp")
    assert torch.equal(clamped(far), net(far.clamp(-1, 1)))


# counts


def built(net: ww.AttentionNetwork) -> tuple[int, int, int, int]:
    """Layers, heads, registers and width."""
    return net.cost.layers, net.cost.heads, len(net.network.registers), len(net.network.embed.coordinates)


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", range(4))
def test_counts_are_those_of_the_networks(seed: int) -> None:
    """Sizes at random; every construction."""
    rng = np.random.default_rng(seed)
    n, d, r = (int(x) for x in rng.integers(1, 5, 3))
    w, t = rng.normal(size=(n, d)), rng.normal(size=n)
    p, H, rows = n + 1 + int(rng.integers(1, 9)), int(rng.integers(1, 6)), int(rng.integers(1, 4))
    row = np.minimum(np.arange(p), rows - 1).tolist()
    assert built(constructions.truncated_linear(w, t, -1.0, 1.0, (-1, 1), p=p)) == (1, 1, 0, 5)
    assert built(constructions.hard_tanh(w, t, (-1, 1), p=p)) == (1, 1, 0, 5)
    assert built(constructions.truncated_linear(w, t, -1.0, 1.0, (-1, 1), p=p, G=row)) == (1, 1, 0, 4 + rows)
    shifts = rng.normal(size=n + 2)
    for weights in (w[0], rng.normal(size=(n + 2, d))):
        assert built(constructions.truncated_linear_heads(weights, shifts, -1.0, 1.0, (-1, 1), H=H)) == (
            1,
            H,
            0,
            n + 5,
        )
    mixing = constructions.token_mixing(rng.normal(size=(n, n)), rng.normal(size=(d, r)), (-1, 1))
    assert built(mixing) == (1, 2, 1, d + n + 1 + r)
    units = int(rng.integers(1, 6))
    gates = constructions.native_relu(arrays(seed, n * d, units, n * r), n, (-1, 1))
    assert built(gates) == (2, n + n * units, 1, d + 2 + n + units + r)
    linear = nn.Sequential(nn.Linear(n * d, units), nn.ReLU(), nn.Linear(units, n * r)).double()
    emulated = constructions.relu_network(linear, n, (-1, 1), tol=1e-3)
    identity, relus, keys = (int(emulated.about.chosen[name]) for name in ("heads of x", "heads of relu", "p"))
    assert built(emulated)[:3] == (2, units * (identity + relus), keys)


@pytest.mark.parametrize("name", ["UA-2, spectral", pytest.param("UA-3, spectral", marks=pytest.mark.slow)])
def test_counts_of_what_stands_on_registers(name: str) -> None:
    net = made(name)
    heads = len(list(net.network.heads))
    assert built(net) == (1, heads, int(net.about.chosen["p"]), 3 + 3 * heads)


def test_the_position_code_of_long_sequences_holds_the_keys() -> None:
    n, H = 257, 1
    net = constructions.truncated_linear_heads([1.0], np.linspace(-1, 1, n), -1.0, 1.0, (-1, 1), H=H)
    assert net.network.native
    assert built(net) == (1, H, 0, 3 * H + 3)
    X = net.about.probes(np.random.default_rng(7), 16)
    assert np.abs(torch_outputs(net, X) - net.about.reference(X)).max() <= net.certificate.bound


# arguments

W, T, D = [[1.0], [2.0]], [0.0, 1.0], (-1, 1)
R3 = [0.0, 0.0, 0.0]
NET = arrays(33, 4, 3, 2)
BAD: dict[str, tuple[str, tuple[Any, ...], dict[str, Any], str]] = {
    "w a vector": ("truncated_linear", ([1.0, 2.0], T, 0, 1, D), {"p": 9}, r"w must have shape \(n, d\).*not \(2,\)"),
    "no w": ("truncated_linear", (np.zeros((0, 2)), [], 0, 1, D), {"p": 9}, r"w must have shape"),
    "t too short": ("truncated_linear", (W, [0.0], 0, 1, D), {"p": 9}, r"t must have shape \(2,\).*not \(1,\)"),
    "w infinite": ("truncated_linear", ([[math.inf], [1]], T, 0, 1, D), {"p": 9}, "w must be finite, but has .*inf"),
    "t nan": ("truncated_linear", (W, [math.nan, 0], 0, 1, D), {"p": 9}, "t must be finite, but has .*nan"),
    "a above b": ("truncated_linear", (W, T, 2, 1, D), {"p": 9}, "a < b, not a = 2, b = 1"),
    "a is b": ("truncated_linear_heads", ([1.0], R3, 1, 1, D), {"H": 9}, "a < b, not a = 1, b = 1"),
    "a nan": ("truncated_linear", (W, T, math.nan, 1, D), {"p": 9}, "a = nan"),
    "p not above n": (
        "truncated_linear", (W, T, 0, 1, D), {"p": 2}, "p must be .* at least 3: more than the 2 .*not 2",
    ),
    "p no whole number": ("truncated_linear", (W, T, 0, 1, D), {"p": 9.5}, "p must be a whole number.*not 9.5"),
    "tol 0": ("truncated_linear", (W, T, 0, 1, D), {"tol": 0.0}, "tol must be a positive finite number, not 0.0"),
    "tol negative": ("relu_network", (SORT, 2, D), {"tol": -1.0}, "tol must be a positive finite number, not -1.0"),
    "tol nan": ("native_relu", (NET, 2, D), {"tol": math.nan}, "tol must be a positive finite number, not nan"),
    "tol and p": ("truncated_linear", (W, T, 0, 1, D), {"tol": 0.1, "p": 9}, "either tol or p"),
    "neither": ("truncated_linear", (W, T, 0, 1, D), {}, "either tol or p"),
    "beta and tol": ("truncated_linear", (W, T, 0, 1, D), {"tol": 0.1, "beta": 9.0}, "beta follows from tol"),
    "beta 0": (
        "truncated_linear", (W, T, 0, 1, D), {"p": 9, "beta": 0}, "beta must be a positive finite number, not 0",
    ),
    "G too short": ("truncated_linear", (W, T, 0, 1, D), {"p": 4, "G": [0, 1]}, r"G must .* 4 anchors, not \[0, 1\]"),
    "G negative": ("truncated_linear", (W, T, 0, 1, D), {"p": 3, "G": [0, -1, 0]}, r"G must .* not \[0, -1, 0\]"),
    "G leaves rows out": ("truncated_linear", (W, T, 0, 1, D), {"p": 3, "G": [0, 2, 0]}, r"0 to 2, .* only \[0, 2\]"),
    "G no number": ("truncated_linear", (W, T, 0, 1, D), {"p": 3, "G": lambda k: "x"}, "G must give a row number"),
    "dead zone too large": (
        "truncated_linear", (W, T, 0, 1, D), {"p": 4, "G": [0, 0, 1, 1], "dead_zone": 0.125}, "below half .*not 0.125",
    ),
    "dead zone negative": (
        "truncated_linear", (W, T, 0, 1, D), {"p": 4, "G": [0, 0, 1, 1], "dead_zone": -1.0},
        "dead_zone must .*not -1.0",
    ),
    "dead zone for nothing": ("truncated_linear", (W, T, 0, 1, D), {"p": 4, "dead_zone": 0.1}, "dead_zone = 0.1"),
    "G, spectral": (
        "truncated_linear", (W, T, 0, 1, D), {"p": 9, "G": [0] * 9, "method": "spectral"}, "G must be None",
    ),
    "beta, spectral": (
        "truncated_linear", (W, T, 0, 1, D), {"p": 9, "beta": 1, "method": "spectral"}, "beta is chosen",
    ),
    "few keys": (
        "truncated_linear", (W, T, 0, 1, D), {"p": 7, "method": "spectral"}, "p must .* at least 8 keys, not 7",
    ),
    "a method": ("truncated_linear", (W, T, 0, 1, D), {"p": 9, "method": "best"}, "method must be .*not 'best'"),
    "domain of other shape": (
        "truncated_linear", (W, T, 0, 1, ww.Box([0, 0, 0], [1, 1, 1])), {"p": 9},
        r"domain must .* \(2, 1\), not \(3,\)",
    ),
    "H 0": ("truncated_linear_heads", ([1.0], R3, 0, 1, D), {"H": 0}, "H must be a whole number of at least 1, not 0"),
    "H and tol": ("truncated_linear_heads", ([1.0], R3, 0, 1, D), {"H": 1, "tol": 1.0}, "either tol or H"),
    "beta and tol, heads": ("truncated_linear_heads", ([1.0], R3, 0, 1, D), {"tol": 1.0, "beta": 1.0}, "beta follows"),
    "two tokens": ("truncated_linear_heads", ([1.0], T, 0, 1, D), {"H": 1}, "at least 3 tokens.*n = 2"),
    "a method of heads": ("truncated_linear_heads", ([1.0], R3, 0, 1, D), {"H": 1, "method": "b"}, "method .*not 'b'"),
    "H, spectral": (
        "truncated_linear_heads", ([1.0], R3, 0, 1, D), {"H": 1, "method": "spectral"}, "H and beta follow",
    ),
    "w a number": ("truncated_linear_heads", (1.0, R3, 0, 1, D), {"H": 1}, r"w must have shape .*not \(\)"),
    "R not square": ("token_mixing", ([[1.0, 2.0]], [[1.0]], D), {}, r"R must be square, not of shape \(1, 2\)"),
    "R nan": ("token_mixing", ([[math.nan]], [[1.0]], D), {}, r"R\[0, 0\] must be finite, not nan"),
    "A a vector": ("token_mixing", ([[1.0]], [1.0], D), {}, r"A must .*\(1,\)"),
    "n 0": ("native_relu", (NET, 0, D), {}, "n must be a whole number of at least 1, not 0"),
    "n does not divide": ("native_relu", (NET, 3, D), {}, "4 inputs and 2 outputs, which n = 3 does not divide"),
    "tol and beta": ("native_relu", (NET, 2, D), {"tol": 1.0, "beta": 1.0}, "tol or beta, not both"),
    "arrays that do not fit": (
        "native_relu", ((NET[0], NET[1], NET[2].T, NET[3]), 2, D), {}, r"shapes \(3, 4\), \(3,\), \(3, 2\), \(2,\)",
    ),
    "three arrays": ("native_relu", (NET[:3], 2, D), {}, r"target must be a torch module or \(W_1, b_1, W_2, b_2\)"),
    "no arrays": ("native_relu", (None, 2, D), {}, "target must be .*not None"),
    "weights nan": ("native_relu", ((math.nan * NET[0], *NET[1:]), 2, D), {}, r"W_1\[0, 0\] must be finite, not nan"),
    "a formula for two tokens": ("relu_network", (["x0"], 2, D), {"tol": 0.1}, "1 formulas, which n = 2 tokens do not"),
    "a text": ("relu_network", ("x0", 1, D), {"tol": 0.1}, "a list of formulas.* not 'x0'"),
    "no formulas": ("relu_network", ([], 1, D), {"tol": 0.1}, r"a list of formulas.* not \[\]"),
    "a method of UA-8": ("relu_network", (SORT, 2, D), {"tol": 0.1, "method": "b"}, "method must be .*not 'b'"),
    "b negative": ("clipped_relu", (W, T, -1.0, D), {"p": 9}, "b must be a positive finite number, not -1.0"),
    "relu of nothing": ("relu", (W, [-9.0, -9.0], D), {"p": 9}, "at most -7 on the domain: its relu is 0 everywhere"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_arguments_are_named_with_their_values(name: str) -> None:
    function, args, keywords, said = BAD[name]
    with pytest.raises(ValueError, match=said):
        getattr(constructions, function)(*args, **keywords)


def test_what_cannot_be_proven_says_how_near_it_came() -> None:
    with pytest.raises(ww.BudgetError, match=r"needs [\d,]+ anchors .* more than max_anchors=100,000.*spectral"):
        constructions.relu_network(SORT, 2, (-1, 1), tol=1e-5, method="faithful")
    with pytest.raises(ww.ToleranceError, match=r"tol=1e-15 cannot be proven: .* is the best"):
        constructions.token_mixing(normal(34, 3, 3), normal(35, 2, 2), (-1, 1), tol=1e-15)


@pytest.mark.parametrize("make", [constructions.relu_network, constructions.native_relu])
def test_modules_of_another_kind_are_refused(make: Any) -> None:
    """Also one with the same children: what its forward does with them is its own."""

    class Negated(nn.Sequential):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return -super().forward(x)

    other = nn.Sequential(nn.Linear(4, 2), nn.Tanh(), nn.Linear(2, 2))
    with pytest.raises(ww.UnsupportedOperation, match=r"Sequential\(Linear, Tanh, Linear\)"):
        make(other, 2, D, tol=0.1)
    with pytest.raises(ww.UnsupportedOperation, match="not Negated"):
        make(Negated(nn.Linear(4, 2), nn.ReLU(), nn.Linear(2, 2)), 2, D, tol=0.1)
