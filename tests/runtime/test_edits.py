"""A network that was changed says so: what runs is what is saved, exported, hashed and checked, whoever changed it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.built import copied
from support.edits import edit_every_weight, places, written
from support.forging import measured
from support.zoo import ZOO

import weightwright as ww
from weightwright.export.compare import samples


def of_zoo(name: str) -> ww.AttentionNetwork:
    network = ZOO[name]()
    return ww.AttentionNetwork(network, measured(network, 1.0, 1, "a test"))


#: Names for networks of `support.built`, of every kind of claim, with weights of every kind.
PROVEN = {
    "formula": "sine, 1e-6",
    "a window": "small window",
    "attention": "self-attention",
    "ablatable": "ablatable exponential",
    "a kink": "kink at 0",
    "compiled": "small layers",
    "a memory": "a memory of numbers",
    "prompt": "a prompt",
    "prompt with a read-out": "a prompt with a read-out",
    "interpreter": "a coarse interpreter",
    "states of their own": "states of their own",
}
NETS: dict[str, Callable[[], ww.AttentionNetwork]] = {
    **{name: (lambda kind=kind: copied(kind)) for name, kind in PROVEN.items()},
    **{name: (lambda name=name: of_zoo(name)) for name in ZOO},
}


def inputs(net: ww.AttentionNetwork) -> torch.Tensor:
    n, d = net.network.tokens or 3, len(net.network.inputs)
    if net.certificate is not None and type(net.certificate.claim).__name__ == "InterpreterClaim":
        return next(samples(net))
    x = np.random.default_rng(2).uniform(-0.05, 0.05, (2, n, d))
    return torch.tensor(x, dtype=net.dtype)


#: Of two kinds of prompt and of states one runs in `make test`.
DEAR = {"prompt with a read-out", "states of their own", "in blocks"}


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in DEAR)) for name in NETS])
def test_editing_any_weight_changes_what_runs_and_what_is_saved_together(name: str, tmp_path: Path) -> None:
    """A head kept keys and values of registers, sparse maps their own cut, the module a second copy for `save`."""
    net = NETS[name]()
    edit_every_weight(net, inputs(net), tmp_path)


@pytest.mark.few(4)
@pytest.mark.parametrize("name", ["formula", "a kink", "compiled", "looped", "in blocks", "masked"])
def test_exports_hold_what_runs(name: str, tmp_path: Path) -> None:
    net = NETS[name]()
    with torch.no_grad():
        for place, module, last in list(places(net)):
            if getattr(module, last).dtype != torch.bool and ".heads" not in place:
                getattr(module, last).data.mul_(1.5)
    net.on_domain = "ignore"
    scale = float(net(inputs(net)).abs().max()) + 1
    assert net.to_torch(tmp_path / "net.py") <= 1e-9 * scale
    assert "EDITED when this was written: the certificate is about" in (tmp_path / "net.py").read_text()
    assert net.to_onnx(tmp_path / "net.onnx") <= 1e-9 * scale


SETTINGS: dict[str, tuple[str, Callable[[Any], None]]] = {
    "beta": ("formula", lambda net: setattr(net.layers[0].heads[0], "beta", 2 * net.layers[0].heads[0].beta)),
    "sees": (
        "sees all",
        lambda net: setattr(net.layers[0].heads[0], "sees", replace(net.layers[0].heads[0].sees, data="earlier")),
    ),
    "residual": ("compiled", lambda net: setattr(net.layers[0], "residual", False)),
    "times": ("looped", lambda net: setattr(next(m for m in net.modules() if hasattr(m, "times")), "times", 5)),
    "over": ("softmaxes", lambda net: setattr(next(m for m in net.modules() if hasattr(m, "over")), "over", "tokens")),
    "no heads": ("formula", lambda net: net.layers[0].heads.__delitem__(0)),
    "a head twice": ("formula", lambda net: net.layers[0].heads.append(net.layers[0].heads[0])),
    "a layer twice": ("formula", lambda net: setattr(net, "layers", torch.nn.ModuleList([*net.layers] * 2))),
    "no layer": ("formula", lambda net: setattr(net, "layers", torch.nn.ModuleList())),
    "another read": ("formula", lambda net: setattr(net, "read", NETS["formula"]().embed)),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_and_layers_are_read_back_too(name: str, tmp_path: Path) -> None:
    kind, edit = SETTINGS[name]
    net = NETS[kind]()
    net(inputs(net))
    edit(net)
    assert net.certificate.status == "EDITED"
    if name == "another read":
        return
    net.save(tmp_path / "net.safetensors")
    net.on_domain = "ignore"
    loaded = ww.load(tmp_path / "net.safetensors")
    assert torch.equal(net(inputs(net)), loaded(inputs(net)))


OTHER_CODE: dict[str, Callable[[Any], Any]] = {
    "a hook": lambda net: net.layers[0].register_forward_hook(lambda _, __, X: X + 1),
    "a hook before": lambda net: net.register_forward_pre_hook(lambda _, x: (2 * x[0],)),
    "a hook of a head": lambda net: net.layers[0].heads[0].register_forward_hook(lambda _, __, X: X + 1),
    "a hook for all": lambda net: torch.nn.modules.module.register_module_forward_hook(lambda _, __, X: None),
    "a method": lambda net: setattr(net.layers[0].heads[0], "forward", lambda X: 0 * X),
    "a module": lambda net: net.layers.__setitem__(0, torch.nn.Identity()),
    "a dtype": lambda net: setattr(net, "registers", net.registers.float()),
    "no number": lambda net: net.embed.C.data.fill_(torch.nan),
}


@pytest.mark.parametrize("name", OTHER_CODE)
def test_what_is_no_network_is_never_proven(name: str, sine: ww.AttentionNetwork, tmp_path: Path) -> None:
    net = ww.AttentionNetwork(sine.network, sine.certificate)
    handle = OTHER_CODE[name](net)
    try:
        assert net.certificate.status == "EDITED"
        assert net.certificate.bound == np.inf
        assert net.check().status == "EDITED"
        if not hasattr(handle, "remove") and name != "a method":
            with pytest.raises(ww.WeightwrightError):
                net.save(tmp_path / "net.safetensors")
    finally:
        if hasattr(handle, "remove"):
            handle.remove()
    if hasattr(handle, "remove"):
        assert net.certificate == sine.certificate
        assert net.certificate.status == "PROVEN"  # what was taken away changes nothing


class Doubling(torch.Tensor):
    """A tensor whose products are twice what its numbers say."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = super().__torch_function__(func, types, args, kwargs or {})
        return made * 2 if "matmul" in func.__name__ else made


