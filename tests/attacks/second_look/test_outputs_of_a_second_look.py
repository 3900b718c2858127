"""What a second look by fresh eyes found about outputs: views of weights, and predictions that nobody watched."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import weightwright as ww


def zero_linear() -> nn.Module:
    linear = nn.Linear(2, 2).double()
    nn.init.zeros_(linear.weight)
    return linear


CONSTANT: dict[str, Callable[[], ww.AttentionNetwork]] = {
    "ones": lambda: ww.compile(lambda x: torch.ones_like(x) * 3, (-1, 1), 1e-4, features=1, progress=False),
    "a linear module": lambda: ww.compile(zero_linear(), (-1, 1), 1e-6, progress=False),
    "tokens": lambda: ww.compile(lambda x: torch.ones_like(x) * 3, (-1, 1), 1e-4, tokens=3, features=1, progress=False),
    "a formula": lambda: ww.approximate("3 + 0*x", (-1, 1), 1e-4, progress=False),
}


@pytest.mark.parametrize("name", CONSTANT)
@pytest.mark.parametrize("handed", [False, True])
def test_writing_to_an_output_changes_no_later_one(name: str, handed: bool) -> None:
    net = CONSTANT[name]()
    features, tokens = len(net.network.inputs), net.network.tokens or 5
    x = torch.zeros(2, tokens, features, dtype=torch.float64)
    _ = net.registers if handed else None
    for _ in range(3):  # the first call makes a plan, later ones run by it
        y = net(x)
        wanted = y.clone()
        y[0, 0] -= 100
        assert torch.equal(net(x), wanted)
    one = net(x[:1])
    one += 1
    assert torch.equal(net(x), wanted)


def test_writing_to_an_output_of_an_export_changes_no_later_one(tmp_path: Path) -> None:
    net = CONSTANT["ones"]()
    net.to_torch(tmp_path / "net.py")
    names: dict[str, object] = {"__name__": "net", "__file__": str(tmp_path / "net.py")}
    exec((tmp_path / "net.py").read_text(), names)
    (kind,) = [value for value in names.values() if isinstance(value, type) and issubclass(value, nn.Module)]
    exported, x = kind(), torch.zeros(5, 1, dtype=torch.float64)
    y = exported(x)
    y += 1
    assert torch.equal(exported(x), net(x))


def test_an_interpreter_certifies_nothing_beyond_what_it_watches() -> None:
    vm = ww.Interpreter(tokens=2, features=2, head_dim=1, w_max=2.0, x_max=1.0, k_max=0.5, q_max=0.5, v_max=0.5)
    x = torch.tensor([[1.0, 0.5], [0.25, -1.0]], dtype=torch.float64)
    weights = np.array([[2.0, 2.0]]), np.array([[2.0, -2.0]]), np.array([[1.8, 1.0], [1.7, 1.0]])
    prompt = vm.prompt(x, vm.program(*weights))
    with pytest.raises(ww.DomainError):
        vm.net.certifies(prompt)
    vm.net.on_domain = "ignore"
    assert not vm.net.certifies(prompt).any()
