"""Programs that apply a function of one number to features of every token: tables of soft anchors as rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from weightwright.checker.one_layer.stored import read_one_layer
from weightwright.enclosures.intervals.jets import values
from weightwright.errors import DomainError, ToleranceError
from weightwright.expressions import parse
from weightwright.interpreter.library.algorithms import (
    ROOM,
    Algorithm,
    How,
    Part,
    data_tokens,
    encode_scores,
    largest_beta,
    rounding,
    state,
    unit,
)
from weightwright.interpreter.virtual_machine import Interpreter
from weightwright.numbers import Bools, Floats
from weightwright.runtime import AttentionNetwork

#: Anchors on each side of the interval, and beta times the square of their spacing, that are tried.
PADS, SHARPNESS = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0), (0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 0.8, 1.2)
#: What a fit gives up for smaller values, next to the mean square of a weight.
RIDGES = (1e-12, 1e-9, 1e-6, 1e-4, 1e-2)
#: Points at which a fit is measured.
POINTS = 2001

Function = str | Callable[[Any], Any] | AttentionNetwork


@dataclass(frozen=True)
class RowTable:
    """softmax_j(slopes_j s + offsets_j) . values_j is f(s), |s| <= reach, up to an error."""

    slopes: Floats
    offsets: Floats
    values: Floats
    reach: float
    f: Callable[[Floats], Floats]
    error: float
    how: How

    def __call__(self, s: Floats) -> Floats:
        """What the table returns, in float64."""
        scores = s[..., None] * self.slopes + self.offsets
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return weights / weights.sum(axis=-1, keepdims=True) @ self.values


def make_table(vm: Interpreter, f: Function, reach: float, most: int) -> RowTable:
    """A table for f on [-reach, reach] of at most so many rows. f: a network that `ww.approximate` made, whose
    registers are taken as they are and whose bound was checked; or a formula of x or a function of a tensor, for which
    anchors are fitted that stay within v_max, with an error that is measured."""
    if isinstance(f, AttentionNetwork):
        return _stored_table(f, reach, most)
    return _fitted_table(vm, plain_function(f), reach, most)


def plain_function(f: Function) -> Callable[[Floats], Floats]:
    """A function of float64 arrays."""
    if isinstance(f, str):
        formula = parse(f, ("x",))
        return lambda s: values(formula, np.asarray(s, dtype=np.float64))
    if callable(f) and not isinstance(f, AttentionNetwork):
        return lambda s: np.asarray(f(torch.as_tensor(s, dtype=torch.float64)))
    raise TypeError(f"f must be a formula, a function of a tensor or a network of ww.approximate, not {f!r}")


def _stored_table(net: AttentionNetwork, reach: float, most: int) -> RowTable:
    said = net.certificate
    if said is None or said.status != "PROVEN":
        raise ValueError("f must be a network whose certificate is PROVEN; give its formula to have it fitted")
    layer = read_one_layer(net.network)
    if len(layer.heads) != 1 or layer.slope or layer.heads[0].own[0] != 0 or layer.heads[0].own[1] != 0:
        raise ValueError(f"f must have one head on registers alone, and {said.formula} has another form")
    if not (float(said.domain.lo[0]) <= -reach and reach <= float(said.domain.hi[0])):
        raise DomainError(f"f is a network for {said.domain}, and reach={reach:g} asks for [-{reach:g}, {reach:g}]")
    head = layer.heads[0]
    if len(head.slopes) > most:
        raise ValueError(f"f has {len(head.slopes)} registers, and there is room for {most} rows")
    slopes = np.array([float(k) for k in head.slopes]) * layer.scale
    offsets = np.array([float(c) for c in head.offsets]) - slopes * layer.centre
    held = np.array([float(v) for v in head.values]) * float(head.weight) + layer.mean
    return RowTable(slopes, offsets, held, reach, plain_function(said.formula), said.bound, "checked")


def _fitted_table(vm: Interpreter, f: Callable[[Floats], Floats], reach: float, most: int) -> RowTable:
    """The best of a few grids, by ridge least squares, among those whose values stay within v_max."""
    s = np.linspace(-reach, reach, POINTS)
    wanted, best = f(s), None
    limit = ROOM * min(vm.bounds["v_max"], vm.bounds["w_max"] * vm.bounds["x_max"])
    for pad in PADS:
        anchors = np.linspace(-1, 1, most) * reach * (1 + 2 * pad / most)
        for sharp in SHARPNESS:
            beta = sharp / (anchors[1] - anchors[0]) ** 2 if most > 1 else 1.0
            slopes, offsets = 2 * beta * anchors, -beta * anchors**2
            weights = RowTable(slopes, offsets, np.eye(most), reach, f, 0.0, "measured")(s)
            for ridge in RIDGES:
                square = weights.T @ weights + ridge * np.eye(most)
                held = np.asarray(np.linalg.solve(square, weights.T @ wanted), dtype=np.float64)
                error = float(np.abs(weights @ held - wanted).max())
                if np.abs(held).max() <= limit and (best is None or error < best.error):
                    best = RowTable(slopes, offsets, held, reach, f, error, "measured")
    if best is None:
        raise ToleranceError(f"no table of {most} rows for this f has values within {limit:g}: a larger v_max helps")
    return best


def smooth(
    vm: Interpreter, f: Function, reach: float = 1.0, features: Sequence[int] = (0,), rows: int = 16, name: str = "f",
    tokens: int | None = None,
) -> Algorithm:  # fmt: skip
    """f of some features of every token, one head for each; the others come out as 0, the last one, which must be 1,
    as 1.

    f: a network that `ww.approximate` made (its registers become rows; the error is its bound, checked), or a formula
    or function (fitted and measured). reach: |x| up to which it holds. rows: how many of them it may take. tokens: of
    the data, as many as the interpreter has by default.
    """
    table = make_table(vm, f, reach, rows)
    return _apply_tables(vm, [table], features, (), name, tokens)


def route(
    vm: Interpreter, functions: Sequence[Function], selectors: Sequence[int], reach: float = 1.0, feature: int = 0,
    rows: int = 16, name: str = "route", tokens: int | None = None,
) -> Algorithm:  # fmt: skip
    """Several functions in one program; the token itself says which one it wants: function t where feature
    selectors[t] is 1 and the others are 0. The last feature is 1. `rows` of them for each function.

    A selector adds the same number to the scores of its own function's rows, which leaves the others a weight of e^-it
    beside them: all that queries and keys have room for. The error is measured, that weight included.
    """
    if len(selectors) != len(functions):
        raise ValueError(f"selectors has {len(selectors)} features for {len(functions)} functions")
    tables = [make_table(vm, f, reach, rows) for f in functions]
    return _apply_tables(vm, tables, (feature,), selectors, name, tokens)


def _apply_tables(
    vm: Interpreter,
    tables: Sequence[RowTable],
    features: Sequence[int],
    selectors: Sequence[int],
    name: str,
    tokens: int | None,
) -> Algorithm:
    reach, d = tables[0].reach, vm.features
    slopes, offsets = (np.concatenate([getattr(t, part) for t in tables]) for part in ("slopes", "offsets"))
    offsets = offsets - (offsets.max() + offsets.min()) / 2
    held = np.concatenate([t.values for t in tables])
    task = np.concatenate([np.full(len(t.values), k) for k, t in enumerate(tables)])
    n = data_tokens(vm, tokens, len(held))
    lift = _lift(vm, slopes, offsets, reach, selectors)
    programs = []
    for feature in features:
        parts = [Part(unit(vm, feature), reach, slopes), Part(unit(vm, -1), 1.0, offsets)]
        parts += [Part(unit(vm, chosen), 1.0, lift * (task == k)) for k, chosen in enumerate(selectors)]
        programs.append(encode_scores(vm, parts, name))
    room, used = vm.bounds["x_max"], programs[0].held.shape[1]
    if used + 2 > d:
        raise ValueError(f"{name} takes {used + 2} features of a row, and the interpreter has features={d}")
    rows, size = np.zeros((len(held), d)), max(float(np.abs(held).max()), room)
    rows[:, :used], rows[:, used], rows[:, used + 1] = programs[0].held, held / size * room, room
    W_V = np.zeros((len(programs), d, d))
    for m, feature in enumerate(features):
        W_V[m, feature, used] = size / room
    W_V[0, d - 1, used + 1] = 1 / room
    program = vm.program(
        np.stack([p.W_Q for p in programs]), np.stack([p.W_K for p in programs]), W_V, rows=rows,
        sees=rows_only(n, len(rows)), name=name,
    )  # fmt: skip

    def plain(x: Floats) -> Floats:
        out = np.zeros_like(x)
        for feature in features:
            found = [t.f(x[..., feature]) for t in tables]
            chosen = [x[..., s] for s in selectors] or [np.ones(x.shape[:-1])]
            out[..., feature] = sum(c * y for c, y in zip(chosen, found, strict=True))
        out[..., d - 1] = 1.0
        return out

    how: How = "checked" if not selectors and tables[0].how == "checked" else "measured"
    made = state(vm, program, plain, max(t.error for t in tables), how)
    return made if how == "checked" else _measured(vm, made, features[0], reach, selectors, n)


def _lift(vm: Interpreter, slopes: Floats, offsets: Floats, reach: float, selectors: Sequence[int]) -> float:
    """What a selector may add, its share of the entries that are left."""
    if not selectors:
        return 0.0
    parts = [Part(unit(vm, 0), reach, slopes), Part(unit(vm, -1), 1.0, offsets)]
    return largest_beta(vm, lambda C: [*parts, *(Part(unit(vm, s), 1.0, np.array([C])) for s in selectors)])


def _measured(
    vm: Interpreter, made: Algorithm, feature: int, reach: float, selectors: Sequence[int], n: int
) -> Algorithm:
    """With its error on a grid of tokens, with the program's numbers as they stand in the prompt."""
    count, worst = -(-POINTS // n) * n, 0.0
    x = np.zeros((count // n, n, vm.features))
    x[..., -1], x[..., feature] = 1.0, np.linspace(-reach, reach, count).reshape(-1, n)
    for chosen in selectors or (-1,):
        data = x.copy()
        data[..., chosen] = 1.0
        worst = max(worst, float(np.abs(made.run(data) - made.plain(data)).max()))
    return replace(made, error=1.01 * worst + rounding(vm, made), how="measured")


def rows_only(n: int, r: int) -> Bools:
    """Data tokens that see all rows and no data."""
    return np.concatenate([np.ones((n, r), dtype=bool), np.zeros((n, n), dtype=bool)], axis=1)
