"""Distances to the optimum against solutions of 60 digits, without tolerance; eigenvalues; the lemma on steps."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import pytest
from flint import arb, arb_mat, ctx, fmpq
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import linear_model

from weightwright import incontext
from weightwright.enclosures.balls.linear_algebra import balls, float_below, norm
from weightwright.enclosures.balls.series import series_along
from weightwright.enclosures.balls.spectrum import is_positive_definite, largest_eigenvalue, smallest_eigenvalue
from weightwright.incontext.errors.convexity import curvatures
from weightwright.incontext.errors.distance import duality_gap

N, D = 40, 4
OWN = incontext.loss(formula="log(cosh(x))")


def data(seed: int, kind: str) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, D))
    signal = X @ [0.5, -0.75, 0.0, 0.25]
    if kind == "signs":
        return X, np.where(signal + rng.logistic(size=N) > 0, 1.0, -1.0)
    if kind == "counts":
        return X, rng.poisson(np.exp(signal)).astype(float)
    return X, signal + 0.5 * rng.normal(size=N)


PROBLEMS = {
    "squared": incontext.Problem(*data(0, "real"), incontext.loss("squared")),
    "ridge": incontext.Problem(*data(1, "real"), incontext.loss("squared"), ridge=0.3),
    "huber": incontext.Problem(*data(2, "real"), incontext.loss("huber", delta=0.5)),
    "pseudo_huber": incontext.Problem(*data(3, "real"), incontext.loss("pseudo_huber")),
    "own": incontext.Problem(*data(4, "real"), OWN),
    "logistic": incontext.Problem(*data(5, "signs"), incontext.loss("logistic"), ridge=0.05),
    "hinge": incontext.Problem(*data(6, "signs"), incontext.loss("hinge", width=1.0), ridge=0.1),
    "quantile": incontext.Problem(*data(7, "real"), incontext.loss("quantile", q=0.7, width=0.5)),
    "poisson": incontext.Problem(*data(8, "counts"), incontext.loss("poisson")),
}
PENALISED = {
    "lasso": incontext.Problem(*data(9, "real"), incontext.loss("squared"), l1=0.1),
    "elastic net": incontext.Problem(*data(10, "real"), incontext.loss("squared"), l1=0.1, ridge=0.2),
    "logistic with l1": incontext.Problem(*data(11, "signs"), incontext.loss("logistic"), l1=0.02, ridge=0.05),
}


@functools.cache
def optimum(name: str) -> Any:
    """To about 60 digits: Newton's method from a descent's end, on the features that are not zero.

    The Hessian is taken from differences of the gradient; that only makes it slower.
    """
    problem = {**PROBLEMS, **PENALISED}[name]
    step = 0.9 * incontext.largest_stable_step(problem, 4.0)
    start = incontext.plain_iterates(problem, incontext.gradient_descent(problem, step), 3000)[-1, 0]
    used = [r for r in range(problem.d) if start[r] != 0]
    with ctx.workprec(400):
        w, tiny = balls(start), arb(2) ** -150

        def slopes(at: Any) -> Any:
            found = problem.gradient(at)
            return [found[r] + arb(problem.l1) * (1 if start[r] > 0 else -1) for r in used]

        for _ in range(12):
            here = slopes(w)
            if norm(here) < 1e-60:
                break
            moved = [slopes([w_r + (tiny if r == k else 0) for r, w_r in enumerate(w)]) for k in used]
            hessian = arb_mat([[(column[i] - here[i]) / tiny for column in moved] for i in range(len(used))])
            change = hessian.solve(arb_mat([[g] for g in here])).entries()
            for k, c in zip(used, change, strict=True):
                w[k] = (w[k] - c).mid()
        assert norm(slopes(w)) < 1e-60
        flat = problem.gradient(w)
        assert all(abs(flat[r]) < problem.l1 for r in range(problem.d) if r not in used)
        return w


def true_distance(w: np.ndarray, name: str) -> float:
    with ctx.workprec(400):
        return float_below(norm(a - b for a, b in zip(balls(w), optimum(name), strict=True)))


def nearby(name: str, size: float, seed: int) -> np.ndarray:
    direction = np.random.default_rng(seed).normal(size=D)
    return np.array([float(x) for x in optimum(name)]) + size * direction / np.linalg.norm(direction)


@pytest.mark.few(8)
@pytest.mark.parametrize("size", [1e-12, 1e-7, 1e-3, 1e-1, 1.0])
@pytest.mark.parametrize("name", [*PROBLEMS, *PENALISED])
def test_the_bound_is_never_below_the_distance(name: str, size: float) -> None:
    for seed in range(3):
        w = nearby(name, size, seed)
        assert true_distance(w, name) <= incontext.to_optimum({**PROBLEMS, **PENALISED}[name], w).bound


@pytest.mark.parametrize("name", [*PROBLEMS, *PENALISED])
def test_the_bound_is_near_the_distance(name: str) -> None:
    for seed in range(3):
        w = nearby(name, 1e-7, seed)
        found = incontext.to_optimum({**PROBLEMS, **PENALISED}[name], w)
        assert found.bound <= 50 * true_distance(w, name)
        assert found.mu > 0
        assert found.radius > found.bound * 0.9 or name in PENALISED


PLACES = given(st.sampled_from([*PROBLEMS, *PENALISED]), st.floats(1e-9, 3.0), st.integers(0, 1000))


@settings(max_examples=8)
@PLACES
def test_no_point_beats_the_bound(name: str, size: float, seed: int) -> None:
    point_is_within(name, size, seed)


@pytest.mark.slow
@settings(max_examples=50)
@PLACES
def test_no_point_of_many_beats_the_bound(name: str, size: float, seed: int) -> None:
    point_is_within(name, size, seed)


def point_is_within(name: str, size: float, seed: int) -> None:
    w = nearby(name, size, seed)
    assert true_distance(w, name) <= incontext.to_optimum({**PROBLEMS, **PENALISED}[name], w).bound


def test_sparse_features_do_not_spoil_the_bound() -> None:
    """A coefficient that is not quite zero where the optimum's is: the plain subgradient there would be of size l1."""
    zeros = [r for r, x in enumerate(optimum("lasso")) if x == 0]
    w = np.array([float(x) for x in optimum("lasso")])
    w[zeros] = 1e-10
    assert true_distance(w, "lasso") <= incontext.to_optimum(PENALISED["lasso"], w).bound <= 1e-8


