"""Tables for rows of a program: soft anchors whose mix is a function of one number."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from weightwright.checker.one_layer.stored import read_one_layer
from weightwright.claims.one_layer_claims import OneLayerClaim
from weightwright.enclosures.intervals.jets import values
from weightwright.errors import DomainError, ToleranceError
from weightwright.expressions import parse
from weightwright.interpreter.library.algorithms import ROOM, How, Part, entries_needed
from weightwright.interpreter.virtual_machine import Interpreter
from weightwright.network import Attention
from weightwright.numbers import Floats
from weightwright.runtime import AttentionNetwork

#: Anchors on each side of the interval, and beta times the square of their spacing, that are tried.
PADS, SHARPNESS = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0), (0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 0.8, 1.2)
#: What a fit gives up for smaller values, next to the mean square of a weight.
RIDGES = (1e-12, 1e-9, 1e-6, 1e-4, 1e-2)
#: Of the rows that there is room for, how many are tried, until some fit.
SHARES = (1.0, 0.75, 0.5, 0.25)
#: Points at which a fit is measured.
POINTS = 2001

Function = str | Callable[[Any], Any] | AttentionNetwork
#: The parts of a score for the slopes and offsets of a table.
Scores = Callable[[Floats, Floats], list[Part]]


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


def make_table(vm: Interpreter, f: Function, reach: float, most: int, scores: Scores, room: int) -> RowTable:
    """A table for f on [-reach, reach] of at most so many rows. f: a network that `ww.approximate` made, whose
    registers are taken as they are and whose bound was checked; or a formula of x or a function of a tensor, for which
    anchors are fitted that stay within v_max, with an error that is measured. scores: the parts of a score for slopes
    and offsets; room: how many entries of queries and keys they may take."""
    if isinstance(f, AttentionNetwork):
        return _stored_table(f, reach, most)
    return _fitted_table(vm, plain_function(f), reach, most, lambda a, b: entries_needed(vm, scores(a, b)) <= room)


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
    first = net.network.layers[0]
    plain = isinstance(said.claim, OneLayerClaim) and said.kernel == "dot" and not said.dead_zones
    alone = isinstance(first, Attention) and len(first.heads) == 1 and first.heads[0].sees.data == "none"
    layer = read_one_layer(net.network) if plain and alone else None
    if layer is None or layer.slope:
        raise ValueError(f"f must be one head on registers alone, and the network for {said.formula} is not")
    if not (float(said.domain.lo[0]) <= -reach and reach <= float(said.domain.hi[0])):
        raise DomainError(f"f is a network for {said.domain}, and reach={reach:g} asks for [-{reach:g}, {reach:g}]")
    head = layer.heads[0]
    if len(head.slopes) > most:
        raise ValueError(f"f has {len(head.slopes)} registers, and there is room for {most} rows")
    slopes = np.array([float(k) for k in head.slopes]) * layer.scale
    offsets = np.array([float(c) for c in head.offsets]) - slopes * layer.centre
    held = np.array([float(v) for v in head.values]) * float(head.weight) + layer.mean
    return RowTable(slopes, offsets, held, reach, plain_function(said.formula), said.bound, "checked")


def _fitted_table(
    vm: Interpreter,
    f: Callable[[Floats], Floats],
    reach: float,
    most: int,
    fits: Callable[[Floats, Floats], bool],
) -> RowTable:
    """The best of a few grids, by ridge least squares, among those whose scores and values stay within the bounds."""
    s = np.linspace(-reach, reach, POINTS)
    wanted = f(s)
    _refuse_jumps(f, s, wanted)
    limit = ROOM * min(vm.bounds["v_max"], vm.bounds["w_max"] * vm.bounds["x_max"])
    best: RowTable | None = None
    for count in sorted({max(2, round(most * share)) for share in SHARES}, reverse=True):
        for slopes, offsets in _grids(count, reach):
            if not fits(slopes, offsets - (offsets.max() + offsets.min()) / 2):
                continue
            weights = RowTable(slopes, offsets, np.eye(count), reach, f, 0.0, "measured")(s)
            for ridge in RIDGES:
                square = weights.T @ weights + ridge * np.eye(count)
                held = np.asarray(np.linalg.solve(square, weights.T @ wanted), dtype=np.float64)
                error = float(np.abs(weights @ held - wanted).max())
                if np.abs(held).max() <= limit and (best is None or error < best.error):
                    best = RowTable(slopes, offsets, held, reach, f, error, "measured")
        if best is not None:
            return best
    raise ToleranceError(
        f"no table of up to {most} rows for this f has values within {limit:g} and scores that fit head_dim="
        f"{vm.head_dim}: a larger v_max, q_max, k_max, w_max or head_dim helps"
    )


def _grids(count: int, reach: float) -> Iterator[tuple[Floats, Floats]]:
    """Slopes and offsets of evenly spaced anchors that reach a little beyond the interval."""
    for pad in PADS:
        anchors = np.linspace(-1, 1, count) * reach * (1 + 2 * pad / count)
        for sharp in SHARPNESS:
            beta = sharp / (anchors[1] - anchors[0]) ** 2
            yield 2 * beta * anchors, -beta * anchors**2


def _refuse_jumps(f: Callable[[Floats], Floats], s: Floats, wanted: Floats) -> None:
    """A softmax is continuous: what jumps would be as far off as it jumps, and no grid would show it."""
    if not np.isfinite(wanted).all():
        raise ValueError(f"f must be finite on [{s[0]:g}, {s[-1]:g}], and is {wanted[~np.isfinite(wanted)][0]}")
    steps = np.abs(np.diff(wanted))
    i = int(steps.argmax())
    closer = np.abs(np.diff(f(np.linspace(s[i], s[i + 1], POINTS)))).max()
    if steps[i] > 0 and closer > steps[i] / 2:
        raise ValueError(f"f jumps between {s[i]:.4g} and {s[i + 1]:.4g}, and no mix of rows does")
