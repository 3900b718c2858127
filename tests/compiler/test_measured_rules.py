"""Update rules of which nothing is proven: what they compute, what their certificates say, what is refused."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.command_line import weightwright
from torch import Tensor

import weightwright as ww
from weightwright import incontext
from weightwright.adversary.loops import first_token_of_one_pass
from weightwright.claims.graph import KINDS
from weightwright.compiler.loop.measured_rules import measure_rule
from weightwright.compiler.loop.proven_rules import trace_rule
from weightwright.compiler.loop.rehearsal import RuleRehearsal, rehearsed, stays, width
from weightwright.compiler.lowering import ranges
from weightwright.compiler.lowering.affine_forms import Forms
from weightwright.compiler.lowering.fusing import fuse
from weightwright.compiler.lowering.ranges import Evaluator
from weightwright.enclosures.intervals.formulas import enclose
from weightwright.incontext import rules as algorithms
from weightwright.prover.graph_values import column_values

RNG = np.random.default_rng


@incontext.algorithm(steps=20)
def power(x: Tensor, v: Tensor) -> Tensor:
    u = x.T @ (x @ v) / len(x)
    return u / u.norm()


@incontext.algorithm(steps=6)
def newton(rows: Tensor, w: Tensor) -> Tensor:
    x, y = rows[:, :2], rows[:, 2]
    p = torch.sigmoid(x @ w)
    g = x.T @ (p - y) / len(x) + 0.1 * w
    H = (x.T * (p * (1 - p))) @ x / len(x) + 0.1 * torch.eye(2, dtype=x.dtype)
    det = H[0, 0] * H[1, 1] - H[0, 1] * H[1, 0]
    return w - torch.stack([H[1, 1] * g[0] - H[0, 1] * g[1], H[0, 0] * g[1] - H[1, 0] * g[0]]) / det


@incontext.algorithm(steps=10)
def kmeans(points: Tensor, c: Tensor) -> Tensor:
    a, b = c[:2], c[2:]
    w = torch.sigmoid(50 * (((points - b) ** 2).sum(1) - ((points - a) ** 2).sum(1)))[:, None]
    return torch.cat([(w * points).sum(0) / w.sum(0), ((1 - w) * points).sum(0) / (1 - w).sum(0)])


def _labelled(rng: np.random.Generator) -> np.ndarray:
    x = rng.normal(size=(12, 2))
    return np.column_stack([x, x @ [1.0, -1.0] + rng.normal(size=12) > 0])


#: Rules as people write them: the rule, the examples, the first state.
NATURAL: dict[str, tuple[incontext.Rule, np.ndarray, list[float]]] = {
    "power": (power, RNG(5).normal(size=(8, 3)), [0.5, 0.5, 0.5]),
    "newton": (newton, _labelled(RNG(6)), [0.0, 0.0]),
    "kmeans": (kmeans, 0.3 * RNG(7).normal(size=(12, 2)) + np.repeat([-1.0, 1.0], 6)[:, None], [-0.5, 0.0, 0.5, 0.0]),
}


@cache
def measured(name: str) -> incontext.AlgorithmRun:
    rule, rows, first = NATURAL[name]
    return rule.run(rows, first, proof="measured")


def test_the_plain_rules_get_where_they_should() -> None:
    _, rows, first = NATURAL["power"]
    best = np.linalg.eigh(rows.T @ rows)[1][:, -1]
    assert abs(abs(power.plain(rows, first)[-1] @ best) - 1) < 1e-6
    _, rows, first = NATURAL["newton"]
    w = newton.plain(rows, first)[-1]
    p = 1 / (1 + np.exp(-rows[:, :2] @ w))
    assert np.abs((rows[:, :2] * (p - rows[:, 2:].T[0])[:, None]).mean(axis=0) + 0.1 * w).max() < 1e-12
    _, rows, first = NATURAL["kmeans"]
    assert np.abs(kmeans.plain(rows, first)[-1].reshape(2, 2) - rows.reshape(2, 6, 2).mean(axis=1)).max() < 1e-6


@pytest.mark.parametrize("name", ["power", *(pytest.param(n, marks=pytest.mark.slow) for n in ("newton", "kmeans"))])
def test_natural_rules_run_beside_pytorch_and_are_measured(name: str) -> None:
    run, (rule, _, first) = measured(name), NATURAL[name]
    said = run.net.certificate
    assert said is not None
    assert said.status == "MEASURED"
    assert said.measured is not None
    assert run.states.shape == (rule.steps + 1, len(first))
    assert 0 < run.deviation.max() <= 1e-6
    assert run.errors.max() <= 1e-9
    assert said.measured.error <= 1e-9
    assert said.measured.inputs >= rule.steps
    assert "no proof" in said.measured.reason
    assert run.bound == np.inf


@pytest.mark.parametrize("name", ["power", *(pytest.param(n, marks=pytest.mark.slow) for n in ("newton", "kmeans"))])
def test_the_error_that_is_told_is_the_largest_of_any_pass_from_the_plain_states(name: str) -> None:
    run, (rule, rows, _) = measured(name), NATURAL[name]
    said = run.net.certificate
    assert said is not None
    assert said.measured is not None
    one = first_token_of_one_pass(run.net, said.against)
    states = torch.tensor(run.plain[:-1])
    prompts = torch.stack([torch.cat([torch.tensor(rows), state.expand(len(rows), -1)], dim=1) for state in states])
    wanted = torch.stack([rule(torch.tensor(rows), state) for state in states])
    error = float((one(prompts)[:, 0] - wanted).abs().max())
    assert 0 < error <= said.measured.error + 1e-14  # which PyTorch rounds


def test_a_saved_network_stays_measured_and_is_never_proven(tmp_path: Path) -> None:
    run, rows = measured("power"), NATURAL["power"][1]
    path = tmp_path / "power.safetensors"
    run.net.save(path)
    again = ww.load(path)
    assert again.certificate is not None
    assert again.certificate.status == "MEASURED"
    found, kept = again.certificate.measured, run.net.certificate.measured
    assert dataclasses.replace(found, against=None) == dataclasses.replace(kept, against=None)
    assert found.against.composite.target.name == kept.against.composite.target.name
    prompt = torch.tensor(np.column_stack([rows, np.tile(run.states[0], (len(rows), 1))]))
    assert torch.equal(again(prompt)[0], torch.tensor(run.state))
    with pytest.raises(ww.CertificateError, match="nothing is proven here"):
        ww.check(path)
    shown = weightwright("info", path)
    assert shown.exit_code == 0, shown.output
    assert "MEASURED" in shown.output
    assert "PROVEN" not in shown.output
    assert "bound is about" not in shown.output
    assert "PROVEN" not in repr(run) + repr(run.net)


def test_what_could_be_proven_is_measured_where_that_was_asked_for() -> None:
    rule = incontext.algorithm(steps=3)(lambda x, w: 0.5 * w + torch.tanh(x).mean(dim=0))
    rows = RNG(1).normal(size=(2, 1))
    told = list[str]()
    for _ in range(2):
        run = rule.run(rows, [0.0], tol=1e-7, proof="measured", progress=told.append)
        assert run.net.certificate.status == "MEASURED"
    assert told.count("tracing") == 1
    assert rule.run(rows, [0.0], tol=1e-7).net.certificate.status == "PROVEN"
    assert rule.run(rows[::-1], [0.0], tol=1e-7, proof="measured", progress=told.append).bound == np.inf
    assert told.count("tracing") == 2  # the same boxes and states, but other examples


def test_an_error_above_tol_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A network that was rehearsed with other examples does not know the numbers that it meets."""

    def elsewhere(*given: Any, progress: Any) -> ww.AttentionNetwork:
        *others, rehearsal = given
        return measure_rule(*others, dataclasses.replace(rehearsal, examples=0.25 * rehearsal.examples))

    monkeypatch.setattr(algorithms, "measure_rule", elsewhere)
    rule = incontext.algorithm(steps=1)(lambda x, w: w / (x**2).mean(dim=0))
    with pytest.raises(
        ww.ToleranceError, match=r"pass 1 is off by .*, above tol=1e-09: the run left what was rehearsed"
    ):
        rule.run([[1.0], [2.0]], [1.0], examples_box=([0.0], [3.0]), proof="measured")


