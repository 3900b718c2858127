"""The one way from a function of one number to a table: keys and values with what the prover proposes to claim.

Whoever builds a table into a network claims its leaf there, and the checker examines it there, once.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from weightwright.all_cores import processes, work_on_all_cores
from weightwright.approximation.proposals import Choice, Proposal, Proposals, propose
from weightwright.approximation.task import make_task, well_formed
from weightwright.approximation.unproven import advise, largest_slope, uneven_points
from weightwright.box import Box
from weightwright.claims.certificate import Leaf, Terms, round_up
from weightwright.claims.graph import SQUARE
from weightwright.claims.target import NO_ZONES, TableClaim
from weightwright.enclosures.intervals.intervals import Interval
from weightwright.enclosures.intervals.jets import jet, values
from weightwright.errors import FormulaError, ToleranceError
from weightwright.expressions import parse, shortened, to_text
from weightwright.heads.graded import graded_square
from weightwright.heads.registers import Query, Rows, Table, table_head, weight_at
from weightwright.kept import is_kept, keep_value, kept_path, recall_value
from weightwright.network import Head
from weightwright.numbers import FORMATS, Floats

#: Number of tolerances that are tried where the one asked for cannot be proven.
TRIES = 4
#: Factor between one that failed and the next, unless a bound nearer by is known; the last try takes the known bound.
LOOSER = 8.0


@dataclass(frozen=True)
class ProposedTable:
    """profile(s) = mean + slope s + the heads of the tables, within the claim's terms."""

    profile: str
    tables: tuple[Table, ...]
    query: Query
    mean: float
    slope: float
    claim: Leaf
    zones: Floats = dataclasses.field(default_factory=lambda: NO_ZONES)

    @property
    def keys(self) -> int:
        return sum(table.size for table in self.tables)

    @property
    def bound(self) -> float:
        terms = self.claim.terms
        return terms.approximation + terms.leakage + terms.rounding

    def heads(
        self, names: Sequence[str], source: int, one: int, first: int, rows: Sequence[Rows], result: int
    ) -> list[Head]:
        """The heads on the coordinate `source` of a stream, whose tables stand in the coordinates from `first` on."""
        role, width = f"{self.profile} of {names[source]}", len(names)
        return [
            table_head(table, self.query, role, source, one, first + 3 * i, own, weight_at(width, result, table.weight))
            for i, (table, own) in enumerate(zip(self.tables, rows, strict=True))
        ]

    def at(self, layer: int, heads: Sequence[int], units: Sequence[int], column: int = 0) -> TableClaim:
        """What is claimed where these heads of this layer are the table's."""
        return TableClaim(
            layer, tuple(heads), column, tuple(units), self.mean, self.slope, self.claim, np.asarray(self.zones)
        )


def propose_table(
    formula: str,
    lo: float,
    hi: float,
    tol: float,
    dtype: str = "float64",
    most: int = 512,
    bare: bool = False,
    zone: float = 0.0,
) -> ProposedTable:
    """A table on registers for a formula in x on [lo, hi], within tol by the prover's bound, of at most `most` keys.
    bare: of one head, with mean and slope 0. Nothing is claimed within `zone` of a jump; boxes reach into the zone,
    where arguments that are off may lie.

    Raises ToleranceError with the best bound found, FormulaError where the formula is undefined.

    >>> table = propose_table("sin(5*x)", -1.0, 1.0, 1e-8)
    >>> table.keys < 32, table.bound < 1e-8
    (True, True)
    """
    task = make_task(formula, Box.of((lo, hi)), tol, dtype, zone / 2, False, None)
    proposals = Proposals(task, Choice(most=most, bare=bare))
    for proposal in proposals:
        return dataclasses.replace(_as_table(proposal), zones=proposal.zones + zone / 2 * np.array([-1.0, 1.0]))
    raise proposals.failure()


#: What a table is made of, as it is kept.
_KEPT = {kind.__name__: kind for kind in (ProposedTable, Table, Query, Leaf, Terms)}


#: formula, lo, hi, tol, dtype, most, bare, zone: as `propose_table_near` takes them.
Asked = tuple[str, float, float, float, str, int, bool, float]
#: What this process found, the newest: tables, and why there are none.
_FOUND: dict[Asked, ProposedTable | ToleranceError] = {}
_MOST_FOUND = 256
_LOCK = threading.Lock()
#: Share of an interval by which the ends of a kept table may miss it: they are found here in rounded arithmetic.
_ENDS = 2.0**-20


def propose_table_near(
    formula: str, lo: float, hi: float, tol: float, dtype: str, most: int, bare: bool = False, zone: float = 0.0
) -> ProposedTable:
    """The same, or a table within what can be proven a little above tol; ToleranceError if nothing can. What is found
    is kept on disk: the next process takes it from there, and the checker examines it where it stands, as any other."""
    asked = formula, lo, hi, tol, dtype, most, bare, zone
    found = _FOUND.get(asked)
    if found is None:
        found = _recall_or_find(asked)
        _remember(asked, found)
    if isinstance(found, ToleranceError):
        raise found.with_traceback(None)
    return found


