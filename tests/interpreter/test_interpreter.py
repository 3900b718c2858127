"""One frozen module, programs in its prompt."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import weightwright as ww
from weightwright.interpreter.frozen_module import Sizes
from weightwright.interpreter.module_costs import papers_cost


@functools.cache
def built(**options: Any) -> ww.Interpreter:
    return ww.Interpreter(**{"tokens": 6, "features": 3, "head_dim": 2, "heads": 2, "rows": 3} | options)


def random_program(
    vm: ww.Interpreter, x: np.ndarray, rng: np.random.Generator, heads: int, **more: Any
) -> ww.interpreter.Program:
    """Weights as large as the bounds allow on this data."""
    rows = more.get("rows")
    data = x.reshape(-1, vm.features) if rows is None else np.concatenate([x.reshape(-1, vm.features), rows])
    found = {}
    for part, size in (("Q", vm.head_dim), ("K", vm.head_dim), ("V", vm.features)):
        W = rng.normal(size=(heads, size, vm.features))
        W *= 0.99 * vm.bounds["w_max"] / np.abs(W).max()
        largest = np.abs(np.einsum("nd,mrd->mnr", data, W)).max()
        found[f"W_{part}"] = W * min(1.0, 0.99 * vm.bounds[f"{part.lower()}_max"] / largest)
    return vm.program(**found, **more)


def data(vm: ww.Interpreter, rng: np.random.Generator, n: int, batch: tuple[int, ...] = ()) -> torch.Tensor:
    x = vm.bounds["x_max"] * rng.uniform(-1, 1, (*batch, n, vm.features))
    return torch.tensor(x, dtype=vm.net.dtype)


OPTIONS = [
    {}, {"form": "stacked"}, {"dtype": "float32"}, {"dtype": "float32", "form": "stacked"},
    {"x_max": 3.0, "k_max": 2.0, "q_max": 8.0, "v_max": 1.0, "w_max": 0.7},
]  # fmt: skip


@pytest.mark.few(2)
@pytest.mark.parametrize("number", range(len(OPTIONS)))
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 6), heads=st.integers(1, 2), r=st.integers(0, 3))
def test_programs_stay_within_the_bound(number: int, seed: int, n: int, heads: int, r: int) -> None:
    vm, rng = built(**OPTIONS[number]), np.random.default_rng(seed)
    before = vm.fingerprint
    x = data(vm, rng, n)
    rows = np.asarray(data(vm, rng, r).double()) if r else None
    sees = rng.random((n, r + n)) < 0.6
    sees[np.arange(n), r + np.arange(n)] = True
    program = random_program(vm, x.double().numpy(), rng, heads, rows=rows, sees=sees if seed % 2 else None)
    error = np.abs(vm(x, program).double().numpy() - program.run(x.double().numpy())).max()
    assert error <= vm.certificate.bound
    assert vm.fingerprint == before


@pytest.mark.few(3)
@pytest.mark.parametrize("number", range(len(OPTIONS)))
def test_a_module_is_proven_for_all_programs_from_its_file(number: int, tmp_path: Any) -> None:
    vm = built(**OPTIONS[number])
    assert vm.certificate.status == "PROVEN"
    vm.save(tmp_path / "vm.safetensors")
    assert ww.check(tmp_path / "vm.safetensors").status == "PROVEN"
    back = ww.Interpreter.load(tmp_path / "vm.safetensors")
    assert back.fingerprint == vm.fingerprint
    rng = np.random.default_rng(0)
    x = data(vm, rng, 5)
    program = random_program(vm, x.double().numpy(), rng, 2)
    assert torch.equal(back(x, program), vm(x, program))


def test_a_batch_may_hold_a_program_for_every_item() -> None:
    vm, rng = built(), np.random.default_rng(1)
    x = data(vm, rng, 4, (5,))
    programs = [
        random_program(vm, x[i].numpy(), rng, 1 + i % 2, rows=data(vm, rng, i % 3).numpy() if i % 3 else None)
        for i in range(5)
    ]
    together = vm(x, programs)
    for i, program in enumerate(programs):
        assert np.abs(together[i].numpy() - program.run(x[i].numpy())).max() <= vm.certificate.bound
    with pytest.raises(ValueError, match="2 programs go with a batch of as many"):
        vm(x, programs[:2])


@pytest.mark.parametrize("form", ["embedding", "stacked"])
def test_the_order_of_tokens_is_the_order_of_outputs(form: str) -> None:
    """Remark 4.1."""
    vm, rng = built(form=form), np.random.default_rng(2)
    x = data(vm, rng, 6)
    program = random_program(vm, x.numpy(), rng, 2, rows=data(vm, rng, 2).numpy())
    order = torch.tensor(rng.permutation(6))
    assert torch.allclose(vm(x[order], program), vm(x, program)[order], rtol=0, atol=2 * vm.certificate.bound)
    assert not torch.allclose(vm(x, program), vm(x, program)[order], atol=1e-3)


@pytest.mark.parametrize("form", ["embedding", "stacked"])
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), order=st.permutations(range(6)), rows=st.integers(0, 3))
def test_any_order_of_tokens_is_the_order_of_outputs(form: str, seed: int, order: list[int], rows: int) -> None:
    vm, rng = built(form=form), np.random.default_rng(seed)
    x = data(vm, rng, 6)
    program = random_program(vm, x.numpy(), rng, 2, rows=data(vm, rng, rows).numpy() if rows else None)
    assert float((vm(x[order], program) - vm(x, program)[order]).abs().max()) <= 2 * vm.certificate.bound


def test_attention_of_torch_is_a_program() -> None:
    """With several heads, causal and not, biases in a feature that is 1."""
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(4, 2, batch_first=True).double().eval().requires_grad_(False)
    vm = ww.Interpreter(tokens=5, features=5, head_dim=3, heads=2, w_max=2.0)
    x = torch.rand(5, 4, dtype=torch.float64) * 2 - 1
    program = ww.interpreter.from_torch(vm, layer)
    ones = torch.cat([x, torch.ones(5, 1, dtype=torch.float64)], dim=1)
    wanted = layer(x[None], x[None], x[None], need_weights=False)[0][0]
    assert float((vm(ones, program)[:, :4] - wanted).abs().max()) <= vm.certificate.bound
    causal = ww.interpreter.from_torch(vm, layer, sees="causal")
    mask = nn.Transformer.generate_square_subsequent_mask(5, dtype=torch.float64)
    wanted = layer(x[None], x[None], x[None], need_weights=False, attn_mask=mask)[0][0]
    assert float((vm(ones, causal)[:, :4] - wanted).abs().max()) <= vm.certificate.bound


W = np.eye(3)[:2]
REFUSED = {
    "weights too large": (lambda vm: vm.program(3 * W, W, W), "W_Q has an entry of 3, beta and W_O included"),
    "beta": (lambda vm: vm.program(W, W, W, beta=5.0), "W_Q has an entry of 5"),
    "beta is no number": (lambda vm: vm.program(W, W, W, beta=np.nan), "beta must be a finite number"),
    "not finite": (lambda vm: vm.program(W, np.nan * W, W), "W_K has an entry that is no finite number"),
    "features": (lambda vm: vm.program(np.eye(4), W, W), r"W_Q must be \(size, 3\)"),
    "head size": (lambda vm: vm.program(np.eye(3), W, W), "W_Q has 3 rows, and .* head_dim=2"),
    "heads": (lambda vm: vm.program(W, np.stack([W] * 3), W), "W_K has 3 heads, and .* heads=2"),
    "rows": (lambda vm: vm.program(W, W, W, rows=np.zeros((4, 3))), "4 rows, and the interpreter was built for rows=3"),
    "large rows": (lambda vm: vm.program(W, W, W, rows=np.full((1, 3), 2.0)), "rows has an entry of 2, above x_max=1"),
    "sees": (lambda vm: vm.program(W, W, W, sees="all"), "sees must be 'causal' or truth values, not 'all'"),
    "sees nothing": (lambda vm: vm.program(W, W, W, sees=np.zeros((2, 2), dtype=bool)), "token 0 sees no token"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_programs_that_do_not_fit_are_refused(name: str) -> None:
    make, said = REFUSED[name]
    with pytest.raises((ValueError, ww.DomainError), match=said):
        make(built())


@pytest.mark.parametrize(
    ("x", "said"),
    [
        (torch.zeros(7, 3), "x has 7 tokens, and the interpreter was built for tokens=6"),
        (torch.zeros(4, 2), r"x must have shape \(..., tokens, 3\), not \(4, 2\)"),
        (torch.full((2, 3), 1.5), "x has an entry of 1.5, outside x_max=1"),
        (torch.full((2, 3), torch.nan), "x has an entry of nan, outside x_max=1"),
        ([[0.0] * 3], "x must be a torch tensor, not list"),
    ],
)
def test_data_that_does_not_fit_is_refused(x: Any, said: str) -> None:
    vm = built()
    with pytest.raises((ValueError, TypeError, ww.DomainError), match=said):
        vm(x, vm.program(W, W, W))


def test_a_program_that_leaves_the_bounds_on_this_data_is_refused() -> None:
    vm = built(k_max=2.0, q_max=2.0, v_max=2.0)
    large = np.full((2, 3), 1.5)
    program = vm.program(large, W, W)
    assert np.isfinite(vm(torch.full((2, 3), 0.4, dtype=torch.float64), program).numpy()).all()
    with pytest.raises(ww.DomainError, match=r"an entry of W_Q x is 2.7 \(token 1 of the prompt\), above q_max=2"):
        vm(torch.tensor([[0.1, 0.1, 0.1], [0.6, 0.6, 0.6]], dtype=torch.float64), program)
    assert not vm.fits(program, (-1, 1))
    assert vm.fits(program, (-0.4, 0.4))
    assert "head 0: |W_Q x| up to 4.5 of q_max = 2, depends on the data" in vm.explain(program)


def test_codes_that_say_nothing_are_refused() -> None:
    vm = built()
    prompt = vm.prompt(torch.zeros(2, 3, dtype=torch.float64), vm.program(W, W, W))
    assert np.isfinite(vm.net(prompt).numpy()).all()
    for value in (0.5, 1.0):
        wrong = prompt.clone()
        wrong[0, -2 * vm.sizes.codes : -vm.sizes.codes] = value
        with pytest.raises(ww.DomainError, match="the codes of a prompt do not say who sees whom"):
            vm.net(wrong)


def test_unwatched_modules_say_what_they_lean_on() -> None:
    vm = built(tokens=4, rows=1)
    net = ww.AttentionNetwork(vm.net.network, vm.net.said, on_domain="ignore")
    assert net.certificate.status == "CONDITIONAL"
    assert "w.x lies between lo and hi of its claim" in net.certificate.why


@pytest.mark.slow
def test_a_tolerance_out_of_reach_is_refused_with_the_best_bound() -> None:
    with pytest.raises(ww.ToleranceError, match="tol=1e-09 cannot be proven in float32") as refusal:
        ww.Interpreter(4, 2, 2, dtype="float32", tol=1e-9)
    assert refusal.value.best is not None
    assert ww.Interpreter(4, 2, 2, dtype="float32", tol=refusal.value.best).certificate.bound <= refusal.value.best


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tokens": 0}, "tokens must be a whole number of at least 1, not 0"),
        ({"k_max": -1.0}, "k_max must be a positive number"),
        ({"x_max": float("nan")}, "x_max must be a positive number"),
        ({"form": "rows"}, "form must be 'embedding' or 'stacked', not 'rows'"),
        ({"dtype": "bfloat16"}, "dtype must be 'float64' or 'float32'"),
    ],
)
def test_modules_that_cannot_be_built(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        ww.Interpreter(**{"tokens": 4, "features": 2, "head_dim": 2} | options)


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "largest"), [("float64", 1e-8), ("float32", 1e-3)])
def test_a_thousand_programs_of_sixteen(dtype: str, largest: float) -> None:
    vm, rng, worst = ww.Interpreter(64, 16, 16, dtype=dtype), np.random.default_rng(3), 0.0
    before = vm.fingerprint
    for _ in range(1000):
        x = data(vm, rng, 64)
        program = random_program(vm, x.double().numpy(), rng, 1)
        worst = max(worst, np.abs(vm(x, program).double().numpy() - program.run(x.double().numpy())).max())
    print(f"{dtype}: largest error {worst:.3g} of 1,000 programs, bound {vm.certificate.bound:.3g}")
    assert worst <= min(largest, vm.certificate.bound)
    assert vm.fingerprint == before


@pytest.mark.slow
def test_the_papers_anchors_are_proven_too_and_far_worse() -> None:
    """Evenly spaced anchors at the paper's temperature, beside ours with fewer."""
    bounds = {"x_max": 1.0, "w_max": 2.0, "k_max": 2.0, "q_max": 2.0, "v_max": 2.0}
    faithful = ww.Interpreter(4, 2, 2, method="faithful", anchors=13, grid=4.0, **bounds)
    ours = ww.Interpreter(4, 2, 2, anchors=12, **bounds)
    assert faithful.certificate.status == ours.certificate.status == "PROVEN"
    assert faithful.certificate.bound > 1e6 * ours.certificate.bound
    rng = np.random.default_rng(0)
    x = data(faithful, rng, 4)
    program = random_program(faithful, x.numpy(), rng, 1)
    assert np.abs(faithful(x, program).numpy() - program.run(x.numpy())).max() <= faithful.certificate.bound
    with pytest.raises(ValueError, match="method must be 'spectral', or 'faithful' with a grid"):
        ww.Interpreter(4, 2, 2, grid=4.0)


