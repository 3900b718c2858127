"""Learning in one forward pass: predictions against the algorithm in 60 digits, bounds, penalties, prompts."""

from __future__ import annotations

import math
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from exact_learning import optimum, steps_of_prompt
from mpmath import mp, mpf

import weightwright as ww
from weightwright import incontext
from weightwright.report.facts.fact_tables import interval
from weightwright.report.facts.network_facts import certificate_facts

N, D, M, STEPS = 6, 2, 3, 12
SMALL = incontext.Ranges(x=1.0, y=2.0, w=4.0, fitted=8.0, ridge=2.0)


#: Tables that are coarse: their errors are far above those of rounding, and they are proven fast.
TOL = {"float64": 1e-8, "float32": 1e-4}


@cache
def small(loss: str, dtype: str = "float64", momentum: float = 0.0) -> incontext.Learner:
    return incontext.learner(
        D, N, M, loss, STEPS, domain=SMALL, step=4.0, momentum=momentum, tol=TOL[dtype], dtype=dtype
    )


def data(loss: str, rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    X, X_q = rng.uniform(-1, 1, (n, D)), rng.uniform(-1, 1, (M, D))
    y = np.clip(X @ rng.normal(size=D) + 0.5 * rng.normal(size=n), -2, 2)
    return X, np.where(y > 0, 1.0, -1.0) if loss == "logistic" else y, X_q


def exact_steps(icl: incontext.Learner, prompt: torch.Tensor, loss: str, momentum: float = 0.0) -> list[Any]:
    """Predictions of the algorithm on the prompt's own numbers."""
    return steps_of_prompt(prompt.double().tolist(), icl.net.network.inputs, loss, STEPS, M, momentum)


@pytest.mark.parametrize(("loss", "dtype", "momentum"), [
    ("squared", "float64", 0.0), ("logistic", "float64", 0.0),
    pytest.param("huber", "float64", 0.0, marks=pytest.mark.slow),
    ("squared", "float32", 0.0), ("squared", "float64", 0.5),
])  # fmt: skip
def test_bounds_are_never_below_the_error(loss: str, dtype: str, momentum: float) -> None:
    """Of the algorithm and of the optimum, both in 60 digits, for prompts with two to all examples."""
    icl, rng = small(loss, dtype, momentum), np.random.default_rng(5)
    assert icl.net.certificate is not None
    assert icl.net.certificate.status == "PROVEN"
    worst = 0.0
    with mp.workdps(60):
        for number in range(5):
            X, y, X_q = data(loss, rng, 2 + number)
            if dtype == "float32":
                X, y, X_q = (a.astype(np.float32).astype(float) for a in (X, y, X_q))
            ridge = [0.25, 2.0, 0.5][number % 3]
            prompt = icl.prompt(X, y, X_q, ridge=ridge)
            found, bound = icl(prompt).tolist(), icl.bound(prompt)
            exact, best = exact_steps(icl, prompt, loss, momentum), optimum(loss, X, y, ridge)
            for q in range(M):
                there = mp.fsum(a * mpf(b) for a, b in zip(best, X_q[q].tolist(), strict=True))
                assert abs(found[q] - exact[q]) <= bound.to_algorithm[q]
                assert abs(found[q] - there) <= bound.to_optimum[q]
                assert abs(exact[q] - there) <= bound.missing_steps[q]
                assert bound.to_algorithm[q] <= (bound.passes[q] + bound.read_out[q]) * (1 + 2.0**-50)
                worst = max(worst, float(bound.to_algorithm[q]))
    assert 0 < worst < 100 * TOL[dtype]


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_one_network_serves_all_penalties(loss: str) -> None:
    """The prompt alone says which; many steps of a longer learner would end at scikit-learn's coefficients."""
    icl, rng = small(loss), np.random.default_rng(6)
    digest, (X, y, X_q) = icl.net.digest(), data(loss, rng, N)
    found = []
    for ridge in (0.1, 0.25, 0.5, 1.0, 2.0):
        prompt = icl.prompt(X, y, X_q, ridge=ridge)
        with mp.workdps(30):
            exact = exact_steps(icl, prompt, loss)
            assert max(abs(a - b) for a, b in zip(icl(prompt).tolist(), exact, strict=True)) < 1e-7
        found.append(icl(prompt))
        assert icl.net.digest() == digest
    assert all(float((a - b).abs().max()) > 1e-3 for a, b in pairwise(found))


def test_a_penalty_of_each_feature_and_weights_of_examples() -> None:
    """A penalised feature is left out; an example that counts twice is as good as two."""
    icl, rng = small("squared"), np.random.default_rng(7)
    X, y, X_q = data("squared", rng, 2)
    heavy = icl.prompt(X, y, X_q, weights=[2.0, 1.0], ridge=[0.5, 0.0], step=0.5)
    twice = icl.prompt(X[[0, 0, 1]], y[[0, 0, 1]], X_q, ridge=[0.5, 0.0], step=0.5)
    assert torch.allclose(icl(heavy), icl(twice), rtol=0, atol=1e-14)
    assert not torch.allclose(icl(heavy), icl(icl.prompt(X, y, X_q, ridge=[0.5, 0.0], step=0.5)), rtol=0, atol=1e-3)


def test_fewer_examples_and_queries_leave_tokens_empty() -> None:
    icl, rng = small("squared"), np.random.default_rng(8)
    X, y, X_q = data("squared", rng, 5)
    prompt = icl.prompt(X, y, X_q[:1], step=0.5)
    assert not prompt[5].any()
    assert not prompt[-2:].any()
    assert icl(prompt)[1:].abs().max() < 1e-8
    one = icl.prompt(X[:1], y[:1], X_q, step=4.0)  # six times, each with a sixth of the weight
    assert torch.equal(one[:6], one[:1].expand(6, -1))
    again = icl(icl.prompt(X[:2], y[:2], X_q, step=0.5))
    other = incontext.learner(D, 2, M, steps=STEPS, domain=SMALL, step=4.0, tol=1e-8)
    assert torch.allclose(again, other(other.prompt(X[:2], y[:2], X_q, step=0.5)), rtol=0, atol=1e-13)


def test_a_batch_is_its_prompts() -> None:
    icl, rng = small("squared"), np.random.default_rng(9)
    prompts = [icl.prompt(*data("squared", rng, 4), ridge=0.5) for _ in range(3)]
    batch = torch.stack(prompts)
    assert icl(batch).shape == (3, M)
    assert torch.allclose(icl(batch), torch.stack([icl(one) for one in prompts]), rtol=0, atol=1e-14)
    assert icl.bound(batch).to_optimum.shape == (3, M)
    one = icl.bound(prompts[1])
    assert np.allclose(icl.bound(batch).missing_steps[1], one.missing_steps, rtol=0, atol=1e-14)
    assert "to_algorithm at most" in repr(one)


def test_what_was_saved_is_the_same_network(tmp_path: Path) -> None:
    icl, rng = small("logistic"), np.random.default_rng(10)
    path = tmp_path / "icl.safetensors"
    icl.net.save(path)
    checked, loaded = ww.check(path), ww.load(path)
    assert checked.status == "PROVEN"
    assert "then (x) at x = w.x_i of each of the last 3 samples i" in checked.formula
    prompt = icl.prompt(*data("logistic", rng, N), ridge=0.5)
    assert torch.equal(loaded(prompt)[..., 0], icl(prompt))
    facts = certificate_facts(checked)
    assert (facts["queries"], facts["argument_of_the_read_out"]) == (
        3,
        "w.x in [-8.000000000000004, 8.000000000000004]",
    )
    assert "every prediction from the last state" in facts["bound_is_about"]
    assert interval([[-1.0], [-1.0], [-2.0]], [[1.0], [1.0], [2.0]]) == "[-1, 1] for 2 tokens; [-2, 2]"
    assert repr(icl).startswith("Learner(logistic, 12 steps of gradient descent, at most 6 examples of 2 features")


@pytest.mark.parametrize("loss", ["squared", "logistic", "huber"])
def test_a_guarantee_holds_for_every_prompt(loss: str) -> None:
    """It follows from the proven pass: each step adds the pass's bound, and what tokens have drifted apart by."""
    icl, rng = small(loss), np.random.default_rng(13)
    assert icl.net.certificate is not None
    most, e = icl.guarantee(), math.sqrt(D) * icl.net.certificate.bound
    assert STEPS**2 * e * math.sqrt(D) < most < 1.1 * STEPS**2 * e * math.sqrt(D) + 2 * icl.net.certificate.bound
    for n in (1, 3, N):
        found = icl.bound(icl.prompt(*data(loss, rng, n), ridge=0.5))
        assert found.to_algorithm.max() <= most


def test_where_there_is_no_guarantee_it_is_said_why() -> None:
    with pytest.raises(ValueError, match=r"says nothing about momentum \(Nesterov\)"):
        small("squared", momentum=0.5).guarantee()
    bare = incontext.learner(1, 1, 1, incontext.loss(formula="log(1 + x**2)"), 1, SMALL, 0.1, tol=1e-2)
    with pytest.raises(ValueError, match="says nothing about the loss"):
        bare.guarantee()


RNG = np.random.default_rng(11)
X, Y, X_Q = data("squared", RNG, N)


@pytest.mark.parametrize(("change", "said"), [
    ({"X": 3 * X}, r"X is up to .* in size .* built for at most 1: scale it down, or build .*Ranges\(x="),
    ({"X_q": 5 * X_Q}, r"X_q is up to .* at most 1: scale it down"),
    ({"y": 40 * Y}, r"y is up to .* at most 2: scale it down, or build a learner with domain=Ranges\(y="),
    ({"step": 9.0}, r"step times weight times X is up to .* take a smaller step, or build a learner with step="),
    ({"ridge": 3.0, "step": 4.0}, r"step times ridge is up to 12 .* at most 8: take a smaller step"),
])  # fmt: skip
def test_prompts_outside_the_domain_are_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ww.DomainError, match=said):
        small("squared").prompt(**{"X": X, "y": Y, "X_q": X_Q, **change})


