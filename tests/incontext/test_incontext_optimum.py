"""Distances of fitted coefficients to the optimum, against optima found by other means, without tolerance."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx, fmpq
from hypothesis import given, settings
from hypothesis import strategies as st
from support import optima
from support.optima import AWAY, at, data, huber_at, multinomial_at, perturbed, require_sharp

from weightwright import incontext
from weightwright.enclosures.balls.linear_algebra import balls
from weightwright.incontext.optimum import least_squares
from weightwright.incontext.optimum.lasso import Quadratic, box_from_subgradient, enclose_sparse
from weightwright.incontext.optimum.least_squares import normal_equations
from weightwright.incontext.optimum.sharp_distance import distance, huber_distance, multinomial_distance

SQUARED = incontext.loss("squared")


def badly_scaled(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features of std 1e3 around 1e6, 1 and 1e-5, a dummy, and one that is nearly the sum of two others."""
    rng = np.random.default_rng(seed)
    a, b, c = rng.normal(size=(3, 20)) * [[1e3], [1.0], [1e-5]]
    X = np.column_stack([a + 1e6, b, c, rng.integers(0, 2, 20), a + b + 1e-7 * rng.normal(size=20)])
    return X, 1e-3 * a + b + rng.normal(size=20), np.ones(20)


SQUARES = {
    "weighted": (*data(0), Fraction(0), True),
    "no intercept": (*data(1), Fraction(0), False),
    "ridge": (*data(2), Fraction(1, 3), True),
    "ridge, no intercept": (*data(3), Fraction(2), False),
    "badly scaled": (*badly_scaled(4), Fraction(0), True),
    "badly scaled ridge": (*badly_scaled(5), Fraction(1, 10), True),
    "fewer samples than features": (*data(6, 4, 6)[:2], np.ones(4), Fraction(0), True),
    "fewer samples, no intercept": (*data(7, 4, 6)[:2], np.ones(4), Fraction(0), False),
    "fewer samples, ridge": (*data(8, 4, 6)[:2], np.ones(4), Fraction(1), True),
    "as many samples as numbers": (*data(9, 4, 3)[:2], np.ones(4), Fraction(0), True),
    "one sample": (*data(10, 1, 2)[:2], np.ones(1), Fraction(0), True),
}


@pytest.mark.parametrize("name", SQUARES)
def test_least_squares_to_exact_fractions(name: str) -> None:
    X, y, s, ridge, intercept = SQUARES[name]
    optimum = optima.shortest_least_squares(X, y, s, ridge, intercept)
    objective = incontext.Problem(X, y, SQUARED, s, ridge=ridge, intercept=intercept)
    for seed, away in enumerate(AWAY):
        v = perturbed(optimum, seed, away)
        require_sharp(at(objective, v), v, optimum)


