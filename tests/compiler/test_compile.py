"""`ww.compile`: from PyTorch to a proven network, end to end."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from compiled import load_examples
from support.torch_zoo.random_graphs import random_function
from torch import Tensor, nn

import weightwright as ww
from weightwright.certify import certify

examples = load_examples()
QUICK = {"softmax of 5", "Lotka-Volterra, RK4 step"}


def compiled(name: str, **options: Any) -> ww.AttentionNetwork:
    example = examples.EXAMPLES[name]
    given = {"tol": example.tol, "tokens": example.tokens, "proof": example.proof} | options
    return ww.compile(example.function(), example.domain, **given)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in examples.EXAMPLES]
)
def test_examples_are_proven_and_no_search_finds_a_violation(name: str, tmp_path: Path) -> None:
    example, net = examples.EXAMPLES[name], compiled(name)
    certificate = net.certificate
    assert certificate is not None
    assert net.network.native
    assert certificate.status == example.proof.upper()
    worst = ww.search(net, 0.2)
    assert worst.error <= (certificate.bound if example.proof == "proven" else example.tol)
    shape = (5, example.tokens or 3, example.domain.lo.shape[-1])
    x = torch.tensor(np.random.default_rng(0).uniform(example.domain.lo, example.domain.hi, shape))
    net.save(tmp_path / "net.safetensors")
    assert torch.equal(ww.load(tmp_path / "net.safetensors", verify=False)(x), net(x))
    if example.proof == "proven":
        assert certificate.bound <= example.tol
        assert ww.check(tmp_path / "net.safetensors").bound == certificate.bound


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name == "softmax of 5" else pytest.mark.slow) for name in examples.EXAMPLES],
)
def test_exports_agree(name: str, tmp_path: Path) -> None:
    net = compiled(name)
    assert net.to_transformer_lens(tokens=8).difference <= 1e-12
    assert net.to_torch(tmp_path / "plain.py") <= 1e-12
    assert net.to_onnx(tmp_path / "net.onnx") <= 1e-12


@pytest.mark.slow
def test_the_module_and_the_network_agree_on_digits() -> None:
    """float32: the bound is small enough to prove every prediction."""
    X, _ = examples.digits()
    original = examples.digits_relu()
    net = ww.compile(original, ww.Box([0.0] * 64, [1.0] * 64), tol=0.02, dtype=torch.float32)
    assert net.certificate is not None
    with torch.no_grad():
        logits = original.double()(X.double())
        top = logits.topk(2).values
        margin = float((top[:, 0] - top[:, 1]).min())
        assert net.certificate.bound < margin / 2 - 1e-9
        assert torch.equal(net(X).argmax(-1), logits.argmax(-1))


@pytest.mark.few(2)
@pytest.mark.parametrize("seed", [0, 1, 2, 3, 5, 8])
def test_random_functions_stay_within_their_bounds(seed: int) -> None:
    _within_bound(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [4, 6, 7, 9, *range(10, 100)])
def test_many_random_functions_stay_within_their_bounds(seed: int) -> None:
    _within_bound(seed)


def _within_bound(seed: int) -> None:
    function = random_function(seed)
    box = ww.Box([-1.0] * function.features, [1.0] * function.features)
    net = ww.compile(function, box, tol=1e-3, tokens=function.tokens)
    assert net.certificate is not None
    assert net.certificate.status == "PROVEN"
    worst = ww.search(net, 0.1, seed)
    assert worst.error <= net.certificate.bound
    x = torch.tensor(np.random.default_rng(seed).uniform(-1, 1, (64, function.tokens or 1, function.features)))
    with torch.no_grad():
        wanted = torch.stack([function(one) for one in x])
    assert float((net(x) - wanted).abs().max()) <= net.certificate.bound + 1e-12  # torch's own rounding


@pytest.mark.slow
def test_iterations_whose_ranges_are_hard_to_enclose() -> None:
    def halley(a: Tensor) -> Tensor:
        root = torch.ones_like(a)
        for _ in range(3):
            root = root * (root**3 + 2 * a) / (2 * root**3 + a)
        return root

    net = ww.compile(halley, (0.5, 3), 1e-6)
    assert net.certificate is not None
    assert ww.search(net, 0.1).error <= net.certificate.bound <= 1e-6
    assert len(list(net.network.heads)) == 1


def test_any_number_of_tokens_when_each_is_by_itself() -> None:
    net = ww.compile(lambda x: torch.tanh(x) * x, (-1, 1), 1e-8)
    assert net.network.tokens is None
    assert net(torch.zeros(2, 70_000, 1, dtype=torch.float64)).shape == (2, 70_000, 1)


def test_a_result_without_tokens_stands_on_every_token() -> None:
    net = ww.compile(lambda x: x.mean(0), ww.Box([-1, -1], [1, 1]), 1e-10, tokens=3)
    x = torch.tensor([[1.0, 0.0], [0.0, 0.5], [-0.25, 1.0]], dtype=torch.float64)
    assert torch.allclose(net(x), x.mean(0).expand(3, 2), rtol=0, atol=1e-12)


def test_linear_maps_cost_nothing() -> None:
    torch.manual_seed(0)
    net = ww.compile(nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 2)).double(), (-1, 1), 1e-9)
    assert list(net.network.heads) == []


def test_an_operation_without_counterpart_names_the_line() -> None:
    def sorting(x: Tensor) -> Tensor:
        y = 2 * x
        return torch.argsort(y)

    line = sorting.__code__.co_firstlineno + 2
    with pytest.raises(ww.UnsupportedOperation, match=rf"argsort.*test_compile\.py:{line}"):
        ww.compile(sorting, ww.Box([-1, -1], [1, 1]), 1e-3)


@pytest.mark.parametrize("tokens", [None, 2])
def test_a_branch_that_depends_on_the_data_is_explained(tokens: int | None) -> None:
    def branch(x: Tensor) -> Tensor:
        if x.sum() > 0:
            return x
        return -x

    with pytest.raises(ww.UnsupportedOperation, match=r"an if.*test_compile\.py:\d+: `if x.*torch\.maximum"):
        ww.compile(branch, (-1, 1), 1e-3, tokens=tokens)


@pytest.mark.parametrize("function", [lambda x, y: x + y, lambda: 1.0, nn.MultiheadAttention(1, 1)])
def test_a_function_of_more_or_less_than_one_tensor_is_refused(function: Any) -> None:
    with pytest.raises(ww.UnsupportedOperation, match="must take one tensor"):
        ww.compile(function, (-1, 1), 1e-3)


def test_a_jump_is_refused_with_what_to_write() -> None:
    with pytest.raises(ww.UnsupportedOperation, match=r"sign.*torch\.tanh"):
        ww.compile(lambda x: torch.sign(x) * x, (-1, 1), 1e-3)


def test_a_norm_of_another_size_is_refused() -> None:
    with pytest.raises(ww.UnsupportedOperation, match="normalized_shape"):
        ww.compile(nn.RMSNorm(3).double(), ww.Box([-1.0], [1.0]), 1e-3)


@pytest.mark.parametrize(
    ("function", "domain", "words"),
    [
        (lambda x: torch.log(x[:, 0] + x[:, 1]), ww.Box([-1, 0], [1, 1]), "log"),
        (lambda x: torch.sqrt(x[:, 0] - x[:, 1]), ww.Box([0, 0], [1, 1]), "sqrt"),
        (lambda x: x[:, 0] / (x[:, 1] - 0.5), ww.Box([0, 0], [1, 1]), "1/x"),
    ],
)
def test_an_undefined_domain_is_refused_with_the_part_of_it(function: Any, domain: ww.Box, words: str) -> None:
    with pytest.raises(ww.FormulaError, match=rf"(?s){words}.*undefined.*x\[0\].*\[.*\].*x\[1\].*\[.*\]"):
        ww.compile(function, domain, 1e-3)


def test_a_standardisation_without_eps_is_refused() -> None:
    def bare(x: Tensor) -> Tensor:
        return (x - x.mean(0)) / x.std(0, unbiased=False)

    with pytest.raises(ww.FormulaError, match="eps"):
        ww.compile(bare, (-1, 1), 1e-3, tokens=3)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_looser_tolerance_takes_fewer_keys(dtype: str) -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))
    loose, tight = (ww.compile(module, (-1, 1), tol=tol, dtype=dtype) for tol in (1e-2, 1e-4))
    assert loose.cost.anchors < tight.cost.anchors
    assert loose.certificate is not None
    assert loose.certificate.bound <= 1e-2


def test_after_a_bound_above_the_tolerance_heads_are_finer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the tolerance is so loose that an eighth of it asks for nothing finer."""
    keys = list[int]()

    def certify_with_a_bound_above(network: Any, claim: Any, box: ww.Box) -> Any:
        net = certify(network, claim, box)
        keys.append(net.cost.anchors)
        assert net.certificate is not None
        above = replace(net.certificate, bound=2.0, terms=replace(net.certificate.terms, approximation=2.0))
        return net if len(keys) > 1 else SimpleNamespace(certificate=above)

    monkeypatch.setattr("weightwright.compiler.compile.certify", certify_with_a_bound_above)
    ww.compile(lambda x: torch.sin(3 * x), (-1, 1), tol=1.0)
    assert keys[0] < keys[1]


