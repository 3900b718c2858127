"""What is claimed about networks of several layers, tokens or outputs, as data. Nothing is computed here.

The target of such a network is a `Graph` of columns, or what extensions register. A `TableClaim` says which heads
compute which units of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from weightwright.box import Box
from weightwright.claims.graph import AttentionClaim, Fused, ProductClaim, SoftmaxClaim
from weightwright.claims.kinds import MASKED, ComposedClaim, HeadClaim, Target, TargetFormulas
from weightwright.claims.leaf import Leaf
from weightwright.claims.scope import Subject
from weightwright.network.layers import Frozen
from weightwright.numbers import Floats

NO_ZONES = np.zeros((0, 2))
UNREAD, IDENTITY = -1, -2


@dataclass(frozen=True, eq=False)
class TableClaim(Frozen):
    """Heads of one layer that read one coordinate s and add up to profile(s) - mean - slope s, written to another.

    units: for every token the unit that it computes; IDENTITY where the profile is x and the result stands for s
    itself, UNREAD where nobody reads it.
    claim: what the heads compute of their query, as in a network of one layer.
    zones: open intervals of s where nothing is claimed.
    spread: the result, times the weights of one row of W_O that all the heads share, goes to several coordinates.
    """

    layer: int  # number of the layer
    heads: tuple[int, ...]  # their numbers in it
    column: int  # of the heads' values
    units: tuple[int, ...]
    mean: float  # what is left out of the table: it stands in the stream
    slope: float  # of the line that is left out too
    claim: Leaf
    zones: Floats = field(default_factory=lambda: NO_ZONES)  # (number of zones, 2)
    spread: bool = False


@dataclass(frozen=True)
class Composite(ComposedClaim):
    """A network of several layers, tokens or outputs computes this target: the certificate's formula in words.

    parts, gates, products, softmaxes, attentions: which heads compute which of its units. formulas: what the target
    stands for.

    Heads that no claim names have constant scores and mix tokens, or pick one key on the whole domain.
    With a graph a unit is a column on a token: see `graph.units`, `graph.square_units`.
    splits: where ranges of columns are found part by part, the number of equal parts along each input of a token.
    ablatable: the bound also holds where any of the heads that claims name return 0, of the target in which what they
    compute is 0. Each head is then what it is claimed to compute, with nothing beside it.
    """

    subject: ClassVar[Subject] = "output"
    target: Target  # what is computed, as data
    parts: tuple[TableClaim, ...]
    gates: tuple[HeadClaim, ...] = ()
    formulas: TargetFormulas | None = None  # formulas that the target is near to
    fused: tuple[Fused, ...] = ()  # chains of columns that one head computes
    products: tuple[ProductClaim, ...] = ()
    softmaxes: tuple[SoftmaxClaim, ...] = ()
    attentions: tuple[AttentionClaim, ...] = ()
    splits: tuple[int, ...] = ()
    ablatable: bool = False

    @property
    def name(self) -> str:
        """What whoever built it calls the function: free text, which nobody checks."""
        return self.target.title

    @property
    def zones(self) -> tuple[tuple[float, float], ...]:
        """The dead zones of arguments, each once."""
        return tuple(dict.fromkeys((float(lo), float(hi)) for part in self.parts for lo, hi in part.zones))

    @property
    def left_out(self) -> tuple[str, ...]:
        """What the claim says nothing about, in words."""
        said = "nothing is claimed where the argument of a unit lies between"
        return tuple(f"{said} {lo!r} and {hi!r}" for lo, hi in self.zones)

    @property
    def leaves(self) -> Sequence[Leaf]:
        return [part.claim for part in self.parts]

    @property
    def rules(self) -> tuple[str, ...]:
        return ("forms", "gate") if self.gates else ("forms",)

    @property
    def facts(self) -> dict[str, Any]:
        return {name: len(claims) for name, claims in (("parts", self.parts), ("gates", self.gates)) if claims}

    def in_words(self) -> str:
        """What the network computes: the formulas, or what kind of target there is. Of a graph what its columns say."""
        return self.target.in_words() if self.formulas is None else ", ".join(self.formulas.formulas)

    def leans_on(self, native: bool) -> tuple[str, ...]:
        return self.left_out if native else (*self.left_out, MASKED)

    def possible_assumptions(self, domain: Box) -> tuple[str, ...]:
        return self.left_out

    def __repr__(self) -> str:
        return f"Composite({self.in_words()}; parts: {len(self.parts)}, gates: {len(self.gates)})"