@pytest.mark.parametrize(("change", "said"), [
    ({"X": np.ones((7, D)), "y": np.ones(7)}, "X has 7 examples, but .* examples=6; build one with examples=7"),
    ({"X": np.ones((N, 3))}, "X has 3 features, but the learner was built for features=2"),
    ({"X_q": np.ones((M, 3))}, r"X_q has shape \(3, 3\); \(queries, 2\) is needed, with 1 to 3 queries"),
    ({"X_q": np.full((M, D), math.nan)}, "X_q: only finite numbers"),
    ({"ridge": -1.0}, "ridge=-1.0: a penalty is a finite number"),
    ({"step": 0.0}, "step=0.0: a finite number above 0"),
    ({"weights": np.zeros(N)}, "all of them are 0"),
])  # fmt: skip
def test_what_is_no_prompt_is_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        small("squared").prompt(**{"X": X, "y": Y, "X_q": X_Q, **change})


@pytest.mark.parametrize(("change", "said"), [
    ({"examples": 0}, "examples must be a whole number of at least 1, not 0"),
    ({"steps": True}, "steps must be a whole number"),
    ({"domain": (0, 1)}, r"domain: give weightwright.incontext.Ranges"),
    ({"domain": incontext.Ranges(x=0.0, y=1.0, w=1.0)}, "domain: x=0.0; a finite number above 0"),
    ({"domain": incontext.Ranges(x=1.0, y=1.0, w=9.0, fitted=3.0)}, "fitted=3.0 is below w=9.0"),
    ({"domain": incontext.Ranges(x=1.0, y=1.0, w=9.0, ridge=-1.0)}, "ridge=-1.0; a finite number"),
    ({"step": math.inf}, "step must be a finite number above 0"),
    ({"loss": "cubed"}, "is not a loss of the catalogue"),
])  # fmt: skip
def test_what_is_no_learner_is_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        incontext.learner(**{"features": D, "examples": N, "queries": M, **change})


