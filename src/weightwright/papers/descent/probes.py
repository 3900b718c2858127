"""Prompts where a network that reads examples from them is likely to be worst, and what it should return there."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from weightwright.enclosures.intervals.jets import values, values_at
from weightwright.expressions import parse
from weightwright.incontext.networks.descent_network import Ranges
from weightwright.numbers import Floats

Probes = Callable[[np.random.Generator, int], Floats]
Function = Callable[[Floats, Floats], Floats]  # of w.x and y

#: How far from a place a probe may stand, as a multiple of the reach.
_BESIDE = (0.0, 0.0, 1e-15, -1e-15, 1e-9, -1e-9, 1e-4, -1e-4)


def grouped(X: Floats, inputs: Sequence[str]) -> dict[str, Floats]:
    """The inputs by their names without an index: (count, n, numbers) each."""
    names = [name.split("[")[0] for name in inputs]
    return {group: X[..., [i for i, name in enumerate(names) if name == group]] for group in dict.fromkeys(names)}


def products(x: Floats, w: Floats) -> Floats:
    """w . x for every token, added up in extended precision."""
    summed: Floats = (x.astype(np.longdouble) * w).sum(axis=-1)
    return summed


def along(formula: str, direction: tuple[float, float]) -> Function:
    """formula(direction . (w.x, y)) in plain floats, the argument in extended precision."""
    expression = parse(formula, ("x",))

    def function(inner: Floats, y: Floats) -> Floats:
        s = (direction[0] * inner + direction[1] * y).astype(np.float64)
        return values(expression, s.ravel()).reshape(s.shape)

    return function


def of_both(formula: str) -> Function:
    """formula(w.x, y) in plain floats."""
    expression = parse(formula, ("x", "y"))

    def function(inner: Floats, y: Floats) -> Floats:
        at = np.stack([inner.astype(np.float64).ravel(), y.ravel()], axis=1)
        return values_at(expression, ("x", "y"), at).reshape(inner.shape)

    return function


def gradients_at(f: Function, inputs: Sequence[str], reach: float) -> Callable[[Floats], Floats]:
    """f(w . x_i, y_i) u_i for every token, u being x unless it is an input; NaN where |w . x - y| is beyond reach."""

    def reference(X: Floats) -> Floats:
        of = grouped(X, inputs)
        inner, y = products(of["x"], of["w"]), of["y"][..., 0]
        result: Floats = f(inner, y)[..., None] * of.get("u", of["x"])
        return np.where((np.abs(inner - y) <= reach)[..., None], result, np.nan)

    return reference


def aimed(inputs: Sequence[str], n: int, ranges: Ranges, places: Floats, reach: float) -> Probes:
    """Random prompts, corners, and prompts with w . x - y at the places, or beside them.

    A third are x = X s, w = t W s, y = -t Y with signs s: then w . x - y = t (d X W + Y) takes every value that the
    ranges allow, its ends included. In another third y alone leads to the place, where it can.
    """
    sizes = {"x": ranges.x, "u": ranges.value, "y": ranges.y, "w": ranges.w}
    names = [name.split("[")[0] for name in inputs]
    at = {group: [i for i, name in enumerate(names) if name == group] for group in sizes}
    largest = len(at["x"]) * ranges.x * ranges.w + ranges.y

    def probes(rng: np.random.Generator, count: int) -> Floats:
        half = np.array([sizes[name] for name in names])
        X = rng.uniform(-half, half, (count, n, len(names)))
        corners = rng.random(count) < 0.25
        X[corners] = np.where(X[corners] < 0, -half, half)
        wanted = np.clip(rng.choice(places, (count, n)) + reach * rng.choice(_BESIDE, (count, n)), -reach, reach)
        signs = np.where(rng.random((count, n, len(at["x"]))) < 0.5, -1.0, 1.0)
        t = np.clip(wanted / largest, -1, 1)[..., None]
        kind = rng.integers(0, 3, (count, 1, 1))
        for group, straight in (("x", ranges.x * signs), ("w", ranges.w * t * signs), ("y", -ranges.y * t)):
            X[..., at[group]] = np.where(kind == 0, straight, X[..., at[group]])
        inner = (X[..., at["x"]] * X[..., at["w"]]).sum(axis=-1)
        by_y = np.clip(inner - wanted, -ranges.y, ranges.y)[..., None]
        X[..., at["y"]] = np.where(kind == 1, by_y, X[..., at["y"]])
        return X

    return probes
