"""What is claimed about a truncated linear model whose w stands in the prompt, by heads whose keys are the tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from weightwright.claims.kinds import ComposedClaim
from weightwright.claims.scope import Subject

#: What a bound on heads that share the tokens of a prompt as keys takes for granted.
MULTIPLES = "every token holds the same w, and token k, counted from 0, holds k w, each entry rounded to the dtype"


@dataclass(frozen=True)
class SharedKeysClaim(ComposedClaim):
    """The output of every token i is within the bound of formula(w.x_i): one layer whose keys are the tokens.

    Token k holds x_k, k w and w; head h has the keys f k w + g w and an offset for each position.
    """

    subject: ClassVar[Subject] = "output"
    features: int  # numbers of x, and of w
    heads: int  # of the layer
    formula: str  # in x = w.x_i

    rules = ("nearest", "shared keys")
    watched = (MULTIPLES,)
    unsearched = (
        "search draws inputs from a box, and of this network's prompts only those are claimed whose tokens hold"
        " one w and its multiples, as `literal_prompt` makes them"
    )

    @property
    def bounded(self) -> str:
        return "every output, against the formula, of every prompt whose tokens hold one w and its multiples"

    def in_words(self) -> str:
        return f"({self.formula}) at x = w.x_i for every token i, by {self.heads} heads of one layer, w in the prompt"
