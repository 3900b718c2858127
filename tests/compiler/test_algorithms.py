"""Update rules in PyTorch as looped networks: what they compute, what is proven of a pass, what is refused."""

from __future__ import annotations

import copy
import doctest
import importlib.util
import pickle
import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from flint import arb, ctx
from support.command_line import weightwright
from support.graphs import graph_outputs
from torch import Tensor

import weightwright as ww
from weightwright import incontext
from weightwright.adversary.graphs import GraphTarget
from weightwright.compiler.loop.proven_rules import tokens_read, trace_rule
from weightwright.report import draw_network
from weightwright.runtime.watch import passes

RNG = np.random.default_rng
ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "algorithms.md").read_text()


def _examples() -> ModuleType:
    spec = importlib.util.spec_from_file_location("algorithm_examples", ROOT / "examples" / "algorithms.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


examples = _examples()


@incontext.algorithm(steps=4)
def descent(rows: Tensor, w: Tensor) -> Tensor:
    x, y = rows.unbind(-1)
    return w - 0.5 * (x * (x * w - torch.tanh(y))).mean(dim=0)


@cache
def small() -> incontext.AlgorithmRun:
    return descent.run(RNG(3).uniform(-1, 1, (5, 2)), [0.25], state_box=([-1.0], [1.0]), tol=1e-8)


def exact_errors(run: incontext.AlgorithmRun, rows: np.ndarray, every: int = 1) -> list[float]:
    """Every pass, or some, against the rule's graph in 128 bits, from the state that it began with; rounded up."""
    assert run.net.certificate is not None
    composite = run.net.certificate.composite
    assert composite is not None
    target = GraphTarget(composite, composite.target, (len(rows), rows.shape[1] + run.states.shape[1]), first=True)
    found = []
    with ctx.workprec(128):
        for before, after in list(zip(run.states, run.states[1:], strict=False))[::every]:
            prompt = np.column_stack([rows, np.tile(before, (len(rows), 1))]).ravel()
            gaps = [abs(arb(float(value)) - target.exact(prompt, j)).upper() for j, value in enumerate(after)]
            found.append(float(np.nextafter(max(float(gap) for gap in gaps), np.inf)))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", examples.PROBLEMS)
def test_the_five_match_pytorch_and_are_proven(name: str, tmp_path: Path) -> None:
    rule, rows, first, tol = examples.PROBLEMS[name](RNG(7))
    run = rule.run(rows, first, tol=tol)
    assert run.net.certificate is not None
    assert run.net.certificate.status == "PROVEN"
    assert run.states.shape == run.plain.shape == (rule.steps + 1, len(first))
    assert run.deviation.max() <= 1e-8
    assert 0 < max(exact_errors(run, rows, every=10)) <= run.bound <= tol
    run.net.save(tmp_path / "net.safetensors")
    again = ww.load(tmp_path / "net.safetensors")
    prompt = torch.tensor(np.column_stack([rows, np.tile(first, (len(rows), 1))]))
    assert torch.equal(again(prompt)[0], torch.tensor(run.state))


def hard_kmeans(points: np.ndarray, centres: np.ndarray, steps: int) -> np.ndarray:
    for _ in range(steps):
        nearest = ((points[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
        centres = np.stack([points[nearest == k].mean(axis=0) for k in range(2)])
    return centres


@pytest.mark.slow
def test_kmeans_assigns_as_hard_kmeans_does_where_points_are_well_apart() -> None:
    """Squared distances differ by 1 or more: a softmax of 20 times them is off by e^-20 a point."""
    rule, points, first, _ = examples.PROBLEMS["kmeans"](RNG(11), 12)
    points = np.where(points[:, :1] + points[:, 1:] > 0, 0.5, -0.5) + 0.2 * RNG(12).uniform(-1, 1, points.shape)
    run = rule.run(points, first, tol=1e-6)
    assert run.net.certificate.status == "PROVEN"
    assert run.deviation.max() <= 1e-6
    assert np.abs(run.state.reshape(2, 2) - hard_kmeans(points, first.reshape(2, 2), 10)).max() <= 1e-6


def test_the_other_four_get_where_they_should() -> None:
    """The plain rules, against what they are meant to find."""
    rng = RNG(5)
    rule, rows, first, _ = examples.PROBLEMS["momentum"](rng)
    best = np.linalg.lstsq(rows[:, :3], rows[:, 3])[0]
    assert np.abs(rule.plain(rows, first)[-1, :3] - best).max() < 1e-3
    rule, rows, first, _ = examples.PROBLEMS["newton"](rng)
    w = rule.plain(rows, first)[-1]
    p = 1 / (1 + np.exp(-rows[:, :2] @ w))
    assert np.abs((rows[:, :2] * (p - rows[:, 2])[:, None]).mean(axis=0) + 0.5 * w).max() < 1e-14
    rule, rows, first, _ = examples.PROBLEMS["power"](rng)
    values, vectors = np.linalg.eigh(rows.T @ rows / len(rows))
    v = rule.plain(rows, first)[-1]
    assert abs(abs(v @ vectors[:, -1]) - np.sqrt(1 - 0.01 / values[-1] ** 2)) < 1e-6
    rule, K, first, _ = examples.PROBLEMS["sinkhorn"](rng)
    v = rule.plain(K, first)[-1]
    scaled = K * v / (K * v).mean(axis=1, keepdims=True)
    assert np.abs(scaled.mean(axis=0) - 1).max() < 1e-12
    assert np.abs(scaled.mean(axis=1) - 1).max() < 1e-12


def test_a_rule_stays_what_it_was() -> None:
    x, w = torch.tensor([[1.0, 2.0], [0.5, -1.0]]), torch.tensor([0.5])
    assert torch.equal(descent(x, w), descent.rule(x, w))
    assert isinstance(descent, incontext.Rule)
    assert (descent.__name__, descent.steps) == ("descent", 4)
    assert examples.kmeans.__doc__ == examples.kmeans.rule.__doc__


@pytest.mark.slow
def test_no_search_finds_a_pass_above_the_bound() -> None:
    worst = ww.search(small().net, 2.0, seed=4)
    assert 0 < worst.error <= worst.bound == small().bound


def test_passes_begin_with_the_same_examples_and_equal_copies_of_the_state() -> None:
    rows = RNG(3).uniform(-1, 1, (5, 2))
    prompt = torch.tensor(np.column_stack([rows, np.full(5, 0.25)]))
    seen = list[Tensor]()
    net = copy.deepcopy(small().net)
    net.layers[0].layers[-2].register_forward_hook(lambda _, __, X: seen.append(X))
    net(prompt)
    assert len(seen) == 4
    for X in seen:
        assert torch.equal(X[:, :2], prompt[:, :2])
        assert torch.equal(X[:, 2], X[:1, 2].expand(5))


def test_states_are_those_of_the_network_and_errors_of_one_pass() -> None:
    run, rows = small(), RNG(3).uniform(-1, 1, (5, 2))
    assert run.net.certificate is not None
    assert run.net.certificate.status == "PROVEN"
    prompt = torch.tensor(np.column_stack([rows, np.full(5, 0.25)]))
    assert torch.equal(run.net(prompt), torch.tensor(run.state).expand(5, 1))
    stepped = [descent(torch.tensor(rows), torch.tensor(state)).numpy() for state in run.states[:-1]]
    assert run.errors.tolist() == np.abs(run.states[1:] - np.stack(stepped)).max(axis=1).tolist()
    assert run.deviation.tolist() == np.abs(run.states - descent.plain(rows, [0.25])).max(axis=1).tolist()
    assert max(exact_errors(run, rows)) <= run.bound
    assert run.deviation.max() < 1e-7
    batch = torch.stack([prompt, prompt.flip(0)])
    assert passes(run.net, batch).shape == (5, 2, 5, 1)


@pytest.mark.slow
def test_every_text_says_one_pass(tmp_path: Path) -> None:
    said = small().net.certificate
    assert said is not None
    assert 'one pass of named "descent"' in repr(said)
    assert "on every state after one pass" in repr(said)
    assert "after one pass" in repr(small().net)
    path = tmp_path / "descent.safetensors"
    small().net.save(path)
    for command in (["check", str(path)], ["info", str(path)], ["check", str(path), "--search", "0.1"]):
        shown = weightwright(*command)
        assert shown.exit_code == 0, shown.output
        assert "one pass" in shown.output
    small().net.to_torch(tmp_path / "plain.py")
    assert "after one pass" in (tmp_path / "plain.py").read_text()
    draw_network(small().net, tmp_path / "drawn.svg")
    assert "error of one pass at most" in (tmp_path / "drawn.svg").read_text()
    numbers = weightwright("run", path, *["0.1", "0.2", "0.25"] * 5)
    assert numbers.exit_code == 0, numbers.output
    assert all(line.endswith(" -") for line in numbers.output.splitlines())  # no bound on all passes together


def test_an_export_keeps_the_loop(tmp_path: Path) -> None:
    """Also of a rule whose state leaves its box on random examples."""
    assert small().net.to_torch(tmp_path / "descent.py") < 1e-12
    assert doubling().to_torch(tmp_path / "doubling.py") == 0.0
    assert doubling().on_domain == "raise"


@pytest.mark.slow
def test_a_transformer_has_no_place_for_the_maps_between_passes() -> None:
    pytest.importorskip("transformer_lens")
    with pytest.raises(ww.UnsupportedOperation, match="is a Linear"):
        small().net.to_transformer_lens()


def test_a_loop_exports_to_onnx(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    assert small().net.to_onnx(tmp_path / "descent.onnx") < 1e-12


@cache
def doubling() -> ww.AttentionNetwork:
    rule = incontext.algorithm(steps=3)(lambda x, w: 2 * w + 0 * x.mean(dim=0))
    return rule.compile(([0.0], [1.0]), ([-1.0], [1.0]), samples=2)


@pytest.mark.parametrize("how", ["as it is", "a copy", "pickled"])
def test_a_state_that_leaves_its_box_is_an_error_that_names_the_pass(how: str) -> None:
    net = {"as it is": lambda n: n, "a copy": copy.deepcopy, "pickled": lambda n: pickle.loads(pickle.dumps(n))}[how](
        doubling()
    )
    at = [torch.tensor([[0.5, w], [0.5, w]], dtype=torch.float64) for w in (0.125, 0.25, 0.5, 0.75)]
    assert net(at[0])[0, 0] == 1.0
    assert net(at[1])[0, 0] == 2.0  # the last pass may end outside: none begins there
    with pytest.raises(ww.DomainError, match=r"pass 3 of 3 would begin with state\[0\] = 2, outside \[-1, 1\]"):
        net(at[2])
    with pytest.raises(ww.DomainError, match=r"pass 2 of 3 would begin with state\[0\] = 1\.5"):
        net(at[3])
    net = copy.deepcopy(net)
    net.on_domain = "ignore"
    assert net(at[3])[0, 0] == 6.0


def test_a_first_state_outside_is_refused_and_clamping_is_not_offered() -> None:
    with pytest.raises(ww.DomainError, match=r"'state\[0\]' of token 1 is 2.0.*on_domain='ignore'"):
        doubling()(torch.tensor([[0.5, 1.0], [0.5, 2.0]], dtype=torch.float64))
    with pytest.raises(ValueError, match="not 'clamp': states cannot be clamped"):
        descent.compile(((-1, -1), (1, 1)), ([-1], [1]), samples=5, on_domain="clamp")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="cannot be clamped"):
        ww.AttentionNetwork(doubling().network, doubling().certificate, on_domain="clamp")


def test_every_example_may_have_a_box_of_its_own() -> None:
    rows = np.array([[-3.0], [0.0], [5.0]])
    rule = incontext.algorithm(steps=2)(lambda x, w: 0.5 * w + (x * w).mean(dim=0) / 8)
    narrow = rule.run(rows, [1.0], examples_box=ww.Box(rows - 0.125, rows + 0.125), tol=1e-6)
    assert narrow.net.certificate.status == "PROVEN"
    assert narrow.net.certificate.domain.lo.shape == (3, 2)
    assert narrow.deviation.max() < 1e-6
    with pytest.raises(ww.DomainError, match=r"'x\[0\]' of token 1 is 1.0, outside \[-0.125, 0.125\]"):
        narrow.net(torch.tensor([[-3.0, 1.0], [1.0, 1.0], [5.0, 1.0]], dtype=torch.float64))


def test_boxes_are_compiled_once() -> None:
    rule = incontext.algorithm(steps=2)(lambda x, w: 0.5 * (w + x.mean(dim=0)))
    told = list[str]()
    for _ in range(2):
        run = rule.run([[1.0], [3.0]], [0.0], progress=told.append)
    assert told.count("tracing") == 1
    assert told.count("running") == 2
    assert run.state.tolist() == [1.5]
    rule.run([[1.0], [3.0]], [0.0], state_box=([-1.0], [4.0]), progress=told.append)
    assert told.count("tracing") == 2


#: Rules that use examples and state in unusual ways: examples, state.
UNUSUAL: dict[str, tuple[Callable[..., Any], int, int, int]] = {
    "no head at all": (lambda x, w: 0.5 * w + 1, 3, 1, 2),
    "one example": (lambda x, w: w + 0.5 * (x.mean(dim=0) - w), 1, 2, 2),
    "a single example picked": (lambda x, w: 0.5 * w + x[2], 4, 2, 2),
    "a state of one number for each example": (lambda x, w: 0.5 * w + x[:, 0], 3, 2, 3),
    "a state that stays": (lambda x, w: w, 2, 1, 2),
    "numbers that do not vary": (lambda x, w: torch.zeros(2, dtype=torch.float64), 2, 1, 2),
    "a mean of the state": (lambda x, w: (x * w).mean(dim=0) + w.mean() - w.expand(3, 2).mean(dim=0), 3, 2, 2),
    "a matrix of the state": (lambda x, w: (w.reshape(2, 2) @ w.reshape(2, 2)).flatten() / 4, 2, 1, 4),
    "a softmax behind a mean": (lambda x, w: torch.softmax(x.mean(dim=0) * w, dim=0), 3, 2, 2),
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_examples_and_state_may_be_used_in_any_way(name: str) -> None:
    function, n, e, s = UNUSUAL[name]
    rng = RNG(8)
    rows, first = rng.uniform(-1, 1, (n, e)), rng.uniform(-1, 1, s)
    graph = trace_rule(function, n, e, s, "rule")
    prompt = np.column_stack([rows, np.tile(first, (n, 1))])
    found = graph_outputs(graph, prompt)
    wanted = function(torch.tensor(rows), torch.tensor(first)).numpy()
    assert found[:, : e + s].tolist() == prompt.tolist()
    assert np.abs(found[:, e + s :] - wanted).max() <= 1e-14
    run = incontext.algorithm(steps=3)(function).run(rows, first, tol=1e-6)
    assert run.net.certificate.status == "PROVEN"
    assert name != "no head at all" or not list(run.net.network.heads)  # the state is there on every token
    assert run.errors.max() <= run.bound + 1e-14
    assert run.deviation.max() <= 1e-5


def test_only_what_the_first_token_needs_is_claimed() -> None:
    graph = trace_rule(lambda x, w: torch.tanh((x**2).mean(dim=0) * w), 3, 1, 1, "rule")
    square, tanh = (next(k for k, node in enumerate(graph.nodes) if node.op == op) for op in ("x**2", "tanh(x)"))
    read = tokens_read(graph)
    assert read[square].all()
    assert read[tanh].tolist() == [True, False, False]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"examples": [1.0, 2.0]}, r"examples must have the shape \(n, features\).*not \(2,\)"),
        ({"examples": [[1.0, np.nan]]}, r"examples must be finite, but entry \[0, 1\] is nan"),
        ({"examples": [["a"]]}, "examples must be numbers"),
        ({"first": 0.0}, r"first must have the shape \(s,\).*not \(\)"),
        ({"first": [np.inf]}, r"first must be finite, but entry \[0\] is inf"),
        ({"first": []}, r"first must have the shape \(s,\).*not \(0,\)"),
        ({"first": [0.0, 1.0, 2.0]}, r"descent fails for examples of shape \(2, 2\) and a state of shape \(3,\)"),
        ({"room": 0.0}, "room must be a finite number above 0, not 0.0"),
        ({"tol": 0.0}, "tol must be"),
        ({"state_box": ([0.0, 0.0], [1.0, 1.0])}, "have 2 and 1 numbers, the boxes 2 and 2"),
        ({"state_box": ([1.0], [0.0])}, "state_box: domain: lo must be below hi"),
    ],
)
def test_bad_runs_are_refused(arguments: dict[str, Any], complaint: str) -> None:
    given = {"examples": [[0.5, 0.5], [0.25, 0.0]], "first": [0.0]} | arguments
    with pytest.raises(ValueError, match=complaint):
        descent.run(given.pop("examples"), given.pop("first"), **given)


@pytest.mark.parametrize("steps", [0, -1, 2.0, True, "3", None])
def test_steps_are_a_whole_number(steps: Any) -> None:
    with pytest.raises(ValueError, match="steps must be a whole number of at least 1"):
        incontext.algorithm(steps=steps)


def test_bad_compilations_are_refused() -> None:
    unit = ([-1.0] * 2, [1.0] * 2)
    with pytest.raises(ValueError, match="samples must be a whole number of at least 1, not 0"):
        descent.compile(unit, ([-1.0], [1.0]), samples=0)
    with pytest.raises(ww.DomainError, match="state: domain: a pair"):
        descent.compile(unit, 3.0, samples=2)  # type: ignore[arg-type]
    with pytest.raises(ww.DomainError, match="examples: a box for 2 examples, but samples=3"):
        descent.compile(ww.Box([[-1.0] * 2] * 2, [[1.0] * 2] * 2), ([-1.0], [1.0]), samples=3)
    with pytest.raises(ww.DomainError, match="one interval for each number"):
        descent.compile(unit, ww.Box([[-1.0]], [[1.0]]), samples=3)
    with pytest.raises(ValueError, match="function of"):
        incontext.algorithm(steps=1)(lambda x: x)
    with pytest.raises(ValueError, match="function of"):
        incontext.algorithm(steps=1)(3.0)  # type: ignore[arg-type]


REFUSED: dict[str, tuple[Callable[..., Any], str]] = {
    "another shape": (lambda x, w: torch.cat([w, w]), r"returns shape \(2,\) for a state of shape \(1,\)"),
    "no tensor": (lambda x, w: [w], "returns list"),
    "a plain number": (lambda x, w: w * w.sum().item(), "item"),
    "a branch": (lambda x, w: w if w.sum() > 0 else -w, "decides by the value"),
    "chance": (lambda x, w: w + torch.rand(1), "not the same at every call"),
    "a jump": (lambda x, w: torch.sign(w), "sign"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_rules_that_no_weights_compute_are_refused(name: str) -> None:
    function, complaint = REFUSED[name]
    with pytest.raises(ww.UnsupportedOperation, match=complaint):
        incontext.algorithm(steps=2)(function).compile(([0.0], [1.0]), ([-1.0], [1.0]), samples=2)


def test_a_plain_run_that_breaks_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"must return the new state, of shape \(1,\), not \(2,\)"):
        incontext.algorithm(steps=2)(lambda x, w: torch.cat([w, w])).run([[1.0]], [0.0])
    with pytest.raises(ValueError, match=r"step 1 makes \[inf\] of the state \[0.0\]"):
        incontext.algorithm(steps=2)(lambda x, w: 1 / w).run([[1.0]], [0.0])


@pytest.mark.slow
def test_the_examples_of_the_page_run() -> None:
    examples = re.findall(r"```pycon\n(.*?)```", PAGE, re.DOTALL)
    test = doctest.DocTestParser().get_doctest("".join(examples), {}, "docs/algorithms.md", None, None)
    assert len(test.examples) > 10
    said: list[str] = []
    assert doctest.DocTestRunner().run(test, out=said.append).failed == 0, "".join(said)


def test_the_page_has_all_five_and_its_picture() -> None:
    assert all(f"\n| {name} | " in PAGE for name in examples.PROBLEMS)
    (image,) = re.findall(r"!\[[^]]*\]\(([^)]+)\)", PAGE)
    assert (ROOT / "docs" / image).is_file()
