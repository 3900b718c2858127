"""torch.compile, torch.func and torch.export on networks of every kind: the same numbers, the same refusals, and a
status that says what was not looked at."""

from __future__ import annotations

import copy
import subprocess
import sys

import numpy as np
import pytest
import torch
from support.zoo import ZOO
from torch import nn
from torch.func import functional_call, grad, jacfwd, jacrev, vmap

import weightwright as ww

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")  # torch's own
#: What a difference in the order of sums may be here: numbers of size 1 in float64.
ROUNDING = 1e-12


def relu_network(**options: object) -> ww.AttentionNetwork:
    torch.manual_seed(3)
    module = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2)).double()
    return ww.compile(module, (-1, 1), 1e-4, features=2, **options)


def draw(network: object, *batch: int) -> torch.Tensor:
    shape = (*batch, network.tokens or 6, len(network.inputs))  # type: ignore[attr-defined]
    return torch.tensor(np.random.default_rng(0).uniform(-1, 1, shape))


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name == "literal" else pytest.mark.slow) for name in ZOO],
)
def test_every_network_in_one_graph(name: str) -> None:
    net = ww.AttentionNetwork(ZOO[name]())
    x = draw(net.network)
    compiled = torch.compile(net, backend="aot_eager", fullgraph=True)
    assert (compiled(x) - net(x)).abs().max() <= ROUNDING


@pytest.mark.parametrize("name", ZOO)
def test_every_network_mapped_and_differentiated(name: str) -> None:
    net = ww.AttentionNetwork(ZOO[name]())
    x = draw(net.network, 3)
    assert (vmap(net)(x) - torch.stack([net(one) for one in x])).abs().max() <= ROUNDING
    forwards, backwards = vmap(jacfwd(net))(x), vmap(jacrev(net))(x)
    assert (forwards - backwards).abs().max() <= ROUNDING
    if name != "constant":
        plainly = torch.autograd.functional.jacobian(net, x[0])
        assert (plainly - backwards[0]).abs().max() <= ROUNDING


def test_the_compiled_network_refuses_what_the_network_refuses() -> None:
    net = relu_network()
    compiled = torch.compile(net, backend="aot_eager", fullgraph=True)
    x = draw(net.network)
    assert (compiled(x) - net(x)).abs().max() <= ROUNDING
    with pytest.raises(ww.DomainError, match=r"'x\[1\]' of token 2 is 1.5, outside \[-1.0, 1.0\], off by 0.5"):
        compiled(x.index_put((torch.tensor(2), torch.tensor(1)), torch.tensor(1.5, dtype=x.dtype)))
    torch.set_flush_denormal(True)
    try:
        with pytest.raises(ww.CertificateError, match="set_flush_denormal"):
            compiled(x)
    finally:
        torch.set_flush_denormal(False)
    with torch.autocast("cpu", dtype=torch.bfloat16), pytest.raises(ww.CertificateError, match="autocast is on"):
        torch.compile(net, backend="aot_eager")(x)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "on_domain", ["raise", *(pytest.param(name, marks=pytest.mark.slow) for name in ("clamp", "ignore"))]
)
def test_inputs_are_admitted_under_every_transform(on_domain: str) -> None:
    net = ww.approximate("sin(5*x)", (-1, 1), 1e-6, on_domain=on_domain)
    inside, outside = torch.tensor([[[0.5], [-0.25]], [[0.0], [1.0]]]).double(), torch.full((2, 1, 1), 1.5).double()

    def slope(x: torch.Tensor) -> torch.Tensor:
        return grad(lambda x: net(x).sum())(x)

    def plain_slope(x: torch.Tensor) -> torch.Tensor:
        x = x.detach().requires_grad_()
        return torch.autograd.grad(net(x).sum(), x)[0]

    compiled = torch.compile(net, backend="aot_eager", fullgraph=True)
    ways = (vmap(net), vmap(net, in_dims=1, out_dims=1), compiled)
    for x in (inside, outside):
        if on_domain == "raise" and x is outside:
            for way in (*ways, vmap(slope)):
                with pytest.raises(ww.DomainError, match=r"1\.5, outside"):
                    way(x)
            continue
        assert all((way(x) - net(x)).abs().max() <= ROUNDING for way in ways)
        assert (vmap(slope)(x) - plain_slope(x)).abs().max() <= ROUNDING
        traced = x.clone().requires_grad_()
        assert (torch.autograd.grad(compiled(traced).sum(), traced)[0] - plain_slope(x)).abs().max() <= ROUNDING


