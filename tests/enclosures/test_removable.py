"""Quotients that are 0 / 0 at a point: both programs enclose them there, beside it, and across it; and no others."""

from __future__ import annotations

import dataclasses
import time
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx, fmpq
from hypothesis import given, settings
from hypothesis import strategies as st

from weightwright.enclosures.balls import series as balls
from weightwright.enclosures.balls.polynomials import expand
from weightwright.enclosures.intervals.intervals import Interval
from weightwright.enclosures.intervals.jets import jet, jet_along
from weightwright.enclosures.intervals.polynomials import coefficients
from weightwright.expressions import Apply, Number, fold, parse, to_text
from weightwright.expressions.poles import join_poles
from weightwright.expressions.quotients import Zero, take_out_quotients

ORDER = 4
#: Formula, the point, the limit there.
LIMITS = [
    ("sin(x)/x", "0", arb(1)),
    ("sinc(x)", "0", arb(1)),
    ("expm1(x)/x", "0", arb(1)),
    ("(exp(x) - 1)/x", "0", arb(1)),
    ("log1p(x)/x", "0", arb(1)),
    ("(1 - cos(x))/x**2", "0", arb(0.5)),
    ("tan(x)/x", "0", arb(1)),
    ("sinh(x)/x", "0", arb(1)),
    ("(x - sin(x))/x**3", "0", arb(1) / 6),
    ("x/(exp(x) - 1)", "0", arb(1)),
    ("sin(3*x - 1)/(3*x - 1)", "1/3", arb(1)),
    ("sin(x - 0.3)/(2*x - 0.6)", "3/10", arb(0.5)),
    ("log(x + 2)/(x + 1)", "-1", arb(1)),
    ("(x**2 - 1)/(x - 1)", "1", arb(2)),
    ("(sqrt(1 + x) - 1)/x", "0", arb(0.5)),
    ("(sin(x)/x - 1)/x**2", "0", -arb(1) / 6),
    ("(1 - cos(pi*x))/x**2", "0", arb.pi() ** 2 / 2),
    ("silu(x)/x", "0", arb(0.5)),
    ("(1/x - 1/sin(x))/x", "0", -arb(1) / 6),
    ("x/(x - 1) - 1/log(x)", "1", arb(0.5)),
    ("(x**2 - 0.01)/(x - 0.1)", "1/10", arb(1) / 5),
    ("(x**2 - 1/9)/(x - 1/3)", "1/3", arb(2) / 3),
    ("(sin(x) - x + x**3/6)/x**5", "0", arb(1) / 120),
    ("(tanh(x) - x + x**3/3)/x**5", "0", arb(2) / 15),
]


@cache
def written(text: str) -> Any:
    """As `approximate` takes it."""
    return join_poles(parse(text))


def high_precision(text: str, x: Fraction) -> arb:
    """The formula as it is written, in 2,000 bits: enough digits are left 1e-100 from the point."""
    expression = parse(text)

    def leaf(node: Any) -> arb:
        value = node.value if isinstance(node, Number) else x
        return arb(fmpq(value.numerator, value.denominator))

    ctx.prec = 2000
    functions = {"sigmoid": lambda a: 1 / (1 + (-a).exp()), "silu": lambda a: a / (1 + (-a).exp()), "pi": arb.pi}
    signs = {"add": "__add__", "sub": "__sub__", "mul": "__mul__", "div": "__truediv__", "neg": "__neg__"}

    def node(op: str, args: list[arb]) -> arb:
        if op == "pow":
            return arb(args[0]) ** int(float(args[1]))
        return functions[op](*args) if op in functions else getattr(arb, signs.get(op, op))(*args)

    return fold(expression, leaf, node)


def near(c: Fraction, exponent: int, side: int) -> Fraction:
    return c + side * Fraction(1, 2**exponent)


@pytest.mark.parametrize(("text", "at", "limit"), LIMITS)
def test_the_value_at_the_point_is_the_limit(text: str, at: str, limit: arb) -> None:
    c = Fraction(at)
    prover = jet(written(text), Interval.rational(c), 0)[0]
    with balls.working_precision():
        checker = balls.series(written(text), arb(fmpq(c.numerator, c.denominator)), 0)[0]
        assert checker.overlaps(limit)
        assert checker.rad() < 1e-30
        assert arb(float(prover.lo)) <= limit <= arb(float(prover.hi))
    assert prover.hi - prover.lo < 1e-13


@pytest.mark.few(3)
@pytest.mark.parametrize(("text", "at", "limit"), LIMITS)
def test_beside_the_point_nothing_is_lost(text: str, at: str, limit: arb) -> None:
    """From 1/16 to 2^-300: as narrow as anywhere, and around the truth."""
    for exponent in (4, 10, 20, 40, 300):
        for side in (-1, 1):
            x = near(Fraction(at), exponent, side)
            with balls.working_precision():
                truth = high_precision(text, x)
                ctx.prec = balls.PRECISION
                checker = balls.series(written(text), arb(fmpq(x.numerator, x.denominator)), 0)[0]
                assert checker.overlaps(truth), exponent
                assert checker.rad() < 2e-21, exponent
            there = float(x)
            if Fraction(there) == x:
                prover = jet(written(text), Interval.exact(there), 0)[0]
                with balls.working_precision(2000):
                    assert arb(float(prover.lo)) <= truth <= arb(float(prover.hi)), exponent
                assert prover.hi - prover.lo < 1e-11, exponent