@pytest.mark.slow
def test_a_tolerance_out_of_reach_names_the_columns_that_cost_most() -> None:
    with pytest.raises(ww.ToleranceError, match=r"no tables that could be finer.* dtype=torch.float64"):
        ww.compile(lambda x: x.sum(-1), (-1, 1), 1e-9, features=3, dtype=torch.float32)
    with pytest.raises(ww.ToleranceError, match=r"cannot be proven.*cost most.*mul, test_compile\.py") as caught:
        ww.compile(lambda x: x[:, 0] * x[:, 1], ww.Box([-1, -1], [1, 1]), 1e-17)
    assert caught.value.best is not None
    assert caught.value.best > 1e-17


@pytest.mark.slow
def test_measured_says_why_there_is_no_proof(tmp_path: Path) -> None:
    net = ww.compile(lambda x: x[:, 0] * x[:, 1], ww.Box([-1, -1], [1, 1]), 1e-13, proof="measured")
    certificate = net.certificate
    assert certificate is not None
    assert certificate.measured is not None
    assert (certificate.status, certificate.bound) == ("MEASURED", math.inf)
    assert certificate.measured.error <= 1e-13
    assert "compose to" in certificate.measured.reason
    net.save(tmp_path / "net.safetensors")
    with pytest.raises(ww.CertificateError, match="nothing is proven"):
        ww.check(tmp_path / "net.safetensors")