class Other(ww.AttentionNetwork):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 0 * x


def set_in_dictionary(module: torch.nn.Module, **values: Any) -> None:
    vars(module).update(values)


UNNOTICED: dict[str, Callable[[Any], Any]] = {
    "a copy of the dictionary": lambda net: written(dict(net.layers[0].heads[0]._buffers)["W_O"]),
    "meta": lambda net: net.to("meta"),
    "all doubled": lambda net: net._apply(lambda weight: 2 * weight),
    "a setting in the dictionary": lambda net: set_in_dictionary(net.layers[0].heads[0], beta=0.5),
    "names": lambda net: setattr(net, "was", replace(net.was, inputs=("q",))),
    "a class": lambda net: setattr(net, "__class__", Other),
    "a method inside": lambda net: setattr(net.layers[0].heads[0], "_on_blocks", lambda X, tables: X),
    "compiled": lambda net: net.compile(backend="eager"),
    "a kind of tensor": lambda net: setattr(net.embed, "C", net.embed.C.as_subclass(Doubling)),
}


@pytest.mark.parametrize("name", UNNOTICED)
def test_what_was_changed_unnoticed_says_so(name: str, sine: ww.AttentionNetwork) -> None:
    """All of these were PROVEN, and computed something else or might have."""
    net = ww.AttentionNetwork(sine.network, sine.certificate)
    UNNOTICED[name](net)
    assert net.certificate.status == "EDITED"
    assert "EDITED" in repr(net)


