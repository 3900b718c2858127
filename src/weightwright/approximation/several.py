"""`approximate` for functions of two or three variables: one head of vector anchors."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from weightwright.approximation.measured import first_measured
from weightwright.approximation.opaque import Opaque
from weightwright.approximation.prove_design import checked
from weightwright.approximation.task import WIDTHS, as_function, middle_in_few_bits
from weightwright.box import Box
from weightwright.claims.certificate import VARIABLES, Certificate, VectorLeaf, assumptions, rounded_up, vector_formula
from weightwright.claims.files import network_digest
from weightwright.claims.leaf import VectorLayerClaim
from weightwright.enclosures.intervals.intervals import ZERO, Interval
from weightwright.enclosures.intervals.jets import jet_along, values_at
from weightwright.enclosures.intervals.polynomials import monomials
from weightwright.errors import BudgetError, DomainError, FormulaError, ToleranceError
from weightwright.expressions import Expression, parse, shortened, to_text
from weightwright.heads.registers import Query
from weightwright.heads.vector_anchors import VectorDesigner, VectorFit, assemble_vector
from weightwright.network import Network
from weightwright.numbers import Floats
from weightwright.prover import Goal, QueryAxis, prove_vector, vector_terms
from weightwright.prover.vector import ORDER
from weightwright.runtime import AttentionNetwork
from weightwright.runtime.module import OnDomain

MAX_VARIABLES = len(VARIABLES)
#: The search stops here: a head of more anchors takes too long to prove.
MAX_VECTOR = 4096
#: Boxes times anchors times Taylor coefficients that one function may cost: about a minute to prove and check.
WORK = 3e8
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


def approximate_several(
    f: str | Callable[..., Any],
    asked: VectorRequest,
    on_domain: OnDomain,
    progress: Callable[[str], None],
) -> AttentionNetwork:
    """The network, PROVEN or MEASURED as asked for."""
    task = _task(f, asked, WIDTHS[asked.dtype])
    if asked.most < 2 ** len(task.lo):
        raise BudgetError(
            f"a head of {len(task.lo)} variables has at least {2 ** len(task.lo)} anchors, max_anchors={asked.most}"
        )
    designer = VectorDesigner(task.target, task.lo, task.hi, asked.tol, min(asked.most, MAX_VECTOR), asked.dtype)
    if asked.proof == "measured":
        networks = (_network(task, fit) for fit in _fits(task, designer))
        return AttentionNetwork(*first_measured(networks, task.reference, asked.box, asked.tol, task.where), on_domain)
    attempts = _Attempts(task, designer.range, progress)
    for network, certificate in attempts.proven(_fits(task, designer)):
        progress("checking the certificate")
        confirmed = checked(network, certificate)
        if confirmed is not None:
            return AttentionNetwork(network, confirmed, on_domain)
        attempts.work -= WORK / 3  # the checker's enclosures are wider than the prover's: it took long to disagree
    raise attempts.failure()


def _fits(task: _VectorTask, designer: VectorDesigner) -> Iterator[VectorFit]:
    """Heads to try, each once: those of fewest anchors first, then better ones."""
    tried: set[bytes] = set()
    for aim in _AIMS:
        for fit in designer.candidates(aim * task.asked.tol):
            key = fit.table.values.tobytes()
            if key not in tried:
                tried.add(key)
                yield fit


def _network(task: _VectorTask, fit: VectorFit) -> Network:
    role = f"{task.text}, {len(fit.table.values)} vector anchors"
    return assemble_vector(fit.table, task.queries, task.mean, task.text, role, task.asked.dtype)


def _task(f: str | Callable[..., Any], asked: VectorRequest, widths: tuple[float, float]) -> _VectorTask:
    lo, hi, dtype = asked.box.lo, asked.box.hi, asked.dtype
    names = VARIABLES[: len(lo)]
    if not isinstance(f, str):
        _takes(f, names)
    function = as_function(f, names, asked.proof == "measured")
    text = function.name if isinstance(function, Opaque) else to_text(function)
    for name, a, b in zip(names, lo.tolist(), hi.tolist(), strict=True):
        if not widths[0] <= b - a <= widths[1]:
            raise DomainError(
                f"domain: {name} in [{a!r}, {b!r}] must be between {widths[0]:g} and {widths[1]:g} wide in {dtype}"
            )
    queries = tuple(Query.covering(a, b, dtype) for a, b in zip(lo.tolist(), hi.tolist(), strict=True))
    own = tuple(f"s{i}" for i in range(len(names)))
    local = None
    if isinstance(function, Opaque):
        mean = middle_in_few_bits(function(_grid(asked.box)), dtype)
    else:
        _bounded(function, names, text, asked.box, widths[1])
        mean = middle_in_few_bits(values_at(function, names, _grid(asked.box)), dtype)
        seen = vector_formula(function, [q.centre for q in queries], [q.scale for q in queries], mean)
        local = parse(to_text(seen), own)
    reach = [q.reach(a, b, dtype) for q, a, b in zip(queries, lo.tolist(), hi.tolist(), strict=True)]
    ends = (np.array(end) for end in zip(*reach, strict=True))
    return _VectorTask(asked, function, text, queries, mean, local, *ends)


def _takes(function: Callable[..., Any], names: tuple[str, ...]) -> None:
    """FormulaError unless the function can be called with so many arguments."""
    try:
        inspect.signature(function).bind(*names)
    except TypeError as error:
        raise FormulaError(
            f"f must take {len(names)} tensors, {', '.join(names)}, one for each feature of the domain: {error}"
        ) from error
    except ValueError:  # a built-in function without a signature: call it and see
        pass


def _bounded(formula: Expression, names: tuple[str, ...], text: str, box: Box, most: float) -> None:
    """FormulaError where f cannot be enclosed: halve until every part stays below most, or is a point."""
    edges = [np.linspace(a, b, _FIRST_PARTS[len(names)] + 1) for a, b in zip(box.lo, box.hi, strict=True)]
    a, b = (
        np.stack([x.ravel() for x in np.meshgrid(*ends, indexing="ij")], axis=1)
        for ends in ([e[:-1] for e in edges], [e[1:] for e in edges])
    )
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


def _grid(box: Box) -> Floats:
    """An even grid of points in the box."""
    axes = [
        np.clip(a + (b - a) * np.linspace(0.0, 1.0, _SAMPLES[len(box.lo)]), a, b)
        for a, b in zip(box.lo, box.hi, strict=True)
    ]
    return np.stack([x.ravel() for x in np.meshgrid(*axes, indexing="ij")], axis=1)


class _Attempts:
    """Networks with unchecked certificates whose bound meets the tolerance; remembers why others did not."""

    def __init__(self, task: _VectorTask, spread: float, progress: Callable[[str], None]) -> None:
        self.task, self.range, self.progress = task, spread, progress
        self.best: tuple[Network, Certificate] | None = None
        self.work = WORK
        self.too_dear: int | None = None  # the anchors of a head whose proof was given up

    def proven(self, fits: Iterator[VectorFit]) -> Iterator[tuple[Network, Certificate]]:
        for fit in fits:
            if self.work <= 0:
                return
            self.progress(f"proving a head with {len(fit.table.values)} anchors")
            attempt = self._prove(fit)
            if attempt is None:
                continue
            if self.best is None or attempt[1].bound < self.best[1].bound:
                self.best = attempt
            if attempt[1].bound <= self.task.asked.tol:
                yield attempt

    def _prove(self, fit: VectorFit) -> tuple[Network, Certificate] | None:
        """The network and an unchecked certificate, or None where the prover found no finite bound."""
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
            QueryAxis(lo, hi, query.centre != 0, query.exact, 0.0 if query.exact else slope)
            for lo, hi, query, slope in zip(
                task.lo.tolist(), task.hi.tolist(), task.queries, proof.lipschitz.tolist(), strict=True
            )
        ]
        terms, bound = vector_terms(proof.terms, axes, table.values, task.mean, asked.dtype)
        if not math.isfinite(bound):
            return None
        network = _network(task, fit)
        slopes = np.array([axis.lipschitz for axis in axes])
        local = to_text(task.local)
        leaf = VectorLeaf(0, local, task.lo, task.hi, "taylor", proof.boxes, proof.terms, slopes)
        said = Certificate(
            VectorLayerClaim(leaf),
            task.text,
            asked.box,
            asked.dtype,
            "dot",
            bound,
            terms,
            network_digest(network),
            assumptions(asked.dtype, "dot"),
        )
        return network, said

    def failure(self) -> Exception:
        """BudgetError where proving was given up, else ToleranceError with the best bound that the checker confirms."""
        task, tol = self.task, self.task.asked.tol
        if self.too_dear is not None:
            return BudgetError(
                f"{task.where}: proving tol={tol:g} for a head with {self.too_dear} anchors would take too many boxes;"
                ' a larger tol may be cheaper, and proof="measured" searches for the largest error instead'
            )
        useful = self.best is not None and self.best[1].bound <= self.range / 4  # else a constant does nearly as well
        confirmed = checked(*self.best) if self.best is not None and useful else None
        if self.best is None or confirmed is None:
            return ToleranceError(
                f"{task.where}: no error bound could be proven, so not tol={tol:g} either; is the slope unbounded, or"
                " the function undefined, at some point?"
            )
        return ToleranceError(
            f"{task.where}: tol={tol:g} cannot be proven; the best bound found is {rounded_up(confirmed.bound)}, with"
            f" {len(self.best[0].registers)} anchors",
            best=confirmed.bound,
        )
