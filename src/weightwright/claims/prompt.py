"""What is claimed about networks that run an algorithm on the examples in their prompt, as data.

`PromptClaim`: an algorithm of `incontext`. A prompt has n tokens, one for each sample. A token holds x, u (x itself
unless own values are given), y, the states w and perhaps p, and perhaps thresholds tau. A *pass* turns the states into
new ones: docs/certificates.md, "In context". `LoopClaim`: any compiled rule, again and again. Nothing is computed here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from weightwright.claims.leaf import Leaf, VectorLeaf
from weightwright.claims.target import Composite, composite_in_words
from weightwright.network.layers import Frozen
from weightwright.numbers import Floats


@dataclass(frozen=True)
class LoopClaim:
    """One pass of the network's loop is within the bound of the rule, `composite`, whose target is a graph of columns.

    A token holds `features` numbers of an example, then the `states` numbers of the state, of which every token holds
    a copy. A pass turns the state into the graph's outputs on the first token; the examples stay as they are.
    """

    features: int  # numbers of an example
    states: int  # numbers of the state
    composite: Composite  # the rule, and which heads compute what of it


def loop_in_words(claim: LoopClaim) -> str:
    """What the bound is about, in one line."""
    return f"one pass of {composite_in_words(claim.composite)}"


#: What a bound on one pass takes for granted about the prompt and the passes before.
ARGUMENTS = "the argument of every function lies between lo and hi of its claim, for every sample and at every pass"
STATES = "the states of every token lie in the domain at every pass"
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
        if isinstance(self.alpha, float):
            object.__setattr__(self, "alpha", np.array(self.alpha))
        if isinstance(self.alpha, np.ndarray) and self.alpha.dtype != np.float64:  # others might be rounded
            raise ValueError(f"alpha is an array of {self.alpha.dtype}; give float64")
        super().__post_init__()


@dataclass(frozen=True, eq=False)
class Summand(Frozen):
    """A summand of f: `tables` tables in a row add up to formula(along . (w.x, y)), or to formula(w.x, y).

    The claim is about the query scale * along . (w.x, y), or scale * (w.x, y); its terms are for |u| = 1, and its
    rounding is that of the tables in this network.
    """

    formula: str  # in x; without `along` in x = w.x and y
    along: tuple[float, float] | None  # entries -1, 0 or 1
    scale: float  # a power of two
    tables: int  # how many, in a row
    claim: Leaf | VectorLeaf  # what they compute of their query


@dataclass(frozen=True)
class PromptClaim:
    """Every pass is within the bound of the exact one; without passes the answer f u of every token is.

    passes: as they stand in the layers, those of a loop once.
    clock: what it starts with.
    """

    features: int  # numbers of an example
    own_values: bool  # whether u is given beside x
    answer: Literal["gradients", "w", "p"]  # what is returned: gradients, or a state
    summands: tuple[Summand, ...]  # of the loss's slope
    passes: tuple[Pass, ...] = ()
    clock: float = 0.0

    @property
    def states(self) -> int:
        return len(self.passes[0].method) if self.passes else 1

    def has(self, middle: str) -> bool:
        return any(step.middle == middle for step in self.passes)


def prompt_in_words(claim: PromptClaim) -> str:
    """What the network computes, in one line."""
    f = " + ".join(f"({summand.formula}){_where(summand)}" for summand in claim.summands)
    value = "u_i" if claim.own_values else "x_i"
    if not claim.passes:
        return f"f {value} for every sample i, f = {f}"
    kinds = "; ".join(dict.fromkeys(_step(step) for step in claim.passes))
    return f"one pass with z = alpha w - sum of f {value} over all samples i, f = {f}: {kinds}"


def _where(summand: Summand) -> str:
    if summand.along is None:
        return " at x = w.x_i, y = y_i"
    return f" at x = {argument_in_words(summand.along, 'w.x_i', 'y_i')}"


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
