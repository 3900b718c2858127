"""The exact iterates against the same algorithms in rational numbers and in mpmath; and bad problems."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from flint import arb, ctx, fmpq

import weightwright as ww
from weightwright import incontext
from weightwright.claims.prompt import Pass

RNG = np.random.default_rng(7)
X = RNG.normal(size=(9, 3)).round(3)
Y = (X @ [1.5, -2.0, 0.5] + RNG.normal(size=9)).round(3)
SIGNS = np.sign(Y)
STEPS = 12


def squared(**more: float) -> incontext.Problem:
    return incontext.Problem(X, Y, incontext.loss("squared"), **more)


def of(*passes: Pass, **more: str) -> incontext.Method:
    return incontext.Method(incontext.Algorithm("own", passes, **more), X)  # type: ignore[arg-type]


METHODS: dict[str, tuple[incontext.Problem, incontext.Method]] = {
    "descent": (squared(), incontext.gradient_descent(squared(), 0.3)),
    "ridge": (squared(ridge=0.25), incontext.gradient_descent(squared(ridge=0.25), 0.3)),
    "heavy ball": (squared(), incontext.gradient_descent(squared(), 0.3, momentum=0.5)),
    "nesterov": (squared(), incontext.nesterov(squared(), 0.3, 0.5)),
    "huber": (
        incontext.Problem(X, Y, incontext.loss("huber", delta=0.5)),
        incontext.gradient_descent(incontext.Problem(X, Y, incontext.loss("huber", delta=0.5)), 0.3),
    ),
    "ista": (squared(l1=0.25), incontext.gradient_descent(squared(l1=0.25), 0.3)),
    "fista": (squared(l1=0.25), incontext.nesterov(squared(l1=0.25), 0.3, 0.5)),
}


def fractions(array: np.ndarray) -> list:  # type: ignore[type-arg]
    return [fractions(row) for row in array] if np.ndim(array) else Fraction(float(array))


def rational_states(
    problem: incontext.Problem, method: incontext.Method, slope: Callable[[Fraction], Fraction]
) -> list:  # type: ignore[type-arg]
    """(w, p) after every pass, written down once more, in rational numbers."""
    rows, values, y = fractions(problem.X), fractions(method.values), fractions(problem.y)
    d, only = problem.d, method.passes[0]
    alpha, mix = fractions(np.array(only.alpha)), fractions(only.method)
    w = p = [Fraction(0)] * d
    found = [(w, p)]
    for _ in range(STEPS):
        slopes = [slope(sum(a * b for a, b in zip(row, w, strict=True)) - t) for row, t in zip(rows, y, strict=True)]
        z = [alpha * w[r] - sum(slopes[i] * values[i][r] for i in range(problem.n)) for r in range(d)]
        tau = fractions(method.thresholds) if method.thresholds is not None else [Fraction(0)] * d
        q = [(abs(z[r]) - tau[r]) * (1 if z[r] > 0 else -1) if abs(z[r]) > tau[r] else Fraction(0) for r in range(d)]
        if only.middle == "none":
            q = [Fraction(0)] * d
        states = [[row[0] * z[r] + row[1] * q[r] + row[2] * p[r] + row[3] * w[r] for r in range(d)] for row in mix]
        w, p = states[0], states[-1]
        found.append((w, p))
    return found


def holds(ball: arb, number: Fraction) -> bool:
    with ctx.workprec(4096):
        return bool(ball.contains(arb(fmpq(number.numerator, number.denominator))))


@pytest.mark.parametrize("name", METHODS)
def test_every_iterate_holds_the_rational_one(name: str) -> None:
    problem, method = METHODS[name]
    half = Fraction(1, 2)
    slope = (lambda s: max(-half, min(half, s))) if name == "huber" else (lambda s: s)
    known = rational_states(problem, method, slope)
    found = incontext.exact_iterates(problem, method, STEPS)
    assert (found.p is None) == (method.states == 1)
    for step, (w, p) in enumerate(known):
        assert all(holds(ball, number) for ball, number in zip(found.w[step], w, strict=True))
        assert found.p is None or all(holds(ball, number) for ball, number in zip(found.p[step], p, strict=True))
        assert max(ball.rad() for ball in found.w[step]) < 1e-30
    assert any(abs(x) > Fraction(1, 10) for x in known[-1][0])


def test_the_answer_is_the_state_that_the_method_names() -> None:
    problem, method = METHODS["nesterov"]
    found = incontext.exact_iterates(problem, method, 3)
    assert found.answers(method) is found.p
    assert incontext.exact_iterates(*METHODS["descent"], 3).answers(METHODS["descent"][1])[-1][0].is_finite()


def test_logistic_steps_against_mpmath() -> None:
    problem = incontext.Problem(X, SIGNS, incontext.loss("logistic"))
    method = incontext.gradient_descent(problem, 0.75)
    found = incontext.exact_iterates(problem, method, STEPS)
    with mpmath.workdps(80):
        w = mpmath.matrix([0, 0, 0])
        rows, values = mpmath.matrix((X * SIGNS[:, None]).tolist()), mpmath.matrix(method.values.tolist())
        for _ in range(STEPS):
            w = w + values.T * (rows * w).apply(lambda t: 1 / (1 + mpmath.exp(t)))
        known = [mpmath.nstr(x, 60) for x in w]
    with ctx.workprec(512):
        assert all(abs(ball - arb(number)) < 1e-50 for ball, number in zip(found.w[-1], known, strict=True))


def test_chebyshev_steps_against_the_recurrence_with_cosines() -> None:
    problem = squared()
    eigenvalues = np.linalg.eigvalsh(X.T @ X / len(X))
    method = incontext.chebyshev(problem, float(eigenvalues[0]), float(eigenvalues[-1]))
    with mpmath.workdps(40):
        theta = mpmath.mpf(method.passes[1].tick) / 2
        rows, y, values = (mpmath.matrix(a.tolist()) for a in (X, Y, method.values))

        def plain(w: mpmath.matrix) -> mpmath.matrix:
            return w - values.T * (rows * w - y)

        before, w = mpmath.matrix([0, 0, 0]), plain(mpmath.matrix([0, 0, 0]))
        for k in range(1, STEPS):
            z, momentum = plain(w), mpmath.cosh((k - 1) * theta) / mpmath.cosh((k + 1) * theta)
            before, w = w, z + momentum * (z - before)
        known = np.array([float(x) for x in w])
    found = np.array([float(ball) for ball in incontext.exact_iterates(problem, method, STEPS).w[-1]])
    assert np.abs(found - known).max() < 1e-12  # its coefficients are rounded to floats
    optimum = np.linalg.lstsq(X, Y, rcond=None)[0]
    assert np.linalg.norm(found - optimum) <= np.linalg.norm(optimum) / np.cosh(STEPS * float(theta)) * (1 + 1e-6)


def test_the_coefficients_are_those_of_the_named_methods() -> None:
    """Heavy ball, Nesterov and FISTA as the books write them."""

    def descended(w: np.ndarray) -> np.ndarray:
        return w - 0.3 * X.T @ (X @ w - Y) / len(X)

    def soft(z: np.ndarray) -> np.ndarray:
        return np.sign(z) * np.maximum(np.abs(z) - 0.3 * 0.25, 0)

    heavy, before = np.zeros(3), np.zeros(3)
    nesterov_w, nesterov_at, fista_w, fista_at = (np.zeros(3) for _ in range(4))
    for _ in range(STEPS):
        heavy, before = descended(heavy) + 0.5 * (heavy - before), heavy
        new = descended(nesterov_at)
        nesterov_w, nesterov_at = new, new + 0.5 * (new - nesterov_w)
        new = soft(descended(fista_at))
        fista_w, fista_at = new, new + 0.5 * (new - fista_w)
    for name, known in (("heavy ball", heavy), ("nesterov", nesterov_w), ("fista", fista_w)):
        problem, method = METHODS[name]
        found = incontext.exact_iterates(problem, method, STEPS).answers(method)[-1]
        assert np.allclose([float(x) for x in found], known, rtol=0, atol=1e-13), name


@pytest.mark.parametrize("name", METHODS)
def test_the_plain_iterates_are_near(name: str) -> None:
    problem, method = METHODS[name]
    exact, plain = (
        incontext.exact_iterates(problem, method, STEPS),
        incontext.plain_iterates(problem, method, STEPS),
    )
    assert plain.shape == (STEPS + 1, method.states, problem.d)
    assert np.allclose(plain[:, 0], [[float(x) for x in w] for w in exact.w], rtol=0, atol=1e-13)
    if exact.p is not None:
        assert np.allclose(plain[:, 1], [[float(x) for x in p] for p in exact.p], rtol=0, atol=1e-13)


def test_a_loss_of_two_numbers_and_a_start() -> None:
    problem = incontext.Problem(X, np.abs(Y), incontext.loss("poisson"))
    method = incontext.gradient_descent(problem, 0.125)
    start = np.array([0.1, -0.2, 0.3])
    path = incontext.plain_iterates(problem, method, 5, start)[:, 0]
    by_hand = start - method.values.T @ (np.exp(X @ start) - np.abs(Y))
    assert np.allclose(path[1], by_hand, atol=1e-14)
    exact = incontext.exact_iterates(problem, method, 5, start)
    assert np.allclose(path, [[float(x) for x in w] for w in exact.w], rtol=0, atol=1e-13)


def test_every_sample_twice_with_half_the_weight_changes_nothing() -> None:
    weights = RNG.uniform(0.1, 1, len(X))
    once = incontext.Problem(X, Y, incontext.loss("pseudo_huber"), weights=weights)
    twice = incontext.Problem(
        np.vstack([X, X]),
        np.hstack([Y, Y]),
        incontext.loss("pseudo_huber"),
        weights=np.hstack([weights, weights]) / 2,
    )
    a, b = (
        incontext.exact_iterates(problem, incontext.gradient_descent(problem, 0.25), 10) for problem in (once, twice)
    )
    assert all(x.overlaps(y) for x, y in zip(a.w[-1], b.w[-1], strict=True))


def test_long_runs_raise_the_precision_until_they_are_sharp() -> None:
    problem, method = METHODS["descent"]
    short, long = incontext.exact_iterates(problem, method, 5), incontext.exact_iterates(problem, method, 400)
    assert long.bits > short.bits
    assert max(ball.rad() for ball in long.w[-1]) < 1e-30
    assert np.allclose([float(x) for x in long.w[-1]], np.linalg.lstsq(X, Y, rcond=None)[0], atol=1e-6)


def test_what_cannot_be_iterated() -> None:
    problem = squared()
    with pytest.raises(ValueError, match="the method diverges"):
        incontext.exact_iterates(problem, incontext.gradient_descent(problem, 50.0), 400)
    logarithm = incontext.Problem(X, Y, incontext.loss(formula="log(3 + x)"))
    with pytest.raises(ww.FormulaError, match=r"is undefined at x = .* of sample 0 before pass 1"):
        incontext.exact_iterates(
            incontext.Problem([[1.0]], [3.0], incontext.loss(formula="log(3 + x)")),
            incontext.Method(METHODS["descent"][1].algorithm, np.ones((1, 1))),
            2,
        )
    with pytest.raises(ValueError, match="steps=-1"):
        incontext.exact_iterates(logarithm, incontext.gradient_descent(logarithm, 0.1), -1)
    with pytest.raises(ValueError, match="start must be 3 finite numbers"):
        incontext.exact_iterates(problem, METHODS["descent"][1], 1, np.zeros(2))
    with pytest.raises(ValueError, match=r"method.values has shape \(9, 3\)"):
        incontext.exact_iterates(incontext.Problem(X[:4], Y[:4], incontext.loss("squared")), METHODS["descent"][1], 1)


def changed(array: np.ndarray, place: int | tuple[int, int], number: float) -> np.ndarray:
    copy = array.copy()
    copy[place] = number
    return copy


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"X": X[:, 0]}, r"X has shape \(9,\)"),
        ({"X": np.zeros((0, 3)), "y": []}, r"X has shape \(0, 3\)"),
        ({"y": Y[:4]}, "y has 4 entries and X has 9 rows"),
        ({"X": changed(X, (2, 1), np.nan)}, r"X\[2, 1\] is nan"),
        ({"y": changed(Y, 3, np.inf)}, r"y\[3\] is inf"),
        ({"X": "abc"}, "X must be an array of numbers"),
        ({"loss": incontext.loss("logistic")}, r"y\[0\] is .*; the loss logistic needs labels 1 or -1"),
        ({"loss": incontext.loss("poisson"), "y": -np.abs(Y)}, r"y\[0\] is -.*not negative"),
        ({"loss": "squared"}, "loss must be a Loss"),
        ({"weights": np.ones(3)}, "weights has 3 entries"),
        ({"weights": -np.ones(9)}, r"weights\[0\] is -1.0"),
        ({"ridge": -1.0}, "ridge=-1.0"),
        ({"l1": float("inf")}, "l1=inf"),
        ({"l1": "a"}, "l1='a'"),
    ],
)
def test_bad_problems(changes: dict, message: str) -> None:  # type: ignore[type-arg]
    with pytest.raises(ValueError, match=message):
        incontext.Problem(**{"X": X, "y": Y, "loss": incontext.loss("squared"), **changes})


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: of(Pass(1.0, np.ones((3, 4)))), "method must be finite"),
        (lambda: of(Pass(1.0, np.ones((1, 4)))), "no state p"),
        (lambda: of(Pass(1.0, np.eye(4)[:1], "soft")), "middle must be"),  # type: ignore[arg-type]
        (lambda: of(Pass(float("nan"), np.eye(4)[:1])), "alpha=nan"),
        (lambda: of(), "at least one"),
        (lambda: of(Pass(1.0, np.eye(4)[:1]), answer="p"), "answer='p'"),
        (lambda: of(Pass(1.0, np.eye(4)[:1], "threshold")), "thresholds=None"),
        (lambda: incontext.gradient_descent(squared(), -1.0), "step=-1.0"),
        (lambda: incontext.gradient_descent(squared(l1=1.0), 0.1, 0.5), "momentum=0.5"),
        (
            lambda: incontext.chebyshev(incontext.Problem(X, Y, incontext.loss("huber")), 1.0, 2.0),
            "need a quadratic",
        ),
        (lambda: incontext.chebyshev(squared(), 2.0, 1.0), "smallest <= largest"),
    ],
)
def test_bad_methods(build: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()
