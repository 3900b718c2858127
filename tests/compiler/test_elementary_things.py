"""Elementary things that a person tries: limits, switches, order, angles, quadratic forms. All PROVEN, none wrong."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from support.forging import refused
from torch import Tensor

import weightwright as ww

Function = Callable[[Tensor], Tensor]
TWO = ww.Box([-1, -1], [1, 1])
FIVE = ww.Box([-1] * 5, [1] * 5)


def sorted_by_hand(x: Tensor) -> Tensor:
    """Nine comparisons."""
    numbers = list(x.unbind(-1))
    for i, j in ((0, 3), (1, 4), (0, 2), (1, 3), (0, 1), (2, 4), (1, 2), (3, 4), (2, 3)):
        numbers[i], numbers[j] = torch.minimum(numbers[i], numbers[j]), torch.maximum(numbers[i], numbers[j])
    return torch.stack(numbers, -1)


def by_its_limit(x: Tensor) -> Tensor:
    return torch.where(x == 0, 1.0, torch.expm1(x) / x)


#: The function, its domain, and one that gives the same without 0 / 0 (None: itself).
SMOOTH: dict[str, tuple[Function, ww.Box | tuple[float, float], Function | None]] = {
    "sin(x)/x": (lambda x: torch.sin(x) / x, (-2, 3), lambda x: torch.sinc(x / torch.pi)),
    "sinc": (torch.sinc, (-2, 2), None),
    "a reciprocal": (
        lambda x: torch.tanh(x) * torch.reciprocal(x),
        (-1, 2),
        lambda x: torch.where(x == 0, 1.0, torch.tanh(x) / x),
    ),
    "of a product": (
        lambda x: torch.sin(x[:, 0] * x[:, 1]) / (x[:, 0] * x[:, 1]),
        TWO,
        lambda x: torch.sinc(x[:, 0] * x[:, 1] / torch.pi),
    ),
    "leaky": (lambda x: torch.where(x > 0, x, 0.125 * x), (-1, 1), None),
    "Huber": (lambda x: torch.where(x.abs() <= 1, x**2 / 2, x.abs() - 0.5), (-3, 3), None),
    "the larger": (lambda x: torch.where(x[:, :1] > x[:, 1:], x[:, :1], x[:, 1:]), TWO, None),
    "masked": (lambda x: x * (x > 0) - x.masked_fill(~(x < 0), 0.0), TWO, None),
    "sort": (lambda x: torch.sort(x, dim=-1, descending=True).values, FIVE, None),
    "sorted by hand": (sorted_by_hand, FIVE, None),
    "median": (lambda x: torch.median(x, dim=-1).values, FIVE, None),
    "two largest": (lambda x: torch.topk(x, 2).values + x.kthvalue(2, keepdim=True).values, FIVE, None),
    "a square inside": (lambda x: 1 / (x[:, 0] ** 2 + x[:, 1] ** 2 - 2 * x[:, 0] * x[:, 1] + 0.25), TWO, None),
    "no square": (lambda x: torch.log(2 * x[:, 0] ** 2 + x[:, 0] * x[:, 1] + 3 * x[:, 1] ** 2 + 0.5), TWO, None),
    "angle, right": (lambda x: torch.atan2(x[:, 0], x[:, 1] + 1.5), TWO, None),
    "angle, above": (lambda x: torch.atan2(x[:, 0] + 1.5, x[:, 1]), TWO, None),
    "angle, below": (lambda x: torch.atan2(x[:, 0] - 1.5, x[:, 1]), TWO, None),
}


def numbers_of(box: ww.Box, count: int = 2000) -> Tensor:
    """Random ones, some of few digits so that they meet, and 0."""
    rng = np.random.default_rng(3)
    x = rng.uniform(box.lo, box.hi, (count, len(box.lo)))
    x[::3] = np.clip(np.round(x[::3], 1), box.lo, box.hi)
    x[0] = np.clip(0.0, box.lo, box.hi)
    return torch.tensor(x)


@pytest.mark.few(7)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name == "a reciprocal")) for name in SMOOTH]
)
def test_it_is_proven_and_right(name: str) -> None:
    function, domain, same = SMOOTH[name]
    net = ww.compile(function, domain, 1e-4)
    assert net.certificate is not None
    assert net.certificate.status == "PROVEN"
    x = numbers_of(ww.Box.of(domain))
    expected = (same or function)(x)
    assert float((net(x) - expected.reshape(len(x), -1)).abs().max()) <= net.certificate.bound + 1e-12


#: The function, its domain, and what is compared with 0 where it jumps.
JUMPS: dict[str, tuple[Function, ww.Box | tuple[float, float], Function]] = {
    "two sides": (lambda x: torch.where(x > 0.2, x * x, torch.sin(x)), (-1, 1), lambda x: x - 0.2),
    "two numbers": (lambda x: torch.where(x[:, 0] < x[:, 1], x[:, 0] - 2, x[:, 1]), TWO, lambda x: x[:, 0] - x[:, 1]),
    "sign": (lambda x: torch.sign(x) * (x + 2), (-1, 1), lambda x: x),
    "a count": (lambda x: (x >= 0.5).double().sum(-1), FIVE, lambda x: x - 0.5),
    "the cut": (lambda x: torch.atan2(x[:, 0], x[:, 1] - 1.5), TWO, lambda x: x[:, 0]),
}
ZONE = 0.01
#: Where the zone covers 1% of what a single input from [-1, 1] moves; of five inputs it covers 5%.
SMALL = ("two sides", "two numbers", "sign", "the cut")


def jumping(name: str) -> tuple[ww.AttentionNetwork, Tensor, Tensor, Tensor]:
    """The network, inputs, what they should give, and which are outside the dead zone."""
    function, domain, gap = JUMPS[name]
    net = ww.compile(function, domain, 1e-4, dead_zone=ZONE, on_domain="ignore")
    x = numbers_of(ww.Box.of(domain))
    return net, x, function(x).reshape(len(x), -1), (gap(x).reshape(len(x), -1).abs() >= ZONE).all(-1)


@pytest.mark.few(3)
@pytest.mark.parametrize("name", JUMPS)
def test_jumps_have_a_dead_zone(name: str) -> None:
    net, x, expected, outside = jumping(name)
    said = net.certificate
    assert said is not None
    assert said.status == ("PROVEN" if name in SMALL else "CONDITIONAL")
    assert any(
        "nothing is claimed where the argument of a unit lies between -0.01 and 0.01" in a for a in said.assumptions
    )
    assert float((net(x) - expected)[outside].abs().max()) <= said.bound
    assert not net.certifies(x)[~outside].any()
    with pytest.raises(ww.UnsupportedOperation, match="dead_zone=d"):
        ww.compile(*JUMPS[name][:2], 1e-4)


def test_a_dead_zone_is_around_a_jump_and_is_not_hidden(tmp_path: Path) -> None:
    """A graph's zones: wider, elsewhere, on a function that does not jump, or not told, they are refused."""
    net, *_ = jumping("two sides")
    said = net.certificate
    assert said is not None
    composite = said.composite
    assert composite is not None
    place = next(i for i, part in enumerate(composite.parts) if len(part.zones))
    other = next(i for i, part in enumerate(composite.parts) if not len(part.zones))

    def with_zones(index: int, zones: list[list[float]], told: bool = True) -> None:
        parts = list(composite.parts)
        parts[index] = dataclasses.replace(parts[index], zones=np.array(zones).reshape(-1, 2))
        claim = dataclasses.replace(composite, parts=tuple(parts))
        words = tuple(dict.fromkeys((*said.assumptions, *(claim.left_out if told else ()))))
        refused(net.network, dataclasses.replace(said, claim=claim, assumptions=words), tmp_path)

    with_zones(place, [])  # then a jump must be within the bound
    with_zones(place, [[-1e-9, 1e-9]])
    with_zones(place, [[0.5, 0.6], [-0.01, 0.01]])  # no jump there
    with_zones(place, [[-9.0, 9.0]])  # nothing is left
    with_zones(place, [[-0.02, 0.02]], told=False)
    with_zones(other, [[-0.01, 0.01]])  # no function that jumps


