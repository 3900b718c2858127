"""Functions that are undefined somewhere on the domain: refused, with a part of the domain where that happens.

Where only the ranges are too coarse to tell, they are found on parts of the domain, one by one.
"""

from __future__ import annotations

import heapq
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count

import numpy as np
from flint import arb

from weightwright.claims.graph import Graph
from weightwright.compiler.lowering.affine_forms import Forms
from weightwright.compiler.lowering.fusing import fuse
from weightwright.compiler.lowering.ranges import ColumnRanges, Evaluator, Lemma, Limit, Undefined
from weightwright.enclosures.balls.series import series, working_precision
from weightwright.enclosures.intervals.formulas import enclose
from weightwright.errors import FormulaError, ToleranceError, UnclearError
from weightwright.expressions import parse, shortened
from weightwright.numbers import Floats

#: Number of parts of the domain that are looked at for the place of the trouble: WORK over the size of the graph,
#: between LEAST_BOXES and MOST_BOXES.
MOST_BOXES, LEAST_BOXES, WORK = 2000, 50, 400_000
#: Number of inputs beyond which only LEAST_BOXES are looked at: no part that can be reached is small.
MANY = 32
#: The part that is told is this much smaller than the domain along every input, if nothing is certain before.
SMALL = 2.0**-5
#: Largest number of equal parts of the domain on which ranges are found; fewer where there are many inputs.
MOST_PARTS = 256
_POINTS = 33  # of an argument's range that are looked at

#: Number of parts that are looked at where nothing is to be proven.
_FINE_BOXES = 4_000
#: Width of the finest of them, as a share of the domain's.
_FINEST = 2.0**-40


@dataclass
class RangesByPart(ColumnRanges):
    """Ranges that were found part by part; a column's range holds those on all parts."""

    parts: list[ColumnRanges] = field(default_factory=list)

    def of(self, column: int) -> tuple[Floats, Floats]:
        ends = np.array([part.of(column) for part in self.parts])
        return ends[:, 0].min(axis=0), ends[:, 1].max(axis=0)


def defined_ranges(
    forms: Forms,
    lo: Floats,
    hi: Floats,
    limits: Mapping[int, Limit] = {},
    ablatable: bool = False,
    checked: bool = False,
) -> tuple[ColumnRanges, tuple[int, ...]]:
    """The ranges on the whole domain, and the number of equal parts along every input that it takes to find them (none:
    the whole at once). FormulaError that names a part of the domain where a function is undefined.

    lo, hi: (tokens, features). limits: ends of columns that the caller knows better. ablatable: whichever heads return
    0 instead. checked: ranges of functions as the checker finds them, but where it takes parts; ToleranceError where it
    finds none.
    """
    evaluator = Evaluator(forms, limits, ablatable=ablatable)
    try:
        whole = evaluator.on(lo, hi)
        if checked:
            whole = _checked_ranges(Evaluator(forms, limits, ablatable=ablatable, checked=True), lo, hi)
        return whole, ()
    except Undefined as found:
        culprit = _culprit(evaluator, lo, hi, found)
        split = _split(evaluator, lo, hi) if culprit is None else None
        if split is not None:
            return split
        a, b, found, certain = culprit or (lo, hi, found, False)
        raise (FormulaError if certain else UnclearError)(_message(forms, a, b, found, certain)) from None


def _checked_ranges(evaluator: Evaluator, lo: Floats, hi: Floats) -> ColumnRanges:
    try:
        return evaluator.on(lo, hi)
    except Undefined as found:
        label, formula = told_as(evaluator.forms, found.unit)
        raise ToleranceError(
            f"{label}: take a smaller domain: the checker finds no bound on {formula} for arguments between"
            f" {found.lo:g} and {found.hi:g}"
        ) from None


