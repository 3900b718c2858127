"""A function that does not do what was traced is refused, whatever the tracer missed: by name, line and advice."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.torch_zoo.random_graphs import random_function
from torch import nn
from torch.nn import functional as F  # noqa: N812

import weightwright as ww
from weightwright.enclosures.intervals.intervals import Interval
from weightwright.expressions import parse
from weightwright.tracing.following.traced_function import trace_function, trace_on
from weightwright.tracing.guard.running_error import enclose_columns, enclose_formula
from weightwright.tracing.sheet import Sheet
from weightwright.tracing.symbolic import OPERATIONS, Traced

Function = Callable[..., Any]
ROW = torch.tensor([0.3, -0.7], dtype=torch.float64)
LIMIT = 300


def swallowed(x: Any) -> Any:
    try:
        return x.argsort(dim=1)
    except Exception:
        return x


def rarely(x: Any) -> Any:
    """Goes another way on inputs that no sample meets, and hides that it asks."""
    try:
        if abs(float(x[0, 0]) - 0.123456) < 1e-9:
            return -x
    except Exception:
        pass
    return x


def rarely_and_unseen(x: Any) -> Any:
    is_tensor = isinstance(x, torch.Tensor)
    if is_tensor and (x[0, 0] - 0.123456).abs() < 1e-9:
        return -x
    return x


def cached() -> Function:
    kept: list[Any] = []

    def function(x: Any) -> Any:
        kept.append(x.sin())
        return kept[0]

    return function


def alias(x: Any) -> Any:
    y = x.T
    z = y.contiguous()
    z += 1
    return y.T + z.T


def view(x: Any) -> Any:
    y = x.clone()
    v = y.view(-1)
    v *= 2
    return y


def changing(first: int) -> Function:
    calls: list[int] = []

    def function(x: Any) -> Any:
        calls.append(1)
        return x if len(calls) < first else 2 * x

    return function


def by_type(x: Any) -> Any:
    return x.sin() if isinstance(x, torch.Tensor) else x.cos()


#: What was PROVEN and wrong: a function, half its domain, and what the message says.
REFUSED: list[tuple[Function, float, str]] = [
    (F.softplus, 30.0, "jumps to x itself above 20.*threshold=40"),
    (nn.Softplus(threshold=1), 2.0, "jumps to x itself above 1"),
    (lambda x: F.softplus(3 * x, beta=2.0), 4.0, "jumps to x itself above 10, and its argument may reach 12"),
    (lambda x: x.to(torch.float16), 1.0, "conversion to torch.float16"),
    (lambda x: x.to(torch.ones(1)), 1.0, "conversion to torch.float32"),
    (lambda x: x.float(), 1.0, "smaller dtype rounds.*leave the conversion out"),
    (lambda x: x.type("torch.FloatTensor"), 1.0, "conversion to torch.FloatTensor"),
    (lambda x: x.type_as(torch.ones(1)), 1.0, "conversion to torch.float32"),
    (lambda x: x.sum(1, dtype=torch.int64), 1.0, "sum with dtype=torch.int64"),
    (lambda x: F.softmax(x, 1, dtype=torch.float16), 1.0, "softmax with dtype=torch.float16"),
    (lambda x: x.softmax(1, torch.bfloat16), 1.0, "softmax with dtype=torch.bfloat16"),
    (lambda x: x.cumsum(1, dtype=torch.int32), 1.0, "cumsum with dtype=torch.int32"),
    (alias, 1.0, "shares its numbers"),
    (view, 1.0, "shares its numbers"),
    (by_type, 1.0, "by_type does not compute what was traced: sin .*:LINE.* returns"),
    (lambda x: x.sin() if type(x) is torch.Tensor else x.cos(), 1.0, "not compute what was traced: sin .*:LINE"),
    (swallowed, 1.0, "argsort cannot be traced"),
    (rarely, 1.0, "plain number was asked for"),
    (rarely_and_unseen, 1.0, "decides by the value of its input: bool .*if is_tensor"),
    (cached(), 1.0, "tensor of an earlier call"),
    (lambda x: x * 2 if torch.is_grad_enabled() else x * 3, 1.0, "gradients switched on or off"),
    (
        lambda x: x.sin().exp() if isinstance(x, torch.Tensor) else x.sin(),
        1.0,
        "exp .*is done when it is run, and was not traced.*same steps for every input",
    ),
    (lambda x: x if len(x) < 100 else -x, 1.0, "with 100 tokens it is another function"),
    (lambda x: x if x.shape[0] != LIMIT else -x, 1.0, "with 300 tokens it is another function"),
    (lambda x: x if len(x) < 20_011 else -x, 1.0, "with 20011 tokens it is another function"),
    (changing(9), 1.0, "not the same when|when it is called again|with .* tokens|not compute"),
    (changing(5), 1.0, "not the same when|when it is called again|with .* tokens|not compute"),
    (lambda x: (x + 1e8) - 1e8, 1.0, "loses digits.*large numbers do not cancel"),
    (lambda x: torch.vmap(torch.sin)(x), 1.0, "cannot be traced .*:LINE.*vmap"),
    (lambda x: x * x._version, 1.0, "cannot be traced .*:LINE.*_version"),
]


@pytest.mark.parametrize(("function", "half", "said"), REFUSED)
def test_what_was_proven_and_wrong_is_refused(function: Function, half: float, said: str) -> None:
    line = getattr(getattr(function, "__code__", None), "co_firstlineno", 0) + (function is by_type)
    with pytest.raises(ww.UnsupportedOperation, match=f"(?s){said.replace('LINE', str(line))}"):
        ww.compile(function, ww.Box([-half] * 2, [half] * 2), 1e-3)


TOGETHER: list[tuple[Function, str]] = [
    (lambda x: torch.linalg.norm(x, 2), "matrix norm of order 2"),
    (lambda x: torch.linalg.norm(x, 1, dim=(0, 1)), "matrix norm of order 1"),
    (lambda x: torch.linalg.matrix_norm(x, "nuc"), "matrix norm of order 'nuc'"),
    (lambda x: torch.norm(x, p="nuc"), "norm with p='nuc'"),
]


@pytest.mark.parametrize(("function", "said"), TOGETHER)
def test_matrix_norms_are_not_taken_for_norms_of_vectors(function: Function, said: str) -> None:
    with pytest.raises(ww.UnsupportedOperation, match=said):
        ww.compile(function, ww.Box([0.5] * 2, [1.0] * 2), 1e-2, tokens=2)


RIGHT: list[tuple[Function, float]] = [
    (F.softplus, 19.0),
    (lambda x: F.softplus(x, threshold=40), 60.0),
    (lambda x: x + torch.full_like(x, 1.7, dtype=torch.int64), 1.0),
    (lambda x: x * x.new_full((2,), 0.7, dtype=torch.float16), 1.0),
    (lambda x: x * 2 if x.dtype == torch.float64 else x * 3, 1.0),
    (lambda x: torch.linalg.norm(x, "fro", dim=(0, 1)) * 0 + x, 1.0),
    (nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1)).eval(), 1.0),
]


@pytest.mark.parametrize(("function", "half"), RIGHT)
def test_what_is_right_is_compiled(function: Function, half: float) -> None:
    box = ww.Box([-half] * 2, [half] * 2)
    tol = 1e-2
    net = ww.compile(function, box, tol, tokens=2)
    x = torch.tensor(np.random.default_rng(3).uniform(-half, half, (2, 2)))
    with torch.no_grad():
        expected = function.double()(x) if isinstance(function, nn.Module) else function(x)
    assert net.certificate is not None
    assert net.certificate.status == "PROVEN"
    assert float((net(x) - expected).abs().max()) <= tol


def wrong_sin(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mistake in the tracer itself: sin is traced as cos."""
    monkeypatch.setitem(OPERATIONS, "sin", OPERATIONS["cos"])


