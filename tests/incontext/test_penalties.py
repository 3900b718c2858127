"""Penalties of each feature: passes with an alpha for each, problems with a ridge and an l1 for each, forged files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flint import arb, arb_mat, ctx, fmpq
from incontext import single_steps
from sklearn import linear_model
from support.forging import refused
from support.prompts import RESIDUAL, built, errors, fitted, prompts, tables_of
from support.stored import forge

import weightwright as ww
from weightwright import incontext
from weightwright.claims.prompt import Pass
from weightwright.enclosures.balls.linear_algebra import balls, float_below, norm
from weightwright.incontext.errors.distance import duality_gap
from weightwright.incontext.networks import passes

N, D = 30, 4
RIDGE = np.array([0.0, 0.05, 0.4, 1.5])
L1 = np.array([0.3, 0.0, 0.02, 0.8])
DTYPES = {"float64": torch.float64, "float32": torch.float32}


def data(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, D)).clip(-2.5, 2.5)
    return X, X @ [1.0, -0.5, 0.25, 2.0] + 0.1 * rng.standard_normal(N)


# one pass: the checker


@cache
def stepped(kind: str, dtype: str) -> ww.AttentionNetwork:
    """A network whose passes have an alpha for each of two features, one of them no power of two."""
    tol = {"float64": 1e-8, "float32": 1e-3}[dtype]
    alpha = np.array([0.5, 0.9], dtype=dtype).astype(np.float64)
    method, middle, tick = {
        "descent": ([[1.0, 0, 0, 0]], "none", 0.0),
        "threshold": ([[0, 1.5, -0.5, 0], [0, 1.0, 0, 0]], "threshold", 0.0),
        "clock": ([[2.25, -1.0, -1.25, 0], [0, 0, 0, 1.0]], "clock", 0.25),
    }[kind]
    step = Pass(alpha, np.array(method), middle, tick)  # type: ignore[arg-type]
    answer = "w" if kind == "descent" else "p"
    return built([tables_of(fitted("x", 3.0, tol, dtype), RESIDUAL)], dtype, (step,), answer, times=2)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["descent", "threshold", "clock"])
def test_no_pass_is_further_off_than_the_bound(kind: str, dtype: str) -> None:
    net = stepped(kind, dtype)
    assert net.certificate is not None
    assert net.certificate.status == "PROVEN"
    found = [error for prompt in prompts(net, 10, 1) for error in errors(net, prompt)]
    assert len(found) >= 10
    assert 0 < max(found) <= net.certificate.bound
    if kind != "threshold":  # the exact threshold is no gate
        found = [error for prompt in prompts(net, 6, 2) for error in errors(net, prompt, by_tables=True)]
        assert 0 < max(found) <= net.certificate.terms.rounding


def test_the_products_of_every_feature_are_counted() -> None:
    """A power of two is exact, and one number that is none costs as much as if all were like it."""
    line = tables_of(fitted("x", 3.0, 1e-8, "float64"), RESIDUAL)
    step = np.array([[1.0, 0, 0, 0]])

    def rounding(*alpha: float) -> float:
        certificate = built([line], "float64", (Pass(np.array(alpha), step),)).certificate
        assert certificate is not None
        return certificate.terms.rounding

    unit = 2.0**-53
    assert rounding(1.0, 0.5) == rounding(1.0, 1.0)
    assert rounding(0.9, 1.0) >= rounding(1.0, 1.0) + 0.89 * unit
    assert rounding(0.9, 1.0) == rounding(1.0, 0.9)
    assert rounding(0.9, 0.9) == pytest.approx(rounding(0.9, 0.5), rel=1e-9)


Forge = Callable[[Any], Any]
FORGED: dict[str, tuple[Forge, str]] = {
    "one alpha changed": (lambda a: a - np.array([0.0, 0.0625]), "layer .* of a pass is not"),
    "by one bit": (lambda a: np.nextafter(a, [1.0, 0.9]), "layer .* of a pass is not"),
    "the other way round": (lambda a: a[::-1], "layer .* of a pass is not"),
    "one for all": (lambda a: a[1], "layer .* of a pass is not"),
    "one too few": (lambda a: a[:1], r"alpha has the shape \(1,\)"),
    "one too many": (lambda a: np.append(a, 0.9), r"alpha has the shape \(3,\)"),
    "none": (lambda a: a[:0], r"alpha has the shape \(0,\)"),
    "a matrix": (lambda a: a[None], r"alpha has the shape \(1, 2\)"),
    "no number": (lambda a: a * [1.0, np.nan], "a pass with no number"),
    "infinite": (lambda a: a * [np.inf, 1.0], "a pass with no number"),
    "a tuple": (lambda a: tuple(a.tolist()), r"Pass.alpha is a tuple, which is no array of float64"),
    "a whole number": (lambda a: 1, "Pass.alpha is 1, which is no array of float64"),
}


@pytest.mark.parametrize("forgery", FORGED)
def test_a_claim_with_another_alpha_is_refused(forgery: str, tmp_path: Path) -> None:
    net, (forge, said) = stepped("descent", "float64"), FORGED[forgery]
    certificate = net.certificate
    assert certificate is not None
    (step,) = certificate.claim.passes
    claim = replace(certificate.claim, passes=(replace(step, alpha=forge(step.alpha)),))
    words = claim.in_words() if np.size(claim.passes[0].alpha) else certificate.formula
    refused(net.network, replace(certificate, claim=claim, formula=words), tmp_path, said)


@pytest.mark.parametrize("feature", [0, 1])
def test_layers_with_another_alpha_are_refused(feature: int, tmp_path: Path) -> None:
    net = stepped("descent", "float64")
    assert net.certificate is not None
    (loop,) = net.network.layers
    *tables, update, mix = loop.layers
    names, A = list(update.coordinates), update.terms[0].A.copy()  # type: ignore[union-attr]
    at = names.index(f"w[{feature}]"), names.index(f"z[{feature}]")
    assert A[at] == [0.5, 0.9][feature]
    A[at] = np.nextafter(A[at], 1.0)
    other = replace(update, terms=(replace(update.terms[0], A=A), *update.terms[1:]))  # type: ignore[union-attr]
    forged = replace(net.network, layers=(replace(loop, layers=(*tables, other, mix)),))
    refused(forged, net.certificate, tmp_path, "layer 3 of a pass is not")


def test_whole_numbers_for_alpha_are_refused(tmp_path: Path) -> None:
    """2^53 + 1 is no float; it must not become one quietly."""
    path = tmp_path / "net.safetensors"
    stepped("descent", "float64").save(path)
    assert ww.check(path).status == "PROVEN"
    with pytest.raises(ValueError, match="alpha is an array of int64; give float64"):
        Pass(np.array([2**53 + 1, 1]), np.ones((1, 4)))

    def change(payload: dict[str, Any], pools: Any) -> None:
        types, items = payload["certificate"]["types"], payload["certificate"]["items"]
        (steps,) = [item for item in items if types[item[0]][0] == "Pass"]
        steps[types[steps[0]].index("alpha")] = [2**53 + 1, 1]

    forge(path, change)
    with pytest.raises(ww.CertificateError):
        ww.check(path)


def test_words_tell_alpha() -> None:
    certificate = stepped("descent", "float64").certificate
    assert certificate is not None
    assert "alpha = (0.5, 0.9) by features" in certificate.formula
    claim = certificate.claim
    many = replace(claim.passes[0], alpha=np.linspace(0.25, 1.0, 100))
    words = replace(claim, passes=(many,)).in_words()
    assert "alpha of each of 100 features between 0.25 and 1.0" in words
    assert len(words) < 300


# many steps: networks against the exact algorithm


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("names", [("ridge",), ("l1",), ("ridge", "l1")])
def test_networks_follow_their_exact_iterates(names: tuple[str, ...], dtype: str) -> None:
    X, y = data(0)
    penalties = {name: {"ridge": RIDGE, "l1": L1}[name] for name in names}
    algorithm = "proximal" if "l1" in names else "gradient descent"
    net = incontext.fitting(X, y, steps=25, algorithm=algorithm, dtype=DTYPES[dtype], **penalties)  # type: ignore[arg-type]
    run = net.run(X, y)
    assert net.net.certificate is not None
    assert net.net.certificate.status == "PROVEN"
    assert 0 < single_steps(run).max() <= net.net.certificate.bound
    assert run.lemma.bounds is not None
    assert (run.errors <= np.array(run.lemma.bounds)).all()
    assert run.errors.max() <= {"float64": 1e-8, "float32": 1e-4}[dtype]


@pytest.mark.parametrize(("name", "l1"), [("heavy ball", 0.0), ("nesterov", 0.0), ("chebyshev", 0.0), ("fista", L1)])
def test_every_algorithm_takes_them(name: str, l1: Any) -> None:
    X, y = data(1)
    run = incontext.fitting(X, y, steps=80, algorithm=name, ridge=RIDGE, l1=l1).run(X, y)  # type: ignore[arg-type]
    assert run.errors.max() <= 1e-7
    assert run.to_optimum.bound < 1e-3


def ridge_optimum(problem: incontext.Problem) -> Any:
    """Solved in balls, from the normal equations."""
    X = arb_mat(problem.X.tolist())
    penalty = arb_mat(np.diag(problem.ridges).tolist())
    right = X.transpose() * arb_mat([[t] for t in problem.y.tolist()])
    return (X.transpose() * X * (arb(1) / problem.n) + penalty).solve(right * (arb(1) / problem.n)).entries()


def test_ridge_ends_at_its_optimum() -> None:
    X, y = data(2)
    run = incontext.fitting(X, y, steps=120, ridge=RIDGE, algorithm="chebyshev").run(X, y)
    with ctx.workprec(256):
        off = norm(a - b for a, b in zip(balls(run.w), ridge_optimum(run.problem), strict=True))
        assert float_below(off) <= run.to_optimum.bound < 1e-7


def test_the_plain_step_takes_them_without_an_algorithm() -> None:
    X, y = data(3)
    plain = incontext.Descent("squared", samples=N, features=D, steps=10, step=0.25, ridge=RIDGE)
    exact = plain.run(X, y).exact.w[-1]
    w = np.zeros(D)
    for _ in range(10):
        w = w - 0.25 * (X.T @ (X @ w - y) / N + RIDGE * w)
    assert np.abs(w - [float(x) for x in exact]).max() < 1e-12
    both = incontext.Descent("squared", samples=N, features=D, steps=10, step=0.25, ridge=RIDGE, l1=L1)
    assert both.ranges.tau == 0.25 * L1.max()
    exact, w = both.run(X, y).exact.w[-1], np.zeros(D)
    for _ in range(10):
        z = w - 0.25 * (X.T @ (X @ w - y) / N + RIDGE * w)
        w = np.sign(z) * np.maximum(np.abs(z) - 0.25 * L1, 0)
    assert np.abs(w - [float(x) for x in exact]).max() < 1e-12


@pytest.mark.few(1)
@pytest.mark.parametrize("l1", [0.0, 0.125])
def test_one_number_is_that_number_for_every_feature(l1: float) -> None:
    X, y = data(4)
    algorithm: Any = "fista" if l1 else "nesterov"
    one = incontext.fitting(X, y, steps=20, algorithm=algorithm, ridge=0.3, l1=l1).run(X, y)
    each = incontext.fitting(X, y, steps=20, algorithm=algorithm, ridge=np.full(D, 0.3), l1=np.full(D, l1)).run(X, y)
    assert np.array_equal(one.states, each.states)
    assert one.to_optimum == each.to_optimum
    assert one.lemma == each.lemma


@pytest.mark.few(1)
@pytest.mark.parametrize("l1", [0.0, L1])
def test_scaled_features_with_scaled_penalties_have_the_same_optimum(l1: Any) -> None:
    """Of every feature times s the coefficient is w/s: ridge s^2 and l1 s say the same. Powers of two are exact."""
    X, y = data(5)
    s = np.array([2.0, 0.5, 1.0, 4.0])
    algorithm: Any = "fista" if np.any(l1) else "chebyshev"
    plain = incontext.fitting(X, y, steps=150, algorithm=algorithm, ridge=RIDGE, l1=l1).run(X, y)
    scaled = incontext.fitting(X * s, y, steps=300, algorithm=algorithm, ridge=RIDGE * s**2, l1=l1 * s).run(X * s, y)
    allowed = plain.to_optimum.bound + s.max() * scaled.to_optimum.bound
    assert np.linalg.norm(plain.w - s * scaled.w) <= allowed < 1e-4
    w = balls(plain.w)
    with ctx.workprec(256):
        other = [a / b for a, b in zip(w, balls(s), strict=True)]
        slopes = zip(plain.problem.gradient(w), scaled.problem.gradient(other), balls(s), strict=True)
        assert all((g * s_r).overlaps(h) for g, h, s_r in slopes)
        assert duality_gap(plain.problem, w).overlaps(duality_gap(scaled.problem, other))


def with_ones(X: np.ndarray) -> np.ndarray:
    return np.concatenate([X, np.ones((len(X), 1))], axis=1)


@pytest.mark.parametrize("kind", ["squared", "logistic", "poisson"])
@pytest.mark.parametrize("l1", [0.0, 0.05])
def test_a_problem_with_an_intercept_is_that_with_a_feature_of_ones(kind: str, l1: float) -> None:
    """Bit for bit, whatever is computed of it; a fraction is the penalty that it is, not a float near it."""
    X, y = data(9)
    y = {"squared": y, "logistic": np.sign(y), "poisson": np.round(np.abs(y))}[kind]
    weights = np.linspace(0.01, 0.05, N)
    one = incontext.Problem(X, y, incontext.loss(kind), weights, Fraction(1, 2), l1, intercept=True)
    each = {"ridge": np.array([0.5] * D + [0.0]), "l1": np.array([l1] * D + [0.0])}
    other = incontext.Problem(with_ones(X), y, incontext.loss(kind), weights, **each)
    assert (one.size, one.d, other.size) == (D + 1, D, D + 1)
    method = incontext.gradient_descent(one, 0.1)
    assert str(incontext.exact_iterates(one, method, 5).w) == str(
        incontext.exact_iterates(other, incontext.gradient_descent(other, 0.1), 5).w
    )
    assert (
        incontext.plain_iterates(one, method, 5)
        == incontext.plain_iterates(other, incontext.gradient_descent(other, 0.1), 5)
    ).all()
    w = incontext.plain_iterates(one, method, 50)[-1, 0]
    assert incontext.to_optimum(one, w) == incontext.to_optimum(other, w)
    assert incontext.composed_error(one, method, 0.1, 1e-9, 5, w) == incontext.composed_error(
        other, method, 0.1, 1e-9, 5, w
    )
    third = replace(one, ridge=Fraction(1, 3))
    assert third.ridge_balls()[0].contains(arb(fmpq(1, 3)))
    assert not arb(1 / 3).contains(third.ridge_balls()[0])
    assert third.ridge_balls()[-1] == 0


def test_an_intercept_is_a_feature_without_penalty() -> None:
    """Another solver's intercept, which it does not penalise, is within the bound; with a penalty it is not."""
    X, y = data(6)
    for l1, ridge, model in [
        (0.2, 0.0, linear_model.Lasso(alpha=0.2, tol=1e-12)),
        (0.1, 0.3, linear_model.ElasticNet(alpha=0.4, l1_ratio=0.25, tol=1e-12)),
        (0.0, 0.5, linear_model.Ridge(alpha=0.5 * N)),
    ]:
        model.fit(X, y + 2.0)
        w = np.append(model.coef_, model.intercept_)
        each = {"ridge": np.array([ridge] * D + [0.0]), "l1": np.array([l1] * D + [0.0])}
        found = incontext.to_optimum(incontext.Problem(with_ones(X), y + 2.0, incontext.loss("squared"), **each), w)
        assert found.bound < 1e-5
        assert (
            incontext.to_optimum(
                incontext.Problem(with_ones(X), y + 2.0, incontext.loss("squared"), ridge=ridge, l1=l1), w
            ).bound
            > 0.1
        )
        assert found.gap < 1e-5 or l1 == 0


