"""A network that runs a rule in a loop, where nothing is proven.

Its tables are for what a rehearsal meets. The certificate says the largest error of one pass that was seen there.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch

from weightwright.adversary.graphs import GraphTarget
from weightwright.adversary.loops import first_token_of_one_pass
from weightwright.approximation.task import outward
from weightwright.box import Box
from weightwright.claims.certificate import MeasuredClaim, measured_certificate
from weightwright.claims.files import network_digest
from weightwright.claims.graph import Graph
from weightwright.claims.prompt import LoopClaim
from weightwright.claims.target import Composite
from weightwright.compiler.attempts import Compiled
from weightwright.compiler.loop.proven_rules import put_in_loop, side_by_side, trace_and_confirm
from weightwright.compiler.loop.rehearsal import AT_ONCE, RuleRehearsal, rehearsed, stays
from weightwright.compiler.lowering.lower import Lowered, lower
from weightwright.compiler.lowering.ranges import Limit
from weightwright.enclosures.balls.series import working_precision
from weightwright.errors import ToleranceError
from weightwright.network import Network
from weightwright.numbers import Floats
from weightwright.runtime import AttentionNetwork

#: How much finer heads are asked for where the error that was seen is above tol.
FINER = (1.0, 2.0**-4, 2.0**-8)
#: Number of the worst states that are compared in 128 bits.
WORST = 4
HOW = (
    "every state of the plain run, and states drawn near them whose columns stay in the ranges of the rehearsal, all"
    " with the examples of the run; the worst against the graph in 128 bits"
)
REASON = "no proof was asked for: tables cover what the columns were seen to reach in a rehearsal, and some room"


def measure_rule(
    rule: Callable[..., Any],
    name: str,
    steps: int,
    examples: Box,
    state: Box,
    tol: float,
    rehearsal: RuleRehearsal,
    progress: Callable[[str], None] = lambda message: None,
) -> AttentionNetwork:
    """The rule, `steps` times in a loop, as `compile_rule` builds it, but for the rehearsal's examples and for states
    near those of its plain run. The certificate is MEASURED: an error of one pass, at most tol, that was the largest
    seen. The states of the rehearsal must lie in the box."""
    start = time.perf_counter()
    sizes = examples.lo.shape[-1], state.lo.shape[-1]
    box = outward(side_by_side(examples, state), "float64")
    progress("tracing")
    graph, compare_again = trace_and_confirm(rule, len(rehearsal.examples), examples, state, name)
    progress("rehearsing")
    limits = rehearsed(graph, rehearsal, state.lo, state.hi)
    near = rehearsal.near(1, state.lo, state.hi)
    states = np.concatenate([rehearsal.states, near[stays(graph, rehearsal, near, limits)]])
    least = math.inf
    for lowered in _ways(graph, box, tol, limits, progress):
        built = time.perf_counter()
        network, claim = put_in_loop(lowered, graph, sizes, steps)
        progress("measuring one pass")
        net = _seen(network, claim, box, rehearsal.prompts(states))
        assert net.certificate is not None
        assert net.certificate.measured is not None
        error = net.certificate.measured.error
        if error <= tol:
            compare_again()
            net.about = Compiled(graph, lowered.costs, built - start, time.perf_counter() - built)
            return net
        least = min(least, error)
    raise ToleranceError(
        f"{name}: no network within tol={tol:g} was found; the smallest error of one pass is {least:.3g}."
        " Ask for a larger tol"
    )


def _ways(
    graph: Graph, box: Box, tol: float, limits: Mapping[int, Limit], progress: Callable[[str], None]
) -> Iterator[Lowered]:
    """Finer and finer heads: with tables that cover all estimated errors, or without where these are too large."""
    for finer in FINER:
        progress(f"lowering {len(graph.nodes)} columns")
        for covering in (True, False):
            try:
                lowered = lower(graph, box, finer * tol, "float64", progress, provable=covering, limits=limits)
            except ToleranceError:
                if finer == 1.0 and not covering:
                    raise
            else:
                yield lowered
                break


def _seen(network: Network, claim: LoopClaim, box: Box, prompts: Floats) -> AttentionNetwork:
    """With a certificate that says the largest error of one pass on these prompts, (count, n, features + states)."""

    def said(error: float) -> Any:
        measured = MeasuredClaim(error, len(prompts), HOW, REASON, claim)
        text, digest = claim.in_words(), network_digest(network)
        return measured_certificate(measured, text, box, network.dtype, "dot", digest)

    net = AttentionNetwork(network, said(math.inf))
    net.certificate = said(_largest(first_token_of_one_pass(net, claim), claim.composite, prompts))
    return net


def _largest(one: AttentionNetwork, composite: Composite, prompts: Floats) -> float:
    """The largest error on any prompt, rounded up."""
    assert isinstance(composite.target, Graph)
    target = GraphTarget(composite, composite.target, prompts.shape[1:], first=True)
    inputs = prompts.reshape(len(prompts), -1)
    with torch.no_grad():
        parts = [one(part)[:, 0] for part in torch.tensor(prompts).split(AT_ONCE)]
    found = torch.cat(parts).numpy()  # (count, states)
    rough = np.concatenate([target.rough(inputs[i : i + AT_ONCE]) for i in range(0, len(inputs), AT_ONCE)])
    gaps = np.abs(found - rough)
    if not np.isfinite(gaps).all():
        return math.inf
    worst = 0.0
    with working_precision():
        for place in np.argsort(-gaps, axis=None)[:WORST].tolist():
            i, j = divmod(place, gaps.shape[1])
            gap = abs(float(found[i, j]) - target.exact(inputs[i], j)).upper()
            worst = max(worst, float(np.nextafter(float(gap), np.inf)) if gap > 0 else 0.0)
    return worst
