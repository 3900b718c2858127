"""What is claimed about networks that run an algorithm on the examples in their prompt, as data.

`PromptClaim`: an algorithm of `incontext`. A prompt has n tokens, one for each sample. A token holds x, u (x itself
unless own values are given), perhaps values r of a penalty, y, the states w and perhaps p, and perhaps thresholds tau.
A *pass* turns the states into new ones; a *read-out* turns the state of some tokens into predictions:
docs/certificates.md, "In context". `LoopClaim`: any compiled rule, again and again. Nothing is
computed here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from weightwright.box import Box
from weightwright.claims.kinds import MASKED, OUTPUT_ERROR, ComposedClaim
from weightwright.claims.leaf import Leaf, VectorLeaf
from weightwright.claims.scope import Subject
from weightwright.claims.target import Composite
from weightwright.network.layers import Frozen
from weightwright.numbers import Floats

#: What a bound on one pass takes for granted about the prompt and the passes before.
ARGUMENTS = "the argument of every function lies between lo and hi of its claim, for every sample and at every pass"
STATES = "the states of every token lie in the domain at every pass"
ENTERING = "what a loop begins with, and the states of every token at every pass, lie in the domain of one pass"
#: What a bound on the read-out takes for granted beside these.
READ_OUT = "the states and arguments that the read-out begins with lie there, too"


@dataclass(frozen=True)
class Beginning:
    """What stands before a loop: layers that compute every token's features and first state from the prompt, all of
    them outputs of `composite`, within the certificate's bound."""

    composite: Composite  # the prompt to features, then first states
    domain: Box  # of features, then states: what one pass is proven for


@dataclass(frozen=True)
class LoopClaim(ComposedClaim):
    """One pass of the network's loop is within the bound of the rule, `composite`, whose target is a graph of columns.

    A token holds `features` numbers of an example, then the `states` numbers of the state. A pass turns the state into
    the graph's outputs; the features stay as they are. Either every token holds a copy of one state, the first
    token's; or every token has its `own`. Without a beginning the network's inputs are what the first pass begins with.
    What is returned in the end are the last states, all of them or some.
    """

    features: int  # numbers of an example
    states: int  # numbers of the state
    composite: Composite  # the rule, and which heads compute what of it
    own: bool = False  # whether every token goes on with its own new state, and not with the first one's
    beginning: Beginning | None = None  # the layers before the loop

    @property
    def name(self) -> str:
        """What whoever built it calls the rule: free text, which nobody checks."""
        return self.composite.name

    @property
    def subject(self) -> Subject:
        return "pass"

    @property
    def bounded(self) -> str:
        begins = "" if self.beginning is None else ", and what the first begins with"
        return f"every state after one pass{begins}, against the rule in exact arithmetic"

    @property
    def rules(self) -> tuple[str, ...]:
        return (*self.composite.rules, "loop")

    @property
    def facts(self) -> dict[str, Any]:
        return self.composite.facts

    @property
    def leaves(self) -> Sequence[Leaf]:
        return [*self.composite.leaves, *(() if self.beginning is None else self.beginning.composite.leaves)]

    @property
    def watched(self) -> tuple[str, ...]:
        """What the bound takes for granted of the passes before."""
        return (STATES,) if self.beginning is None else (ENTERING,)

    def in_words(self) -> str:
        said = f"one pass of {self.composite.in_words()}"
        said = f"{said}, every token by itself" if self.own else said
        return said if self.beginning is None else f"{said}; and {self.beginning.composite.in_words()}"

    def leans_on(self, native: bool) -> tuple[str, ...]:
        begins = () if self.beginning is None else (*self.beginning.composite.left_out, MASKED)
        return (*self.composite.left_out, *self.watched, *begins)

    def possible_assumptions(self, domain: Box) -> tuple[str, ...]:
        begins = () if self.beginning is None else self.beginning.composite.left_out
        return (*self.composite.left_out, *self.watched, *begins)


