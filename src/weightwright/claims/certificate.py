"""What a certificate says, as data: one claim about one network. Nothing is computed here.

Claims stand on leaves: *for every number s of the dtype in [lo, hi], the heads of this layer, run by this kernel, add
up to F(s) within approximation + leakage + rounding.* A claim composes its leaves to the network and its formula.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Literal

from weightwright.box import Box
from weightwright.claims.cell_grid import GridClaim
from weightwright.claims.leaf import Leaf as Leaf
from weightwright.claims.leaf import OneLayerClaim, SampledClaim, VectorLayerClaim
from weightwright.claims.leaf import Samples as Samples
from weightwright.claims.leaf import Terms as Terms
from weightwright.claims.leaf import VectorLeaf as VectorLeaf
from weightwright.claims.prompt import LoopClaim, PromptClaim
from weightwright.claims.target import Composite
from weightwright.expressions import Apply, Expression, Number, Variable, substitute

#: How the name of a function that is no formula begins.
OPAQUE = "opaque "

Status = Literal["PROVEN", "MEASURED", "UNCHECKED"]

#: What the features of an input are called in a formula.
VARIABLES = ("x", "y", "z")
#: Keys are at most this large, so that a query that underflows moves a score by no more than this times the loss.
LARGEST_KEY = 2.0**60
#: Anchors of a window stand below this, and its beta is at most 2: whole numbers and exponentials stay small.
LARGEST_ANCHOR, LARGEST_WINDOW_BETA = 2**30, 2.0
#: Data tokens that a plain Transformer may see beside the anchors; enters the leakage.
MAX_TOKENS = 2**20


@dataclass(frozen=True)
class MeasuredClaim:
    """Nothing is claimed. A search found this error and no larger one: no bound, whatever was searched."""

    error: float
    inputs: int  # how many were tried
    how: str  # where they came from, and against what
    reason: str = ""  # why there is no proof
    against: Composite | LoopClaim | None = None  # what was searched against, where it is no formula of one layer
    dead_zones: tuple[tuple[float, float], ...] = ()  # open intervals of x where nothing was searched
    norm: float = math.inf  # p of the L_p norm that the error is in


@dataclass(frozen=True)
class SideNetwork:
    """One of several networks that stand side by side in one layer: its size there, and a certificate of its own.

    It takes all numbers of a sequence as features of one token. Its certificate is about the network that is left when
    the coordinates, registers and heads of the others are taken away.
    """

    certificate: Certificate
    width: int  # coordinates
    registers: int
    heads: int


@dataclass(frozen=True)
class SideBySideClaim:
    """A network of one layer is several side by side, one for each output, each as its own certificate says."""

    parts: tuple[SideNetwork, ...]


@dataclass(frozen=True)
class Certificate:
    """What is claimed, and about which network: `bound` is an upper bound on |network(x) - formula(x)| for every x of
    the dtype in the domain, unless the claim says what else it bounds (`GridClaim`, `PromptClaim`, `LoopClaim`).

    claim: one of the kinds of `Claim`; what the proof stands on. The checker has one rule for each kind.
    status: PROVEN only where the independent checker agreed in the same call; UNCHECKED after loading without
    checking; MEASURED where nothing is claimed: the claim is a `MeasuredClaim`, the bound is infinite.
    """

    claim: Claim
    formula: str  # what is computed: a formula in x, or words
    domain: Box
    dtype: str
    kernel: str
    bound: float
    terms: Terms
    network: str  # digest of the network that this is about
    assumptions: tuple[str, ...]
    status: Status = field(default="UNCHECKED", compare=False)

    def __repr__(self) -> str:
        if self.measured is not None:
            return f"Certificate({self.status}, {self.formula}, largest error found {self.measured.error:.3g})"
        return f"Certificate({self.status}, {self.formula}, bound {bound_in_words(self)})"

    @property
    def measured(self) -> MeasuredClaim | None:
        """What a search found, where nothing is claimed."""
        return self.claim if isinstance(self.claim, MeasuredClaim) else None

    @property
    def norm(self) -> float:
        """p of the L_p norm that the bound, or the error that was measured, is in."""
        return self.claim.norm if isinstance(self.claim, GridClaim | MeasuredClaim) else math.inf

    @property
    def dead_zones(self) -> tuple[tuple[float, float], ...]:
        """Open intervals of x where nothing is claimed."""
        return self.claim.dead_zones if isinstance(self.claim, OneLayerClaim | MeasuredClaim) else ()

    @property
    def against(self) -> Claim | None:
        """The claim, or what a network whose error was measured was searched against."""
        return self.claim.against if isinstance(self.claim, MeasuredClaim) else self.claim

    @property
    def composite(self) -> Composite | None:
        """What is declared of several layers, tokens or outputs, also of one pass of a loop; else None."""
        claim = self.against.composite if isinstance(self.against, LoopClaim) else self.against
        return claim if isinstance(claim, Composite) else None


#: The kinds of claim. The checker has a rule for each but the last, which claims nothing.
Claim = (
    OneLayerClaim
    | SampledClaim
    | VectorLayerClaim
    | Composite
    | LoopClaim
    | GridClaim
    | PromptClaim
    | SideBySideClaim
    | MeasuredClaim
)


def bound_in_words(certificate: Certificate) -> str:
    """The bound in few digits, and what it bounds.

    A bound in an L_p norm says nothing about a single input.
    """
    claim = certificate.claim
    if isinstance(claim, PromptClaim) and claim.passes:
        return f"{round_up(certificate.bound)} on every state after one pass, against the exact pass"
    if isinstance(claim, LoopClaim):
        return f"{round_up(certificate.bound)} on every state after one pass, against the rule in exact arithmetic"
    what = "|network - formula|" if certificate.norm == math.inf else f"the L_{certificate.norm:g} norm of the error"
    return f"{round_up(certificate.bound)} on {what}"


def measured_certificate(
    claim: MeasuredClaim, formula: str, domain: Box, dtype: str, kernel: str, network: str
) -> Certificate:
    """A certificate that claims nothing and says what was measured."""
    nothing = Terms(math.inf, math.inf, math.inf)
    return Certificate(claim, formula, domain, dtype, kernel, math.inf, nothing, network, (), "MEASURED")


def local_formula(formula: Expression, centre: float, scale: float, mean: float | Fraction) -> Expression:
    """What a head must compute of its query s = (x - centre) * scale: formula(centre + s / scale) - mean."""
    x: Expression = Variable("s")
    if scale != 1:
        x = Apply("mul", (x, constant(1 / Fraction(scale))))
    if centre:
        x = Apply("add", (constant(Fraction(centre)), x))
    local = substitute(formula, "x", x)
    return Apply("sub", (local, constant(Fraction(mean)))) if mean else local


def vector_formula(
    formula: Expression, centres: Sequence[float], scales: Sequence[float], mean: float | Fraction
) -> Expression:
    """The same for several variables: x, y, z become centre + s0 / scale, and so on."""
    local = formula
    for index, (name, centre, scale) in enumerate(zip(VARIABLES, centres, scales, strict=False)):
        axis: Expression = Variable(f"s{index}")
        if scale != 1:
            axis = Apply("mul", (axis, constant(1 / Fraction(scale))))
        if centre:
            axis = Apply("add", (constant(Fraction(centre)), axis))
        local = substitute(local, name, axis)
    return Apply("sub", (local, constant(Fraction(mean)))) if mean else local


def constant(value: Fraction) -> Expression:
    """A number as the parser would read it: the sign is an operation."""
    return Apply("neg", (Number(-value),)) if value < 0 else Number(value)


def round_up(bound: float, digits: int = 3) -> str:
    """A bound in few digits that is still a bound.

    >>> round_up(1.132231889107435e-09)
    '1.14e-09'
    """
    context = Context(prec=digits, rounding=ROUND_CEILING)
    short = context.create_decimal(Decimal(bound)).normalize()
    if not short.is_finite() or -5 < short.adjusted() < digits:
        return f"{short:f}"
    mantissa, _, exponent = f"{short:e}".partition("e")
    return f"{mantissa}e{int(exponent):+03d}"  # as floats are written
