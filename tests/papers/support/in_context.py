"""Networks and problems of the theorems about algorithms in context, each built once in a process."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

import weightwright as ww
from weightwright.papers.descent.regression import least_squares

PAIR = "(1 + y**2/4)*softplus(x) - x*y/2"
PAIRS = ww.incontext.Ranges(1.0, 1.0, 0.5, 0.25)

#: Of gradients in one layer: the slope of the loss, and the network.
CASES: dict[str, tuple[str, Callable[[], ww.AttentionNetwork]]] = {
    "P": ("sin(x)", lambda: ww.constructions.in_context_gradients("sin(x)", 3, 2, P=16)),
    "tol": ("x", lambda: ww.constructions.in_context_gradients("x", 2, 1, tol=0.2)),
    "soft": ("sin(x)", lambda: ww.constructions.in_context_gradients("sin(x)", 2, 2, P=8, beta=1.0)),
    "one sample, a small reach": (
        "exp(x)",
        lambda: ww.constructions.in_context_gradients("exp(x)", 1, 3, P=8, reach=1.5),
    ),
    "two spacings": ("x", lambda: ww.constructions.in_context_gradients("x", 2, 1, P=2)),
    "float32": ("sin(x)", lambda: ww.constructions.in_context_gradients("sin(x)", 3, 2, P=16, dtype="float32")),
    "spectral": ("sin(x)", lambda: ww.constructions.in_context_gradients("sin(x)", 3, 2, tol=1e-8, method="spectral")),
    "spectral, float32": (
        "sin(x)",
        lambda: ww.constructions.in_context_gradients("sin(x)", 2, 1, tol=1e-4, method="spectral", dtype="float32"),
    ),
    "large numbers": (
        "tanh(x)",
        lambda: ww.constructions.in_context_gradients("tanh(x)", 2, 1, P=64, ranges=ww.incontext.Ranges(4.0, 2.0, 3.0)),
    ),
}


@cache
def made(name: str) -> ww.AttentionNetwork:
    return CASES[name][1]()


@cache
def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(11)
    X = np.round(rng.uniform(-1, 1, (8, 3)) * 16) / 16
    return X, np.round((X @ [0.5, -1.0, 0.25] + 0.1 * rng.normal(size=8)) * 16) / 16


PROBLEMS = {
    "least squares": least_squares(*data()),
    "ridge": least_squares(*data(), ridge=0.25),
    "lasso": least_squares(*data(), l1=0.0625),
    "both": least_squares(*data(), ridge=0.125, l1=0.03125),
}


@cache
def pairs(method: Any) -> ww.AttentionNetwork:
    given: dict[str, Any] = {"P": 2} if method == "faithful" else {"tol": 1e-4}
    return ww.constructions.in_context_step_of_pairs(PAIR, 4, 2, PAIRS, method=method, **given)
