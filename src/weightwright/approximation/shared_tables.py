"""Tables for functions: units with the same formula share one, on an interval that holds all their arguments."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from weightwright.all_cores import processes
from weightwright.approximation.table import (
    Asked,
    ProposedTable,
    propose_on_all_cores,
    propose_squares,
    propose_table_near,
)
from weightwright.approximation.unproven import largest_slope
from weightwright.enclosures.intervals.jets import values
from weightwright.errors import FormulaError, ToleranceError
from weightwright.expressions import parse, shortened
from weightwright.heads.sigmoid import two_keys
from weightwright.stopwatch import stage

#: Smallest error that is asked for, as a share of half a function's range: below it rounding rules.
FLOOR = {"float64": 2.0**-43, "float32": 2.0**-18, "bfloat16": 2.0**-4}
#: Two keys that are exact are as good as can be: they must not be refused for what they round.
EXACT = 16.0
#: Share of its width by which an interval is made wider, so that errors of the argument stay inside.
WIDER = {"float64": 1e-6, "float32": 1e-3, "bfloat16": 2.0**-5}
#: Bits of an interval's ends, counted from its width; equal things become equal.
BITS = 8
#: Ends near a singularity are moved outward only while slopes grow by at most this factor.
GROWS = 1.25
#: Arguments whose ranges differ more than this get tables of their own.
APART = 8.0


@dataclass(frozen=True)
class Wish:
    """A function of an argument between lo and hi, which may be off by `off`, within tol. needed: nothing else can
    compute the column. zone: nothing is claimed within it of a jump."""

    formula: str
    lo: float
    hi: float
    off: float
    tol: float
    needed: bool
    zone: float = 0.0


def share_tables(
    wishes: Sequence[Wish], dtype: str, most: int, progress: Callable[[str], None], bare: bool = False
) -> dict[int, ProposedTable | ToleranceError]:
    """A table for every wish, the same one for wishes that can share; or why there is none. The first that cannot be
    had, and that nothing can stand in for, is the last that is told. bare: see `propose_table`."""
    found: dict[int, ProposedTable | ToleranceError] = {}
    groups = _groups(wishes)
    _look_ahead([[wishes[i] for i in members] for members in groups], dtype, most, progress, bare)
    for members in groups:
        table = _for_all([wishes[i] for i in members], dtype, most, progress, bare)
        found |= dict.fromkeys(members, table)
        if isinstance(table, ToleranceError) and any(wishes[i].needed for i in members):
            break
    return found


def _groups(wishes: Sequence[Wish]) -> list[list[int]]:
    """Wishes of one formula, apart by the width of their ranges where these differ wildly."""
    by_formula = defaultdict[str, list[int]](list)
    for index, wish in enumerate(wishes):
        by_formula[wish.formula].append(index)
    groups = []
    for formula, members in by_formula.items():
        widths = np.array([max(wishes[i].hi - wishes[i].lo, 1e-300) for i in members])
        if widths.max() <= APART * widths.min() or two_keys(parse(formula, ("x",))) is not None:
            groups.append(members)
            continue
        by_size = defaultdict[int, list[int]](list)
        for i, size in zip(members, np.floor(np.log2(widths) / math.log2(APART)).astype(int).tolist(), strict=True):
            by_size[size].append(i)
        groups.extend(by_size.values())
    return groups


def _look_ahead(groups: list[list[Wish]], dtype: str, most: int, progress: Callable[[str], None], bare: bool) -> None:
    """Tables that will be asked for, on all cores at a time."""
    asked = []
    for wishes in groups:
        with suppress(FormulaError, ArithmeticError):  # the one that is told may come before it
            asked.append(ask(*_together(wishes, dtype), dtype, most, bare, wishes[0].zone))
    if len(asked) > 1 and processes() > 1:
        progress(f"{len(asked)} tables")
        with stage(f"{len(asked)} tables on {processes()} cores"):
            propose_on_all_cores(asked)


def _together(wishes: list[Wish], dtype: str) -> tuple[str, float, float, float]:
    """Formula, interval and tolerance that serve them all."""
    formula, off, tol = wishes[0].formula, max(wish.off for wish in wishes), min(wish.tol for wish in wishes)
    lo, hi = min(wish.lo for wish in wishes), max(wish.hi for wish in wishes)
    return formula, *cover(formula, lo, hi, off, dtype), tol


def _for_all(
    wishes: list[Wish], dtype: str, most: int, progress: Callable[[str], None], bare: bool
) -> ProposedTable | ToleranceError:
    formula, lo, hi, tol = _together(wishes, dtype)
    try:
        return table_for(formula, lo, hi, tol, dtype, most, progress, bare, wishes[0].zone)
    except ToleranceError as error:
        return error
    except FormulaError as error:
        return ToleranceError(
            f"{shortened(formula)} is needed on [{lo:g}, {hi:g}], errors of its argument included: {error}"
        )


def table_for(
    formula: str,
    lo: float,
    hi: float,
    tol: float,
    dtype: str,
    most: int,
    progress: Callable[[str], None],
    bare: bool = False,
    zone: float = 0.0,
) -> ProposedTable:
    """The function within about tol, but not finer than its dtype allows and not coarser than makes sense."""
    asked = ask(formula, lo, hi, tol, dtype, most, bare, zone)
    progress(f"a table for {formula if len(formula) < 60 else formula[:57] + '...'} on [{lo:g}, {hi:g}]")
    with stage(f"a table for {shortened(formula)} on [{lo:g}, {hi:g}]"):
        return propose_table_near(*asked)


def ask(formula: str, lo: float, hi: float, tol: float, dtype: str, most: int, bare: bool, zone: float) -> Asked:
    """What `propose_table_near` is asked for."""
    size = float(np.ptp(values(parse(formula, ("x",)), np.linspace(lo, hi, 257)))) / 2
    if not math.isfinite(size):
        raise FormulaError("it is undefined or too large for a float there; take a smaller domain")
    exact = two_keys(parse(formula, ("x",))) is not None
    tol = max(tol, (EXACT if exact else 1.0) * FLOOR[dtype] * size)
    tol = min(tol, size / 16) if size > 0 else tol
    return formula, lo, hi, 2.0 ** math.floor(math.log2(tol)), dtype, most, bare, zone


def cover(formula: str, lo: float, hi: float, off: float, dtype: str) -> tuple[float, float]:
    """An interval in few bits that holds [lo, hi] and arguments that are off by up to twice `off`.

    It is not much wider where that would come too near to a singularity.
    """
    if lo == hi:
        lo, hi = lo - 2.0**-10 * (abs(lo) or 1.0), hi + 2.0**-10 * (abs(hi) or 1.0)
    slack = max(WIDER[dtype] * (hi - lo), 2 * off)
    coarse = 2.0 ** (math.frexp(hi - lo)[1] - BITS)
    least, most = lo - 2 * off, hi + 2 * off
    first, last = math.floor((lo - slack) / coarse) * coarse, math.ceil((hi + slack) / coarse) * coarse
    steep = largest_slope(formula, least, most)
    if not largest_slope(formula, first, most) <= GROWS * steep:
        first = _outward(least, -1.0, off)
    if not largest_slope(formula, least, last) <= GROWS * steep:
        last = _outward(most, 1.0, off)
    return first, last


def _outward(end: float, side: float, off: float) -> float:
    """The end in few bits of its own, so that it does not cross 0."""
    fine = 2.0 ** (math.frexp(end)[1] - BITS)
    away = end + side * max(off, 2.0**-30 * abs(end))
    return side * math.ceil(side * away / fine) * fine


def small_squares(reach: float, dtype: str) -> ProposedTable:
    """Squares of numbers up to about `reach` that are accurate also where they are small; see `propose_squares`."""
    coarse = 2.0 ** (math.frexp(reach)[1] - BITS)
    reach = (math.ceil(reach / coarse) + 1) * coarse
    return propose_squares(reach, 2 * FLOOR[dtype] * reach**2, dtype)
