"""`net.confirm` and the guards of a compile: what cannot be compared is not confirmed."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

import weightwright as ww
from weightwright.errors import NotRepeatable


@pytest.fixture(scope="module")
def square() -> ww.AttentionNetwork:
    return ww.compile(lambda x: x * x, (-1, 1), 1e-4, features=1, progress=False)


@pytest.mark.parametrize(
    "function", [lambda x: x * x + 5j, lambda x: torch.complex(x * x, torch.full_like(x, 9.0))], ids=["added", "made"]
)
def test_imaginary_parts_are_not_dropped(square: ww.AttentionNetwork, function: Callable[..., Any]) -> None:
    with pytest.raises(NotRepeatable, match="returns complex numbers"):
        square.confirm(function)


@pytest.mark.parametrize("build", [ww.compile, ww.approximate])
def test_a_function_that_is_complex_when_it_runs_is_not_compiled(build: Callable[..., Any]) -> None:
    def later(x: Any) -> Any:
        return x * x + 5j if type(x) is torch.Tensor else x * x

    given = {"features": 1} if build is ww.compile else {}
    with pytest.raises(ww.UnsupportedOperation, match="returns complex numbers"):
        build(later, (-1, 1), 1e-4, progress=False, **given)


def test_a_function_that_fails_where_the_network_answers_is_refused(square: ww.AttentionNetwork) -> None:
    def one_only(x: torch.Tensor) -> torch.Tensor:
        if x.numel() > 1:
            raise ValueError("one token at a time")
        return x * x

    with pytest.raises(NotRepeatable, match=r"fails at 256 tokens, the first of them \(-1\), .*: one token at a time"):
        square.confirm(one_only)

    def not_at_the_end(x: torch.Tensor) -> torch.Tensor:
        if x.numel() == 1:
            raise ValueError("many tokens at a time")
        return x * x

    with pytest.raises(NotRepeatable, match=r"fails at \(.*\), where the network has an answer: many tokens"):
        square.confirm(not_at_the_end)


def test_a_function_that_is_finite_at_one_input_is_refused(square: ww.AttentionNetwork) -> None:
    def nearly_nowhere(x: torch.Tensor) -> torch.Tensor:
        return torch.where(x == x.flatten()[0], x * x, math.nan)

    with pytest.raises(NotRepeatable, match=r"finite at 33 of 257 tokens that were tried, and at least half"):
        square.confirm(nearly_nowhere)
    assert square.confirm(lambda x: torch.where(x.abs() < 0.25, math.nan, x * x)) <= 1e-4
    pair = ww.compile(lambda x: torch.cat([x, x * x], dim=-1), (-1, 1), 1e-4, features=1, progress=False)
    with pytest.raises(NotRepeatable, match="finite at 0 of 257 tokens"):
        pair.confirm(lambda x: torch.cat([x, x * math.nan], dim=-1))


def test_what_fails_in_a_dead_zone_alone_is_confirmed() -> None:
    def outside(x: torch.Tensor) -> torch.Tensor:
        if bool((x.abs() < 0.1).any()):
            raise ValueError("undefined")
        return torch.sign(x)

    net = ww.approximate("sign(x)", (-1, 1), 1e-3, dead_zone=0.1, progress=False)
    assert net.confirm(outside) <= net.certificate.bound


def test_a_rule_that_changes_while_it_is_compiled_is_refused() -> None:
    scale = [0.5]

    @ww.incontext.algorithm(steps=2)
    def shrink(examples: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return w * scale[0]

    def change(message: str) -> None:
        if message.startswith("lowering"):
            scale[0] = 0.25

    with pytest.raises(NotRepeatable, match="has changed while it was compiled"):
        shrink.compile((-1, 1), (-1, 1), 2, tol=1e-6, progress=change)
    net = shrink.compile((-1, 1), (-1, 1), 2, tol=1e-6, progress=False)
    y = net(torch.ones(1, 2, 2, dtype=torch.float64))
    assert abs(float(y[0, 0, -1]) - 0.25**2) < 1e-5