def objective(problem: incontext.Problem, w: Any) -> arb:
    rows = [sum((a * b for a, b in zip(balls(row), w, strict=True)), arb(0)) for row in problem.rows]
    if problem.loss.is_quadratic:
        total = sum(((a - arb(t)) ** 2 / 2 for a, t in zip(rows, problem.y, strict=True)), arb(0))
    else:
        total = sum(((1 + (-a).exp()).log() for a in rows), arb(0))
    penalties = zip(w, balls(problem.ridges), balls(problem.l1s), strict=True)
    return total / problem.n + sum((r / 2 * a * a + b * abs(a) for a, r, b in penalties), arb(0))


@pytest.mark.parametrize("ridge", [np.zeros(D), RIDGE, RIDGE[::-1], np.full(D, 0.25)])
@pytest.mark.parametrize("kind", ["squared", "logistic"])
def test_the_gap_is_never_below_the_excess(kind: str, ridge: np.ndarray) -> None:
    """Whatever features have one penalty, both, or none; and it says something where it can."""
    X, y = data(7)
    problem = incontext.Problem(X, np.sign(y) if kind == "logistic" else y, incontext.loss(kind), ridge=ridge, l1=L1)
    near = incontext.plain_iterates(problem, incontext.gradient_descent(problem, 0.4), 500)[-1, 0]
    rng = np.random.default_rng(8)
    for size in (0.0, 1e-3, 1.0):
        w = balls(near + size * rng.standard_normal(D))
        with ctx.workprec(256):
            gap = duality_gap(problem, w)
            assert objective(problem, w) - objective(problem, balls(near)) <= gap
            if kind == "squared" or ridge.all():
                assert gap <= {0.0: 1e-6, 1e-3: 0.1, 1.0: 100.0}[size]
            elif not ridge.any() and size:  # a feature has no penalty, and is pulled
                assert not gap.is_finite()


