"""Networks of ReLUs for tests: evaluated exactly and quickly, and some that stand for smooth formulas."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

import numpy as np
from support.formulas import formula_values

from weightwright.expressions import Number, fold, parse
from weightwright.papers.relu.relu_target import plane_waves

EXACT: dict[str, Callable[..., Fraction]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "neg": lambda a: -a,
    "abs": abs,
    "relu": lambda a: max(a, Fraction(0)),
    "max": max,
    "min": min,
    "clip": lambda a, lo, hi: min(max(a, lo), hi),
}


def names(N: int) -> tuple[str, ...]:
    return tuple(f"x{i}" for i in range(N))


def exactly(formula: str, x: list[Fraction]) -> Fraction:
    def leaf(node: Any) -> Fraction:
        return node.value if isinstance(node, Number) else x[int(node.name[1:])]

    return fold(parse(formula, names(len(x))), leaf, lambda op, args: EXACT[op](*args))


def outputs(ridge: Any, x: list[Fraction]) -> list[Fraction]:
    """The ridge at x in exact arithmetic, as its docstring says."""

    def dot(row: Any, vector: list[Fraction]) -> Fraction:
        return sum((Fraction(a) * b for a, b in zip(row.tolist(), vector, strict=False)), Fraction(0))

    known = list(x)
    for row, shift in zip(ridge.arguments, ridge.shifts.tolist(), strict=True):
        known.append(max(Fraction(0), dot(row, known) + Fraction(shift)))
    return [dot(row, known) + Fraction(c) for row, c in zip(ridge.outputs, ridge.constants.tolist(), strict=True)]


def quickly(ridge: Any, x: Any) -> Any:
    """(points, outputs) in float64."""
    N = x.shape[1]
    units = np.maximum(x @ ridge.arguments[:, :N].T + ridge.shifts, 0)
    return x @ ridge.outputs[:, :N].T + units @ ridge.outputs[:, N:].T + ridge.constants


SOFT_MAXIMUM = "log(exp(x0) + exp(x1) + exp(x2) + exp(x3))"
SMOOTH: dict[str, tuple[list[str], list[float], list[float], float, int]] = {
    "product": (["x0*x1"], [-1, -1], [1, 1], 1e-2, 24),
    "sine": (["sin(x0)*cos(x1)"], [-1, -1], [1, 1], 1e-2, 24),
    "bell": (["exp(-(x0**2 + x1**2))"], [-1, -1], [1, 1], 1e-2, 50),
    "shifted": (["exp(x0*x1)", "x0*x1"], [0, 1], [1, 2.5], 1e-2, 200),
    "one": (["sin(3*x0)"], [-0.3], [1.7], 1e-3, 60),
    "affine": (["x0 - 0.1*x1 + 2"], [-1, -1], [1, 1], 1e-3, 0),
    "soft": (["exp(x0)/(exp(x0) + exp(x1) + exp(x2))"], [-1] * 3, [1] * 3, 2e-2, 60),
}


@cache
def built(name: str) -> tuple[Any, Any, Any, Any]:
    formulas, lo, hi, tol, _ = SMOOTH[name]
    return (
        *plane_waves(formulas, np.array(lo, float), np.array(hi, float), tol),
        np.array(lo, float),
        np.array(hi, float),
    )


def points(ridge: Any, lo: Any, hi: Any, seed: int, count: int) -> Any:
    """Random ones, many on the faces and all corners, and some half-way between two kinks of a wave."""
    rng = np.random.default_rng(seed)
    N = len(lo)
    near = rng.uniform(lo - 0.2 * (hi - lo), hi + 0.2 * (hi - lo), (count, N)).clip(lo, hi)
    corners = np.array(list(product(*zip(lo, hi, strict=True))))
    a, b = (rng.integers(0, len(ridge.shifts), count) if len(ridge.shifts) else np.zeros(0, int) for _ in range(2))
    v = ridge.arguments[a, :N]
    kink = -(ridge.shifts[a] + ridge.shifts[b]) / 2
    between = near[: len(a)] + v * ((kink - (near[: len(a)] * v).sum(1)) / (v**2).sum(1))[:, None]
    return np.concatenate([near, corners, between[((between >= lo) & (between <= hi)).all(axis=1)]])


def measured(ridge: Any, formulas: Any, x: Any) -> float:
    expected = np.column_stack([formula_values(f, names(x.shape[1]), x) for f in formulas])
    return float(np.abs(quickly(ridge, x) - expected).max())
