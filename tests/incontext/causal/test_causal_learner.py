"""Learning from x_1, y_1, x_2, y_2, ...: against descent in fractions, prefix by prefix, and nothing looks ahead."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import weightwright as ww
from weightwright import incontext
from weightwright.circuit.running_circuit import run_circuit
from weightwright.claims.prompt import ENTERING
from weightwright.incontext.errors.prefixes import bound_everywhere, enclose_errors
from weightwright.incontext.networks.causal_network import PrefixDescent

D, N, STEPS, STEP, RIDGE = 2, 3, 4, 0.375, 0.1
DOMAIN = (1.0, 2.0, 4.0)


@cache
def small() -> incontext.CausalLearner:
    return incontext.causal_learner(D, N, STEPS, step=STEP, ridge=RIDGE, domain=DOMAIN, tol=1e-9)


@cache
def smallest() -> incontext.CausalLearner:
    return incontext.causal_learner(1, 2, 2, step=0.5, domain=(1.0, 1.0, 2.0), tol=1e-6)


def examples(seed: int, count: int = N, d: int = D) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X, w = rng.uniform(-1, 1, (count, d)), rng.uniform(-1, 1, d)
    return X, X @ w


def descent(X: np.ndarray, y: np.ndarray, n: int, steps: int, step: float, ridge: float) -> list[Fraction]:
    """What `steps` steps predict at every x from the examples before it, written anew and in fractions."""
    rows, targets = [[Fraction(a) for a in row] for row in X.tolist()], [Fraction(b) for b in y.tolist()]
    eta, penalty, predicted = Fraction(step), Fraction(ridge), []
    for i, x in enumerate(rows):
        w = [Fraction(0)] * len(x)
        for _ in range(steps):
            misses = [
                sum(a * b for a, b in zip(w, row, strict=True)) - t
                for row, t in zip(rows[:i], targets[:i], strict=True)
            ]
            slopes = [sum(m * row[r] for m, row in zip(misses, rows[:i], strict=True)) / n for r in range(len(x))]
            w = [a - eta * (slope + penalty * a) for a, slope in zip(w, slopes, strict=True)]
        predicted.append(sum((a * b for a, b in zip(w, x, strict=True)), Fraction(0)))
    return predicted


def errors(icl: incontext.CausalLearner, X: np.ndarray, y: np.ndarray) -> list[Fraction]:
    one, found = icl.descent, icl.predict(X, y).tolist()
    exact = descent(X, y, one.examples, one.steps, one.step, one.ridge)
    return [abs(Fraction(p) - q) for p, q in zip(found, exact, strict=True)]


def test_every_prediction_is_that_of_descent_on_its_prefix() -> None:
    """Within the bound, which is proven; and what is told of the error is true."""
    icl = small()
    assert icl.certificate is not None
    assert icl.certificate.status == "PROVEN"
    everywhere = icl.bound()
    assert isinstance(everywhere, float)
    assert 0 < everywhere < 1e-6
    for seed in range(4):
        X, y = examples(seed)
        off, said = errors(icl, X, y), icl.bound(icl.prompt(X, y))
        assert isinstance(said, incontext.PrefixErrors)
        assert said.missing is not None
        assert said.optimum is not None
        assert off[0] <= said.arithmetic[0]  # nothing stands before the first: it is 0, or nearly
        assert all(e <= Fraction(b) for e, b in zip(off, said.arithmetic.tolist(), strict=True))
        assert all(e <= Fraction(b) <= everywhere for e, b in zip(off, said.bounds.tolist(), strict=True))
        assert (said.optimum <= said.arithmetic + said.missing + 1e-15).all()
        plain = descent(X, y, N, STEPS, STEP, RIDGE)
        assert icl.exact(X, y).tolist() == [float(p) for p in plain]


def test_corners_of_the_domain_are_within_the_bound() -> None:
    rng, icl = np.random.default_rng(7), small()
    everywhere = icl.bound()
    assert isinstance(everywhere, float)
    for _ in range(8):
        X, y = rng.choice([-1.0, 1.0], (N, D)), rng.choice([-2.0, 2.0], N)
        assert max(errors(icl, X, y)) <= Fraction(everywhere)


def test_the_bound_counts_what_floats_make_of_the_step() -> None:
    """0.1 and a third of 0.3 are no floats: with a bound of 0 these are all that is left."""
    one = PrefixDescent(1, 3, 5, 0.3, 0.1, incontext.Ranges(1.0, 1.0, 1.0))
    exact = [Fraction(one.alpha) - (1 - Fraction(0.3) * Fraction(0.1)), Fraction(one.rate) - Fraction(0.3) * 2 / 3]
    assert any(exact)
    assert bound_everywhere(one, 0.0) >= max(abs(float(e)) for e in exact)
    assert bound_everywhere(one, 0.0) < 1e-14


def test_the_bound_counts_all_states_that_a_pass_may_begin_with() -> None:
    """They may be a little larger than w was said to be: what one pass is proven for has room."""
    one, e = PrefixDescent(1, 1, 1, 1.0, 0.0, incontext.Ranges(1.0, 1.0, 1024.0)), 2.0**-10
    largest = one.sizes[-2]
    assert largest > 1024
    assert bound_everywhere(one, e) >= e * (1 + largest + 1) + e * (largest + 1)


def test_what_nobody_has_checked_has_no_bound() -> None:
    net = pickle.loads(pickle.dumps(smallest().net))
    assert net.certificate.status == "UNCHECKED"
    assert incontext.CausalLearner(smallest().descent, net).bound() == math.inf


def off_by(e: float, one: PrefixDescent, X: np.ndarray, y: np.ndarray, sign: int) -> np.ndarray:
    """The algorithm in floats, where everything that a certificate bounds is off by e, always to the same side."""
    predicted = []
    for i, x in enumerate(X):
        A = one.share * X[:i].T @ X[:i] - sign * e
        b, w = one.share * X[:i].T @ y[:i] + sign * e, np.full(len(x), sign * e)
        for _ in range(one.steps):
            w = one.alpha * w - one.rate * (A @ w - b) + sign * e
        predicted.append(w @ (x + sign * e) + sign * e)
    return np.array(predicted)


def test_errors_of_passes_add_up_to_no_more_than_the_bound() -> None:
    """By passes that are off by 1/1024, and not by what a network happens to be off by."""
    e, one = 2.0**-10, PrefixDescent(D, 4, 12, 0.5, 0.1, incontext.Ranges(1.0, 2.0, 4.0))
    X, y = np.abs(examples(2, 4)[0]), np.array([1.0, 1.5, 2.0, 0.5])
    for sign in (1, -1):
        found = enclose_errors(one, X, y, off_by(e, one, X, y, sign), e)
        assert (found.arithmetic <= found.bounds).all()
        assert (found.bounds <= bound_everywhere(one, e)).all()
        assert found.arithmetic.max() > 0.1 * found.bounds.max()  # and not by far less


@pytest.mark.parametrize("fill", ["random", "zeros"])
def test_no_later_example_changes_a_bit(fill: str) -> None:
    """Also where all tokens are alike at first, which other networks take a shorter way for."""
    icl = small()
    X, y = examples(3) if fill == "random" else (np.zeros((N, D)), np.zeros(N))
    batch = icl.prompt(np.stack([X, X]), np.stack([y, y]))
    before = icl.net(batch)
    for token in range(1, 2 * N):
        changed = batch.clone()
        changed[1, token:] = torch.tensor([0.75, -0.5, 1.25], dtype=torch.float64)
        after = icl.net(changed)
        assert torch.equal(after[:, :token], before[:, :token])
        assert torch.equal(after[0], before[0])
    changed = batch.clone()
    changed[:, 0, :D] += 0.25
    changed[:, 1, D] += 0.5
    changed[:, 2, :D] += 0.125
    assert not torch.equal(icl(changed)[:, 1], icl(batch)[:, 1])  # but for the examples before it


def test_prompts_are_interleaved_and_may_be_short() -> None:
    icl = small()
    X, y = examples(1)
    prompt = icl.prompt(X, y)
    assert prompt.shape == (2 * N, D + 1)
    assert torch.equal(prompt[0::2, :D], torch.tensor(X))
    assert torch.equal(prompt[1::2, D], torch.tensor(y))
    assert not prompt[0::2, D].any()
    assert not prompt[1::2, :D].any()
    whole = icl.predict(X, y)
    assert torch.equal(icl.predict(X[:2], y[:1]), whole[:2])  # nobody reads the last target
    assert torch.equal(icl(icl.prompt(X[None], y[None]))[0], whole)
    assert icl.predict(np.stack([X] * 3), np.stack([y] * 3)).shape == (3, N)


def test_it_is_saved_checked_and_exported(tmp_path: Path) -> None:
    icl = smallest()
    path = tmp_path / "net.safetensors"
    icl.net.save(path)
    loaded = ww.load(path)
    assert loaded.certificate is not None
    assert loaded.certificate.status == "PROVEN"
    prompt = icl.prompt([[0.5], [1.0]], [0.25])
    assert torch.equal(loaded(prompt), icl.net(prompt))
    assert icl.net.to_torch(tmp_path / "net.py") < 1e-12
    assert not icl.net.network.native  # the loop has maps between its passes; `unroll` has none


def test_what_is_said_of_it() -> None:
    said = small().certificate
    assert said is not None
    assert said.claim.own
    assert ENTERING in said.assumptions
    assert "what the first begins with" in repr(small().net) or "one pass" in repr(small().net)
    assert repr(small()).startswith("CausalLearner(2 features, 3 examples, 4 steps, step 0.375, ridge 0.1; one pass:")
    assert "every token by itself" in said.formula


def test_in_float32() -> None:
    icl = incontext.causal_learner(1, 2, 2, step=0.5, ridge=0.3, domain=(1.0, 1.0, 2.0), tol=1e-3, dtype="float32")
    X, y = (part.astype(np.float32).astype(np.float64) for part in examples(5, 2, 1))
    said = icl.bound(icl.prompt(X, y))
    assert isinstance(said, incontext.PrefixErrors)
    assert icl.predict(X, y).dtype == torch.float32
    assert all(e <= Fraction(b) for e, b in zip(errors(icl, X, y), said.bounds.tolist(), strict=True))


def test_a_step_that_may_diverge_has_no_bound_for_all_prompts() -> None:
    """Worst examples have a curvature of features x^2; what is proven of one prompt knows its own."""
    wild = incontext.CausalLearner(replace(small().descent, step=2.0), small().net)
    assert wild.bound() == math.inf


def test_a_state_that_leaves_its_range_is_an_error() -> None:
    icl = incontext.causal_learner(1, 2, 3, step=1.0, domain=(1.0, 1.0, 0.25), tol=1e-3)
    with pytest.raises(ww.DomainError, match=r"w\[0\] of token 1 became 0.49\d*, outside \[-0.250244, 0.250244\]"):
        icl.predict([[1.0], [1.0]], [1.0, 1.0])
    assert icl.predict([[1.0], [1.0]], [0.125, 0.125])[0] == 0
    with pytest.raises(ww.DomainError, match="outside"):
        icl.predict([[1.5], [1.0]], [0.0, 0.0])
    icl.net.on_domain = "ignore"
    assert icl.certificate is not None
    assert icl.certificate.status == "CONDITIONAL"
    assert ENTERING in icl.certificate.why
    icl.predict([[1.0], [1.0]], [1.0, 1.0])


def test_without_a_proof_nothing_is_claimed() -> None:
    icl = incontext.causal_learner(1, 2, 2, step=0.5, domain=(1.0, 1.0, 2.0), tol=1e-6, proof="measured")
    said = icl.certificate
    assert said is not None
    assert said.status == "MEASURED"
    assert said.measured is not None
    assert 0 < said.measured.error <= 1e-6
    assert repr(icl).endswith(f"one pass: largest error found {said.measured.error:.3g}, MEASURED)")
    assert icl.bound() == math.inf
    found = icl.bound(icl.prompt([[0.5], [1.0]], [0.25]))
    assert isinstance(found, incontext.PrefixErrors)
    assert np.isinf(found.bounds).all()
    assert found.optimum is None  # without a ridge there is no one optimum
    assert (found.arithmetic < 1e-5).all()


@pytest.mark.slow
def test_what_cannot_be_had_is_said() -> None:
    with pytest.raises(ww.ToleranceError, match="the smallest error"):
        incontext.causal_learner(1, 2, 2, domain=(1.0, 1.0, 2.0), tol=1e-30, proof="measured")
    with pytest.raises(ww.ToleranceError, match="ask for a larger tol"):
        incontext.causal_learner(1, 2, 2, domain=(1.0, 1.0, 2.0), tol=1e-30)


def test_an_edited_network_is_checked_again() -> None:
    """A value of the table in the loop moves by little, and the bound with it; without its mask the sums do by more."""
    net = copy.deepcopy(smallest().net)
    place = net.network.embed.coordinates.index("value of x**2")
    net.registers.data[-3, place] += 1e-9
    assert net.certificate is not None
    assert net.certificate.status == "EDITED"
    assert net.check().status == "PROVEN"
    head = net.layers[2].heads[0]  # type: ignore[union-attr, index]
    head.sees = replace(head.sees, data="all")
    net.layers[2].heads[0].W_K.data[:] = 0  # type: ignore[union-attr, index]
    before, prompt = smallest().net, smallest().prompt([[0.5], [1.0]], [1.0])
    found, gap = net.check(), float((net(prompt) - before(prompt)).abs().max())
    assert gap > 0.01
    assert found.bound > gap  # it is PROVEN to be that far off


def test_its_circuit_names_the_tables_before_the_loop_and_in_it() -> None:
    """Both count their layers from 0, and have heads of their own."""
    circuit, prompt = smallest().net.circuit(), smallest().prompt([[0.5], [1.0]], [0.25])
    assert np.abs(run_circuit(circuit, prompt.numpy()).outputs - smallest().net(prompt).numpy()).max() < 1e-12
    (loop,) = (node for node in circuit.nodes if node.body is not None)
    assert loop.body is not None
    before, inside = ([n for n in part.nodes if n.function.startswith("x**2")] for part in (circuit, loop.body))
    assert [node.name for node in before] == ["L1H0", "L1H1", "L1H2"]
    assert [node.name for node in inside] == ["L0H0", "L0H1", "L0H2", "L0H3"]


def test_search_looks_at_a_pass_and_at_what_stands_before_the_loop() -> None:
    worst = ww.search(smallest().net, 0.0)
    assert 0 < worst.error <= worst.bound


def test_unrolled_it_is_a_plain_causal_transformer() -> None:
    icl = smallest()
    net = icl.unroll(1e-3)
    assert net.certificate is not None
    assert net.certificate.status == "PROVEN"
    assert net.network.native
    assert {head.sees.data for head in net.network.heads} == {"none", "earlier"}
    prompt = icl.prompt([[0.5], [1.0]], [0.25])
    exact = [float(p) for p in descent(np.array([[0.5], [1.0]]), np.array([0.25, 0.0]), 2, 2, 0.5, 0.0)]
    assert np.abs(net(prompt)[0::2, 0].numpy() - exact).max() <= net.certificate.bound


@pytest.mark.slow
def test_unrolled_it_loads_in_transformer_lens() -> None:
    icl = smallest()
    net = icl.unroll(1e-3)
    export = net.to_transformer_lens()
    prompt = icl.prompt([[0.5], [1.0]], [0.25])[None]
    assert export.model.cfg.attention_dir == "causal"
    assert export.difference < 1e-12
    assert float((export.run(prompt) - net(prompt)).abs().max()) < 1e-12


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "no feature": (
        lambda: incontext.causal_learner(0, 2, 2),
        "features must be a whole number of at least 1, not 0",
    ),
    "half a step": (lambda: incontext.causal_learner(1, 2, 0.5), "steps must be a whole number"),  # type: ignore[arg-type]
    "a step backwards": (
        lambda: incontext.causal_learner(1, 2, 2, step=-1.0),
        "step must be a finite number above 0, not -1.0",
    ),
    "a negative ridge": (
        lambda: incontext.causal_learner(1, 2, 2, ridge=-1.0),
        "ridge must be a finite number of at least 0",
    ),
    "one range": (lambda: incontext.causal_learner(1, 2, 2, domain=3.0), "domain must be three numbers"),  # type: ignore[arg-type]
    "no range": (lambda: incontext.causal_learner(1, 2, 2, domain=(1.0, 0.0, 1.0)), "domain: the size of y must be"),
    "hearsay": (lambda: incontext.causal_learner(1, 2, 2, proof="told"), "proof must be"),  # type: ignore[arg-type]
    "half precision": (lambda: incontext.causal_learner(1, 2, 2, dtype="bfloat16"), "bfloat16"),
    "too many": (lambda: small().prompt(np.zeros((4, 2)), np.zeros(4)), r"\(..., m, 2\) with m from 1 to 3"),
    "too few targets": (
        lambda: small().prompt(np.zeros((3, 2)), np.zeros(1)),
        "y must have a target for every example",
    ),
    "words": (lambda: small().prompt([["a", "b"]], [1.0]), "X must be numbers"),
    "two prompts": (lambda: small().bound(torch.zeros(2, 6, 3)), "prompt must be one prompt"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments_are_named(name: str) -> None:
    call, said = WRONG[name]
    with pytest.raises((ValueError, ww.DomainError), match=said):
        call()
