"""Lookup with a margin (UA-1), mixing by any matrix (UA-9), copying (UA-10)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from flint import arb, ctx
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.running import reference_outputs

import weightwright as ww
from weightwright.heads.copy import copy
from weightwright.heads.lookup import beta_for, lookup, margin, softmax_error
from weightwright.heads.mix import mix

many = settings(deadline=None, max_examples=50)
cases, norms = st.sampled_from(["unique", "two"]), st.sampled_from(["inf", "1"])
seeds = st.integers(0, 10**6)


@pytest.fixture(autouse=True)
def _high_precision():
    """Arb numbers of 400 bits: what is compared with a bound is far more exact than the bound."""
    with ctx.workprec(400):
        yield


def run(network: Any, X: np.ndarray) -> np.ndarray:
    return ww.AttentionNetwork(network)(torch.from_numpy(np.asarray(X, dtype=np.float64))).numpy()


def plain_transformer(network: Any, X: np.ndarray) -> np.ndarray:
    """Residual attention where every token sees every token: registers first, then data."""
    Z = np.concatenate([network.registers, X @ network.embed.terms[0].A + network.embed.C])
    for layer in network.layers:
        total = Z
        for head in layer.heads:
            scores = (head.beta * (Z @ head.W_Q)) @ (Z @ head.W_K).T
            weights = np.exp(scores - scores.max(axis=1, keepdims=True))
            total = total + weights / weights.sum(axis=1, keepdims=True) @ (Z @ head.W_V) @ head.W_O
        Z = total
    return Z[len(network.registers) :] @ network.read.terms[0].A + network.read.C


# --- UA-1: softmax and hardmax ------------------------------------------------------------------------------------


def softmax(scores: list[arb]) -> list[arb]:
    weights = [(score - scores[0]).exp() for score in scores]
    total = sum(weights, arb(0))
    return [weight / total for weight in weights]


def distance_to_hardmax(beta: float, x: list[float], kept: int, norm: str) -> arb:
    """The true distance for x in falling order, as a ball."""
    with ctx.workprec(400 + int(3 * beta * (x[0] - x[-1]))):  # 1 - weight keeps its leading digits
        scores = [arb(beta) * arb(entry) for entry in x]
        target = softmax(scores[:kept]) + [arb(0)] * (len(x) - kept)
        moved = [abs(weight - wanted) for weight, wanted in zip(softmax(scores), target, strict=True)]
        return sum(moved, arb(0)) if norm == "1" else max(moved, key=lambda ball: ball.mid())


@many
@given(
    beta=st.floats(0, 200),
    gap=st.integers(1, 4096),  # all in units of 1/1024, so that differences are exact
    second=st.integers(0, 4096),
    below=st.lists(st.integers(0, 4096), min_size=1, max_size=30),
    case=cases,
    norm=norms,
)
@example(beta=3.0, gap=1024, second=0, below=[0] * 20, case="unique", norm="inf")  # the bound is attained
@example(beta=3.0, gap=1024, second=0, below=[0] * 20, case="unique", norm="1")
@example(beta=3.0, gap=1024, second=1024, below=[0] * 20, case="two", norm="1")
@example(beta=3.0, gap=1024, second=1024, below=[0] * 20, case="two", norm="inf")
@example(beta=3.0, gap=1024, second=0, below=[0] * 20, case="two", norm="1")  # the top two tie
@example(beta=1e4, gap=4096, second=0, below=[0, 0], case="unique", norm="inf")  # saturated
def test_softmax_error_bounds_the_true_distance(beta, gap, second, below, case, norm):
    top = [0] if case == "unique" else [0, min(second, gap)]
    x = [-units / 1024 for units in top + [gap + more for more in sorted(below)]]
    bound = softmax_error(beta, gap / 1024, len(x), case, norm)
    assert distance_to_hardmax(beta, x, len(top), norm) <= arb(bound)


@pytest.mark.parametrize(("case", "norm"), [("unique", "inf"), ("unique", "1"), ("two", "1")])
def test_softmax_error_is_attained(case, norm):
    x, kept = [0.0] + [-0.5] * 40, 1 if case == "unique" else 2
    bound = softmax_error(7.0, 0.5, len(x), case, norm)
    assert distance_to_hardmax(7.0, x, kept, norm) >= arb(bound) * (1 - arb(2) ** -46)


@pytest.mark.parametrize(("x", "kept"), [([1.0, 0.0, 0.0, 0.0], 1), ([1.0, 1.0, 0.0, 0.0], 2)])
def test_infinity_norm_times_largest_value_is_no_bound_on_the_output(x, kept):
    """Errata UA-2, (G.13) and (G.14): values -1 where softmax should look, +1 elsewhere."""
    beta, values = 4.0, [-1.0] * kept + [1.0] * (len(x) - kept)
    scores = [arb(beta) * arb(entry) for entry in x]
    output = sum((weight * arb(value) for weight, value in zip(softmax(scores), values, strict=True)), arb(0))
    error = abs(output - arb(-1))  # hardmax gives -1
    case = "unique" if kept == 1 else "two"
    assert error > distance_to_hardmax(beta, x, kept, "inf")  # times max |v| = 1: not even the true distance
    assert error > arb(softmax_error(beta, 1.0, len(x), case, "inf"))
    assert error <= arb(softmax_error(beta, 1.0, len(x), case, "1"))


@many
@given(error=st.floats(1e-270, 3.0), gap=st.floats(1e-9, 1e9), n=st.integers(2, 10**9), case=cases, norm=norms)
@example(error=0.5, gap=1.0, n=2, case="unique", norm="inf")  # beta = 0 would be just enough, but for rounding
@example(error=1e-3, gap=1.0, n=2, case="two", norm="inf")  # no other key
@example(error=0.999999, gap=3.0, n=10**9, case="unique", norm="inf")
def test_beta_for_reaches_the_error_and_is_hardly_too_large(error, gap, n, case, norm):
    beta = beta_for(error, gap, n, case, norm)
    assert softmax_error(beta, gap, n, case, norm) <= error
    less = beta * (1 - 1e-12) - 1e-12 / gap
    assert less <= 0 or softmax_error(less, gap, n, case, norm) > error * (1 - 1e-10)
    m = n - (1 if case == "unique" else 2)
    if m:  # Lemma F.1's beta is never smaller
        assert less <= max((math.log(m) - math.log(error / (2 if norm == "1" else 1))) / gap, 0)


@pytest.mark.parametrize("n", [2, 3, 10**9])
def test_beta_for_at_the_end_of_float64(n):
    least = n * 2.0**-1000
    assert softmax_error(beta_for(least, 1.0, n), 1.0, n) <= least
    assert softmax_error(1e300, 1e300, n) <= least  # beta gap overflows


def test_no_error_without_other_keys():
    assert softmax_error(0.0, 1.0, 1) == 0.0
    assert softmax_error(0.0, 1.0, 2, "two", "1") == 0.0


# --- lookup -------------------------------------------------------------------------------------------------------


def unit_keys(rng: np.random.Generator, p: int, h: int) -> np.ndarray:
    keys = rng.normal(size=(p, h))
    return keys / np.linalg.norm(keys, axis=1, keepdims=True)


def exact_lookup(network: Any, queries: np.ndarray) -> list[list[arb]]:
    """The head's output for every query, its stored weights taken as they are, in 400-bit arithmetic."""

    def product(row, W):
        return [dot(map(arb, map(float, row)), map(arb, map(float, column))) for column in W.T]

    (head,) = network.heads
    keys = [product(register, head.W_K) for register in network.registers]
    values = [product(register, head.W_V) for register in network.registers]
    outputs = []
    for token in queries @ network.embed.terms[0].A + network.embed.C:
        query = product(token, head.W_Q)
        weights = softmax([arb(head.beta) * dot(query, key) for key in keys])
        outputs.append([dot(weights, column) for column in zip(*values, strict=True)])
    return outputs


