"""Functions that bend or jump: gates, one-sided keys, dead zones; proven, searched, and nowhere above the bound."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from support.exact import worst_error
from support.forging import save_forged, with_claim
from support.formulas import canonical
from support.stored import certified_file

import weightwright as ww
from weightwright.expressions import parse
from weightwright.heads.kinks import kinks, piecewise_linear

ISSUE = ["relu(x)", "abs(x)", "clip(x, -0.5, 0.5)", "max(x, 0.3)"]


def keys(net: ww.AttentionNetwork) -> list[int]:
    """The keys that each head sees."""
    ranges = [(head.sees.registers, head.sees.data == "self") for head in net.network.heads]
    return [stop - start + own for (start, stop), own in ranges]


@pytest.mark.few(4)
@pytest.mark.parametrize("formula", ISSUE)
@pytest.mark.parametrize(("dtype", "tol"), [(torch.float32, 1e-6), (torch.float64, 1e-8)])
def test_a_gate_has_at_most_four_keys(formula: str, dtype: torch.dtype, tol: float) -> None:
    net = ww.approximate(formula, (-1, 1), tol, dtype=dtype, sees="self")
    assert net.certificate.status == "PROVEN"
    assert sum(keys(net)) <= 4
    at, error = worst_error(net, seed=1)
    assert error <= net.certificate.bound <= tol, at
    assert error >= net.certificate.bound / 10  # the search finds the kink, and the bound is not far too large


@pytest.mark.few(2)
@pytest.mark.parametrize("formula", ISSUE)
@pytest.mark.parametrize(("dtype", "tol"), [(torch.float32, 1e-5), (torch.float64, 1e-8)])
def test_on_registers_only_a_head_has_at_most_64_keys(formula: str, dtype: torch.dtype, tol: float) -> None:
    net = ww.approximate(formula, (-1, 1), tol, dtype=dtype)
    assert net.certificate.status == "PROVEN"
    assert max(keys(net)) <= 64
    assert all(head.sees.data == "none" for head in net.network.heads)
    assert net.network.native
    assert len(net.network.layers) == 1
    at, error = worst_error(net, seed=2)
    assert error <= net.certificate.bound <= tol, at


@pytest.mark.few(5)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("sees", ["registers", "self"])
@pytest.mark.parametrize(
    ("formula", "domain", "tol"),
    [
        ("softshrink(x, 0.2)", (-1, 1), 1e-5),
        ("min(x, 0.25*x + 0.1)", (-1, 1), 1e-5),
        ("abs(x - 1000.5)", (1000, 1001), 1e-4),
        ("clip(x, -3, 5)", (-10, 20), 1e-4),
        ("max(0, 1 - abs(x))", (-3, 3), 1e-4),
        ("2*relu(x - 0.1) - 3*relu(0.7 - x)", (-1, 2), 1e-4),
    ],
)
def test_piecewise_linear_functions(
    formula: str, domain: tuple[int, int], tol: float, sees: str, dtype: torch.dtype
) -> None:
    net = ww.approximate(formula, domain, tol, dtype=dtype, sees=sees)
    at, error = worst_error(net, seed=3)
    assert error <= net.certificate.bound <= tol, at


@pytest.mark.few(2)
@pytest.mark.parametrize("formula", ["abs(sin(3*x))", "relu(x)*exp(x)", "min(x**2, 0.5)", "relu(x - 0.2)**2"])
def test_piecewise_smooth_functions_are_split_at_their_kinks(formula: str) -> None:
    net = ww.approximate(formula, (-1, 1), 1e-4)
    at, error = worst_error(net, seed=4)
    assert error <= net.certificate.bound <= 1e-4, at
    assert max(keys(net)) <= 16  # a uniform grid would take thousands


def test_a_gate_beside_soft_anchors() -> None:
    net = ww.approximate("relu(x)*exp(x)", (-1, 1), 1e-3, sees="self")
    assert {head.sees.data for head in net.network.heads} == {"self", "none"}
    assert worst_error(net, seed=5)[1] <= net.certificate.bound <= 1e-3


JUMPS = [
    ("sign(x)", (-1, 1), 0.01, torch.float32, 1e-6),
    ("step(x - 0.3) + x", (-1, 1), 0.01, torch.float32, 1e-6),
    ("sign(x)*(1 + x**2)", (-1, 1), 0.01, torch.float64, 1e-6),
    ("sign(x - 1000.25)", (1000, 1001), 0.01, torch.float32, 1e-4),
    ("step(x + 0.5) - 2*step(x - 0.5)", (-1, 1), 1e-3, torch.float64, 1e-9),
    ("sign(x)*relu(abs(x) - 0.5)", (-1, 1), 0.01, torch.float64, 1e-6),  # the jump is hidden: no dead zone is needed
]


@pytest.mark.few(3)
@pytest.mark.parametrize(("formula", "domain", "zone", "dtype", "tol"), JUMPS)
def test_jumps_outside_their_dead_zones(
    formula: str, domain: tuple[int, int], zone: float, dtype: torch.dtype, tol: float
) -> None:
    net = ww.approximate(formula, domain, tol, dtype=dtype, dead_zone=zone)
    share = sum(hi - lo for lo, hi in net.certificate.dead_zones) / (domain[1] - domain[0])
    assert net.certificate.status == ("PROVEN" if share < 0.0101 else "CONDITIONAL")
    at, error = worst_error(net, seed=6)
    assert error <= net.certificate.bound <= tol, at


def test_inside_a_dead_zone_the_output_stays_between_the_two_sides() -> None:
    net = ww.approximate("sign(x)", (-1, 1), 1e-6, dead_zone=0.1, on_domain="ignore")
    assert net.certificate.dead_zones == ((-0.1, 0.1),)
    y = net(torch.linspace(-0.1, 0.1, 2001, dtype=torch.float64)[:, None])
    assert (y.diff(dim=0) >= 0).all()
    assert y.abs().max() <= 1 + 1e-6


def test_a_measured_jump_has_its_dead_zone_too() -> None:
    net = ww.approximate("sign(x)", (-1, 1), 1e-3, dead_zone=0.1, proof="measured")
    assert net.certificate.status == "MEASURED"
    assert net.certificate.dead_zones == ((-0.1, 0.1),)
    assert net.certificate.measured.error <= 1e-3


def test_a_jump_without_a_dead_zone_says_where_it_is() -> None:
    with pytest.raises(ww.ToleranceError, match=r"jumps at x = 0\.25.*dead_zone=d"):
        ww.approximate("step(x - 0.25)", (-1, 1), 1e-3)
    with pytest.raises(ww.ToleranceError, match=r"dead_zone=0\.5 leaves nothing"):
        ww.approximate("step(x) + step(x - 0.25)", (-1, 1), 1e-3, dead_zone=0.5)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"sees": "everything"}, "sees must be 'registers' or 'self', not 'everything'"),
        ({"dead_zone": -1.0}, "dead_zone must be a finite number at or above 0, not -1.0"),
        ({"dead_zone": float("nan")}, "dead_zone must be a finite number"),
    ],
)
def test_wrong_arguments_are_named(arguments: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        ww.approximate("relu(x)", (-1, 1), 1e-3, **arguments)


@pytest.mark.parametrize(
    ("seed", "sees"),
    [
        (1, "registers"),
        (0, "self"),
        *(pytest.param(seed, "registers", marks=pytest.mark.slow) for seed in (0, 2, 3, 4, 5)),
        *(pytest.param(seed, "self", marks=pytest.mark.slow) for seed in (1, 2, 3, 4, 5)),
    ],
)
def test_random_piecewise_linear_functions(seed: int, sees: str) -> None:
    rng = np.random.default_rng(seed)
    pieces = [f"{rng.normal():.2g}*relu({rng.choice([-1, 1])}*(x - {rng.uniform(-1, 1):.3g}))" for _ in range(3)]
    formula = " + ".join([f"{rng.normal():.2g}*x", *pieces])
    dtype, tol = [(torch.float64, 1e-7), (torch.float32, 1e-4)][seed % 2]
    net = ww.approximate(formula, (-1, 1), tol, dtype=dtype, sees=sees)
    at, error = worst_error(net, seed)
    assert error <= net.certificate.bound <= tol, (formula, at)


FORGERIES = {
    "a steeper gate's value": lambda n: changed(n, W_V=nudged(next(n.heads).W_V, (0, 0), 1e-3)),
    "a shifted value": lambda n: changed(n, W_V=nudged(next(n.heads).W_V, (1, 0), 1e-3)),
    "a blunter gate": lambda n: changed(n, beta=next(n.heads).beta / 4),
    "another weight": lambda n: changed(n, W_O=nudged(next(n.heads).W_O, (0, -1), 1e-3)),
    "a gate that crosses elsewhere": lambda n: changed(n, W_K=nudged(next(n.heads).W_K, (1, 1), 1e-3)),
    "a value that would cancel": lambda n: changed(n, W_V=np.where(next(n.heads).W_V != 0, 1.1, 0.0)),
    "a key that reads the input": lambda n: changed(n, W_K=nudged(next(n.heads).W_K, (0, 0), 1e-3)),
    "another start": lambda n: dataclasses.replace(
        n, embed=dataclasses.replace(n.embed, C=nudged(n.embed.C, (0, -1), 1e-3))
    ),
    "another slope": lambda n: dataclasses.replace(
        n,
        embed=dataclasses.replace(
            n.embed, terms=(dataclasses.replace(n.embed.terms[0], A=nudged(n.embed.terms[0].A, (0, -1), 1e-3)),)
        ),
    ),
}


def nudged(array: np.ndarray, index: tuple[int, int], by: float) -> np.ndarray:
    copy = array.copy()
    copy[index] += by
    return copy


def changed(network: Any, **changes: object) -> Any:
    (layer,) = network.layers
    heads = (dataclasses.replace(layer.heads[0], **changes), *layer.heads[1:])
    return dataclasses.replace(network, layers=(dataclasses.replace(layer, heads=heads),))


@pytest.fixture(scope="module")
def gate() -> ww.AttentionNetwork:
    return ww.approximate("abs(x - 0.25)", (-1, 1), 1e-6, sees="self")


@pytest.mark.parametrize("name", FORGERIES)
def test_the_checker_refuses_a_changed_gate(gate: ww.AttentionNetwork, name: str, tmp_path: object) -> None:
    path = f"{tmp_path}/net.safetensors"
    network = FORGERIES[name](gate.network)
    save_forged(network, gate.certificate, path)
    with pytest.raises(ww.CertificateError):
        ww.check(path)


def test_a_wider_dead_zone_must_be_admitted(tmp_path: object) -> None:
    """Boxes that leave out more than the certificate says are refused."""
    path = f"{tmp_path}/net.safetensors"
    ww.approximate("sign(x)", (-1, 1), 1e-6, dead_zone=0.125).save(path)
    network, certificate = certified_file(path)
    for zones in ((), ((-0.0625, 0.0625),), ((0.0, 0.125),), ((0.125, -0.125),)):
        forged = with_claim(certificate, dead_zones=zones)
        told = (*certificate.assumptions, *forged.claim.possible_assumptions(certificate.domain))
        save_forged(network, dataclasses.replace(forged, assumptions=told), path)
        with pytest.raises(ww.CertificateError, match=r"no box covers|is no interval"):
            ww.check(path)
    wider = with_claim(certificate, dead_zones=((-0.25, 0.25),))  # claims less: still true, if it says so
    save_forged(network, wider, path)
    with pytest.raises(ww.CertificateError, match="the certificate hides a dead zone"):
        ww.check(path)
    told = (*certificate.assumptions[:-1], *wider.claim.possible_assumptions(certificate.domain))
    save_forged(network, dataclasses.replace(wider, assumptions=told), path)
    assert ww.check(path).status == "CONDITIONAL"


def test_softshrink_is_written_out() -> None:
    assert canonical("softshrink(x, 0.5)") == "relu(x - 0.5) - relu(-x - 0.5)"
    traced = ww.approximate(torch.nn.Softshrink(0.5), (-1, 1), 1e-4, sees="self")
    assert traced.certificate.formula == "relu(x - 0.5) - relu(-x - 0.5)"
    leaky = ww.approximate(torch.nn.LeakyReLU(0.125), (-1, 1), 1e-4, sees="self")
    x = torch.linspace(-1, 1, 101, dtype=torch.float64)[:, None]
    assert (leaky(x) - torch.nn.LeakyReLU(0.125)(x)).abs().max() <= leaky.certificate.bound


@pytest.mark.parametrize(
    ("formula", "found"),
    [
        ("abs(s)", [(0.0, 0.0, 2.0)]),
        ("clip(s, -0.5, 0.25)", [(-0.5, 0.0, 1.0), (0.25, 0.0, -1.0)]),
        ("sign(s - 0.1)", [(0.1, 2.0, 0.0)]),
        ("sin(s) + 0*relu(s)", []),
        ("abs(abs(s) - 0.5)", [(-0.5, 0.0, 2.0), (0.0, 0.0, -2.0), (0.5, 0.0, 2.0)]),
        ("abs(s**2)", []),
    ],
)
def test_kinks_are_found(formula: str, found: list[tuple[float, float, float]]) -> None:
    kinked = kinks(parse(formula, ("s",)), -1.0, 1.0)
    assert [(k.at, k.jump, pytest.approx(k.bend, abs=1e-6)) for k in kinked] == found
    assert piecewise_linear(parse("abs(abs(s) - 0.5)", ("s",)), -1.0, 1.0)
    assert not piecewise_linear(parse("abs(s)*s", ("s",)), -1.0, 1.0)
