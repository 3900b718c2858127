"""The checker of ReLU targets is told wrong things."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from flint import ctx
from papers.support.ridges import built, measured, names, points

import weightwright as ww
from weightwright.expressions import parse
from weightwright.papers.checker import piecewise_linear as kinked
from weightwright.papers.checker import relu_formulas as rules
from weightwright.papers.checker.relu_formulas import agree_formulas
from weightwright.papers.relu.relu_target import piecewise_linear


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
            agree_formulas(ridge, dataclasses.replace(claim, error=middle), lo, hi)
            high = middle
        except ww.CertificateError:
            low = middle
    assert high < 100
    assert measured(ridge, claim.formulas, points(ridge, lo, hi, seed, 20_000)) <= high


Forge = Callable[[Any, Any], tuple[Any, Any]]


def on_ridge(**changes: Callable[[Any], Any]) -> Forge:
    return lambda r, c: (dataclasses.replace(r, **{name: change(r) for name, change in changes.items()}), c)


def on_claim(**changes: Callable[[Any], Any]) -> Forge:
    return lambda r, c: (r, dataclasses.replace(c, **{name: change(c) for name, change in changes.items()}))


def _with_unit(r: Any) -> Any:
    """With one more, 0.25 relu(x0 / 4 + x1)."""
    K = len(r.profiles) + 1
    arguments = np.zeros((K, 2 + K))
    arguments[:-1, :-1], arguments[-1, :2] = r.arguments, (0.25, 1.0)
    outputs = np.column_stack([r.outputs, [0.25]])
    profiles, shifts = (*r.profiles, "relu(x)"), np.append(r.shifts, 0.0)
    return dataclasses.replace(r, profiles=profiles, arguments=arguments, shifts=shifts, outputs=outputs)


def _raised(r: Any, c: Any, by: float) -> tuple[Any, Any]:
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
    agree_formulas(ridge, claim, lo, hi)
    with pytest.raises(ww.CertificateError):
        agree_formulas(*forge(ridge, claim), lo, hi)


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
    with pytest.raises(ww.CertificateError):
        agree_formulas(ridge, claim, np.array(lo), np.array(hi))
    with pytest.raises(ww.CertificateError):
        agree_formulas(ridge, claim, lo, hi)  # lists


def test_a_domain_must_be_one_for_exact_claims_too() -> None:
    ridge, claim = piecewise_linear(["abs(x0)"], 1)
    with pytest.raises(ww.CertificateError, match="no box"):
        agree_formulas(ridge, claim, np.ones(1), -np.ones(1))


@pytest.mark.parametrize("formula", ["abs(abs(x0) + abs(x1))", "abs(x0 - abs(x1))", "max(abs(x0), abs(x1))"])
def test_the_checker_reads_no_second_layer(formula: str) -> None:
    with pytest.raises(ww.CertificateError, match="one layer"):
        kinked.read(parse(formula, names(2)), names(2))


@pytest.mark.parametrize("seed", range(20))
def test_units_against_a_polynomial(seed: int) -> None:
    """What the checker finds for one wave is no less than at any point, and not much more."""
    rng = np.random.default_rng(seed)
    polynomial = rng.standard_normal(int(rng.integers(1, 9)))
    first, last = sorted(Fraction(x) for x in rng.uniform(-1.5, 1.5, 2).tolist())
    units = sorted((Fraction(q), Fraction(c)) for q, c in rng.uniform(-2, 2, (int(rng.integers(0, 4)), 2)).tolist())
    with ctx.workprec(128):
        found = float(rules._off(polynomial, units, first, last).lower())
    t = np.linspace(float(first), float(last), 20_001)
    lines = sum((float(c) * np.maximum(t - float(q), 0) for q, c in units), np.zeros_like(t))
    largest = float(np.abs(np.polyval(polynomial[::-1], t) - lines).max())
    assert largest * (1 - 1e-12) <= found <= 1.5 * largest


def test_a_wide_box_is_halved_and_only_so_often(monkeypatch: pytest.MonkeyPatch) -> None:
    ridge, claim, lo, hi = built("bell")
    assert len(claim.boxes) > 4
    whole = dataclasses.replace(claim, boxes=np.array([[lo, hi]]))
    with pytest.raises(ww.CertificateError, match="of the formula on"):
        agree_formulas(ridge, whole, lo, hi)
    monkeypatch.setattr(rules, "HALVINGS", (200, 200))
    agree_formulas(ridge, whole, lo, hi)
