"""Ablation that can be predicted, and networks that are made for it."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from support.built import built
from support.torch_zoo.moons import trained_moons, two_moons
from torch import Tensor, nn

import weightwright as ww
from weightwright.circuit.circuit import CircuitEdge, CircuitNode, Slot
from weightwright.circuit.effects import predict_effect
from weightwright.circuit.running_circuit import run_circuit

HEADS = list(itertools.product(range(2), range(16)))


@functools.cache
def moons(ablatable: bool = False) -> tuple[nn.Sequential, ww.AttentionNetwork]:
    return trained_moons(seed=1), built("moons, ablatable" if ablatable else "moons")


@functools.cache
def exported(ablatable: bool):  # type: ignore[no-untyped-def]
    return moons(ablatable)[1].to_transformer_lens(tokens=32)


def points(count: int = 24) -> Tensor:
    return two_moons(count, seed=7)[0].clamp(-2, 3)


@contextmanager
def zeroed(module: nn.Module, kept: float = 0.0) -> Iterator[None]:
    """What a module returns, times `kept`."""
    handle = module.register_forward_hook(lambda module, x, y: kept * y)
    try:
        yield
    finally:
        handle.remove()


#: Whether the network is made for it, and the heads: a few in `make test`.
ABLATED = pytest.mark.parametrize(
    ("ablatable", "heads"),
    [
        (False, HEADS[::5]),
        pytest.param(False, HEADS, marks=pytest.mark.slow),
        pytest.param(True, HEADS, marks=pytest.mark.slow),
    ],
    ids=["few heads", "all heads", "ablatable"],
)


@ABLATED
def test_hooks_do_what_is_predicted(ablatable: bool, heads: list[tuple[int, int]]) -> None:
    _, net = moons(ablatable)
    x = points()
    before = net(x)
    for layer, head in heads:
        with zeroed(net.layers[layer].heads[head]):
            found = (net(x) - before).numpy()
        assert np.abs(found - net.predicted_effect((layer, head), x).change).max() <= 1e-9


@ABLATED
def test_transformer_lens_does_what_is_predicted(ablatable: bool, heads: list[tuple[int, int]]) -> None:
    pytest.importorskip("transformer_lens")
    _, net = moons(ablatable)
    export, x = exported(ablatable), points()
    stream, registers = export.residual(x), len(net.network.registers)
    before = export.model(stream, start_at_layer=0)[0, registers:]
    for layer, head in heads:

        def drop(z: Tensor, hook: object, head: int = head) -> Tensor:
            return z.index_fill(2, torch.tensor([head]), 0.0)

        hooks = [(f"blocks.{layer}.attn.hook_z", drop)]
        after = export.model.run_with_hooks(stream, start_at_layer=0, fwd_hooks=hooks)[0, registers:]
        predicted = net.predicted_effect(f"L{layer}H{head}", x).change
        assert np.abs((after - before).numpy() - predicted).max() <= 1e-9


def test_zeroing_a_head_is_zeroing_its_neuron() -> None:
    module, net = moons(ablatable=True)
    bound, x = net.certificate.bound, points(200)
    for layer, head in HEADS:
        kept = (torch.arange(16) != head).double()
        handle = module[2 * layer + 1].register_forward_hook(lambda m, i, y, kept=kept: y * kept)
        wanted = module(x)
        handle.remove()
        with zeroed(net.layers[layer].heads[head]):
            assert float((net(x) - wanted).abs().max()) <= bound


@pytest.mark.parametrize("seed", range(6))
def test_any_set_of_heads_may_be_zeroed(seed: int) -> None:
    """Corners of the domain, where ranges are reached, and every other head or so returns 0."""
    module, net = moons(ablatable=True)
    rng = np.random.default_rng(seed)
    x = torch.tensor(np.where(rng.random((200, 2)) < 0.5, -2.0, 3.0)) if seed % 2 else points(200)
    kept = torch.tensor(rng.random((2, 16)) < rng.uniform(0.2, 0.9)).double()
    handles = [module[2 * i + 1].register_forward_hook(lambda m, _, y, i=i: y * kept[i]) for i in range(2)]
    wanted = module(x)
    for handle in handles:
        handle.remove()
    off = [(layer, head) for layer, head in HEADS if not kept[layer, head]]
    effect = net.predicted_effect(off, x)
    assert np.abs(net(x).numpy() + effect.change - wanted.numpy()).max() <= net.certificate.bound + 1e-12
    assert effect.inside.all()
    assert effect.left == ()


def test_roles_say_what_a_head_contributes() -> None:
    """A kink at the end of a range is built from the other side: removing the head leaves x, and its role says so."""
    module = nn.Sequential(nn.Linear(1, 1), nn.ReLU()).double().eval()
    module.requires_grad_(False)
    module[0].weight[:], module[0].bias[:] = 1.0, 0.0
    x = torch.linspace(-0.5, 4, 19, dtype=torch.float64)[:, None]
    net = ww.compile(module, (-0.5, 4), 1e-6)
    role = net.network.layers[0].heads[0].role
    assert role == "relu(x) - x of x[0], beside x in the stream"
    assert net.circuit()["L0H0"].function == "relu(x) - x"
    assert np.abs(net.predicted_effect(role, x).change - (x - x.relu()).numpy()).max() <= 1e-6
    bare = ww.compile(module, (-0.5, 4), 1e-6, ablatable=True)
    assert bare.network.layers[0].heads[0].role == "relu(x) of x[0]"
    assert np.abs(bare.predicted_effect("L0H0", x).change + x.relu().numpy()).max() <= 1e-6


def test_means_and_numbers_stand_in_for_a_head() -> None:
    _, net = moons(ablatable=True)
    x, circuit = points(), net.circuit()
    results = run_circuit(circuit, x.numpy()).results["L1H4"]
    mean = net.predicted_effect("L1H4", x, ablation="mean").change
    assert np.allclose(mean, net.predicted_effect("L1H4", x, ablation=float(results.mean())).change, atol=1e-12)
    weights = np.array(
        [edge.coefficient for m in range(2) for edge in circuit.into(f"out[{m}]") if edge.source == "L1H4"]
    )
    assert np.allclose(mean, (results.mean() - results) * weights, atol=1e-12)


def test_leaving_the_proven_ranges_is_said() -> None:
    _, net = moons()
    x = points()
    far = net.predicted_effect("L0H0", x, ablation=1e3)
    assert not far.inside.all()
    assert far.left
    assert set(far.left) <= {f"L1H{i}" for i in range(16)}
    assert "outside the proven ranges of L1H" in repr(far)
    assert "inside all proven ranges" in repr(net.predicted_effect("L1H0", x))


@pytest.mark.parametrize(
    ("head", "ablation", "message"),
    [
        ("L9H9", "zero", "head='L9H9': no head is called so; name it as one of L0H0"),
        ((0, 99), "zero", "no head is called so"),
        ("L0H0", "half", "ablation must be 'zero', 'mean' or numbers, not 'half'"),
        ("L0H0", [1.0, 2.0], "L0H0 returns 1 numbers"),
        ("L0H0", float("nan"), "ablation=nan"),
    ],
)
def test_what_cannot_be_ablated_is_refused(head: str, ablation: object, message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        moons()[1].predicted_effect(head, points(), ablation=ablation)  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", [(2,), (3, 1), (3, 3)])
def test_an_effect_is_of_inputs_that_the_network_takes(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"x must have shape \(..., tokens, 2\)"):
        moons()[1].predicted_effect("L0H0", torch.zeros(shape))


def test_heads_in_a_loop_are_ablated_in_every_pass() -> None:
    from support.zoo import ZOO

    net = ww.AttentionNetwork(ZOO["looped"]())
    x = torch.randn(2, 5, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    before = net(x)
    with zeroed(net.layers[0].layers[0].heads[0]):
        found = (net(x) - before).numpy()
    assert np.abs(found).max() > 0.1
    assert np.abs(found - net.predicted_effect("L0/L0H0", x).change).max() <= 1e-9


FUNCTIONS = {
    "abs": lambda x: torch.abs(x),
    "leaky relu": lambda x: nn.functional.leaky_relu(x),
    "clamp": lambda x: x.clamp(-0.5, 0.75),
    "silu by hand": lambda x: x * torch.sigmoid(x),
    "product": lambda x: torch.tanh(x[:, :1]) * torch.exp(x[:, 1:]),
    "softmax": lambda x: torch.softmax(torch.sin(x), -1),
    "chain": lambda x: torch.exp(torch.sin(torch.tanh(x))),
}


@pytest.mark.few(3)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_ablatable_functions_are_proven_and_bare(name: str) -> None:
    net = ww.compile(FUNCTIONS[name], (-1, 1), 1e-5, features=2, ablatable=True)
    said = net.certificate
    assert said.status == "PROVEN"
    assert said.composite is not None
    assert said.composite.ablatable
    assert all((part.mean, part.slope, len(part.heads)) == (0.0, 0.0, 1) for part in said.composite.parts)
    x = torch.rand(50, 2, generator=torch.Generator().manual_seed(2), dtype=torch.float64) * 2 - 1
    assert float((net(x) - FUNCTIONS[name](x)).abs().max()) <= said.bound


def test_ablatable_comes_back_from_a_file(tmp_path) -> None:  # type: ignore[no-untyped-def]
    net = ww.compile(FUNCTIONS["product"], (-1, 1), 1e-5, features=2, ablatable=True)
    net.save(tmp_path / "net.safetensors")
    back = ww.load(tmp_path / "net.safetensors")
    assert back.certificate.status == "PROVEN"
    assert back.certificate.composite.ablatable


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ablatable": 1}, "ablatable must be True or False, not 1"),
        ({"ablatable": True, "proof": "measured"}, "goes with kernel='dot' and proof='proven'"),
        ({"ablatable": True, "kernel": "anchor"}, "goes with kernel='dot' and proof='proven'"),
    ],
)
def test_options_that_do_not_go_together(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ww.compile(torch.sin, (-1, 1), 1e-3, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("made", ["formula", "compiled"])
def test_a_dead_zone_is_no_proven_range(made: str) -> None:
    """What a head of a jump adds is its function outside the intervals that the circuit leaves open, and only there."""
    if made == "formula":
        net = ww.approximate("sign(x - 0.25)", (-1, 1), 1e-6, dead_zone=0.125, on_domain="ignore")
    else:
        net = ww.compile(lambda x: torch.sign(x - 0.25), (-1, 1), 1e-6, dead_zone=0.125, on_domain="ignore")
    x = torch.linspace(-1, 1, 400, dtype=torch.float64)[:, None]
    head = net.circuit()["L0H0"]
    ((start, end),) = head.left_open
    assert head.proven[0][0] < start < end < head.proven[0][1]
    off = (net(x) - torch.sign(x - 0.25)).abs().numpy()[:, 0] > net.certificate.bound
    assert off.any()
    effect = net.predicted_effect("L0H0", x)
    zone = ((x - 0.25).abs() < 0.125).numpy()[:, 0]
    assert not effect.inside[zone].any()
    assert effect.inside[~zone].all()
    assert (off <= zone).all()


def test_a_pass_that_leaves_a_range_is_seen() -> None:
    """A loop that adds 1 three times to what its head reads: the first pass is below the range, the last is in it."""
    head = CircuitNode(
        "L0H0", "head", slots=(Slot("query[0]"),), results=("result[0]",), keys=((0.0,),), values=((1.0,),),
        proven=((0.5, 10.0),),
    )  # fmt: skip
    nodes = (
        CircuitNode("s", "input", results=("s",)), head, CircuitNode("t", "output", slots=(Slot("t"),), results=("t",))
    )  # fmt: skip
    edges = tuple(CircuitEdge(a, 0, b, 0, "s", 1.0) for a, b in (("s", "L0H0"), ("s", "t"), ("L0H0", "t")))
    body = ww.Circuit("a pass", "float64", None, nodes, edges)
    loop = CircuitNode("L0", "loop", slots=(Slot("s"),), results=("t",), times=3, body=body)
    outer = (nodes[0], loop, nodes[2])
    edges = tuple(CircuitEdge(a, 0, b, 0, "s", 1.0) for a, b in (("s", "L0"), ("L0", "t")))
    circuit = ww.Circuit("three passes", "float64", None, outer, edges)
    effect = predict_effect(circuit, "L0/L0H0", np.array([[0.25], [0.75]]), ablation=1.0)
    assert np.array_equal(effect.change, np.zeros((2, 1)))
    assert effect.inside.tolist() == [False, True]
    assert effect.left == ("L0/L0H0",)