def test_features_that_depend_on_each_other_without_penalty_have_no_gap() -> None:
    X, y = data(9)
    X[:, 1] = X[:, 0]
    problem = incontext.Problem(X, y, incontext.loss("squared"), l1=np.array([0.0, 0.0, 1.0, 1.0]))
    with ctx.workprec(256):
        assert not duality_gap(problem, balls(np.ones(D))).is_finite()


def test_curvature_counts_the_ridge_of_its_feature() -> None:
    X, y = np.eye(2), np.zeros(2)
    found = incontext.to_optimum(
        incontext.Problem(X, y, incontext.loss("squared"), ridge=np.array([0.5, 4.0])), np.array([1.0, 1.0])
    )
    assert found.mu == pytest.approx(1.0, rel=1e-5)  # 1/2 + 1/2, and not 1/2 + 4
    assert found.mu <= 1.0


def test_a_method_on_a_problem() -> None:
    problem = incontext.Problem(*data(10), incontext.loss("squared"), ridge=RIDGE, l1=L1)
    method = incontext.gradient_descent(problem, 0.125)
    assert np.array_equal(method.passes[0].alpha, 1 - 0.125 * RIDGE)
    assert method.thresholds is not None
    assert np.array_equal(method.thresholds, 0.125 * L1)
    with pytest.raises(ValueError, match=r"and l1=0 to 0\.8"):
        incontext.chebyshev(problem, 0.1, 1.0)


