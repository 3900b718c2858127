"""Hopfield memories: retrieval as the formula has it, as a network and as torch's attention; the bound; refusals."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from flint import arb, ctx
from support.running import reference_outputs
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

import weightwright as ww
from weightwright.memory import recall
from weightwright.memory.capacity import Capacity, Updates, capacity, updates
from weightwright.report import memory_plots
from weightwright.report.memory_plots import plot_capacity, plot_updates

CASES = ("patterns", "values", "longer values", "one pattern", "float32", "many")


def normal(seed: int, *shape: int) -> Tensor:
    return torch.tensor(np.random.default_rng(seed).normal(size=shape))


def made(case: str) -> tuple[ww.memory.Hopfield, Tensor]:
    """A memory and queries near its patterns and far from them."""
    count = {"one pattern": 1, "many": 700}.get(case, 60)
    patterns, queries = 2 * normal(1, count, 6), normal(2, 3, 5, 6)
    queries[0] += patterns[:1]
    if case == "float32":
        return ww.memory.Hopfield(6, 0.75, torch.float32).store(patterns.float()), queries.float()
    memory = ww.memory.Hopfield(6, 0.75)
    if case in ("values", "longer values"):
        return memory.store(patterns, normal(3, count, 2 if case == "values" else 9)), queries
    return memory.store(patterns), queries


def formula(memory: ww.memory.Hopfield, query: Tensor, steps: int) -> np.ndarray:
    """softmax(beta q K^T) V in numpy, written out."""
    K, V, xi = (part.double().numpy() for part in (memory.patterns, memory.values, query))
    for step in range(steps):
        scores = memory.beta * xi @ K.T
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        xi = weights / weights.sum(axis=-1, keepdims=True) @ (V if step == steps - 1 else K)
    return xi


# what is retrieved


@pytest.mark.parametrize("steps", [1, 2, 5])
@pytest.mark.parametrize("case", CASES)
def test_retrieval_is_the_formula(case: str, steps: int) -> None:
    memory, queries = made(case)
    found = memory.retrieve(queries, steps)
    assert found.shape == (3, 5, memory.values.shape[1])
    assert found.dtype == memory.dtype
    tolerance = 1e-12 if memory.dtype == torch.float64 else 1e-4
    np.testing.assert_allclose(found.double().numpy(), formula(memory, queries, steps), rtol=0, atol=tolerance)
    single = memory.retrieve(queries[1, 2], steps)  # one query without a batch
    np.testing.assert_allclose(single.numpy(), found[1, 2].numpy(), rtol=0, atol=tolerance)


@pytest.mark.parametrize("steps", [1, 2, 5])
@pytest.mark.parametrize("case", CASES)
def test_the_network_retrieves_the_same(case: str, steps: int) -> None:
    memory, queries = made(case)
    net = memory.network(steps)
    tolerance = 1e-12 if memory.dtype == torch.float64 else 1e-4
    expected = memory.retrieve(queries, steps)
    np.testing.assert_allclose(net(queries).numpy(), expected.numpy(), rtol=0, atol=tolerance)
    np.testing.assert_allclose(reference_outputs(net, queries[0]), expected[0].numpy(), atol=tolerance)
    loops = [layer for layer in net.network.layers if type(layer).__name__ == "Loop"]
    assert [loop.times for loop in loops] == ([] if steps == 1 else [steps - 1])
    assert net.network.native == (steps == 1)
    assert net.certificate is None


@pytest.mark.parametrize("case", [case for case in CASES if case != "float32"])
def test_torch_attention_retrieves_the_same(case: str) -> None:
    """As nn.MultiheadAttention, and as one call of the function below it."""
    memory, queries = made(case)
    expected = memory.retrieve(queries)
    attention = memory.to_torch_attention()
    assert isinstance(attention.attention, torch.nn.MultiheadAttention)
    torch.testing.assert_close(attention(queries), expected, rtol=0, atol=1e-12)
    K, V = (part.expand(3, *part.shape) for part in (memory.patterns, memory.values))
    call = scaled_dot_product_attention(queries, K, V, scale=memory.beta)
    torch.testing.assert_close(call, expected, rtol=0, atol=1e-12)


def test_storing_again_adds() -> None:
    patterns, values, query = normal(1, 10, 4), normal(2, 10, 3), normal(3, 7, 4)
    once = ww.memory.Hopfield(4, 2.0).store(patterns, values)
    twice = ww.memory.Hopfield(4, 2.0).store(patterns[:4], values[:4]).store(patterns[4:], values[4:])
    assert len(twice) == 10
    assert torch.equal(once.retrieve(query), twice.retrieve(query))
    patterns.zero_()  # the memory has numbers of its own
    assert torch.equal(once.retrieve(query), twice.retrieve(query))


def test_no_update_raises_the_energy() -> None:
    memory, queries = made("patterns")
    energies = [memory.energy(queries)]
    for steps in range(1, 6):
        energies.append(memory.energy(memory.retrieve(queries, steps)))
        assert (energies[-1] <= energies[-2] + 1e-12).all()
        assert (energies[-1] >= 0).all()
    assert (energies[1] < energies[0] - 0.1).any()
    xi = queries.clone().requires_grad_()
    (slope,) = torch.autograd.grad(memory.energy(xi).sum(), xi)  # an update is the step -grad E
    torch.testing.assert_close(queries - slope, memory.retrieve(queries), rtol=0, atol=1e-12)


def test_separation() -> None:
    patterns = normal(5, 8, 3).numpy()
    expected = min(
        patterns[i] @ patterns[i] - max(patterns[i] @ patterns[j] for j in range(8) if j != i) for i in range(8)
    )
    assert math.isclose(ww.memory.Hopfield(3).store(patterns).separation(), expected, rel_tol=1e-12)
    assert ww.memory.Hopfield(3).store(patterns[:1]).separation() == math.inf


# exports


def test_a_plain_transformer_retrieves_the_same(tmp_path: Path) -> None:
    memory, queries = made("values")
    assert memory.network().to_transformer_lens(tokens=8).difference < 1e-12
    for steps in (1, 3):
        net = memory.network(steps)
        path = tmp_path / f"{steps}.onnx"
        assert net.to_onnx(path) < 1e-12
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        (found,) = session.run(None, {session.get_inputs()[0].name: queries.numpy()})
        np.testing.assert_allclose(found, memory.retrieve(queries, steps).numpy(), rtol=0, atol=1e-12)


def test_the_network_survives_a_file(tmp_path: Path) -> None:
    memory, queries = made("values")
    net = memory.network(3)
    net.save(tmp_path / "memory.safetensors")
    assert torch.equal(ww.load(tmp_path / "memory.safetensors")(queries), net(queries))


# the bound


def distance(found: Tensor, value: Tensor) -> float:
    """The Euclidean distance, rounded down."""
    with ctx.workprec(128):
        squares = ((arb(a) - arb(b)) ** 2 for a, b in zip(found.tolist(), value.tolist(), strict=True))
        return float(np.nextafter(float(sum(squares, arb(0)).sqrt().lower()), -math.inf))


def queries_around(memory: ww.memory.Hopfield, i: int, radius: float) -> Tensor:
    """At most `radius` from pattern i: towards every other pattern, and anywhere."""
    x = memory.patterns[i].double()
    ways = torch.cat([memory.patterns.double() - x, normal(7, 40, memory.dim)])
    lengths = ways.norm(dim=1, keepdim=True)
    ways = torch.where(lengths > 0, ways / lengths, 0.0)
    return (x + 0.999999 * radius * ways).to(memory.dtype)


@pytest.mark.parametrize("radius", [0.0, 0.3, 1.0, 4.0])
@pytest.mark.parametrize("beta", [0.05, 0.5, 3.0, 40.0])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_no_query_is_off_by_more_than_the_bound(beta: float, radius: float, dtype: torch.dtype) -> None:
    for case in ("patterns", "values"):
        memory = ww.memory.Hopfield(5, beta, dtype)
        patterns, values = (2 * normal(11, 12, 5)).to(dtype), normal(12, 12, 3).to(dtype)
        memory.store(patterns, None if case == "patterns" else values)
        for i in (0, 5):
            for steps in (1, 2):
                bound = memory.recall_bound(radius, steps, pattern=i)
                found = memory.retrieve(queries_around(memory, i, radius), steps)
                assert max(distance(row, memory.values[i]) for row in found) <= bound.bound
                run = memory.network(steps)(queries_around(memory, i, radius))
                assert max(distance(row, memory.values[i]) for row in run) <= bound.bound


def test_the_bound_is_attained_by_two_patterns() -> None:
    memory = ww.memory.Hopfield(3, 1.5).store(normal(21, 2, 3))
    for radius in (0.0, 0.5):
        worst = memory.recall_bound(radius)
        found = memory.retrieve(queries_around(memory, worst.pattern, radius))
        largest = max(distance(row, memory.patterns[worst.pattern]) for row in found)
        assert 0.999 * worst.bound < largest <= worst.bound


def test_scores_that_round_are_covered() -> None:
    """Patterns far from 0 that differ across their direction: scores of 4e5 that are about 1 apart, and off by up to
    1/32 in float32. The bound in exact arithmetic alone is exceeded."""
    exceeded, far = 0, torch.tensor([[300.0, -200.0, 500.0]], dtype=torch.float64)
    for seed in range(80):
        across = torch.linalg.cross(far.expand(2, 3), normal(seed, 2, 3)) / 600
        memory = ww.memory.Hopfield(3, 1.0, torch.float32).store((far + across).float())
        bound = memory.recall_bound(pattern=0)
        found = distance(memory.retrieve(memory.patterns[0]), memory.patterns[0])
        assert found <= bound.bound
        exceeded += found > bound.softmax + 1e-3
    assert exceeded > 3


def test_the_worst_pattern_is_named() -> None:
    memory, _ = made("patterns")
    worst = memory.recall_bound(0.25)
    all_of_them = [memory.recall_bound(0.25, pattern=i).bound for i in range(len(memory))]
    assert worst.bound == max(all_of_them) == all_of_them[worst.pattern]
    assert worst.bound >= worst.softmax
    assert "softmax" in repr(worst)


def test_well_separated_patterns_are_retrieved_to_rounding() -> None:
    """A second step brings a query from far away as near as one from the pattern itself."""
    memory = ww.memory.Hopfield(16, 1.0).store(8 * torch.eye(16, dtype=torch.float64))
    assert memory.separation() == 64
    exact = 15 * math.exp(-64) * 8 * math.sqrt(2)
    assert exact / 1.001 < memory.recall_bound().softmax < exact * 1.001
    far, again = memory.recall_bound(4.0), memory.recall_bound(4.0, steps=2)
    assert far.softmax > 1e-10
    assert again.softmax < 1e-25
    assert again.rounding < 1e-13


def test_one_pattern_is_off_by_rounding_only() -> None:
    found = ww.memory.Hopfield(4).store(normal(1, 1, 4)).recall_bound(3.0)
    assert found.softmax < 1e-300
    assert found.bound < 1e-13


def test_equal_patterns_are_not_told_apart() -> None:
    memory = ww.memory.Hopfield(2, 9.0).store([[1, 0], [1, 0]], [[0.0], [1.0]])
    assert memory.separation() == 0
    assert 0.5 <= memory.recall_bound().bound < 0.5001
    assert memory.retrieve([1.0, 0.0]).tolist() == [0.5]


def test_a_candidate_that_is_too_small_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """The inequality is checked: where it fails, the largest distance stands."""
    memory = ww.memory.Hopfield(3, 1.5).store(normal(21, 4, 3))
    good = memory.recall_bound(pattern=0).softmax
    monkeypatch.setattr(recall, "_best_of_prefixes", lambda q, d: arb(good) / 2)
    largest = float((memory.patterns - memory.patterns[0]).norm(dim=1).max())
    assert math.isclose(memory.recall_bound(pattern=0).softmax, largest, rel_tol=1e-12)


# refusals


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dim": 0}, "dim must be a whole number of at least 1, not 0"),
        ({"dim": 2.0}, "dim must be a whole number of at least 1, not 2.0"),
        ({"dim": 3, "beta": 0.0}, "beta must be a positive finite number of torch.float64, not 0.0"),
        ({"dim": 3, "beta": -1}, "beta must be a positive finite number of torch.float64, not -1"),
        ({"dim": 3, "beta": math.nan}, "beta must be a positive finite number of torch.float64, not nan"),
        ({"dim": 3, "beta": 1e60, "dtype": torch.float32}, "number of torch.float32, not 1e+60"),
        ({"dim": 3, "dtype": torch.bfloat16}, "dtype must be torch.float64 or torch.float32, not torch.bfloat16"),
    ],
)
def test_a_memory_that_cannot_be(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match="must be") as error:
        ww.memory.Hopfield(**arguments)  # type: ignore[arg-type]
    assert message in str(error.value)


def refused(kind: type[Exception], message: str, call: object) -> None:
    with pytest.raises(kind) as error:
        call()  # type: ignore[operator]
    assert message in str(error.value)


def test_patterns_and_values_that_do_not_fit() -> None:
    memory, nan = ww.memory.Hopfield(3).store(np.eye(3)), [[1.0, math.nan, 0.0]]
    refused(
        ValueError, "patterns must have shape (N, 3) with N at least 1, not (2, 2)", lambda: memory.store(np.eye(2))
    )
    refused(ValueError, "not (0, 3)", lambda: memory.store(np.zeros((0, 3))))
    refused(ValueError, "patterns must be finite, but entry (0, 1) is nan", lambda: memory.store(nan))
    refused(TypeError, "patterns must be a tensor, an array or nested lists", lambda: memory.store("abc"))
    refused(ValueError, "values: patterns were stored without values", lambda: memory.store(np.eye(3), np.eye(3)))
    with_values = ww.memory.Hopfield(3).store(np.eye(3), np.eye(3, 2))
    refused(ValueError, "patterns were stored with values", lambda: with_values.store(np.eye(3)))
    refused(ValueError, "values have 1 numbers each, those", lambda: with_values.store(np.eye(3), np.ones((3, 1))))
    refused(ValueError, "values must have shape (3, any size)", lambda: with_values.store(np.eye(3), np.eye(2)))
    assert len(memory) == len(with_values) == 3  # nothing was stored by halves
    narrow = ww.memory.Hopfield(3, dtype=torch.float32)
    refused(TypeError, "torch.float64, which torch.float32 does not hold", lambda: narrow.store(np.eye(3)))


def test_queries_that_do_not_fit() -> None:
    memory = ww.memory.Hopfield(3).store(np.eye(3))
    refused(ValueError, "query must have shape (..., 3), not (2,)", lambda: memory.retrieve([1.0, 2.0]))
    refused(ValueError, "query must be finite, but entry (1,) is inf", lambda: memory.retrieve([1.0, math.inf, 0.0]))
    refused(ValueError, "steps must be a whole number of at least 1, not 0", lambda: memory.retrieve([0, 0, 1], 0))
    refused(ValueError, "steps must be a whole number of at least 1, not True", lambda: memory.network(True))
    refused(ValueError, "radius must be a finite number of at least 0, not -1", lambda: memory.recall_bound(-1))
    refused(ValueError, "one of 3 patterns, not 3", lambda: memory.recall_bound(pattern=3))
    attention, flat = memory.to_torch_attention(), torch.zeros(3, dtype=torch.float64)
    refused(ValueError, "query must have shape (..., n, 3), not (3,)", lambda: attention(flat))


@pytest.mark.parametrize("ask", ["retrieve", "energy", "separation", "recall_bound", "network", "to_torch_attention"])
def test_nothing_is_stored(ask: str) -> None:
    arguments = [[0.0, 0.0]] if ask in ("retrieve", "energy") else []
    with pytest.raises(ww.WeightwrightError, match=f"{ask}: nothing is stored yet; call store"):
        getattr(ww.memory.Hopfield(2), ask)(*arguments)


# how many patterns, how many updates


def test_capacity_grows_with_the_dimension() -> None:
    counts = (2, 8, 32, 128, 512, 2048)
    curves = [capacity(dim, counts, queries=64) for dim in (4, 8, 12)]
    halves = [curve.half for curve in curves]
    assert all(half is not None for half in halves)
    ratios = [later / earlier for earlier, later in itertools.pairwise(h for h in halves if h is not None)]
    assert min(ratios) > 4  # for four dimensions more
    assert curves[2].fractions[0] == 1.0
    assert curves[0].fractions[-1] == 0.0
    assert Capacity(4, (2, 8), (1.0, 0.0)).half == pytest.approx(4.0)
    assert Capacity(4, (2, 8), (1.0, 0.6)).half is None
    assert capacity(4, (4, 8), queries=16) == capacity(4, (4, 8), queries=16)  # the seed is all there is


def test_updates_come_nearer_and_stay_below_their_bounds() -> None:
    found = updates(16, 50, (0.0, 0.2, 0.3), (1, 2), queries=32)
    for steps in (1, 2):
        assert (found.errors[steps] <= found.bounds[steps]).all()
    assert (found.errors[2][1:] < found.errors[1][1:] / 2).all()
    shown = Updates(2, 2, np.array([0.1, 0.2]), {1: np.array([1e-7, 1.0]), 2: np.array([1e-7, 1.0])}, {})
    assert shown.needed() == [1, None]
    assert shown.needed(2.0) == [1, 1]


def test_pictures_are_drawn(tmp_path: Path) -> None:
    curves = [Capacity(4, (2, 8), (1.0, 0.0)), Capacity(8, (2, 8), (1.0, 0.25)), Capacity(9, (2, 8), (1.0, 0.9))]
    plot_capacity(curves, "c", tmp_path / "c.png")
    figure = memory_plots._capacity(curves, "c")
    left, right = figure.axes
    assert [text.get_text() for text in left.get_legend().get_texts()] == ["dim 4", "dim 8", "dim 9"]
    points = right.get_lines()[0]
    assert points.get_xdata().tolist() == [4, 8]  # the third never falls to a half
    found = updates(4, 5, (0.0, 0.2), (1, 2), queries=4)
    plot_updates(found, "u", tmp_path / "u.png")
    (axes,) = memory_plots._updates(found, "u").axes
    labels = [line.get_label() for line in axes.get_lines()]
    assert labels[:4] == ["1 step, largest found", "1 step, bound", "2 steps, largest found", "2 steps, bound"]
    assert np.array_equal(axes.get_lines()[1].get_ydata(), found.bounds[1])
    assert {path.name for path in tmp_path.iterdir()} == {"c.png", "u.png"}
    with pytest.raises(ValueError, match="curves must have at least one capacity"):
        plot_capacity([], "c", tmp_path / "d.png")