def test_a_tolerance_that_no_network_keeps_is_refused() -> None:
    with pytest.raises(ww.ToleranceError, match=r"no network within tol=1e-17 .* smallest error of one pass is"):
        incontext.algorithm(steps=2)(lambda x, w: torch.sin(w + x).mean(dim=0)).run(
            [[1.0], [2.0]], [1.0], tol=1e-17, proof="measured"
        )


def test_a_state_that_leaves_its_box_is_an_error() -> None:
    rule = incontext.algorithm(steps=3)(lambda x, w: 2 * w * x.mean(dim=0))
    with pytest.raises(
        ww.DomainError, match=r"pass 2 of 3 would begin with state\[0\] = 2, outside.*one pass is made for"
    ):
        rule.run([[1.0], [1.0]], [1.0], state_box=([0.5], [1.5]), proof="measured")
    with pytest.raises(ww.DomainError, match=r"first = \[1.0\] is outside the state box"):
        rule.run([[1.0], [1.0]], [1.0], state_box=([1.5], [2.5]), proof="measured")
    with pytest.raises(ww.DomainError, match=r"examples: row 1, \[3.0\], is outside the examples box"):
        rule.run([[1.0], [3.0]], [1.0], examples_box=([0.0], [2.0]), proof="measured")
    with pytest.raises(ww.DomainError, match="a box for 3 examples"):
        rule.run([[1.0], [3.0]], [1.0], examples_box=([[0.0]] * 3, [[4.0]] * 3), proof="measured")


