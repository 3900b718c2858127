"""`approximate` for functions of two or three variables: one head of vector anchors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from weightwright.approximation.measured import find_measured
from weightwright.approximation.opaque import Opaque
from weightwright.approximation.proposals import Proposal
from weightwright.approximation.task import WIDTHS, as_function, confirm_again, middle_in_few_bits, outward
from weightwright.approximation.unproven import POINTS, advise, uneven_points
from weightwright.box import Box
from weightwright.certify import confirm
from weightwright.claims.certificate import (
    VARIABLES,
    Certificate,
    Terms,
    VectorLeaf,
    round_up,
    vector_formula,
)
from weightwright.claims.files import network_digest
from weightwright.claims.one_layer_claims import VectorLayerClaim
from weightwright.enclosures.intervals.intervals import ZERO, Interval
from weightwright.enclosures.intervals.jets import jet_along, values_at
from weightwright.enclosures.intervals.polynomials import monomials
from weightwright.errors import BudgetError, CertificateError, DomainError, FormulaError, ToleranceError
from weightwright.expressions import Expression, shortened, to_text
from weightwright.heads.registers import Query
from weightwright.heads.vector_anchors import VectorDesigner, VectorFit, VectorTable, assemble_vector
from weightwright.network import Network
from weightwright.numbers import Floats
from weightwright.prover import Goal, QueryAxis, prove_vector, vector_terms
from weightwright.prover.machine import assumptions
from weightwright.prover.vector import ORDER
from weightwright.runtime import AttentionNetwork
from weightwright.runtime.module import OnDomain

MAX_VARIABLES = len(VARIABLES)
#: The search stops here: a head of more anchors takes too long to prove.
MAX_VECTOR = 4096
#: Boxes times anchors times Taylor coefficients that one function may cost: about a minute to prove and check.
WORK = 3e8
#: Share of a box's width at which the lines meet on which turns are counted: anything but 1/2.
OFF_THE_MIDDLE = 0.7
_AIMS = (0.9, 0.3, 0.05)
_SAMPLES = {2: 129, 3: 33}  # along each axis
_FIRST_PARTS = {2: 16, 3: 8}  # along each axis
_HALVINGS = 60
_MOST_PARTS = 4096

Proof = Literal["proven", "measured"]


@dataclass(frozen=True)
class VectorRequest:
    """What `approximate` was asked for, checked: the box rounded outward to the dtype."""

    box: Box
    tol: float
    dtype: str
    most: int
    proof: Proof


@dataclass(frozen=True)
class _VectorTask:
    """A formula on a box, and how the head sees it."""

    asked: VectorRequest
    function: Expression | Opaque
    text: str
    queries: tuple[Query, ...]
    mean: float
    local: Expression | None  # in s0, s1, ...; None for an opaque function
    lo: Floats  # of the queries, (d,)
    hi: Floats

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"s{i}" for i in range(len(self.queries)))

    @property
    def where(self) -> str:
        box = self.asked.box
        return f"{shortened(self.text)} on " + " x ".join(
            f"[{a:g}, {b:g}]" for a, b in zip(box.lo, box.hi, strict=True)
        )

    @property
    def reference(self) -> str | Opaque:
        """What a search compares with."""
        return self.function if isinstance(self.function, Opaque) else self.text

    def target(self, s: Floats) -> Floats:
        if self.local is not None:
            return values_at(self.local, self.names, s)
        assert isinstance(self.function, Opaque)
        x = np.stack([q.centre + s[:, i] / q.scale for i, q in enumerate(self.queries)], axis=1)
        return self.function(np.clip(x, self.asked.box.lo, self.asked.box.hi)) - self.mean

    def along_axes(self) -> Floats:
        """(d, POINTS): the values on the lines through one point that are parallel to an axis; off the middle, where
        products may vanish."""
        count = len(self.queries)
        lines = np.tile(self.lo + OFF_THE_MIDDLE * (self.hi - self.lo), (count, POINTS, 1))
        for axis, (a, b) in enumerate(zip(self.lo, self.hi, strict=True)):
            lines[axis, :, axis] = uneven_points(a, b)
        return self.target(lines.reshape(-1, count)).reshape(count, POINTS)

    def largest_slope(self) -> float:
        """About, along any direction with steps of at most 1 in every s; infinite where that is not known."""
        if self.local is None:
            return math.inf
        a, b = _first_parts(self.lo, self.hi)
        place = {name: Interval(a[:, i], b[:, i]) for i, name in enumerate(self.names)}
        steps = Interval(np.array(-1.0), np.array(1.0))
        slope = jet_along(self.local, place, dict.fromkeys(self.names, steps), 1)[1]
        return float(np.max(slope.magnitude()))


def approximate_several(
    f: str | Callable[..., Any],
    asked: VectorRequest,
    on_domain: OnDomain,
    progress: Callable[[str], None],
) -> AttentionNetwork:
    """The network, PROVEN or MEASURED as asked for."""
    task = _task(f, asked, WIDTHS[asked.dtype])
    net = _build(task, asked, on_domain, progress)
    confirm_again(f, task.function, VARIABLES[: len(asked.box.lo)], asked.box)
    return net


def _build(
    task: _VectorTask, asked: VectorRequest, on_domain: OnDomain, progress: Callable[[str], None]
) -> AttentionNetwork:
    proposals = VectorProposals(task, progress)
    if asked.proof == "measured":
        networks = (_network(task, fit.table) for fit in proposals.fits())
        return AttentionNetwork(*find_measured(networks, task.reference, asked.box, asked.tol, task.where), on_domain)
    for proposal in proposals:
        progress("checking the certificate")
        net = confirm_proposal(proposal, on_domain)
        if net is not None:
            return net
        proposals.work -= WORK / 3  # the checker's enclosures are wider than the prover's: it took long to disagree
    raise proposals.failure(lambda best: confirm_proposal(best, on_domain) is not None)


def propose_vector_table(formula: str, box: Box, tol: float, dtype: str, most: int) -> VectorProposal:
    """A table of vector anchors for a formula in x and y (and z) on a box, within tol by the prover's bound.

    Whoever builds it into a network claims its leaf there. Raises ToleranceError with the best bound found.
    """
    asked = VectorRequest(outward(box, dtype), float(tol), dtype, most, "proven")
    proposals = VectorProposals(_task(formula, asked, WIDTHS[dtype]))
    for proposal in proposals:
        return proposal
    raise proposals.failure()


def confirm_proposal(proposal: Proposal | VectorProposal, on_domain: OnDomain) -> AttentionNetwork | None:
    """The network of a proposal, PROVEN; None where the checker does not agree."""
    network = proposal.network()
    try:
        return AttentionNetwork(network, confirm(network, proposal.certificate(network)), on_domain)
    except CertificateError:
        return None


def _network(task: _VectorTask, table: VectorTable) -> Network:
    role = f"{task.text}, {len(table.values)} vector anchors"
    return assemble_vector(table, task.queries, task.mean, task.text, role, task.asked.dtype)


def _task(f: str | Callable[..., Any], asked: VectorRequest, widths: tuple[float, float]) -> _VectorTask:
    lo, hi, dtype = asked.box.lo, asked.box.hi, asked.dtype
    names = VARIABLES[: len(lo)]
    function = as_function(f, names, asked.proof == "measured", asked.box)
    text = function.name if isinstance(function, Opaque) else to_text(function)
    for name, a, b in zip(names, lo.tolist(), hi.tolist(), strict=True):
        if not widths[0] <= b - a <= widths[1]:
            raise DomainError(
                f"domain: {name} in [{a!r}, {b!r}] must be between {widths[0]:g} and {widths[1]:g} wide in {dtype}"
            )
    queries = tuple(Query.covering(a, b, dtype) for a, b in zip(lo.tolist(), hi.tolist(), strict=True))
    local = None
    if isinstance(function, Opaque):
        mean = middle_in_few_bits(function(_grid(asked.box)), dtype)
    else:
        _bounded(function, names, text, asked.box, widths[1])
        mean = middle_in_few_bits(values_at(function, names, _grid(asked.box)), dtype)
        local = vector_formula(function, [q.centre for q in queries], [q.scale for q in queries], mean)
    reach = [q.reach(a, b, dtype) for q, a, b in zip(queries, lo.tolist(), hi.tolist(), strict=True)]
    ends = (np.array(end) for end in zip(*reach, strict=True))
    return _VectorTask(asked, function, text, queries, mean, local, *ends)


def _bounded(formula: Expression, names: tuple[str, ...], text: str, box: Box, most: float) -> None:
    """FormulaError where f cannot be enclosed: halve until every part stays below most, or is a point."""
    a, b = _first_parts(box.lo, box.hi)
    for halving in range(_HALVINGS * len(names)):
        place = {name: Interval(a[:, i], b[:, i]) for i, name in enumerate(names)}
        enclosed = jet_along(formula, place, dict.fromkeys(names, ZERO), 0)[0]
        unknown = ~np.broadcast_to(enclosed.magnitude() < most, len(a))
        a, b = a[unknown], b[unknown]
        if not len(a):
            return
        axis = halving % len(names)
        middle = a[:, axis] / 2 + b[:, axis] / 2
        left, right = b.copy(), a.copy()
        left[:, axis] = right[:, axis] = middle
        a, b = np.concatenate([a, right])[:_MOST_PARTS], np.concatenate([left, b])[:_MOST_PARTS]
    where = ", ".join(f"{name} = {float(x)!r}" for name, x in zip(names, a[0], strict=True))
    raise FormulaError(f"{shortened(text)} is undefined, infinite or too large for a float at or near {where}")


def _first_parts(lo: Floats, hi: Floats) -> tuple[Floats, Floats]:
    """The lower and the upper corners of equal parts of a box, (parts, d) each."""
    edges = [np.linspace(a, b, _FIRST_PARTS[len(lo)] + 1) for a, b in zip(lo, hi, strict=True)]
    first, last = (
        np.stack([x.ravel() for x in np.meshgrid(*ends, indexing="ij")], axis=1)
        for ends in ([e[:-1] for e in edges], [e[1:] for e in edges])
    )
    return first, last


def _grid(box: Box) -> Floats:
    """An even grid of points in the box."""
    axes = [
        np.clip(a + (b - a) * np.linspace(0.0, 1.0, _SAMPLES[len(box.lo)]), a, b)
        for a, b in zip(box.lo, box.hi, strict=True)
    ]
    return np.stack([x.ravel() for x in np.meshgrid(*axes, indexing="ij")], axis=1)


@dataclass(frozen=True)
class VectorProposal:
    """A head of vector anchors with what the prover found: `bound` is about the network of one layer."""

    task: _VectorTask
    table: VectorTable
    leaf: VectorLeaf
    terms: Terms
    bound: float

    @property
    def queries(self) -> tuple[Query, ...]:
        return self.task.queries

    @property
    def mean(self) -> float:
        return self.task.mean

    def network(self) -> Network:
        """The network of one layer."""
        return _network(self.task, self.table)

    def certificate(self, network: Network) -> Certificate:
        """What is claimed about it, unchecked."""
        asked = self.task.asked
        return Certificate(
            VectorLayerClaim(self.leaf),
            self.task.text,
            asked.box,
            asked.dtype,
            "dot",
            self.bound,
            self.terms,
            network_digest(network),
            assumptions(asked.dtype, "dot"),
        )


class VectorProposals:
    """Iterates over the proposals whose bound is at most the tolerance; remembers the best, and why others failed."""

    def __init__(self, task: _VectorTask, progress: Callable[[str], None] = lambda message: None) -> None:
        asked = task.asked
        if asked.most < 2 ** len(task.lo):
            raise BudgetError(
                f"a head of {len(task.lo)} variables has at least {2 ** len(task.lo)} anchors, max_anchors={asked.most}"
            )
        self.task, self.progress = task, progress
        most = min(asked.most, MAX_VECTOR)
        self.designer = VectorDesigner(task.target, task.lo, task.hi, asked.tol, most, asked.dtype)
        self.best: VectorProposal | None = None
        self.work = WORK
        self.too_dear: int | None = None  # the anchors of a head whose proof was given up

    def __iter__(self) -> Iterator[VectorProposal]:
        for fit in self.fits():
            if self.work <= 0:
                return
            self.progress(f"proving a head with {len(fit.table.values)} anchors")
            found = self._propose(fit)
            if found is not None and (self.best is None or found.bound < self.best.bound):
                self.best = found
            if found is not None and found.bound <= self.task.asked.tol:
                yield found

    def fits(self) -> Iterator[VectorFit]:
        """Heads to try, each once: those of fewest anchors first, then better ones."""
        tried: set[bytes] = set()
        for aim in _AIMS:
            for fit in self.designer.candidates(aim * self.task.asked.tol):
                key = fit.table.values.tobytes()
                if key not in tried:
                    tried.add(key)
                    yield fit

    def _propose(self, fit: VectorFit) -> VectorProposal | None:
        """What can be claimed of a head, or None where the prover found no finite bound."""
        task, asked, table = self.task, self.task.asked, fit.table
        assert task.local is not None
        d, count = len(task.lo), len(table.values)
        each = count * len(monomials(d, ORDER[d] - 1).degrees)
        hopeful = fit.residual <= asked.tol
        work = self.work if hopeful else min(self.work, WORK / 10)  # else only to say what could be proven
        goal = Goal(max(1.03 * fit.residual, 0.85 * asked.tol - 1.2 * fit.rounding), 0.97 * asked.tol, int(work / each))
        proof = prove_vector(table.anchors, task.local, task.lo, task.hi, asked.dtype, goal)
        self.work -= 2.0 * each * len(proof.boxes)  # halved boxes were looked at too
        if hopeful and not proof.complete:
            self.too_dear = count
        axes = [
            QueryAxis(lo, hi, query.centre != 0, slope, query.lost(asked.dtype))
            for lo, hi, query, slope in zip(
                task.lo.tolist(), task.hi.tolist(), task.queries, proof.lipschitz.tolist(), strict=True
            )
        ]
        terms, bound = vector_terms(proof.terms, axes, table.values, task.mean, asked.dtype)
        if not math.isfinite(bound):
            return None
        slopes = np.array([0.0 if axis.lost is None else axis.lipschitz for axis in axes])
        leaf = VectorLeaf(0, to_text(task.local), task.lo, task.hi, "taylor", proof.boxes, proof.terms, slopes)
        return VectorProposal(task, table, leaf, terms, bound)

    def failure(self, confirm: Callable[[VectorProposal], bool] = lambda best: True) -> Exception:
        """BudgetError where proving was given up, else ToleranceError with the best bound, if it may be told."""
        task, tol = self.task, self.task.asked.tol
        if self.too_dear is not None:
            return BudgetError(
                f"{task.where}: proving tol={tol:g} for a head with {self.too_dear} anchors would take too many boxes;"
                ' a larger tol may be cheaper, and proof="measured" searches for the largest error instead'
            )
        best = self.best
        useful = best is not None and best.bound <= self.designer.range / 4  # else a constant does nearly as well
        if best is None or not useful or not confirm(best):
            advice = advise(task.along_axes(), task.largest_slope(), min(task.asked.most, MAX_VECTOR))
            return ToleranceError(f"{task.where}: no error bound could be proven, so not tol={tol:g} either; {advice}")
        return ToleranceError(
            f"{task.where}: tol={tol:g} cannot be proven; the best bound found is {round_up(best.bound)}, with"
            f" {len(best.table.values)} anchors",
            best=best.bound,
        )
