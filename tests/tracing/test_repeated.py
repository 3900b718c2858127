"""Functions that are another one at every call are refused, and nobody's random numbers are used up."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import weightwright as ww
from weightwright.approximation.formula_of_torch import trace
from weightwright.errors import NotRepeatable
from weightwright.expressions import parse
from weightwright.papers.grids.grid_targets import scalar_target
from weightwright.tracing.following.traced_function import trace_function
from weightwright.tracing.repeated import expressions_differ, graphs_differ

Function = Callable[..., Any]
calls = count(1)
mixed = count(1)


def noisy_mix(x: Any) -> Any:
    return torch.tensor([[1.0, 0, 0], [0, next(mixed), 0], [0, 1, 0]], dtype=torch.float64) @ x


class NoisyWeights(nn.Module):
    """Drops parameters, not the input: nothing that the symbolic tensor would notice."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2, 2, dtype=torch.float64))

    def forward(self, x: Any) -> Any:
        return x @ nn.functional.dropout(self.weight, 0.05, training=self.training)


def forked(x: Any) -> Any:
    with torch.random.fork_rng():
        return x + torch.randn(2)


CHANGING: list[tuple[Function, str]] = [
    (lambda x: x + torch.randn(2), "add.0., test_repeated.py:LINE has the constant .* at one call and .* at another"),
    (lambda x: x * random.random(), "mul.0., test_repeated.py:LINE has the constant"),
    (lambda x: x * np.random.rand(), "mul.0., test_repeated.py:LINE has the constant"),
    (lambda x: x ** (2 + next(calls)), "pow.0., test_repeated.py:LINE is x.* at one call and x"),
    (lambda x: x + 1e-9 * next(calls), "add.0., test_repeated.py:LINE has the constant .*e-0[89] at"),
    (lambda x: (torch.sin if next(calls) % 2 else torch.cos)(x), "test_repeated.py:LINE is .*(sin|cos)"),
    (lambda x: x**2 if next(calls) % 2 else x, "at one call"),
    (lambda x: torch.cat([torch.randn(3, 1), x], 1), "has the constant"),
    (lambda x: torch.randn(2), "has the constant"),
    (noisy_mix, "matmul.0., test_repeated.py"),
    (forked, "has the constant"),
    (NoisyWeights(), "at one call"),
]


@pytest.mark.parametrize(("function", "reason"), CHANGING)
@pytest.mark.parametrize("proof", ["proven", "measured"])
def test_a_function_that_changes_from_call_to_call(function: Function, reason: str, proof: Any) -> None:
    torch.manual_seed(1)  # of the module nothing is dropped at the first two calls
    code = getattr(function, "__code__", None)
    reason = reason.replace("LINE", str(code.co_firstlineno) if code else "")
    with pytest.raises(ww.UnsupportedOperation, match=f"is not the same at every call: .*{reason}.*leave randomness"):
        ww.compile(function, ww.Box([-1, -1], [1, 1]), tol=1e-6, tokens=3, proof=proof)


@pytest.mark.parametrize("proof", ["proven", "measured"])
def test_so_it_is_where_there_may_be_any_number_of_tokens(proof: Any) -> None:
    with pytest.raises(ww.UnsupportedOperation, match=r"is not the same at every call: .* has the constant"):
        ww.compile(lambda x: x[:, 0] + 1e-4 * torch.randn(()), ww.Box([-1, -1], [1, 1]), tol=1e-2, proof=proof)
    with pytest.raises(ww.UnsupportedOperation, match="is not the same at every call"):  # not: pass tokens=n
        ww.compile(lambda x: x + torch.randn(x.shape), ww.Box([-1, -1], [1, 1]), tol=1e-2, proof=proof)


