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

#: Number of times that a graph is lowered and checked before tol is given up.
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
    """Heads that are accurate enough by estimate; more accurate ones where the checker's bound is above tol.

    certify: a lowered graph to a network with a certificate that the checker agreed with, or ToleranceError.
    instead: what to do where tol cannot be proven.
    """
    tol, dtype, progress = asked.tol, asked.dtype, asked.progress
    aim, proving, room = tol, 0.0, 1.0
    best: Certificate | None = None
    refusal: ToleranceError | None = None
    costs: tuple[tuple[str, float], ...] = ()
    for _ in range(ATTEMPTS):
        try:
            with stage("lower the graph"):
                lowered = lower(
                    graph,
                    asked.box,
                    aim,
                    dtype,
                    progress,
                    room=room,
                    ablatable=asked.ablatable,
                    dead_zone=asked.dead_zone,
                )
        except ToleranceError:
            if best is None and refusal is None:
                raise
            break
        progress(f"checking {counted(len(lowered.network.layers), 'layer')}")
        begun = time.perf_counter()
        try:
            net = certify(lowered)
        except ToleranceError as error:
            refusal, costs, room = error, costs or lowered.costs, WIDER * room  # perhaps tables are too narrow
            continue
        finally:
            proving += time.perf_counter() - begun
        found = net.certificate
        assert found is not None
        if found.bound <= tol:
            net.on_domain = asked.on_domain
            net.about = Compiled(graph, lowered.costs, time.perf_counter() - asked.start - proving, proving)
            return net
        if best is None or found.bound < best.bound:
            best, costs = found, lowered.costs
        if found.terms.approximation < ROUNDED * found.bound:
            break
        aim = lowered.aim * min(1 / FINER, tol / found.bound / 2)
    if best is None:
        raise ToleranceError(f"{graph.name}: {refusal}. {dearest_columns(costs)}") from refusal
    raise ToleranceError(
        f"{graph.name}: tol={tol:g} cannot be proven in {dtype}; the best bound found is {round_up(best.bound)}"
        f" (approximation {best.terms.approximation:.2g}, rounding {best.terms.rounding:.2g})."
        f" {dearest_columns(costs)}. {instead}",
        best.bound,
    )


def dearest_columns(costs: tuple[tuple[str, float], ...]) -> str:
    if not costs:
        return "It has no tables that could be finer: the error is rounding; dtype=torch.float64 rounds least"
    rounded = sorted((-float(f"{cost:.2g}"), label) for label, cost in costs)  # those that print alike: by name
    told = ", ".join(f"{label} ({-cost:.2g})" for cost, label in rounded[:5])
    return f"The columns whose own heads cost most, by estimate: {told}"
