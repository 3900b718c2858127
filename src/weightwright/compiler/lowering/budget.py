"""Where errors come from and how much each costs: sensitivities of the outputs, tolerances, and errors on the way.

Everything here is a plain float and an estimate; the checker decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from weightwright.claims.graph import ATTENTION, JUMPS, MIX, PRODUCT, SOFTMAX, attended, sees
from weightwright.compiler.lowering.ranges import ColumnRanges
from weightwright.compiler.lowering.squares import product_claim
from weightwright.enclosures.intervals.formulas import PARTS, enclose
from weightwright.numbers import UNIT, Floats
from weightwright.prover.machine import FLUSHED

#: The share of the tolerance that functions may use; the rest is left to rounding.
SHARE = 0.6
#: Numbers that are held at a time to find what errors of units come to: a gigabyte.
AT_ONCE = 2**27
#: A softmax moves by at most this times the largest move of its arguments.
SOFTMAX_SLOPE = 0.5


@dataclass(frozen=True)
class Slopes:
    """Bounds on how much a unit moves when its arguments do, token by token."""

    functions: dict[int, Floats]  # unit -> (tokens,)
    factors: dict[int, tuple[float, float]]  # product -> for each of its two factors

    @classmethod
    def over(cls, ranges: ColumnRanges) -> Slopes:
        forms = ranges.forms
        functions, factors = {}, {}
        for unit in forms.plan.units:
            function = forms.plan.functions.get(unit)
            if function is not None:
                lo, hi = ranges.of(function.base)
                slope = enclose(function.formula, lo, hi, order=1, parts=4 * PARTS)
                steep = np.maximum(abs(slope[0]), abs(slope[1]))
                functions[unit] = np.zeros_like(steep) if function.formula in JUMPS else steep  # constant on both sides
            elif forms.graph.nodes[unit].op == PRODUCT:
                # two squares of numbers in [-1, 1], of slope at most 2; and what is added to their difference
                claim = product_claim(unit, ranges, (0.0, 0.0), -1)
                squares = claim.balance / claim.scale, 1 / (claim.balance * claim.scale)
                factors[unit] = squares[0] + abs(claim.y), squares[1] + abs(claim.x)
        return cls(functions, factors)


def sensitivities(ranges: ColumnRanges, slopes: Slopes) -> tuple[dict[int, float], int]:
    """For every unit what an error of 1 in it, on all tokens, moves an output by at most; and how many heads can err
    on the way to one output."""
    outputs = ranges.forms.graph.outputs
    each = 2 * ranges.forms.size * ranges.forms.n**2  # numbers that are held for one output
    count = max(1, AT_ONCE // each)
    found: dict[int, float] = {}
    most = 1
    for start in range(0, len(outputs), count):
        moved, heads = _moved_outputs(ranges, slopes, outputs[start : start + count])
        found = {unit: max(size, found.get(unit, 0.0)) for unit, size in moved.items()}
        most = max(most, heads)
    return found, most


def _moved_outputs(ranges: ColumnRanges, slopes: Slopes, outputs: Sequence[int]) -> tuple[dict[int, float], int]:
    """The same for some of the outputs."""
    forms = ranges.forms
    graph, n = forms.graph, forms.n
    err = [unit for unit in forms.plan.units if graph.nodes[unit].op not in (MIX, SOFTMAX, ATTENTION)]
    if not err:  # nothing is approximated
        return {}, 1
    O = n * len(outputs)  # noqa: E741  (outputs, token by token)
    own, through = np.zeros((2, forms.size, O, n))

    def reaches(column: int, moved: Floats, *totals: Floats) -> None:
        for total in totals:
            weights = abs(forms[column].weights)
            used = np.flatnonzero(weights)
            total[used] += weights[used, None, None] * moved

    for m, column in enumerate(outputs):
        moved = np.zeros((len(outputs), n, n))
        moved[m] = np.eye(n)
        reaches(column, moved.reshape(O, n), own, through)
    for unit in reversed(forms.plan.units):
        node, moved = graph.nodes[unit], through[forms.place[unit]]
        if not moved.any():
            continue
        if unit in forms.plan.functions:
            reaches(forms.plan.functions[unit].base, slopes.functions[unit] * moved, own, through)
        elif node.op == MIX:
            reaches(node.of[0], moved @ abs(graph.matrices[node.index]), own, through)
        elif node.op == SOFTMAX:
            for column in node.of:
                reaches(column, SOFTMAX_SLOPE * moved, own, through)
        elif node.op == ATTENTION:
            for column, matrix in _attention_slopes(ranges, unit):
                reaches(column, moved @ matrix, own, through)
        else:
            lemma, factors = ranges.lemmas.get(unit), slopes.factors[unit]
            for index, column in enumerate(node.of):
                if lemma is not None and lemma.index == index:
                    reaches(column, factors[index] * moved, own)
                    reaches(forms.plan.functions[column].base, lemma.slope * moved, own, through)
                else:
                    reaches(column, factors[index] * moved, own, through)
    heads = np.zeros(O)
    found = {}
    for unit in err:
        moved = own[forms.place[unit]]
        found[unit] = float(moved.sum(axis=1).max())
        heads += moved.any(axis=1) * (1 if unit in forms.plan.functions else 2)
    return found, max(1, int(heads.max()))


def _attention_slopes(ranges: ColumnRanges, unit: int) -> list[tuple[int, Floats]]:
    """For every query, key and the value of an attention, (tokens, tokens): what the mean on one token moves by if the
    column on another does. All weights count as equal: an estimate."""
    forms = ranges.forms
    node = forms.graph.nodes[unit]
    seen = sees(forms.graph, node)
    q, k, v = attended(node)
    even = seen / seen.sum(axis=1, keepdims=True)
    spread = ranges.hi[:, [forms.place[unit]]] - ranges.lo[:, [forms.place[unit]]]
    sizes = {column: np.abs(ranges.of(column)).max(axis=0) for column in (*q, *k)}
    on_queries = [(a, np.diag(SOFTMAX_SLOPE * spread[:, 0] * sizes[b].max())) for a, b in zip(q, k, strict=True)]
    on_keys = [(b, SOFTMAX_SLOPE * spread * sizes[a][:, None] * even) for a, b in zip(q, k, strict=True)]
    return [*on_queries, *on_keys, (v, even)]


def shares(tol: float, sensitivity: dict[int, float], heads: int) -> dict[int, float]:
    """What every unit's own error may be, for outputs within SHARE tol: each head costs an output the same."""
    return {unit: SHARE * tol / (heads * max(s, 1e-300)) for unit, s in sensitivity.items()}