def test_what_has_no_angle_is_refused() -> None:
    with pytest.raises(ww.FormulaError, match=r"angle of \(0, 0\) is not defined.*keeps its sign"):
        ww.compile(lambda x: torch.atan2(x[:, 0], x[:, 1]), TWO, 1e-3, dead_zone=0.1)


@pytest.mark.parametrize("zone", [-0.1, float("nan"), "wide"])
def test_a_dead_zone_that_is_no_number_is_refused(zone: float) -> None:
    with pytest.raises(ValueError, match="dead_zone must be a finite number at or above 0"):
        ww.compile(torch.sign, (-1, 1), 1e-3, dead_zone=zone)


def test_a_dead_zone_must_leave_something() -> None:
    with pytest.raises(ww.ToleranceError, match=r"dead_zone=5 leaves nothing of what is compared.*in \[-1, 1\]"):
        ww.compile(torch.sign, (-1, 1), 1e-3, dead_zone=5.0)
    with pytest.raises(ww.ToleranceError, match=r"sign\(x\) on \[-1, 1\]: dead_zone=5 leaves nothing of the domain"):
        ww.approximate("sign(x)", (-1, 1), 1e-3, dead_zone=5.0)


@pytest.mark.few(1)
@pytest.mark.parametrize("text", ["(1 - cos(x))/x**2", "1/x - 1/sin(x)"])
def test_formulas_are_proven_through_their_limit_and_forgeries_are_not(text: str, tmp_path: Path) -> None:
    net = ww.approximate(text, (-0.75, 0.5), 1e-6)
    said = net.certificate
    assert said is not None
    assert said.status == "PROVEN"
    leaf = said.claim.leaf  # type: ignore[union-attr]
    lie = dataclasses.replace(leaf, terms=dataclasses.replace(leaf.terms, approximation=leaf.terms.approximation / 64))
    refused(net.network, dataclasses.replace(said, claim=dataclasses.replace(said.claim, leaf=lie)), tmp_path)
    for other in ("cos(x)/x", "sin(x)/(x + 0.001)", "sin(x)/x**2"):
        local = leaf.formula.replace(said.formula.replace("x", "s"), other.replace("x", "s"))
        claim = dataclasses.replace(said.claim, leaf=dataclasses.replace(leaf, formula=local))
        refused(net.network, dataclasses.replace(said, claim=claim, formula=other), tmp_path)
