"""Kernel "anchor": windowed heads are proven cell by cell, hold in every dtype, and the checker knows a window."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from support.exact import worst_error
from support.forging import save_forged
from support.formulas import DOMAINS, random_formula, shifted

import weightwright as ww

TOLERANCES = {torch.float64: (2, 10), torch.float32: (2, 5), torch.bfloat16: (0, 1)}


@pytest.mark.few(1)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("seed", "count"), [(0, 4), *(pytest.param(seed, 8, marks=pytest.mark.slow) for seed in range(3))]
)
def test_random_formulas_never_exceed_their_bound(seed: int, count: int, dtype: torch.dtype) -> None:
    rng = np.random.default_rng(4000 + seed)
    proven = 0
    for number in range(count):
        lo, hi = DOMAINS[rng.integers(len(DOMAINS))]
        text = shifted(random_formula(rng, int(rng.integers(0, 3))), lo, hi)
        tol = float(10.0 ** -rng.uniform(*TOLERANCES[dtype]))
        try:
            net = ww.approximate(text, (lo, hi), tol, kernel="anchor", dtype=dtype)
        except (ww.ToleranceError, ww.FormulaError):
            continue
        proven += 1
        assert (net.certificate.status, net.certificate.kernel) == ("PROVEN", "anchor")
        at, error = worst_error(net, seed=number)
        assert error <= net.certificate.bound <= tol, (text, lo, hi, at)
    assert proven >= (count // 4 if dtype == torch.bfloat16 else 0.6 * count)


@pytest.mark.slow
def test_a_thousand_anchors_agree_with_the_dense_head_within_the_bound() -> None:
    net = ww.approximate("sin(400*x)", (-1, 1), 1e-5, kernel="anchor", dtype=torch.float32)
    assert len(net.network.registers) >= 1024
    (layer,) = net.network.layers
    head = dataclasses.replace(layer.heads[0], window=None)
    dense = dataclasses.replace(net.network, layers=(dataclasses.replace(layer, heads=(head,)),), dtype="float64")
    x = torch.linspace(-1, 1, 20_001)[:, None]
    y = ww.AttentionNetwork(dense)(x.double())
    assert (net(x).double() - y).abs().max() <= net.certificate.bound
    assert worst_error(net, seed=1)[1] <= net.certificate.bound <= 1e-5


@pytest.mark.parametrize("domain", [(0, 1.5), (-0.5, 2.5), (0.25, 0.75), (1000, 1001)])
def test_ends_half_way_between_anchors(domain: tuple[float, float]) -> None:
    """A query half way between two anchors may round to either."""
    net = ww.approximate("sin(x)", domain, 1e-6, kernel="anchor")
    head, claim = next(net.network.heads), net.certificate.claim.leaf
    inside = np.unique(np.round(np.linspace(claim.lo, claim.hi, 999) - 0.5) + 0.5)
    ties = np.clip(inside / (claim.hi - claim.lo) * (domain[1] - domain[0]), *domain)
    x = torch.tensor(np.concatenate([domain, ties]))[:, None]
    assert head.window is not None
    assert (net(x) - torch.sin(x)).abs().max() <= net.certificate.bound
    assert worst_error(net, seed=2)[1] <= net.certificate.bound <= 1e-6


def test_a_row_is_the_same_alone_and_in_a_batch() -> None:
    net = ww.approximate("sin(5*x)", (-1, 1), 1e-5, kernel="anchor", dtype=torch.float32)
    x = torch.rand(1000, 1, generator=torch.Generator().manual_seed(0)) * 2 - 1
    together = net(x)
    assert all(torch.equal(net(x[i : i + 1]), together[i : i + 1]) for i in range(0, 1000, 37))


def changed(network: Any, **changes: object) -> Any:
    (layer,) = network.layers
    return dataclasses.replace(
        network, layers=(dataclasses.replace(layer, heads=(dataclasses.replace(layer.heads[0], **changes),)),)
    )


def nudged(network: Any, by: float) -> Any:
    registers = network.registers.copy()
    registers[len(registers) // 2, 4] += by
    return dataclasses.replace(network, registers=registers)


FORGERIES = {
    "another value": lambda n: nudged(n, 1e-3),
    "a narrower window": lambda n: changed(n, window=next(n.heads).window - 3),
    "another temperature": lambda n: changed(n, beta=2 * next(n.heads).beta),
    "no window": lambda n: changed(n, window=None),
    "anchors that end too early": lambda n: changed(
        n, sees=dataclasses.replace(next(n.heads).sees, registers=(0, len(n.registers) - 1))
    ),
}


@pytest.fixture(scope="module")
def windowed() -> ww.AttentionNetwork:
    return ww.approximate("exp(x)", (-1, 1), 1e-9, kernel="anchor")


@pytest.mark.parametrize("name", FORGERIES)
def test_a_changed_window_is_refused(windowed: ww.AttentionNetwork, name: str, tmp_path: object) -> None:
    network = FORGERIES[name](windowed.network)
    path = f"{tmp_path}/net.safetensors"
    save_forged(network, windowed.certificate, path)
    with pytest.raises(ww.CertificateError):
        ww.check(path)


def test_a_dense_head_is_no_window(tmp_path: object) -> None:
    """A certificate of kernel "dot" for a windowed network, and the other way round."""
    path = f"{tmp_path}/net.safetensors"
    dot, anchor = (ww.approximate("exp(x)", (-1, 1), 1e-6, kernel=kernel) for kernel in ("dot", "anchor"))
    for net, kernel, other in ((dot, "anchor", anchor), (anchor, "dot", dot)):
        claim = dataclasses.replace(net.certificate, kernel=kernel, assumptions=other.certificate.assumptions)
        save_forged(net.network, claim, path)
        with pytest.raises(ww.CertificateError, match="do not run in kernel"):
            ww.check(path)


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="kernel must be 'dot' or 'anchor', not 'flash'"):
        ww.approximate("x", (-1, 1), 1e-3, kernel="flash")
    with pytest.raises(ValueError, match="is for soft anchors on registers; method='faithful' runs in kernel 'dot'"):
        ww.approximate("x", (-1, 1), 1e-3, "faithful", kernel="anchor")
    with pytest.raises(ValueError, match="is for soft anchors on registers; sees='self' runs in kernel 'dot'"):
        ww.approximate("relu(x)", (-1, 1), 1e-3, kernel="anchor", sees="self")
    for option in ({"kernel": "anchor"}, {"sees": "self"}, {"dead_zone": 0.1}, {"derivative_bound": (2, 1.0)}):
        with pytest.raises(ValueError, match="takes one variable, not 2"):
            ww.approximate("x*y", ((-1, -1), (1, 1)), 1e-3, **option)
