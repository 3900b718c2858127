"""AE-13 and AE-14: what the Hopfield layers compute, their bounds, what is refused, and what is printed and fails."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from papers.support.measuring import error_within_bound, shown_theorem

import weightwright as ww
from weightwright.papers.hopfield.hopfield_prompt import literal_gradients

A, B = [1.0, -0.5], 0.25
CURVED = ("tanh(5*x)", "exp(2*x)", "gelu(3*x)", "relu(x) - 2*relu(x - 0.3)", "sin(9*x)", "1/(1 + 25*x**2)", "2 + 0*x")


def softmax(z: np.ndarray) -> np.ndarray:
    """Over the last axis."""
    weights = np.exp(z - z.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def bound(net: ww.AttentionNetwork) -> float:
    assert net.certificate is not None
    assert net.certificate.status == "PROVEN"
    return net.certificate.bound


# AE-13


@pytest.mark.parametrize("P", [4, 48])
@pytest.mark.parametrize("f", CURVED)
def test_any_function_of_an_affine_one_is_within_its_bound(f: str, P: int) -> None:
    net = ww.constructions.hopfield_function(f, A, B, (-1, 1), P=P)
    assert error_within_bound(net, 512) <= bound(net)
    assert len(net.network.registers) == P + 1
    assert net.network.native


@pytest.mark.parametrize(("f", "tol"), [("sin(3*x)", 0.06), ("abs(x)", 0.05), ("exp(x)", 0.1)])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_anchors_follow_from_the_tolerance(f: str, tol: float, dtype: str) -> None:
    net = ww.constructions.hopfield_function(f, A, B, (-1, 1), tol=tol, dtype=dtype)
    assert error_within_bound(net, 512) <= bound(net) <= tol
    assert net.about.printed["P"] > net.about.chosen["P"]


@pytest.mark.parametrize(
    ("f", "tol", "dtype"),
    [("sin(3*x)", 1e-9, "float64"), ("abs(x)", 1e-6, "float64"), ("sin(3*x)", 1e-4, "float32")],
)
def test_fitted_values_need_few_keys(f: str, tol: float, dtype: str) -> None:
    net = ww.constructions.hopfield_function(f, A, B, (-1, 1), tol=tol, tokens=2, method="spectral", dtype=dtype)
    assert error_within_bound(net, 512) <= bound(net) <= tol
    assert len(net.network.registers) <= 40


@pytest.mark.parametrize("method", ["faithful", "spectral"])
def test_several_outputs_of_torch_functions(method: Any) -> None:
    """One head has all outputs where the anchors are shared; every token gets its own."""
    functions = (lambda x: torch.sin(2 * x), torch.abs, "x")
    net = ww.constructions.hopfield_function(functions, A, B, (-1, 1), tol=0.05, tokens=3, method=method)
    z = torch.tensor(np.random.default_rng(0).uniform(-1, 1, (5, 3, 2)))
    s = z @ torch.tensor(A, dtype=torch.float64) + B
    found = net(z)
    assert found.shape == (5, 3, 3)
    expected = torch.stack([torch.sin(2 * s), s.abs(), s], -1)
    assert float((found - expected).abs().max()) <= bound(net) <= 0.05
    assert (len(list(net.network.heads)) == 1) == (method == "faithful")


def test_the_layer_is_a_hopfield_memory() -> None:
    """Stored patterns (2 L, -L^2), values f(L), state patterns (a . z + b, 1)."""
    net = ww.constructions.hopfield_function("sin(3*x)", A, B, (-1, 1), P=24)
    L = np.linspace(-1.25, 1.75, 25)
    memory = ww.memory.Hopfield(2, net.about.chosen["beta"]).store(
        np.stack([2 * L, -(L**2)], 1), np.sin(3 * L)[:, None]
    )
    z = torch.tensor(np.random.default_rng(1).uniform(-1, 1, (50, 1, 2)))
    s = z @ torch.tensor(A, dtype=torch.float64) + B
    state = torch.cat([s, torch.ones_like(s)], -1)
    torch.testing.assert_close(net(z)[:, 0, 0], memory.retrieve(state)[:, 0], rtol=0, atol=1e-8)


def test_a_plain_transformer_runs_it(tmp_path: Path) -> None:
    net = ww.constructions.hopfield_function("sin(3*x)", A, B, (-1, 1), P=24, tokens=2)
    assert net.to_transformer_lens(tokens=2).difference < 1e-9
    assert net.to_onnx(tmp_path / "net.onnx") < 1e-9
    net.save(tmp_path / "net.safetensors")
    assert ww.check(tmp_path / "net.safetensors").status == "PROVEN"


def test_squares_are_no_distances() -> None:
    """Errata AE-13: anchors with (l - L)^2 >= dL are to weigh P e^(-beta dL / 2) together. With dL = 8 a point half way
    between two anchors has no others, whatever beta; compared as distances, those farther than dL weigh little."""
    dL, P, beta = 8.0, 4, 3.0
    L = dL * np.arange(P + 1)
    s = 1.5 * dL
    weights = softmax(-beta * (s - L) ** 2)
    assert weights[(s - L) ** 2 >= dL].sum() == 1.0
    assert P * math.exp(-beta * dL / 2) < 1e-4
    assert weights[np.abs(s - L) > dL].sum() <= P * math.exp(-beta * dL**2 * 3 / 4)


def test_values_are_no_linear_image_of_the_stored_patterns() -> None:
    """Errata AE-13: V = W_V W_K Y by Definition E.1. The best W_V for K_r = (2 L_r a, 2 L_r b - L_r^2) is far from
    f(L_r) = sin(3 L_r); with a row of values, which the query meets with 0, it is exact, and scores are the same."""
    L, a, b = np.linspace(-1, 1, 9), 0.75, 0.25
    K, V, query = np.stack([2 * L * a, 2 * L * b - L**2]), np.sin(3 * L), np.array([0.3, 1.0])
    fitted = np.linalg.lstsq(K.T, V, rcond=None)[0] @ K
    assert np.abs(fitted - V).max() > 0.3
    wider = np.vstack([K, V])
    assert np.array_equal(np.array([0.0, 0.0, 1.0]) @ wider, V)
    assert np.allclose(np.append(query, 0.0) @ wider, query @ K, rtol=0, atol=1e-15)
    net = ww.constructions.hopfield_function("sin(3*x)", [1.0], 0.25, (-1, 1), P=16)
    (head,) = net.network.heads
    assert not (head.W_V.any(axis=1) & head.W_K.any(axis=1)).any()  # rows of their own


def test_continuous_functions_without_a_bounded_slope_are_refused() -> None:
    with pytest.raises(ww.ToleranceError, match="needs a bounded slope of f"):
        ww.constructions.hopfield_function("sqrt(abs(x))", [1.0], 0.0, (-1, 1), tol=0.1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "give either tol or P, not both and not neither"),
        ({"tol": 0.1, "P": 8}, "give either tol or P"),
        ({"tol": -1.0}, "tol must be a positive finite number, not -1.0"),
        ({"P": 1}, "P must be a whole number of at least 2, not 1"),
        ({"P": 8, "method": "spectral"}, "P = 8 is for method='faithful'"),
        ({"method": "spectral"}, "tol must be given for method='spectral'"),
        ({"P": 8, "method": "other"}, "method must be 'faithful' or 'spectral', not 'other'"),
        ({"P": 8, "tokens": 0}, "tokens must be a whole number of at least 1, not 0"),
        ({"P": 8, "a": [[1.0]]}, "a must be a list of finite numbers"),
        ({"P": 8, "a": [0.0, 0.0], "b": 0.0}, "a must not be 0"),
        ({"P": 8, "b": math.inf}, "b must be a finite number, not inf"),
        ({"P": 8, "f": []}, "f must have at least one output"),
    ],
)
def test_a_layer_that_cannot_be(arguments: dict[str, Any], message: str) -> None:
    given = {"f": "sin(x)", "a": A, "b": B, "domain": (-1, 1)} | arguments
    with pytest.raises(ValueError, match=r"must|give|is for") as error:
        ww.constructions.hopfield_function(**given)
    assert message in str(error.value)


def test_tolerances_that_are_too_much() -> None:
    with pytest.raises(ww.BudgetError, match=r"needs .* anchors, more than 65,536; method='spectral' needs far fewer"):
        ww.constructions.hopfield_function("sin(x)", A, B, (-1, 1), tol=1e-9)
    with pytest.raises(ww.ToleranceError, match="needs a bounded slope of f on"):
        ww.constructions.hopfield_function("sqrt(x + 1.25)", A, B, (-1, 1), tol=0.1)
    with pytest.raises(ww.ToleranceError, match=r"tol=0.02 cannot be proven: .* rounding") as error:
        ww.constructions.hopfield_function("sin(3*x)", A, B, (-1, 1), tol=0.02, dtype="float32")
    assert error.value.best is not None
    assert 0.02 < error.value.best < 1


# AE-14


@pytest.mark.parametrize(
    ("f", "B", "arguments"),
    [
        ("tanh(x)", 1.0, {"P": 24}),
        ("x", (2.0, 1.0, 0.5), {"tol": 0.25}),
        ("tanh(x)", 1.0, {"tol": 0.2, "dtype": "float32"}),
        ("x", (2.0, 1.0, 0.5), {"tol": 1e-8, "method": "spectral"}),
        pytest.param("clip(x, -1, 1)", 1.0, {"tol": 1e-4, "method": "spectral"}, marks=pytest.mark.slow),
        ("sin(x)", 1.0, {"tol": 1e-4, "method": "spectral", "dtype": "float32"}),
    ],
)
def test_gradients_are_within_their_bound(f: str, B: Any, arguments: dict[str, Any]) -> None:
    net = ww.constructions.hopfield_gradients(f, 3, 2, B, **arguments)
    assert error_within_bound(net, 512) <= bound(net) <= arguments.get("tol", math.inf)


def test_gradients_are_those_of_torch() -> None:
    """Corollary E.2.1 for the logistic loss log(1 + e^r) of r = w . x - y."""
    net = ww.constructions.hopfield_gradients(torch.sigmoid, 4, 3, tol=1e-9, method="spectral")
    rng = np.random.default_rng(3)
    x, y = torch.tensor(rng.uniform(-1, 1, (4, 3))), torch.tensor(rng.uniform(-1, 1, (4, 1)))
    w = torch.tensor(rng.uniform(-1, 1, 3), requires_grad=True)
    losses = torch.nn.functional.softplus(x @ w - y[:, 0])
    expected = torch.stack([torch.autograd.grad(loss, w, retain_graph=True)[0] for loss in losses])
    prompt = torch.cat([x, y, w.detach().expand(4, 3)], 1)
    assert float((net(prompt) - expected).abs().max()) <= bound(net) <= 1e-9


def test_every_example_is_a_hopfield_memory() -> None:
    """Stored patterns: what the linear map spreads out of an example; the state pattern is (w, 1, 1)."""
    n, d = 3, 2
    net = ww.constructions.hopfield_gradients("tanh(x)", n, d, P=16)
    prompt = torch.tensor(np.random.default_rng(5).uniform(-1, 1, (n, 2 * d + 1)))
    attend = net.network.layers[1]
    (head,) = attend.heads
    tokens = net.layers[0](net.embed(prompt)).unflatten(0, (n, 17))  # the examples, 17 tokens each
    W_Q, W_K, W_V = (torch.tensor(W) for W in (head.W_Q, head.W_K, head.W_V))
    for i in range(n):
        memory = ww.memory.Hopfield(d + 2, head.beta).store(tokens[i] @ W_K, tokens[i] @ W_V)
        state = tokens[i, 0] @ W_Q
        assert torch.equal(state, torch.cat([prompt[i, d + 1 :], torch.ones(2, dtype=torch.float64)]))
        torch.testing.assert_close(memory.retrieve(state), net(prompt)[i], rtol=0, atol=1e-12)


def test_the_printed_layer_with_enough_for_its_own_example_agrees() -> None:
    net, literal = ww.constructions.hopfield_gradients("tanh(x)", 3, 8, P=48), literal_gradients("tanh(x)", 3, 8, P=48)
    prompts = torch.tensor(net.about.probes(np.random.default_rng(0), 128))
    assert float((net(prompts) - literal(prompts)).abs().max()) < 1e-11


def wrong_sample(n: int, d: int) -> torch.Tensor:
    """w and x_1 such that example 1 has the largest residual d B^2 + B, all others residual 0 and x = (1, -1, ...)."""
    prompt = torch.zeros(n, 2 * d + 1, dtype=torch.float64)
    prompt[:, d + 1 :] = 1.0
    prompt[:, :d] = torch.tensor([1.0, -1.0]).repeat(d // 2)
    prompt[1, :d], prompt[1, d] = 1.0, -1.0
    return prompt


def test_the_printed_c_gives_all_weight_to_a_wrong_sample() -> None:
    """Errata AE-14: d = 8, B = 1, C = 2 d B^2 + B - ln e0 with e0 = 1e-6. Example 0 has residual 0 and its own best
    score C, example 1 has 81."""
    n, d, bound_on_all = 3, 8, 1.0
    printed = 2 * d * bound_on_all**2 + bound_on_all - math.log(1e-6)
    prompt = wrong_sample(n, d)
    target = torch.cos(torch.zeros(n, 1)) * prompt[:, :d]  # f(0) x_i, for all but example 1
    wrong = math.cos(9.0) * prompt[1, :d]
    found = literal_gradients("cos(x)", n, d, P=72, C=printed)(prompt)
    assert float((found[0] - wrong).abs().max()) < 0.01
    assert float((found[0] - target[0]).abs().max()) > 1.5
    for net in (literal_gradients("cos(x)", n, d, P=72), ww.constructions.hopfield_gradients("cos(x)", n, d, P=72)):
        right = net(prompt)
        assert float((right[0] - target[0]).abs().max()) < 0.01
        assert float((right[1] - wrong).abs().max()) < 0.01


def test_a_constant_row_of_minus_one_prefers_the_farthest_anchor() -> None:
    """Errata AE-14: the row -1 makes the scores 2 L r + L^2."""
    L, r = np.linspace(-9, 9, 37), 0.5
    assert L[np.argmax(2 * L * r - L**2)] == 0.5
    assert L[np.argmax(2 * L * r + L**2)] == 9.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "give either tol or P"),
        ({"P": 8, "method": "spectral"}, "give tol, and no P, for method='spectral'"),
        ({"P": 8, "method": "other"}, "method must be 'faithful' or 'spectral', not 'other'"),
        ({"P": 8, "n": 0}, "n must be a whole number of at least 1, not 0"),
        ({"P": 8, "d": 0}, "d must be a whole number of at least 1, not 0"),
        ({"P": 8, "B": -1.0}, "B must be a positive finite number, not -1.0"),
        ({"P": 8, "B": (1.0, 1.0)}, "B must be one number, or three for x, y and w, not (1.0, 1.0)"),
        ({"P": 8, "dtype": "bfloat16"}, "dtype must be 'float64' or 'float32', not 'bfloat16'"),
    ],
)
def test_gradients_that_cannot_be(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=r"must|give") as error:
        ww.constructions.hopfield_gradients(**({"f": "x", "n": 2, "d": 2} | arguments))
    assert message in str(error.value)


def test_prompts_outside_the_ranges_are_refused() -> None:
    net = ww.constructions.hopfield_gradients("x", 2, 1, P=8)
    with pytest.raises(ww.DomainError, match=r"'y' of token 1 is 1.5"):
        net(torch.tensor([[1.0, 1.0, 1.0], [1.0, 1.5, 1.0]], dtype=torch.float64))


# the registry


def test_no_construction_is_hidden_by_its_module() -> None:
    """Importing a module sets a name in its package: a function of the same name would be the module from then on."""
    modules = {path.stem for path in Path(ww.constructions.__file__ or "").parent.glob("*.py")}
    assert not modules & set(ww.constructions.__all__)
    assert all(callable(getattr(ww.constructions, name)) for name in ww.constructions.__all__)


@pytest.mark.few(1)
@pytest.mark.parametrize("id", ["AE-13", "AE-14"])
def test_the_theorems_are_shown(id: str) -> None:
    shown = shown_theorem(id, count=256)
    assert shown.status == "PROVEN"
    assert all(count.agrees for count in shown.counts)
    assert len(shown.counts) >= 10
