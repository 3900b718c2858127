"""From a graph of columns to an attention-only network and what is claimed about it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from weightwright.approximation.shared_tables import Wish, share_tables, small_squares, table_for
from weightwright.approximation.table import ProposedTable
from weightwright.box import Box
from weightwright.claims.graph import ATTENTION, JUMPS, PRODUCT, SOFTMAX, SQUARE, Graph, ProductClaim, attended
from weightwright.claims.target import Composite
from weightwright.compiler.lowering.affine_forms import Forms
from weightwright.compiler.lowering.assembly import assemble
from weightwright.compiler.lowering.budget import Errors, Slopes, sensitivities, shares
from weightwright.compiler.lowering.cells import Cells
from weightwright.compiler.lowering.fusing import FusingPlan, direct, fuse
from weightwright.compiler.lowering.ranges import Limit
from weightwright.compiler.lowering.squares import product_claim
from weightwright.compiler.lowering.undefined import defined_ranges, told_as
from weightwright.errors import DomainError, ToleranceError
from weightwright.network import Network
from weightwright.numbers import FORMATS

#: Keys of a table; of one that stands for a whole chain there may be fewer before the chain is taken step by step.
MOST, MOST_FUSED = 512, 256
#: A chain is taken step by step if its table's error is more than this multiple of what was asked for.
WORSE = 16.0
#: Largest error that a head is asked for, as a share of the size of what it computes.
LOOSEST = 2.0**-6
#: A unit smaller than this share of the error it may have counts as nothing.
NOTHING = 2.0**-10
#: Where tables were too narrow for the checker, they cover 2 room SPARE of their arguments' ranges more at both ends.
#: Ends are rounded outward to between 2^-8 and 2^-7 of a range (`cover`): room = 64, the third attempt's, moves all.
SPARE = 2.0**-13
#: Largest number of a column: of a product, two squares of up to four times its factors must be floats.
HUGE = 2.0**480
#: Number of rounds in which intervals are widened because errors came out larger than was thought.
ROUNDS = 4


@dataclass(frozen=True)
class Lowered:
    """What `lower` returns: a native network that computes a graph, with claims that a checker can follow.

    costs: for every column that heads approximate, its label and what its own error moves an output by: estimates in
    plain floats, the largest first. estimate: all of them together with rounding, an estimate as well. aim: the error
    that the heads were asked for together: the tolerance or less.
    parts: the tables, by the column that they compute; `squares` is the one that all products share.
    """

    network: Network
    composite: Composite
    costs: tuple[tuple[str, float], ...]
    estimate: float
    aim: float
    parts: dict[int, ProposedTable]
    squares: ProposedTable | None


def lower(
    graph: Graph,
    domain: Box,
    tol: float,
    dtype: str = "float64",
    progress: Callable[[str], None] = lambda message: None,
    provable: bool = True,
    limits: Mapping[int, Limit] = {},
    room: float = 1.0,
    ablatable: bool = False,
    dead_zone: float = 0.0,
    checked: bool = False,
) -> Lowered:
    """An attention-only network that computes the graph on the domain, aiming at tol, with claims about its heads.

    domain: (features,), or (tokens, features) where the graph has a fixed number of tokens. Every function of one
    number is one head (one for each kink), every product two, every softmax one, every constant matrix on tokens one or
    two; linear maps on features cost nothing. Heads of one depth stand in one layer, heads with one function share a
    table of registers. Chains of columns of a single variable become one head where a table of moderate size can be
    proven for it.

    The tolerance is spent where errors cost least, as estimates say; whether the network is within tol is for the
    checker to decide. Raises FormulaError with a part of the domain where a function is undefined, ToleranceError where
    a table cannot be proven at all. `progress` is told what is done. provable=False lets tables cover the ranges of
    their arguments alone, and not what errors may make of them at worst: then nothing can be proven of the whole.
    limits: both ends of columns that the caller knows better than ranges show; nothing can be proven of these either.
    room: tables cover `room` times the errors that are estimated. checked: ranges are those that the checker finds, and
    tables cover `room` times a share SPARE of these as well. dead_zone: nothing is claimed of inputs that bring
    the argument of a jump within it of 0.
    ablatable: every function is one head with nothing beside it, and ranges hold whichever heads return 0 instead.
    """
    lo, hi = _ends(graph, domain)
    if not isinstance(tol, int | float) or not (math.isfinite(tol) and tol > 0):
        raise ValueError(f"tol must be a positive finite number, not {tol!r}")
    if dtype not in FORMATS:
        raise ValueError(f"dtype must be one of {', '.join(FORMATS)}, not {dtype!r}")
    apart = set(range(len(graph.nodes))) if ablatable else set[int]()
    while True:
        plan, aim = fuse(graph, apart), float(tol)
        attempt = _Attempt(
            graph, plan, lo, hi, aim, dtype, progress, provable, limits, room, ablatable, dead_zone, checked
        )  # fmt: skip
        failed = attempt.build()
        if not failed:
            return attempt.result()
        apart |= failed


def _ends(graph: Graph, domain: Box) -> tuple[np.ndarray, np.ndarray]:
    """(tokens, features) of the domain; a graph for any number of tokens counts as one."""
    n = graph.tokens or 1
    if domain.lo.ndim == 2 and (graph.tokens is None or len(domain.lo) != n):
        tokens = "any number of tokens" if graph.tokens is None else f"{n} tokens"
        raise DomainError(f"domain: a box of shape {domain.lo.shape} does not fit a function of {tokens}")
    d = domain.lo.shape[-1]
    used = max((node.index + 1 for node in graph.nodes if node.op == "input"), default=0)
    if used > d:
        raise DomainError(f"domain: a box of {d} features does not fit a function of {used}")
    return np.broadcast_to(domain.lo, (n, d)), np.broadcast_to(domain.hi, (n, d))


class _Attempt:
    """One choice of which chains are fused."""

    def __init__(
        self, graph: Graph, plan: FusingPlan, lo: np.ndarray, hi: np.ndarray, tol: float, dtype: str,
        progress: Callable[[str], None], provable: bool, limits: Mapping[int, Limit], room: float, ablatable: bool,
        dead_zone: float, checked: bool,
    ) -> None:  # fmt: skip
        self.graph, self.plan, self.tol, self.dtype, self.progress = graph, plan, tol, dtype, progress
        self.provable, self.room, self.ablatable, self.dead_zone = provable, room, ablatable, float(dead_zone)
        self.spare = SPARE if checked else 0.0
        progress("finding the ranges of all columns")
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused in words
            self.forms = Forms(graph, plan, lo.shape[1])
            self.ranges, self.splits = defined_ranges(self.forms, lo, hi, limits, ablatable, checked)
            self._refuse_huge()
        self.slopes = Slopes.over(self.ranges)
        self.aim = self._aim()
        self.sensitivity, heads = sensitivities(self.ranges, self.slopes)
        self._bounded_slopes()
        self.asked = self._sensible(shares(self.aim, self.sensitivity, heads))
        self.multiplied = [u for u in plan.units if u not in plan.functions and graph.nodes[u].op == PRODUCT]
        self.products: dict[int, ProductClaim] = {}
        self.parts: dict[int, ProposedTable] = {}
        self.square: ProposedTable | None = None
        self.errors = Errors(self.ranges, self.slopes, self.asked, dtype)

    def _refuse_huge(self) -> None:
        """ToleranceError where a number that heads compute, or compute from, is too large for squares of it."""
        columns = {column: unit for unit in self.plan.units for column in (*self.forms.arguments(unit), unit)}
        for column, unit in (columns | {column: column for column in self.graph.outputs}).items():
            size = self._size(column)
            if not size <= HUGE:
                raise ToleranceError(
                    f"{self._label(unit)}: scale the function: it computes with numbers up to {size:.4g}, and nothing"
                    f" can be proven above {HUGE:.2g}; scores of attention are masked with -torch.inf"
                )

    def _aim(self) -> float:
        """The tolerance, or less where it is so loose that errors would leave the functions' domains."""
        ends = np.array([self.ranges.of(column) for column in self.graph.outputs])
        width = float((ends[:, 1] - ends[:, 0]).max())
        return min(self.tol, LOOSEST * width) if width > 0 else self.tol

    def _bounded_slopes(self) -> None:
        """Refuse what no error could be told for: 0 times an unbounded slope, on the way to an output."""
        if not any(map(math.isnan, self.sensitivity.values())):
            return
        for unit, slopes in self.slopes.functions.items():
            if not np.isfinite(slopes).all():
                lo, hi = self.ranges.of(self.plan.functions[unit].base)
                (label, formula), reach = told_as(self.forms, unit), f"[{lo.min():g}, {hi.max():g}]"
                raise ToleranceError(
                    f"{label}: take a smaller domain, or keep the argument of {formula} away from where its"
                    f" slope is unbounded: on this domain the argument may be anything in {reach}"
                )

    def _sensible(self, asked: dict[int, float]) -> dict[int, float]:
        """No error as large as the unit itself, also where no output depends on it; but a unit that is next to nothing
        is not asked for more than others."""
        place = self.forms.place
        sizes = {u: max(float(abs(end[:, place[u]]).max()) for end in (self.ranges.lo, self.ranges.hi)) for u in asked}
        nothing = {u for u, share in asked.items() if sizes[u] <= NOTHING * share}
        return {u: min(share, self.tol if u in nothing else LOOSEST * sizes[u]) for u, share in asked.items()}

    def build(self) -> set[int]:
        """Find all parts; returns the chains that must be taken step by step."""
        for _ in range(ROUNDS):
            self.products = {unit: self._product(unit) for unit in self.multiplied}
            wishes = [self._wish(unit) for unit in self.plan.functions]
            parts = self._small_squares(wishes, share_tables(wishes, self.dtype, MOST, self.progress, self.ablatable))
            units = list(self.plan.functions)
            found = {units[i]: part for i, part in parts.items()}
            for unit, part in found.items():
                if isinstance(part, ToleranceError) and not self._fused(unit):
                    raise ToleranceError(f"{self._label(unit)}: for tol={self.tol:g}, {part}", part.best)
            failed = self._failed(found)
            if failed:
                return failed
            self.parts = {unit: part for unit, part in found.items() if isinstance(part, ProposedTable)}
            self.square = self._squares()
            self.errors = Errors(self.ranges, self.slopes, self._own(), self.dtype)
            if self._covered():
                return set()
        raise ToleranceError(f"errors on the way are too large for tables to cover: {self._worst()}")

    def _wish(self, unit: int) -> Wish:
        function = self.plan.functions[unit]
        lo, hi = self.ranges.of(function.base)
        off = self.room * float((self.errors.of(function.base) + self.spare * (hi - lo)).max())
        off = off if self.provable else 0.0
        needed = not self._fused(unit)
        zone, ends = self.dead_zone if function.formula in JUMPS else 0.0, (float(lo.min()), float(hi.max()))
        if zone and max(map(abs, ends)) < zone:
            said = f"dead_zone={zone:g} leaves nothing of what is compared, which lies in [{ends[0]:g}, {ends[1]:g}]"
            raise ToleranceError(f"{self._label(unit)}: {said}")
        return Wish(function.formula, *ends, off, self.asked[unit], needed, zone)

    def _small_squares(
        self, wishes: list[Wish], found: dict[int, ProposedTable | ToleranceError]
    ) -> dict[int, ProposedTable | ToleranceError]:
        """In few bits, squares whose sum is divided by need an error that falls with them."""
        squares = [i for i, wish in enumerate(wishes) if wish.formula == SQUARE]
        if self.dtype == "float64" or not (self.ranges.lemmas or self.ranges.limits) or not squares or self.ablatable:
            return found
        reach = max(abs(end) + 2 * wishes[i].off for i in squares for end in (wishes[i].lo, wishes[i].hi))
        try:
            part = small_squares(reach, self.dtype)
        except ToleranceError:
            return found
        return found | dict.fromkeys(squares, part)

    def _squares(self) -> ProposedTable | None:
        """All products share the squares of numbers in [-1, 1], at the smallest tolerance of any."""
        if not self.products:
            return None
        tol = min(self.asked[unit] * 4 * claim.scale**2 for unit, claim in self.products.items())
        return table_for(SQUARE, -1.0, 1.0, tol, self.dtype, MOST, self.progress, self.ablatable)

    def _product(self, unit: int) -> ProductClaim:
        off = [2 * self.room * float(self.errors.of(c).max()) for c in self.graph.nodes[unit].of]
        lemma = self.ranges.lemmas.get(unit)
        return product_claim(unit, self.ranges, (off[0], off[1]), -1 if lemma is None else lemma.index)

    def _size(self, column: int) -> float:
        return float(np.abs(self.ranges.of(column)).max())

    def _largest_score(self, unit: int) -> float:
        """By how much two scores of an attention may differ; 0 for other units."""
        if self.graph.nodes[unit].op != ATTENTION:
            return 0.0
        q, k, _ = attended(self.graph.nodes[unit])
        return 4 * sum(self._size(a) * self._size(b) for a, b in zip(q, k, strict=True))

    def _fused(self, unit: int) -> bool:
        return not direct(self.graph.nodes[unit], self.plan.functions[unit].base)

    def _failed(self, found: dict[int, ProposedTable | ToleranceError]) -> set[int]:
        """Fused chains whose table is too large or too bad."""
        return {
            unit
            for unit, part in found.items()
            if self._fused(unit)
            and (isinstance(part, ToleranceError) or part.keys > MOST_FUSED or part.bound > WORSE * self.asked[unit])
        }

    def _own(self) -> dict[int, float]:
        """What every unit's own heads are off by."""
        own = {unit: part.bound for unit, part in self.parts.items()}
        for unit, claim in self.products.items():
            assert self.square is not None
            own[unit] = 2 * self.square.bound / (4 * claim.scale**2)
        return own

    def _covered(self) -> bool:
        """Whether every table holds the range of its argument and the error that comes in."""
        if not self.provable:
            return True
        for unit, part in self.parts.items():
            base = self.plan.functions[unit].base
            lo, hi = self.ranges.of(base)
            off = 1.5 * self.room * self.errors.of(base)
            first, last = (part.query.centre + end / part.query.scale for end in (part.claim.lo, part.claim.hi))
            if (lo - off).min() < first or (hi + off).max() > last:
                return False
        return all(self._product(unit) == claim for unit, claim in self.products.items())

    def _costs(self) -> list[tuple[str, float]]:
        own = self._own()
        costs = [(self._label(unit), self.sensitivity[unit] * own[unit]) for unit in own]
        return sorted(costs, key=lambda cost: -cost[1])

    def _worst(self) -> str:
        return ", ".join(f"{label} costs about {cost:.2g}" for label, cost in self._costs()[:3])

    def _label(self, unit: int) -> str:
        node = self.graph.nodes[unit]
        return node.label or node.op

    def result(self) -> Lowered:
        self.progress("writing the weights")
        cells = Cells(self.forms, self.parts, self.products, self.square)
        arguments = {c for u in self.plan.units if self.graph.nodes[u].op == SOFTMAX for c in self.graph.nodes[u].of}
        farthest = max((self._size(c) for c in arguments), default=0.0)
        farthest = max([farthest, *(self._largest_score(u) for u in self.plan.units)])
        network, composite = assemble(cells, farthest, self.dtype)
        composite = dataclasses.replace(composite, splits=self.splits, ablatable=self.ablatable)
        estimate = max(float(self.errors.of(c).max()) for c in self.graph.outputs)
        return Lowered(network, composite, tuple(self._costs()), estimate, self.aim, self.parts, self.square)
