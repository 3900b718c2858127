"""What is claimed about networks that stand side by side in one layer, as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from weightwright.box import Box
from weightwright.claims.certificate import Certificate
from weightwright.claims.kinds import Claim
from weightwright.claims.leaf import Leaf, VectorLeaf
from weightwright.claims.scope import Subject


@dataclass(frozen=True)
class SideNetwork:
    """One of several networks that stand side by side in one layer: its size there, and a certificate of its own.

    It takes all numbers of a sequence as features of one token. Its certificate is about the network that is left when
    the coordinates, registers and heads of the others are taken away.
    """

    certificate: Certificate  # its own, about the network that is left without the others
    width: int  # coordinates
    registers: int  # how many are its own
    heads: int  # how many are its own


@dataclass(frozen=True)
class SideBySideClaim(Claim):
    """A network of one layer is several side by side, one for each output, each as its own certificate says."""

    subject: ClassVar[Subject] = "output"
    parts: tuple[SideNetwork, ...]  # the networks, in the order of the outputs

    unsearched = "search takes one target, and this network is several side by side"

    @property
    def claims(self) -> list[Claim]:
        """What each network claims."""
        return [part.certificate.claim for part in self.parts]

    @property
    def leaves(self) -> Sequence[Leaf | VectorLeaf]:
        return [leaf for claim in self.claims for leaf in claim.leaves]

    @property
    def stated(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(line for claim in self.claims for line in claim.stated))

    @property
    def facts(self) -> dict[str, Any]:
        return {"networks_side_by_side": len(self.parts)}

    def possible_assumptions(self, domain: Box) -> tuple[str, ...]:
        parts = [part.certificate for part in self.parts]
        return tuple(line for part in parts for line in part.claim.possible_assumptions(part.domain))
