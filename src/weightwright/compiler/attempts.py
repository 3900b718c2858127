"""From a graph to a network that the checker agrees with: lowered, proven, and again where the bound is above tol."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from weightwright.claims.certificate import Certificate, round_up
from weightwright.claims.graph import INPUT, Graph
from weightwright.compiler.lowering.lower import Lowered, lower
from weightwright.compiler.request import Request
from weightwright.errors import ToleranceError
from weightwright.numbers import counted
from weightwright.runtime import AttentionNetwork
from weightwright.stopwatch import Stage, stage

#: Number of times that a graph is lowered and checked with the compiler's ranges of functions, and then with the
#: checker's, before tol is given up.
ATTEMPTS = 3
#: After a failed attempt, tables cover WIDER times the errors that were estimated before.
WIDER = 8.0
#: After an attempt whose bound is above tol, heads are asked for at most 1/FINER of the error.
FINER = 8.0
#: Finer heads are not tried where approximation is less than this share of the bound.
ROUNDED = 0.02
UNPROVEN = "proof='measured' builds the network without a proof"


@dataclass(frozen=True)
class Compiled:
    """How a network came about: what it computes, and what the stages cost. `net.about` of a compiled network."""

    graph: Graph
    costs: tuple[tuple[str, float], ...]  # columns with their estimated share of the error, the largest first
    compile_seconds: float
    proof_seconds: float
    stages: tuple[Stage, ...] = ()  # where the seconds went, the longest first

    def __repr__(self) -> str:
        spent = f"{self.compile_seconds:.2g} s to compile, {self.proof_seconds:.2g} s to prove or measure"
        return f"Compiled({self.graph.name[:40]}: {counted(len(self.graph.nodes), 'column')}, {spent})"

    @property
    def operations(self) -> int:
        """Columns that are no input."""
        return sum(node.op != INPUT for node in self.graph.nodes)


def certify_graph(
    graph: Graph, asked: Request, certify: Callable[[Lowered], AttentionNetwork], instead: str = UNPROVEN
) -> AttentionNetwork:
    """Heads that are accurate enough by estimate; more accurate ones where the checker's bound is above tol, and tables
    on the checker's ranges where it finds wider ones than the compiler.

    certify: a lowered graph to a network with a certificate that the checker agreed with, or ToleranceError.
    instead: what to do where tol cannot be proven.
    """
    attempts = _Attempts(graph, asked, certify, asked.tol)
    net = attempts.certify_within_tol()
    if net is None and attempts.refusal is not None:
        net = attempts.certify_within_tol(checked=True)
    if net is None:
        raise attempts.failure(instead)
    return net


@dataclass
class _Attempts:
    """What is known of a graph after some attempts: the error to aim at, the best certificate, the last refusal."""

    graph: Graph
    asked: Request
    certify: Callable[[Lowered], AttentionNetwork]
    aim: float
    proving: float = 0.0  # seconds
    best: Certificate | None = None
    refusal: ToleranceError | None = None
    costs: tuple[tuple[str, float], ...] = ()

    def certify_within_tol(self, checked: bool = False) -> AttentionNetwork | None:
        """The first network of ATTEMPTS with a bound of at most tol; None if there is none. checked: see `lower`."""
        asked, room = self.asked, 1.0
        for _ in range(ATTEMPTS):
            try:
                lowered = self._lower(room, checked)
            except ToleranceError as error:
                if self.best is None and self.refusal is None:
                    raise
                self.refusal = error if checked else self.refusal
                return None
            asked.progress(f"checking {counted(len(lowered.network.layers), 'layer')}")
            begun = time.perf_counter()
            try:
                net = self.certify(lowered)
            except ToleranceError as error:
                self.refusal, self.costs = error, self.costs or lowered.costs
                room *= WIDER  # perhaps tables are too narrow
                continue
            finally:
                self.proving += time.perf_counter() - begun
            found = net.certificate
            assert found is not None
            if found.bound <= asked.tol:
                compiling = time.perf_counter() - asked.start - self.proving
                net.on_domain = asked.on_domain
                net.about = Compiled(self.graph, lowered.costs, compiling, self.proving)
                return net
            if self.best is None or found.bound < self.best.bound:
                self.best, self.costs = found, lowered.costs
            if found.terms.approximation < ROUNDED * found.bound:
                return None
            self.aim = lowered.aim * min(1 / FINER, asked.tol / found.bound / 2)
        return None

    def _lower(self, room: float, checked: bool) -> Lowered:
        asked = self.asked
        with stage("lower the graph"):
            return lower(
                self.graph,
                asked.box,
                self.aim,
                asked.dtype,
                asked.progress,
                room=room,
                ablatable=asked.ablatable,
                dead_zone=asked.dead_zone,
                checked=checked,
            )

    def failure(self, instead: str) -> ToleranceError:
        """Why there is no network."""
        name, best = self.graph.name, self.best
        if best is None:
            error = ToleranceError(f"{name}: {self.refusal}. {dearest_columns(self.costs)}")
            error.__cause__ = self.refusal
            return error
        return ToleranceError(
            f"{name}: tol={self.asked.tol:g} cannot be proven in {self.asked.dtype}; the best bound found is"
            f" {round_up(best.bound)} (approximation {best.terms.approximation:.2g}, rounding"
            f" {best.terms.rounding:.2g}). {dearest_columns(self.costs)}. {instead}",
            best.bound,
        )


def dearest_columns(costs: tuple[tuple[str, float], ...]) -> str:
    if not costs:
        return "It has no tables that could be finer: the error is rounding; dtype=torch.float64 rounds least"
    rounded = sorted((-float(f"{cost:.2g}"), label) for label, cost in costs)  # those that print alike: by name
    told = ", ".join(f"{label} ({-cost:.2g})" for cost, label in rounded[:5])
    return f"The columns whose own heads cost most, by estimate: {told}"
