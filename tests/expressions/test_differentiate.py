"""Derivatives as expressions, against Taylor series in balls."""

from __future__ import annotations

import math

import numpy as np
import pytest
from flint import arb, ctx

from weightwright.enclosures.balls.series import series, series_along
from weightwright.expressions import OPERATIONS, differentiate, parse, to_text

#: Every operation stands in one of them.
FORMULAS = [
    "3*x + 2 - x/7 + (-x)*0.5",
    "x**3 - 2*x**-2",
    "(2 + sin(x))**1.5",
    "2**x + x**x",
    "exp(-x**2)*log(1 + x**2)",
    "sqrt(x + 5)/(x + 4)",
    "sin(3*x) - cos(x)*tan(x/4)",
    "atan(2*x) + tanh(x/3) + sigmoid(1 - x)",
    "softplus(-2*x)*gelu(x) + silu(x**2)",
    "erf(x)*e - pi",
    "abs(x - 1)*x + relu(x - 1.5)",
    "max(x**2, 2*x + 1) + min(sin(x), x/2)",
    "clip(x**2, x/3, 2 - x)*x",
    "sign(x - 1)*(x - 1)**2 + step(x - 1.5)*x",
    "log(cosh(x)) + sinh(x)",
]
POINTS = np.random.default_rng(0).uniform(0.1, 2.5, 40)


def test_every_operation_is_tried() -> None:
    assert not [op for op in OPERATIONS if not any(_uses(formula, op) for formula in FORMULAS)]


def _uses(formula: str, op: str) -> bool:
    return f"op='{op}'" in repr(parse(formula))


@pytest.mark.parametrize("formula", FORMULAS)
def test_the_derivative_is_the_first_taylor_coefficient(formula: str) -> None:
    expression = parse(formula)
    slope = differentiate(expression)
    with ctx.workprec(128):
        for point in POINTS:
            known, found = series(expression, arb(point), 1)[1], series(slope, arb(point), 0)[0]
            assert found.is_finite()
            assert found.overlaps(known), (formula, point)
            assert abs(found - known) < 1e-25


@pytest.mark.parametrize("formula", FORMULAS)
def test_the_text_of_a_derivative_is_read_back(formula: str) -> None:
    slope = differentiate(parse(formula))
    again = parse(to_text(slope))
    with ctx.workprec(128):
        assert series(again, arb(0.7), 0)[0].overlaps(series(slope, arb(0.7), 0)[0])


def test_other_variables_are_constants() -> None:
    expression = parse("exp(x*y) - x*y**2", ("x", "y"))
    slope = differentiate(expression, "y")
    with ctx.workprec(128):
        lines = {"x": (arb(0.5), arb(0)), "y": (arb(1.25), arb(1))}
        known = series_along(expression, lines, 1)[1]
        assert series_along(slope, lines, 0)[0].overlaps(known)
    assert to_text(differentiate(parse("y**2", ("x", "y")))) == "0"


@pytest.mark.parametrize(
    ("formula", "slope"),
    [
        ("x**2/2", "x"),
        ("0.5*x**2", "x"),
        ("relu(x)**2", "2*relu(x)"),
        ("abs(x)**2", "2*x"),
        ("x - 0.5*x + 0.5*x", "1"),
        ("softplus(-x)", "-sigmoid(-x)"),
        ("-6*x**2/3", "-(4*x)"),
        ("x**2/3", "2*x/3"),
        ("x - x", "0"),
        ("5", "0"),
    ],
)
def test_short_derivatives(formula: str, slope: str) -> None:
    assert to_text(differentiate(parse(formula))) == slope


def test_a_long_sum_is_no_deep_recursion() -> None:
    slope = differentiate(parse(" + ".join(["sin(x)"] * 600)))
    with ctx.workprec(128):
        assert math.isclose(float(series(slope, arb(1), 0)[0]), 600 * math.cos(1), rel_tol=1e-12)