def finite_by_estimate(graph: Graph, lo: Floats, hi: Floats) -> bool:
    """Whether all columns are finite on the domain, as parts of it tell: smaller ones than a proof could name, and ends
    that are not rounded outward, so that sqrt(x) may begin at 0. Nothing is proven.

    lo, hi: (tokens, features).
    """
    evaluator = Evaluator(Forms(graph, fuse(graph, set()), lo.shape[1]), outward=0.0)
    width, used, boxes = np.where(hi > lo, hi - lo, 1.0), _used(evaluator.forms), [(lo, hi)]
    for _ in range(_FINE_BOXES):
        if not boxes:
            return True
        a, b = boxes.pop()
        try:
            evaluator.on(a, b)
        except Undefined:
            relative = np.where(used, (b - a) / width, 0.0)
            if relative.max(initial=0.0) < _FINEST:
                return False
            boxes += _halves(a, b, relative)
    return False


def _culprit(
    evaluator: Evaluator, lo: Floats, hi: Floats, first: Undefined
) -> tuple[Floats, Floats, Undefined, bool] | None:
    """A small part of the domain where a function is undefined, for certain or as far as can be told; None if parts
    show that there is none. Parts where more of the argument's range is outside come first, then smaller ones."""
    used = _used(evaluator.forms)
    units = len(evaluator.forms.plan.units) + 1
    limit = int(np.clip(WORK / units * _fewer(used), LEAST_BOXES, _fewer(used) * MOST_BOXES))
    width, number = np.where(hi > lo, hi - lo, 1.0), count()
    smallest = (lo, hi, first, False)
    order = [(0.0, 1.0, next(number), lo, hi, first)]
    for _ in range(limit):
        if not order:
            return None
        less, _, _, a, b, found = heapq.heappop(order)
        relative = np.where(used, (b - a) / width, 0.0)
        smallest = (a, b, found, less == -1.0)
        if less == -1.0 or relative.max(initial=0.0) <= SMALL:
            return smallest
        for left, right in _halves(a, b, relative):
            try:
                evaluator.on(left, right)
            except Undefined as again:
                size = float(np.where(used, (right - left) / width, 0.0).sum())
                outside = _outside(evaluator.forms, again)
                heapq.heappush(order, (-outside, size, next(number), left, right, again))
    return smallest


def _fewer(used: Floats) -> float:
    """How much less is looked at where there are many inputs."""
    return min(1.0, MANY / max(1, int(used.sum())))


def _halves(a: Floats, b: Floats, relative: Floats) -> list[tuple[Floats, Floats]]:
    """A box cut in the middle of its widest side."""
    axis = np.unravel_index(int(np.argmax(relative)), a.shape)
    start, end = a.copy(), b.copy()
    start[axis] = end[axis] = (a[axis] + b[axis]) / 2
    return [(a, end), (start, b)]


def _outside(forms: Forms, found: Undefined) -> float:
    """How much of the argument's range lies where the function is undefined."""
    points = np.linspace(found.lo, found.hi, _POINTS)
    least, most = enclose(forms.plan.functions[found.unit].formula, points, points)
    return float(np.mean(~(np.isfinite(least) & np.isfinite(most))))


def _too_large(forms: Forms, found: Undefined) -> bool:
    """Whether the function is defined on its argument's range, as far as points tell, but no float."""
    formula = parse(forms.plan.functions[found.unit].formula, ("x",))
    with working_precision():
        exact = [series(formula, arb(x), 0)[0] for x in np.linspace(found.lo, found.hi, _POINTS).tolist()]
        return all(y.is_finite() for y in exact) and any(abs(y) > sys.float_info.max for y in exact)