def test_a_run_that_begins_where_it_ends_has_room() -> None:
    rows = NATURAL["power"][1]
    best = np.linalg.eigh(rows.T @ rows)[1][:, -1]
    run = incontext.algorithm(steps=3)(power.rule).run(rows, best, proof="measured")
    assert run.deviation.max() <= 1e-8
    assert width(np.array([[1.0, 0.0], [1.0 + 2.0**-52, 0.0]])) == pytest.approx([2.0**-10, 1.0])


def test_bad_proofs_are_refused() -> None:
    with pytest.raises(ValueError, match="proof must be 'proven' or 'measured', not 'maybe'"):
        power.run([[1.0]], [1.0], proof="maybe")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="proof='measured' needs examples and a first state to rehearse with: use run"):
        power.compile(([0.0], [1.0]), ([0.5], [1.0]), samples=2, proof="measured")
    with pytest.raises(ValueError, match="proof must be 'proven' or 'measured', not None"):
        power.compile(([0.0], [1.0]), ([0.5], [1.0]), samples=2, proof=None)  # type: ignore[arg-type]


#: Functions with a pole, or an end, and on which side of it the run stays.
POLES: dict[str, tuple[Callable[[Tensor], Tensor], float, float]] = {
    "1/x": (lambda w: 1 / w, 0.0, 1.0),
    "log(x - 1)": (lambda w: torch.log(w - 1), 1.0, 1.0),
    "sqrt(x + 2)": (lambda w: torch.sqrt(w + 2), -2.0, 1.0),
    "1/(x^2 - 9) below 3": (lambda w: 1 / (w * w - 9), 3.0, -1.0),
}


