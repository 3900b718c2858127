"""torch functions and modules become the same expressions as formulas."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

import weightwright as ww
from weightwright.approximation.formula_of_torch import trace
from weightwright.expressions import to_text

CASES: list[tuple[Callable[..., Any], str]] = [
    (torch.tanh, "tanh(x)"),
    (torch.sin, "sin(x)"),
    (nn.GELU(), "gelu(x)"),
    (nn.Sigmoid(), "sigmoid(x)"),
    (nn.Tanh(), "tanh(x)"),
    (nn.SiLU(), "silu(x)"),
    (nn.ReLU(), "relu(x)"),
    (nn.Softplus(), "softplus(x)"),
    (F.silu, "silu(x)"),
    (F.softplus, "softplus(x)"),
    (F.relu, "relu(x)"),
    (lambda x: torch.sin(5 * x), "sin(5*x)"),
    (lambda x: x.exp() + x.sqrt(), "exp(x) + sqrt(x)"),
    (lambda x: x**2 - 1, "x**2 - 1"),
    (lambda x: 2**x, "2**x"),
    (lambda x: torch.pow(x, 3), "x**3"),
    (lambda x: 1 / (1 + 25 * x**2), "1/(1 + 25*x**2)"),
    (lambda x: -abs(x), "-abs(x)"),
    (lambda x: torch.clamp(x, -0.5, 0.5), "clip(x, -0.5, 0.5)"),
    (lambda x: x.clamp(min=0.25), "max(x, 0.25)"),
    (lambda x: torch.clip(x, max=0.25), "min(x, 0.25)"),
    (lambda x: torch.maximum(x, 0 * x), "max(x, 0*x)"),
    (lambda x: torch.tensor(2.0) * x, "2*x"),
    (lambda x: x * torch.tensor(2.0), "x*2"),
    (lambda x: torch.tensor(3.0) - x, "3 - x"),
    (lambda x: torch.sub(1, x), "1 - x"),
    (lambda x: torch.square(x) + torch.rsqrt(x), "x**2 + 1/sqrt(x)"),
    (lambda x: torch.special.erf(x) + torch.special.expit(x), "erf(x) + sigmoid(x)"),
    (lambda x: -0.5 * x, "-0.5*x"),
    (lambda x: torch.add(x, x, alpha=2), "x + 2*x"),
]


@pytest.mark.parametrize(("function", "text"), CASES, ids=[text for _, text in CASES])
def test_tracing(function: Callable[..., Any], text: str) -> None:
    assert to_text(trace(function)) == text


def test_python_floats_are_traced_exactly() -> None:
    assert to_text(trace(lambda x: 0.1 * x)) == "0.1000000000000000055511151231257827021181583404541015625*x"


def test_a_traced_function_is_approximated() -> None:
    net = ww.approximate(torch.tanh, domain=(-4, 4), tol=1e-6)
    x = torch.linspace(-4, 4, 1001, dtype=torch.float64)[:, None]
    assert net.certificate.status == "PROVEN"
    assert (net(x) - torch.tanh(x)).abs().max() <= 1e-6
    assert len(net.network.registers) == 2


def data_dependent(x: Any) -> Any:
    return x if x > 0 else -x


UNSUPPORTED: list[tuple[Callable[..., Any], str]] = [
    (data_dependent, "comparison"),
    (lambda x: x if x else -x, "decides by the value"),
    (lambda x: math.sin(x), "plain number"),
    (lambda x: torch.where(x == 0, x, x), "comparison"),
    (lambda x: torch.cumsum(x, 0), "'cumsum' cannot be traced"),
    (lambda x: x.sum(), "sum cannot be traced"),
    (lambda x: F.gelu(x, approximate="tanh"), "erf form"),
    (lambda x: x * torch.ones(3), "Tensor, not a number"),
    (lambda x: float("inf") * x, "not finite"),
    (lambda x: None, "NoneType"),
]


@pytest.mark.parametrize(("function", "reason"), UNSUPPORTED)
def test_what_cannot_be_traced_is_named(function: Callable[..., Any], reason: str) -> None:
    with pytest.raises(ww.UnsupportedOperation, match=reason):
        trace(function)


def test_a_function_that_explodes_when_written_out_is_refused() -> None:
    def squares(x: Any) -> Any:
        for _ in range(60):
            x = x * x
        return x

    with pytest.raises(ww.UnsupportedOperation, match="operations written out"):
        trace(squares)