def test_states_and_fits_that_leave_their_ranges_are_refused() -> None:
    """At the last pass and in the read-out, too, and by what the user can change."""
    icl = small("squared")
    diverging = icl.prompt(np.ones((N, D)), np.full(N, 2.0), X_Q, step=3.9)
    with pytest.raises(ww.DomainError, match=r"The ranges of a learner are its domain=Ranges"):
        icl(diverging)
    once = incontext.learner(D, 1, 1, steps=1, domain=SMALL, step=4.0, tol=1e-3)
    far = once.prompt([[0.8, 0.0]], [2.0], [[0.1, 0.1]], step=4.0)  # w.x stays inside
    with pytest.raises(ww.DomainError, match=r"the state w\[0\] became 6\."):
        once(far)


def test_a_prompt_of_another_kind_is_no_prompt() -> None:
    icl = small("squared")
    prompt = icl.prompt(X, Y, X_Q)
    with pytest.raises(ValueError, match=r"prompt: a tensor of shape \(\.\.\., 11, 7\) is needed, not \(10, 7\)"):
        icl(prompt[1:])
    with pytest.raises(ValueError, match="not list"):
        icl(prompt.tolist())
    moved = prompt.clone()
    moved[-1, D] = 0.25  # a query that pulls
    with pytest.raises(ValueError, match="not where"):
        icl.bound(moved)
    moved = prompt.clone()
    moved[0, -1] = 0.25
    with pytest.raises(ValueError, match="hold different states"):
        icl.bound(moved)
    moved = prompt.clone()
    moved[0, D] *= 1.001
    with pytest.raises(ValueError, match="u of example 0 is no positive multiple of its x"):
        icl.bound(moved)
