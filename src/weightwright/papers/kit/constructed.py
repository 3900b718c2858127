"""What a construction says of itself beside its network and its certificate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from weightwright.numbers import Floats

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
