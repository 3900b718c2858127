"""What `compile` says of functions that no network can compute: numbers that people can read, and advice that helps."""

from __future__ import annotations

import pytest
import torch
from support.formulas import canonical

import weightwright as ww
from weightwright.expressions import shortened

PLANE = ww.Box([-1, -1], [1, 1])


@pytest.mark.slow
def test_a_table_that_cannot_be_proven_names_the_tolerance_that_was_asked_for() -> None:
    with pytest.raises(
        ww.ToleranceError, match=r"for tol=0.001, sin\(x\) on \[-100352, 100352\] is needed within .*e-05"
    ):
        ww.compile(lambda x: 8 * torch.sin(x), (-1e5, 1e5), tol=1e-3)


WIDE = ww.Box([-1e6], [1e6])
TOO_OFTEN = r"take a smaller domain: on this one the function turns [\d,]+ times or more, too often for [\d,]+ anchors"
#: Refusals with their causes: a domain that is too wide, or a slope that has no bound.
CAUSES = {
    "a wave on a wide domain": (lambda: ww.compile(torch.sin, WIDE, 1e-3), TOO_OFTEN),
    "a wave times a number": (lambda: ww.compile(lambda x: x * torch.sin(5 * x), WIDE, 1e-3), TOO_OFTEN),
    "a formula": (lambda: ww.approximate("sin(5*x)", (-1e6, 1e6), 1e-3), TOO_OFTEN),
    "a formula of two variables": (
        lambda: ww.approximate("sin(x)*y", ww.Box([-1e6] * 2, [1e6] * 2), 1e-3),
        TOO_OFTEN,
    ),
    "what the checker cannot bound": (
        lambda: ww.compile(torch.atan, WIDE, 1e-3),
        r"take a smaller domain: the checker finds no bound on atan\(x\) for arguments between -1e\+06 and 1e\+06",
    ),
    "a range that reaches 0 by rounding": (
        lambda: ww.compile(lambda x: torch.sqrt(x * x + 0.25), ww.Box([-1e6], [1e6]), 1e-9),
        r"take a smaller domain, or keep the argument of sqrt\(x\) away .* may be anything in \[0, 1e\+12\]",
    ),
    "an unbounded slope": (
        lambda: ww.approximate("sqrt(x)", (0, 1), 1e-3),
        "take a domain away from points where the function is undefined or its slope unbounded",
    ),
}
#: Causes like those of others, which take longer.
DEAR = {"a formula of two variables", "a wave times a number", "a range that reaches 0 by rounding"}


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=pytest.mark.slow) if case in DEAR else case for case in CAUSES],
)
def test_a_refusal_names_its_cause(case: str) -> None:
    ask, cause = CAUSES[case]
    with pytest.raises(ww.ToleranceError, match=cause):
        ask()


@pytest.mark.parametrize("function", [lambda x: torch.exp(1000 * x), lambda x: torch.exp(x) ** 1000])
def test_what_is_too_large_for_a_float_needs_no_eps(function: object) -> None:
    with pytest.raises(ww.FormulaError, match=r"is too large for a float: .* or clamp the argument$") as caught:
        ww.compile(function, PLANE, tol=1e-3)
    assert "eps" not in str(caught.value)


@pytest.mark.parametrize(
    ("function", "shown"),
    [
        (lambda x: 1 / (torch.sqrt(x.var(-1)) + 0.01), r"1/\(sqrt\(x\) \+ 0.01\.\.\.\) is undefined or unbounded"),
        (lambda x: torch.log(x[:, 0] + 0.3) / 3, r"log\(x\) is undefined .* add an eps"),
    ],
)
def test_constants_are_shown_with_few_digits(function: object, shown: str) -> None:
    with pytest.raises(ww.FormulaError, match=shown) as caught:
        ww.compile(function, PLANE, tol=1e-3)
    assert "000000" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("x + 0.5", "x + 0.5"),
        ("1000000*x", "1000000*x"),
        ("x0*123456.75", "x0*123457..."),
        ("1.2345678e-40*x + 10", "1.23457e-40...*x + 10"),
        ("x12345678 + 1", "x12345678 + 1"),
    ],
)
def test_shortened_formulas(text: str, short: str) -> None:
    assert shortened(text) == short


def test_a_float_written_out() -> None:
    written = canonical(f"x*{format(0.1, '.55f')}")
    assert len(written) > 50
    assert shortened(written) == "x*0.1..."
