"""The torch module against the numpy interpreter, and what it says to bad input."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch
from support.networks import attending, by_hand, linear
from support.running import reference_outputs
from support.zoo import NAMES, ZOO, compiled

import weightwright as ww
from weightwright.network import cost


def inputs(network: object, rng: np.random.Generator, *batch: int) -> np.ndarray:
    tokens = network.tokens or 6  # type: ignore[attr-defined]
    return rng.normal(size=(*batch, tokens, len(network.inputs)))  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ZOO)
@pytest.mark.parametrize("batch", [(), (3,), (2, 0), (2, 3)])
def test_module_and_interpreter_agree(name: str, batch: tuple[int, ...]) -> None:
    network = ZOO[name]()
    X = inputs(network, np.random.default_rng(0), *batch)
    reference = reference_outputs(network, X)
    computed = ww.AttentionNetwork(network)(torch.tensor(X)).numpy()
    assert computed.shape == reference.shape
    np.testing.assert_allclose(computed, reference, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ZOO)
def test_every_network_survives_being_saved(name: str, tmp_path: object) -> None:
    network = ZOO[name]()
    path = f"{tmp_path}/net.safetensors"
    ww.AttentionNetwork(network).save(path)
    X = inputs(network, np.random.default_rng(1))
    assert np.array_equal(reference_outputs(ww.load(path, verify=False), X), reference_outputs(network, X))


def test_a_batch_is_its_parts(sine: ww.AttentionNetwork) -> None:
    x = torch.linspace(-1, 1, 60, dtype=torch.float64).reshape(3, 4, 5, 1)
    flat = sine(x.reshape(-1, 1))
    assert sine(x).shape == (3, 4, 5, 1)
    assert (sine(x).reshape(-1, 1) - flat).abs().max() <= 2 * sine.certificate.terms.rounding


def test_keys_that_are_not_seen_are_not_computed() -> None:
    """A register-only head never touches other tokens: a hundred thousand tokens take no n x n scores."""
    network = ZOO["sees some registers"]()
    out = ww.AttentionNetwork(network)(torch.zeros(100_000, 2, dtype=torch.float64))
    assert out.shape == (100_000, 2)


def test_unseen_data_tokens_have_no_influence() -> None:
    module = ww.AttentionNetwork(ZOO["sees earlier"]())
    X = torch.randn(6, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    later = X.clone()
    later[4:] = 1e300
    assert torch.equal(module(X)[:4], module(later)[:4])


def test_a_plain_transformer_computes_the_same(sine: ww.AttentionNetwork) -> None:
    """Registers first, then data; every token sees every token; softmax attention and nothing else."""
    network, certificate = sine.network, sine.certificate
    assert network.native
    x = np.linspace(-1, 1, 50)[:, None]
    embedded = x @ network.embed.terms[0].A + network.embed.C
    stream = np.concatenate([network.registers, embedded])
    head = next(network.heads)
    scores = head.beta * (stream @ head.W_Q) @ (stream @ head.W_K).T
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    stream = stream + weights @ (stream @ head.W_V) @ head.W_O
    out = stream[len(network.registers) :] @ network.read.terms[0].A
    difference = np.abs(out - sine(torch.tensor(x)).numpy()).max()
    assert difference <= certificate.terms.leakage + 2 * certificate.terms.rounding


@pytest.mark.parametrize(
    ("x", "reason"),
    [
        (1.5, r"'x\[0\]' of token 1 is 1.5, outside \[-1.0, 1.0\], off by 0.5"),
        (-1.0000000000000002, r"off by 2.22e-16"),
        (float("nan"), "is nan, outside"),
        (float("inf"), "is inf, outside"),
        (-float("inf"), "is -inf, outside"),
    ],
)
def test_inputs_outside_the_domain_raise(sine: ww.AttentionNetwork, x: float, reason: str) -> None:
    with pytest.raises(ww.DomainError, match=reason):
        sine(torch.tensor([[0.0], [x]], dtype=torch.float64))


def test_clamping_and_ignoring(sine: ww.AttentionNetwork) -> None:
    clamping = ww.AttentionNetwork(sine.network, sine.certificate, on_domain="clamp")
    ignoring = ww.AttentionNetwork(sine.network, sine.certificate, on_domain="ignore")
    x = torch.tensor([[1.5], [float("-inf")]], dtype=torch.float64)
    edge = sine(torch.tensor([[1.0], [-1.0]], dtype=torch.float64))
    assert torch.equal(clamping(x), edge)
    assert not torch.equal(ignoring(x[:1]), edge[:1])
    with pytest.raises(ww.DomainError, match="nan"):
        clamping(torch.tensor([[float("nan")]], dtype=torch.float64))
    with pytest.raises(ValueError, match=r"on_domain must be .* not 'wrap'"):
        ww.AttentionNetwork(sine.network, on_domain="wrap")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("x", "error", "reason"),
    [
        ([[0.0]], TypeError, "torch tensor, not list"),
        (torch.zeros(3, dtype=torch.float64), ValueError, r"shape \(..., tokens, 1\), not \(3,\)"),
        (torch.zeros(3, 2, dtype=torch.float64), ValueError, r"not \(3, 2\)"),
        (torch.zeros(3, 1, dtype=torch.complex128), TypeError, "complex128"),
        (torch.zeros(3, 1, dtype=torch.bool), TypeError, "bool"),
    ],
)
def test_other_bad_inputs(sine: ww.AttentionNetwork, x: object, error: type[Exception], reason: str) -> None:
    with pytest.raises(error, match=reason):
        sine(x)


def test_narrower_inputs_are_taken_as_they_are(sine: ww.AttentionNetwork) -> None:
    x = torch.rand(20, 1, generator=torch.Generator().manual_seed(0))
    assert torch.equal(sine(x), sine(x.double()))
    assert sine(torch.zeros(2, 1, dtype=torch.int32)).dtype == torch.float64


def test_weights_are_never_cast(sine: ww.AttentionNetwork) -> None:
    net = ww.AttentionNetwork(sine.network, sine.certificate)
    for cast in (net.float, net.half, net.layers.half, lambda: net.to(torch.bfloat16)):
        with pytest.raises(TypeError, match=r"the weights are torch\.float64 and stay so"):
            cast()
    x = torch.linspace(-1, 1, 9, dtype=torch.float64)[:, None]
    assert torch.equal(net.double().to("cpu")(x), sine(x))


def test_a_fixed_number_of_tokens_is_enforced() -> None:
    with pytest.raises(ValueError, match="must have 6 tokens, not 5"):
        ww.AttentionNetwork(ZOO["sees all"]())(torch.zeros(5, 2, dtype=torch.float64))


def test_gradients_flow(sine: ww.AttentionNetwork) -> None:
    x = torch.linspace(-0.9, 0.9, 20, dtype=torch.float64)[:, None].requires_grad_()
    (slope,) = torch.autograd.grad(sine(x).sum(), x)
    assert (slope - 5 * torch.cos(5 * x)).abs().max() < 1e-5


def test_the_module_says_what_it_is(sine: ww.AttentionNetwork) -> None:
    assert "sin(5*x), bound" in repr(sine)
    assert "no certificate" in repr(ww.AttentionNetwork(compiled()))


def test_fewer_bits_than_certified_are_refused(sine: ww.AttentionNetwork) -> None:
    x = torch.zeros(2, 1, dtype=torch.float64)
    with torch.autocast("cpu", dtype=torch.bfloat16), pytest.raises(ww.CertificateError, match="autocast is on"):
        sine(x)
    single = ww.approximate("x", (-1, 1), 1e-5, dtype=torch.float32)
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        assert sine(x).shape == (2, 1)  # float64 has no such mode
        with pytest.raises(ww.CertificateError, match="'medium'"):
            single(x.float())
    finally:
        torch.set_float32_matmul_precision(before)
    assert single(x.float()).dtype == torch.float32


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("p", [1, 2, 47, 513])
def test_queries_of_several_numbers_on_tables_of_all_sizes(p: int, dtype: str) -> None:
    rng = np.random.default_rng(p)

    def drawn(*shape: int) -> np.ndarray:
        return rng.normal(size=shape).astype(dtype).astype(np.float64)

    registers, weights = drawn(p, 3), [drawn(3, 2), drawn(3, 2), drawn(3, 2), drawn(2, 3)]
    layer = attending(NAMES, *weights, registers=(0, p), data="none")
    network = by_hand(("a", "b"), linear(NAMES, drawn(2, 3)), (layer,), ("y", "x"), registers=registers, dtype=dtype)
    net = ww.AttentionNetwork(network)
    X = drawn(2, 5, 2)
    x = torch.tensor(X, dtype=net.dtype)
    y = net(x)
    assert np.abs(y.numpy() - reference_outputs(network, X)).max() <= (1e-12 if dtype == "float64" else 1e-4)
    assert net(x[:, :0]).shape == (2, 0, 2)
    (gradient,) = torch.autograd.grad(net(x.requires_grad_()).sum(), x)
    assert gradient.isfinite().all()


def test_a_module_knows_its_cost() -> None:
    net = ww.approximate("tanh(x)", (-4, 4), 1e-6)
    assert net.cost == cost(net.network)
    assert net.cost.anchors == len(net.network.registers)


def test_threads_that_flush_are_refused() -> None:
    """They have the setting of the thread that started them, and keep it when that one is set right again."""
    net = ww.compile(lambda x: x * 2.0**126, ww.Box([-(2.0**-126)], [2.0**-126]), 1.0, dtype=torch.float32)
    found: list[object] = []

    def start_and_run() -> None:  # a thread has workers of its own: those of other tests stay as they are
        torch.set_num_threads(2)
        torch.set_flush_denormal(True)
        torch.ones(2**20).mul(2)  # starts the workers
        torch.set_flush_denormal(False)
        try:
            found.append(net(torch.full((2**20, 1), 2.0**-130)))
        except ww.CertificateError as error:
            found.append(str(error))

    before = torch.get_num_threads()
    thread = threading.Thread(target=start_and_run)
    try:
        thread.start()
        thread.join()
    finally:
        torch.set_num_threads(before)
    assert "they still take subnormal numbers for 0" in str(found[0])