def _split(evaluator: Evaluator, lo: Floats, hi: Floats) -> tuple[ColumnRanges, tuple[int, ...]] | None:
    """Cut the domain along the input that helps most, again and again, until every part has ranges."""
    used = _used(evaluator.forms)
    splits = np.ones(lo.size, dtype=int)
    while True:
        trials = []
        for axis in np.flatnonzero(used.ravel()):
            finer = splits.copy()
            finer[axis] *= 2
            if finer.prod() <= max(2, _fewer(used) * MOST_PARTS):
                parts, failed = _on_parts(evaluator, lo, hi, finer)
                if not failed:
                    ends = np.array([(part.lo, part.hi) for part in parts])
                    whole = parts[0].forms, parts[0].wide, ends[:, 0].min(axis=0), ends[:, 1].max(axis=0)
                    return RangesByPart(*whole, _lemmas(parts), parts=parts), tuple(finer.tolist())
                trials.append((failed / finer.prod(), finer))
        if not trials:
            return None
        splits = min(trials, key=lambda trial: trial[0])[1]


def _lemmas(parts: list[ColumnRanges]) -> dict[int, Lemma]:
    """The lemmas that hold on every part."""
    found = {}
    for product in set.intersection(*(set(part.lemmas) for part in parts)):
        lemmas = [part.lemmas[product] for part in parts]
        value, slope = (np.max([getattr(lemma, name) for lemma in lemmas], axis=0) for name in ("value", "slope"))
        found[product] = Lemma(lemmas[0].index, value, slope)
    return found


def _on_parts(evaluator: Evaluator, lo: Floats, hi: Floats, splits: Floats) -> tuple[list[ColumnRanges], int]:
    """The ranges on every part, and how many parts have none."""
    edges = [np.linspace(a, b, parts + 1) for a, b, parts in zip(lo.ravel(), hi.ravel(), splits, strict=True)]
    found, failed = [], 0
    for index in np.ndindex(*splits):
        ends = np.array([(edge[i], edge[i + 1]) for edge, i in zip(edges, index, strict=True)])
        try:
            found.append(evaluator.on(ends[:, 0].reshape(lo.shape), ends[:, 1].reshape(lo.shape)))
        except Undefined:
            failed += 1
    return found, failed


def _used(forms: Forms) -> Floats:
    """(tokens, features): whether the function takes this feature."""
    features = [node.index for node in forms.graph.nodes if node.op == "input"]
    return np.broadcast_to(np.isin(np.arange(forms.d), features), (forms.n, forms.d))


def told_as(forms: Forms, unit: int) -> tuple[str, str]:
    """The label of a unit, and the function that it is of its argument, both short."""
    node = forms.graph.nodes[unit]
    return shortened(node.label or node.op), shortened(forms.plan.functions[unit].formula)


def _message(forms: Forms, lo: Floats, hi: Floats, found: Undefined, certain: bool) -> str:
    token = "" if forms.graph.tokens is None else f" on token {found.token}"
    reach = f"{found.lo:.6g}" if found.lo == found.hi else f"between {found.lo:.6g} and {found.hi:.6g}"
    where = f"on the part {_box(forms, lo, hi)} of the domain"
    how = f"{where} its argument is {reach}" if certain else f"{where} its argument may be anything {reach}"
    if _too_large(forms, found):
        what, instead = "too large for a float", "clamp the argument"
    else:
        eps = "add an eps to a variance before its root is taken, or clamp it"
        what, instead = "undefined or unbounded", f"keep the argument away from there: {eps}"
    label, formula = told_as(forms, found.unit)
    return f"{label}: {formula} is {what}{token}: {how}. Take a smaller domain, or {instead}"


def _box(forms: Forms, lo: Floats, hi: Floats) -> str:
    """The box in words, input by input."""
    told = []
    for t, c in np.argwhere(_used(forms)).tolist():
        name = f"x[{c}]" if forms.graph.tokens is None else f"x[{t}, {c}]"
        told.append(f"{name} in [{_short(lo[t, c])}, {_short(hi[t, c])}]")
    return ", ".join(told if len(told) <= 12 else [*told[:11], f"and {len(told) - 11} more"])


def _short(x: float) -> str:
    return f"{x:.6g}" if math.isfinite(x) else str(x)
