"""A dead zone is an assumption: told with its interval and share, conditional if it is large, known to `net(x)`."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from support.forging import save_forged

import weightwright as ww
from weightwright.claims.scope import percent


def straight_line(told: bool, path: Path) -> None:
    """A file of a straight line which claims sin(5*x) on [-1, 1] outside of a dead zone of 99.9% of it."""
    net = ww.approximate("-0.958924274663138*x", (-1, 1), 1e-9, progress=False)
    said, zone = net.certificate, (-0.999, 0.999)
    leaf = dataclasses.replace(
        said.claim.leaf, formula="sin(5*s)", lipschitz=5.0,
        terms=dataclasses.replace(said.claim.leaf.terms, approximation=0.004),
        boxes=np.array([[said.claim.leaf.lo, -0.999], [0.999, said.claim.leaf.hi]]),
    )  # fmt: skip
    terms = dataclasses.replace(said.terms, approximation=0.004, rounding=max(said.terms.rounding, 1e-12))
    for _ in range(2):
        claim = dataclasses.replace(said.claim, leaf=leaf, dead_zones=(zone,))
        assumed = (*said.assumptions, *claim.possible_assumptions(said.domain)) if told else said.assumptions
        lie = dataclasses.replace(
            said, claim=claim, formula="sin(5*x)", terms=terms, bound=0.005, assumptions=assumed
        )  # fmt: skip
        save_forged(net.network, lie, path)
        try:
            ww.check(path)
            return
        except ww.CertificateError as error:  # which says in what form the layer's formula is expected
            expected = re.search(r"must compute '(.*)', but", str(error))
            if expected is None:
                raise
            leaf = dataclasses.replace(leaf, formula=expected.group(1))
    raise AssertionError("the checker refuses what it asked for")


def test_a_zone_that_is_not_told_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ww.CertificateError, match="the certificate hides a dead zone"):
        straight_line(told=False, path=tmp_path / "line.safetensors")


def test_a_zone_over_nearly_everything_is_conditional_and_seen(tmp_path: Path) -> None:
    path = tmp_path / "line.safetensors"
    straight_line(told=True, path=path)
    said = ww.check(path)
    zone = "x does not lie between -0.999 and 0.999 (99.9% of the domain)"
    assert (said.status, said.why) == ("CONDITIONAL", zone)
    assert zone in said.assumptions
    assert "dead zone -0.999 to 0.999, 99.9% of the domain, CONDITIONAL" in repr(said)
    net = ww.load(path)
    inside, outside = (torch.tensor([[value]], dtype=torch.float64) for value in (0.5, 0.9995))
    with pytest.raises(ww.DomainError, match=r"in the dead zone between -0\.999 and 0\.999"):
        net(inside)
    assert net.certifies(torch.cat([inside, outside])).tolist() == [False, True]
    assert ww.check(path, dead_share=1.0).status == "PROVEN"
    with pytest.raises(ValueError, match=r"dead_share = -1\.0 must be a number between 0 and 1"):
        ww.check(path, dead_share=-1.0)


@pytest.mark.parametrize("width", [0.001, 0.01, 0.011, 0.5])
def test_what_the_caller_asks_for_is_told(width: float) -> None:
    said = ww.approximate("sign(x)", (-1, 1), 1e-3, dead_zone=width, progress=False).certificate
    assert [zone.share for zone in said.zones] == [width]
    assert said.status == ("PROVEN" if width <= 0.01 else "CONDITIONAL")
    assert f"between {-width!r} and {width!r} ({percent(width)} of the domain)" in said.why


def jump(x: torch.Tensor) -> torch.Tensor:
    return torch.sign(x[..., :1] - x[..., 1:])


def jump_of_a_square(x: torch.Tensor) -> torch.Tensor:
    return torch.sign(x * x - 0.25)


def compiled_jump(zone: float) -> ww.AttentionNetwork:
    return ww.compile(jump, (-1, 1), 1e-3, features=2, dead_zone=zone, progress=False)


def test_the_share_of_an_affine_argument_is_bounded() -> None:
    """Of x - y on a square the zone covers 1 - (1 - zone/2)^2; the bound is zone."""
    said = compiled_jump(0.1).certificate
    (zone,) = said.zones
    points = np.random.default_rng(0).uniform(-1, 1, (100_000, 2))
    assert np.mean(np.abs(points[:, 0] - points[:, 1]) < 0.1) <= zone.share <= 0.1 * (1 + 1e-9)
    assert said.status == "CONDITIONAL"
    assert compiled_jump(0.01).certificate.status == "PROVEN"


def test_an_unknown_share_is_conditional() -> None:
    said = ww.compile(jump_of_a_square, (-1, 1), 1e-3, features=1, dead_zone=0.05, progress=False).certificate
    assert [zone.share for zone in said.zones] == [None]
    assert said.status == "CONDITIONAL"
    assert "(an unknown share of the domain)" in said.why


def test_the_module_knows_dead_zones_of_arguments() -> None:
    net = compiled_jump(0.1)
    x = torch.tensor([[[0.5, 0.0]], [[0.5, 0.45]]], dtype=torch.float64)
    assert float(net(x[:1])) == pytest.approx(1, abs=1e-3)
    with pytest.raises(ww.DomainError, match=r"x\[1\] brings an argument into a dead zone \(-0\.1 to 0\.1\)"):
        net(x)
    assert net.certifies(x).flatten().tolist() == [True, False]
    with pytest.raises(ww.DomainError, match=r"under torch\.compile or torch\.func"):
        torch.vmap(net)(x)
    net.on_domain = "ignore"
    assert net(x).shape == (2, 1, 1)


@pytest.mark.parametrize("on_domain", ["raise", "clamp"])
def test_compiled_and_mapped_calls_know_the_zone(on_domain: str) -> None:
    net = ww.approximate("sign(x)", (-1, 1), 1e-3, dead_zone=0.1, on_domain=on_domain, progress=False)
    x = torch.tensor([[[0.5]], [[0.05]]], dtype=torch.float64)
    for run in (net, torch.vmap(net), torch.compile(net, backend="eager", fullgraph=True)):
        assert float(run(x[:1])) == pytest.approx(1, abs=1e-3)
        with pytest.raises(ww.DomainError, match=r"'x\[0\]' of token 0 is 0\.05, in the dead zone"):
            run(x)
