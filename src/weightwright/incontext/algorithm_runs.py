"""What a run of a rule as a network was: every state, beside the plain rule's."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weightwright.network.layers import Floats
from weightwright.runtime import AttentionNetwork


@dataclass(frozen=True, eq=False)
class AlgorithmRun:
    """states, plain: (steps + 1, s), the network's and those of the rule in float64, from the same first state.
    stepped: (steps, s), what the plain rule makes of each of the network's own states."""

    name: str
    states: Floats
    plain: Floats
    stepped: Floats
    net: AttentionNetwork

    def __repr__(self) -> str:
        far = f"{self.deviation[-1]:.3g} from plain PyTorch"
        return f"AlgorithmRun({self.name}, {len(self.states) - 1} steps, {far}; one pass: {self.net.certificate})"

    @property
    def state(self) -> Floats:
        """The last state."""
        return self.states[-1]

    @property
    def bound(self) -> float:
        """What one pass is proven to be off by at most, from any state in the box: not what all passes add up to.
        Infinite where proof="measured": then nothing is proven, and `net.certificate.measured` says what was seen."""
        assert self.net.certificate is not None
        return self.net.certificate.bound

    @property
    def errors(self) -> Floats:
        """(steps,): each pass against the plain rule from the same state, the largest of any number. At most `bound`
        (with proof="measured", at most tol), but for what the plain rule itself rounds in float64."""
        return np.abs(self.states[1:] - self.stepped).max(axis=1)

    @property
    def deviation(self) -> Floats:
        """(steps + 1,): how far the states are from the plain rule's own, the largest of any number. Measured."""
        return np.abs(self.states - self.plain).max(axis=1)