@pytest.mark.parametrize("name", PENALISED)
def test_the_gap_is_never_below_the_excess(name: str) -> None:
    problem = PENALISED[name]

    def objective(w: Any) -> arb:
        x = [sum((a * b for a, b in zip(balls(row), w, strict=True)), arb(0)) for row in problem.rows]
        if problem.loss.is_quadratic:
            total = sum(((a - arb(y)) ** 2 / 2 for a, y in zip(x, problem.y, strict=True)), arb(0))
        else:
            total = sum(((1 + (-a).exp()).log() for a in x), arb(0))
        own = sum((arb(problem.ridge) / 2 * a * a + arb(problem.l1) * abs(a) for a in w), arb(0))
        return total / problem.n + own

    for size in (1e-6, 1e-2, 1.0):
        w = nearby(name, size, 1)
        with ctx.workprec(400):
            gap, excess = duality_gap(problem, balls(w)), objective(balls(w)) - objective(optimum(name))
            assert 0 < excess <= gap
            assert gap <= 100 * max(float(excess), size * problem.l1)
        assert incontext.to_optimum(problem, w).gap >= float_below(gap)


@pytest.mark.parametrize(
    ("problem", "model"),
    [
        (PROBLEMS["squared"], linear_model.LinearRegression(fit_intercept=False)),
        (PENALISED["lasso"], linear_model.Lasso(alpha=0.1, fit_intercept=False, tol=1e-12)),
        (PENALISED["elastic net"], linear_model.ElasticNet(alpha=0.3, l1_ratio=1 / 3, fit_intercept=False, tol=1e-12)),
        (PROBLEMS["poisson"], linear_model.PoissonRegressor(alpha=0, fit_intercept=False, tol=1e-10)),
    ],
    ids=["squared", "lasso", "elastic net", "poisson"],
)
def test_other_solvers_end_where_the_bound_says(problem: incontext.Problem, model: object) -> None:
    model.fit(problem.X, problem.y)  # type: ignore[attr-defined]
    assert incontext.to_optimum(problem, model.coef_).bound < 1e-5  # type: ignore[attr-defined]


