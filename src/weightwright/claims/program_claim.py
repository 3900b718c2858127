"""What is claimed about the interpreter: one frozen module that runs any attention head whose weights stand in its
prompt. Nothing is computed here.

A prompt has T tokens. A token holds x, weights, and two codes that say who sees whom. Layer 0 has a head for every row
w of W_K, W_Q and W_V, which returns w.x: its keys are copies of w, kappa_j w with an offset, on the first tokens, so
that its score is kappa_j w.x + offset_j, the soft anchors of the identity. Layer 1 attends with what layer 0 wrote.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from weightwright.box import Box
from weightwright.claims.kinds import MASKED, ComposedClaim
from weightwright.claims.leaf import Leaf
from weightwright.claims.scope import Subject
from weightwright.network.layers import Frozen
from weightwright.numbers import Floats

#: What a bound takes for granted about a prompt.
PRODUCTS = "for every row w of W_K, W_Q and W_V and every token x, w.x lies between lo and hi of its claim"
ENTRIES = "every entry of x is at most x_max in size when a pass begins"
CODES = (
    "the codes of two tokens have no product but 0, or exactly one that is -hidden: then the first does not see the"
    " second; every token sees some token"
)


@dataclass(frozen=True, eq=False)
class AnchorTable(Frozen):
    """The softmax over j of beta (kappa_j s + offsets_j), times values_j, is s, as the claim says.

    kappa: a factor of s for each anchor.
    offsets: what is added to its score.
    values: what it returns.
    beta: the inverse temperature.
    """

    kappa: Floats
    offsets: Floats
    values: Floats
    beta: float
    claim: Leaf  # the formula is s


@dataclass(frozen=True)
class InterpreterClaim(ComposedClaim):
    """For every prompt of the domain, output c of token i is within the bound of the sum over the heads of

    the sum over the tokens j that i sees of softmax_j(q_i . k_j) v_j[c], with k = W_K x, q = W_Q x, v = W_V x.

    tokens: of a prompt, rows and padding included.
    features: numbers of a token.
    head_dim: of queries and keys.
    heads: of a program.
    codes: numbers that say who asks, and as many that say who is hidden from whom.
    x_max: the largest entry of x.
    w_max: the largest entry of a weight.
    times: 0, or how many programs a prompt holds. They run one after the other in a loop, each adds its output to x,
    and a map moves the next one to where the last one stood; the bound is about one pass, whatever it began with.
    tables: for keys, queries and values, in this order; values have as many entries as x.
    stacked: row r of every matrix stands on token r; otherwise token 0 holds all weights.
    away: the offset of tokens that are no anchors.
    hidden: by how much a code lowers a score.
    """

    tokens: int
    features: int
    head_dim: int
    heads: int
    codes: int
    stacked: bool
    x_max: float
    w_max: float
    hidden: float
    away: float
    tables: tuple[AnchorTable, AnchorTable, AnchorTable]
    times: int = 0

    rules = ("interpreter", "attention")
    unsearched = (
        "search draws inputs from a box, and of an interpreter's prompts only those that hold a program are"
        " claimed: compare vm(x, program) with program.run(x) for programs that `Interpreter.program` makes"
    )

    @property
    def subject(self) -> Subject:
        """With several programs the bound is about one pass: what the next begins with is off already."""
        return "pass" if self.times else "output"

    @property
    def bounded(self) -> str:
        one = f"every output of one pass, of {self.times} programs," if self.times else "every output,"
        return f"{one} against the plain attention head, for every program and input within these bounds"

    @property
    def leaves(self) -> Sequence[Leaf]:
        return [table.claim for table in self.tables]

    @property
    def watched(self) -> tuple[str, ...]:
        return (PRODUCTS, CODES, ENTRIES) if self.times else (PRODUCTS, CODES)

    @property
    def facts(self) -> dict[str, Any]:
        """What a program may have at most, by the names that `ww.Interpreter` has for it."""
        products = zip(("k_max", "q_max", "v_max"), self.leaves, strict=True)
        largest = {"x_max": self.x_max, "w_max": self.w_max, **{name: leaf.hi for name, leaf in products}}
        return {"largest_entries": largest}

    def in_words(self) -> str:
        heads = "the attention head" if self.heads == 1 else f"the sum of the {self.heads} attention heads"
        what = f"x and {heads}, one pass of {self.times}," if self.times else heads
        sizes = f"{self.tokens} tokens of {self.features}, size {self.head_dim}"
        return f"{what} whose weights stand in the prompt: {sizes}"

    def leans_on(self, native: bool) -> tuple[str, ...]:
        return (PRODUCTS, CODES, MASKED, ENTRIES) if self.times else (PRODUCTS, CODES, MASKED)

    def possible_assumptions(self, domain: Box) -> tuple[str, ...]:
        return PRODUCTS, CODES, ENTRIES
