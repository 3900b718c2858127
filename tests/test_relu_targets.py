"""One hidden layer of ReLUs for given functions, and the checker's rules about them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from weightwright.box import Box
from weightwright.certificates.checker import kinked
from weightwright.certificates.checker import targets as rules
from weightwright.certificates.checker.balls import working_precision
from weightwright.certificates.checker.targets import agree_target
from weightwright.certificates.composites import Ridge, TargetClaim
from weightwright.certificates.prover.jets import values_at
from weightwright.constructions.relu_target import from_module, piecewise_linear, plane_waves
from weightwright.errors import (
    BudgetError,
    CertificateError,
    DomainError,
    FormulaError,
    ToleranceError,
    UnsupportedOperation,
)
from weightwright.expressions import Number, Variable, fold, parse
from weightwright.network.storage import decode, encode

EXACT: dict[str, Callable[..., Fraction]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "neg": lambda a: -a,
    "abs": abs,
    "relu": lambda a: max(a, Fraction(0)),
    "max": max,
    "min": min,
    "clip": lambda a, lo, hi: min(max(a, lo), hi),
}


def names(N: int) -> tuple[str, ...]:
    return tuple(f"x{i}" for i in range(N))


def exactly(formula: str, x: list[Fraction]) -> Fraction:
    def leaf(node: Number | Variable) -> Fraction:
        return node.value if isinstance(node, Number) else x[int(node.name[1:])]

    return fold(parse(formula, names(len(x))), leaf, lambda op, args: EXACT[op](*args))


def outputs(ridge: Ridge, x: list[Fraction]) -> list[Fraction]:
    """The ridge at x in exact arithmetic, as its docstring says."""

    def dot(row: Any, vector: list[Fraction]) -> Fraction:
        return sum((Fraction(a) * b for a, b in zip(row.tolist(), vector, strict=False)), Fraction(0))

    known = list(x)
    for row, shift in zip(ridge.arguments, ridge.shifts.tolist(), strict=True):
        known.append(max(Fraction(0), dot(row, known) + Fraction(shift)))
    return [dot(row, known) + Fraction(c) for row, c in zip(ridge.outputs, ridge.constants.tolist(), strict=True)]


def quickly(ridge: Ridge, x: Any) -> Any:
    """(points, outputs) in float64."""
    N = x.shape[1]
    units = np.maximum(x @ ridge.arguments[:, :N].T + ridge.shifts, 0)
    return x @ ridge.outputs[:, :N].T + units @ ridge.outputs[:, N:].T + ridge.constants


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
    agree_target(ridge, claim, -np.ones(N), np.ones(N))
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
    agree_target(ridge, claim, -np.ones(N), np.ones(N))
    for x in product((Fraction(-3), Fraction(-5, 4), Fraction(0), Fraction(1, 3), Fraction(7, 2)), repeat=N):
        assert outputs(ridge, list(x)) == [exactly(formula, list(x)) for formula in formulas]


def test_traced_functions_are_read() -> None:
    ridge, claim = piecewise_linear([lambda a, b: torch.maximum(a, b) * 0.1], 2)
    assert claim.error == 0.0
    agree_target(ridge, claim, -np.ones(2), np.ones(2))
    assert outputs(ridge, [Fraction(2), Fraction(3)]) == [3 * Fraction(0.1)]


@pytest.mark.parametrize("formula", ["0.1*max(x0, x1)", "max(x0/3, x1) + relu(x0 - 0.1)", "abs(x0)/7 - 0.3*x1 + 0.2"])
def test_coefficients_that_are_no_floats_are_rounded_on_a_domain(formula: str) -> None:
    with pytest.raises(FormulaError, match="no float64"):
        piecewise_linear([formula], 2)
    domain = Box([-1.0, -3.0], [2.0, 1.0])
    ridge, claim = piecewise_linear([formula], 2, domain)
    assert 0 < claim.error < 1e-15
    agree_target(ridge, claim, domain.lo, domain.hi)
    rng = np.random.default_rng(5)
    for point in [*product((-1.0, 2.0), (-3.0, 1.0)), *rng.uniform(domain.lo, domain.hi, (200, 2)).tolist()]:
        x = [Fraction(c) for c in point]
        assert abs(outputs(ridge, x)[0] - exactly(formula, x)) <= Fraction(claim.error)
    with pytest.raises(CertificateError):
        agree_target(ridge, dataclasses.replace(claim, error=claim.error / 64), domain.lo, domain.hi)


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
    with pytest.raises(FormulaError, match=said):
        piecewise_linear(formulas, 3)


def test_bad_arguments_are_refused() -> None:
    lo, hi = -np.ones(2), np.ones(2)
    with pytest.raises(ValueError, match="N must be"):
        piecewise_linear(["x0"], 0)
    with pytest.raises(DomainError, match="2 intervals"):
        piecewise_linear(["0.1*x0"], 2, Box(0, 1))
    with pytest.raises(UnsupportedOperation, match="cannot be traced"):
        piecewise_linear([lambda a: a], 2)
    for tol in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="tol"):
            plane_waves(["x0"], lo, hi, tol)
    with pytest.raises(DomainError):
        plane_waves(["x0"], hi, lo, 1e-2)
    with pytest.raises(FormulaError, match="undefined"):
        plane_waves(["log(x0)"], lo, hi, 1e-2)
    with pytest.raises(BudgetError, match="5 variables"):
        plane_waves(["x0*x4"], -np.ones(5), np.ones(5), 1e-2)
    with pytest.raises(BudgetError, match=r"about \d+ ReLUs"):
        plane_waves(["x0*x1"], lo, hi, 1e-4, max_units=50)
    with pytest.raises(ToleranceError, match="cannot be proven") as caught:
        plane_waves(["sqrt(x0**2 + x1**2 + 0.02)"], lo, hi, 1e-3)
    assert caught.value.best is not None
    assert 1e-3 < caught.value.best < 0.1


SOFT_MAXIMUM = "log(exp(x0) + exp(x1) + exp(x2) + exp(x3))"
SMOOTH: dict[str, tuple[list[str], list[float], list[float], float, int]] = {
    "product": (["x0*x1"], [-1, -1], [1, 1], 1e-2, 24),
    "sine": (["sin(x0)*cos(x1)"], [-1, -1], [1, 1], 1e-2, 24),
    "bell": (["exp(-(x0**2 + x1**2))"], [-1, -1], [1, 1], 1e-2, 50),
    "shifted": (["exp(x0*x1)", "x0*x1"], [0, 1], [1, 2.5], 1e-2, 200),
    "one": (["sin(3*x0)"], [-0.3], [1.7], 1e-3, 60),
    "affine": (["x0 - 0.1*x1 + 2"], [-1, -1], [1, 1], 1e-3, 0),
    "soft": (["exp(x0)/(exp(x0) + exp(x1) + exp(x2))"], [-1] * 3, [1] * 3, 2e-2, 60),
}


@cache
def built(name: str) -> tuple[Ridge, TargetClaim, Any, Any]:
    formulas, lo, hi, tol, _ = SMOOTH[name]
    return (
        *plane_waves(formulas, np.array(lo, float), np.array(hi, float), tol),
        np.array(lo, float),
        np.array(hi, float),
    )


def points(ridge: Ridge, lo: Any, hi: Any, seed: int, count: int) -> Any:
    """Random ones, many on the faces and all corners, and some half-way between two kinks of a wave."""
    rng = np.random.default_rng(seed)
    N = len(lo)
    near = rng.uniform(lo - 0.2 * (hi - lo), hi + 0.2 * (hi - lo), (count, N)).clip(lo, hi)
    corners = np.array(list(product(*zip(lo, hi, strict=True))))
    a, b = (rng.integers(0, len(ridge.shifts), count) if len(ridge.shifts) else np.zeros(0, int) for _ in range(2))
    v = ridge.arguments[a, :N]
    kink = -(ridge.shifts[a] + ridge.shifts[b]) / 2
    between = near[: len(a)] + v * ((kink - (near[: len(a)] * v).sum(1)) / (v**2).sum(1))[:, None]
    return np.concatenate([near, corners, between[((between >= lo) & (between <= hi)).all(axis=1)]])


def measured(ridge: Ridge, formulas: Any, x: Any) -> float:
    expected = np.column_stack([values_at(parse(f, names(x.shape[1])), names(x.shape[1]), x) for f in formulas])
    return float(np.abs(quickly(ridge, x) - expected).max())


@pytest.mark.parametrize("name", SMOOTH)
def test_smooth_formulas_stay_within_the_claim(name: str) -> None:
    ridge, claim, lo, hi = built(name)
    formulas, _, _, tol, most = SMOOTH[name]
    assert claim.error <= tol
    assert len(ridge.profiles) <= most
    agree_target(ridge, claim, lo, hi)
    error = measured(ridge, formulas, points(ridge, lo, hi, 1, 50_000))
    assert error <= claim.error
    assert claim.error <= 3 * error + 1e-9  # and the claim is worth something


def test_a_soft_maximum_of_four_numbers() -> None:
    lo, hi = -np.ones(4), np.ones(4)
    ridge, claim = plane_waves([SOFT_MAXIMUM], lo, hi, 8e-3)
    assert claim.error <= 8e-3
    assert len(ridge.profiles) <= 300
    agree_target(ridge, claim, lo, hi)
    assert measured(ridge, [SOFT_MAXIMUM], points(ridge, lo, hi, 2, 40_000)) <= claim.error
    with pytest.raises(CertificateError):
        agree_target(ridge, dataclasses.replace(claim, error=0.4 * claim.error), lo, hi)


def with_entry(array: Any, place: Any, value: float) -> Any:
    copy = np.array(array)
    copy[place] = value
    return copy


@pytest.mark.parametrize("seed", range(8))
def test_the_checker_never_agrees_to_less_than_the_truth(seed: int) -> None:
    """Weights, waves and polynomials are moved at random: the least error that is agreed to is still a bound."""
    rng = np.random.default_rng(seed)
    ridge, claim, lo, hi = built("product" if seed % 2 else "one")
    size = 10.0 ** rng.uniform(-5, -1)

    def moved(array: Any) -> Any:
        return array + size * rng.standard_normal(array.shape) * (rng.random(array.shape) < 0.2)

    ridge = dataclasses.replace(
        ridge, outputs=moved(ridge.outputs), shifts=moved(ridge.shifts), constants=moved(ridge.constants)
    )
    claim = dataclasses.replace(claim, polynomials=moved(claim.polynomials))
    low, high = 0.0, 100.0
    for _ in range(14):
        middle = (low * high) ** 0.5 if low else high / 10
        try:
            agree_target(ridge, dataclasses.replace(claim, error=middle), lo, hi)
            high = middle
        except CertificateError:
            low = middle
    assert high < 100
    assert measured(ridge, claim.formulas, points(ridge, lo, hi, seed, 20_000)) <= high


Forge = Callable[[Ridge, TargetClaim], tuple[Any, Any]]


def on_ridge(**changes: Callable[[Ridge], Any]) -> Forge:
    return lambda r, c: (dataclasses.replace(r, **{name: change(r) for name, change in changes.items()}), c)


def on_claim(**changes: Callable[[TargetClaim], Any]) -> Forge:
    return lambda r, c: (r, dataclasses.replace(c, **{name: change(c) for name, change in changes.items()}))


def _with_unit(r: Ridge) -> Ridge:
    """With one more, 0.25 relu(x0 / 4 + x1)."""
    K = len(r.profiles) + 1
    arguments = np.zeros((K, 2 + K))
    arguments[:-1, :-1], arguments[-1, :2] = r.arguments, (0.25, 1.0)
    outputs = np.column_stack([r.outputs, [0.25]])
    return Ridge((*r.profiles, "relu(x)"), arguments, np.append(r.shifts, 0.0), outputs, r.constants)


def _raised(r: Ridge, c: TargetClaim, by: float) -> tuple[Ridge, TargetClaim]:
    polynomials = np.array(c.polynomials)
    polynomials[0, 0, 0] += by
    return dataclasses.replace(r, constants=r.constants - by), dataclasses.replace(c, polynomials=polynomials)


NAN = float("nan")
ANYWHERE: dict[str, Forge] = {
    "error nan": on_claim(error=lambda c: NAN),
    "error infinite": on_claim(error=lambda c: float("inf")),
    "error negative": on_claim(error=lambda c: -1e-300),
    "error no number": on_claim(error=lambda c: None),
    "error a truth value": on_claim(error=lambda c: True),
    "another rule": on_claim(rule=lambda c: "nearest"),
    "another variable": on_claim(formulas=lambda c: ("x2", *c.formulas[1:])),
    "no formulas": on_claim(formulas=lambda c: ()),
    "formulas no tuple": on_claim(formulas=lambda c: list(c.formulas)),
    "nothing at all": lambda r, c: (
        dataclasses.replace(r, outputs=r.outputs[:0], constants=r.constants[:0]),
        dataclasses.replace(c, formulas=(), polynomials=c.polynomials[:0]),
    ),
    "no ridge": lambda r, c: (None, c),
    "no claim": lambda r, c: (r, None),
    "a formula no text": on_claim(formulas=lambda c: (None, *c.formulas[1:])),
    "a formula more": on_claim(formulas=lambda c: (*c.formulas, "x0")),
    "another profile": on_ridge(profiles=lambda r: ("abs(x)", *r.profiles[1:])),
    "a profile more": on_ridge(profiles=lambda r: (*r.profiles, "relu(x)")),
    "a unit of units": on_ridge(arguments=lambda r: with_entry(r.arguments, (-1, 2), 1.0)),
    "argument nan": on_ridge(arguments=lambda r: with_entry(r.arguments, (0, 0), NAN)),
    "shift infinite": on_ridge(shifts=lambda r: with_entry(r.shifts, 0, float("inf"))),
    "output nan": on_ridge(outputs=lambda r: with_entry(r.outputs, (0, -1), NAN)),
    "constant nan": on_ridge(constants=lambda r: with_entry(r.constants, 0, NAN)),
    "shifts short": on_ridge(shifts=lambda r: r.shifts[:-1]),
    "outputs wide": on_ridge(outputs=lambda r: np.pad(r.outputs, ((0, 0), (0, 1)))),
    "constants a matrix": on_ridge(constants=lambda r: r.constants[:, None]),
    "arguments none": on_ridge(arguments=lambda r: None),
    "a sign turned": on_ridge(outputs=lambda r: -r.outputs),
    "a constant moved": on_ridge(constants=lambda r: r.constants + 0.1),
    "a slope moved": on_ridge(outputs=lambda r: with_entry(r.outputs, (0, 1), r.outputs[0, 1] + 0.1)),
}
SORTING: dict[str, Forge] = {
    "an ulp in a unit's factor": on_ridge(arguments=lambda r: with_entry(r.arguments, (0, 0), np.nextafter(1, 2))),
    "an ulp in a shift": on_ridge(shifts=lambda r: r.shifts + 2.0**-1070),
    "an ulp in an output": on_ridge(outputs=lambda r: with_entry(r.outputs, (1, 2), np.nextafter(1, 2))),
    "an ulp in a slope": on_ridge(outputs=lambda r: with_entry(r.outputs, (0, 1), 2.0**-1074)),
    "max for min": on_claim(formulas=lambda c: c.formulas[::-1]),
    "two layers": on_claim(formulas=lambda c: ("min(x0, max(x1, abs(x0)))", c.formulas[1])),
    "not piecewise linear": on_claim(formulas=lambda c: ("x0*x1", c.formulas[1])),
    "division by 0": on_claim(formulas=lambda c: ("min(x0, x1)/0", c.formulas[1])),
    "taylor without waves": on_claim(rule=lambda c: "taylor", boxes=lambda c: np.array([[[-1.0, -1], [1, 1]]])),
}
PRODUCT: dict[str, Forge] = {
    "less error": on_claim(error=lambda c: 0.97 * c.error),
    "no error": on_claim(error=lambda c: 0.0),
    "exact": on_claim(rule=lambda c: "exact"),
    "another formula": on_claim(formulas=lambda c: ("x0*x1 + 0.001*x0",)),
    "beyond the Taylor polynomial": on_claim(formulas=lambda c: ("x0*x1 + 0.01*x0**12",)),
    "a unit along no wave": lambda r, c: (_with_unit(r), c),
    "polynomials raised, outputs lowered": lambda r, c: _raised(r, c, 0.3 * c.error),
    "polynomials lowered, outputs raised": lambda r, c: _raised(r, c, -0.3 * c.error),
    "a kink": on_claim(formulas=lambda c: ("x0*x1 + 0.0001*abs(x0 - 0.3)",)),
    "a jump": on_claim(formulas=lambda c: ("x0*x1 + 0.00001*step(x0 - 0.3)",)),
    "undefined": on_claim(formulas=lambda c: ("x0*x1 + 0*log(x0)",)),
    "a pole": on_claim(formulas=lambda c: ("x0*x1 + 0.00001/(x0 - 0.3)",)),
    "no boxes": on_claim(boxes=lambda c: c.boxes[:0]),
    "boxes short by an ulp": on_claim(boxes=lambda c: np.where(c.boxes == 1, np.nextafter(1, 0), c.boxes)),
    "boxes turned": on_claim(boxes=lambda c: c.boxes[:, ::-1]),
    "boxes nan": on_claim(boxes=lambda c: np.full_like(c.boxes, NAN)),
    "boxes flat": on_claim(boxes=lambda c: c.boxes[:, 0]),
    "boxes none": on_claim(boxes=lambda c: None),
    "waves none": on_claim(waves=lambda c: None),
    "waves nan": on_claim(waves=lambda c: with_entry(c.waves, (0, 0), NAN)),
    "waves missing": on_claim(waves=lambda c: c.waves[:1], polynomials=lambda c: c.polynomials[:, :1]),
    "waves turned": on_claim(waves=lambda c: -c.waves),
    "waves moved": on_claim(waves=lambda c: np.add(c.waves, [0.0, 0.0, 0.01])),
    "polynomials flat": on_claim(polynomials=lambda c: c.polynomials[0]),
    "polynomials empty": on_claim(polynomials=lambda c: c.polynomials[..., :0]),
    "polynomials nan": on_claim(polynomials=lambda c: with_entry(c.polynomials, (0, 0, 0), NAN)),
    "polynomials of another wave": on_claim(polynomials=lambda c: c.polynomials[:, ::-1]),
    "a polynomial bent": on_claim(
        polynomials=lambda c: with_entry(c.polynomials, (0, 0, 2), 1.02 * c.polynomials[0, 0, 2])
    ),
    "too high a degree": on_claim(polynomials=lambda c: np.pad(c.polynomials, ((0, 0), (0, 0), (0, 12)))),
    "a unit off its wave": on_ridge(arguments=lambda r: with_entry(r.arguments, (3, 1), 1.0 + 2**-52)),
    "a kink moved": on_ridge(shifts=lambda r: with_entry(r.shifts, 3, r.shifts[3] + 0.1)),
    "a unit more bent": on_ridge(outputs=lambda r: with_entry(r.outputs, (0, 5), 1.1 * r.outputs[0, 5])),
    "a unit gone": on_ridge(outputs=lambda r: with_entry(r.outputs, (0, -1), 0.0)),
}


@pytest.mark.parametrize(
    ("target", "forge"),
    [
        *(pytest.param("sorting", f, id=f"sorting, {name}") for name, f in (ANYWHERE | SORTING).items()),
        *(pytest.param("product", f, id=f"product, {name}") for name, f in (ANYWHERE | PRODUCT).items()),
    ],
)
def test_forgeries_are_refused(target: str, forge: Forge) -> None:
    lo, hi = -np.ones(2), np.ones(2)
    ridge, claim = built("product")[:2] if target == "product" else piecewise_linear(["min(x0, x1)", "max(x0, x1)"], 2)
    agree_target(ridge, claim, lo, hi)
    with pytest.raises(CertificateError):
        agree_target(*forge(ridge, claim), lo, hi)


@pytest.mark.parametrize(
    ("lo", "hi"),
    [
        ([-1.0, -1.0], [1.0, np.nextafter(1, 2)]),
        ([-1.0, -1.0], [-1.0, 1.0]),
        ([-1.0, NAN], [1.0, 1.0]),
        ([-1.0, -1.0], [1.0, float("inf")]),
        ([-1.0], [1.0]),
        ([-1.0] * 3, [1.0] * 3),
        ([], []),
        ([[-1.0, -1.0]], [[1.0, 1.0]]),
    ],
)
def test_other_domains_are_refused(lo: Any, hi: Any) -> None:
    ridge, claim = built("product")[:2]
    with pytest.raises(CertificateError):
        agree_target(ridge, claim, np.array(lo), np.array(hi))
    with pytest.raises(CertificateError):
        agree_target(ridge, claim, lo, hi)  # lists


def test_a_domain_must_be_one_for_exact_claims_too() -> None:
    ridge, claim = piecewise_linear(["abs(x0)"], 1)
    with pytest.raises(CertificateError, match="no box"):
        agree_target(ridge, claim, np.ones(1), -np.ones(1))


@pytest.mark.parametrize("formula", ["abs(abs(x0) + abs(x1))", "abs(x0 - abs(x1))", "max(abs(x0), abs(x1))"])
def test_the_checker_reads_no_second_layer(formula: str) -> None:
    with pytest.raises(CertificateError, match="one layer"):
        kinked.read(parse(formula, names(2)), names(2))


@pytest.mark.parametrize("seed", range(30))
def test_units_against_a_polynomial(seed: int) -> None:
    """What the checker finds for one wave is no less than at any point, and not much more."""
    rng = np.random.default_rng(seed)
    polynomial = rng.standard_normal(int(rng.integers(1, 9)))
    first, last = sorted(Fraction(x) for x in rng.uniform(-1.5, 1.5, 2).tolist())
    units = sorted((Fraction(q), Fraction(c)) for q, c in rng.uniform(-2, 2, (int(rng.integers(0, 4)), 2)).tolist())
    with working_precision():
        found = float(rules._off(polynomial, units, first, last).lower())
    t = np.linspace(float(first), float(last), 20_001)
    lines = sum((float(c) * np.maximum(t - float(q), 0) for q, c in units), np.zeros_like(t))
    largest = float(np.abs(np.polyval(polynomial[::-1], t) - lines).max())
    assert largest * (1 - 1e-12) <= found <= 1.5 * largest


def test_a_wide_box_is_halved_and_only_so_often(monkeypatch: pytest.MonkeyPatch) -> None:
    ridge, claim, lo, hi = built("bell")
    assert len(claim.boxes) > 4
    whole = dataclasses.replace(claim, boxes=np.array([[lo, hi]]))
    with pytest.raises(CertificateError, match="of the formula on"):
        agree_target(ridge, whole, lo, hi)
    monkeypatch.setattr(rules, "HALVINGS", (200, 200))
    agree_target(ridge, whole, lo, hi)


def test_a_claim_survives_storage() -> None:
    for ridge, claim, lo, hi in (built("product"), (*piecewise_linear(["abs(x0)"], 1), -np.ones(1), np.ones(1))):
        kinds = {"Ridge": Ridge, "TargetClaim": TargetClaim}
        back = [decode(*encode(one), kinds, type(one)) for one in (ridge, claim)]
        agree_target(*back, lo, hi)


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
        with pytest.raises(UnsupportedOperation, match=taken):
            from_module(module, 3)
    with pytest.raises(ValueError, match="takes 3 numbers"):
        from_module(nn.Sequential(linear, nn.ReLU(), out), 4)
    with pytest.raises(ValueError, match="layers"):
        from_module(nn.Sequential(linear, nn.ReLU(), nn.Linear(5, 2)), 3)
    with pytest.raises(UnsupportedOperation, match="float16"):
        from_module(nn.Sequential(linear, nn.ReLU(), out).half(), 3)
    broken = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    with torch.no_grad():
        broken[0].bias[1] = NAN
    with pytest.raises(ValueError, match="not finite"):
        from_module(broken, 3)