@pytest.mark.parametrize("form", ["embedding", "stacked"])
@pytest.mark.parametrize("sizes", [(6, 3, 2, 2, 3), (2, 1, 3, 1, 0), (18, 4, 1, 3, 2)])
def test_costs_are_formulas_of_the_sizes(form: Any, sizes: tuple[int, ...]) -> None:
    tokens, features, head_dim, heads, rows = sizes
    vm = built(tokens=tokens, features=features, head_dim=head_dim, heads=heads, rows=rows, form=form, anchors=5)
    said, found = vm.cost, vm.net.cost
    assert (said.layers, said.heads, said.parameters) == (found.layers, found.heads, found.parameters)
    assert said.multiply_adds == found.multiply_adds
    assert said.prompt == (vm.net.network.tokens, len(vm.net.network.inputs))
    assert said.width == len(vm.sizes.coordinates)
    rows_of = (head_dim, head_dim, features)
    assert said.anchors == heads * sum(len(t.kappa) * r for t, r in zip(vm.claim.tables, rows_of, strict=True))


def test_what_the_papers_constructions_would_cost() -> None:
    """Of 64 tokens and 16 features, nothing built: 9e8 heads for an error of 1e-3."""
    sizes = Sizes(64, 16, 16, 1, False)
    found = papers_cost(sizes, 64, 4.0, 1e-3)
    assert found.theorem == "AE-9"
    assert 8.9e8 < found.heads < 9.3e8
    stacked = papers_cost(Sizes(64, 16, 16, 1, True), 64, 4.0, 1e-3)
    assert (stacked.theorem, stacked.heads, stacked.prompt) == ("AE-10", 193, (64, 64))
    assert stacked.anchors > 1e9
