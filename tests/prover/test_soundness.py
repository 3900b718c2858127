"""No violation: random formulas on random domains, searched adversarially. Nothing here has a tolerance."""

from __future__ import annotations

import numpy as np
import pytest
from support.exact import worst_error
from support.formulas import DOMAINS, random_formula, shifted

import weightwright as ww

ISSUE_FORMULAS = [
    "x",
    "exp(x)",
    "sin(5*x)",
    "sin(10*x)",
    "tanh(3*x)",
    "x**2",
    "erf(2*x)",
    "gelu(4*x)",
    "log(2+x)",
    "sqrt(1.5+x)",
    "exp(-x**2)*cos(3*x)",
]
KINKED = ["abs({})", "relu({})", "max({}, 0.3)", "min({}, x/2)", "clip({}, -0.5, 0.5)"]


@pytest.mark.parametrize(
    ("block", "count"), [(0, 8), *(pytest.param(i, 25, marks=pytest.mark.slow) for i in range(10))]
)
def test_random_formulas_never_exceed_their_bound(block: int, count: int) -> None:
    rng = np.random.default_rng(1000 + block)
    proven = 0
    for number in range(count):
        lo, hi = DOMAINS[rng.integers(len(DOMAINS))]
        text = shifted(random_formula(rng, int(rng.integers(0, 4))), lo, hi)
        tol = float(10.0 ** -rng.integers(2, 11))
        try:
            net = ww.approximate(text, (lo, hi), tol)
        except (ww.ToleranceError, ww.FormulaError):
            continue
        proven += 1
        assert net.certificate.status == "PROVEN"
        assert net.certificate.bound <= tol
        at, error = worst_error(net, seed=number)
        assert error <= net.certificate.bound, (text, lo, hi, tol, at, error, net.certificate.bound)
    assert proven >= 0.6 * count, f"only {proven} of {count} formulas were proven: too few to say anything"


@pytest.mark.parametrize(("block", "count"), [(0, 4), *(pytest.param(i, 10, marks=pytest.mark.slow) for i in range(2))])
def test_kinked_formulas_never_exceed_their_bound(block: int, count: int) -> None:
    rng = np.random.default_rng(2000 + block)
    proven = 0
    for number in range(count):
        text = KINKED[rng.integers(len(KINKED))].format(random_formula(rng, 1))
        try:
            net = ww.approximate(text, (-1, 1), 0.05)
        except ww.ToleranceError:
            continue
        proven += 1
        at, error = worst_error(net, seed=number)
        assert error <= net.certificate.bound, (text, at, error, net.certificate.bound)
    assert proven >= 0.6 * count


@pytest.mark.few(4)
@pytest.mark.parametrize("formula", ISSUE_FORMULAS)
@pytest.mark.parametrize("tol", [1e-8, 1e-10])
def test_smooth_functions_are_proven_with_few_anchors(formula: str, tol: float) -> None:
    net = ww.approximate(formula, (-1, 1), tol)
    assert net.certificate.status == "PROVEN"
    assert net.certificate.bound <= tol
    assert len(net.network.registers) <= 32
    at, error = worst_error(net, seed=7)
    assert error <= net.certificate.bound, (formula, at, error)
    # a bound a thousand times too large would be sound and useless
    assert error >= net.certificate.bound / 1000 or net.certificate.bound < 1e-13


@pytest.mark.slow
def test_runge_needs_at_most_96_anchors() -> None:
    for tol in (1e-8, 1e-10):
        net = ww.approximate("1/(1+25*x**2)", (-1, 1), tol)
        assert (net.certificate.status, len(net.network.registers) <= 96) == ("PROVEN", True)
        assert worst_error(net, seed=7)[1] <= net.certificate.bound <= tol


@pytest.mark.few(5)
@pytest.mark.parametrize("formula", ["x", "x**2", "sin(5*x)", "log(x)", "sqrt(x)", "1/x", "sigmoid(x - 6)"])
@pytest.mark.parametrize("domain", [(1000, 1001), (5, 7)])
def test_domains_away_from_zero(formula: str, domain: tuple[int, int]) -> None:
    net = ww.approximate(formula, domain, 1e-8)
    assert net.certificate.status == "PROVEN"
    assert worst_error(net, seed=3)[1] <= net.certificate.bound <= 1e-8


def test_a_wide_domain() -> None:
    net = ww.approximate("sin(x/50)", (-500, 500), 1e-8)
    assert worst_error(net, seed=3)[1] <= net.certificate.bound <= 1e-8


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("formula", "domain", "tol"), [("x", (-1, 1), 1e-3), ("cos(3*x)", (2, 4), 1e-2), ("x", (0, 5), 1e-2)]
)
def test_the_faithful_head_never_exceeds_its_bound(formula: str, domain: tuple[int, int], tol: float) -> None:
    net = ww.approximate(formula, domain, tol, method="faithful")
    assert net.certificate.status == "PROVEN"
    at, error = worst_error(net, seed=5)
    assert error <= net.certificate.bound <= tol, (at, error)
    assert error >= net.certificate.bound / 5  # the papers' head really is that coarse