def test_a_mistake_of_the_tracer_is_found_and_its_line_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def function(x: Any) -> Any:
        y = torch.exp(x) * 2
        z = torch.sin(y + 1)
        return z * y

    wrong_sin(monkeypatch)
    line = function.__code__.co_firstlineno + 2
    text = Path(__file__).read_text().splitlines()[line - 1].strip()
    with pytest.raises(ww.UnsupportedOperation) as caught:
        ww.compile(function, ww.Box([-1], [1]), 1e-3)
    assert f"sin ({__file__}:{line}: `{text}`) returns" in str(caught.value)


def test_rules_are_compared_too(monkeypatch: pytest.MonkeyPatch) -> None:
    @ww.incontext.algorithm(steps=2)
    def by_class(x: Any, m: Any) -> Any:
        return m - 0.5 * (m - x.mean(dim=0)) * (1 if isinstance(m, torch.Tensor) else 0.5)

    with pytest.raises(ww.UnsupportedOperation, match="by_class does not compute what was traced: mul"):
        by_class.compile((-1, 1), (-1, 1), samples=3)

    @ww.incontext.algorithm(steps=2)
    def waves(x: Any, m: Any) -> Any:
        return m + torch.sin(x).mean(dim=0)

    assert waves.compile((-1, 1), (-1, 1), samples=3, tol=1e-6).certificate is not None
    wrong_sin(monkeypatch)
    with pytest.raises(ww.UnsupportedOperation, match=r"waves does not compute what was traced: sin .*test_guard"):
        waves.compile((-1, 1), (-1, 1), samples=4, tol=1e-6)