@settings(max_examples=30)
@given(st.sampled_from([case[:2] for case in LIMITS]), st.floats(-0.2, 0.2), st.floats(0, 0.2), st.floats(0, 1))
def test_boxes_hold_the_coefficients_of_every_point(
    case: tuple[str, str], start: float, width: float, share: float
) -> None:
    """Of boxes that hold the point, or do not, or end there."""
    text, c = case[0], float(Fraction(case[1]))
    a, b = c + start, c + start + width
    x = min(max(a + share * (b - a), a), b)
    with balls.working_precision():
        box = balls.series(written(text), arb(a).union(arb(b)), ORDER)
        point = balls.series(written(text), arb(x), ORDER)
        prover = jet(written(text), Interval(np.array(a), np.array(b)), ORDER)
        for k in range(ORDER + 1):
            assert point[k].is_finite()
            assert prover[k].lo <= prover[k].hi
            assert not box[k].is_finite() or box[k].overlaps(point[k])
            assert arb(float(prover[k].lo)) <= point[k].upper()
            assert point[k].lower() <= arb(float(prover[k].hi))
        if abs(start) + width < 0.1:  # narrow boxes are narrow
            assert float(box[0].rad()) < 2 * width + 1e-30
            assert prover[0].hi - prover[0].lo < 4 * width + 1e-13


@pytest.mark.parametrize(
    "text", ["cos(x)/x", "abs(x)/x", "sin(x)/x**2", "relu(x)/x", "x/x**2", "sqrt(x)/x", "1/x", "sin(x)/(x - 1)"]
)
def test_what_has_no_limit_is_not_known(text: str) -> None:
    with balls.working_precision():
        at = arb(1) if "x - 1" in text else arb(0)
        assert not balls.series(written(text), at + arb(0, 0.1), 0)[0].is_finite()
    c = 1.0 if "x - 1" in text else 0.0
    assert np.isnan(jet(written(text), Interval(np.array(c - 0.1), np.array(c + 0.1)), 0)[0].lo)


@pytest.mark.parametrize(
    ("text", "zero"),
    [
        ("(1 + sin(x))/x", Zero(Fraction(0), 1)),  # the numerator is no zero
        ("sin(x)/x", Zero(Fraction(0), 2)),  # not of this order
        ("sin(x)/(x + 1e-300)", Zero(Fraction(0), 1)),  # the denominator is no zero
        ("(exp(x) - 1 - 1e-60)/x", Zero(Fraction(0), 1)),  # below the precision
        ("sin(x)/x", Zero(Fraction(1, 3), 1)),
    ],
)
def test_the_checker_believes_no_zero_that_it_cannot_prove(text: str, zero: Zero) -> None:
    """What the two programs share proposes zeros; here it lies."""
    quotient = parse(text)
    assert isinstance(quotient, Apply)
    right = next(iter(take_out_quotients(parse("sin(x)/x")).quotients.values()))
    lie = dataclasses.replace(right, numerator=quotient.args[0], denominator=quotient.args[1], zeros=(zero,))
    with balls.working_precision():
        assert not any(x.is_finite() for x in balls.quotient_series(lie, arb(0, 0.1), 2))


def test_several_variables() -> None:
    """A quotient of one of them, along a line and as a polynomial."""
    text, names = "exp(y)*(sin(x)/x)", ("x", "y")
    expression = parse(text, names)
    alone = parse("exp(x)*(sin(x)/x)")
    with balls.working_precision():
        along = balls.series_along(expression, {name: (arb(0), arb(1)) for name in names}, ORDER)
        assert all(a.overlaps(b) for a, b in zip(along, balls.series(alone, arb(0), ORDER), strict=True))
        full = expand(expression, names, [arb(0), arb(0)], ORDER)
    zero, one = Interval.exact(np.zeros(1)), Interval.exact(np.ones(1))
    quick = jet_along(expression, dict.fromkeys(names, zero), dict.fromkeys(names, one), ORDER)
    assert all(
        arb(float(q.lo[0])) <= a.upper() and a.lower() <= arb(float(q.hi[0])) for q, a in zip(quick, along, strict=True)
    )
    table = coefficients(expression, names, np.zeros((1, 2)), ORDER)
    sizes = sorted(float(x) for x in full)
    assert np.allclose(np.sort(table.middle()[:, 0]), sizes, atol=1e-14)


@pytest.mark.parametrize(
    ("text", "joined"),
    [
        ("sin(x)*(1/x)", "sin(x)/x"),
        ("x**-2*(1 - cos(x))", "(1 - cos(x))/x**2"),
        ("1/tan(x) - 1/x", "(x - tan(x))/(tan(x)*x)"),
        ("1/(1 + x) + 1/(2 + x)", "1/(1 + x) + 1/(2 + x)"),
        ("1/x + 3", "1/x + 3"),
        ("exp(1/x - 1/x)", "exp(1/x - 1/x)"),  # 0 / x stays undefined
    ],
)
def test_poles_that_cancel_become_one_quotient(text: str, joined: str) -> None:
    assert to_text(join_poles(parse(text))) == joined


@pytest.mark.parametrize(
    "text",
    ["1/(((((x**64)**64)**64)**64)**64 - 3.1)", "1/(x - (((((((((1.1**7)**7)**7)**7)**7)**7)**7)**7)**7))"],
)
def test_powers_of_powers_take_no_time(text: str) -> None:
    """As fractions they would have millions of digits, and one product of these knows no limit."""
    start = time.process_time()
    expression = join_poles(parse(text))
    with balls.working_precision():
        balls.series(expression, arb(0.5), ORDER)
    assert time.process_time() - start < 2


def test_many_poles_are_looked_at_in_a_moment() -> None:
    start = time.process_time()
    join_poles(parse("+".join(f"1/(x - {k})" for k in range(1, 40))))
    assert time.process_time() - start < 3