@pytest.mark.few(9)
@pytest.mark.parametrize("name", ["huber", "pseudo_huber", "own", "logistic", "hinge", "poisson"])
@pytest.mark.parametrize("radius", [1e-6, 0.1, 2.0])
def test_no_curvature_within_the_radius_leaves_the_bounds(name: str, radius: float) -> None:
    problem = PROBLEMS[name]
    with ctx.workprec(128):
        least, most = curvatures(problem, optimum(name), radius)
        for i, row in enumerate(problem.rows):
            towards = radius * (1 - 1e-9) * row / np.linalg.norm(row)
            for share in (-1.0, -0.3, 0.6, 1.0):
                w = [a + arb(b) for a, b in zip(optimum(name), share * towards, strict=True)]
                x = problem.arguments(w)["x"][i]
                lines = {"x": (x, arb(1)), "y": (arb(float(problem.y[i])), arb(0))}
                second = 2 * series_along(problem.loss.value_expression, lines, 2)[2]
                assert not second.is_finite() or least[i] <= second.upper()
                assert not second.is_finite() or second.lower() <= most[i]


def flat(kind: incontext.Loss, rows: int = 3) -> incontext.Problem:
    X, y = data(0, "real")
    return incontext.Problem(X[:rows], y[:rows], kind)


@pytest.mark.parametrize(
    ("problem", "w", "why"),
    [
        (flat(incontext.loss("squared")), np.zeros(D), "3 x 4 matrix X is rank-deficient"),
        (
            incontext.Problem(np.ones((9, 2)), np.ones(9), incontext.loss("squared")),
            np.zeros(2),
            "rank-deficient",
        ),
        (
            flat(incontext.loss("huber", delta=0.01), 20),
            np.full(D, 50.0),
            "curve upwards at 0 of 20 samples only, for 4 features",
        ),
        (incontext.Problem(*data(5, "signs"), incontext.loss("logistic")), np.full(D, 4.0), "Take more steps"),
        (PROBLEMS["squared"], np.full(D, np.nan), "not finite"),
    ],
)
def test_no_bound_without_strong_convexity(problem: incontext.Problem, w: np.ndarray, why: str) -> None:
    found = incontext.to_optimum(problem, w)
    assert (found.bound, found.mu) == (math.inf, 0.0)
    assert why in found.why


def test_bad_shapes() -> None:
    with pytest.raises(ValueError, match=r"w has shape \(3,\); the problem has 4 features"):
        incontext.to_optimum(PROBLEMS["squared"], np.zeros(3))
    with pytest.raises(ValueError, match=r"states has shape \(2, 4\)"):
        incontext.to_iterates(np.zeros((2, 4)), [[arb(0)] * 4])


def test_distances_to_the_iterates_are_rounded_up() -> None:
    third = incontext.Problem([[1.0]], [1.0], incontext.loss("squared"))
    exact = incontext.exact_iterates(third, incontext.gradient_descent(third, 0.3), 20)
    states = np.array([[float(x) for x in w] for w in exact.w])
    largest, euclidean = incontext.to_iterates(states, exact.w)
    with ctx.workprec(400):
        for state, w, a, b in zip(states[:, 0], exact.w, largest, euclidean, strict=True):
            assert abs(arb(state) - w[0]) <= min(a, b)
            assert max(a, b) <= 2.0**-53
    path = incontext.plain_iterates(PROBLEMS["huber"], incontext.gradient_descent(PROBLEMS["huber"], 0.2), 5)[:, 0]
    exact_path = incontext.exact_iterates(PROBLEMS["huber"], incontext.gradient_descent(PROBLEMS["huber"], 0.2), 5).w
    off = incontext.to_iterates(path + np.array([3.0, 4.0, 0.0, 0.0]), exact_path)
    assert np.allclose(off, [[4.0] * 6, [5.0] * 6], atol=1e-12)


@pytest.mark.parametrize("d", [2, 8, 12])
def test_eigenvalues_of_hilbert_matrices(d: int) -> None:
    """At d = 12 the smallest is about 2.6e-17, beyond what floating point can see."""
    with ctx.workprec(400):
        H = arb_mat([[arb(fmpq(1, i + j + 1)) for j in range(d)] for i in range(d)])
        ends = sorted((x.real for x in H.eig()), key=lambda x: float(x.mid()))
        least, most = smallest_eigenvalue(H), largest_eigenvalue(H)
        assert 0 < least <= ends[0].lower()
        assert arb(least) >= ends[0] / 2
        assert ends[-1].upper() <= arb(most) <= ends[-1] * 1.001
        assert not is_positive_definite(-H)
        assert smallest_eigenvalue(H - arb_mat([[ends[0] * 2 * (i == j) for j in range(d)] for i in range(d)])) == 0


STEP_ERROR = 1e-4


