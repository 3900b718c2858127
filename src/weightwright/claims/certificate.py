"""What a certificate says, as data: one claim about one network. Nothing is computed here.

Claims stand on leaves: *for every number s of the dtype in [lo, hi], the heads of this layer, run by this kernel, add
up to F(s) within approximation + leakage + rounding.* A claim composes its leaves to the network and its formula.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Literal

from weightwright.box import Box
from weightwright.claims.kinds import Claim as Claim
from weightwright.claims.leaf import Leaf as Leaf
from weightwright.claims.leaf import Samples as Samples
from weightwright.claims.leaf import Terms as Terms
from weightwright.claims.leaf import VectorLeaf as VectorLeaf
from weightwright.claims.one_layer_claims import OneLayerClaim
from weightwright.claims.prompt import LoopClaim
from weightwright.claims.scope import AS_TOLD, DeadZone, Subject, covered, dead_zones_of_x, total_share
from weightwright.claims.scope import round_up as round_up
from weightwright.claims.scope import status_in_words as status_in_words
from weightwright.claims.target import Composite
from weightwright.claims.texts import quoted, short_digest
from weightwright.errors import FormulaError
from weightwright.expressions import Apply, Expression, Number, Variable, parse, substitute
from weightwright.limits import DEAD_SHARE
from weightwright.numbers import counted

#: What is known of a bound: docs/certificates.md has the table.
Status = Literal["PROVEN", "CONDITIONAL", "MEASURED", "EDITED", "UNCHECKED"]

#: What the features of an input are called in a formula.
VARIABLES = ("x", "y", "z")
#: Keys are at most this large, so that a query that underflows moves a score by no more than this times the loss.
LARGEST_KEY = 2.0**60
#: Anchors of a window stand below this, and its beta is at most 2: whole numbers and exponentials stay small.
LARGEST_ANCHOR, LARGEST_WINDOW_BETA = 2**30, 2.0
#: Data tokens that a plain Transformer may see beside the anchors; enters the leakage.
MAX_TOKENS = 2**20


@dataclass(frozen=True)
class MeasuredClaim(Claim):
    """Nothing is claimed. A search found this error and no larger one: no bound, whatever was searched."""

    error: float  # the largest that was found
    inputs: int  # how many were tried
    how: str  # where they came from, and against what
    reason: str = ""  # why there is no proof
    against: Composite | LoopClaim | None = None  # what was searched against, where it is no formula of one layer
    dead_zones: tuple[tuple[float, float], ...] = ()  # open intervals of x where nothing was searched
    norm: float = math.inf  # p of the L_p norm that the error is in

    @property
    def subject(self) -> Subject:
        return "nothing"

    @property
    def error_norm(self) -> float:
        return self.norm


@dataclass(frozen=True)
class Certificate:
    """What is claimed, and about which network: `bound` is an upper bound of the quantity that `subject` names. That is
    |network(x) - formula(x)| for every x of the dtype in the domain ("output"), unless the network runs an algorithm of
    several passes ("pass": one pass alone), stores labels ("label"), or the bound is one of an L_p norm ("norm").

    claim: one of the kinds of `Claim`; what the proof stands on. The checker has one rule for each kind.
    formula: what the checker found the network to compute, never a name that a file brings along: `name` has that.
    status: PROVEN only where the independent checker agreed in the same call, CONDITIONAL where that leans on something
    that nobody looked at, or where dead zones cover more than a hundredth of a domain; EDITED where the network is not
    the one that this is about; UNCHECKED after loading without checking; MEASURED where nothing is claimed: the claim
    is a `MeasuredClaim`, the bound is infinite.
    why: what it is conditional on, where nothing is claimed, or what was edited, in words. No file holds it.
    zones: the dead zones that the checker found, with the share of the domain that they cover. No file holds them.
    told: whether an error that was measured is only what a file or a pickle says. No file holds this.
    """

    claim: Claim
    formula: str  # what is computed, as the checker reads it: a formula in x, or words
    domain: Box  # where it is claimed
    dtype: str  # what the network runs in, and the bound covers
    kernel: str  # "dot", ordinary attention, or "anchor", windows
    bound: float  # an upper bound of the error that `subject` names: of an output, of one pass, ...
    terms: Terms  # where the bound comes from; they add up to it
    network: str  # digest of the network that this is about
    assumptions: tuple[str, ...]  # what every proof leans on, in words
    status: Status = field(default="UNCHECKED", compare=False)
    why: str = field(default="", compare=False, metadata={"stored": False})
    zones: tuple[DeadZone, ...] = field(default=(), compare=False, metadata={"stored": False})
    told: bool = field(default=False, compare=False, metadata={"stored": False})

    @property
    def subject(self) -> Subject:
        """What the bound is about: "output", "pass", "label", "norm", or "nothing"."""
        return self.claim.subject

    @property
    def name(self) -> str:
        """What whoever built the network calls its function: free text, which nobody checks. "" where the certificate
        has a formula instead.

        >>> import weightwright as ww
        >>> said = ww.compile(lambda x: x * x, (-1, 1), 1e-3, features=1, progress=False).certificate
        >>> said.name, said.formula
        ('<lambda>', 'x**2')
        """
        return getattr(self.against, "name", "")

    @property
    def vouched(self) -> bool:
        """Whether the checker gave this very object its status: what `replace` or a pickle makes of it is another."""
        return "_vouched" in vars(self)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(as_told(self)).items() if name != "_vouched"}

    def __deepcopy__(self, memo: dict[int, Any]) -> Certificate:
        return self  # nothing in it can be changed

    def __repr__(self) -> str:
        return f"Certificate({summary_in_words(self, bound_in_words(self))})"

    @property
    def measured(self) -> MeasuredClaim | None:
        """What a search found, where nothing is claimed."""
        return self.claim if isinstance(self.claim, MeasuredClaim) else None

    @property
    def norm(self) -> float:
        """p of the L_p norm that the bound, or the error that was measured, is in."""
        return math.inf if self.claim is None else self.claim.error_norm

    @property
    def dead_zones(self) -> tuple[tuple[float, float], ...]:
        """Open intervals of x where nothing is claimed."""
        return self.claim.dead_zones if isinstance(self.claim, OneLayerClaim | MeasuredClaim) else ()

    @property
    def against(self) -> Claim | None:
        """The claim, or what a network whose error was measured was searched against."""
        return self.claim.against if isinstance(self.claim, MeasuredClaim) else self.claim

    @property
    def watched(self) -> tuple[str, ...]:
        """Assumptions that a watch looks at while the network runs."""
        return () if self.against is None else self.against.watched

    @property
    def composite(self) -> Composite | None:
        """What is declared of several layers, tokens or outputs, also of one pass of a loop; else None."""
        claim = self.against.composite if isinstance(self.against, LoopClaim) else self.against
        return claim if isinstance(claim, Composite) else None


def agreed(certificate: Certificate, zones: Sequence[DeadZone] = (), dead_share: float = DEAD_SHARE) -> Certificate:
    """The certificate with the status that it has once the checker agreed with all of it.

    zones: where it claims nothing. They are part of the status; above `dead_share` it is conditional on them.
    """
    share, avoided = total_share(zones), tuple(map(str, zones))
    few = share is not None and share <= dead_share * (1 + 2.0**-40)  # which is what roundings may add to a share
    found = replace(certificate, status="PROVEN", why="; ".join(avoided) if few else "", zones=tuple(zones))
    return conditional(_vouched(found), (*(() if few else avoided), *certificate.claim.stated))


def agreed_with(checked: Certificate, certificate: Certificate) -> Certificate:
    """This certificate with the status of the one that the checker read back from its file."""
    same = replace(certificate, status=checked.status, why=checked.why, zones=checked.zones)
    return _vouched(same) if checked.vouched else same


def _vouched(certificate: Certificate) -> Certificate:
    vars(certificate)["_vouched"] = True
    return certificate


def unless_changed(said: Certificate) -> Certificate:
    """The certificate, UNCHECKED if it is not the one that the checker agreed with."""
    if said.vouched or said.status not in ("PROVEN", "CONDITIONAL"):
        return said
    return replace(said, status="UNCHECKED", why="this is not the certificate that the checker returned")


def as_told(certificate: Certificate) -> Certificate:
    """The certificate as a file or a pickle brings it: nobody here has measured the error that it says was found."""
    if certificate.measured is None:
        return certificate
    return replace(certificate, why=AS_TOLD if certificate.status == "MEASURED" else certificate.why, told=True)


def conditional(certificate: Certificate, on: Sequence[str]) -> Certificate:
    """The certificate where these are taken for granted too. A status below PROVEN is none the better for it."""
    if not on or certificate.status not in ("PROVEN", "CONDITIONAL"):
        return certificate
    why = [certificate.why] if certificate.why else []
    found = replace(certificate, status="CONDITIONAL", why="; ".join(dict.fromkeys([*why, *on])))
    return _vouched(found) if certificate.vouched else found


#: Characters of a summary: with the name of the class before it, a line of less than 120.
_LINE = 100


def summary_in_words(certificate: Certificate, bound: str) -> str:
    """What is computed, how well, and how that is known, in one short line. bound: in words."""
    found = certificate.measured
    if certificate.status == "EDITED":
        error = "no bound"
    elif found is not None:
        error = f"{measured_in_words(certificate)} {found.error:.3g}"
    else:
        error = f"bound {bound.partition(', against ')[0]}"
    zones = zones_in_words(certificate)
    why = certificate.why.removeprefix("; ".join(map(str, certificate.zones))).removeprefix("; ")  # zones are shown
    computed, status = computed_in_words(certificate), status_in_words(certificate.status, why)
    middle = f", {error}{zones and ', '}{zones}, "
    room = max(_LINE - len(middle), _LINE // 3)
    computed = _cut(computed, max(room - len(status), room // 2))
    return f"{computed}{middle}{_cut(status, room - len(computed))}"


def measured_in_words(certificate: Certificate) -> str:
    """What the error of a `MeasuredClaim` is: one that was found here, or one that a file speaks of."""
    return "largest error, as the file says," if certificate.told else "largest error found"


def zones_in_words(certificate: Certificate) -> str:
    """Where nothing is claimed, in few words: the first dead zone, how many more there are, and their share of the
    domain; "" where something is claimed everywhere."""
    zones = zones_of(certificate)
    if not zones:
        return ""
    if not certificate.zones and zones[0].of != "x":
        return f"{counted(len(zones), 'dead zone')} of arguments"
    first = zones[0]
    more = f" and {len(zones) - 1} more" if len(zones) > 1 else ""
    place = "" if first.of == "x" else f" of {first.of}"
    return f"dead zone {first.lo:.6g} to {first.hi:.6g}{place}{more}, {covered(zones)}"


def zones_of(certificate: Certificate) -> tuple[DeadZone, ...]:
    """The dead zones that the checker found; of a file that was not checked those that it speaks of."""
    if certificate.zones or not (certificate.dead_zones or certificate.composite):
        return certificate.zones
    if certificate.composite is not None:
        return tuple(DeadZone(lo, hi, "an argument", None) for lo, hi in certificate.composite.zones)
    return dead_zones_of_x(certificate.dead_zones, float(certificate.domain.lo[0]), float(certificate.domain.hi[0]))


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[: room - 3]}..."


def computed_in_words(certificate: Certificate) -> str:
    """What the network computes, as the checker reads it; before it the name that its builder gave it, as a name."""
    claim, composite = certificate.against, certificate.composite
    if isinstance(claim, LoopClaim):
        said = f"one pass of {_named(claim.composite)}"
        said = f"{said}, every token by itself" if claim.own else said
        return said if claim.beginning is None else f"{said}; and {_named(claim.beginning.composite)}"
    if composite is not None and composite.formulas is None:
        return _named(composite)
    if certificate.measured is not None:
        return f"named {quoted(certificate.formula)}"
    if certificate.name:
        return f"named {quoted(certificate.name)}: {certificate.formula}"
    unread = certificate.status == "UNCHECKED" and not is_formula(certificate.formula)
    return f"named {quoted(certificate.formula)}" if unread else certificate.formula


def is_formula(text: str) -> bool:
    """Whether a certificate's formula is one, and not words."""
    try:
        parse(text, VARIABLES)
    except FormulaError:
        return False
    return True


def _named(composite: Composite) -> str:
    words = composite.in_words()
    return f"named {quoted(composite.name)}: {words}" if composite.name else words


def sampled_in_words(samples: Samples) -> str:
    """What a network of a `SampledClaim` computes, as the checker reads it."""
    return f"a function known by {len(samples.x):,} samples, {short_digest(samples)}"


def bound_in_words(certificate: Certificate) -> str:
    """The bound in few digits, and what it bounds."""
    return f"{round_up(certificate.bound)} on {certificate.claim.bounded}"


def bound_in_short(certificate: Certificate) -> str:
    """The same without what the network is compared with; of outputs the bound alone."""
    if certificate.subject == "output":
        return round_up(certificate.bound)
    return bound_in_words(certificate).partition(", against ")[0]


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
