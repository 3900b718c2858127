"""Graded keys: functions whose singularity lies just outside the interval, and squares of small numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from support.exact import errors, worst_error

import weightwright as ww
from weightwright.approximation.table import propose_squares, square_proposal
from weightwright.certify import confirm
from weightwright.expressions import parse
from weightwright.heads.graded import GradedDesigner, Grading, graded_keys, graded_square, singularity

MOST_KEYS = 150

NEWTON = "(1 + x)/2"
for _ in range(5):
    NEWTON = f"0.5*({NEWTON} + x/({NEWTON}))"

SINGULAR = [
    ("1/sqrt(x)", (1e-5, 30), 1e-8),
    ("1/sqrt(x)", (1e-2, 10), 1e-10),
    ("1/x", (0.03, 0.71), 1e-9),
    ("1/x", (1e-3, 1), 1e-7),
    ("1/x", (-3, -0.01), 1e-8),
    ("log(x)", (1e-3, 10), 1e-9),
    ("sqrt(x)", (1e-4, 4), 1e-8),
    ("x**1.5", (1e-4, 4), 1e-8),
    ("x**2.5", (1e-3, 10), 1e-8),
    ("x**(-1.5)", (1e-2, 10), 1e-8),
    ("1/sqrt(x + 0.01)", (0, 9), 1e-8),
    ("1/(5 - 2*x)", (0, 2.4999), 1e-5),
    ("1/sqrt(x - 5)", (5.00001, 35), 1e-6),
    ("3*log(10*x + 7) - 2", (-0.6999, 5), 1e-9),
    ("log(x/(1 - x))", (0.001, 0.999), 1e-8),
    ("1/x + sin(20*x)", (0.01, 2), 1e-7),
]
#: The others of these run with the slow tests.
QUICK = (0, 4, 5)
REGULAR = [
    ("1/x", (80, 120), 1e-13),
    ("exp(x)", (-8, 8), 1e-8),
    ("exp(x)", (-20, 3), 1e-9),
    (NEWTON, (0.5, 4), 1e-9),
]


def keys(net: ww.AttentionNetwork) -> int:
    return len(net.network.registers)


def closer_and_closer(lo: float, hi: float) -> np.ndarray:
    """Points of the domain at every scale from either end."""
    steps = (hi - lo) * np.geomspace(1e-9, 1.0, 120)
    return np.clip(np.concatenate([[lo, hi], lo + steps, hi - steps]), lo, hi)


def within_its_bound(net: ww.AttentionNetwork) -> None:
    """No tolerance, at every scale from the ends."""
    certificate = net.certificate
    x = torch.tensor(closer_and_closer(certificate.domain.lo[0], certificate.domain.hi[0]), dtype=net.dtype).double()
    x = x.clamp(certificate.domain.lo[0], certificate.domain.hi[0])
    y = net(x[:, None].to(net.dtype)).double()[:, 0].tolist()
    assert max(float(error.upper()) for error in errors(certificate.formula, x.tolist(), y)) <= certificate.bound


@pytest.mark.parametrize(
    ("formula", "domain", "tol"),
    [pytest.param(*case, marks=() if i in QUICK else pytest.mark.slow) for i, case in enumerate(SINGULAR)],
)
def test_a_singularity_just_outside(formula: str, domain: tuple[float, float], tol: float) -> None:
    net = ww.approximate(formula, domain, tol)
    assert net.certificate.status == "PROVEN"
    assert net.certificate.bound <= tol
    assert keys(net) <= MOST_KEYS
    assert "graded anchors" in next(net.network.heads).role
    within_its_bound(net)
    assert worst_error(net, seed=5, seconds=0.01)[1] <= net.certificate.bound


@pytest.mark.parametrize(
    ("formula", "domain", "tol"),
    [pytest.param(*case, marks=pytest.mark.slow if i in (1, 3) else ()) for i, case in enumerate(REGULAR)],
)
def test_what_has_none_keeps_the_uniform_grid(formula: str, domain: tuple[float, float], tol: float) -> None:
    net = ww.approximate(formula, domain, tol)
    assert net.certificate.bound <= tol
    assert keys(net) <= 60
    assert "soft anchors" in next(net.network.heads).role
    within_its_bound(net)


@pytest.mark.parametrize(
    ("formula", "reach", "tol", "most"),
    [
        ("x/sqrt(1 + x**2)", 16, 1e-9, 48),
        pytest.param("2*x/(1 + x**2)", 16, 1e-9, 60, marks=pytest.mark.slow),
        ("softplus(x)", 100, 1e-6, 48),
        pytest.param("gelu(x)", 100, 1e-6, 72, marks=pytest.mark.slow),
    ],
)
def test_keys_crowd_in_the_middle_of_a_long_interval(formula: str, reach: float, tol: float, most: int) -> None:
    net = ww.approximate(formula, (-reach, reach), tol)
    assert net.certificate.bound <= tol
    assert keys(net) <= most
    assert "graded anchors" in next(net.network.heads).role
    within_its_bound(net)


@pytest.mark.parametrize(
    ("formula", "domain", "largest"),
    [("1/sqrt(x)", (1e-5, 30), 317.0), ("1/x", (0.03, 0.71), 34.0), ("log(x)", (1e-3, 10), 7.0)],
)
def test_float32(formula: str, domain: tuple[float, float], largest: float) -> None:
    net = ww.approximate(formula, domain, 1e-4 * largest, dtype=torch.float32)
    assert net.certificate.status == "PROVEN"
    within_its_bound(net)


def test_more_keys_than_there_may_be_are_not_tried() -> None:
    with pytest.raises(ww.ToleranceError, match=r"best bound found is .* with (1?\d|20) anchors") as caught:
        ww.approximate("1/x", (0.03, 0.71), 1e-9, max_anchors=20)
    assert caught.value.best is not None


def test_fewer_keys_for_a_weaker_tolerance_and_logarithmically_many_for_a_closer_singularity() -> None:
    counts = [keys(ww.approximate("1/x", (0.01, 1), tol)) for tol in (1e-2, 1e-4, 1e-6)]
    assert counts == sorted(set(counts))
    near, nearer = (keys(ww.approximate("sqrt(x)", (lo, 1), 1e-6)) for lo in (1e-3, 1e-6))
    assert near < nearer < 2 * near


@pytest.mark.parametrize(
    ("grading", "lo", "hi"),
    [
        (Grading(0.0, math.inf), 1e-3, 1.0),
        (Grading(-math.inf, 0.5), -2.0, 0.49),
        (Grading(0.0, math.inf, 0.1), 1e-3, 1.0),
        (Grading(-math.inf, 0.5, 0.3), -2.0, 0.49),
        (Grading(-1.01, 1.001), -1.0, 1.0),
    ],
)
def test_places_are_the_inverse_of_levels(grading: Grading, lo: float, hi: float) -> None:
    s = np.linspace(lo, hi, 50)
    levels = np.array([grading.level(x) for x in s])
    np.testing.assert_allclose(grading.place(levels), s, rtol=1e-9, atol=1e-12)
    assert (np.diff(levels) > 0).all()


def test_neighbouring_lines_cross_half_way_and_the_widest_has_slope_0() -> None:
    grading = Grading(0.0, math.inf)
    table = graded_keys(0.01, 1.0, grading, 0.5, 0.2, 2)
    crossings = -np.diff(table.offsets) / np.diff(table.keys)
    assert (np.diff(crossings) > 0).all()
    np.testing.assert_allclose(np.diff(np.log(crossings)), np.diff(np.log(crossings))[0], rtol=1e-9)
    assert table.keys[-1] == table.offsets[-1] == 0
    assert (np.diff(table.keys) > 0).all()


@pytest.mark.parametrize(
    ("coefficients", "away"),
    [
        (lambda n: (-2.0) ** n, -0.5),  # 1 / (1 + 2 t)
        (lambda n: 4.0**n / np.maximum(n, 1), 0.25),  # log(1 - 4 t)
        (lambda n: 1 / np.array([math.factorial(i) for i in n]), math.inf),  # exp
        (lambda n: np.cos(n * np.pi / 2) * 3.0**n, math.inf),  # 1 / (1 + 9 t^2): beside the line
        (lambda n: 2.0**n * (1 + 0.5 * (-1.0) ** n), math.inf),  # one on either side, equally far
        (lambda n: np.where(n < 3, 1.0, 0.0), math.inf),  # a polynomial
    ],
)
def test_the_distance_of_a_singularity(coefficients: object, away: float) -> None:
    assert callable(coefficients)
    assert singularity(coefficients(np.arange(15))) == pytest.approx(away, rel=1e-2)


def test_a_fit_that_resolves_nothing_says_so() -> None:
    arguments = ([Grading(0.0, math.inf)], 1e-7, 40, "float64")
    wave = GradedDesigner(lambda s: np.sin(3000 * s), 0.001, 1.0, *arguments)
    root = GradedDesigner(np.sqrt, 0.001, 1.0, *arguments)
    for designer in (wave, root):
        designer.candidates(1e-7)
    assert not wave.resolves
    assert root.resolves


def test_what_a_formula_repeats_is_one_object() -> None:
    product = parse("(x + 1)*(x + 1)")
    assert product.args[0] is product.args[1]  # type: ignore[union-attr]


def relative_square(reach: float, tol: float, dtype: str = "float32") -> ww.AttentionNetwork:
    proposal = square_proposal(reach, tol, dtype)
    network = proposal.network()
    return ww.AttentionNetwork(network, confirm(network, proposal.certificate(network)))


@pytest.mark.parametrize("reach", [1e-3, pytest.param(3.0, marks=pytest.mark.slow)])
def test_squares_of_small_numbers_in_float32(reach: float) -> None:
    net = relative_square(reach, 1e-5 * reach**2)
    assert net.certificate.status == "PROVEN"
    within_its_bound(net)
    top = float(net.certificate.domain.hi[0])
    x = torch.tensor(np.append(0.0, np.geomspace(1e-6, 1.0, 4000)) * top, dtype=torch.float32).clamp(max=reach)
    x = torch.cat([-x, x])
    error = (net(x[:, None]).double()[:, 0] - x.double() ** 2).abs()
    assert (error <= 4e-6 * (x.double() ** 2 + 1e-7 * reach**2)).all()
    assert error.max() <= 5e-7 * reach**2


def test_a_uniform_grid_is_far_worse_at_small_numbers() -> None:
    x = torch.tensor([[1e-3], [3e-3]])
    uniform, graded = (ww.approximate("x**2", (-1, 1), 5e-6, dtype=torch.float32), relative_square(1.0, 5e-6))
    off = [(net(x).double() - x.double() ** 2).abs().max() for net in (uniform, graded)]
    assert off[0] > 1000 * off[1]


def test_a_square_as_a_table() -> None:
    part = propose_squares(2.0, 4e-5, "float32")
    assert part.profile == "x**2"
    assert part.keys == 70
    assert part.bound <= 4e-5


def test_squares_that_cannot_be() -> None:
    with pytest.raises(ww.ToleranceError, match=r"tol=1e-09 cannot be proven by graded keys: the bound is") as caught:
        relative_square(1.0, 1e-9)
    assert caught.value.best is not None
    with pytest.raises(ValueError, match="reach must be a positive finite number, not -1"):
        graded_square(-1.0, "float32")
    with pytest.raises(ValueError, match="dtype must be one of 'float64', 'float32', 'bfloat16', not 'float16'"):
        relative_square(1.0, 1e-5, "float16")
    with pytest.raises(ValueError, match="tol must be a positive finite number"):
        relative_square(1.0, 0.0)
