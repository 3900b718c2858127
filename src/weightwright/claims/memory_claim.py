"""What is claimed about networks that remember a data set, as data. Nothing is computed here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from weightwright.claims.kinds import Claim
from weightwright.claims.scope import Subject
from weightwright.network.layers import FeedForward, Frozen, Ramps
from weightwright.network.network import Network
from weightwright.numbers import Floats

#: The number of a label where nothing is claimed: the data set contradicts itself there.
UNCLAIMED = -1


@dataclass(frozen=True, eq=False)
class MemoryClaim(Claim, Frozen):
    """Every token of every stored sequence comes back with the number of its label, exactly, as the network computes it
    in its dtype, sums taken in any order; the certificate's bound is 0.

    A sequence is given to the network as the vectors of its tokens, row by row, and with its position, counted from 0,
    as the last input if `positions`. Tokens whose label is UNCLAIMED are seen by the others, and nothing is said of
    what they return.
    """

    vectors: Floats  # (V, d): what each token of the vocabulary is to the network
    tokens: Floats  # (T,): numbers of tokens, sequence by sequence
    lengths: Floats  # (N,): of the sequences
    labels: Floats  # (T,): numbers of labels
    words: tuple[str | int, ...]  # what the tokens are called; empty where they are the vectors themselves
    answers: tuple[str | int | float | tuple[float, ...], ...]  # what the labels are
    positions: bool  # whether the network is given the position of every token

    rules = ("memory",)
    unsearched = (
        "search looks for inputs in the domain, and this network's bound is about the tokens that it stores:"
        " net.predict(sequences) runs it on them"
    )

    @property
    def subject(self) -> Subject:
        return "label"

    @property
    def bounded(self) -> str:
        return "every stored label, against its number"

    @property
    def facts(self) -> dict[str, Any]:
        return {"stored_sequences": len(self.lengths), "stored_tokens": len(self.tokens)}


def memory_in_words(claim: MemoryClaim, network: Network) -> str:
    """What is computed, and by which kernel, in one line."""
    layer = network.layers[-1] if network.layers else None
    kernel = "sorted" if isinstance(layer, Ramps) else "plain" if isinstance(layer, FeedForward) else "unknown"
    count = int((claim.labels != UNCLAIMED).sum())
    return f"labels of {count:,} stored tokens, {kernel} kernel"
