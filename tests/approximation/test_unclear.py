"""Functions whose values are finite, and whose slopes are not, or whose ranges are too coarse to show it: measured."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import weightwright as ww
from weightwright.enclosures.intervals.intervals import Interval
from weightwright.enclosures.intervals.jets import jet
from weightwright.expressions import parse

PLANE, UNIT = ww.Box([-1, -1], [1, 1]), ww.Box([0], [1])


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("function", "domain", "tol"),
    [
        (torch.sqrt, UNIT, 2e-2),
        (lambda x: x**1.5, UNIT, 1e-3),
        (lambda x: 1 / (x[:, 0] ** 2 + x[:, 1] ** 2 - 1.9 * x[:, 0] * x[:, 1] + 0.1), PLANE, 2e-1),
    ],
)
def test_defined_functions_are_measured(function: Any, domain: ww.Box, tol: float) -> None:
    net = ww.compile(function, domain, tol, proof="measured")
    certificate = net.certificate
    assert certificate is not None
    assert certificate.status == "MEASURED"
    assert certificate.measured is not None
    assert certificate.measured.error <= tol
    assert "built from values of the function: " in certificate.measured.reason
    assert "is undefined or unbounded: " in certificate.measured.reason
    x = torch.tensor(np.random.default_rng(0).uniform(domain.lo, domain.hi, (500, len(domain.lo))))
    x[0] = torch.tensor(domain.lo)
    assert (net(x).ravel() - function(x).ravel()).abs().max() <= certificate.measured.error


@pytest.mark.parametrize(
    ("function", "domain"),
    [
        (lambda x: 1 / (x - 0.3), ww.Box([-1], [1])),
        (lambda x: 1e-9 / (x[:, 0] - x[:, 1]), PLANE),
        (torch.log, UNIT),
        (lambda x: x**-0.5, UNIT),
        (torch.sqrt, ww.Box([-1e-9], [1])),
    ],
)
def test_functions_with_poles_stay_refused(function: Any, domain: ww.Box) -> None:
    with pytest.raises(ww.FormulaError, match="is undefined or unbounded"):
        ww.compile(function, domain, 1.0, proof="measured")


def test_what_is_unclear_has_a_public_name() -> None:
    """Columns that are positive, which their ranges do not show: neither undefined for certain, nor defined."""
    with pytest.raises(
        ww.UnclearError, match=r"its argument may be anything between .* Take a smaller domain"
    ) as caught:
        ww.compile(nn.LayerNorm(3).eval(), (-1e6, 1e6), 1e-3)
    assert isinstance(caught.value, ww.FormulaError)
    assert "UnclearError" in ww.__all__
    with pytest.raises(ww.FormulaError, match="its argument is ") as certain:
        ww.compile(torch.log, ww.Box([-1], [1]), 1e-3)
    assert not isinstance(certain.value, ww.UnclearError)


@pytest.mark.parametrize("exponent", ["0.5", "1.5", "0.001", "3.7"])
def test_powers_from_zero_hold_their_values(exponent: str) -> None:
    lo, hi = np.array([0.0, 0.0, 0.0, 0.25, -1.0]), np.array([0.0, 1e-300, 2.0, 0.5, 1.0])
    power = jet(parse(f"x**{exponent}", ("x",)), Interval(lo, hi), 0)[0]
    for i in range(4):
        points = np.linspace(lo[i], hi[i], 11) ** float(exponent)
        assert (power.lo[i] <= points).all()
        assert (points <= power.hi[i]).all()
    assert np.isfinite(power.hi[:4]).all()
    assert not np.isfinite(power.hi[4])
