"""What is claimed about networks of several layers, tokens or outputs, as data. Nothing is computed here.

The target of such a network is one of `RidgeFunctions`: units, each a function of one number that is affine in the
inputs and in earlier units, and outputs that are affine in both. A `TableClaim` says which heads compute which units.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from weightwright.claims.graph import AttentionClaim, Fused, Graph, ProductClaim, SoftmaxClaim
from weightwright.claims.graph_text import followed, short_digest
from weightwright.claims.leaf import Leaf
from weightwright.claims.scope import Subject
from weightwright.network.layers import Frozen
from weightwright.numbers import Floats, counted

NO_ZONES = np.zeros((0, 2))
UNREAD, IDENTITY = -1, -2
#: What a certificate leans on where a head neither sees a key nor hides it by its score.
MASKED = "keys that a head does not see are not computed, as in this module; a plain Transformer would need a mask"
NO_WAVES, NO_POLYNOMIALS = np.zeros((0, 0)), np.zeros((0, 0, 0))


@dataclass(frozen=True, eq=False)
class RidgeFunctions(Frozen):
    """u_k = profiles_k(arguments_k . (x, u) + shifts_k) in order, then output = outputs (x, u) + constants.

    x: the N inputs, token by token. A unit's argument takes earlier units only. Every stored number is meant exactly.
    """

    profiles: tuple[str, ...]  # K formulas in x, each continuous
    arguments: Floats  # (K, N + K)
    shifts: Floats  # (K,)
    outputs: Floats  # (number of outputs, N + K), token by token
    constants: Floats  # (number of outputs,)


@dataclass(frozen=True, eq=False)
class TokenModels(Frozen):
    """The same target for every token: output (i, r) is unit i * rows + r, profiles_r(weights_i . x_i + shifts_i)."""

    profiles: tuple[str, ...]  # one for each row
    weights: Floats  # (n, d)
    shifts: Floats  # (n,)


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
class GateClaim:
    """A head that sees every token and one register of value 0, and computes relu(s) of a coordinate s that all tokens
    hold alike: unit `unit`."""

    layer: int  # number of the layer
    head: int  # its number in it
    unit: int  # the unit that it computes


@dataclass(frozen=True, eq=False)
class FormulasClaim(Frozen):
    """The ridge's outputs are within `error` of these formulas of x0, x1, ..., one for each output.

    All units are relu(x) of affine functions of x.
    rule "exact": the formulas are piecewise linear with the same kinks; error is 0, or what coefficients that are no
    floats lose.
    rule "taylor": every unit runs along a wave, t_w = waves_w . (x, 1): its argument has the wave's factors. The units
    along w add up to nearly the polynomial sum_j polynomials[m, w, j] t_w^j for output m; these polynomials and the
    part of the output that is affine in x add up to nearly the formula, on each of the boxes.
    """

    formulas: tuple[str, ...]  # in x0, x1, ..., one for each output
    rule: Literal["exact", "taylor"]  # how the error is shown
    boxes: Floats  # (number of boxes, 2, N): together they cover the domain; none for "exact"
    error: float  # at most, of every output
    waves: Floats = field(default_factory=lambda: NO_WAVES)  # (number of waves, N + 1)
    polynomials: Floats = field(default_factory=lambda: NO_POLYNOMIALS)  # (outputs, number of waves, degree + 1)


@dataclass(frozen=True)
class Composite:
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
    target: RidgeFunctions | TokenModels | Graph  # what is computed, as data
    parts: tuple[TableClaim, ...]
    gates: tuple[GateClaim, ...] = ()
    formulas: FormulasClaim | None = None  # formulas that the target is near to
    fused: tuple[Fused, ...] = ()  # chains of columns that one head computes
    products: tuple[ProductClaim, ...] = ()
    softmaxes: tuple[SoftmaxClaim, ...] = ()
    attentions: tuple[AttentionClaim, ...] = ()
    splits: tuple[int, ...] = ()
    ablatable: bool = False

    @property
    def name(self) -> str:
        """What whoever built it calls the function: free text, which nobody checks."""
        return self.target.name if isinstance(self.target, Graph) else ""

    @property
    def zones(self) -> tuple[tuple[float, float], ...]:
        """The dead zones of arguments, each once."""
        return tuple(dict.fromkeys((float(lo), float(hi)) for part in self.parts for lo, hi in part.zones))

    def assumptions(self) -> tuple[str, ...]:
        """What is left out, in words."""
        said = "nothing is claimed where the argument of a unit lies between"
        return tuple(f"{said} {lo!r} and {hi!r}" for lo, hi in self.zones)

    def __repr__(self) -> str:
        return f"Composite({composite_in_words(self)}; parts: {len(self.parts)}, gates: {len(self.gates)})"


def composite_in_words(composite: Composite) -> str:
    """What the network computes: the formulas, or what kind of target there is. Of a graph what its columns say."""
    if composite.formulas is not None:
        return ", ".join(composite.formulas.formulas)
    target = composite.target
    if isinstance(target, Graph):
        return followed(target)
    if isinstance(target, TokenModels):
        said = f"{', '.join(target.profiles)} of w_i . x_i + t_i for each of {len(target.weights)} tokens"
        return f"{said}, {short_digest(target)}"
    kinds = ", ".join(f"{count} of {profile}" for profile, count in Counter(target.profiles).items())
    units = f"{counted(len(target.profiles), 'unit')} ({kinds})" if kinds else "no unit"
    return f"{counted(len(target.constants), 'output')} affine in the inputs and {units}, {short_digest(target)}"
