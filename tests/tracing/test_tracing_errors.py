"""What cannot be traced is refused, with the user's line and with what to write instead."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

import weightwright as ww
from weightwright.tracing.following.traced_function import trace_function

Function = Callable[[Any], Any]


def branch(x: Any) -> Any:
    if x.sum() > 0:
        return x
    return -x


def assigned(x: Any) -> Any:
    out = torch.zeros(4, 2)
    out[0] = x[0]
    return out


def added_to_a_constant(x: Any) -> Any:
    out = torch.zeros(4, 2)
    out += x
    return out


def changed_through_a_view(x: Any) -> Any:
    y = x.clone()
    row = y[0]
    row += 1
    return y.exp()


def loop_until(x: Any) -> Any:
    while x[0, 0] < 1:
        x = x * 2
    return x


#: The function, what the message says, and what it advises; the last line of every message's place is checked too.
LINES: list[tuple[Function, str, str, int]] = [
    (branch, "decides by the value of its input", "torch.relu", 1),
    (loop_until, "decides by the value of its input", "torch.maximum", 1),
    (assigned, "setitem", "torch.stack", 2),
    (added_to_a_constant, "add_", "write y = y \\+ 1", 2),
    (changed_through_a_view, "shares its numbers", "write y = y \\+ 1", 4),
    (lambda x: torch.argsort(x), "argsort cannot be traced", "torch.amax", 0),
    (lambda x: x.argmax(1), "argmax cannot be traced", "torch.amax", 0),
    (lambda x: x.max(1).indices + 1, "position of the largest", "torch.amax", 0),
    (lambda x: torch.where(x == 0, x, -x), "where: the function decides", "torch.clamp", 0),
    (lambda x: x.masked_fill(x == 0, 3.0), "masked_fill: the function decides", "torch.clamp", 0),
    (lambda x: (x == 0) * x, "decides by the value", "torch.clamp", 0),
    (lambda x: (x == 0).double(), "decides by the value", "torch.clamp", 0),
    (lambda x: all(v > 0 for v in x[0]), "decides by the value", "torch.clamp", 0),
    (lambda x: x if x[0, 0] else -x, "decides by the value", "torch.clamp", 0),
    (lambda x: torch.where(x, x, x), "where with a condition", "torch.clamp", 0),
    (lambda x: math.sin(x[0, 0]), "plain number", "torch.sin in place of math.sin", 0),
    (lambda x: x[0, 0].item(), "item cannot be traced", "torch.sin in place", 0),
    (lambda x: np.sin(x), "numpy's sin", "use torch.sin", 0),
    (lambda x: np.asarray(x), "numpy array was asked for", "torch function", 0),
    (lambda x: torch.tensor([x[0, 0]]), "taken for a list", "torch.stack", 0),
    (lambda x: x.add_(1), "add_ cannot be traced", "y = y \\+ 1", 0),
    (lambda x: x.__setitem__(0, 1.0), "assigned to", "torch.stack", 0),
    (lambda x: torch.rand_like(x), "rand_like", "randomness", 0),
    (lambda x: F.dropout(x), "dropout in training mode", "eval()", 0),
    (lambda x: x.floor(), "floor cannot be traced", "staircase", 0),
    (lambda x: x % 2, "mod cannot be traced", "staircase", 0),
    (lambda x: x.long(), "long cannot be traced", "staircase", 0),
    (lambda x: x.to(torch.int32), "conversion to torch.int32", "floating-point", 0),
    (lambda x: torch.fft.fft(x), "fft_fft cannot be traced", "torch.exp", 0),
    (lambda x: torch.linalg.qr(x[:2]), "linalg_qr", "Newton", 0),
    (lambda x: nn.MultiheadAttention(2, 1, add_zero_attn=True)(x, x, x)[0], "add_zero_attn", "leave these out", 0),
    (lambda x: F.scaled_dot_product_attention(x, x, x, enable_gqa=True), "enable_gqa", "leave these out", 0),
    (lambda x: x.masked_fill(torch.ones(2) > 0, -math.inf), "masked_fill with -inf", "finite number", 0),
    (lambda x: x * math.nan, "holds nan", "finite", 0),
    (lambda x: x + torch.tensor([1.0, math.inf]), "holds inf", "finite", 0),
    (lambda x: x * 1j, "complex", "real", 0),
    (lambda x: x + "a", "str is no number", "torch tensors", 0),
    (lambda x: F.softmax(x), "without dim", "dim=-1", 0),
    (lambda x: F.gelu(x, approximate="tanh"), "approximate='tanh'", "erf form", 0),
    (lambda x: torch.einsum("ij,kj,kl->il", x, x, x), "3 tensors", "two at a time", 0),
    (lambda x: torch.einsum("...j->...", x), "has ...", "each letter once", 0),
    (lambda x: x.var(1, correction=2), "var over 2 numbers", "unbiased=False", 0),
    (lambda x: x.div(2, rounding_mode="floor"), "rounding_mode='floor'", "without rounding", 0),
    (lambda x: F.pad(x, (1, 1), value=2.0), "pad with the value 2.0", "torch.cat", 0),
    (lambda x: torch.ones(3)[x], "index depends on the input", "plain numbers", 0),
    (lambda x: x @ torch.ones(3, 2), "matmul of shapes \\(4, 2\\), \\(3, 2\\) fails", "check the shapes", 0),
    (lambda x: x[7], "index 7 is out of bounds", "check the shapes", 0),
    (lambda x: x.sum(5), "dim=5", "check the shapes", 0),
    (lambda x: x.sum(0, out=None), "unexpected keyword argument 'out'", "leave that argument out", 0),
]


@pytest.mark.parametrize(("function", "reason", "instead", "below"), LINES)
def test_the_operation_its_line_and_the_way_out_are_named(
    function: Function, reason: str, instead: str, below: int
) -> None:
    with pytest.raises(ww.UnsupportedOperation, match=f"(?s){reason}.*; .*{instead}") as caught:
        trace_function(function, features=2, tokens=4)
    line = function.__code__.co_firstlineno + below
    text = Path(__file__).read_text().splitlines()[line - 1].strip()
    assert f"{__file__}:{line}: `{text[:100]}" in str(caught.value)


CONSTANTS: list[tuple[Function, str]] = [
    (lambda x: x / 0, "division by the constant 0"),
    (lambda x: x + torch.log(torch.zeros_like(x)), "log\\(x\\) is not finite at x = 0"),
    (lambda x: (-2.0) ** x, "power of the constant -2.0"),
]


@pytest.mark.parametrize(("function", "reason"), CONSTANTS)
def test_constants_outside_the_domain_of_a_function_are_refused(function: Function, reason: str) -> None:
    with pytest.raises(ww.FormulaError, match=f"test_tracing_errors.py:{function.__code__.co_firstlineno}.*{reason}"):
        trace_function(function, features=2, tokens=4)


RESULTS: list[tuple[Function, str]] = [
    (lambda x: (x, x), "returns tuple"),
    (lambda x: {"y": x}, "returns dict"),
    (lambda x: None, "returns NoneType"),
    (lambda x: x[:3], "shape \\(3, 2\\) for an input of 4 tokens"),
    (lambda x: x[None], "shape \\(1, 4, 2\\)"),
    (lambda x: x[:, :0], "shape \\(4, 0\\)"),
]


@pytest.mark.parametrize(("function", "reason"), RESULTS)
def test_other_results_are_refused(function: Function, reason: str) -> None:
    with pytest.raises(ww.UnsupportedOperation, match=f"{reason}.*; return \\(tokens, outputs\\)"):
        trace_function(function, features=2, tokens=4)


class Sorting(nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.argsort(x)


class Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))

    def forward(self, x: Any) -> Any:
        return self.body(x)


def test_the_module_is_named() -> None:
    with pytest.raises(ww.UnsupportedOperation, match=r"in module 1 \(Dropout\)\); call \.eval\(\)"):
        trace_function(nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5)), 2, None)
    line = Outer.forward.__code__.co_firstlineno + 1
    with pytest.raises(
        ww.UnsupportedOperation, match=rf":{line}: `return self.body\(x\)`, in module body.1 \(Dropout\)"
    ):
        trace_function(Outer(), 2, None)
    with pytest.raises(ww.UnsupportedOperation, match=r"`return torch.argsort\(x\)`, in module 1 \(Sorting\)"):
        trace_function(nn.Sequential(nn.Identity(), Sorting()), 2, None)


def test_a_parameter_that_is_not_finite_is_named() -> None:
    module = nn.Sequential(nn.Identity(), nn.Linear(2, 2))
    with torch.no_grad():
        module[1].weight[0, 1] = math.nan
    with pytest.raises(ww.UnsupportedOperation, match=r"the parameter 1\.weight holds nan"):
        trace_function(module, 2, None)


@pytest.mark.parametrize(
    ("function", "features", "tokens", "reason"),
    [(3, 2, None, "3 is int"), (torch.sin, 0, None, "features=0"), (torch.sin, 2, 0, "tokens=0")],
)
def test_arguments_are_checked(function: Any, features: int, tokens: int | None, reason: str) -> None:
    with pytest.raises(ww.UnsupportedOperation, match=reason):
        trace_function(function, features, tokens)


MIXING: list[Function] = [
    lambda x: x.sum(0),
    lambda x: x - x.mean(0),
    lambda x: x[0],
    lambda x: x.flip(0),
    lambda x: x @ x.T,
    lambda x: torch.softmax(x, 0),
    lambda x: x.T @ x,
    lambda x: x.exp() * x[0],
    lambda x: x.cumsum(0),
    lambda x: x + torch.arange(len(x))[:, None],
    lambda x: x * torch.arange(len(x))[:, None],
    lambda x: x * len(x),
    lambda x: x.reshape(-1)[:2],
    lambda x: x[1, 0].exp(),
]


@pytest.mark.parametrize("function", MIXING)
def test_without_a_number_of_tokens_they_may_not_be_mixed(function: Function) -> None:
    with pytest.raises(ww.UnsupportedOperation, match="pass tokens=n"):
        trace_function(function, features=2, tokens=None)
    assert trace_function(function, features=2, tokens=2).tokens == 2


def test_a_constant_for_some_tokens_asks_for_their_number() -> None:
    with pytest.raises(ww.UnsupportedOperation, match="traced with 3 tokens because tokens was not given"):
        trace_function(lambda x: x.sin() + torch.ones(2, 2), features=2, tokens=None)


def test_a_tensor_of_an_earlier_call_is_refused() -> None:
    seen: list[Any] = []

    def remembers(x: Any) -> Any:
        seen.append(x)
        return x + seen[0]

    with pytest.raises(ww.UnsupportedOperation, match="tensor of an earlier call"):
        trace_function(remembers, features=1, tokens=None)


def test_errors_of_the_user_pass() -> None:
    with pytest.raises(AttributeError, match="'no_such_method'"):
        trace_function(lambda x: x.no_such_method(), 1, None)
    with pytest.raises(ZeroDivisionError):
        trace_function(lambda x: x * (1 // 0), 1, None)