def test_a_black_box_of_two_features_is_built_from_its_values() -> None:
    def black_box(x: Tensor) -> Tensor:
        return torch.tensor(np.sin(x.numpy()[:, 0]) * x.numpy()[:, 1])

    box = ww.Box([-1, -1], [1, 1])
    with pytest.raises(ww.UnsupportedOperation):
        ww.compile(black_box, box, 1e-3)
    net = ww.compile(black_box, box, 1e-3, proof="measured")
    assert net.certificate is not None
    assert net.certificate.status == "MEASURED"
    assert "cannot be traced" in net.certificate.measured.reason
    x = torch.tensor([[0.5, -0.25]], dtype=torch.float64)
    assert abs(float(net(x)) - math.sin(0.5) * -0.25) <= 1e-3


def test_kernel_anchor_is_for_one_function_of_one_number() -> None:
    net = ww.compile(lambda x: 2 * torch.sin(3 * x) + 1, (-1, 1), 1e-6, kernel="anchor")
    assert net.certificate is not None
    assert net.certificate.kernel == "anchor"
    with pytest.raises(ValueError, match="kernel='anchor'"):
        ww.compile(lambda x: torch.sin(x) * x[:, :1], ww.Box([-1, -1], [1, 1]), 1e-6, kernel="anchor")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tol": 0.0}, "tol"),
        ({"tol": math.nan}, "tol"),
        ({"proof": "maybe"}, "proof.*'maybe'"),
        ({"kernel": "cuda"}, "kernel.*'cuda'"),
        ({"tokens": 0}, "tokens.*0"),
        ({"tokens": True}, "tokens.*True"),
        ({"features": -1}, "features.*-1"),
        ({"features": 3}, "2 intervals for 3 features"),
        ({"dtype": torch.int32}, "dtype.*int32"),
        ({"derivative_bound": (2, 1.0)}, "derivative_bound"),
        ({"domain": ww.Box([[0.0, 0.0]], [[1.0, 1.0]])}, r"shape \(1, 2\).*tokens=None"),
    ],
)
def test_bad_arguments_are_named(options: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"domain": ww.Box([-1, -1], [1, 1]), "tol": 1e-3} | options
    with pytest.raises((ValueError, TypeError), match=message):
        ww.compile(torch.sin, **given)


def test_a_pair_of_numbers_stands_for_all_features_of_a_module() -> None:
    torch.manual_seed(0)
    net = ww.compile(nn.Sequential(nn.Linear(3, 2), nn.Tanh()).double(), (-1, 1), 1e-9)
    assert net.network.inputs == ("x[0]", "x[1]", "x[2]")