def test_weights_that_torch_changes_while_they_are_registered_are_no_certified_ones(sine: ww.AttentionNetwork) -> None:
    register = torch.nn.modules.module.register_module_buffer_registration_hook
    handle = register(lambda module, name, weight: None if weight is None else 2 * weight)
    try:
        with pytest.raises(ww.CertificateError, match="another network"):
            ww.AttentionNetwork(sine.network, sine.certificate)
    finally:
        handle.remove()


def test_a_layer_of_another_network_reads_the_registers_of_its_new_one(sine: ww.AttentionNetwork) -> None:
    """It read those of the network that it came from: with another table there, PROVEN and wrong."""
    net, donor = (ww.AttentionNetwork(sine.network, sine.certificate) for _ in range(2))
    x = inputs(net)
    right = net(x)
    donor.registers.mul_(2)
    for graft in (
        lambda: net.layers.__setitem__(0, donor.layers[0]),
        lambda: net.layers[0].heads.__setitem__(0, donor.layers[0].heads[0]),
    ):
        assert not torch.equal(donor(x), right)
        graft()
        assert torch.equal(net(x), right)
        assert net.certificate.status == "PROVEN"


def test_a_head_with_a_method_of_its_own_runs_it(sine: ww.AttentionNetwork) -> None:
    net = ww.AttentionNetwork(ZOO["sees itself"]())
    heads = net.layers[0].heads
    heads.append(copy.deepcopy(heads[0]))  # heads of one table are computed together
    x = inputs(net)
    one = net(x)
    heads[1].forward = lambda X: 0 * X
    assert not torch.equal(net(x), one)


def test_nothing_changes_as_long_as_nothing_is_changed(sine: ww.AttentionNetwork) -> None:
    net = ww.AttentionNetwork(sine.network, sine.certificate)
    assert net.network is sine.network
    list(net.buffers())
    net.state_dict()
    net.eval().requires_grad_(False)
    assert net.network is sine.network
    assert net.certificate.status == "PROVEN"
    kept = net.layers[0].heads[0].W_V.clone()
    net.layers[0].heads[0].W_V.mul_(2)
    assert net.network is net.network is not sine.network
    net.layers[0].heads[0].W_V.copy_(kept)
    assert net.network is sine.network  # undone
    assert net.certificate.status == "PROVEN"


def test_an_output_is_no_view_of_a_weight() -> None:
    """`net(x).add_(1)` wrote to the constant of a map without terms."""
    net = ww.AttentionNetwork(ZOO["constant"]())
    x = torch.zeros(1, len(net.network.inputs), dtype=torch.float64)
    x = x.expand(net.network.tokens or 1, -1)
    before = net(x).clone()
    net(x).add_(1)
    assert torch.equal(net(x), before)


def test_what_is_not_watched_is_assumed() -> None:
    net = copied("a prompt")
    assert net.watchers > 0
    assert net.certificate.status == "PROVEN"
    net.on_domain = "ignore"
    assert net.certificate.status == "CONDITIONAL"
    assert "the states of every token lie in the domain at every pass" in net.certificate.why
    net.on_domain = "raise"
    for module in net.modules():
        module._forward_pre_hooks.clear()
    assert net.certificate.status == "CONDITIONAL"


def test_the_arrays_of_a_network_cannot_be_written_to(sine: ww.AttentionNetwork) -> None:
    """They are read only, and no flag changes that: what `network` says is what runs."""
    for network in (sine.network, copy.deepcopy(sine.network), ZOO["masked"]()):
        for array in (network.registers, network.embed.C, next(network.heads).W_V, next(network.heads).mask):
            if array is not None and array.size:
                with pytest.raises(ValueError, match="WRITEABLE"):
                    array.setflags(write=True)
