"""UA-8, UA-9 and UA-10: sorting and soft maxima, exact mixing of tokens, trained networks as plain Transformers."""

from __future__ import annotations

import itertools
from fractions import Fraction
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from papers.support.constructed import SORT, arrays, made, module, normal
from papers.support.measuring import error_within_bound
from support.running import torch_outputs
from torch import nn

import weightwright as ww
from weightwright.papers.relu.relu_target import piecewise_linear


def trained(seed: int, n: int, d: int, units: int, steps: int) -> nn.Sequential:
    """A ReLU network that has learnt a little: every token gets the mean of all."""
    net = module(seed, n * d, units, n * d)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    generator = torch.Generator().manual_seed(seed)
    before = None
    for _ in range(steps):
        X = 2 * torch.rand(64, n, d, generator=generator, dtype=torch.float64) - 1
        wanted = X.mean(dim=1, keepdim=True).expand(-1, n, -1)
        loss = (net(X.flatten(1)) - wanted.flatten(1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        before = loss.item() if before is None else before
    assert loss.item() < 0.9 * before
    return net


def apart(net: ww.AttentionNetwork, module: nn.Module, seed: int, count: int = 400) -> float:
    """The largest difference from the module itself, run by torch."""
    box, rng = net.certificate.domain, np.random.default_rng(seed)
    X = np.concatenate([rng.uniform(box.lo, box.hi, (count, *box.lo.shape)), net.about.probes(rng, count)])
    with torch.no_grad():
        wanted = module(torch.tensor(X).flatten(1)).reshape(len(X), X.shape[1], -1).numpy()
    return float(np.abs(torch_outputs(net, X) - wanted).max())


# UA-8


def test_two_tokens_are_sorted() -> None:
    net = made("UA-8, sort")
    assert net.certificate.bound <= 1e-6
    grid = np.array(list(itertools.product(np.linspace(-1, 1, 41), repeat=2)))
    X = np.concatenate([grid, np.repeat(grid[:41, :1], 2, axis=1), grid + [0, 1e-9] * (np.abs(grid) < 1)])[:, :, None]
    assert np.abs(torch_outputs(net, X) - np.sort(X, axis=1)).max() <= net.certificate.bound
    assert net.about.bounds["ReLU network"] == 0.0  # max is piecewise linear: the ReLU network is exact


def test_the_faithful_form_needs_anchors_in_proportion_to_the_tolerance() -> None:
    coarse = made("UA-8, faithful")
    fine = ww.constructions.relu_network(SORT, 2, (-1, 1), tol=0.05, method="faithful")
    assert 1.9 < fine.about.chosen["p"] / coarse.about.chosen["p"] < 2.1
    assert error_within_bound(fine, 256, seed=60) <= fine.certificate.bound <= 0.05
    assert fine.about.printed["p"] == 2**2.5  # the paper's order in n, which says nothing of the tolerance


def test_plane_waves_say_what_the_relu_network_is_off_by() -> None:
    net = made("UA-8, plane waves")
    assert 0 < net.about.bounds["ReLU network"] <= 0.8 * 5e-2
    assert net.about.bounds["ReLU network"] < net.certificate.bound <= 5e-2
    X = np.random.default_rng(61).uniform(-1, 1, (300, 2, 1))
    x, y = X[:, 0, 0], X[:, 1, 0]
    wanted = np.stack([x * y, np.sin(x) * np.cos(y)], axis=1)[:, :, None]
    assert np.abs(torch_outputs(net, X) - wanted).max() <= net.certificate.bound


def test_a_trained_module_is_emulated() -> None:
    target = trained(62, 2, 2, 6, 30)
    net = ww.constructions.relu_network(target, 2, (-1, 1), tol=1e-6)
    assert apart(net, target, 63) <= net.certificate.bound <= 1e-6
    assert net.about.chosen["units"] == 6


def test_three_tokens_are_not_sorted() -> None:
    """A kink of a kink along other directions is no sum of ReLUs, and plane waves do not follow it."""
    with pytest.raises(ww.FormulaError, match="needs a second hidden layer"):
        piecewise_linear(["max(max(x0, x1), x2)"], 3)
    assert piecewise_linear(["max(x0, x1) + abs(x2 - x0)"], 3)[1].error == 0


@pytest.mark.parametrize("formulas", [SORT, ("x0*x1 + x0/4", "sin(x1)")])
def test_formulas_become_plain_transformers(formulas: tuple[str, str]) -> None:
    """UA-10 through UA-8's finder: with kinks exactly, smooth ones by plane waves; what is linear is relu units too."""
    tol = 1e-5 if formulas is SORT else 2e-2
    net = ww.constructions.native_relu(formulas, 2, (-0.75, 1.25), tol=tol)
    assert net.network.native
    assert net.certificate.status == "PROVEN"
    assert net.about.bounds["ReLU network"] < net.certificate.bound <= tol
    error_within_bound(net, 256, seed=87)
    with pytest.raises(ValueError, match=r"beta = 8\.0 is for a ReLU network; for formulas give tol"):
        ww.constructions.native_relu(formulas, 2, (-1, 1), beta=8.0)


@pytest.mark.slow
def test_a_soft_maximum_of_four_numbers() -> None:
    """Within 1e-2 at every token, in the infinity norm, proven."""
    formula = "log(exp(x0) + exp(x1) + exp(x2) + exp(x3))"
    net = ww.constructions.relu_network([formula] * 4, 4, (-1, 1), tol=1e-2)
    assert net.certificate.status == "PROVEN"
    assert net.certificate.bound <= 1e-2
    assert not ww.search(net, 5.0, seed=64).violated
    X = np.random.default_rng(65).uniform(-1, 1, (2000, 4, 1))
    X[:500] = np.where(X[:500] < 0, -1.0, 1.0)
    wanted = np.log(np.exp(X).sum(axis=1, keepdims=True))
    assert np.abs(torch_outputs(net, X) - wanted).max() <= net.certificate.bound


# UA-9


def exactly(R: np.ndarray, X: np.ndarray, A: np.ndarray) -> list[list[Fraction]]:
    """R X A in fractions."""

    def product(left: list[list[Fraction]], right: list[list[Fraction]]) -> list[list[Fraction]]:
        return [
            [sum((a * b for a, b in zip(row, column, strict=True)), Fraction(0)) for column in zip(*right, strict=True)]
            for row in left
        ]

    R, X, A = ([[Fraction(x) for x in row] for row in array.tolist()] for array in (R, X, A))
    return product(product(R, X), A)


@pytest.mark.parametrize(
    ("n", "d", "r", "seed"), [(1, 1, 1, 0), (2, 3, 1, 1), (4, 2, 3, 2), (7, 1, 2, 3), (3, 3, 3, 4)]
)
def test_mixing_is_exact_but_for_rounding(n: int, d: int, r: int, seed: int) -> None:
    """Both signs, zeros, entries of very different size: never more than a few hundred roundings of the largest sum."""
    rng = np.random.default_rng(seed)
    R, A = rng.normal(size=(n, n)), rng.normal(size=(d, r)) * 10.0 ** rng.integers(-3, 4, (d, r))
    R *= (rng.random((n, n)) < 0.7) * 10.0 ** rng.integers(-4, 3, (n, n))
    net = ww.constructions.token_mixing(R, A, (-2, 3))
    assert net.network.native
    X = np.concatenate([rng.uniform(-2, 3, (10, n, d)), rng.choice([-2.0, 0.0, 3.0], (10, n, d))])
    y = torch_outputs(net, X)
    for x, found in zip(X, y, strict=True):
        wanted = exactly(R, x, A)
        error = max(
            abs(Fraction(float(a)) - b)
            for row, line in zip(found, wanted, strict=True)
            for a, b in zip(row, line, strict=True)
        )
        assert error <= Fraction(net.certificate.bound)
    size = max(np.abs(R).max(), np.abs(R).sum(axis=1).max()) * (np.abs(A).sum(axis=0).max() * 3)
    assert net.certificate.bound <= 4096 * n * 2.0**-53 * size


def test_mixing_with_nothing_is_nothing() -> None:
    net = ww.constructions.token_mixing(np.zeros((3, 3)), normal(66, 2, 2), (-1, 1))
    assert (
        np.abs(torch_outputs(net, np.random.default_rng(67).uniform(-1, 1, (20, 3, 2)))).max()
        <= net.certificate.bound
        < 1e-12
    )


# UA-10


@pytest.fixture(scope="module")
def reproduced() -> tuple[ww.AttentionNetwork, nn.Sequential]:
    target = trained(68, 2, 2, 6, 30)
    return ww.constructions.native_relu(target, 2, (-1, 1)), target


def run_onnx(path: Path, X: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": X})[0]


def loads_anywhere(net: ww.AttentionNetwork, target: nn.Module, folder: Path) -> None:
    """The files compute the module within the bound, and what rounds otherwise there."""
    assert net.network.native
    assert net.to_onnx(folder / "net.onnx") <= 1e-10
    lens = net.to_transformer_lens()
    assert lens.difference <= 1e-10
    X = net.about.probes(np.random.default_rng(69), 100)
    with torch.no_grad():
        wanted = target(torch.tensor(X).flatten(1)).reshape(X.shape).numpy()
    for found in (run_onnx(folder / "net.onnx", X), lens.run(torch.tensor(X)).numpy()):
        assert np.abs(found - wanted).max() <= 1e-6


def test_a_trained_network_is_a_plain_transformer(
    reproduced: tuple[ww.AttentionNetwork, nn.Sequential], tmp_path: Path
) -> None:
    net, target = reproduced
    assert apart(net, target, 70) <= net.certificate.bound <= 1e-6
    loads_anywhere(net, target, tmp_path)


@pytest.mark.slow
def test_a_trained_network_of_32_units_on_four_tokens(tmp_path: Path) -> None:
    target = trained(71, 4, 3, 32, 200)
    net = ww.constructions.native_relu(target, 4, (-1, 1))
    assert net.certificate.status == "PROVEN"
    assert apart(net, target, 72, 1000) <= net.certificate.bound <= 1e-6
    assert not ww.search(net, 5.0, seed=73).violated
    loads_anywhere(net, target, tmp_path)


def test_a_unit_that_one_token_reads_takes_one_head() -> None:
    """As the paper has units: each of them for one token."""
    n, d, each = 3, 2, 4
    W_1, b_1, W_2, b_2 = arrays(74, n * d, n * each, n)
    W_2 = W_2 * np.kron(np.eye(n), np.ones((1, each)))
    net = ww.constructions.native_relu((W_1, b_1, W_2, b_2), n, (-1, 1))
    assert net.cost.heads == n + n * each == net.about.chosen["H"]
    assert error_within_bound(net, 256, seed=75) <= net.certificate.bound <= 1e-6
    unread = W_2.copy()
    unread[:, 0] = 0.0
    assert ww.constructions.native_relu((W_1, b_1, unread, b_2), n, (-1, 1)).cost.heads == n + n * each - 1


@pytest.mark.parametrize("beta", [2.0**6, 2.0**12, 2.0**18])
def test_the_error_is_that_of_the_gate(beta: float) -> None:
    """s sigmoid(beta s) is off by at most 0.2785 / beta, and by nearly as much at s = 1.2785 / beta."""
    net = ww.constructions.native_relu(([[1.0]], [0.0], [[-3.0]], [0.0]), 1, (-1, 1), beta=beta)
    X = np.array([-1.2785, 1.2785])[:, None, None] / beta
    found = np.abs(torch_outputs(net, X) + 3 * np.maximum(X, 0)).max()
    assert 0.2784 * 3 / beta <= found <= net.certificate.bound <= 0.2786 * 3 / beta


def test_a_linear_layer_without_bias() -> None:
    torch.manual_seed(78)
    target = nn.Sequential(nn.Linear(2, 3, bias=False), nn.ReLU(), nn.Linear(3, 2, bias=False)).double()
    for net in (
        ww.constructions.native_relu(target, 2, (-1, 1)),
        ww.constructions.relu_network(target, 2, (-1, 1), tol=1e-5),
    ):
        assert apart(net, target, 79) <= net.certificate.bound


def test_kinks_and_smooth_formulas_are_two_networks() -> None:
    with pytest.raises(ww.ToleranceError, match=r"'max\(x0, x1\)' has a kink.*two networks"):
        ww.constructions.relu_network(["max(x0, x1)", "exp(-x0**2)*x1"], 2, (-1, 1), tol=3e-2)
