"""Tables for f in f(w . x_i, y_i) u_i: the slope of a loss as keys that every example holds in a block of its own."""

from __future__ import annotations

import dataclasses
import functools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from weightwright.approximation.faithful_tables import propose_faithful
from weightwright.approximation.several import VectorProposal, propose_vector_table
from weightwright.approximation.table import TRIES, ProposedTable, propose_table_near, with_slope
from weightwright.box import Box
from weightwright.claims.certificate import constant, local_formula
from weightwright.claims.leaf import VectorLeaf
from weightwright.claims.prompt import Summand, argument_in_words
from weightwright.enclosures.intervals.intervals import ONE, ZERO, Interval
from weightwright.enclosures.intervals.jets import jet_along, values
from weightwright.errors import BudgetError, ToleranceError
from weightwright.expressions import Apply, Variable, fold, parse, to_text
from weightwright.incontext.networks.prompted import PromptTable

#: The error that is asked of a table, as a multiple of the function's range, unless another is given.
DEFAULT_TOL = {"float64": 1e-10, "float32": 4e-6}
#: The same for slopes that bend, whose tables take longer to find.
BENDING_TOL = {"float64": 1e-9, "float32": 4e-5}
BENDS = {"abs", "relu", "max", "min", "clip", "softshrink"}


@dataclass(frozen=True)
class Slope:
    """A sum of functions, each of one combination of w . x and y, with the tables that compute them."""

    summands: tuple[Summand, ...]
    tables: tuple[PromptTable, ...]

    @property
    def anchors(self) -> int:
        """Keys that every example holds."""
        return sum(table.size for table in self.tables)

    def times(self, factor: Literal["r", "one"]) -> Slope:
        """The same, multiplied with another group of the stream than u."""
        return Slope(
            tuple(dataclasses.replace(summand, factor=factor) for summand in self.summands),
            tuple(dataclasses.replace(table, factor=factor) for table in self.tables),
        )

    def __add__(self, other: Slope) -> Slope:
        return Slope(self.summands + other.summands, self.tables + other.tables)


def spectral_slope(
    formula: str, along: tuple[float, float], reach: float, tol: float | None, dtype: str, most: int = 64
) -> Slope:
    """formula(along . (w.x, y)) for arguments up to `reach` in size, with fitted values.

    What a table leaves to a straight line (as those of kinks do) becomes a table of its own: here a multiple of s
    is no linear map.
    """
    if tol is None:
        tol = (BENDING_TOL if bends(formula) else DEFAULT_TOL)[dtype] * _size(formula, reach)
    part = propose_table_near(to_text(parse(formula, ("x",))), -reach, reach, _in_few_bits(tol), dtype, most)
    slope = as_slope(part, along)
    if part.slope:
        line = to_text(Apply("mul", (constant(Fraction(part.slope)), Variable("x"))))
        slope += as_slope(propose_table_near(line, -reach, reach, _in_few_bits(tol), dtype, most), along)
    if slope.anchors > most:
        raise BudgetError(f"{formula} on [{-reach:g}, {reach:g}] takes {slope.anchors} anchors a sample, not {most}")
    return slope


def vector_slope(formula: str, reach: float, tol: float, dtype: str, most: int = 1024) -> Slope:
    """formula(w.x, y) for both up to `reach` in size, by anchors of two dimensions; within tol, or a little above."""
    text = to_text(parse(formula, ("x", "y")))
    found = _propose_pair(text, float(reach), _in_few_bits(tol), dtype, most)
    held, scale = found.table, found.queries[0].scale
    table = PromptTable(
        along=held.keys[:, 0] * scale,
        across=held.keys[:, 1] * scale,
        offsets=held.offsets,
        values=held.values,
        beta=held.beta,
        weight=1.0,
        mean=found.mean,
        role=f"{text} of w.x and y",
    )
    return Slope((Summand(text, None, scale, 1, with_slopes(found.leaf)),), (table,))


