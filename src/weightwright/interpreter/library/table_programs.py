"""Programs that apply a function of one number to features of every token: tables of soft anchors as rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from weightwright.interpreter.library.algorithms import (
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
from weightwright.interpreter.library.row_tables import POINTS, Function, RowTable, Scores, make_table
from weightwright.interpreter.virtual_machine import Interpreter
from weightwright.numbers import Bools, Floats


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
    table = make_table(vm, f, reach, rows, _scores_of(vm, features[0], reach), vm.head_dim)
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
    parts = _scores_of(vm, feature, reach)
    tables = [make_table(vm, f, reach, rows, parts, vm.head_dim // 2) for f in functions]
    return _apply_tables(vm, tables, (feature,), selectors, name, tokens)


def _scores_of(vm: Interpreter, feature: int, reach: float) -> Scores:
    return lambda slopes, offsets: [Part(unit(vm, feature), reach, slopes), Part(unit(vm, -1), 1.0, offsets)]


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
        parts = _scores_of(vm, feature, reach)(slopes, offsets)
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
    parts = _scores_of(vm, 0, reach)(slopes, offsets)
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