def dot(a, b) -> arb:
    return sum((x * y for x, y in zip(a, b, strict=True)), arb(0))


@many
@given(seed=seeds, p=st.integers(1, 6), h=st.integers(2, 4), v=st.integers(1, 3), error=st.floats(1e-30, 10.0))
def test_lookup_is_within_the_error_in_exact_arithmetic(seed, p, h, v, error):
    rng = np.random.default_rng(seed)
    keys, values = unit_keys(rng, p, h) * 3, rng.normal(size=(p, v)) * 10
    for got, wanted in zip(exact_lookup(lookup(keys, values, error), keys), values, strict=True):
        for output, value in zip(got, wanted, strict=True):
            assert abs(output - arb(float(value))) <= arb(error)


@pytest.mark.parametrize("error", [0.5, 1e-3, 1e-12])
def test_lookup_uses_the_whole_error_in_the_worst_case(error):
    """Orthogonal keys, one value at one end of the spread and all others at the other."""
    network = lookup(np.eye(8), [[1.0]] + [[-1.0]] * 7, error)
    miss = abs(exact_lookup(network, np.eye(8)[:1])[0][0] - 1)
    assert miss <= arb(error)
    assert miss >= arb(error) * (1 - arb(2) ** -40)


@many
@given(seed=seeds, p=st.integers(1, 8))
def test_lookup_in_float64_adds_rounding_only(seed, p):
    rng = np.random.default_rng(seed)
    keys, values = unit_keys(rng, p, 8), rng.uniform(-5, 5, size=(p, 2))
    network = lookup(keys, values, error=1e-6)
    exact = np.array([[float(output.mid()) for output in row] for row in exact_lookup(network, keys)])
    assert np.abs(run(network, keys) - exact).max() <= 1e-14
    assert np.abs(reference_outputs(network, keys) - exact).max() <= 1e-14