FORMULAS: list[tuple[Function, str]] = [
    (F.softplus, "jumps to x itself above 20"),
    (lambda x: x.sin() if isinstance(x, torch.Tensor) else x.cos(), "does not compute what was traced: sin .*:LINE"),
    (lambda x: torch.tanh(x) if x.shape == (36,) else x, "shape"),
    (lambda x: -x if isinstance(x, torch.Tensor) and bool((x == 0.1234).any()) else x, "decides by the value.*:LINE"),
    (changing(7), "when it is called again|not compute"),
    (lambda x: x * (2 if torch.is_grad_enabled() else 3), "called again, with gradients switched on or off"),
]


@pytest.mark.parametrize(("function", "said"), FORMULAS)
def test_formulas_are_compared_too(function: Function, said: str) -> None:
    line = getattr(getattr(function, "__code__", None), "co_firstlineno", 0)
    with pytest.raises(ww.UnsupportedOperation, match=f"(?s){said.replace('LINE', str(line))}"):
        ww.approximate(function, (-30, 30), 1e-3)


def test_writes_in_place_are_followed_in_formulas() -> None:
    def function(x: Any) -> Any:
        y = x * 1
        z = y
        z += 1
        F.relu(z, inplace=True)
        return y

    net = ww.approximate(function, (-2, 2), 1e-3)
    x = torch.linspace(-2, 2, 9, dtype=torch.float64)[:, None]
    assert float((net(x) - torch.relu(x + 1)).abs().max()) <= net.certificate.bound


OPAQUE: list[Function] = [
    lambda x: np.floor(x) * 0 + x - np.asarray(x).mean(),
    lambda x: np.sort(np.asarray(x))[::-1],
    lambda x: np.asarray(x) if len(x) > 100 else -np.asarray(x),
]


@pytest.mark.parametrize("function", OPAQUE)
def test_opaque_functions_return_the_same_in_any_company(function: Function) -> None:
    with pytest.raises(ww.UnsupportedOperation, match=r"among 2049 inputs.*depend on its own input only"):
        ww.approximate(function, (-1, 1), 1e-2, proof="measured")


def test_samples_in_small_dtypes_prove_nothing() -> None:
    with pytest.raises(ww.UnsupportedOperation, match="returns float32"):
        ww.approximate(lambda x: np.sin(np.asarray(x, dtype=np.float32)), (-1, 1), 1e-3, derivative_bound=(2, 1.0))


@pytest.mark.parametrize("seed", range(30))
def test_the_running_error_holds_what_torch_makes_of_random_functions(seed: int) -> None:
    function = random_function(seed)
    n, rng = function.tokens or 2, np.random.default_rng(seed)
    graph = trace_on(Sheet(n, function.tokens is None, unfolded=True), function, function.features, "f")
    x = rng.uniform(-1, 1, (20, n, function.features))
    columns = enclose_columns(graph, Interval(x, x))
    for at, inputs in enumerate(x):
        y = function(torch.tensor(inputs)).numpy()
        for place, output in enumerate(graph.outputs):
            found = y.reshape(n, -1)[:, place]
            assert (columns[output].lo[at] <= found).all()
            assert (found <= columns[output].hi[at]).all()
            assert (columns[output].hi[at] - columns[output].lo[at] <= 1e-6 * (1 + np.abs(found))).all()


def test_near_a_jump_both_sides_are_allowed() -> None:
    graph = trace_function(lambda x: torch.sign(x * 3 - x * 3 + (x - x.sin())), 1, None)
    x = np.array([[[0.0]], [[1e-9]], [[1.0]]])
    where = enclose_columns(graph, Interval(x, x))[graph.outputs[0]]
    assert where.lo[0, 0] <= -1
    assert where.hi[0, 0] >= 1
    assert where.lo[2, 0] == where.hi[2, 0] == 1.0


def test_the_running_error_of_a_formula_holds_its_cancellation() -> None:
    x = np.array([1e-8])
    where = enclose_formula(parse("(exp(x) - 1) - x"), {"x": Interval.exact(x)})
    plain = float(np.exp(x)[0] - 1 - x[0])
    assert where.lo[0] <= plain <= where.hi[0]
    assert where.lo[0] <= math.expm1(1e-8) - 1e-8 <= where.hi[0]


def test_a_copy_is_not_the_tensor_itself() -> None:
    sheet = Sheet(2, False)
    x = Traced(sheet, sheet.input(1), 0)
    deep = copy.deepcopy(x)
    deep += 1
    assert x.codes.tolist() != deep.codes.tolist()