# what is refused


def problem_with(**penalties: Any) -> incontext.Problem:
    return incontext.Problem(*data(0), incontext.loss("squared"), **penalties)


@pytest.mark.parametrize(
    ("give", "message"),
    [
        (lambda: problem_with(ridge=np.ones(3)), r"ridge has shape \(3,\); give one number, or one for each of 4"),
        (lambda: problem_with(l1=np.ones((4, 1))), r"l1 has shape \(4, 1\)"),
        (lambda: problem_with(ridge=[0.0, -1.0, 0.0, 0.0]), r"ridge\[1\]=-1\.0: a penalty is a finite number"),
        (lambda: problem_with(l1=[0.0, 1.0, 0.0, np.nan]), r"l1\[3\]=nan: a penalty is a finite number"),
        (lambda: problem_with(ridge=np.inf), "ridge=inf: a penalty is a finite number"),
        (lambda: problem_with(ridge="0.5"), "ridge='0.5': a penalty is a number that is not negative"),
        (lambda: problem_with(l1=True), "l1=True: a penalty is a number that is not negative"),
        (lambda: problem_with(l1=[[1.0], [1.0, 2.0]]), "l1=.*: a penalty is a number that is not negative"),
        (
            lambda: incontext.Descent("squared", samples=5, features=4, steps=1, step=0.1, ridge=np.ones(3)),
            r"ridge has shape \(3,\)",
        ),
        (lambda: incontext.Descent("squared", samples=5, features=4, steps=1, step=0.1, l1=-1.0), r"l1=-1\.0"),
        (
            lambda: incontext.Descent("squared", samples=5, features=4, steps=1, step=2.0, ridge=RIDGE),
            r"step times ridge must be at least 0 and below 2, not 3\.0",
        ),
        (
            lambda: incontext.Descent(
                "squared", samples=5, features=4, steps=1, step=0.5, algorithm=passes.nesterov(0.5, np.full(3, 0.1))
            ),
            r"alpha has shape \(3,\); one number is needed, or one for each of 4 features",
        ),
        (
            lambda: incontext.exact_iterates(
                problem_with(),
                replace(
                    incontext.gradient_descent(problem_with(), 0.1), algorithm=passes.gradient_descent(np.zeros(3))
                ),
                steps=1,
            ),
            r"alpha of the method has shape \(3,\), but X has 4 features",
        ),
        (lambda: passes.Algorithm("own", (Pass(1, np.eye(4)[:1]),)), "alpha=1: a float is needed"),  # type: ignore[arg-type]
        (lambda: passes.Algorithm("own", (Pass(np.eye(2), np.eye(4)[:1]),)), "(?s)alpha=.*: a float is needed"),
        (lambda: Pass(np.array([1, 2]), np.eye(4)[:1]), "alpha is an array of int64; give float64"),
    ],
)  # fmt: skip
def test_bad_penalties_are_named(give: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        give()


def test_the_state_that_leaves_its_range_is_named() -> None:
    """The second feature's, on any token; nothing is said where all stay inside."""
    ranges = incontext.Ranges(x=4.0, y=64.0, w=1.0, value=4.0)
    net = incontext.Descent("squared", samples=3, features=2, steps=2, step=0.5, ranges=ranges, reach=32.0)
    X, y = np.array([[0.0, 1.0], [0.0, 1.0], [1.0, 0.0]]), np.array([0.0, 0.0, 1.0])
    assert np.abs(net.run(X, y).path).max() <= 1.0
    with pytest.raises(ww.DomainError, match=r"the state w\[1\] became 2\.\d+, outside \[-1, 1\], which the network"):
        net.net(net.prompt(X, np.array([8.0, 8.0, 1.0])))