#: Largest number of features whose alpha is told one by one.
_TOLD = 8


@dataclass(frozen=True, eq=False)
class Pass(Frozen):
    """z = alpha w - sum of f u over all samples, then the middle makes q, then (w, p) = method (z, q, p, w).

    alpha: one number, or one for each feature: z_r = alpha_r w_r - ... A float becomes an array.
    middle: "none": q = 0. "threshold": q is z shrunk by tau, 0 where |z| <= tau. "clock": q = sigmoid(clock) (z - p),
    and the clock, which all tokens hold, moves on by tick. Every stored number is meant exactly.
    """

    alpha: Floats  # () or (features,)
    method: Floats  # (number of states, 4)
    middle: Literal["none", "threshold", "clock"] = "none"
    tick: float = 0.0  # what the clock moves on by

    def __post_init__(self) -> None:
        alpha: object = self.alpha
        if isinstance(alpha, float):
            object.__setattr__(self, "alpha", np.array(alpha))
        if isinstance(self.alpha, np.ndarray) and self.alpha.dtype != np.float64:  # others might be rounded
            raise ValueError(f"alpha is an array of {self.alpha.dtype}; give float64")
        super().__post_init__()


@dataclass(frozen=True, eq=False)
class Summand(Frozen):
    """A summand of f: `tables` tables in a row add up to formula(along . (w.x, y)), or to formula(w.x, y).

    The claim is about the query scale * along . (w.x, y), or scale * (w.x, y); its terms are for |u| = 1, and its
    rounding is that of the tables in this network.
    factor: what the formula's value is multiplied with: u, the values r of a penalty, or, in a read-out, the number 1.
    """

    formula: str  # in x; without `along` in x = w.x and y
    along: tuple[float, float] | None  # entries -1, 0 or 1
    scale: float  # a power of two
    tables: int  # how many, in a row
    claim: Leaf | VectorLeaf  # what they compute of their query
    factor: Literal["u", "r", "one"] = "u"


@dataclass(frozen=True)
class PromptClaim(ComposedClaim):
    """Every pass is within the bound of the exact one; without passes the answer f u of every token is.

    passes: as they stand in the layers, those of a loop once.
    clock: what it starts with.
    read_out: what the network returns of each of its last `queries` tokens: formula(w.x), where w is the state `answer`
    after the last pass. That, too, is within the bound. None: the state itself is returned.
    """

    features: int  # numbers of an example
    own_values: bool  # whether u is given beside x
    answer: Literal["gradients", "w", "p"]  # what is returned: gradients, or a state
    summands: tuple[Summand, ...]  # of the loss's slope
    passes: tuple[Pass, ...] = ()
    clock: float = 0.0
    read_out: Summand | None = None
    queries: int = 0  # tokens whose predictions are returned

    rules = ("prompt",)
    unsearched = (
        "search looks for one input, and this network's bound is about one pass of an algorithm on its prompt; a"
        " run of `weightwright.incontext` compares every state with the exact algorithm"
    )

    @property
    def subject(self) -> Subject:
        """With passes the bound is about one pass, and about the read-out of the states after the last."""
        return "pass" if self.passes else "output"

    @property
    def states(self) -> int:
        return len(self.passes[0].method) if self.passes else 1

    @property
    def has_penalty(self) -> bool:
        """Whether tokens hold values r beside u."""
        return any(summand.factor == "r" for summand in self.summands)

    def has(self, middle: str) -> bool:
        return any(step.middle == middle for step in self.passes)

    @property
    def bounded(self) -> str:
        if not self.passes:
            return OUTPUT_ERROR
        if self.read_out is None:
            return "every state after one pass, against the exact pass"
        return "every state after one pass, and every prediction from the last state, against exact ones"

    @property
    def leaves(self) -> Sequence[Leaf | VectorLeaf]:
        read_out = () if self.read_out is None else (self.read_out,)
        return [summand.claim for summand in (*self.summands, *read_out)]

    @property
    def watched(self) -> tuple[str, ...]:
        return (ARGUMENTS, STATES) if self.read_out is None else (ARGUMENTS, STATES, READ_OUT)

    @property
    def facts(self) -> dict[str, Any]:
        found: dict[str, Any] = {"arguments_of_f": [_range_in_words(summand) for summand in self.summands]}
        if self.read_out is not None:
            found |= {"queries": self.queries, "argument_of_the_read_out": _range_in_words(self.read_out)}
        return found

    def in_words(self) -> str:
        value = "u_i" if self.own_values else "x_i"
        f, penalty = (_summands(self, factor) for factor in ("u", "r"))
        if not self.passes:
            return f"f {value} for every sample i, f = {f}"
        product, defined = (f"f {value}", f"f = {f}")
        if penalty:
            product, defined = (f"(f {value} + h r_i)", f"f = {f}, h = {penalty}")
        kinds = "; ".join(dict.fromkeys(_step(step) for step in self.passes))
        passes = f"one pass with z = alpha w - sum of {product} over all samples i, {defined}: {kinds}"
        if self.read_out is None:
            return passes
        read = f"({self.read_out.formula}){_where(self.read_out, self.answer)}"
        return f"{passes}; then {read} of each of the last {self.queries} samples i"

    def leans_on(self, native: bool) -> tuple[str, ...]:
        return (*self.watched, MASKED)

    def possible_assumptions(self, domain: Box) -> tuple[str, ...]:
        return ARGUMENTS, STATES, READ_OUT


