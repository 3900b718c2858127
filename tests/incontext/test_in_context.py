"""Gradient descent in context, end to end: frozen networks against exact algorithms, also on other data."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import pytest
import torch
from incontext import single_steps
from support.running import reference_outputs

import weightwright as ww
from weightwright import incontext, report

N, D, STEPS = 50, 8, 100
OWN = incontext.loss(formula="log(1 + x**2)")
#: Loss, dtype, anchors a sample at most, error to the exact iterate at most at any step.
TARGETS = [
    ("squared", torch.float64, 32, 1e-9),
    ("squared", torch.float32, 32, 1e-5),
    ("huber", torch.float64, 64, 1e-8),
    ("huber", torch.float32, 64, 1e-5),
    ("pseudo_huber", torch.float64, 64, 1e-8),
    ("pseudo_huber", torch.float32, 64, 1e-5),
    ("own", torch.float64, 64, 1e-8),
    ("own", torch.float32, 64, 1e-5),
    ("logistic", torch.float64, 2, 1e-12),
    ("logistic", torch.float32, 2, 1e-6),
]


def named(name: str) -> incontext.Loss:
    return OWN if name == "own" else incontext.loss(name)


def data(seed: int, name: str = "squared", n: int = N, d: int = D) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X, w = rng.standard_normal((n, d)).clip(-2.5, 2.5), rng.standard_normal(d)
    y = X @ w + 0.1 * rng.standard_normal(n)
    return X, np.sign(y) if name in ("logistic", "hinge") else y


@functools.cache
def built(name: str, dtype: torch.dtype) -> incontext.Descent:
    return incontext.fitting(*data(0, name), named(name), steps=STEPS, dtype=dtype)


def exact_descent(run: incontext.Run) -> np.ndarray:
    """Gradient descent in long doubles, from the definition."""
    problem, path = run.problem, [np.zeros(run.problem.d, dtype=np.longdouble)]
    X, y = problem.rows.astype(np.longdouble), problem.y.astype(np.longdouble)
    slopes = {
        "squared": lambda t: t,
        "huber(1.35)": lambda t: np.clip(t, -np.longdouble("1.35"), np.longdouble("1.35")),
        "pseudo_huber(1.0)": lambda t: t / np.sqrt(1 + t * t),
        OWN.name: lambda t: 2 * t / (1 + t * t),
        "logistic": lambda t: -1 / (1 + np.exp(t)),
    }
    for _ in range(run.steps):
        t = X @ path[-1] - (0 if problem.loss.form == "margin" else y)
        path.append(path[-1] - np.longdouble(run.step) * slopes[problem.loss.name](t) @ X / len(X))
    return np.stack(path)


@pytest.mark.few(1)
@pytest.mark.parametrize(("name", "dtype", "anchors", "target"), TARGETS)
def test_the_network_is_gradient_descent(name: str, dtype: torch.dtype, anchors: int, target: float) -> None:
    """Never farther from the exact iterate than asked for, nor than the stated bound, at any step."""
    net = built(name, dtype)
    assert net.net.certificate is not None
    assert net.net.certificate.status == "PROVEN"
    assert net.slope.anchors <= anchors
    for seed in (0, 7):
        run = net.run(*data(seed, name))
        assert run.steps == STEPS
        assert (run.errors <= target).all()
        assert (single_steps(run) <= net.net.certificate.bound).all()  # the stated bound, which needs no lemma
        assert run.lemma.bounds is None or (run.errors <= np.array(run.lemma.bounds)).all()
        truth = exact_descent(run)
        for step in (1, 10, 100):
            assert np.abs(run.path[step] - truth[step]).max() <= target


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["squared", "huber"])
def test_the_lemma_bounds_every_step(name: str) -> None:
    run = built(name, torch.float64).run(*data(3))
    assert run.lemma.failed is None
    assert run.lemma.bounds is not None
    assert (run.errors <= np.array(run.lemma.bounds)).all()
    assert run.lemma.bounds[100] == pytest.approx(100 * run.lemma.step_error)


def test_the_network_computes_it_from_the_prompt() -> None:
    """One target changed in the prompt tensor, and nothing else, moves the result as a fit to the changed data does."""
    net, (X, y) = built("squared", torch.float64), data(1)
    prompt = net.prompt(X, y)
    before = net.net(prompt)[0]
    column = net.net.network.inputs.index("y")
    prompt[5, column] += 0.5
    y[5] += 0.5
    after, refitted = net.net(prompt)[0].numpy(), net.run(X, y)
    assert np.array_equal(after, refitted.w)
    assert np.abs(after - before.numpy()).max() > 1e-3
    assert np.abs(after - exact_descent(refitted)[-1]).max() <= 1e-9


def test_the_states_on_the_way_are_those_of_shorter_networks() -> None:
    X, y = data(2)
    run = built("squared", torch.float64).run(X, y)
    for steps in (1, 10):
        shorter = incontext.Descent("squared", samples=N, features=D, steps=steps, step=run.step, reach=32.0)
        assert np.abs(shorter.run(X, y).w - run.path[steps]).max() <= 1e-9


def test_looped_and_stacked_are_the_same_network() -> None:
    X, y = data(4)
    kinds = [
        incontext.Descent("squared", samples=N, features=D, steps=5, step=0.3, looped=looped)
        for looped in (True, False)
    ]
    assert [len(kind.net.network.layers) for kind in kinds] == [1, 25]
    looped, stacked = (kind.run(X, y) for kind in kinds)
    assert np.array_equal(looped.states, stacked.states)


def test_the_interpreter_agrees() -> None:
    X, y = data(5, n=6, d=3)
    net = incontext.Descent("squared", samples=6, features=3, steps=4, step=0.2)
    prompt = net.prompt(X, y)
    assert np.abs(reference_outputs(net.net, prompt) - net.net(prompt).numpy()).max() <= 1e-13


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("algorithm", "penalties"),
    [
        ("heavy ball", {}),
        ("nesterov", {"ridge": 0.05}),
        ("chebyshev", {}),
        ("proximal", {"l1": 0.05}),
        ("fista", {"l1": 0.05, "ridge": 0.02}),
    ],
)
@pytest.mark.parametrize(("dtype", "target"), [(torch.float64, 1e-8), (torch.float32, 2e-5)])
def test_every_algorithm_follows_its_exact_iterates(
    algorithm: str, penalties: dict[str, float], dtype: torch.dtype, target: float
) -> None:
    X, y = data(6)
    run = incontext.fitting(X, y, steps=60, algorithm=algorithm, dtype=dtype, **penalties).run(X, y)  # type: ignore[arg-type]
    assert (run.errors <= target).all()
    assert run.to_optimum.bound < 1e-3


def test_acceleration_is_quicker_than_plain_descent() -> None:
    """On an ill-conditioned problem, after as many steps."""
    rng = np.random.default_rng(8)
    X = rng.standard_normal((60, 6)) * np.geomspace(1.0, 0.1, 6)
    y = X @ rng.standard_normal(6)
    far = {
        name: incontext.fitting(X, y, steps=80, algorithm=name).run(X, y).to_optimum.bound  # type: ignore[arg-type]
        for name in ("gradient descent", "nesterov", "chebyshev")
    }
    assert far["chebyshev"] < far["nesterov"] < far["gradient descent"] / 10


def test_ridge_and_lasso_reach_their_optima() -> None:
    X, y = data(9)
    ridge = incontext.fitting(X, y, steps=150, ridge=0.3, algorithm="chebyshev").run(X, y)
    closed = np.linalg.solve(X.T @ X / N + 0.3 * np.eye(D), X.T @ y / N)
    assert np.linalg.norm(ridge.w - closed) <= ridge.to_optimum.bound + 1e-14  # the closed form rounds, too
    assert ridge.to_optimum.bound < 1e-8
    lasso = incontext.fitting(X, y, steps=200, l1=0.5, algorithm="fista").run(X, y)
    assert lasso.to_optimum.bound < 1e-6
    assert (np.abs(lasso.w) < 1e-6).any()  # a coefficient is out


def test_poisson_takes_prediction_and_count_apart() -> None:
    rng = np.random.default_rng(10)
    X = rng.uniform(-1, 1, (40, 3))
    y = rng.poisson(np.exp(X @ [0.5, -0.3, 0.2])).astype(float)
    run = incontext.fitting(X, y, "poisson", steps=60, step=0.5).run(X, y)
    assert (run.errors <= 1e-8).all()
    assert run.to_optimum.bound < 1e-3


def test_a_step_is_found_for_a_loss_whose_curvature_has_no_bound() -> None:
    X, y = data(17)
    net = incontext.fitting(X, y, incontext.loss(formula="exp(x/4) - x/4"), steps=20)
    assert net.step > 0.05
    run = net.run(X, y)
    assert (run.errors <= 1e-8).all()
    first, last = (float(np.mean(np.exp(t / 4) - t / 4)) for t in (-y, X @ run.w - y))
    assert last < 0.9 * first


def test_large_residuals_in_float32() -> None:
    X, y = data(18)
    run = incontext.fitting(X, 6 * y, steps=100, dtype=torch.float32).run(X, 6 * y)
    assert (run.errors <= 1e-5).all()


@pytest.mark.slow
def test_a_loss_that_is_no_function_of_the_residual() -> None:
    """UA-12: anchors of two dimensions."""
    pair = incontext.loss(formula="softplus(x) - x*tanh(y)/(1 + exp(-x/4))")
    assert pair.form == "pair"
    rng = np.random.default_rng(11)
    X = rng.uniform(-1, 1, (20, 2))
    y = np.clip(X @ [1.0, -1.0] + 0.2 * rng.standard_normal(20), -2, 2)
    net = incontext.fitting(X, y, pair, steps=10, step=0.5, tol=1e-4)
    assert net.net.certificate is not None
    assert net.net.certificate.status == "PROVEN"
    run = net.run(X, y)
    assert 0 < run.errors.max() <= 10 * net.net.certificate.bound
    assert np.abs(run.w).max() > 0.1


def test_fewer_samples_than_built_for() -> None:
    """Missing samples are zeros in the prompt and add nothing."""
    X, y = data(12)
    net = incontext.Descent("squared", samples=100, features=D, steps=20, step=0.3)
    run = net.run(X, y)
    assert np.abs(run.w - exact_descent(run)[-1]).max() <= 1e-9


def test_a_frozen_network_serves_another_data_set_and_survives_a_file(tmp_path: Path) -> None:
    net = built("squared", torch.float64)
    prompt = net.prompt(*data(13))
    net.net.save(tmp_path / "descent.safetensors")
    loaded = ww.load(tmp_path / "descent.safetensors")
    assert loaded.certificate is not None
    assert loaded.certificate.status == "PROVEN"
    assert torch.equal(loaded(prompt), net.net(prompt))
    batch = torch.stack([prompt, net.prompt(*data(14))])
    assert torch.allclose(loaded(batch)[0], net.net(prompt), rtol=0, atol=1e-12)


def test_exports_run_the_loop(tmp_path: Path) -> None:
    X, y = data(15, n=5, d=2)
    net = incontext.Descent("squared", samples=5, features=2, steps=3, step=0.2)
    bare = ww.AttentionNetwork(net.net.network)
    assert bare.to_onnx(tmp_path / "descent.onnx") < 1e-10
    assert bare.to_torch(tmp_path / "descent.py") < 1e-10
    assert net.run(X, y).steps == 3


def test_too_few_samples_name_the_range_of_their_values() -> None:
    X, y = data(16, n=10)
    net = incontext.Descent("squared", samples=64, features=D, steps=2, step=0.3)
    with pytest.raises(
        ValueError, match=r"the 10 examples times step/n is 0\.0\d+, but .* at most 0\.0375.*samples=10"
    ):
        net.run(X, y)


def changed(X: np.ndarray, at: tuple[int, ...], value: float) -> np.ndarray:
    new = X.copy()
    new[at] = value
    return new


X, Y = data(0)


@pytest.mark.parametrize(
    ("give", "message"),
    [
        (lambda net: net.run(X, Y[:-1]), "y has 49 entries and X has 50 rows"),
        (lambda net: net.run(changed(X, (3, 2), np.nan), Y), r"X\[3, 2\] is nan"),
        (lambda net: net.run(X, changed(Y, (4,), np.inf)), r"y\[4\] is inf"),
        (lambda net: net.run(X[:, :5], Y), "X has 5 features, but the network was built for features=8"),
        (lambda net: net.run(np.tile(X, (2, 1)), np.tile(Y, 2)), "X has 100 samples, but .* samples=50"),
        (lambda net: net.run(X, Y, start=[1.0]), "start must be 8 finite numbers"),
        (lambda net: incontext.fitting(X, Y, "logistic", steps=3), "needs labels 1 or -1"),
        (lambda net: incontext.fitting(X, -np.abs(Y), "poisson", steps=3), "targets that are not negative"),
        (
            lambda net: incontext.fitting(X, Y, steps=5, step=9.0),
            r"step=9.0: .* stable for steps in \(0, 1\.\d+\] only",
        ),
        (lambda net: incontext.fitting(X, Y, steps=0), "steps must be a whole number of at least 1, not 0"),
        (lambda net: incontext.fitting(X, Y, steps=3, algorithm="newton"), "algorithm='newton' is none of"),
        (lambda net: incontext.fitting(X, Y, steps=3, algorithm="fista"), "algorithm='fista' with l1=0.0"),
        (
            lambda net: incontext.fitting(X, Y, steps=3, dtype=torch.bfloat16),
            "dtype must be torch.float64 or torch.float32",
        ),
        (
            lambda net: incontext.Descent("squared", samples=5, features=2, steps=3, step=0.1, reach=-1.0),
            "reach must be positive",
        ),
        (
            lambda net: incontext.Descent("squared", samples=5, features=2, steps=3, step=-0.1),
            "step must be a finite number",
        ),
        (lambda net: incontext.fitting(X, Y, steps=3, ridge=-1.0), "ridge=-1.0"),
    ],
)
def test_bad_input_is_named(give: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        give(built("squared", torch.float64))  # type: ignore[operator]


def test_a_loss_undefined_on_the_data() -> None:
    with pytest.raises(ww.FormulaError, match="undefined"):
        incontext.fitting(X, Y, incontext.loss(formula="x*log(x)"), steps=3, step=0.1)


def test_residuals_outside_the_built_range_name_the_range_needed() -> None:
    net = incontext.Descent("squared", samples=N, features=D, steps=5, step=0.3, reach=4.0)
    with pytest.raises(ww.DomainError, match=r"residual w.x - y of sample \d+ is .* outside \[-4, 4\].*reach=\d"):
        net.run(X, Y)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["squared", "huber"])
def test_a_step_that_diverges_names_the_largest_stable_one(name: str) -> None:
    wide = incontext.Ranges(x=4.0, y=64.0, w=16.0, value=4.0)
    diverging = incontext.Descent(
        name, samples=N, features=D, steps=30, step=40.0 if name == "huber" else 1.5, ranges=wide, reach=16.0
    )
    with pytest.raises(ValueError, match=r"step=\d+.\d+: .* stable for steps in \(0, 1\.\d+\] only"):
        diverging.run(X, Y)


def test_a_watched_network_may_be_told_to_ignore_the_range() -> None:
    net = incontext.Descent("squared", samples=N, features=D, steps=5, step=0.3, reach=4.0)
    prompt = net.prompt(X, Y)
    free = ww.AttentionNetwork(net.net.network, net.net.certificate, on_domain="ignore")
    assert torch.isfinite(free(prompt)).all()
    prompt[0, 0] = 99.0
    with pytest.raises(ww.DomainError, match=r"outside \[-4.0, 4.0\].*; on_domain='ignore' lets it pass"):
        net.net(prompt)
    with pytest.raises(ValueError, match="on_domain='clamp'"):
        ww.AttentionNetwork(net.net.network, net.net.certificate, on_domain="clamp")


def test_reports_say_what_the_bound_is_about() -> None:
    net = built("squared", torch.float64).net
    assert net.certificate is not None
    facts = report.certificate_facts(net.certificate)
    about = "every state after one pass, against the exact pass; errors of several passes may add up to more"
    assert (facts["subject"], facts["bound_is_about"]) == ("pass", about)
    assert facts["rules"] == ["prompt", "taylor"]
    assert facts["boxes"] > 0
    assert facts["arguments_of_f"][0].startswith("w.x - y in [-")
    assert "on every state after one pass" in repr(net.certificate)
    with pytest.raises(ww.WeightwrightError, match="about one pass of an algorithm"):
        ww.search(net)
