"""What kinds of claim and of target there can be: each says about itself what a certificate, a report and a watch ask.

Extensions register kinds of their own under "claims"; a file may hold those and no others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from weightwright.box import Box
from weightwright.claims.leaf import Leaf, VectorLeaf
from weightwright.claims.scope import Subject
from weightwright.network.layers import Frozen

#: What a certificate leans on where a head neither sees a key nor hides it by its score.
MASKED = "keys that a head does not see are not computed, as in this module; a plain Transformer would need a mask"
#: What the bound of a claim about outputs is about.
OUTPUT_ERROR = "|network - formula|"


class Claim:
    """A kind of claim: a dataclass with a rule in the checker. It says what its bound is about; all else that it says
    is empty unless it says otherwise."""

    any_kind: ClassVar[bool] = True  # a field of this type holds any kind
    #: Why `search` cannot look for the worst input, and what to do instead; "" where it can.
    unsearched: ClassVar[str] = ""

    @property
    def subject(self) -> Subject:
        """What the bound is about."""
        raise NotImplementedError

    @property
    def bounded(self) -> str:
        """The quantity that the bound is about, in words."""
        return OUTPUT_ERROR

    @property
    def error_norm(self) -> float:
        """p of the L_p norm that the bound is in; infinity where it holds at every input."""
        return math.inf

    @property
    def leaves(self) -> Sequence[Leaf | VectorLeaf]:
        """What is claimed about heads, of all layers and parts."""
        return ()

    @property
    def rules(self) -> tuple[str, ...]:
        """Rules that the proof stands on besides those of its leaves, as a report names them."""
        return ()

    @property
    def watched(self) -> tuple[str, ...]:
        """Assumptions that a watch looks at while the network runs."""
        return ()

    @property
    def stated(self) -> tuple[str, ...]:
        """What the claim leans on that only the caller can know, in words."""
        return ()

    def possible_assumptions(self, domain: Box) -> tuple[str, ...]:
        """Every assumption that a certificate with this claim may hold, besides those about arithmetic."""
        return (*self.watched, *self.stated)

    @property
    def facts(self) -> dict[str, Any]:
        """What a report shows of the claim's own numbers."""
        return {}


class ComposedClaim(Claim):
    """A claim whose bound is composed of its leaves' once the network is there: `certify`."""

    def in_words(self) -> str:
        """What the network computes, in one line."""
        raise NotImplementedError

    def leans_on(self, native: bool) -> tuple[str, ...]:
        """What the proof leans on, in words. native: whether a plain Transformer runs the network as it is."""
        return self.watched


class Target(Frozen):
    """What a network of several layers, tokens or outputs computes, as data: units, and outputs made of them."""

    any_kind: ClassVar[bool] = True

    @property
    def title(self) -> str:
        """What whoever built it calls the function; "" where a target has no name."""
        return ""

    def in_words(self) -> str:
        """What the target is, in one line."""
        raise NotImplementedError

    def profile(self, unit: int) -> str:
        """The function of one number that a unit computes; of a unit of a graph the parts of a certificate say it."""
        raise NotImplementedError


class HeadClaim:
    """A claim that one head, without a table, computes one unit of a target: a dataclass."""

    any_kind: ClassVar[bool] = True
    layer: int  # number of the layer
    head: int  # its number in it
    unit: int  # the unit that it computes


class TargetFormulas(Frozen):
    """A claim that a target's outputs are within `error` of formulas."""

    any_kind: ClassVar[bool] = True
    formulas: tuple[str, ...]  # in x0, x1, ..., one for each output
    error: float  # at most, of every output
