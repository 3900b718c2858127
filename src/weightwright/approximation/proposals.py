"""What the prover proposes for a task, design by design: the leaf, terms and bound of a network, unchecked."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from weightwright.approximation.graded_designs import graded_designs, middle_designs
from weightwright.approximation.kinked import Kinked, Sees, find_kinks
from weightwright.approximation.kinks_by_gates import Gates
from weightwright.approximation.kinks_on_registers import OneSided
from weightwright.approximation.opaque import Opaque
from weightwright.approximation.task import AIMS, SAMPLES, Task
from weightwright.approximation.unproven import advise, largest_slope, uneven_points
from weightwright.claims.certificate import Certificate, Leaf, Terms, round_up, sampled_in_words
from weightwright.claims.files import network_digest
from weightwright.claims.one_layer_claims import OneLayerClaim, SampledClaim
from weightwright.enclosures.intervals.intervals import Interval
from weightwright.enclosures.intervals.jets import jet
from weightwright.errors import ToleranceError
from weightwright.expressions import to_text
from weightwright.heads.faithful import nearest_anchor
from weightwright.heads.one_sided import samples
from weightwright.heads.registers import Design, Query, Table, assemble
from weightwright.heads.sigmoid import two_keys
from weightwright.heads.spectral import MAX_SPECTRAL, SpectralDesigner
from weightwright.heads.window_anchors import WindowDesigner
from weightwright.network import Network
from weightwright.numbers import FORMATS, Floats
from weightwright.prover import Proof, Sampled, Sum, first_edges, network_terms, prove, prove_nearest
from weightwright.prover.machine import assumptions

#: Anchors of a uniform grid beyond which other places for them are tried first.
MANY = 64
#: The prover does not look for approximation errors below this share of the tolerance.
WORTHWHILE = 1e-6
#: Samples in each of the first boxes, where these are not even.
_IN_A_BOX = 17

Rule = Literal["taylor", "nearest"]


@dataclass(frozen=True)
class Proposal:
    """A design of a task with what the prover found: `bound` is about the network of one layer, `leaf` about its heads.

    zones: (number, 2), the dead zones in x.
    """

    task: Task
    design: Design
    leaf: Leaf
    terms: Terms
    bound: float
    zones: Floats

    @property
    def query(self) -> Query:
        return self.design.query or self.task.query

    def network(self) -> Network:
        """The network of one layer."""
        return build(self.task, self.design)

    def certificate(self, network: Network) -> Certificate:
        """What is claimed about the network of one layer, unchecked."""
        task = self.task
        kernel = "anchor" if self.design.tables[0].window is not None else "dot"
        claim: OneLayerClaim | SampledClaim
        if task.samples is None:
            claim = OneLayerClaim(self.leaf, tuple((float(lo), float(hi)) for lo, hi in self.zones))
            computed, leans_on = task.text, claim.possible_assumptions(task.box)
        else:
            claim = SampledClaim(self.leaf, task.samples)
            computed, leans_on = sampled_in_words(task.samples), task.samples.assumptions()
        return Certificate(
            claim,
            computed,
            task.box,
            task.dtype,
            kernel,
            self.bound,
            self.terms,
            network_digest(network),
            (*assumptions(task.dtype, kernel), *leans_on),
        )


def propose(task: Task, design: Design, rule: Rule, kinks: Floats, zones: Floats) -> Proposal | None:
    """What can be claimed of a design, or None where the prover found no finite bound.

    kinks: where, in s, boxes should end. zones: (number, 2), the dead zones in x.
    """
    query = design.query or task.query
    lo, hi = query.reach(float(task.box.lo[0]), float(task.box.hi[0]), task.dtype)
    layer, local = design.layer(query), task.provable(design.mean, query)
    if rule == "nearest":
        assert not isinstance(local, Sampled)
        proof = prove_nearest(layer.heads[0], local, lo, hi, task.dtype)
    else:
        proof = _prove_on_boxes(task, design, layer, (lo, hi), kinks, _holes(task, zones))
    lost = query.lost(task.dtype)
    lipschitz = 0.0 if lost is None else proof.lipschitz
    terms, bound = network_terms(
        proof.terms,
        lipschitz,
        layer,
        centre=query.centre,
        scale=query.scale,
        lost=lost,
        mean=design.mean,
        lo=lo,
        hi=hi,
        dtype=task.dtype,
    )
    if not math.isfinite(bound):
        return None
    formula = task.text if isinstance(local, Sampled) else to_text(local)
    leaf = Leaf(0, formula, lo, hi, rule, proof.boxes, proof.terms, lipschitz)
    return Proposal(task, design, leaf, terms, bound, zones)


def _prove_on_boxes(
    task: Task, design: Design, layer: Sum, ends: tuple[float, float], kinks: Floats, holes: Floats
) -> Proof:
    """By Taylor models on boxes that end at kinks and holes, as finely as the error measured on samples is worth."""
    query, (lo, hi) = design.query or task.query, ends
    s = np.union1d(np.linspace(lo, hi, SAMPLES), samples(lo, hi, kinks.tolist(), 60))
    local = task.provable(design.mean, query)
    between = local.edges(lo, hi) if isinstance(local, Sampled) else kinks
    first = first_edges(layer, lo, hi) if design.edges is None else np.clip(design.edges, lo, hi)
    edges = np.unique(np.concatenate([first, [lo, hi], between, holes.ravel()]))
    edges = edges[(edges >= lo) & (edges <= hi)]
    if design.edges is not None:
        s = np.union1d(s, np.linspace(edges[:-1], edges[1:], _IN_A_BOX))
    s = s[~((s[:, None] > holes[:, 0]) & (s[:, None] < holes[:, 1])).any(axis=1)]
    measured = float(np.abs(layer.values(s) - task.target(s, design.mean, query)).max())
    return prove(layer, local, edges, task.dtype, max(1.03 * measured, WORTHWHILE * task.tol), holes)


def build(task: Task, design: Design) -> Network:
    """The network of a design."""
    return assemble(design, design.query or task.query, task.text, task.dtype)


def _holes(task: Task, zones: Floats) -> Floats:
    """The queries that inputs inside the dead zones alone can lead to."""
    holes = (zones - task.query.centre) * task.query.scale
    lost = task.query.lost(task.dtype)
    if lost is None:
        return holes
    slip = 2.0 ** (2 - FORMATS[task.dtype].bits) * np.abs(holes) + 2 * lost
    return holes + slip * np.array([1.0, -1.0])


Method = Literal["spectral", "faithful"]
Kernel = Literal["dot", "anchor"]


@dataclass(frozen=True)
class Choice:
    """Which kind of heads to design. most: the largest number of keys. bare: one head alone, with nothing beside it."""

    method: Method = "spectral"
    kernel: Kernel = "dot"
    sees: Sees = "registers"
    most: int = 512
    bare: bool = False


class Proposals:
    """Iterates over the proposals whose bound is at most the tolerance, and remembers the best of all."""

    def __init__(self, task: Task, choice: Choice, progress: Callable[[str], None] = lambda message: None) -> None:
        self.task, self.choice, self.progress = replace(task, mean=0.0) if choice.bare else task, choice, progress
        self.kinked = find_kinks(self.task)
        self.best: Proposal | None = None

    @property
    def zones(self) -> Floats:
        """(number, 2): the dead zones, in x."""
        return np.zeros((0, 2)) if self.kinked is None else self.kinked.zones

    def __iter__(self) -> Iterator[Proposal]:
        kinks = np.zeros(0) if self.kinked is None else self.kinked.positions
        rule: Rule = "nearest" if self.choice.method == "faithful" else "taylor"
        for design in self.designs():
            if self.choice.bare and (len(design.tables) != 1 or design.mean or design.slope):
                continue
            self.progress(f"proving a head with {design.size} anchors")
            found = propose(self.task, design, rule, kinks, self.zones)
            if found is not None and (self.best is None or found.bound < self.best.bound):
                self.best = found
            if found is not None and found.bound <= self.task.tol:
                yield found

    def designs(self) -> Iterator[Design]:
        """What to try to prove, the cheapest first."""
        task, kinked, most = self.task, self.kinked, self.choice.most
        if self.choice.method == "faithful":
            yield from faithful_designs(task, most)
            return
        if self.choice.kernel == "anchor":
            yield from windowed_designs(task, most)
            return
        if kinked is not None:
            yield from _kinked_designs(kinked, self.choice)
        elif (yield from graded_designs(task, most)):
            return
        if kinked is None and two_keys_for(task) is None and takes_many(task):
            yield from middle_designs(task, most)
        if kinked is None or not len(kinked.zones):
            yield from spectral_designs(task, most)

    def failure(self, confirm: Callable[[Proposal], bool] = lambda best: True) -> ToleranceError:
        """Why no proposal was good enough, with the best bound; confirm: whether that one may be told."""
        task, best = self.task, self.best
        useless = float(np.ptp(task.target(np.linspace(task.lo, task.hi, SAMPLES)))) / 4
        if best is not None and task.dtype == "float64" and best.bound > useless:
            best = None  # a constant would do nearly as well; in fewer bits it may be the best
        if best is None or not confirm(best):
            ends = float(task.box.lo[0]), float(task.box.hi[0])
            slope = math.inf if isinstance(task.function, Opaque) else largest_slope(task.text, *ends)
            most = min(self.choice.most, MAX_SPECTRAL[task.dtype])
            advice = advise(task.target(uneven_points(task.lo, task.hi)), slope, most)
            return ToleranceError(
                f"{task.where}: no error bound could be proven, so not tol={task.tol:g} either; {advice}"
            )
        bends = self.kinked is not None and self.choice.sees == "registers" and self.choice.kernel == "dot"
        hint = "; a gate, sees='self', may do better" if bends else ""
        keys = sum(len(table.keys) for table in best.design.tables)
        return ToleranceError(
            f"{task.where}: tol={task.tol:g} cannot be proven; the best bound found is {round_up(best.bound)},"
            f" with {keys} anchors{hint}",
            best=best.bound,
        )


def _kinked_designs(kinked: Kinked, choice: Choice) -> Iterator[Design]:
    """Everything worth proving, fewest keys first."""
    most = choice.most
    continuous = Gates(kinked, most) if choice.sees == "self" else OneSided(kinked, most, choice.bare)
    for share in AIMS:
        aim = share * kinked.task.tol
        tables, roles = kinked.step_tables(aim / (4 * max(len(kinked.steps), 1)))
        for rest in continuous.designs(aim if not tables else aim / 2):
            design = replace(rest, tables=(*rest.tables, *tables), roles=(*rest.roles, *roles))
            if 0 < design.size <= most:
                yield design


def spectral_designs(task: Task, most: int) -> Iterator[Design]:
    """Soft anchors on a uniform grid, or two keys that are exact."""
    exact = two_keys_for(task)
    if exact is not None:
        yield _one(task, exact.rounded(task.dtype), "two keys")
    designer = SpectralDesigner(
        task.target, task.lo, task.hi, task.tol, min(most, MAX_SPECTRAL[task.dtype]), task.dtype
    )
    tried: list[Table] = []
    for aim in AIMS:
        for fit in designer.candidates(aim * task.tol):
            if any(fit.table is table for table in tried):
                continue
            tried.append(fit.table)
            yield _one(task, fit.table, f"{fit.table.size} soft anchors")


def two_keys_for(task: Task) -> Table | None:
    """Two keys that are exact, where the function is a sigmoid."""
    local = task.local(task.mean)
    return two_keys(local) if local is not None else None


def takes_many(task: Task) -> bool:
    """Whether a uniform grid of a few anchors seems not to be enough."""
    designer = SpectralDesigner(task.target, task.lo, task.hi, task.tol, MANY, task.dtype)
    return designer.error(MANY) > AIMS[0] * task.tol


def windowed_designs(task: Task, most: int) -> Iterator[Design]:
    """Soft anchors of which a query sees those nearby: kernel "anchor"."""
    designer = WindowDesigner(task.target, task.lo, task.hi, task.tol, most, task.dtype)
    tried: list[Table] = []
    for aim in AIMS:
        for fit in designer.candidates(aim * task.tol):
            if not any(fit.table is table for table in tried):
                tried.append(fit.table)
                kind = f"{fit.table.size} soft anchors, {2 * (fit.table.window or 0) + 1} of them seen"
                yield replace(_one(task, fit.table, kind), query=task.query.finer(fit.factor))


def faithful_designs(task: Task, most: int) -> Iterator[Design]:
    """The papers' head, UA-2: the nearest of many anchors."""
    local = task.local(task.mean)
    if local is None:
        raise ValueError(f"method='faithful' needs a formula, and {task.text} is none")
    edges = np.linspace(task.lo, task.hi, 257)
    slopes = np.broadcast_to(jet(local, Interval(edges[:-1], edges[1:]), 1)[1].magnitude(), 256)
    slope, largest = float(slopes.max()), float(np.abs(task.target(edges)).max())
    if not math.isfinite(slope):
        raise ToleranceError(f"{task.where}: method='faithful' needs a bounded slope, and none could be shown")
    table = nearest_anchor(task.target, task.lo, task.hi, slope, largest, task.tol, most)
    yield _one(task, table.rounded(task.dtype), f"nearest of {table.size} anchors")


def _one(task: Task, table: Table, kind: str) -> Design:
    return Design((table,), (f"{task.text}, {kind}",), task.mean)
