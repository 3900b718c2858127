"""A run of a rule as a network: every state, beside the plain rule's."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weightwright.claims.certificate import round_up
from weightwright.numbers import Floats, counted
from weightwright.runtime import AttentionNetwork


@dataclass(frozen=True, eq=False)
class AlgorithmRun:
    """How a rule ran as a network, beside the rule as it was written."""

    name: str  # of the rule
    states: Floats  # (steps + 1, s), the network's
    plain: Floats  # (steps + 1, s), the rule's in float64, from the same first state
    stepped: Floats  # (steps, s), what the plain rule makes of each of the network's own states
    net: AttentionNetwork  # the network that ran

    def __repr__(self) -> str:
        far = f"{self.deviation[-1]:.3g} from plain PyTorch"
        said = self.net.certificate
        one = "" if said is None else f"; one pass: bound {round_up(said.bound)}, {said.status}"
        return f"AlgorithmRun({self.name[:30]}, {counted(len(self.states) - 1, 'step')}, {far}{one})"

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
        """(steps,): each pass against the plain rule from the same state, the largest of any number. At most
        `bound` (with proof="measured", at most tol), but for what the plain rule itself rounds in float64."""
        return np.abs(self.states[1:] - self.stepped).max(axis=1)

    @property
    def deviation(self) -> Floats:
        """(steps + 1,): how far the states are from the plain rule's own, the largest of any number. Measured."""
        return np.abs(self.states - self.plain).max(axis=1)
