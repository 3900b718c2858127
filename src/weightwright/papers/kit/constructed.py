"""What a construction says of itself beside its network and its certificate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from weightwright.errors import ToleranceError
from weightwright.numbers import Floats
from weightwright.runtime import AttentionNetwork

Method = Literal["faithful", "spectral"]


@dataclass(frozen=True)
class About:
    """Hangs on the network that a construction returns, as `net.about`.

    chosen: the parameters as built (p, H, g, delta, beta, ...); printed: the same by the paper's own formulas, for the
    same request. bounds: every proven bound by its name ("inside", "everywhere", "L1", ...). reference: the target in
    plain float64, (count, n, d) -> (count, n, outputs). probes(rng, count): inputs where the worst is likely (ends,
    seams, ties, out of range) and random ones, (about count, n, d). target_norm: where a bound is in L_p, an estimate
    of the target's own norm: a bound that is not below it says nothing.
    """

    id: str
    method: Method
    chosen: Mapping[str, float]
    printed: Mapping[str, float]
    bounds: Mapping[str, float]
    reference: Callable[[Floats], Floats]
    probes: Callable[[np.random.Generator, int], Floats]
    notes: tuple[str, ...] = field(default=())
    target_norm: float | None = None


def described(
    net: AttentionNetwork,
    id: str,
    method: Method,
    chosen: Mapping[str, float],
    printed: Mapping[str, float],
    reference: Callable[[Floats], Floats],
    probes: Callable[[np.random.Generator, int], Floats],
    bounds: Mapping[str, float] | None = None,
) -> AttentionNetwork:
    """The network with what its construction says of it. bounds: None for the certificate's everywhere."""
    if bounds is None:
        bounds = {} if net.certificate is None else {"everywhere": net.certificate.bound}
    net.about = About(id, method, chosen, printed, bounds, reference, probes)
    return net


def proven_bound(net: AttentionNetwork) -> float:
    """The bound of a network that was just certified."""
    assert net.certificate is not None
    return net.certificate.bound


def within(net: AttentionNetwork, tol: float | None) -> AttentionNetwork:
    """The network, or ToleranceError where its bound is above the tolerance."""
    bound = proven_bound(net)
    if tol is not None and bound > tol:
        raise ToleranceError(f"tol={tol:g} cannot be proven: {bound:.3g} is the best", tol)
    return net