def test_lookup_in_a_large_table():
    """Far from the worst case, where most keys lie further off than the margin."""
    rng = np.random.default_rng(11)
    keys, values = unit_keys(rng, 1000, 16), rng.uniform(-5, 5, size=(1000, 3))
    assert np.abs(run(lookup(keys, values, error=1e-6), keys) - values).max() <= 1e-6


def test_margin_is_the_least_gap_rounded_down():
    keys = np.array([[3.0, 0.0], [1.0, 1.0], [0.0, 2.0], [-0.5, -0.25]])
    gram = keys @ keys.T  # exact here
    true = min(gram[i, i] - max(gram[i, j] for j in range(4) if j != i) for i in range(4))
    assert true == -1.0  # the second key scores the first highest
    assert true - 1e-14 <= margin(keys) <= true
    assert margin(keys[:1]) == math.inf


@pytest.mark.parametrize(
    ("keys", "pair"),
    [
        ([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]], "keys 1 and 2"),  # equal
        ([[0.0, 4.0], [3.0, 0.0], [1.0, 0.0]], "keys 2 and 1"),  # overshadowed by a longer one
        ([[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]], "keys 2 and 0"),  # zero scores nothing
    ],
)
def test_lookup_names_the_keys_that_collide(keys, pair):
    with pytest.raises(ValueError, match=f"{pair} collide"):
        lookup(keys, np.zeros((3, 1)), error=0.1)


def test_lookup_is_native_and_named():
    network = lookup(np.eye(3), np.arange(6.0).reshape(3, 2), error=1e-3, role="find")
    assert network.obstacles == ()
    assert network.inputs == ("x[0]", "x[1]", "x[2]")
    assert network.outputs == ("value[0]", "value[1]")
    assert network.one_token_at_a_time
    (head,) = network.heads
    assert (head.role, head.sees.registers, head.sees.data) == ("find", (0, 3), "none")


