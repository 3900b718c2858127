"""Functions that are undefined somewhere on the domain: refused, with a part of the domain where that happens."""

from __future__ import annotations

import heapq
import math
from itertools import count

import numpy as np

from weightwright.compiler.forms import Forms
from weightwright.compiler.ranges import Evaluator, Ranges, Undefined
from weightwright.errors import FormulaError
from weightwright.network.layers import Floats

#: So many parts of the domain are looked at, fewer where the graph is large.
MOST_BOXES, LEAST_BOXES, WORK = 2000, 50, 400_000


def defined_ranges(forms: Forms, lo: Floats, hi: Floats) -> Ranges:
    """The ranges on the whole domain; FormulaError that names a part of it where a function is undefined.

    lo, hi: (tokens, features).
    """
    evaluator = Evaluator(forms)
    try:
        return evaluator.on(lo, hi)
    except Undefined as found:
        raise _refusal(forms, evaluator, lo, hi, found) from None


def _refusal(forms: Forms, evaluator: Evaluator, lo: Floats, hi: Floats, first: Undefined) -> FormulaError:
    """Halve the domain towards where the argument is farthest outside, until a point is certain or boxes run out."""
    limit = int(np.clip(WORK / (len(forms.plan.units) + 1), LEAST_BOXES, MOST_BOXES))
    width = np.where(hi > lo, hi - lo, 1.0)
    order, number = list[tuple[float, int, Floats, Floats, Undefined]](), count()
    heapq.heappush(order, (first.lo, next(number), lo, hi, first))
    for _ in range(limit):
        if not order:
            break
        _, _, a, b, found = order[0]
        middle = (a + b) / 2
        try:
            evaluator.on(middle, middle)
        except Undefined as certain:
            return FormulaError(_message(forms, a, b, certain, "is"))
        heapq.heappop(order)
        axis = np.unravel_index(int(np.argmax((b - a) / width)), a.shape)
        for side in (0, 1):
            left, right = a.copy(), b.copy()
            (right if side == 0 else left)[axis] = middle[axis]
            try:
                evaluator.on(left, right)
            except Undefined as again:
                heapq.heappush(order, (again.lo, next(number), left, right, again))
    if not order:
        a, b, found = lo, hi, first
    else:
        _, _, a, b, found = min(order, key=lambda item: float(((item[3] - item[2]) / width).sum()))
    return FormulaError(_message(forms, a, b, found, "could not be shown to stay inside: it may be"))


def _message(forms: Forms, lo: Floats, hi: Floats, found: Undefined, how: str) -> str:
    node, function = forms.graph.nodes[found.unit], forms.plan.functions[found.unit]
    token = "" if forms.graph.tokens is None else f" on token {found.token}"
    reach = f"{found.lo:g}" if found.lo == found.hi else f"between {found.lo:g} and {found.hi:g}"
    return (
        f"{node.label or node.op}: {function.formula} is undefined or unbounded{token} where its argument"
        f" {how} {reach}, on the part {_box(forms, lo, hi)} of the domain; take a smaller domain, or keep the argument"
        " away: add an eps to a variance before dividing by its root, or clamp"
    )


def _box(forms: Forms, lo: Floats, hi: Floats) -> str:
    """The box in words, feature by feature."""
    used = sorted({node.index for node in forms.graph.nodes if node.op == "input"})
    tokens = range(forms.n)
    parts = []
    for t in tokens:
        for c in used:
            name = f"x[{c}]" if forms.graph.tokens is None else f"x[{t}, {c}]"
            parts.append(f"{name} in [{_short(lo[t, c])}, {_short(hi[t, c])}]")
    shown = parts if len(parts) <= 12 else [*parts[:11], f"and {len(parts) - 11} more"]
    return ", ".join(shown)


def _short(x: float) -> str:
    return f"{x:.6g}" if math.isfinite(x) else str(x)
