"""Formulas: what is read, what is refused, and that nothing is ever evaluated as code."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from flint import arb
from hypothesis import given
from hypothesis import strategies as st
from support.exact import exact

import weightwright as ww
from weightwright.expressions import OPERATIONS, Apply, Number, Variable, parse, substitute, to_text

X = Variable("x")


def number(text: str) -> Number:
    return Number(Fraction(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("-x**2", Apply("neg", (Apply("pow", (X, number("2"))),))),
        ("2**-x", Apply("pow", (number("2"), Apply("neg", (X,))))),
        ("x**2**3", Apply("pow", (X, Apply("pow", (number("2"), number("3")))))),
        ("x - 1 - 2", Apply("sub", (Apply("sub", (X, number("1"))), number("2")))),
        ("x/2*3", Apply("mul", (Apply("div", (X, number("2"))), number("3")))),
        ("-x*2", Apply("mul", (Apply("neg", (X,)), number("2")))),
        ("+x", X),
        ("0.1", number("0.1")),
        (".5e-3", number("0.0005")),
        ("clip(x, -1, 1)", Apply("clip", (X, Apply("neg", (number("1"),)), number("1")))),
        (" pi * e ", Apply("mul", (Apply("pi", ()), Apply("e", ())))),
    ],
)
def test_formulas_mean_what_they_mean_in_python(text: str, expected: Any) -> None:
    assert parse(text) == expected


def test_constants_are_exact_decimals() -> None:
    assert parse("0.1") == Number(Fraction(1, 10)) != Number(Fraction(0.1))


NAMES = [name for name, arity in OPERATIONS.items() if arity == 1 and name != "neg"]
numbers = st.decimals("0", "1e6", allow_nan=False, places=4).map(lambda d: Number(Fraction(d)))
expressions = st.recursive(
    numbers | st.just(X),
    lambda inner: st.one_of(
        st.builds(lambda op, a: Apply(op, (a,)), st.sampled_from([*NAMES, "neg"]), inner),
        st.builds(
            lambda op, a, b: Apply(op, (a, b)),
            st.sampled_from(["add", "sub", "mul", "div", "pow", "max", "min"]),
            inner,
            inner,
        ),
        st.builds(lambda a, b, c: Apply("clip", (a, b, c)), inner, inner, inner),
    ),
    max_leaves=12,
)


@given(expressions)
def test_text_is_read_back_as_the_same_expression(expression: Any) -> None:
    assert parse(to_text(expression)) == expression


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "expected"),
        ("sin(5*q)", "unknown name 'q'"),
        ("x.real", "attributes"),
        ("x.__class__", "attributes"),
        ("__import__('os')", "unknown name|not part"),
        ("open(x)", "unknown name 'open'"),
        ("eval(x)", "unknown name 'eval'"),
        ("lambda: x", "unknown name|not part"),
        ("x if x else x", "not expected"),
        ("x[0]", "not part of the language"),
        ("x; x", "not part of the language"),
        ("sin", "'\\(' was expected"),
        ("sin x", "'\\(' was expected"),
        ("sin(x, x)", "takes 1 argument, not 2"),
        ("max(x)", "takes 2 arguments, not 1"),
        ("(x", "'\\)' was expected"),
        ("x)", "not expected"),
        ("x x", "not expected"),
        ("2x", "not expected"),
        ("x ^ 2", "not part of the language"),
        ("x = 1", "not part of the language"),
        ("add(x, x)", "unknown name 'add'"),
        ("1e999999999", "exponent"),
        ("(" * 10_000 + "x" + ")" * 10_000, "characters|nested"),
        ("(" * 5_000 + "x" + ")" * 5_000, "nested"),
        ("-" * 5_000 + "x", "nested"),
        ("sin(" * 5_000 + "x" + ")" * 5_000, "characters|nested"),
        ("x" + "+x" * 9_000, "operations"),
        ("9" * 5_000, "digits"),
    ],
)
def test_what_is_not_a_formula_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ww.FormulaError, match=reason):
        parse(text)


def test_errors_name_the_place() -> None:
    with pytest.raises(ww.FormulaError, match=r"formula 'sin\(5\*q\)', character 7: unknown name 'q'"):
        parse("sin(5*q)")


def test_only_text_is_parsed() -> None:
    with pytest.raises(ww.FormulaError, match="not int: 5"):
        parse(5)  # type: ignore[arg-type]


def test_a_long_sum_is_no_problem() -> None:
    text = "x" + " + x" * 900
    assert exact(text, 1.0) == arb(901)
    assert parse(to_text(parse(text))) is not None


def test_substitution_reaches_every_occurrence() -> None:
    replaced = substitute(parse("x*sin(x) + 1"), "x", parse("2*x"))
    assert to_text(replaced) == "2*x*sin(2*x) + 1"