@many
@given(seed=seeds, p=st.integers(2, 10), n=st.integers(1, 6))
def test_lookup_as_a_plain_transformer(seed, p, n):
    """Data tokens are hidden from each other, for every query no longer than the longest key."""
    rng = np.random.default_rng(seed)
    keys = unit_keys(rng, p, 3) * 4
    network = lookup(keys, rng.normal(size=(p, 2)), error=1e-9)
    queries = np.concatenate([keys[rng.integers(p, size=n)], unit_keys(rng, n, 3) * rng.uniform(0, 4)])
    assert np.abs(plain_transformer(network, queries) - run(network, queries)).max() <= 1e-12


def test_lookup_hides_data_tokens_below_very_low_scores():
    network = lookup([[4.0, 0.1], [4.0, -0.1]], [[5.0], [7.0]], error=1e-9)
    query = np.array([[-4.0, 0.05]])  # every key scores near -16 beta
    assert 16 * next(network.heads).beta > 10_000
    assert np.abs(plain_transformer(network, query) - run(network, query)).max() <= 1e-12


# --- mix ----------------------------------------------------------------------------------------------------------


def assert_mixes(R: np.ndarray, A: np.ndarray, X: np.ndarray) -> None:
    network = mix(R, A)
    assert network.native
    assert network.tokens == len(R)
    scale = max(np.abs(R).sum(axis=1).max() * (np.abs(X) @ np.abs(A)).max(), 5e-324)
    for result in (run(network, X), reference_outputs(network, X), plain_transformer(network, X)):
        assert result.shape == (len(R), A.shape[1])
        assert np.abs(result - R @ X @ A).max() <= 1e-12 * scale


@many
@given(seed=seeds, n=st.integers(1, 12), d_in=st.integers(1, 4), d_out=st.integers(1, 4), size=st.integers(-150, 150))
def test_mix_is_exact_up_to_rounding(seed, n, d_in, d_out, size):
    rng = np.random.default_rng(seed)
    R = rng.normal(size=(n, n)) * 10.0**size
    assert_mixes(R, rng.normal(size=(d_in, d_out)), rng.normal(size=(n, d_in)))
    assert_mixes(R * (rng.uniform(size=(n, n)) < 0.3), rng.normal(size=(d_in, d_out)), rng.normal(size=(n, d_in)))


@pytest.mark.parametrize(
    "R",
    [
        np.array([[-2.5]]),
        np.array([[0.0]]),
        np.zeros((4, 4)),
        np.eye(5),
        -np.eye(5)[::-1],
        np.ones((6, 6)),
        np.diag([1e-30, 1.0, -1e30]),
        np.eye(200, k=1) - np.eye(200, k=-1),
    ],
    ids=["n = 1", "n = 1, zero", "zero", "identity", "minus reversal", "sum", "three sizes", "difference"],
)
def test_mix_special_matrices(R):
    rng = np.random.default_rng(7)
    assert_mixes(R, rng.normal(size=(3, 2)), rng.normal(size=(len(R), 3)))


def test_mix_by_zero_is_exactly_zero():
    X = np.random.default_rng(3).normal(size=(4, 2))
    assert not run(mix(np.zeros((4, 4)), np.ones((2, 2))), X).any()


def test_mix_runs_in_batches():
    rng = np.random.default_rng(5)
    R, A, X = rng.normal(size=(4, 4)), rng.normal(size=(2, 3)), rng.normal(size=(5, 6, 4, 2))
    assert np.abs(run(mix(R, A), X) - R @ X @ A).max() <= 1e-12


# --- copy ---------------------------------------------------------------------------------------------------------


