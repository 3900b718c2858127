"""`proof="measured"`: the first way of computing a graph whose largest error in a search is at most tol."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator

import numpy as np

from weightwright.adversary.search import search
from weightwright.box import Box
from weightwright.certify import certify
from weightwright.claims.certificate import MeasuredClaim, measured_certificate
from weightwright.claims.files import network_digest
from weightwright.claims.graph import Graph
from weightwright.claims.target import Composite
from weightwright.compiler.attempts import Compiled, dearest_columns
from weightwright.compiler.lowering.by_logarithms import by_logarithms
from weightwright.compiler.lowering.lower import Lowered, lower
from weightwright.compiler.request import Request
from weightwright.errors import ToleranceError
from weightwright.runtime import AttentionNetwork

#: Seconds that the search for the largest error takes.
SECONDS = 3.0
MEASURED_HOW = (
    "corners, random inputs, inputs whose tokens or features are nearly alike, places between the anchors, then the"
    " surroundings of the worst; the worst of each round against the graph in 128 bits"
)


def measure_graph(graph: Graph, asked: Request) -> AttentionNetwork:
    """The first way of computing the graph whose largest error in a search is at most tol."""
    least = math.inf
    costs: tuple[tuple[str, float], ...] = ()
    for lowered, reason in _ways(graph, asked):
        built = time.perf_counter()
        asked.progress("searching for the largest error")
        net = _searched(lowered, graph, asked.box, reason or _reason(lowered, asked.box, asked.tol))
        found = net.certificate.measured if net.certificate is not None else None
        assert found is not None
        if found.error <= asked.tol:
            net.on_domain = asked.on_domain
            net.about = Compiled(graph, lowered.costs, built - asked.start, time.perf_counter() - built)
            return net
        if found.error < least:
            least, costs = found.error, lowered.costs
    raise ToleranceError(
        f"{graph.name}: no network within tol={asked.tol:g} was found in {asked.dtype}; the smallest error measured is"
        f" {least:.3g}; {dearest_columns(costs)}"
    )


def _ways(graph: Graph, asked: Request) -> Iterator[tuple[Lowered, str]]:
    """What few bits need; as if it were to be proven; without what a proof would need. With a reason why there is no
    proof, if that is known."""
    box, tol, dtype, progress = asked.box, asked.tol, asked.dtype, asked.progress
    shape = (graph.tokens or 1, box.lo.shape[-1])
    ends = [np.broadcast_to(end, shape) for end in (box.lo, box.hi)]
    rewritten = by_logarithms(graph, *ends) if dtype != "float64" else None
    if rewritten is not None:
        other, limits = rewritten
        why = "products with a function of a sum of squares are taken by logarithms, of which nothing is proven"
        yield lower(other, box, tol, dtype, progress, provable=False, limits=limits), why
    try:
        yield lower(graph, box, tol, dtype, progress, dead_zone=asked.dead_zone), ""
    except ToleranceError as error:
        zone = asked.dead_zone
        yield lower(graph, box, tol, dtype, progress, provable=False, dead_zone=zone), f"no proof: {error}"


def _searched(lowered: Lowered, graph: Graph, box: Box, reason: str) -> AttentionNetwork:
    """The network with a certificate that says the largest error that was found, against the graph."""
    network = lowered.network
    claims = lowered.composite if lowered.composite.target is graph else Composite(graph, ())
    net, digest = AttentionNetwork(network), network_digest(network)

    def said(error: float, inputs: int) -> None:
        claim = MeasuredClaim(error, inputs, MEASURED_HOW, reason, claims)
        net.certificate = measured_certificate(claim, graph.name, box, network.dtype, "dot", digest)

    said(math.inf, 0)
    worst = search(net, SECONDS)
    said(worst.error, worst.inputs)
    return net


def _reason(lowered: Lowered, box: Box, tol: float) -> str:
    """Why there is no proof, or that there could be one."""
    try:
        net = certify(lowered.network, lowered.composite, box)
    except ToleranceError as error:
        return f"no proof: {error}"
    assert net.certificate is not None
    if net.certificate.bound <= tol:
        return f"no proof was asked for; proof='proven' would give the bound {net.certificate.bound:.3g}"
    return f"errors compose to {net.certificate.bound:.3g} at worst, which is above tol={tol:g}"