@pytest.mark.parametrize("name", POLES)
@pytest.mark.parametrize("gap", [1.0, 1e-3])
def test_ranges_cross_no_pole_and_hold_what_was_seen(name: str, gap: float) -> None:
    function, pole, side = POLES[name]
    states = pole + side * np.array([[gap], [2.0 + gap]])
    graph = trace_rule(lambda x, w: function(w) * x.mean(dim=0), 2, 1, 1, "rule")
    rehearsal = RuleRehearsal(np.array([[1.0], [2.0]]), states, 0.125)
    found = rehearsed(graph, rehearsal, np.array([-5.0]), np.array([5.0]))
    functions = [(f.formula, f.base) for f in fuse(graph).functions.values()]
    functions += [(node.op, node.of[0]) for node in graph.nodes if node.op not in KINDS]
    seen = column_values(graph, rehearsal.prompts(states))
    for formula, column in functions:
        first, last = found[column]
        assert first < seen[column].min() < seen[column].max() < last
        lo, hi = enclose(formula, np.array(first), np.array(last))
        assert np.isfinite([lo, hi]).all()
    assert stays(graph, rehearsal, states, found).all()
    assert not stays(graph, rehearsal, pole + side * np.array([[0.0], [-gap], [gap / 16], [3.0 + gap]]), found).any()


def test_limits_hold_on_both_sides_and_in_all_that_follows() -> None:
    graph = trace_rule(lambda x, w: torch.exp(w * x.mean(dim=0)) + w, 2, 1, 1, "rule")
    plan = fuse(graph)
    exponential = next(k for k, node in enumerate(graph.nodes) if node.op == "exp(x)")
    ends = np.full((2, 2), -1.0), np.full((2, 2), 1.0)
    free = Evaluator(Forms(graph, plan, 2)).on(*ends)
    assert free.of(exponential)[0].min() < 0.4
    bound = Evaluator(Forms(graph, plan, 2), {exponential: (0.5, 2.0)}).on(*ends)
    for range_, wanted in ((bound.of(exponential), (0.5, 2.0)), (bound.of(graph.outputs[-1]), (-0.5, 3.0))):
        assert np.abs(np.array(range_).T - wanted).max() < 1e-9
    outside = Evaluator(Forms(graph, plan, 2), {exponential: (5.0, 6.0)}).on(*ends)
    assert np.abs(np.array(outside.of(exponential)) - 5.0).max() < 1e-9  # never empty


def test_columns_of_a_run_lie_in_the_rehearsed_ranges() -> None:
    _, rows, first = NATURAL["kmeans"]
    states = kmeans.plain(rows, first)[:-1]
    graph = trace_rule(kmeans.rule, len(rows), 2, 4, "kmeans")
    rehearsal = RuleRehearsal(rows, states, 0.125)
    found = rehearsed(graph, rehearsal, states.min(axis=0) - 0.1, states.max(axis=0) + 0.1)
    for k, column in enumerate(column_values(graph, rehearsal.prompts(states))):
        if k in found:
            assert found[k][0] < column.min() <= column.max() < found[k][1]
    assert len(found) > len(graph.nodes) // 2


@pytest.mark.slow
def test_refusals_say_what_to_do() -> None:
    with pytest.raises(ww.FormulaError, match=r"1/x is undefined.*clamp it; or run\(\.\.\., proof='measured'\)"):
        incontext.algorithm(steps=2)(lambda x, w: x.mean(dim=0) / w).compile(([1.0], [2.0]), ([-1.0], [1.0]), samples=2)
    rule = incontext.algorithm(steps=2)(lambda x, w: torch.sin(w + x).mean(dim=0))
    with pytest.raises(
        ww.ToleranceError, match=r"clamp.*smaller boxes.*a larger tol; or run\(\.\.\., proof='measured'\)"
    ):
        rule.compile(([-1.0], [1.0]), ([-1.0], [1.0]), samples=2, tol=1e-17)


@pytest.mark.slow
def test_a_rule_of_many_inputs_is_refused_after_few_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """240 inputs: a box that is cut in half along some of them is hardly smaller."""
    looks = 0

    class Counting(ranges.Evaluator):
        def on(self, lo: np.ndarray, hi: np.ndarray) -> ranges.Ranges:
            nonlocal looks
            looks += 1
            return super().on(lo, hi)

    monkeypatch.setattr("weightwright.compiler.lowering.undefined.Evaluator", Counting)
    with pytest.raises(ww.FormulaError, match="undefined"):
        power.run(RNG(1).normal(size=(30, 4)), np.full(4, 0.5))
    assert looks <= 600