def _range_in_words(summand: Summand) -> str:
    """Where the argument of a summand may lie."""
    lo, hi = (np.atleast_1d(end) / summand.scale for end in (summand.claim.lo, summand.claim.hi))
    names = ["w.x", "y"] if summand.along is None else [argument_in_words(summand.along)]
    ends = [[repr(end).removesuffix(".0") for end in pair] for pair in zip(lo.tolist(), hi.tolist(), strict=True)]
    return ", ".join(f"{name} in [{a}, {b}]" for name, (a, b) in zip(names, ends, strict=True))


def _summands(claim: PromptClaim, factor: str) -> str:
    """Those that are multiplied with this."""
    return " + ".join(f"({one.formula}){_where(one)}" for one in claim.summands if one.factor == factor)


def _where(summand: Summand, state: str = "w") -> str:
    if summand.along is None:
        return f" at x = {state}.x_i, y = y_i"
    return f" at x = {argument_in_words(summand.along, f'{state}.x_i', 'y_i')}"


def argument_in_words(along: tuple[float, float], x: str = "w.x", y: str = "y") -> str:
    """The combination of w.x and y that a function takes, entries -1, 0 or 1.

    >>> argument_in_words((1.0, -1.0)), argument_in_words((0.0, 1.0))
    ('w.x - y', 'y')
    """
    terms = [f"{'-' if factor < 0 else '+'} {name}" for factor, name in zip(along, (x, y), strict=True) if factor]
    return " ".join(terms).removeprefix("+ ")


def _step(step: Pass) -> str:
    rows = " and ".join(
        f"{state} = {' + '.join(f'{c!r} {name}' for c, name in zip(row, 'zqpw', strict=True) if c) or '0'}"
        for state, row in zip("wp", step.method.tolist(), strict=False)
    )
    q = {"none": "", "threshold": ", q = z shrunk by tau", "clock": ", q = sigmoid(clock) (z - p)"}[step.middle]
    return f"{_alpha(step.alpha)}{q}, {rows}"


def _alpha(alpha: Floats) -> str:
    numbers = np.ravel(alpha).tolist()
    if np.ndim(alpha) == 0:
        return f"alpha = {numbers[0]!r}"
    if len(numbers) <= _TOLD:
        return f"alpha = ({', '.join(map(repr, numbers))}) by features"
    return f"alpha of each of {len(numbers)} features between {min(numbers)!r} and {max(numbers)!r}"
