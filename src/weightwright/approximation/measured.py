"""`proof="measured"`: no bound, but the largest error that a search finds, and what was searched."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from weightwright.adversary.search import search
from weightwright.approximation.opaque import Opaque
from weightwright.box import Box
from weightwright.claims.certificate import Certificate, MeasuredClaim, measured_certificate
from weightwright.claims.files import network_digest
from weightwright.errors import ToleranceError
from weightwright.network import Network
from weightwright.numbers import Floats
from weightwright.runtime import AttentionNetwork

SECONDS = 1.0
NO_ZONES = np.zeros((0, 2))
HOW = (
    "corners and ends, places between the anchors, an even grid, random inputs, then the surroundings of the worst;"
    " the worst of each round against {}"
)
FORMULA, FUNCTION = "the formula in 128 bits", "the values that the function itself computed in float64"


def measure(network: Network, target: str | Opaque, domain: Box, zones: Floats) -> Certificate:
    """A certificate that says what a search outside the dead zones found. The target is a formula, or a function to be
    called."""
    opaque = target if isinstance(target, Opaque) else None
    name = target.name if isinstance(target, Opaque) else target
    how = HOW.format(FORMULA if opaque is None else FUNCTION)
    kernel = "dot" if all(head.window is None for head in network.heads) else "anchor"

    left_out = tuple((float(lo), float(hi)) for lo, hi in zones)

    def said(error: float, inputs: int) -> Certificate:
        claim = MeasuredClaim(error, inputs, how, dead_zones=left_out)
        return measured_certificate(claim, name, domain, network.dtype, kernel, network_digest(network))

    worst = search(AttentionNetwork(network, said(math.inf, 0)), SECONDS, reference=opaque)
    return said(worst.error, worst.inputs)


def find_measured(
    networks: Iterable[Network], target: str | Opaque, domain: Box, tol: float, where: str, zones: Floats = NO_ZONES
) -> tuple[Network, Certificate]:
    """The first network whose largest error in a search is at most tol; ToleranceError if there is none."""
    least = math.inf
    for network in networks:
        certificate = measure(network, target, domain, zones)
        assert certificate.measured is not None
        if certificate.measured.error <= tol:
            return network, certificate
        least = min(least, certificate.measured.error)
    raise ToleranceError(
        f"{where}: no network within tol={tol:g} was found; the smallest error measured is {least:.3g}"
    )
