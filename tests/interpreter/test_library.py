"""The library: every algorithm through one frozen module, within what it says of itself."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import weightwright as ww

library = ww.interpreter.library

N, D, SIZE = 4, 8, 2


@functools.cache
def built(dtype: str = "float64", form: str = "embedding") -> ww.Interpreter:
    return ww.Interpreter(
        N,
        D,
        8,
        heads=5,
        rows=32,
        w_max=8.0,
        k_max=8.0,
        q_max=8.0,
        v_max=8.0,
        dtype=dtype,
        form=form,  # type: ignore[arg-type]
    )


def uniform(rng: np.random.Generator) -> np.ndarray:
    """Tokens whose last feature is 1."""
    x = rng.uniform(-1, 1, (N, D))
    x[:, -1] = 1.0
    return x


def apart(rng: np.random.Generator) -> np.ndarray:
    """The second feature has one largest entry by 0.2."""
    x = uniform(rng)
    x[:, 1] = rng.permutation([0.9, 0.6, 0.1, -0.8])
    return x


def placed(rng: np.random.Generator) -> np.ndarray:
    x = uniform(rng)
    x[:, -2:] = library.position_code(N)
    return x


def states(rng: np.random.Generator) -> np.ndarray:
    x = np.zeros((N, D))
    x[:, :SIZE], x[:, -1] = rng.uniform(-1, 1, SIZE), 1.0
    return x


def near(rng: np.random.Generator) -> np.ndarray:
    """Close to the points below."""
    x = uniform(rng)
    x[:, :2] = POINTS[rng.integers(0, len(POINTS), N)] + rng.uniform(-0.1, 0.1, (N, 2))
    return x


def chosen(rng: np.random.Generator) -> np.ndarray:
    """Each token asks for the first or the second function."""
    x = uniform(rng)
    x[:, 1:3] = np.eye(2)[rng.integers(0, 2, N)]
    return x


POINTS = np.array([[0.6, 0.6], [-0.6, 0.6], [0.0, -0.6]])
X = np.array([[0.5, -0.4], [0.3, 0.5], [-0.5, 0.2], [0.1, -0.3]])
Y = np.array([0.2, -0.1, 0.3, 0.0])
MADE: dict[str, tuple[Any, Any]] = {
    "squared": (lambda vm: library.gradients(vm, X, Y), states),
    "logistic": (lambda vm: library.gradients(vm, X * np.sign(Y + 0.05)[:, None], 0 * Y, "logistic"), states),
    "huber": (lambda vm: library.gradients(vm, 1.2 * X, 2 * Y, "huber"), states),
    "own loss": (lambda vm: library.gradients(vm, X, Y, lambda r: torch.sin(2 * r)), states),
    "proven loss": (lambda vm: library.gradients(vm, X, Y, ww.approximate("tanh(x)", (-2, 2), 1e-6)), states),
    "update": (lambda vm: library.update(vm, SIZE, 0.5), uniform),
    "ridge update": (lambda vm: library.update(vm, SIZE, 0.5, ridge=0.3), uniform),
    "lasso threshold": (lambda vm: library.soft_threshold(vm, SIZE, 0.1), uniform),
    "average": (library.average, uniform),
    "copy": (library.copy, uniform),
    "copy of a token": (lambda vm: library.copy(vm, 2), uniform),
    "previous": (library.previous, placed),
    "select": (lambda vm: library.select(vm, 1, gap=0.2), apart),
    "nearest": (lambda vm: library.nearest(vm, POINTS, np.eye(3), gap=0.5), near),
    "smooth, proven": (lambda vm: library.smooth(vm, ww.approximate("tanh(x)", (-2, 2), 1e-6)), uniform),
    "smooth, several": (lambda vm: library.smooth(vm, "sin(3*x)", features=(0, 2, 3)), uniform),
    "route": (lambda vm: library.route(vm, ["sin(2*x)", "x**2"], (1, 2), rows=8), chosen),
    "linear": (lambda vm: library.linear(vm, seeded_linear(5, 6)), uniform),
    "relu": (lambda vm: library.activation(vm, nn.ReLU(), 3, 1.0), uniform),
    "gelu": (lambda vm: library.activation(vm, nn.GELU(), 3, 1.0), uniform),
}  # fmt: skip
#: Where errors are not small by themselves, what they may come to in this module.
LARGEST = {"huber": 0.03, "lasso threshold": 2e-3, "relu": 2e-3}


def seeded_linear(a: int, b: int) -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(a, b).double()


@functools.cache
def made(name: str, dtype: str = "float64") -> Any:
    algorithm = MADE[name][0](built(dtype))
    return algorithm


@pytest.mark.parametrize("dtype", ["float64", pytest.param("float32", marks=pytest.mark.slow)])
def test_all_of_them_through_one_module_in_one_batch(dtype: str) -> None:
    vm, rng = built(dtype), np.random.default_rng(5)
    before, programs = vm.fingerprint, [made(name, dtype) for name in MADE]
    x = torch.tensor(np.stack([MADE[name][1](rng) for name in MADE])).to(vm.net.dtype)
    outputs = vm(x, programs).double().numpy()
    given = x.double().numpy()
    for name, algorithm, out, one in zip(MADE, programs, outputs, given, strict=True):
        wanted = algorithm.plain(one)
        print(f"{name:18} {algorithm.how:9} stated {algorithm.error:.2g}, off {np.abs(out - wanted).max():.2g}")
        assert np.abs(algorithm.run(one) - wanted).max() <= algorithm.error, name
        assert np.abs(out - wanted).max() <= algorithm.error + vm.certificate.bound, name
        assert np.abs(wanted).max() > 0.01
        if dtype == "float64":
            assert algorithm.error <= LARGEST.get(name, 1e-3), name
    assert vm.fingerprint == before


def test_an_algorithm_prints_as_one_line() -> None:
    assert repr(made("average")) == "Program(average: 1 heads of size 8, 8 features, 0 rows)"