@pytest.mark.parametrize("name", ["squared", "huber", "logistic", "own", "lasso"])
def test_steps_with_errors_stay_within_the_lemma(name: str) -> None:
    """Every step is pushed by the whole error that is allowed, in one direction or at random."""
    problem, steps = {**PROBLEMS, **PENALISED}[name], 30
    near = np.array([float(x) for x in optimum(name)])
    step = 0.5 * incontext.largest_stable_step(problem, 10.0)
    method = incontext.gradient_descent(problem, step)
    found = incontext.composed_error(problem, method, step, STEP_ERROR, steps, near)
    assert found.failed is None
    assert found.bounds is not None
    assert found.step_error <= 1.001 * math.sqrt(D) * STEP_ERROR
    exact = incontext.exact_iterates(problem, method, steps).w
    for push in (np.ones(D), -np.ones(D), *np.random.default_rng(3).choice([-1.0, 1.0], size=(3, D))):
        path = [np.zeros(D)]
        for _ in range(steps):
            path.append(incontext.plain_iterates(problem, method, 1, path[-1])[-1, 0] + 0.999 * STEP_ERROR * push)
        _, off = incontext.to_iterates(np.array(path), exact)
        assert (off <= np.array(found.bounds)).all()
        assert off[1] > 0.9 * found.bounds[1]


def test_the_lemma_names_the_condition_that_fails() -> None:
    problem, near = PROBLEMS["squared"], np.array([float(x) for x in optimum("squared")])
    good = 0.5 * incontext.largest_stable_step(problem)
    large = incontext.composed_error(problem, incontext.gradient_descent(problem, 3 * good), 3 * good, 1e-9, 10, near)
    assert large.bounds is None
    assert large.failed is not None
    assert large.failed.startswith("step size: eta =")
    momentum = incontext.composed_error(problem, incontext.nesterov(problem, good, 0.5), good, 1e-9, 10, near)
    assert "momentum" in str(momentum.failed)
    deficient = flat(incontext.loss("squared"))
    assert "|w*| has no bound" in str(
        incontext.composed_error(deficient, incontext.gradient_descent(deficient, 0.1), 0.1, 1e-9, 10, near).failed
    )
    wavy = incontext.Problem(problem.X, problem.y, incontext.loss(formula="x**2/2 + 0.9*cos(2*x)/4"))
    assert (
        incontext.composed_error(wavy, incontext.gradient_descent(wavy, 0.1), 0.1, 1e-9, 10, _solved(wavy)).failed
        is None
    )
    bent = incontext.Problem(problem.X, problem.y, incontext.loss(formula="x**2/2 + 1.2*cos(2*x)/4"))
    assert "convexity" in str(
        incontext.composed_error(bent, incontext.gradient_descent(bent, 0.1), 0.1, 1e-9, 10, _solved(bent)).failed
    )
    with pytest.raises(ValueError, match="step_bound=-1"):
        incontext.composed_error(problem, incontext.gradient_descent(problem, good), good, -1, 10, near)


def _solved(problem: incontext.Problem) -> np.ndarray:
    return incontext.plain_iterates(problem, incontext.gradient_descent(problem, 0.3), 500)[-1, 0]


def test_a_method_with_other_numbers_is_not_taken_for_descent() -> None:
    """The method's floats count: with values for twice the step, the step's error is what that makes."""
    problem, near = PROBLEMS["squared"], np.array([float(x) for x in optimum("squared")])
    found = incontext.composed_error(problem, incontext.gradient_descent(problem, 0.2), 0.1, 1e-9, 10, near)
    assert found.step_error > 0.1 * np.linalg.norm(problem.X.T @ problem.y) / N


def test_the_largest_stable_step() -> None:
    problem = PROBLEMS["squared"]
    known = 2 / np.linalg.eigvalsh(problem.X.T @ problem.X / N)[-1]
    assert known * (1 - 1e-5) <= incontext.largest_stable_step(problem) <= known
    incontext.require_stable(problem, 0.99 * known)
    with pytest.raises(ValueError, match=rf"step={float(1.01 * known)!r}.*\(0, {known:.4}"):
        incontext.require_stable(problem, 1.01 * known)
    with pytest.raises(ValueError, match=r"radius=1024.0: the curvature of poisson has no bound"):
        incontext.largest_stable_step(PROBLEMS["poisson"])
    assert incontext.largest_stable_step(PROBLEMS["poisson"], 1.0) > 0
    path = incontext.plain_iterates(problem, incontext.gradient_descent(problem, 1.05 * known), 400)[:, 0]
    assert np.abs(path[-1]).max() > 1e6  # beyond it, descent really diverges