def propose_on_all_cores(asked: Sequence[Asked]) -> None:
    """Find tables on all cores; `propose_table_near` has them then. What is undefined is for it to say."""
    missing = [one for one in dict.fromkeys(asked) if one not in _FOUND and not _is_kept(one)]
    if min(len(missing), processes()) > 1:
        with suppress(FormulaError):
            for number, found in work_on_all_cores(_recall_or_find, missing).items():
                _remember(missing[number], found)


def forget_tables() -> None:
    """Those of this process; what is on disk stays."""
    _FOUND.clear()


def _remember(asked: Asked, found: ProposedTable | ToleranceError) -> None:
    with _LOCK:
        while len(_FOUND) >= _MOST_FOUND:
            _FOUND.pop(next(iter(_FOUND)))
        _FOUND[asked] = found


def _is_kept(asked: Asked) -> bool:
    path = kept_path("table", *asked)
    return path is not None and is_kept(path)


def _recall_or_find(asked: Asked) -> ProposedTable | ToleranceError:
    path = kept_path("table", *asked)
    kept = recall_value(path, ProposedTable, _KEPT)
    if kept is None or not _is_for(kept, *asked):
        try:
            kept = _find_table_near(*asked)
        except ToleranceError as error:
            return error
        keep_value(path, kept)
    return kept


def _is_for(
    kept: ProposedTable, formula: str, lo: float, hi: float, tol: float, dtype: str, most: int, bare: bool, zone: float
) -> bool:
    """Whether a table from disk is one for this formula, on all of the interval, of this form. Where it is not quite,
    the checker sees it: it examines the claim, the keys and the values in every network."""
    first, last = (kept.query.centre + end / kept.query.scale for end in (kept.claim.lo, kept.claim.hi))
    covers = first <= lo + _ENDS * (hi - lo) and hi - _ENDS * (hi - lo) <= last
    plain = len(kept.tables) == 1 and kept.mean == 0 and kept.slope == 0
    same = kept.profile == to_text(parse(formula, ("x",)))
    return bool(kept.tables) and same and covers and kept.keys <= most and (plain or not bare)


def _find_table_near(
    formula: str, lo: float, hi: float, tol: float, dtype: str, most: int, bare: bool, zone: float
) -> ProposedTable:
    asked = tol
    for left in reversed(range(TRIES)):
        try:
            return propose_table(formula, lo, hi, tol, dtype, most, bare, zone)
        except ToleranceError as error:
            known = math.inf if error.best is None else 1.1 * error.best
            tol, last = known if left == 1 and error.best is not None else min(known, LOOSER * tol), error
    drawn = values(parse(formula, ("x",)), uneven_points(lo, hi))
    raise ToleranceError(
        f"{shortened(formula)} on [{lo:g}, {hi:g}] is needed within {asked:.2g}, and nothing near that could be proven;"
        f" {advise(drawn, largest_slope(formula, lo, hi), most)}",
        last.best,
    ) from last


@functools.lru_cache(maxsize=16)
def propose_squares(reach: float, tol: float, dtype: str) -> ProposedTable:
    """x^2 within tol for |x| <= reach, with an error that falls with x^2 where x is small: for variances."""
    return _as_table(square_proposal(reach, tol, dtype))


def square_proposal(reach: float, tol: float, dtype: str = "float32") -> Proposal:
    """The same as a network of one layer: 70 keys in two heads.

    The bound is tol alone; `heads.graded.graded_square` says what is measured. Raises ToleranceError with the bound
    that there is if it is above tol.
    """
    well_formed(SQUARE, tol)
    if dtype not in FORMATS:
        raise ValueError(f"dtype must be one of {', '.join(map(repr, FORMATS))}, not {dtype!r}")
    task = make_task(SQUARE, Box.of((-reach, reach)), tol, dtype, 0.0, False, None)
    proposal = propose(task, graded_square(reach, dtype), "taylor", np.zeros(0), np.zeros((0, 2)))
    if proposal is None or proposal.bound > tol:
        bound = None if proposal is None else proposal.bound
        found = "no error bound could be proven" if bound is None else f"the bound is {round_up(bound)}"
        raise ToleranceError(f"{task.where}: tol={tol:g} cannot be proven by graded keys: {found}", best=bound)
    return proposal


def _as_table(proposal: Proposal) -> ProposedTable:
    design = proposal.design
    return ProposedTable(
        proposal.task.text, design.tables, proposal.query, design.mean, design.slope, with_slope(proposal.leaf)
    )


def with_slope(claim: Leaf) -> Leaf:
    """The claim with a bound on the formula's slope, which a network of one layer may not need."""
    steepest = jet(parse(claim.formula, ("s",)), Interval(claim.boxes[:, 0], claim.boxes[:, 1]), 1)[1].magnitude()
    return dataclasses.replace(claim, lipschitz=(1 + 2.0**-20) * float(np.max(steepest)))
