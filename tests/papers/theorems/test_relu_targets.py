"""One hidden layer of ReLUs for given functions, and the checker's rules about them."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from papers.support.ridges import SMOOTH, SOFT_MAXIMUM, built, exactly, measured, outputs, points
from support.stored import stored_and_read
from torch import nn

import weightwright as ww
from weightwright.papers.checker.relu_formulas import agree_formulas
from weightwright.papers.claims.ridge_functions import FormulasClaim, RidgeFunctions
from weightwright.papers.relu.relu_target import from_module, piecewise_linear, plane_waves


def random_kinked(rng: np.random.Generator, N: int) -> str:
    def number() -> str:
        return f"({int(rng.integers(-6, 7)) / 4})"

    def affine() -> str:
        return "(" + " + ".join([*(f"{number()}*x{i}" for i in range(N)), number()]) + ")"

    kinds = [
        lambda: f"max({affine()}, {affine()})",
        lambda: f"min({affine()}, {affine()})",
        lambda: f"abs({affine()})",
        lambda: f"relu({affine()})",
        lambda: f"clip({affine()}, -0.5, 1.25)",
        lambda: f"relu(2 - abs({affine()}))",
        affine,
    ]
    parts = [f"{number()}*{kinds[int(rng.integers(len(kinds)))]()}" for _ in range(int(rng.integers(1, 5)))]
    return " + ".join(parts)


@pytest.mark.parametrize("seed", range(20))
def test_piecewise_linear_formulas_are_exact(seed: int) -> None:
    rng = np.random.default_rng(seed)
    N = int(rng.integers(1, 4))
    formulas = [random_kinked(rng, N) for _ in range(int(rng.integers(1, 4)))]
    ridge, claim = piecewise_linear(formulas, N)
    assert (claim.rule, claim.error) == ("exact", 0.0)
    agree_formulas(ridge, claim, -np.ones(N), np.ones(N))
    for _ in range(40):
        x = [Fraction(int(rng.integers(-400, 401)), int(rng.integers(1, 60))) for _ in range(N)]
        assert outputs(ridge, x) == [exactly(formula, x) for formula in formulas]


@pytest.mark.parametrize(
    ("formulas", "N", "units"),
    [
        (["min(x0, x1)", "max(x0, x1)"], 2, 1),
        (["clip(x0 + x1, -1, 1)"], 2, 2),
        (["clip(x0, x1, x1 + 2)"], 2, 2),
        (["clip(x0, 2, 1)"], 1, 0),
        (["relu(x0) + relu(-x0)", "abs(x0)"], 1, 1),
        (["max(abs(x0), 1)"], 1, 2),
        (["abs(abs(abs(x0) - 2) - 1)"], 1, 7),
        (["relu(relu(x0 - 2*x1))"], 2, 1),
        (["relu(x0) - relu(-x0) - x0"], 1, 0),
        (["relu(0.5*x0) - relu(x0)/2 + 3"], 1, 0),
        (["x1 - x0"], 2, 0),
    ],
)
def test_equal_kinks_are_one_unit(formulas: list[str], N: int, units: int) -> None:
    ridge, claim = piecewise_linear(formulas, N)
    assert len(ridge.profiles) == units
    agree_formulas(ridge, claim, -np.ones(N), np.ones(N))
    for x in product((Fraction(-3), Fraction(-5, 4), Fraction(0), Fraction(1, 3), Fraction(7, 2)), repeat=N):
        assert outputs(ridge, list(x)) == [exactly(formula, list(x)) for formula in formulas]


def test_traced_functions_are_read() -> None:
    ridge, claim = piecewise_linear([lambda a, b: torch.maximum(a, b) * 0.1], 2)
    assert claim.error == 0.0
    agree_formulas(ridge, claim, -np.ones(2), np.ones(2))
    assert outputs(ridge, [Fraction(2), Fraction(3)]) == [3 * Fraction(0.1)]


@pytest.mark.parametrize("formula", ["0.1*max(x0, x1)", "max(x0/3, x1) + relu(x0 - 0.1)", "abs(x0)/7 - 0.3*x1 + 0.2"])
def test_coefficients_that_are_no_floats_are_rounded_on_a_domain(formula: str) -> None:
    with pytest.raises(ww.FormulaError, match="no float64"):
        piecewise_linear([formula], 2)
    domain = ww.Box([-1.0, -3.0], [2.0, 1.0])
    ridge, claim = piecewise_linear([formula], 2, domain)
    assert 0 < claim.error < 1e-15
    agree_formulas(ridge, claim, domain.lo, domain.hi)
    rng = np.random.default_rng(5)
    for point in [*product((-1.0, 2.0), (-3.0, 1.0)), *rng.uniform(domain.lo, domain.hi, (200, 2)).tolist()]:
        x = [Fraction(c) for c in point]
        assert abs(outputs(ridge, x)[0] - exactly(formula, x)) <= Fraction(claim.error)
    with pytest.raises(ww.CertificateError):
        agree_formulas(ridge, dataclasses.replace(claim, error=claim.error / 64), domain.lo, domain.hi)


@pytest.mark.parametrize(
    ("formulas", "said"),
    [
        (["max(x0, max(x1, x2))"], "max .* second hidden layer"),
        (["relu(abs(x0) + x1)"], "relu .* second hidden layer"),
        (["clip(x0, x1, x2)"], "clip .* second hidden layer"),
        (["x0*x1"], "mul .* not piecewise linear"),
        (["x0/x1"], "div .* not piecewise linear"),
        (["sin(x0)"], "sin .* not piecewise linear"),
        (["x0**2"], "pow .* not piecewise linear"),
        (["step(x0)"], "step .* not piecewise linear"),
        (["x0 + exp(1)"], "exp of constants"),
        (["x0 + x3"], "unknown name 'x3'"),
        ([], "a list of formulas"),
        ("max(x0, x1)", "a list of formulas"),
    ],
)
def test_what_is_not_one_hidden_layer_is_refused(formulas: Any, said: str) -> None:
    with pytest.raises(ww.FormulaError, match=said):
        piecewise_linear(formulas, 3)


def test_bad_arguments_are_refused() -> None:
    lo, hi = -np.ones(2), np.ones(2)
    with pytest.raises(ValueError, match="N must be"):
        piecewise_linear(["x0"], 0)
    with pytest.raises(ww.DomainError, match="2 intervals"):
        piecewise_linear(["0.1*x0"], 2, ww.Box(0, 1))
    with pytest.raises(ww.UnsupportedOperation, match="cannot be traced"):
        piecewise_linear([lambda a: a], 2)
    for tol in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="tol"):
            plane_waves(["x0"], lo, hi, tol)
    with pytest.raises(ww.DomainError):
        plane_waves(["x0"], hi, lo, 1e-2)
    with pytest.raises(ww.FormulaError, match="undefined"):
        plane_waves(["log(x0)"], lo, hi, 1e-2)
    with pytest.raises(ww.BudgetError, match="5 variables"):
        plane_waves(["x0*x4"], -np.ones(5), np.ones(5), 1e-2)
    with pytest.raises(ww.BudgetError, match=r"about \d+ ReLUs"):
        plane_waves(["x0*x1"], lo, hi, 1e-4, max_units=50)
    with pytest.raises(ww.ToleranceError, match="cannot be proven") as caught:
        plane_waves(["sqrt(x0**2 + x1**2 + 0.02)"], lo, hi, 1e-3)
    assert caught.value.best is not None
    assert 1e-3 < caught.value.best < 0.1


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in ("soft", "shifted"))) for name in SMOOTH]
)
def test_smooth_formulas_stay_within_the_claim(name: str) -> None:
    ridge, claim, lo, hi = built(name)
    formulas, _, _, tol, most = SMOOTH[name]
    assert claim.error <= tol
    assert len(ridge.profiles) <= most
    agree_formulas(ridge, claim, lo, hi)
    error = measured(ridge, formulas, points(ridge, lo, hi, 1, 50_000))
    assert error <= claim.error
    assert claim.error <= 3 * error + 1e-9  # and the claim is worth something


@pytest.mark.slow
def test_a_soft_maximum_of_four_numbers() -> None:
    lo, hi = -np.ones(4), np.ones(4)
    ridge, claim = plane_waves([SOFT_MAXIMUM], lo, hi, 8e-3)
    assert claim.error <= 8e-3
    assert len(ridge.profiles) <= 300
    agree_formulas(ridge, claim, lo, hi)
    assert measured(ridge, [SOFT_MAXIMUM], points(ridge, lo, hi, 2, 40_000)) <= claim.error
    with pytest.raises(ww.CertificateError):
        agree_formulas(ridge, dataclasses.replace(claim, error=0.4 * claim.error), lo, hi)


def test_a_claim_survives_storage() -> None:
    for ridge, claim, lo, hi in (built("product"), (*piecewise_linear(["abs(x0)"], 1), -np.ones(1), np.ones(1))):
        kinds = {kind.__name__: kind for kind in (RidgeFunctions, FormulasClaim)}
        back = [stored_and_read(one, kinds) for one in (ridge, claim)]
        agree_formulas(*back, lo, hi)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("bias", [True, False])
def test_a_trained_network_is_taken_exactly(dtype: torch.dtype, bias: bool) -> None:
    torch.manual_seed(3)
    module = nn.Sequential(nn.Linear(6, 5, bias=bias), nn.ReLU(), nn.Linear(5, 4, bias=bias)).to(dtype)
    ridge = from_module(module, 6)
    assert ridge.outputs.shape == (4, 11)
    weights = {name: tensor.detach().double().tolist() for name, tensor in module.named_parameters()}
    x = [Fraction(k, 7) for k in (-3, 5, 1, -2, 9, 4)]
    zeros = {"0": [0.0] * 5, "2": [0.0] * 4}

    def layer(number: str, inputs: list[Fraction]) -> list[Fraction]:
        shifts = weights.get(f"{number}.bias", zeros[number])
        return [
            sum((Fraction(w) * a for w, a in zip(row, inputs, strict=True)), Fraction(b))
            for row, b in zip(weights[f"{number}.weight"], shifts, strict=True)
        ]

    assert outputs(ridge, x) == layer("2", [max(h, Fraction(0)) for h in layer("0", x)])


def test_other_modules_are_refused() -> None:
    taken = r"Sequential\(Linear, ReLU, Linear\)"
    linear, out = nn.Linear(3, 4), nn.Linear(4, 2)
    for module in (
        linear,
        nn.Sequential(linear, nn.GELU(), out),
        nn.Sequential(linear, nn.ReLU(), out, nn.ReLU()),
        nn.Sequential(linear, nn.LeakyReLU(), out),
        nn.Sequential(),
    ):
        with pytest.raises(ww.UnsupportedOperation, match=taken):
            from_module(module, 3)
    with pytest.raises(ValueError, match="takes 3 numbers"):
        from_module(nn.Sequential(linear, nn.ReLU(), out), 4)
    with pytest.raises(ValueError, match="layers"):
        from_module(nn.Sequential(linear, nn.ReLU(), nn.Linear(5, 2)), 3)
    with pytest.raises(ww.UnsupportedOperation, match="float16"):
        from_module(nn.Sequential(linear, nn.ReLU(), out).half(), 3)
    broken = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    with torch.no_grad():
        broken[0].bias[1] = float("nan")
    with pytest.raises(ValueError, match="not finite"):
        from_module(broken, 3)
    hooked = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    hooked[1].register_forward_hook(lambda module, inputs, output: 2 * output)
    with pytest.raises(ww.UnsupportedOperation, match="the ReLU has a hook"):
        from_module(hooked, 3)
