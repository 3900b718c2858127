"""Tables for f in f(w . x_i, y_i) u_i: the slope of a loss as keys that every example holds in a block of its own."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from weightwright.certificates.claims import constant, local_formula
from weightwright.certificates.prompted import Summand
from weightwright.certificates.prover.jets import values
from weightwright.compiler.parts import Part, with_slope
from weightwright.compiler.shared_parts import proven
from weightwright.constructions.parts import faithful_part
from weightwright.constructions.prompted import PromptTable
from weightwright.errors import BudgetError
from weightwright.expressions import Apply, Variable, parse, to_text

#: The error that is asked of a table, as a multiple of the function's range, unless another is given.
DEFAULT_TOL = {"float64": 1e-10, "float32": 1e-5}


@dataclass(frozen=True)
class Slope:
    """A sum of functions, each of one combination of w . x and y, with the tables that compute them."""

    summands: tuple[Summand, ...]
    tables: tuple[PromptTable, ...]

    @property
    def anchors(self) -> int:
        """Keys that every example holds."""
        return sum(table.size for table in self.tables)

    def __add__(self, other: Slope) -> Slope:
        return Slope(self.summands + other.summands, self.tables + other.tables)


def spectral_slope(
    formula: str, along: tuple[float, float], reach: float, tol: float | None, dtype: str, most: int = 64
) -> Slope:
    """formula(along . (w.x, y)) for arguments up to `reach` in size, with fitted values.

    What a table leaves to a straight line (as those of kinks do) becomes a table of its own: here a multiple of s
    is no linear map.
    """
    tol = DEFAULT_TOL[dtype] * _size(formula, reach) if tol is None else tol
    part = proven(to_text(parse(formula, ("x",))), -reach, reach, _in_few_bits(tol), dtype, most)
    slope = as_slope(part, along)
    if part.slope:
        line = to_text(Apply("mul", (constant(Fraction(part.slope)), Variable("x"))))
        slope += as_slope(proven(line, -reach, reach, _in_few_bits(tol), dtype, most), along)
    if slope.anchors > most:
        raise BudgetError(f"{formula} on [{-reach:g}, {reach:g}] takes {slope.anchors} anchors a sample, not {most}")
    return slope


def faithful_slope(formula: str, along: tuple[float, float], reach: float, P: int, beta: float, dtype: str) -> Slope:
    """The paper's anchors: P + 1 of them from -reach to reach, values f(L_j), softmax at inverse temperature beta. The
    claim reaches a little further: an argument at the very end rounds, and must be known to lie inside."""
    anchors = np.linspace(-reach, reach, P + 1)
    text = to_text(parse(formula, ("x",)))
    at = values(parse(text, ("x",)), anchors)
    end = beyond(reach)
    return as_slope(in_cells(faithful_part(text, anchors, [(0, at)], 2 * beta, -end, end, dtype), P), along)


def beyond(reach: float) -> float:
    return reach * (1 + 2.0**-20)


def in_cells(part: Part, count: int) -> Part:
    """The same with boxes of at most a quarter of a cell where a claim has one for all: enclosures of f and its slope
    on wide boxes say little. What is claimed of the slope leaves room for the checker's, which are wider."""
    if part.claim.rule != "nearest":
        return part
    edges = np.linspace(part.claim.lo, part.claim.hi, 4 * max(count, 16) + 1)
    claim = with_slope(dataclasses.replace(part.claim, boxes=np.stack([edges[:-1], edges[1:]], axis=1)))
    return dataclasses.replace(part, claim=dataclasses.replace(claim, lipschitz=2 * claim.lipschitz))


def as_slope(part: Part, along: tuple[float, float]) -> Slope:
    tables = tuple(
        PromptTable(
            along=table.keys * part.query.scale * along[0],
            across=table.keys * part.query.scale * along[1],
            offsets=table.offsets,
            values=table.values,
            beta=table.beta,
            weight=table.weight,
            mean=part.mean if index == 0 else 0.0,
            role=f"{part.profile} of {_in_words(along)}",
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


def _in_words(along: tuple[float, float]) -> str:
    return {(1.0, -1.0): "w.x - y", (1.0, 0.0): "w.x", (0.0, 1.0): "y"}.get(along, f"{along[0]:g} w.x + {along[1]:g} y")


def _size(formula: str, reach: float) -> float:
    return float(np.ptp(values(parse(formula, ("x",)), np.linspace(-reach, reach, 257)))) / 2 or 1.0


def _in_few_bits(tol: float) -> float:
    """Rounded down to a power of two: equal wishes share a table."""
    return 2.0 ** math.floor(math.log2(tol))
