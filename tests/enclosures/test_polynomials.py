"""Taylor polynomials in several variables: prover and checker against each other and against what is known."""

from __future__ import annotations

from math import factorial

import numpy as np
import pytest
from flint import arb, ctx
from support.formulas import random_formula_of

from weightwright.enclosures.balls import polynomials as checker
from weightwright.enclosures.balls.series import series_along
from weightwright.enclosures.intervals import polynomials as prover
from weightwright.enclosures.intervals.intervals import Interval
from weightwright.enclosures.intervals.jets import jet_along
from weightwright.expressions import parse

DEGREE = 5


def by_monomial(table: list[tuple[int, ...]], coefficients: list[arb]) -> dict[tuple[int, ...], arb]:
    return dict(zip(table, coefficients, strict=True))


@pytest.mark.parametrize("seed", range(40))
def test_the_prover_encloses_what_the_checker_finds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    names = ("x", "y") if seed % 2 else ("x", "y", "z")
    formula = parse(random_formula_of(rng, names, 3), names)
    points = rng.uniform(-1, 1, (4, len(names)))
    table = prover.monomials(len(names), DEGREE)
    found = prover.coefficients(formula, names, points, DEGREE)
    with ctx.workprec(128):
        for index, point in enumerate(points.tolist()):
            shape = checker.shape(len(names), DEGREE)
            exact = by_monomial(
                shape.monomials, checker.expand(formula, names, [arb(value) for value in point], DEGREE)
            )
            for k, exponents in enumerate(table.exponents.tolist()):
                value = exact[tuple(exponents)].mid()
                assert not arb(float(found.lo[k, index])) > value
                assert not arb(float(found.hi[k, index])) < value
                assert found.hi[k, index] - found.lo[k, index] < 1e-9


@pytest.mark.parametrize(
    ("text", "coefficient"),
    [
        ("exp(x + 2*y)", lambda a, b: 2.0**b / (factorial(a) * factorial(b))),
        ("1/(1 - x)*y", lambda a, b: float(b == 1)),
        ("(1 + x)**3*(1 + y)", lambda a, b: [1, 3, 3, 1, 0, 0][a] * float(b <= 1)),
        ("max(x + 1, y)*min(y - 1, x)", lambda a, b: {(0, 0): -1, (1, 0): -1, (0, 1): 1, (1, 1): 1}.get((a, b), 0)),
    ],
)
def test_known_coefficients_at_the_origin(text: str, coefficient: object) -> None:
    formula = parse(text, ("x", "y"))
    found = prover.coefficients(formula, ("x", "y"), np.zeros((1, 2)), DEGREE)
    with ctx.workprec(128):
        exact = checker.expand(formula, ("x", "y"), [arb(0), arb(0)], DEGREE)
        for (a, b), ball in zip(checker.shape(2, DEGREE).monomials, exact, strict=True):
            assert ball.contains(arb(coefficient(a, b))) or abs(float(ball) - coefficient(a, b)) < 1e-30
    for k, (a, b) in enumerate(prover.monomials(2, DEGREE).exponents.tolist()):
        assert found.lo[k, 0] <= coefficient(a, b) <= found.hi[k, 0]


def test_rays_hold_the_terms_of_a_degree() -> None:
    """Along rays into a box, each coefficient holds the homogeneous part of the polynomial at every direction."""
    rng = np.random.default_rng(3)
    formula, names = parse("sin(3*x)*exp(y) + x*y", ("x", "y")), ("x", "y")
    point, r = np.array([[0.3, -0.2]]), np.array([0.25, 0.5])
    table = prover.monomials(2, DEGREE)
    at = {name: Interval.exact(point[:, i]) for i, name in enumerate(names)}
    step = {name: Interval.exact(-r[i]).hull(Interval.exact(r[i])) for i, name in enumerate(names)}
    rays = jet_along(formula, at, step, DEGREE)
    coefficients = prover.coefficients(formula, names, point, DEGREE).middle()[:, 0]
    with ctx.workprec(128):
        lines = {name: (arb(float(point[0, i])), arb(0, float(r[i]))) for i, name in enumerate(names)}
        balls = series_along(formula, lines, DEGREE)
    for t in rng.uniform(-r, r, (50, 2)):
        terms = coefficients * np.prod(t**table.exponents, axis=1)
        for k in range(DEGREE + 1):
            part = terms[table.degrees == k].sum()
            assert rays[k].lo - 1e-12 <= part <= rays[k].hi + 1e-12
            assert balls[k].overlaps(arb(part, 1e-12))


@pytest.mark.parametrize("variables", [2, 3])
def test_bernstein_coefficients_bound_a_polynomial_well(variables: int) -> None:
    rng = np.random.default_rng(variables)
    table, shape = prover.monomials(variables, DEGREE), checker.shape(variables, DEGREE)
    coefficients = rng.normal(size=len(table.degrees))
    r = rng.uniform(0.3, 0.8, variables)
    t = np.concatenate([rng.uniform(-r, r, (4000, variables)), r * rng.choice([-1, 1], (100, variables))])
    largest = max(abs(float((coefficients * np.prod(x**table.exponents, axis=1)).sum())) for x in t)
    plain = float((np.abs(coefficients) * np.prod(r**table.exponents, axis=1)).sum())
    bound = float(prover.largest_on_box(Interval.exact(coefficients[:, None]), r[None], table)[0])
    assert largest <= bound < 0.8 * plain
    order = {tuple(e): c for e, c in zip(table.exponents.tolist(), coefficients.tolist(), strict=True)}
    with ctx.workprec(128):
        again = checker.largest_on_box([arb(order[e]) for e in shape.monomials], [arb(x) for x in r.tolist()], shape)
    assert abs(float(again) - bound) < 1e-9 * bound


@pytest.mark.parametrize("text", ["abs(x - y) + x", "max(x - y, y - x) + x", "x - min(x - y, y - x)"])
def test_a_kink_leaves_values_and_slopes_in_both_programs(text: str) -> None:
    formula, names = parse(text, ("x", "y")), ("x", "y")
    found = prover.coefficients(formula, names, np.zeros((1, 2)), 3)
    assert found.lo[0, 0] <= 0 <= found.hi[0, 0]
    assert found.hi[0, 0] < 1e-300
    assert found.lo[1, 0] <= 0
    assert found.hi[1, 0] >= 2
    assert np.isnan(found.lo[3:, 0]).all()
    with ctx.workprec(128):
        exact = checker.expand(formula, names, [arb(0), arb(0)], 3)
        slopes = dict(zip(checker.shape(2, 3).monomials, exact, strict=True))
        assert slopes[1, 0].contains(arb(0))
        assert slopes[1, 0].contains(arb(2))
        assert not slopes[2, 0].is_finite()


@pytest.mark.parametrize("text", ["log(x - y)", "1/(x - y)", "0*log(x - y - 1)", "sqrt(x - y - 1)"])
def test_nothing_is_known_where_a_function_is_undefined(text: str) -> None:
    formula, names = parse(text, ("x", "y")), ("x", "y")
    assert np.isnan(prover.coefficients(formula, names, np.zeros((1, 2)), 2).lo[0, 0])
    with ctx.workprec(128):
        assert not checker.expand(formula, names, [arb(0), arb(0)], 2)[0].is_finite()
