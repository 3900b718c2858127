"""Random formulas that many tests approximate, expand and enclose."""

from __future__ import annotations

import numpy as np

from weightwright.enclosures.intervals.jets import values_at
from weightwright.expressions import parse, to_text

UNARY = ["exp", "sin", "cos", "atan", "tanh", "sigmoid", "softplus", "gelu", "silu", "erf"]
GUARDED = ["log(2.5 + {})", "sqrt(2.5 + {})", "1/(2.5 + {})", "tan({}/2)"]

#: Functions of formulas in several variables.
SMOOTH = ("sin", "cos", "exp", "tanh", "atan", "sigmoid", "softplus", "erf", "gelu", "silu")
#: Where formulas in one variable are asked for.
DOMAINS = [(-1.0, 1.0), (0.0, 1.0), (-0.3, 0.7), (5.0, 7.0), (1000.0, 1001.0), (-500.0, 500.0), (-1e-3, 2e-3)]


def canonical(formula: str, names: tuple[str, ...] = ("x",)) -> str:
    """The formula as certificates write it."""
    return to_text(parse(formula, names))


def formula_values(formula: str, names: tuple[str, ...], points: np.ndarray) -> np.ndarray:
    """The formula of these names at points (count, names), in floats."""
    return values_at(parse(formula, names), names, points)


def random_formula(rng: np.random.Generator, depth: int) -> str:
    """A formula in x whose inner values stay near [-2, 2] for x in [-1, 1]."""
    if depth == 0:
        return rng.choice(["x", f"{rng.uniform(-2, 2):.3g}*x", f"(x - {rng.uniform(-1, 1):.3g})", "x**2"])
    kind = rng.integers(0, 10)
    inner = random_formula(rng, depth - 1)
    if kind < 5:
        return f"{rng.choice(UNARY)}({inner})"
    if kind < 6:
        return rng.choice(GUARDED).format(f"sin({inner})")
    if kind < 7:
        return f"({inner})**{rng.integers(2, 5)}/4"
    other = random_formula(rng, depth - 1)
    return f"({inner}) {rng.choice(['+', '-', '*'])} ({other})"


def shifted(formula: str, lo: float, hi: float) -> str:
    """The formula seen through the affine map that takes [lo, hi] to about [-1, 1]."""
    middle, half = float(f"{(lo + hi) / 2:.6g}"), float(f"{(hi - lo) / 2:.3g}")
    return (
        formula.replace("exp", "E")
        .replace("max", "M")
        .replace("x", f"((x - {middle!r})/{half!r})")
        .replace("E", "exp")
        .replace("M", "max")
    )


def random_formula_of(rng: np.random.Generator, names: tuple[str, ...], depth: int) -> str:
    """A formula in the names, smooth wherever they are."""
    if depth == 0:
        return str(rng.choice([*names, *names, "0.5", "1.25", "pi"]))
    a, b = (random_formula_of(rng, names, depth - 1) for _ in range(2))
    kind = rng.integers(7)
    if kind < 3:
        return f"({a} {rng.choice(['+', '-', '*'])} {b})"
    if kind == 3:
        return f"({a})/(2 + ({b})**2)"
    if kind == 4:
        return f"({a})**{rng.integers(0, 4)}"
    return f"{rng.choice(SMOOTH)}({a})"
