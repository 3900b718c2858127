"""AE-1 to AE-8, UA-11 and UA-12: instances, bounds held against exact arithmetic, and what is refused."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flint import arb, ctx
from papers.support.in_context import CASES, PAIR, PAIRS, PROBLEMS, data, made, pairs
from papers.support.measuring import error_within_bound, shown_theorem
from support.exact import BITS, exact
from support.forging import save_forged

import weightwright as ww
from weightwright import constructions
from weightwright.papers.descent.regression import (
    curvature_is_between,
    exact_optimum,
    fraction_iterates,
    least_squares,
)
from weightwright.papers.descent.steps import anchored_identity, descend, spectral_identity
from weightwright.papers.kit.instance import IN_A_PROMPT, counted
from weightwright.papers.kit.measure import outputs
from weightwright.papers.linear.literal import literal_prompt
from weightwright.papers.theorems.registry import find

IDS = ("UA-11", "UA-12", *(f"AE-{i}" for i in range(1, 9)))
UNIT = ww.incontext.Ranges(1.0, 1.0, 1.0)


#: Those whose theorem is shown in `make test`, too.
QUICK = ("UA-11", "AE-1", "AE-7")


@pytest.mark.parametrize("id", [pytest.param(id, marks=[pytest.mark.slow] * (id not in QUICK)) for id in IDS])
def test_every_instance_is_proven_and_counted(id: str) -> None:
    shown = shown_theorem(id, count=512)
    assert shown.status == shown.theorem.expects == "PROVEN"
    assert shown.counts
    for check in shown.checks:
        assert check.bound is not None
        assert check.measured is not None
        assert check.measured <= check.bound < math.inf


# AE-1, AE-2


def arguments(net: ww.AttentionNetwork, X: np.ndarray) -> list[list[Fraction]]:
    """w . x - y of every token, exactly."""
    d = (len(net.network.inputs) - 1) // 2
    tokens = X.reshape(-1, X.shape[-1])
    return [
        [sum((Fraction(a) * Fraction(b) for a, b in zip(t[:d], t[d + 1 :], strict=True)), -Fraction(t[d]))]
        for t in tokens.tolist()
    ]


def largest_exact_error(net: ww.AttentionNetwork, f: str, X: np.ndarray) -> arb:
    """|network - f(w . x - y) x| in 200 bits, over all tokens within reach."""
    d, y = (X.shape[-1] - 1) // 2, outputs(net, X).reshape(-1, (X.shape[-1] - 1) // 2)
    reach, worst = Fraction(net.about.chosen["reach"]), arb(0)
    before, ctx.prec = ctx.prec, BITS
    try:
        tokens = zip(arguments(net, X), X.reshape(-1, X.shape[-1]), y, strict=True)
        for (s,), token, found in tokens:
            if abs(s) > reach:
                continue
            value = exact(f, arb(s.numerator) / arb(s.denominator))  # type: ignore[arg-type]
            for x, g in zip(token[:d].tolist(), found.tolist(), strict=True):
                worst = worst.max(abs(arb(g) - value * arb(x)))
    finally:
        ctx.prec = before
    return worst


@pytest.mark.parametrize("name", CASES)
def test_no_prompt_is_worse_than_the_bound_in_exact_arithmetic(name: str) -> None:
    net = made(name)
    assert net.certificate.status == "PROVEN"
    X = net.about.probes(np.random.default_rng(1), 40)
    X = torch.tensor(X).to(net.dtype).double().numpy()
    X = np.clip(X, net.certificate.domain.lo, net.certificate.domain.hi)
    assert largest_exact_error(net, CASES[name][0], X) <= net.certificate.bound
    error_within_bound(net, 256, seed=2)


def test_the_very_ends_of_the_reach_are_answered_and_what_is_beyond_is_refused() -> None:
    net = made("one sample, a small reach")  # d = 3, all entries at most 1: residuals up to 4, built for 1.5
    end = torch.tensor([[1.0, 1.0, 1.0, 0.0, 0.5, 0.5, 0.5]], dtype=torch.float64)
    assert torch.isfinite(net(end)).all()
    far = end.clone()
    far[0, 3] = -0.25
    with pytest.raises(ww.DomainError, match=r"residual w\.x - y of sample 0 is 1\.75.*reach=1\.8"):
        net(far)
    outputs(net, far.numpy()[None])  # measuring looks there too, and leaves the network as it was
    with pytest.raises(ww.DomainError):
        net(far)


def test_faithful_and_spectral_agree_within_their_bounds() -> None:
    faithful, spectral = made("P"), made("spectral")
    X = faithful.about.probes(np.random.default_rng(4), 64)
    apart = np.abs(outputs(faithful, X) - outputs(spectral, X)).max()
    assert 1e-3 < apart <= faithful.certificate.bound + spectral.certificate.bound


def test_a_claim_of_less_than_can_be_shown_is_refused(tmp_path: Path) -> None:
    net, path = made("P"), tmp_path / "net.safetensors"
    net.save(path)
    assert ww.check(path).status == "PROVEN"
    said = net.certificate
    (summand,) = said.claim.summands
    for part, terms in (
        (
            "the tables",
            dataclasses.replace(summand.claim.terms, approximation=0.99 * summand.claim.terms.approximation),
        ),
        ("the network", summand.claim.terms),
    ):
        claim = dataclasses.replace(summand, claim=dataclasses.replace(summand.claim, terms=terms))
        whole = dataclasses.replace(said.terms, approximation=0.99 * said.terms.approximation)
        forged = dataclasses.replace(
            said,
            claim=dataclasses.replace(said.claim, summands=(claim,)),
            terms=said.terms if part == "the tables" else whole,
            bound=said.bound,
        )
        save_forged(net.network, forged, path)
        with pytest.raises(ww.CertificateError, match="approximation"):
            ww.check(path)


def test_gradients_are_those_of_the_loss() -> None:
    """Against automatic differentiation."""
    net = constructions.per_sample_gradients("sqrt(1 + x**2) - 1", 4, 3, tol=1e-5, method="spectral", ranges=UNIT)
    rng = np.random.default_rng(5)
    x, y, w = (torch.tensor(rng.uniform(-1, 1, size)) for size in ((4, 3), (4,), (3,)))
    w.requires_grad_(True)
    prompt = torch.cat([x, y[:, None], w.detach().expand(4, 3)], dim=1)
    found = net(prompt)
    for i in range(4):
        (slope,) = torch.autograd.grad(torch.sqrt(1 + (w @ x[i] - y[i]) ** 2) - 1, w)
        assert float((found[i] - slope).abs().max()) <= net.certificate.bound


@pytest.mark.slow
def test_the_error_of_the_papers_anchors_falls_as_one_over_their_number() -> None:
    faithful, spectral = find("AE-1").measured_studies()[0].series
    fitted = faithful.fitted()
    assert fitted is not None
    assert -1.1 < fitted < -0.9
    assert spectral.points[-1].measured < 1e-6 * faithful.points[-1].measured
    assert spectral.points[-1].value < faithful.points[-1].value


# AE-3 to AE-7


@pytest.mark.parametrize("name", PROBLEMS)
def test_exact_iterates_and_optima_are_those_of_numpy(name: str) -> None:
    problem = PROBLEMS[name]
    X, y = problem.X, problem.y
    A, b, w = X.T @ X / 8 + problem.ridge * np.eye(3), X.T @ y / 8, np.zeros(3)
    exact_path = fraction_iterates(problem, 0.5, 20)
    for t in range(5001):
        if t <= 20:
            assert np.abs(w - [float(v) for v in exact_path[t]]).max() < 1e-14
        z = w - 0.5 * (A @ w - b)
        w = np.sign(z) * np.maximum(np.abs(z) - 0.5 * problem.l1, 0)
    assert np.abs(w - [float(v) for v in exact_optimum(problem)]).max() < 1e-12
    if name == "least squares":
        assert np.abs(w - np.linalg.lstsq(X, y, rcond=None)[0]).max() < 1e-12
    least, most = np.linalg.eigvalsh(A)[[0, -1]]
    assert curvature_is_between(problem, least * (1 - 1e-9), most * (1 + 1e-9))
    assert not curvature_is_between(problem, least * (1 + 1e-9), most * (1 + 1e-9))
    assert not curvature_is_between(problem, least * (1 - 1e-9), most * (1 - 1e-9))


@pytest.mark.parametrize(("name", "looped"), [("ridge", True), ("both", False)])
def test_every_state_keeps_both_bounds(name: str, looped: bool) -> None:
    run = descend(PROBLEMS[name], 1.0, 12, spectral_identity(1e-9), looped=looped)
    assert run.net.certificate.status == "PROVEN"
    assert len(run.states) == 13
    assert run.holds
    assert run.iterate_bounds[12] == 12 * run.iterate_bounds[1] >= 12 * math.sqrt(3) * run.net.certificate.bound
    assert not run.net.network.native
    assert not dataclasses.replace(run, states=run.states, to_iterate=[1.0] * 13).holds


def test_any_number_of_samples() -> None:
    """n = 7: u = step x / n is rounded, and the error of a step counts it."""
    rng = np.random.default_rng(7)
    problem = least_squares(rng.uniform(-1, 1, (7, 2)), rng.uniform(-1, 1, 7), l1=0.0625)
    run = descend(problem, 0.5, 6, spectral_identity(1e-12))
    assert run.holds
    rounding = sum(
        abs(Fraction(0.5) * Fraction(x) / 7 - Fraction(0.5 * x / 7)) for row in problem.X.tolist() for x in row
    )
    assert rounding > 0
    assert run.iterate_bounds[1] > math.sqrt(2) * run.net.certificate.bound + float(rounding)


@pytest.mark.slow
def test_float32_keeps_its_own_bounds() -> None:
    run = descend(PROBLEMS["least squares"], 1.0, 8, spectral_identity(1e-5, "float32"), dtype="float32")
    assert run.holds
    assert 1e-7 < run.iterate_bounds[1] < 1e-4


def test_other_targets_in_the_prompt_lead_where_refitting_would() -> None:
    """One network and two prompts: two of the targets change places."""
    X, y = data()
    changed = y.copy()
    changed[[3, 5]] = y[[5, 3]]
    run = descend(least_squares(X, y, ridge=0.25), 1.0, 48, spectral_identity(1e-9))
    prompt = np.concatenate([X, X / 8, changed[:, None], 0 * X], axis=1)
    before, after = run.states[-1], outputs(run.net, prompt)[0]
    refit = [float(v) for v in exact_optimum(least_squares(X, changed, ridge=0.25))]
    assert np.abs(before - refit).max() > 0.01
    assert np.abs(after - refit).max() < 1e-6


def test_conditions_of_the_lemma_are_checked() -> None:
    problem = PROBLEMS["least squares"]
    with pytest.raises(ww.WeightwrightError, match=r"step=8\.0 exceeds 2/L_f"):
        descend(problem, 8.0, 2, spectral_identity(1e-9))
    with pytest.raises(ww.WeightwrightError, match=r"100 steps with an error of .* may leave \|w\| <= 4"):
        descend(problem, 1.0, 100, anchored_identity(64))
    with pytest.raises(ValueError, match=r"step must be a power of two.*not 0\.75"):
        descend(problem, 0.75, 2, spectral_identity(1e-9))
    doubled = least_squares(np.repeat(data()[0][:, :1], 2, axis=1), data()[1])
    with pytest.raises(ww.WeightwrightError, match="columns of X depend on each other"):
        descend(doubled, 1.0, 2, spectral_identity(1e-9))


# UA-12


@pytest.mark.parametrize("method", ["faithful", "spectral"])
def test_a_step_for_a_loss_of_two_numbers_is_automatic_differentiations(method: str) -> None:
    net = pairs(method)
    assert net.certificate.status == "PROVEN"
    rng, eta = np.random.default_rng(6), 1.0
    x, y, start = (torch.tensor(rng.uniform(-1, 1, size)) for size in ((4, 2), (4,), (2,)))
    w = (start / 2).requires_grad_(True)
    s = x @ w
    total = ((1 + y**2 / 4) * torch.nn.functional.softplus(s) - s * y / 2).mean()
    (slope,) = torch.autograd.grad(total, w)
    prompt = torch.cat([x, eta * x / 4, y[:, None], w.detach().expand(4, 2)], dim=1)
    error = float((net(prompt)[0] - (w.detach() - eta * slope)).abs().max())
    assert error <= net.certificate.bound
    error_within_bound(net, 256, seed=7)


def test_a_grid_is_found_for_a_tolerance() -> None:
    net = constructions.in_context_step_of_pairs(PAIR, 4, 2, PAIRS, tol=0.13)
    assert net.certificate.status == "PROVEN"
    assert net.certificate.bound <= 0.13 < pairs("faithful").certificate.bound * 2
    error_within_bound(net, 256, seed=8)


def test_the_logistic_loss_takes_two_keys_that_are_exact() -> None:
    net = constructions.logistic_step(4, 2, ww.incontext.Ranges(1.0, 1.0, 1.0, 0.25))
    (head,) = net.network.heads
    assert head.sees.block == 2
    assert net.certificate.bound < 1e-14
    error_within_bound(net, 512)


# UA-11, AE-8


@pytest.mark.parametrize("n", [3, 5])
def test_the_papers_layout_computes_the_same(n: int) -> None:
    literal = constructions.literal_truncated_linear(-0.5, 1.0, n, 2, H=3)
    proven = constructions.in_context_truncated_linear_heads(-0.5, 1.0, n, 2, H=3)
    assert literal.network.native
    assert literal.certificate.status == "PROVEN"
    rng = np.random.default_rng(n)
    x, w = rng.uniform(-1, 1, (200, n, 2)), rng.uniform(-1, 1, (200, 2))
    ones, t = np.tile([1.0, 0.0], (200, n, 1)), np.zeros((200, n, 1))
    ours = outputs(proven, np.concatenate([x, ones, t, np.tile(w[:, None], (1, n, 1))], axis=-1))
    found = outputs(literal, literal_prompt(x, w))[..., 0]
    assert np.abs(found - ours[..., 0]).max() < 1e-3  # its beta is a little larger
    wanted = np.clip((x * w[:, None]).sum(axis=-1), -0.5, 1.0)
    assert np.abs(ours[..., 0] - wanted).max() <= proven.certificate.bound
    assert np.abs(found - wanted).max() <= literal.certificate.bound
    assert not ours[..., 1].any()


def test_every_sample_has_its_own_model() -> None:
    net = constructions.in_context_truncated_linear(-1.0, 1.0, 3, 2, tol=0.05)
    assert net.certificate.bound <= 0.05
    x, w = np.array([[1.0, 0.5], [-1.0, 1.0], [0.0, 1.0]]), np.array([[0.5, -0.5], [1.0, 0.25], [0.125, -0.75]])
    t = np.array([0.5, -1.0, 0.25])
    prompt = np.concatenate([x, np.tile([1.0, 0.0], (3, 1)), t[:, None], w], axis=1)
    found = outputs(net, prompt)[:, 0]
    assert np.abs(found - np.clip((x * w).sum(axis=1) + t, -1, 1)).max() <= net.certificate.bound


# counts


@pytest.mark.parametrize("seed", range(3))
def test_counts_are_those_of_the_networks(seed: int) -> None:
    """Layers of every kind, heads, width and scores."""
    rng = np.random.default_rng(seed)
    n, d, P, H = (int(x) for x in rng.integers((3, 1, 2, 1), (6, 4, 9, 5)))
    said = {
        constructions.in_context_gradients("x", n, d, P=P): (3, 1, n * (P + 1)),
        constructions.in_context_truncated_linear(-1.0, 1.0, n, d, p=n + P): (3, 1, n * (n + P)),
        constructions.in_context_truncated_linear_heads(-1.0, 1.0, n, d, H=H): (3 * H, H, n**2 * H),
    }
    for net, (layers, heads, scores) in said.items():
        built = {count.what: count.built for count in counted(net, "ours", shown=IN_A_PROMPT)}
        assert built["layers of every kind, ours"] == layers
        assert built["heads, ours"] == heads == net.cost.heads
        assert built["scores a step, ours"] == scores
        assert built["width, ours"] == len(net.network.embed.coordinates) == 6 * d + 2
        assert (built["registers, ours"], built["parameters, ours"]) == (0, net.cost.parameters)


# arguments

BAD: dict[str, tuple[str, tuple[Any, ...], dict[str, Any], str]] = {
    "n 0": ("in_context_gradients", ("x", 0, 1), {"P": 4}, "n must be a whole number of at least 1, not 0"),
    "d half": ("in_context_gradients", ("x", 1, 0.5), {"P": 4}, "d must be a whole number of at least 1, not 0.5"),
    "P 1": ("in_context_gradients", ("x", 1, 1), {"P": 1}, "P must .* at least 2 spacings, not 1"),
    "tol and P": ("in_context_gradients", ("x", 1, 1), {"P": 4, "tol": 0.1}, "either tol or P"),
    "neither": ("in_context_gradients", ("x", 1, 1), {}, "either tol or P"),
    "beta and tol": ("in_context_gradients", ("x", 1, 1), {"tol": 0.1, "beta": 1.0}, "beta follows from tol"),
    "tol 0": ("in_context_gradients", ("x", 1, 1), {"tol": 0.0}, "tol must be a positive finite number, not 0.0"),
    "reach": ("in_context_gradients", ("x", 1, 1), {"P": 4, "reach": -1.0}, "reach must be a positive .*not -1.0"),
    "range": (
        "in_context_gradients", ("x", 1, 1), {"P": 4, "ranges": ww.incontext.Ranges(0.0, 1.0, 1.0)},
        "ranges.x must .*not 0.0",
    ),
    "a method": ("in_context_gradients", ("x", 1, 1), {"P": 4, "method": "best"}, "method must be .*not 'best'"),
    "P, spectral": ("in_context_gradients", ("x", 1, 1), {"P": 4, "method": "spectral"}, "P and beta follow"),
    "a pole": ("in_context_gradients", ("1/x", 1, 1), {"tol": 0.1}, r"f='1/x' has no finite slope on \[-2, 2\]"),
    "too fine": ("in_context_gradients", ("x", 1, 1), {"tol": 1e-9}, "takes [0-9,]+ anchors for every sample"),
    "a kink": (
        "per_sample_gradients", ("abs(x)", 1, 1), {"P": 4}, "loss='abs.x.': its derivative is written with jumps",
    ),
    "a above b": ("in_context_truncated_linear", (2, 1, 3, 1), {"p": 9}, "a < b, not a = 2, b = 1"),
    "p too small": ("in_context_truncated_linear", (0, 1, 3, 1), {"p": 3}, "p must .* at least 4: more than the 3"),
    "no tol": ("in_context_truncated_linear", (0, 1, 3, 1), {"method": "spectral"}, "p and beta follow"),
    "no range of u": ("in_context_truncated_linear", (0, 1, 3, 1), {"p": 9, "ranges": UNIT}, "ranges.value .*not 0.0"),
    "two samples": ("in_context_truncated_linear_heads", (0, 1, 2, 1), {"H": 2}, "n must be at least 3.*n = 2"),
    "H 0": ("in_context_truncated_linear_heads", (0, 1, 3, 1), {"H": 0}, "H must be a whole number .*not 0"),
    "two tokens": ("literal_truncated_linear", (0, 1, 2, 1), {"H": 2}, "n must be .* at least 3: .*not 2"),
    "tol and P, of pairs": ("in_context_step_of_pairs", (PAIR, 4, 2, PAIRS), {"tol": 0.1, "P": 2}, "tol=0.1, P=2"),
    "tol too small": ("in_context_step_of_pairs", (PAIR, 4, 2, PAIRS), {"tol": 1e-4}, "at most 16 are proven: 0.18"),
    "P, of pairs": ("in_context_step_of_pairs", (PAIR, 4, 2, PAIRS), {"P": 2, "method": "spectral"}, "P follows"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_arguments_are_named_with_their_values(name: str) -> None:
    function, args, keywords, said = BAD[name]
    with pytest.raises((ValueError, ww.WeightwrightError), match=said):
        getattr(constructions, function)(*args, **keywords)