def test_what_is_compiled_is_not_what_was_proven() -> None:
    net, x = relu_network(), torch.zeros(1, 2, dtype=torch.float64)
    compiled = torch.compile(net, backend="aot_eager")
    assert net.certificate.status == "PROVEN"
    compiled(x)
    assert compiled.certificate.status == net.certificate.status == "CONDITIONAL"
    assert "torch.compile" in net.certificate.why
    assert copy.deepcopy(net).certificate.status == "PROVEN"  # no code was made for the copy
    second = relu_network()
    torch.compile(second, backend="aot_eager")(x)  # by the code that was made for the first
    assert second.certificate.status == "CONDITIONAL"
    inner = relu_network()
    inner.compile(backend="aot_eager")
    assert inner.certificate.status == "EDITED"  # its own call runs other code now
    assert copy.deepcopy(inner).certificate.status == "PROVEN"  # which the copy does not have


@pytest.mark.slow
def test_the_compiled_network_runs_the_weights_as_they_are_now() -> None:
    net = relu_network()
    compiled = torch.compile(net, backend="aot_eager", fullgraph=True)
    x = draw(net.network)
    before = compiled(x)
    net.layers[0].heads[0].W_O.mul_(3.0)
    net.registers.data[:, -1] += 0.5
    assert (compiled(x) - net(x)).abs().max() <= ROUNDING
    assert (compiled(x) - before).abs().max() > 1e-3


def test_nothing_that_is_kept_belongs_to_a_transform() -> None:
    """What a network derives from its weights at its first call is used by all others."""
    x = torch.full((2, 1), 0.5, dtype=torch.float64)
    for first in (torch.inference_mode(), torch.no_grad()):
        net = ww.approximate("sin(5*x)", (-1, 1), 1e-3, on_domain="ignore")
        with first:
            y = net(x)
        assert torch.equal(net(x), y)
        assert grad(lambda x, net=net: net(x).sum())(x).shape == x.shape
        net(x.clone().requires_grad_()).sum().backward()
    net = ww.approximate("sin(5*x)", (-1, 1), 1e-3, on_domain="ignore")
    slopes = vmap(grad(lambda x: net(x).sum()))(x[:, None])
    assert torch.equal(vmap(grad(lambda x: net(x).sum()))(x[:, None]), slopes)
    assert (net(x) - torch.sin(5 * x)).abs().max() <= 1e-3


def test_weights_can_be_transformed_too() -> None:
    net = relu_network().trainable()
    weights, x = dict(net.named_parameters()), torch.full((3, 2), 0.5, dtype=torch.float64)

    def loss(weights: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        return functional_call(net, weights, (x,)).square().sum()

    slopes = grad(loss)(weights, x)
    net(x).square().sum().backward()
    for name, weight in net.named_parameters():
        assert (slopes[name] - weight.grad).abs().max() <= ROUNDING * max(1, slopes[name].abs().max()), name
    stacked = {name: torch.stack([weight, 2 * weight]) for name, weight in weights.items()}
    losses = vmap(loss, in_dims=(0, None))(stacked, x)
    assert losses[0] != losses[1]
    assert abs(losses[0] - loss(weights, x)) <= ROUNDING * abs(losses[0])


@pytest.mark.slow
def test_torch_export() -> None:
    net, x = relu_network(), draw(relu_network().network)
    assert (torch.export.export(net, (x,)).module()(x) - net(x)).abs().max() <= ROUNDING


@pytest.mark.slow
def test_the_default_backend() -> None:
    net = relu_network()
    x = draw(net.network, 100)
    assert (torch.compile(net, fullgraph=True)(x) - net(x)).abs().max() <= net.said.terms.rounding * 2


MILLION = """
import resource, sys, time, torch
from torch import nn
import weightwright as ww

torch.set_num_threads(1)
torch.manual_seed(0)
module = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2)).double()
nets = {
    "one layer": (lambda: ww.approximate("sin(5*x)", (-1, 1), 1e-8), (1_000_000, 1, 1)),
    "compiled": (lambda: ww.compile(module, (-1, 1), 1e-6, features=2), (1_000_000, 1, 2)),
    "tokens": (lambda: ww.compile(lambda x: torch.softmax(x @ x.mT, -1) @ x, (-1, 1), 1e-6, features=2, tokens=16),
               (100_000, 16, 2)),
}
make, shape = nets[sys.argv[1]]
net, x = make(), torch.rand(shape, dtype=torch.float64)
net(x[:10])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with torch.no_grad():
    y = net(x)
assert torch.equal(y[-5:], net(x[-5:])) or (y[-5:] - net(x[-5:])).abs().max() < 1e-12
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**10)
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["one layer", "compiled", "tokens"])
def test_a_million_inputs_take_little_memory(kind: str) -> None:
    """The scores alone would take 136 MB, 512 MB and 205 MB."""
    done = subprocess.run([sys.executable, "-c", MILLION, kind], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 256