def with_slopes(claim: VectorLeaf) -> VectorLeaf:
    """The claim with bounds on the formula's slopes, which a network of one layer may not need; with room for the
    checker's enclosures, which are wider."""
    names, formula = ("s0", "s1"), parse(claim.formula, ("s0", "s1"))
    boxes = {name: Interval(claim.boxes[:, 0, i], claim.boxes[:, 1, i]) for i, name in enumerate(names)}
    steps = [{other: ONE if other == name else ZERO for other in names} for name in names]
    steepest = [float(np.max(jet_along(formula, boxes, step, 1)[1].magnitude())) for step in steps]
    return dataclasses.replace(claim, lipschitz=2 * np.array(steepest))


@functools.lru_cache(maxsize=16)
def _propose_pair(formula: str, reach: float, tol: float, dtype: str, most: int) -> VectorProposal:
    box = Box([-reach, -reach], [reach, reach])
    for _ in range(TRIES):
        try:
            return propose_vector_table(formula, box, tol, dtype, most)
        except ToleranceError as error:
            tol, last = (1.1 * error.best if error.best is not None else 8 * tol), error
    raise last


def faithful_slope(formula: str, along: tuple[float, float], reach: float, P: int, beta: float, dtype: str) -> Slope:
    """The paper's anchors: P + 1 of them from -reach to reach, values f(L_j), softmax at inverse temperature beta. The
    claim reaches a little further: an argument at the very end rounds, and must be known to lie inside."""
    anchors = np.linspace(-reach, reach, P + 1)
    text = to_text(parse(formula, ("x",)))
    at = values(parse(text, ("x",)), anchors)
    end = beyond(reach)
    return as_slope(in_cells(propose_faithful(text, anchors, [(0, at)], 2 * beta, -end, end, dtype), P), along)


def beyond(reach: float) -> float:
    """A little more than the reach."""
    return reach * (1 + 2.0**-20)


def in_cells(part: ProposedTable, count: int) -> ProposedTable:
    """The same with boxes of at most a quarter of a cell where a claim has one for all: enclosures of f and its slope
    on wide boxes say little. What is claimed of the slope leaves room for the checker's, which are wider."""
    if part.claim.rule != "nearest":
        return part
    edges = np.linspace(part.claim.lo, part.claim.hi, 4 * max(count, 16) + 1)
    claim = with_slope(dataclasses.replace(part.claim, boxes=np.stack([edges[:-1], edges[1:]], axis=1)))
    return dataclasses.replace(part, claim=dataclasses.replace(claim, lipschitz=2 * claim.lipschitz))


def as_slope(part: ProposedTable, along: tuple[float, float]) -> Slope:
    """The part's tables as those of every example, without what the part leaves to a straight line."""
    tables = tuple(
        PromptTable(
            along=table.keys * part.query.scale * along[0],
            across=table.keys * part.query.scale * along[1],
            offsets=table.offsets,
            values=table.values,
            beta=table.beta,
            weight=table.weight,
            mean=part.mean if index == 0 else 0.0,
            role=f"{part.profile} of {argument_in_words(along)}",
        )
        for index, table in enumerate(part.tables)
    )
    formula, claim = part.profile, part.claim
    if part.slope:
        line = Apply("mul", (constant(Fraction(part.slope)), Variable("x")))
        rest = Apply("sub", (parse(part.profile, ("x",)), line))
        local = local_formula(rest, 0.0, part.query.scale, part.mean)
        steeper = math.nextafter(claim.lipschitz + abs(part.slope / part.query.scale), math.inf)
        formula, claim = to_text(rest), dataclasses.replace(claim, formula=to_text(local), lipschitz=steeper)
    return Slope((Summand(formula, along, part.query.scale, len(tables), claim),), tables)


def _size(formula: str, reach: float) -> float:
    return float(np.ptp(values(parse(formula, ("x",)), np.linspace(-reach, reach, 257)))) / 2 or 1.0


def bends(formula: str) -> bool:
    """Whether it is written with kinks."""
    return fold(parse(formula, ("x", "y")), lambda leaf: False, lambda op, args: op in BENDS or any(args))


def _in_few_bits(tol: float) -> float:
    """Rounded down to a power of two: equal wishes share a table."""
    return 2.0 ** math.floor(math.log2(tol))
