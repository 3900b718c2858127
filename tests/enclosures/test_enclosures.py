"""The prover's jets and the checker's series enclose the exact function, and agree with each other."""

from __future__ import annotations

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given
from hypothesis import strategies as st
from support.exact import exact
from support.formulas import random_formula

from weightwright.enclosures.balls.series import series
from weightwright.enclosures.intervals.intervals import Interval, cos, tan
from weightwright.enclosures.intervals.jets import jet
from weightwright.expressions import parse

ORDER = 6
EVERY_OPERATION = [
    "x + 2*x - x/3",
    "(x - 3)**3",
    "(1.5 + x)**-2",
    "(1.5 + x)**2.5",
    "2**x",
    "(2 + x)**x",
    "exp(-x)",
    "log(1.5 + x)",
    "sqrt(1.5 + x)",
    "sin(7*x)",
    "cos(7*x)",
    "tan(x)",
    "atan(5*x)",
    "tanh(4*x)",
    "sigmoid(4*x)",
    "softplus(8*x)",
    "gelu(3*x)",
    "silu(5*x)",
    "erf(2*x)",
    "abs(x - 0.25)",
    "relu(x)",
    "max(x, x**2)",
    "min(x, 0.3)",
    "clip(x, -0.5, 0.5)",
    "pi*x + e",
]


def encloses(interval: Interval, index: int, value: arb) -> bool:
    lo = np.broadcast_to(interval.lo, 8).reshape(-1)[index]
    hi = np.broadcast_to(interval.hi, 8).reshape(-1)[index]
    return bool(np.isnan(lo) or np.isnan(hi) or (arb(float(lo)) <= value and value <= arb(float(hi))))


@pytest.mark.parametrize("text", EVERY_OPERATION)
def test_both_programs_enclose_values_and_agree_on_coefficients(text: str) -> None:
    expression = parse(text)
    rng = np.random.default_rng(5)
    points = rng.uniform(-1, 1, 8)
    prover = jet(expression, Interval.exact(points), ORDER)
    with ctx.workprec(128):
        for index, x in enumerate(points.tolist()):
            checker = series(expression, arb(x), ORDER)
            assert encloses(prover[0], index, exact(expression, x))
            assert checker[0].overlaps(exact(expression, x))
            for k in range(ORDER + 1):
                if not checker[k].is_finite():
                    continue  # beyond a kink
                assert encloses(prover[k], index, checker[k].mid()), (text, k, x)


@pytest.mark.parametrize("seed", range(60))
def test_boxes_enclose_every_point_of_random_formulas(seed: int) -> None:
    """Coefficients over a box contain the coefficients at points of the box, in both programs."""
    rng = np.random.default_rng(seed)
    expression = parse(random_formula(rng, 3))
    a = float(rng.uniform(-1, 0.9))
    b = a + float(10.0 ** rng.uniform(-6, -1))
    prover = jet(expression, Interval(np.full(8, a), np.full(8, b)), ORDER)
    with ctx.workprec(128):
        checker = series(expression, arb(a).union(arb(b)), ORDER)
        for x in rng.uniform(a, b, 5).tolist():
            at_point = series(expression, arb(x), ORDER)
            for k in range(ORDER + 1):
                assert encloses(prover[k], 0, at_point[k].mid())
                assert not checker[k].is_finite() or checker[k].contains(at_point[k].mid())


@given(st.floats(-50, 50), st.floats(0, 4), st.floats(0, 1))
def test_cosine_of_an_interval_holds_the_cosine_of_its_points(lo: float, width: float, where: float) -> None:
    hi = lo + width
    x = min(max(lo + where * width, lo), hi)
    range_of_cosine = cos(Interval.exact(lo).hull(Interval.exact(hi)))
    with ctx.workprec(128):
        assert not arb(float(range_of_cosine.lo)) > arb(x).cos()
        assert not arb(float(range_of_cosine.hi)) < arb(x).cos()


def test_a_pole_inside_leaves_nothing() -> None:
    assert np.isnan(tan(Interval(np.array(1.5), np.array(1.6))).lo)
    with np.errstate(all="ignore"):
        assert np.isnan(jet(parse("1/x"), Interval(np.array(-1.0), np.array(1.0)), 1)[0].lo)
    with ctx.workprec(128):
        assert not series(parse("1/x"), arb(0, 1), 1)[0].is_finite()
        assert not series(parse("tan(x)"), arb(1.5, 0.2), 1)[0].is_finite()
        assert not series(parse("log(x)"), arb(0, 1), 1)[0].is_finite()
        assert not series(parse("sqrt(x)"), arb(0, 1), 1)[0].is_finite()


def test_a_kink_leaves_values_and_slopes_of_both_sides() -> None:
    coefficients = jet(parse("abs(x)"), Interval(np.array(-1.0), np.array(2.0)), 3)
    assert (coefficients[0].lo, coefficients[0].hi) == (0.0, 2.0)
    assert (coefficients[1].lo, coefficients[1].hi) == (-1.0, 1.0)
    assert np.isnan(coefficients[2].lo)
    with ctx.workprec(128):
        checker = series(parse("abs(x)"), arb(0.5, 1.5), 3)
        assert [bool(checker[0].contains(arb(y))) for y in (-1, 0, 2)] == [False, True, True]
        assert [bool(checker[1].contains(arb(y))) for y in (-1, 1)] == [True, True]
        assert not checker[2].is_finite()