class Errors:
    """What every column may be off by, from what every unit's own heads are off by."""

    def __init__(self, ranges: ColumnRanges, slopes: Slopes, own: dict[int, float], dtype: str) -> None:
        self.ranges, self.unit = ranges, UNIT[dtype]
        forms, self.basis = ranges.forms, np.zeros_like(ranges.lo)  # (tokens, d + units)
        self.size = np.maximum(abs(ranges.lo), abs(ranges.hi))
        self.basis[:, : forms.d] = FLUSHED[dtype]  # of inputs that are taken for 0
        for unit in forms.plan.units:
            node, place = forms.graph.nodes[unit], forms.place[unit]
            incoming = [self.of(c) for c in forms.arguments(unit)]
            if unit in forms.plan.functions:
                moved = slopes.functions[unit] * incoming[0] + own[unit]
            elif node.op == MIX:
                A = abs(forms.graph.matrices[node.index])
                lo, hi = ranges.of(node.of[0])
                moved = A @ (incoming[0] + 64 * self.unit * np.maximum(abs(lo), abs(hi)))
                self.size[:, place] = A @ np.maximum(abs(lo), abs(hi))
            elif node.op == SOFTMAX:
                moved = SOFTMAX_SLOPE * np.max(incoming, axis=0) + 64 * self.unit
            elif node.op == ATTENTION:
                moved = sum((A @ self.of(c) for c, A in _attention_slopes(ranges, unit)), np.zeros(forms.n))
                moved = moved + 64 * self.unit * (1 + self.size[:, place])
            else:
                moved = self._product(unit, slopes, incoming) + own[unit]
            self.basis[:, place] = moved

    def of(self, column: int) -> Floats:
        """Token by token."""
        form = self.ranges.forms[column]
        w = abs(form.weights)
        rounding = (np.count_nonzero(w) + 4) * self.unit * (self.size @ w + abs(form.constants))
        return self.basis @ w + (0.0 if np.count_nonzero(w) == 1 and not form.constants.any() else rounding)

    def _product(self, unit: int, slopes: Slopes, incoming: list[Floats]) -> Floats:
        lemma, factors = self.ranges.lemmas.get(unit), slopes.factors[unit]
        total = incoming[0] * incoming[1]
        for index in (0, 1):
            if lemma is not None and lemma.index == index:
                forms = self.ranges.forms
                g = forms.graph.nodes[unit].of[index]
                V = self.of(forms.plan.functions[g].base)
                own = np.maximum(incoming[index] - slopes.functions[g] * V, 0.0)
                total = total + lemma.slope * V + factors[index] * own
            else:
                total = total + factors[index] * incoming[index]
        return total
