"""Where the columns of a rule lie on the way of a plain run: ranges from a rehearsal, of which nothing is proven."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from weightwright.claims.graph import KINDS, Graph
from weightwright.compiler.lowering.fusing import fuse
from weightwright.compiler.lowering.ranges import Limit
from weightwright.enclosures.intervals.formulas import PARTS, enclose
from weightwright.numbers import Bools, Floats
from weightwright.prover.graph_values import column_values

#: Number of states that are drawn near those of the plain run.
DRAWN = 64
#: How far from them they are drawn at most, as a share of `room`.
NEAR = 0.5
#: A range counts as at least this share of its numbers' size.
NARROWEST = 2.0**-10
#: A range is widened only while a function of the column gets at most this many times steeper: it crosses no pole.
STEEPER = 4.0
#: How much wider that looks for, in widths of the range.
FACTORS = np.append(2.0 ** np.arange(12, -16, -1), 0.0)
#: Number of states that are looked at together.
AT_ONCE = 64


@dataclass(frozen=True)
class RuleRehearsal:
    """examples: (n, features). states: (count, s), what the passes of the plain rule began with. room: what is added to
    every range on either side, of its width."""

    examples: Floats
    states: Floats
    room: float

    def prompts(self, states: Floats) -> Floats:
        """(count, s) -> (count, n, features + s): the examples with each of these states."""
        n, count = len(self.examples), len(states)
        shape = (count, n, states.shape[1])
        rows = np.broadcast_to(self.examples, (count, *self.examples.shape))
        return np.concatenate([rows, np.broadcast_to(states[:, None], shape)], axis=2)

    def near(self, seed: int, lo: Floats, hi: Floats) -> Floats:
        """(DRAWN, s): states near those of the plain run, between lo and hi."""
        rng = np.random.default_rng(seed)
        start = self.states[rng.integers(len(self.states), size=DRAWN)]
        step = NEAR * self.room * width(self.states) * rng.uniform(-1, 1, start.shape)
        return np.clip(start + step, lo, hi)


def width(rows: Floats) -> Floats:
    """Of the numbers in every column, not less than NARROWEST says; where nothing varies, their size."""
    lo, hi = rows.min(axis=0), rows.max(axis=0)
    return np.where(hi > lo, _widths(lo, hi), np.maximum(np.abs(hi), 1.0))


def rehearsed(graph: Graph, rehearsal: RuleRehearsal, lo: Floats, hi: Floats) -> dict[int, Limit]:
    """Ends of all columns on all tokens: what the plain run and states near it, between lo and hi, make of them, and
    room on either side; but no farther than where a function of the column would be much steeper."""
    seen = _reach(graph, rehearsal, rehearsal.states)
    ends = seen[0].min(axis=1), seen[1].max(axis=1)
    farthest = _farthest(graph, *ends)
    drawn = _reach(graph, rehearsal, rehearsal.near(0, lo, hi))
    kept = inside(drawn, farthest)
    least = np.minimum(ends[0], drawn[0][:, kept].min(axis=1, initial=np.inf))
    most = np.maximum(ends[1], drawn[1][:, kept].max(axis=1, initial=-np.inf))
    more = rehearsal.room * _widths(least, most)
    found = {}
    for k in np.flatnonzero(np.isfinite(more) & (more > 0)).tolist():
        a, b = farthest.get(k, (-np.inf, np.inf))
        found[k] = max(float(least[k] - more[k]), a), min(float(most[k] + more[k]), b)
    return found


def stays(graph: Graph, rehearsal: RuleRehearsal, states: Floats, limits: Mapping[int, Limit]) -> Bools:
    """(count,): from which of these states all columns stay within their limits."""
    return inside(_reach(graph, rehearsal, states), limits)


def inside(reach: tuple[Floats, Floats], limits: Mapping[int, Limit]) -> Bools:
    """For which inputs (columns, inputs) all columns are finite and within their limits."""
    least, most = reach
    fine: Bools = np.logical_and.reduce(np.isfinite(np.concatenate(reach)), axis=0)
    for k, (a, b) in limits.items():
        fine &= (least[k] >= a) & (most[k] <= b)
    return fine


def _reach(graph: Graph, rehearsal: RuleRehearsal, states: Floats) -> tuple[Floats, Floats]:
    """(columns, count) each: the least and the most of any token."""
    found = []
    with np.errstate(all="ignore"):
        for start in range(0, len(states), AT_ONCE):
            columns = column_values(graph, rehearsal.prompts(states[start : start + AT_ONCE]))
            found.append([(column.min(axis=1), column.max(axis=1)) for column in columns])
    least, most = np.concatenate([np.array(part) for part in found], axis=2).swapaxes(0, 1)
    return least, most


def _widths(lo: Floats, hi: Floats) -> Floats:
    with np.errstate(invalid="ignore"):
        return np.maximum(hi - lo, NARROWEST * np.maximum(np.abs(lo), np.abs(hi)))


def _farthest(graph: Graph, lo: Floats, hi: Floats) -> dict[int, Limit]:
    """How far the arguments of functions may reach, by what they were seen to reach."""
    formulas = defaultdict[int, set[str]](set)
    for node in graph.nodes:
        if node.op not in KINDS:
            formulas[node.of[0]].add(node.op)
    for function in fuse(graph).functions.values():
        formulas[function.base].add(function.formula)
    found, steps = {}, FACTORS[:, None] * _widths(lo, hi)
    for k, consumers in formulas.items():
        if np.isfinite(steps[:, k]).all():
            first, last = lo[k] - steps[:, k], hi[k] + steps[:, k]
            low = np.logical_and.reduce([_mild(formula, first, np.full_like(first, hi[k])) for formula in consumers])
            high = np.logical_and.reduce([_mild(formula, np.full_like(last, lo[k]), last) for formula in consumers])
            found[k] = float(first[low].min(initial=lo[k])), float(last[high].max(initial=hi[k]))
    return found


def _mild(formula: str, lo: Floats, hi: Floats) -> Bools:
    """On which of these intervals, of which the last is the narrowest, the function is defined and not much steeper."""
    least, most = enclose(formula, lo, hi, parts=4 * PARTS)
    slopes = np.max(np.abs(enclose(formula, lo, hi, order=1, parts=4 * PARTS)), axis=0)
    return np.isfinite(least) & np.isfinite(most) & (slopes <= STEEPER * slopes[-1]) & np.isfinite(slopes)
