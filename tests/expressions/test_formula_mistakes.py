"""Formulas as people write them that are none: what the message tells them to write."""

from __future__ import annotations

import math

import pytest
import torch
from scipy import special
from support.formulas import formula_values

import weightwright as ww
from weightwright.expressions import parse
from weightwright.expressions.mistakes import CALLED, WRITTEN_OUT, read_formula
from weightwright.expressions.parser import NAMES

PRODUCTS = "products are written with *: write "
POWERS = "powers are written with **: write "
BARE = "names stand without a prefix: write "


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("2x", PRODUCTS + "2*x"),
        ("2(x+1)", PRODUCTS + "2*(x+1)"),
        ("x(1+x)", PRODUCTS + "x*(1+x)"),
        ("(x)(x + 1)", PRODUCTS + "(x)*(x + 1)"),
        ("3.5 sin(2x)cos(x)", PRODUCTS + "3.5*sin(2*x)*cos(x)"),
        ("2·x", PRODUCTS + "2*x"),
        ("x×2", PRODUCTS + "x*2"),
        ("x^2", POWERS + "x**2"),
        ("x²", POWERS + "x**2"),
        ("sin^2(x)", "the power of a function stands behind it: write sin(x)**2"),
        ("3x^2 - 1", "powers are written with **; products are written with *: write 3*x**2 - 1"),
        ("x − 1", "a minus is -: write x - 1"),
        ("π*x", "π is pi: write pi*x"),
        ("√(x + 2)", "a root is sqrt(...): write sqrt(x + 2)"),
        ("|x| + 1", "|...| is abs(...): write abs(x) + 1"),
        ("{x}", "brackets are round: write (x)"),
        ("1,5*x", "decimals have a point: write 1.5*x"),
        ("ln(x + 2)", "ln is called log: write log(x + 2)"),
        ("2ln(x + 2)", "ln is called log; products are written with *: write 2*log(x + 2)"),
        ("arctan(x)", "arctan is called atan: write atan(x)"),
        ("clamp(x, 0, 1)", "clamp is called clip: write clip(x, 0, 1)"),
        ("np.sin(x)", BARE + "sin(x)"),
        ("math.exp(x)", BARE + "exp(x)"),
        ("torch.nn.functional.gelu(x)", BARE + "gelu(x)"),
        ("nn.ReLU(x)", "names stand without a prefix; ReLU is called relu: write relu(x)"),
        ("x.tanh()", "functions stand before their argument: write tanh(x)"),
        ("sin x", "sin takes its argument in brackets: write sin(x)"),
        ("ln x", "ln is called log; log takes its argument in brackets: write log(x)"),
        ("sigmod(x)", "sigmod is perhaps sigmoid: write sigmoid(x)"),
        ("t**2", "t is called x: write x**2"),
        ("X**2", "X is called x: write x**2"),
        ("log10(x + 2)", "log10(a) is log(a)/log(10)"),
        ("pow(x, 2)", "pow(a, b) is a**b"),
        ("f(x) = x + 1", "a formula is what stands after the =: write x + 1"),
        ("lambda x: x + 1", "a formula is what stands after the colon: write x + 1"),
        ("max(x, 0, 1)", "max and min take two arguments: write max(x,max( 0, 1))"),
        ("x if x > 0 else 0", "formulas compare nothing: relu, max, min, clip, abs, sign and step choose"),
        ("floor(x)", "formulas do not round: sign and step jump once each"),
        ("softmax(x)", "formulas are of single numbers: compile takes functions of many"),
        ("", "write one, as in sin(5*x)"),
        ("a*x", "known are x, pi, e, exp"),
        ("foo(x)", "known are x, pi, e, exp"),
    ],
)
def test_what_is_no_formula_is_refused_with_what_to_write(text: str, advice: str) -> None:
    with pytest.raises(ww.FormulaError) as caught:
        ww.approximate(text, (-1, 1), 1e-3)
    said = str(caught.value)
    assert said.startswith(f"formula {text!r}, character ")
    assert advice in said
    if ": write " in advice:  # to its end, and a formula
        assert said.endswith(advice)
        parse(advice.partition(": write ")[2])


@pytest.mark.parametrize(
    ("text", "formula"),
    [("x*y", ""), ("x0*x1", "x*y"), ("x[0]*x[1]", "x*y"), ("x_1 + x_2", "x + y"), ("2xy", "2*x*y"), ("u*v", "x*y")],
)
def test_a_formula_of_two_numbers_on_an_interval_asks_for_a_box(text: str, formula: str) -> None:
    with pytest.raises(ww.FormulaError) as caught:
        ww.approximate(text, (-1, 1), 1e-3)
    assert str(caught.value).endswith("an interval for each of x and y is domain=Box([lo, lo], [hi, hi])")
    assert f": write {formula}, and" in str(caught.value) if formula else True


def test_the_variables_of_a_box_are_named() -> None:
    with pytest.raises(ww.FormulaError, match=r"the variables are called x, y and z: write x\*y$"):
        ww.approximate("x0*x1", ww.Box([-1, -1], [1, 1]), 1e-3)


def test_constructions_with_numbered_variables_keep_them() -> None:
    with pytest.raises(ww.FormulaError, match=r"powers are written with \*\*: write x0\*\*2 \+ x1$"):
        read_formula("x0^2 + x1", ("x0", "x1"))


def test_advice_is_read_only_where_a_person_could_have_written_it() -> None:
    with pytest.raises(ww.FormulaError, match="character 2: '\\^'") as caught:
        read_formula("x^2" + " + x" * 200)
    assert "write" not in str(caught.value)


def test_every_other_name_leads_to_one_of_the_language() -> None:
    assert {own for own in CALLED.values() if own not in (*NAMES, *WRITTEN_OUT)} == set()


OTHERS = {name: getattr(torch, name) for name in WRITTEN_OUT if hasattr(torch, name)} | {
    "lg": torch.log10, "sec": lambda a: 1 / torch.cos(a), "csc": lambda a: 1 / torch.sin(a), "pow": torch.pow,
    "cot": lambda a: 1 / torch.tan(a), "coth": lambda a: 1 / torch.tanh(a), "sech": lambda a: 1 / torch.cosh(a),
    "acosh": torch.acosh, "relu6": torch.nn.functional.relu6, "leaky_relu": torch.nn.functional.leaky_relu,
    "mish": torch.nn.functional.mish, "softsign": torch.nn.functional.softsign, 
    "cbrt": lambda a: special.cbrt(a.numpy()),
    "logsigmoid": torch.nn.functional.logsigmoid, "hardsigmoid": torch.nn.functional.hardsigmoid,
}  # fmt: skip


@pytest.mark.parametrize("name", WRITTEN_OUT)
def test_what_is_written_out_is_the_function(name: str) -> None:
    at = torch.tensor([[1.25, 0.5], [1.5, 0.75]] if name == "acosh" else [[0.25, 0.5], [0.75, 1.25]]).double()
    takes = (at[:, 0], at[:, 1])[: 2 if "b" in WRITTEN_OUT[name].replace("abs", "") else 1]
    found = formula_values(WRITTEN_OUT[name], ("a", "b"), at.numpy())
    for one, other in zip(found.tolist(), torch.as_tensor(OTHERS[name](*takes)).tolist(), strict=True):
        assert math.isclose(one, other, rel_tol=1e-12), name