def test_a_function_of_one_number() -> None:
    with pytest.raises(
        ww.UnsupportedOperation, match=r"<lambda> \(test_repeated.py:\d+\) is not the same .* has the constant"
    ):
        ww.approximate(lambda x: x + torch.randn(()), (-1, 1), 1e-3, proof="measured")
    with pytest.raises(NotRepeatable):
        scalar_target(lambda x0, x1: x0 * x1 * torch.rand(()), 1, 2)


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ("2*sin(x) + 0.5", "has the constant 0.25 at one call and 0.5 at another"),
        ("2*sin(x) + 0.25000000000001", r"the constant 0\.25 at one call and 0\.2500000000000\d+ at"),
        ("2*cos(x) + 0.25", "has sin at one call where it has cos at another"),
        ("x*sin(x) + 0.25", "has the constant 2 at one call where it has mul at another"),
        ("x + (2*sin(x) + 0.25)", "at one call"),
    ],
)
def test_what_differs_between_two_formulas_is_said(other: str, reason: str) -> None:
    assert re.search(reason, expressions_differ(parse("2*sin(x) + 0.25"), parse(other)))
    assert expressions_differ(parse(other), parse(other)) == ""


def test_a_function_that_is_called_only() -> None:
    noise = iter(np.linspace(0.0, 1e-6, 10**5))
    with pytest.raises(NotRepeatable, match=r"is 0.0 at \[0.0\], and .* when called again; .* leave randomness out"):
        ww.approximate(lambda x: np.floor(x) * 0 + next(noise), (0, 1), 1e-3, proof="measured")


def test_a_function_that_can_be_called_once_only() -> None:
    numbers = iter([1.0])
    with pytest.raises(NotRepeatable, match="can be called once only, then it fails"):
        trace_function(lambda x: x * next(numbers), features=1, tokens=2)
    kept: list[Any] = []

    def uses_the_last_call(x: Any) -> Any:
        kept.append(x)
        return x + kept[0]

    with pytest.raises(NotRepeatable, match="keep no tensors between calls"):
        trace_function(uses_the_last_call, features=1, tokens=2)


def test_random_numbers_that_are_the_same_at_every_call_are_constants() -> None:
    def seeded(x: Any) -> Any:
        torch.manual_seed(3)
        return x @ torch.randn(2, 2, dtype=torch.float64)

    graph = trace_function(seeded, features=2, tokens=3)
    torch.manual_seed(3)
    used = {w for node in graph.nodes for w in node.weights.tolist()}
    assert used == set(torch.randn(2, 2, dtype=torch.float64).ravel().tolist())
    graph = trace_function(lambda x: x + 0 * torch.randn(2), features=2, tokens=3)  # drawn, and not used
    assert graph.outputs == (0, 1)


def drawn() -> tuple[Any, ...]:
    return torch.randn(3).tolist(), random.random(), np.random.rand(3).tolist()


@pytest.mark.parametrize("tokens", [None, 3])
@pytest.mark.parametrize("fails", [False, True])
def test_the_callers_random_numbers_stay_the_same(tokens: int | None, fails: bool) -> None:
    def function(x: Any) -> Any:
        if fails:
            return x + drawn()[1]
        return x + 0 * drawn()[1]

    def seeded() -> None:
        torch.manual_seed(1)
        random.seed(1)
        np.random.seed(1)

    seeded()
    expected = drawn()
    seeded()
    if fails:
        with pytest.raises(NotRepeatable):
            trace_function(function, features=2, tokens=tokens)
    else:
        trace_function(function, features=2, tokens=tokens)
        trace(function)
    assert drawn() == expected


def test_a_matrix_on_the_tokens_counts() -> None:
    def with_corner(corner: float) -> Any:
        mix = torch.tensor([[1.0, 2.0], [corner, 1.0]], dtype=torch.float64)
        return trace_function(lambda x: mix @ x, features=1, tokens=2, name="mix")

    assert "has the constant 3 at one call and 4 at another" in graphs_differ(with_corner(3.0), with_corner(4.0))
    assert graphs_differ(with_corner(3.0), with_corner(3.0)) == ""