def test_with_few_independent_samples_no_rank_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would take seconds for some hundred features."""
    X, y, s, ridge, intercept = SQUARES["fewer samples than features"]
    monkeypatch.delattr(least_squares, "_column_relations")
    assert at(incontext.Problem(X, y, SQUARED, s, ridge=ridge, intercept=intercept), np.zeros(7)).bound < 10


def test_dependent_columns_have_the_shortest_optimum() -> None:
    """A constant, a zero, a duplicate and an exact combination; then with and without an intercept."""
    X, y, s = data(11)
    X = np.round(X * 64) / 64  # so that sums are exact
    X = np.column_stack([X, np.full(20, 7.0), np.zeros(20), X[:, 0], X[:, 0] - 2 * X[:, 1]])
    for intercept, rank in ((True, 3), (False, 4)):
        optimum = optima.shortest_least_squares(X, y, s, intercept=intercept)
        v = perturbed(optimum, 0, 1e-9)
        found = at(incontext.Problem(X, y, SQUARED, s, intercept=intercept), v)
        require_sharp(found, v, optimum)
        assert f"smallest |w| ({rank} of 7 columns are independent)" in found.why
        assert "rounding" not in found.why


def test_columns_that_are_dependent_up_to_rounding_are_not() -> None:
    X, y, s = data(12)
    X = np.column_stack([X, X[:, 0] / 3 + X[:, 1]])
    optimum = optima.shortest_least_squares(X, y, s)
    assert max(abs(x) for x in optimum) > 1e12
    v = np.array([1.0, -0.25, 0.5, 0.0, 2.0])
    found = at(incontext.Problem(X, y, SQUARED, s, intercept=True), v)
    require_sharp(found, v, optimum)
    assert "but for rounding" in found.why


def test_nothing_but_constants() -> None:
    X, y = np.full((3, 2), 5.0), np.array([1.0, 2.0, 4.5])
    assert at(incontext.Problem(X, y, SQUARED, np.ones(3), intercept=True), np.array([0.0, 0.0, 2.5])).bound < 1e-60
    assert at(incontext.Problem(0 * X, y, SQUARED, np.ones(3), intercept=False), np.array([3.0, 4.0])).bound >= 5.0


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.integers(-3, 3), min_size=4, max_size=4), min_size=1, max_size=6),
    st.lists(st.floats(-2, 2), min_size=4, max_size=4),
    st.sampled_from([Fraction(0), Fraction(0), Fraction(1, 7)]),
    st.booleans(),
)
def test_small_whole_numbers_of_any_rank(rows: list, v: list, ridge: Fraction, intercept: bool) -> None:
    table = np.array(rows, dtype=float)
    X, y, s = table[:, :3] / 4, table[:, 3], np.arange(1.0, len(rows) + 1)
    optimum = optima.shortest_least_squares(X, y, s, ridge, intercept)
    given = np.array(v[: 3 + intercept])
    found = at(incontext.Problem(X, y, SQUARED, s, ridge=ridge, intercept=intercept), given)
    require_sharp(found, given, optimum)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(st.integers(-3, 3), min_size=4, max_size=4), min_size=3, max_size=6),
    st.lists(st.floats(-2, 2), min_size=4, max_size=4),
    st.integers(1, 12),
    st.sampled_from([Fraction(0), Fraction(1, 7)]),
)
def test_sparse_small_whole_numbers(rows: list, v: list, l1: int, ridge: Fraction) -> None:
    """Ties are common here: a slope of exactly l1 where the coefficient is zero. An infinite bound says: not unique."""
    table = np.array(rows, dtype=float)
    X, y, s = table[:, :3], table[:, 3], np.ones(len(rows))
    optimum = optima.sparse_optimum(X, y, s, Fraction(l1), ridge)
    found = at(incontext.Problem(X, y, SQUARED, s, l1=l1, ridge=ridge, intercept=True), np.array(v))
    assert optima.length(v, optimum) <= found.bound
    if np.linalg.matrix_rank(np.column_stack([X, s])) == 4 or ridge:
        require_sharp(found, np.array(v), optimum)


LASSOS = {
    "lasso": (*data(20), Fraction(3), Fraction(0)),
    "elastic net": (*data(21), Fraction(3), Fraction(2)),
    "all zero": (*data(22), Fraction(1000), Fraction(0)),
    "badly scaled": (*badly_scaled(23), Fraction(1, 2), Fraction(0)),
    "fewer samples than features": (*data(26, 4, 5)[:2], np.ones(4), Fraction(1, 4), Fraction(0)),
}


@pytest.mark.parametrize("name", LASSOS)
def test_sparse_to_exact_fractions(name: str) -> None:
    X, y, s, l1, ridge = LASSOS[name]
    optimum = optima.sparse_optimum(X, y, s, l1, ridge)
    objective = incontext.Problem(X, y, SQUARED, s, l1=l1, ridge=ridge, intercept=True)
    for seed, away in enumerate(AWAY):
        v = perturbed(optimum, seed, away)
        require_sharp(at(objective, v), v, optimum)


@pytest.mark.parametrize("nudge", [Fraction(0), Fraction(1, 2**70), Fraction(-1, 2**70)])
def test_a_feature_that_just_joins_the_support(nudge: Fraction) -> None:
    """l1 is the largest slope at w = 0, exactly or nearly: the optimum is zero, or just not."""
    X, y, s = data(24)
    _, b, _ = optima.quadratic(X, y, s, Fraction(0), True)
    l1 = max(map(abs, b)) + nudge
    optimum = optima.sparse_optimum(X, y, s, l1, Fraction(0))
    assert any(optimum[:3]) == (nudge < 0)
    v = perturbed(optimum, 0, 1e-9)
    require_sharp(at(incontext.Problem(X, y, SQUARED, s, l1=l1, intercept=True), v), v, optimum)


@pytest.mark.parametrize("ridge", [0, 1])
def test_an_l1_penalty_for_each_feature(ridge: int) -> None:
    """A feature whose penalty is 0 is always in the support; one with twice the penalty is as one of half the size."""
    X, y, s = data(24)
    l1, half = np.array([3.0, 6.0, 0.0]), np.array([1.0, 0.5, 1.0])
    each = incontext.Problem(X, y, SQUARED, s, ridge=ridge * np.array([1.0, 4.0, 1.0]), l1=l1, intercept=True)
    same = incontext.Problem(X * half, y, SQUARED, s, ridge=ridge, l1=[3.0, 3.0, 0.0], intercept=True)
    apart, scaled = np.array([0.5, 0.25, 1.0, 2.0]), np.array([0.5, 0.5, 1.0, 2.0])
    found = enclose_sparse(each, balls(apart)), enclose_sparse(same, balls(scaled))
    assert all(box is not None for box in found)
    assert all(a.overlaps(b * h) for a, b, h in zip(*found, [*half, 1.0], strict=True))
    assert found[0][2] != 0
    assert at(each, apart).bound < math.inf


def test_other_problems_than_squares_with_a_ridge_stand_for_nothing_else() -> None:
    X, y, s = data(28)
    for wrong in (
        incontext.Problem(X, y, SQUARED, s, l1=1.0),
        incontext.Problem(X, y, incontext.loss("huber"), s),
    ):
        with pytest.raises(ValueError, match="give the squared loss without l1"):
            huber_distance(wrong, 1.35, np.zeros(3), 0.0, 1.0)
        with pytest.raises(ValueError, match="give the squared loss without l1"):
            multinomial_distance(wrong, np.zeros((2, 3)), np.zeros(2))


def test_a_subgradient_says_where_the_optimum_is() -> None:
    """From any point, also where the search for the support did not arrive."""
    X, y, s = data(27)
    optimum = optima.sparse_optimum(X, y, s, Fraction(3), Fraction(1))
    with ctx.workprec(256):
        equations = normal_equations(incontext.Problem(X, y, SQUARED, s, ridge=1, intercept=True))
        quadratic = Quadratic(*equations, [arb(3)] * 3 + [arb(0)])
        for seed, away in enumerate(AWAY):
            box = box_from_subgradient(quadratic, balls(perturbed(optimum, seed, away)))
            assert all(
                side.contains(arb(fmpq(x.numerator, x.denominator))) for side, x in zip(box, optimum, strict=True)
            )


def test_a_sparse_optimum_that_is_not_unique() -> None:
    X, y, s = data(25)
    found = at(incontext.Problem(X[:, [0, 0, 1]], y, SQUARED, s, l1=1, intercept=True), np.array([0.5, 0.5, 0.25, 2.0]))
    assert found.bound == math.inf
    assert "not be unique" in found.why


def test_what_cannot_be_said() -> None:
    X, y, s = data(50)
    zero, labels = np.zeros(4), np.where(y > 2, 1.0, -1.0)
    for objective, why in (
        (incontext.Problem(X, y, SQUARED, 0 * s, intercept=True), "all weights are zero"),
        (
            incontext.Problem(X, y, incontext.loss(formula="1 - exp(-x**2)"), s, intercept=True),
            "not known to be convex",
        ),
        (
            incontext.Problem(X, labels, incontext.loss("logistic"), s, l1=1, intercept=True),
            "only the squared loss",
        ),
        (incontext.Problem(X[:3], labels[:3], incontext.loss("logistic"), np.ones(3), intercept=True), "optimum"),
    ):
        found = at(objective, zero)
        assert found.bound == math.inf
        assert why in found.why
    assert (
        at(incontext.Problem(X, y, SQUARED, s, intercept=True), zero + np.nan).why == "the coefficients are not finite"
    )
    assert huber_at(X, y, s, 1.35, 0.0, True, zero[:3], 0.0, math.inf).bound == math.inf
    assert huber_at(X, y, 0 * s, 1.35, 0.0, True, zero[:3], 0.0, 1.0).scale == math.inf


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda X, y, s: incontext.Problem(X, y, SQUARED, s, ridge=-1, intercept=True),
            "ridge=-1: a penalty is a finite number",
        ),
        (
            lambda X, y, s: incontext.Problem(X, y, SQUARED, s, l1="much", intercept=True),
            "l1='much': a penalty is a number",
        ),
        (lambda X, y, s: incontext.Problem(X, y, SQUARED, s, intercept=1), "intercept=1: write True or False"),
        (lambda X, y, s: incontext.Problem(X, y, SQUARED, -s - 1, intercept=True), "weights cannot be negative"),
        (
            lambda X, y, s: incontext.Problem(X, y, incontext.loss("logistic"), s, intercept=True),
            "needs labels 1 or -1",
        ),
        (
            lambda X, y, s: distance(incontext.Problem(X, y, SQUARED, s), [1.0]),
            r"coef has shape \(1,\); the data need \(3,\)",
        ),
        (lambda X, y, s: huber_at(X, y, s, 0.5, 0.0, True, [0.0] * 3, 0.0, 1.0), "epsilon=0.5"),
        (lambda X, y, s: multinomial_at(X, 0 * y, s, Fraction(1), True, [0.0] * 3, [0.0]), "coef has shape"),
        (lambda X, y, s: multinomial_at(X, y, s, Fraction(1), True, np.ones((2, 3)), [0.0] * 2), "take 0 to 1"),
    ],
)
def test_bad_arguments_are_named(call: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        call(*data(52))
