"""`fitting` and `run`: one norm, a lemma that says where it says nothing, roots of sums of squares, numpy's numbers."""

from __future__ import annotations

import re

import numpy as np
import pytest
from flint import arb

from weightwright import incontext
from weightwright.expressions import parse
from weightwright.incontext.problem.convex import is_convex

RNG = np.random.default_rng(22)
X = RNG.normal(size=(12, 3))
Y = X @ [1.0, -2.0, 0.5] + 0.1 * RNG.normal(size=12)


def test_errors_and_bounds_are_both_in_the_largest_norm() -> None:
    kept = incontext.fitting(X, Y, "squared", steps=10).run(X, Y)
    failed = incontext.fitting(X, Y, "squared", steps=10, algorithm="nesterov").run(X, Y)
    assert kept.lemma.failed is None
    assert failed.lemma.bounds is None
    for run in (kept, failed):
        largest, euclidean = incontext.to_iterates(run.path, run.exact.answers(run.method))
        assert (run.errors == largest).all()
        assert (largest < euclidean)[1:].all()
        assert (run.errors <= run.bounds).all()
    assert (failed.bounds == failed.errors).all()


def test_a_lemma_whose_bound_says_nothing_has_failed() -> None:
    """Coarse tables: ten steps may be off by more than the optimum is long."""
    run = incontext.fitting(X, Y, "squared", steps=10, tol=0.2).run(X, Y)
    assert run.lemma.bounds is None
    said = re.match(
        r"number of steps: their errors add up to (\S+), and \|w\*\| is at most (\S+):", run.lemma.failed or ""
    )
    assert said
    assert float(said[1]) > float(said[2]) > float(np.linalg.norm(run.w)) / 2
    assert (run.bounds == run.errors).all()  # what is enclosed is sharp
    fine = incontext.fitting(X, Y, "squared", steps=10, tol=1e-6).run(X, Y)
    assert fine.lemma.bounds is not None
    assert fine.lemma.bounds[-1] <= np.linalg.norm(fine.w) + fine.to_optimum.bound


def test_a_curvature_without_bound_is_said_as_such() -> None:
    problem = incontext.Problem(X, np.abs(Y), incontext.loss("poisson"), ridge=1.0)
    steep = incontext.Problem(1000 * X, np.abs(Y), incontext.loss("poisson"), ridge=1.0)
    for one in (problem, steep):
        found = incontext.composed_error(one, incontext.gradient_descent(one, 0.1), 0.1, 1e-9, 3, np.zeros(3))
        assert found.bounds is None
        assert "-0" not in (found.failed or "")
    assert "= 0 " not in (found.failed or "")
    with pytest.raises(ValueError, match=r"step: no bound of the curvature of poisson is known for \|w\| <= 0.125"):
        incontext.fitting(1e5 * X, np.abs(Y), "poisson", steps=2)


def test_data_without_curvature_get_a_step() -> None:
    run = incontext.fitting(np.zeros((4, 2)), np.ones(4), "squared", steps=2).run(np.zeros((4, 2)), np.ones(4))
    assert (run.w == 0).all()


@pytest.mark.parametrize(
    "formula",
    ["sqrt(1+x**2)-1", "(1 + x**2)**0.5", "sqrt(x**4 + 1)", "sqrt(exp(x) + x**2)", "3*sqrt(0.5 + (x/2 - 1)**2)"],
)
def test_roots_of_sums_of_squares_are_convex(formula: str) -> None:
    assert incontext.loss(formula=formula).convex
    least, _ = incontext.loss(formula=formula).curvature_bounds(-3.0, 3.0)
    assert least >= 0.0


@pytest.mark.parametrize(
    "formula", ["sqrt(1 + x)", "sqrt(x**2 + x + 1)", "sqrt(1 - x**2)", "-sqrt(1 + x**2)", "sqrt(x)", "sqrt(1 + x**3)",
    "log(sqrt(1 + x**2))", "sqrt(abs(x))", "sqrt(1 + x**1.5)"]
)  # fmt: skip
def test_what_the_rules_do_not_show_is_not_called_convex(formula: str) -> None:
    assert not is_convex(parse(formula, ("x",)))


def test_roots_have_the_lemma() -> None:
    problem = incontext.Problem(X, Y, incontext.loss(formula="sqrt(1+x**2)-1"))
    steps = incontext.gradient_descent(problem, 0.5)
    near = incontext.plain_iterates(problem, steps, 200)[-1, 0]
    assert incontext.composed_error(problem, steps, 0.5, 1e-9, 100, near).failed is None


def test_numbers_of_numpys_types() -> None:
    assert incontext.loss("huber", delta=np.int64(2)) == incontext.loss("huber", delta=2.0)
    assert (
        incontext.loss("quantile", q=np.float32(0.25), width=np.float64(0.5)).slope
        == incontext.loss("quantile", q=0.25, width=0.5).slope
    )
    assert incontext.Problem(X, Y, incontext.loss("squared"), intercept=np.bool_(True)).size == 4
    plain = incontext.fitting(X, Y, "squared", steps=3, step=0.125, ridge=0.5)
    typed = incontext.fitting(X, Y, "squared", steps=np.int64(3), step=np.float32(0.125), ridge=np.float32(0.5))
    assert (plain.run(X, Y).w == typed.run(X, Y).w).all()
    assert arb(plain.step) == arb(typed.step)