@many
@given(seed=seeds, source=st.lists(st.integers(0, 30), min_size=1, max_size=12), d=st.integers(1, 4))
def test_copy_is_bit_exact(seed, source, d):
    n = len(source)
    source = [j % n for j in source]
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-300, 300, size=(n, d))
    network = copy(source, d)
    assert network.native
    assert np.array_equal(run(network, X), X[source])
    assert np.array_equal(reference_outputs(network, X), X[source])
    assert np.array_equal(plain_transformer(network, X), X[source])


# --- bad arguments ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: softmax_error(-1.0, 1.0, 3), r"beta must be .* not -1\.0"),
        (lambda: softmax_error(math.inf, 1.0, 3), r"beta must be .* not inf"),
        (lambda: softmax_error(1.0, 0.0, 3), r"gap must be .* not 0\.0"),
        (lambda: softmax_error(1.0, math.nan, 3), r"gap must be .* not nan"),
        (lambda: softmax_error(1.0, 1.0, 0), r"n must be .* not 0"),
        (lambda: softmax_error(1.0, 1.0, 1, "two"), r"n must be .* >= 2 .* not 1"),
        (lambda: softmax_error(1.0, 1.0, 2.5), r"n must be .* not 2\.5"),
        (lambda: softmax_error(1.0, 1.0, 3, "three"), r"case must be .* not 'three'"),
        (lambda: softmax_error(1.0, 1.0, 3, "two", "2"), r"norm must be .* not '2'"),
        (lambda: beta_for(0.0, 1.0, 3), r"error must be .* not 0\.0"),
        (lambda: beta_for(math.nan, 1.0, 3), r"error must be .* not nan"),
        (lambda: beta_for(1e-320, 1.0, 3), r"error must be at least .* not 1e-320"),
        (lambda: beta_for(0.1, -2.0, 3), r"gap must be .* not -2\.0"),
        (lambda: beta_for(0.1, 1e-320, 3), r"gap = 1e-320 is too small"),
        (lambda: beta_for(0.1, 1.0, 3, "one"), r"case must be .* not 'one'"),
        (lambda: beta_for(0.1, 1.0, 3, norm="l1"), r"norm must be .* not 'l1'"),
        (lambda: margin([1.0, 2.0]), r"keys must be a matrix .* \(2,\)"),
        (lambda: margin([[1.0], [math.inf]]), r"keys\[1, 0\] must be finite, not .*inf"),
        (lambda: margin([[1e200], [1.0]]), r"keys has an entry of size 1e\+200"),
        (lambda: lookup(np.zeros((0, 2)), np.zeros((0, 1)), 0.1), r"keys must be a matrix .* \(0, 2\)"),
        (lambda: lookup(np.eye(2), [1.0, 2.0], 0.1), r"values must be a matrix .* \(2,\)"),
        (lambda: lookup(np.eye(2), [[1.0], [math.nan]], 0.1), r"values\[1, 0\] must be finite, not .*nan"),
        (lambda: lookup(np.eye(2), np.zeros((3, 1)), 0.1), r"values has 3 rows, but there are 2 keys"),
        (lambda: lookup(np.eye(2), [[-1e308], [1e308]], 0.1), r"values lie so far apart"),
        (lambda: lookup(np.eye(2), np.eye(2), 0.0), r"error must be .* not 0\.0"),
        (lambda: mix(np.ones((2, 3)), np.eye(2)), r"R must be square, not of shape \(2, 3\)"),
        (lambda: mix([[math.nan]], np.eye(2)), r"R\[0, 0\] must be finite, not .*nan"),
        (lambda: mix(np.eye(2), [1.0, 2.0]), r"A must be a matrix .* \(2,\)"),
        (lambda: copy([], 1), r"source must name a token .* not \[\]"),
        (lambda: copy([0, 2], 1), r"source\[1\] must be one of the 2 tokens 0 to 1, not 2"),
        (lambda: copy([-1], 1), r"source\[0\] must be one of .* not -1"),
        (lambda: copy([0.5], 1), r"source\[0\] must be a whole number, not 0\.5"),
        (lambda: copy([0], 0), r"d must be .* not 0"),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
