"""A network whose tokens each run a rule of their own, where nothing is proven: both of its stages are measured."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch

from weightwright.adversary.graphs import GraphTarget
from weightwright.box import Box
from weightwright.checker.composite.loop import network_before, one_pass
from weightwright.claims.certificate import MeasuredClaim, measured_certificate
from weightwright.claims.files import network_digest
from weightwright.claims.graph import Graph
from weightwright.claims.target import Composite
from weightwright.compiler.loop.own_states import FINER, Stages, join_stages, lower_stages
from weightwright.enclosures.balls.series import working_precision
from weightwright.errors import ToleranceError
from weightwright.network import Network
from weightwright.runtime import AttentionNetwork

#: Prompts, and inputs of one pass, that are tried.
PROMPTS, TOKENS = 16, 512
#: Number of the worst outputs that are compared in 128 bits.
WORST = 4
HOW = (
    "corners and random inputs of the domain of one pass, and of the layers before the loop; the worst of each against"
    " the graph in 128 bits"
)
REASON = "no proof was asked for"


def measure_stages(
    stages: Stages, steps: int, tol: float, dtype: str, progress: Callable[[str], None] = lambda message: None
) -> AttentionNetwork:
    """As `compile_stages` builds it. The certificate is MEASURED: the largest error of one pass, and of what the loop
    begins with, that was seen; ToleranceError where it is above tol."""
    least = math.inf
    for finer in FINER:
        network, claim = join_stages(stages, *lower_stages(stages, finer * tol, dtype, progress), steps)
        assert claim.beginning is not None
        progress("measuring one pass, and the layers before the loop")
        tried = [
            (one_pass(network, claim), claim.composite, claim.beginning.domain, TOKENS),
            (network_before(network, claim, claim.beginning), claim.beginning.composite, stages.prompt, PROMPTS),
        ]
        error = max(_largest(*one) for one in tried)
        if error <= tol:
            measured = MeasuredClaim(error, PROMPTS + TOKENS, HOW, REASON, claim)
            digest = network_digest(network)
            said = measured_certificate(measured, claim.in_words(), stages.prompt, dtype, "dot", digest)
            return AttentionNetwork(network, said)
        least = min(least, error)
    raise ToleranceError(f"no network within tol={tol:g} was found; the smallest error is {least:.3g}: a larger tol")


def _largest(network: Network, composite: Composite, box: Box, count: int) -> float:
    """The largest error that is found, rounded up."""
    n, d = network.tokens or 1, len(network.inputs)
    rng = np.random.default_rng(0)
    x = rng.uniform(box.lo, box.hi, (count, n, d))
    x[: count // 4] = np.where(rng.random((count // 4, n, d)) < 0.5, box.lo, box.hi)
    net = AttentionNetwork(network)
    given = torch.tensor(x, dtype=net.dtype)
    inputs = given.double().numpy().reshape(count, -1)
    assert isinstance(composite.target, Graph)
    target = GraphTarget(composite, composite.target, (n, d))
    with torch.no_grad():
        found = torch.cat([net(part) for part in given.split(16)]).double().reshape(count, -1).numpy()
    gaps = np.abs(found - target.rough(inputs))
    if not np.isfinite(gaps).all():
        return math.inf
    worst = 0.0
    with working_precision():
        for place in np.argsort(-gaps, axis=None)[:WORST].tolist():
            i, j = divmod(place, gaps.shape[1])
            gap = float(abs(float(found[i, j]) - target.exact(inputs[i], j)).upper())
            worst = max(worst, math.nextafter(gap, math.inf))
    return worst
