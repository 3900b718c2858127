"""The catalogue of losses, the caller's own, and proven bounds of their curvature."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from flint import arb, ctx
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

import weightwright as ww
from weightwright import incontext
from weightwright.enclosures.balls.series import series_along
from weightwright.enclosures.intervals.jets import values
from weightwright.expressions import parse
from weightwright.incontext.problem.convex import is_convex
from weightwright.incontext.problem.loss_kinks import kinks

CATALOGUE = [
    incontext.loss("squared"),
    incontext.loss("logistic"),
    incontext.loss("huber", delta=1.35),
    incontext.loss("pseudo_huber", delta=0.5),
    incontext.loss("quantile", q=0.9, width=0.25),
    incontext.loss("hinge", width=0.5),
    incontext.loss("poisson"),
]
OWN = [
    incontext.loss(formula="log(cosh(x))"),
    incontext.loss(formula="(x - y)**4 + (x - y)**2"),
    incontext.loss(formula="(tanh(x) - y)**2"),
    incontext.loss(formula="min(abs(x), 1.5)*(abs(x) - min(abs(x), 1.5)/2)"),
    incontext.loss(formula="relu(x)**2 + 3*relu(-x)**2"),
    incontext.loss(formula="abs(x)**3"),
    incontext.loss(formula="clip(x, -1, 2)*(x - clip(x, -1, 2)/2)"),
    incontext.loss(formula="exp(min(x, 0)) - 1 + relu(x)"),
]
POINTS = np.random.default_rng(1).uniform(-3, 3, 60)


def names(losses: list[incontext.Loss]) -> list[str]:
    return [one.name for one in losses]


@pytest.mark.parametrize("one", [*CATALOGUE, *OWN], ids=names([*CATALOGUE, *OWN]))
def test_the_slope_is_the_derivative(one: incontext.Loss) -> None:
    with ctx.workprec(128):
        for point in POINTS:
            lines = {"x": (arb(point), arb(1)), "y": (arb(0.75), arb(0))}
            known, found = (
                series_along(one.value_expression, lines, 1)[1],
                series_along(one.slope_expression, lines, 0)[0],
            )
            assert known.overlaps(found)
            assert abs(known - found) < 1e-25


@pytest.mark.parametrize("one", [*CATALOGUE, *OWN], ids=names([*CATALOGUE, *OWN]))
def test_no_second_derivative_leaves_the_bounds(one: incontext.Loss) -> None:
    for lo, hi in ((-3.0, 3.0), (-0.2, 0.1), (1.0, 1.75), (-1.5, -1.5)):
        least, most = one.curvature_bounds(lo, hi, y=0.75)
        with ctx.workprec(128):
            for point in np.linspace(lo, hi, 41) if lo < hi else [lo]:
                lines = {"x": (arb(point), arb(1)), "y": (arb(0.75), arb(0))}
                second = 2 * series_along(one.value_expression, lines, 2)[2]
                assert not second.is_finite() or (arb(least) <= second.upper() and second.lower() <= arb(most))


@pytest.mark.parametrize(
    ("one", "most"),
    [
        (CATALOGUE[0], 1.0),
        (CATALOGUE[1], 0.25),
        (CATALOGUE[2], 1.0),
        (CATALOGUE[3], 1.0),
        (CATALOGUE[4], 2.0),
        (CATALOGUE[5], 2.0),
        (OWN[0], 1.0),
        (OWN[3], 1.0),
    ],
)
def test_the_bounds_are_sharp(one: incontext.Loss, most: float) -> None:
    assert most <= one.curvature(-50.0, 50.0) <= 1.01 * most


def test_curvature_without_a_bound() -> None:
    assert incontext.loss("poisson").curvature(-1.0, 2.0, y=1.0) >= np.exp(2.0)
    assert incontext.loss("poisson").curvature(-1.0, 1000.0, y=1.0) == np.inf


def check(q: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda s: np.maximum(-q * s, (1 - q) * s)


def test_the_catalogue_against_other_libraries() -> None:
    def at(one: incontext.Loss) -> np.ndarray:
        return values(one.value_expression, POINTS)

    assert np.allclose(at(CATALOGUE[1]), np.logaddexp(0, -POINTS), rtol=1e-13)
    assert np.allclose(at(CATALOGUE[2]), special.huber(1.35, POINTS), rtol=1e-13)
    assert np.allclose(at(CATALOGUE[3]), special.pseudo_huber(0.5, POINTS), rtol=1e-12)
    above = at(CATALOGUE[4]) - check(0.9)(POINTS)
    assert above.min() > -1e-14
    assert above.max() <= 0.25 / 4
    assert np.abs(above[np.abs(POINTS) > 0.25]).max() < 1e-14
    below = np.maximum(1 - POINTS, 0) - at(CATALOGUE[5])
    assert below.min() > -1e-14
    assert below.max() <= 0.5 / 2 + 1e-14


@pytest.mark.parametrize(
    ("formula", "form", "slope"),
    [
        ("x**2", "residual", "2*x"),
        ("(y - x)**2", "residual", "2*x"),
        ("exp(y - x) - (y - x)", "residual", "-exp(-x) + 1"),
        ("softplus(-y*x)", "margin", "-sigmoid(-x)"),
        ("exp(x) - x*y", "separable", "exp(x) - y"),
        ("(sigmoid(x) - y)**2", "pair", None),
        ("clip(x - y, -1, 1)*(x - y - clip(x - y, -1, 1)/2)", "residual", "clip(x, -1, 1)"),
    ],
)
def test_the_form_is_recognised(formula: str, form: str, slope: str | None) -> None:
    found = incontext.loss(formula=formula)
    assert found.form == form
    assert slope is None or found.slope == slope
    assert incontext.loss(formula=formula, form=form).form == form  # type: ignore[arg-type]


def test_torch_functions_of_one_and_of_two_numbers() -> None:
    one = incontext.loss(fn=lambda s: torch.log(torch.cosh(s)))
    two = incontext.loss(fn=lambda wx, y: torch.nn.functional.softplus(wx) - y * wx)
    assert one.form == "residual"
    assert np.allclose(values(one.slope_expression, POINTS), np.tanh(POINTS), rtol=1e-12)
    assert (two.form, two.slope) == ("separable", "sigmoid(x) - y")
    with pytest.raises(ww.UnsupportedOperation):
        incontext.loss(fn=lambda s: s if s > 0 else -s)
    with pytest.raises(ValueError, match="fn takes 3 arguments"):
        incontext.loss(fn=lambda a, b, c: a)


@pytest.mark.parametrize(
    ("formula", "place"),
    [("abs(x)", "x = 0"), ("max(0, 1 - x)", "x = 1"), ("relu(x - 0.1) + x**2", "x = 0.1"), ("step(x - 2)", "x = 2")],
)
def test_a_loss_without_a_slope_is_refused_with_its_kink(formula: str, place: str) -> None:
    with pytest.raises(ww.FormulaError, match=f"has a kink at {place}"):
        incontext.loss(formula=formula)


def test_kinks_that_depend_on_both_numbers_are_refused() -> None:
    with pytest.raises(ww.FormulaError, match=r"kinks that depend on w\.x and y apart"):
        incontext.loss(formula="abs(x - 2*y)*x")


@settings(max_examples=10)
@given(st.lists(st.integers(-3200, 3200), min_size=1, max_size=3, unique=True))
def test_kinks_are_found_where_they_are(places: list[int]) -> None:
    text = " + ".join(f"relu(x - ({place / 64!r}))**2" for place in places)
    assert [float(place) for place in kinks(parse(text))] == [place / 64 for place in sorted(places)]


@settings(max_examples=10)
@given(st.floats(0.01, 100.0))
def test_a_written_out_huber_loss_gets_the_slope_of_huber(delta: float) -> None:
    written = incontext.loss(formula=f"min(abs(x), {delta!r})*(abs(x) - min(abs(x), {delta!r})/2)")
    assert parse(written.slope) == incontext.loss("huber", delta=delta).slope_expression


@pytest.mark.parametrize("formula", ["log(x)", "sqrt(x + 1)", "1/(x - 0.3)**2"])
def test_undefined_on_the_range(formula: str) -> None:
    with pytest.raises(ww.FormulaError, match=r"undefined or unbounded somewhere on x in \[-2, 3\]"):
        incontext.loss(formula=formula).curvature(-2, 3)
    with pytest.raises(ww.FormulaError, match=r"\[-2, 3\]"):
        incontext.loss(formula=formula).require_defined(-2, 3)
    incontext.loss(formula=formula).require_defined(1, 3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "exactly one of name, formula and fn"),
        ({"name": "squared", "formula": "x"}, "exactly one of name, formula and fn"),
        ({"name": "hubber"}, "name='hubber' is not a loss of the catalogue"),
        ({"name": "huber", "delta": -1}, "delta=-1"),
        ({"name": "huber", "delta": float("nan")}, "delta=nan"),
        ({"name": "huber", "width": 1}, "width=1 is not a parameter of the loss 'huber'; it has delta"),
        ({"name": "quantile", "q": 1.5}, "q=1.5"),
        ({"name": "squared", "form": "margin"}, "form='margin'"),
        ({"formula": "x**2", "delta": 1}, "delta: only losses of the catalogue"),
        ({"formula": "x**2", "form": "both"}, "form must be one of"),
        ({"formula": "(sigmoid(x) - y)**2", "form": "residual"}, "is not a function of x - y alone"),
        ({"formula": "(sigmoid(x) - y)**2", "form": "separable"}, "form='separable'"),
        ({"formula": "y**2"}, "does not depend on x"),
        ({"formula": "x**2 + z"}, "unknown name 'z'"),
    ],
)
def test_bad_arguments(arguments: dict, message: str) -> None:  # type: ignore[type-arg]
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        incontext.loss(**arguments)


@pytest.mark.parametrize(
    "formula",
    [
        *("x**2", "(3 - 2*x)**4", "exp(2*x) - y*x", "log(cosh(x))", "softplus(-x) + 0.1*x**2", "relu(x)**2", "x/3 - 1"),
        *("log(exp(x) + 2*exp(y - x) + 1)", "max(x, 0)**3", "-log(3 + x)", "-sqrt(4 + x)", "abs(x)**1.5", "pi*x**2"),
        *("(exp(x) + 1)**2", "-((-2)*x**2)", "x**2/0.5", "softplus(x**2)", "exp(x)*exp(x**2)"),
    ],
)
def test_convexity_by_rules(formula: str) -> None:
    assert is_convex(parse(formula, ("x", "y")))
    with ctx.workprec(128):
        for point in POINTS:
            lines = {"x": (arb(point), arb(1)), "y": (arb(0.75), arb(0))}
            second = series_along(parse(formula, ("x", "y")), lines, 2)[2]
            assert not second.is_finite() or second.upper() >= 0


@pytest.mark.parametrize(
    "formula",
    [
        *(
            "sin(x)",
            "-x**2",
            "x**3",
            "y*x**2",
            "x**2 - exp(x)",
            "log(1 + x**2)",
            "sqrt(x**2 + x)",
            "(x**2 - 1)**2",
            "1/x",
        ),
        *("(-2)*x**2", "x**2/(-2)", "x*x", "softplus(-x**2)", "abs(x**2 - 1)", "exp(-x**2)", "min(x, 0)", "x**0.5"),
        *("log(exp(x) - 0.5*exp(2*x))", "0*log(x)", "relu(-x**2 + 1)", "-softplus(x)", "tanh(x)"),
    ],
)
def test_convexity_is_not_claimed(formula: str) -> None:
    assert not is_convex(parse(formula, ("x", "y")))


def test_bad_ranges() -> None:
    with pytest.raises(ValueError, match="lo, hi"):
        incontext.loss("squared").curvature(1, -1)
    with pytest.raises(ValueError, match="needs y"):
        incontext.loss("poisson").curvature(-1, 1)
