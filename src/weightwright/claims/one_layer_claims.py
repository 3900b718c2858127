"""What is claimed about networks of one layer: of one number, of samples, of several numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from weightwright.box import Box
from weightwright.claims.kinds import Claim
from weightwright.claims.leaf import OPAQUE, Leaf, Samples, VectorLeaf
from weightwright.claims.scope import DeadZone, Subject, dead_zones_of_x


@dataclass(frozen=True)
class OneLayerClaim(Claim):
    """A network of one layer computes the certificate's formula of one number x."""

    subject: ClassVar[Subject] = "output"
    leaf: Leaf  # what the heads compute of their query
    dead_zones: tuple[tuple[float, float], ...] = ()  # open intervals of x where nothing is claimed

    def zones_on(self, domain: Box) -> tuple[DeadZone, ...]:
        """The dead zones, with the share of the domain that they cover."""
        return dead_zones_of_x(self.dead_zones, float(domain.lo[0]), float(domain.hi[0]))

    @property
    def leaves(self) -> Sequence[Leaf]:
        return [self.leaf]

    def possible_assumptions(self, domain: Box) -> tuple[str, ...]:
        """What the claim takes for granted about x, in words."""
        return tuple(map(str, self.zones_on(domain)))


@dataclass(frozen=True)
class SampledClaim(Claim):
    """A network of one layer computes a function of one number that is known by samples.

    The leaf's formula is only its name.
    """

    subject: ClassVar[Subject] = "output"
    leaf: Leaf  # what the heads compute of their query
    samples: Samples  # what is known of the function

    @property
    def name(self) -> str:
        """What whoever built it calls the function: free text, which nobody checks."""
        return self.leaf.formula.removeprefix(OPAQUE)

    @property
    def leaves(self) -> Sequence[Leaf]:
        return [self.leaf]

    @property
    def stated(self) -> tuple[str, ...]:
        return self.samples.assumptions()


@dataclass(frozen=True)
class VectorLayerClaim(Claim):
    """A network of one layer computes the certificate's formula of two or three numbers x, y, z."""

    subject: ClassVar[Subject] = "output"
    leaf: VectorLeaf  # what the head computes of its query

    @property
    def leaves(self) -> Sequence[VectorLeaf]:
        return [self.leaf]
