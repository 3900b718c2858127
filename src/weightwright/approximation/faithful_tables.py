"""Tables as the papers have them: anchors so sharp that softmax picks the nearest."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from flint import arb

from weightwright.approximation.table import ProposedTable, with_slope
from weightwright.checker.core.rounding import StoredHead
from weightwright.checker.one_layer.nearest import examine_nearest
from weightwright.claims.certificate import Leaf, Terms, constant, local_formula
from weightwright.claims.target import NO_ZONES
from weightwright.enclosures.balls.series import largest, series, working_precision
from weightwright.enclosures.intervals.jets import values
from weightwright.errors import ToleranceError
from weightwright.expressions import Apply, Expression, Variable, parse, to_text
from weightwright.heads.registers import HIDDEN, Query, Table
from weightwright.numbers import UNIT, Floats, rounded
from weightwright.prover import Anchors, Sum, first_edges, prove
from weightwright.prover.selection import Lines, propose_nearest

#: Where the anchors that are not nearest would weigh more than this together, the rule "nearest" says nothing useful.
SHARP = 2.0**-6
#: Pieces of the range on each of which the slope of a profile is bounded.
_SLOPE_BOXES = 256


def clip_text(a: float, b: float) -> str:
    """Range[a, b] as a formula, with exactly these ends."""
    return to_text(Apply("clip", (Variable("x"), constant(Fraction(a)), constant(Fraction(b)))))


def on_interval(part: ProposedTable, profile: str, lo: float, hi: float, dtype: str = "float64") -> ProposedTable:
    """The same heads for another profile, proven anew on an interval: inside [a, b] a truncated model is s itself."""
    formula = parse(profile, ("x",))
    local = local_formula(formula, part.query.centre, part.query.scale, part.mean)
    layer = Sum(tuple(table.anchors(part.query) for table in part.tables), part.slope / part.query.scale)
    room = 64 * UNIT[dtype] * max(abs(lo), abs(hi))  # the checker's ranges are rounded outward
    first, last = part.query.reach(lo - room, hi + room, dtype)
    s = np.linspace(first, last, 2049)
    measured = float(np.abs(layer.values(s) - values(local, s)).max())
    edges = np.unique(np.clip(first_edges(layer, first, last), first, last))
    proof = prove(layer, local, edges, dtype, max(1.03 * measured, 2.0**-44 * (hi - lo)))
    claim = Leaf(0, to_text(local), first, last, "taylor", proof.boxes, proof.terms, proof.lipschitz)
    return dataclasses.replace(part, profile=to_text(formula), claim=with_slope(claim))


def split_beta(beta: float, dtype: str) -> tuple[float, float]:
    """(power of two, factor in [1, 2)): heads multiply by powers of two, keys take the rest."""
    exponent = math.floor(math.log2(beta))
    return math.ldexp(1.0, exponent), float(rounded(np.array(math.ldexp(beta, -exponent)), dtype))


def propose_faithful(
    profile: str,
    anchors: Floats,
    runs: Sequence[tuple[int, Floats]],
    beta: float,
    lo: float,
    hi: float,
    dtype: str = "float64",
    zones: Floats = NO_ZONES,
    lift: float = 0.0,
) -> ProposedTable:
    """Heads with scores -(beta/2)(s - L_j)^2 up to what they share. runs: for each head its first anchor, and a value
    for each anchor from there on. Nothing is claimed in the zones, intervals of s. lift: added to all scores, in units
    of beta: heads on registers that have a part of the anchors must stay above keys that they do not see."""
    power, factor = split_beta(beta, dtype)
    keys, offsets = (rounded(x, dtype) for x in (factor * anchors, factor * (lift - anchors**2 / 2)))
    tables = tuple(
        Table(keys[first : first + len(own)], offsets[first : first + len(own)], rounded(own, dtype), power)
        for first, own in runs
    )
    formula = parse(profile, ("x",))
    local = local_formula(formula, 0.0, 1.0, 0.0)
    lines = Lines(
        power * keys, power * offsets, tuple((first, t.values) for (first, _), t in zip(runs, tables, strict=True))
    )
    query = Query(0.0, 1.0)
    claim = (
        _nearest(lines, local, lo, hi, zones, dtype)
        if lines.tail() < SHARP
        else _taylor(tables, local, lo, hi, zones, dtype)
    )
    return ProposedTable(to_text(formula), tables, query, 0.0, 0.0, claim, zones)


def propose_nearest_table(
    profile: str, anchors: Floats, own: Floats, beta: float, lo: float, hi: float, dtype: str = "float64"
) -> ProposedTable:
    """One head with the same scores, sharp enough to pick the nearest anchor, for a profile of any kind.

    What to claim is asked of the checker's own rule, which encloses the profile between anchors; the check that follows
    examines everything again.
    """
    power, factor = split_beta(beta, dtype)
    keys, offsets, held = (rounded(x, dtype) for x in (factor * anchors, -factor * anchors**2 / 2, own))
    formula = parse(profile, ("x",))
    local = local_formula(formula, 0.0, 1.0, 0.0)
    edges = np.linspace(lo, hi, _SLOPE_BOXES + 1)
    boxes = np.stack([edges[:-1], edges[1:]], axis=1)
    with working_precision():
        slopes, heights, values_held = (
            [arb(x) for x in part.tolist()] for part in (power * keys, power * offsets, held)
        )
        zeros, nothing = [arb(0)] * len(keys), (arb(0), arb(0))
        head = StoredHead(slopes, heights, values_held, zeros, False, nothing, arb(HIDDEN), arb(1), dtype)
        found = examine_nearest([head], local, arb(lo), arb(hi))
        steepest = largest(abs(series(local, arb(a).union(arb(b)), 1)[1]) for a, b in boxes.tolist())
        numbers = [
            float(x.upper()) * (1 + 2.0**-20) + 1e-300 for x in (found.approximation, found.leakage, found.rounding)
        ]
        slope = float(steepest.upper()) * (1 + 2.0**-20)
    if not all(map(math.isfinite, (*numbers, slope))):
        raise ToleranceError(f"no bound could be proven for {to_text(local)} with {len(keys)} anchors in {dtype}")
    claim = Leaf(0, to_text(local), lo, hi, "nearest", boxes, Terms(*numbers), slope)
    return ProposedTable(to_text(formula), (Table(keys, offsets, held, power),), Query(0.0, 1.0), 0.0, 0.0, claim)


def _nearest(lines: Lines, local: Expression, lo: float, hi: float, zones: Floats, dtype: str) -> Leaf:
    terms = propose_nearest(lines, local, lo, hi, zones, dtype)
    half = _inner_half(zones)
    edges = np.sort(np.concatenate([[lo, hi], half.ravel()]))
    edges = np.unique(np.clip(edges, lo, hi))
    boxes = np.stack([edges[:-1], edges[1:]], axis=1)
    middle = boxes.mean(axis=1)
    boxes = boxes[~((middle[:, None] > half[:, 0]) & (middle[:, None] < half[:, 1])).any(axis=1)]
    claim = Leaf(0, to_text(local), lo, hi, "nearest", boxes, terms, 0.0)
    return with_slope(claim)


def _inner_half(zones: Floats) -> Floats:
    """Boxes reach into the zones: a computed s may lie there although the exact one does not."""
    return zones + (zones[:, 1:] - zones[:, :1]) * np.array([[0.25, -0.25]])


def _taylor(tables: Sequence[Table], local: Expression, lo: float, hi: float, zones: Floats, dtype: str) -> Leaf:
    """Soft anchors: boxes, and Taylor models on each. No key is hidden in the theorems' own networks."""
    heads = tuple(
        Anchors(t.beta * t.keys, t.beta * t.offsets, t.values, np.zeros(len(t.keys)), False, -math.inf, t.weight)
        for t in tables
    )
    layer = Sum(heads)
    half = _inner_half(zones)
    edges = np.unique(np.concatenate([first_edges(layer, lo, hi), np.clip(half.ravel(), lo, hi)]))
    proof = prove(layer, local, edges, dtype, 1e-3 * (hi - lo), half)
    if not math.isfinite(proof.terms.approximation + proof.terms.leakage + proof.terms.rounding):
        raise ToleranceError(f"no bound could be proven for {to_text(local)} with these anchors in {dtype}")
    claim = Leaf(0, to_text(local), lo, hi, "taylor", proof.boxes, proof.terms, proof.lipschitz)
    return with_slope(claim)
