"""float32 and bfloat16: heads designed for them, bounds that hold in every CPU kernel, and are not far too large."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from flint import arb
from support.exact import errors
from support.formulas import DOMAINS, random_formula, shifted
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import pad, scaled_dot_product_attention

import weightwright as ww


def through_sdpa(net: ww.AttentionNetwork, x: Tensor, backend: SDPBackend) -> Tensor:
    """The same head through torch's own attention kernels: registers as keys, d_head filled up with zeros."""
    head, network = next(net.network.heads), net.network
    dtype = x.dtype
    W_Q, W_K, W_V = (torch.tensor(W, dtype=dtype) for W in (head.W_Q, head.W_K, head.W_V))
    registers = torch.tensor(network.registers, dtype=dtype)
    X = x @ torch.tensor(network.embed.terms[0].A, dtype=dtype) + torch.tensor(network.embed.C, dtype=dtype)
    Q, K, V = (
        pad(part, (0, 8 - part.shape[1]))[None, None]
        for part in (head.beta * (X @ W_Q), registers @ W_K, registers @ W_V)
    )
    with sdpa_kernel(backend):
        mixed = scaled_dot_product_attention(Q, K, V, scale=1.0)[0, 0, :, :1]
    return (X + mixed @ torch.tensor(head.W_O, dtype=dtype))[:, -1:]


def worst(net: ww.AttentionNetwork, x: Tensor, y: Tensor) -> arb:
    """The largest exact error among the inputs whose error in float64 is largest."""
    reference = ww.approximate(net.certificate.formula, net.certificate.domain, 1e-9)
    rough = (y.double() - reference(x.double())).abs()[:, 0]
    top = rough.topk(min(50, len(rough))).indices
    return max(errors(net.certificate.formula, x[top, 0].tolist(), y[top, 0].tolist()))


def search(formula: str, tol: float, count: int) -> tuple[ww.AttentionNetwork, dict[str, arb]]:
    net = ww.approximate(formula, (-1, 1), tol, dtype=torch.float32)
    found: dict[str, arb] = {}
    generator = torch.Generator().manual_seed(0)
    for _ in range(count // 200_000):
        x = torch.rand(200_000, 1, generator=generator) * 2 - 1
        x[:2, 0] = torch.tensor([-1.0, 1.0])
        with torch.no_grad():
            outputs = {
                "plain": net(x),
                "math": through_sdpa(net, x, SDPBackend.MATH),
                "flash": through_sdpa(net, x, SDPBackend.FLASH_ATTENTION),
            }
        for name, y in outputs.items():
            found[name] = max(worst(net, x, y), found.get(name, arb(0)))
    return net, found


CASES = [("x", 2e-6, 16), ("sin(5*x)", 1e-5, 32), ("tanh(3*x)", 1e-5, 2), ("exp(x)", 1e-5, 16)]


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("formula", "tol", "anchors"),
    [CASES[0], CASES[3], *(pytest.param(*case, marks=pytest.mark.slow) for case in CASES[1:3])],
)
def test_float32_holds_in_every_cpu_kernel(formula: str, tol: float, anchors: int) -> None:
    net, found = search(formula, tol, 400_000)
    assert (net.certificate.status, net.certificate.dtype) == ("PROVEN", "float32")
    assert len(net.network.registers) <= anchors
    for kernel, error in found.items():
        assert error <= net.certificate.bound <= tol, kernel


@pytest.mark.slow
@pytest.mark.parametrize(("formula", "tol", "anchors"), CASES[:2])
def test_float32_bounds_are_within_ten_of_what_ten_million_inputs_find(formula: str, tol: float, anchors: int) -> None:
    net, found = search(formula, tol, 10_000_000)
    for kernel, error in found.items():
        assert error <= net.certificate.bound, kernel
        assert net.certificate.bound <= 10 * float(error), kernel


@pytest.mark.slow
@pytest.mark.parametrize("block", range(3))
def test_random_formulas_in_float32(block: int) -> None:
    rng = np.random.default_rng(3000 + block)
    proven = 0
    for number in range(12):
        lo, hi = DOMAINS[rng.integers(len(DOMAINS))]
        text = shifted(random_formula(rng, int(rng.integers(0, 3))), lo, hi)
        try:
            net = ww.approximate(text, (lo, hi), float(10.0 ** -rng.integers(2, 6)), dtype=torch.float32)
        except (ww.ToleranceError, ww.FormulaError):
            continue
        proven += 1
        a, b = (float(end[0]) for end in (net.certificate.domain.lo, net.certificate.domain.hi))
        inputs = np.clip(np.concatenate([[a, b], rng.uniform(a, b, 400)]).astype(np.float32), a, b)
        x = torch.tensor(inputs, dtype=torch.float32)[:, None]
        largest = max(errors(text, x[:, 0].tolist(), net(x)[:, 0].tolist()))
        assert largest <= net.certificate.bound, (text, lo, hi, number, largest)
    assert proven >= 6


@pytest.mark.few(2)
@pytest.mark.parametrize("formula", ["x", "tanh(x)", "x**2", "sin(2*x)"])
def test_bfloat16_is_proven_whatever_its_size(formula: str) -> None:
    with pytest.raises(ww.ToleranceError) as caught:
        ww.approximate(formula, (-1, 1), 1e-4, dtype=torch.bfloat16)
    assert caught.value.best is not None
    net = ww.approximate(formula, (-1, 1), 1.5 * caught.value.best, dtype=torch.bfloat16)
    assert (net.certificate.status, net.certificate.dtype) == ("PROVEN", "bfloat16")
    x = torch.linspace(-1, 1, 501).to(torch.bfloat16)[:, None]
    assert max(errors(formula, x[:, 0].tolist(), net(x)[:, 0].tolist())) <= net.certificate.bound


def test_a_shifted_domain_in_float32() -> None:
    net = ww.approximate("x", (1000, 1001), 1e-4, dtype=torch.float32)
    x = torch.linspace(1000, 1001, 4001, dtype=torch.float32)[:, None]
    assert max(errors("x", x[:, 0].tolist(), net(x)[:, 0].tolist())) <= net.certificate.bound <= 1e-4


def test_ends_are_rounded_outward_to_the_dtype() -> None:
    domain = ww.approximate("x", ("0.1", "0.7"), 1e-4, dtype=torch.float32).certificate.domain
    assert (np.float32(domain.lo[0]), np.float32(domain.hi[0])) == (domain.lo[0], domain.hi[0])
    assert domain.lo[0] < 0.1 < 0.7 < domain.hi[0]
    assert domain.lo.astype(np.float32) == domain.lo


def test_a_float32_file_round_trips(tmp_path: object) -> None:
    net = ww.approximate("exp(x)", (-1, 1), 1e-5, dtype=torch.float32)
    net.save(f"{tmp_path}/net.safetensors")
    loaded = ww.load(f"{tmp_path}/net.safetensors")
    x = torch.linspace(-1, 1, 101)[:, None]
    assert torch.equal(loaded(x), net(x))
    assert (loaded.certificate.status, loaded.certificate.dtype) == ("PROVEN", "float32")
    with pytest.raises(TypeError, match=r"x is torch\.float64, which torch\.float32 does not hold exactly"):
        loaded(x.double())


def test_other_dtypes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"dtype must be .* not torch\.float16"):
        ww.approximate("x", (-1, 1), 1e-3, dtype=torch.float16)
