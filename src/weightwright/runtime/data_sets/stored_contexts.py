"""Which tokens a memory must tell apart: what a token's label may depend on is its context, and contexts have numbers.

With positions a context is the whole sequence and the place in it, under a causal mask the sequence up to there.
Without positions it is the set of tokens that are seen, and the token.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

#: The number of a context that is not known.
NEW = -1


class Contexts:
    """Contexts that were seen so far, by number: 0, 1, ... in the order in which they came."""

    def __init__(self, positions: bool, causal: bool) -> None:
        self.positions, self.causal = positions, causal
        self._numbers: dict[Hashable, int] = {}
        self.count = 0

    def learn(self, tokens: Sequence[int]) -> list[int]:
        """The number of every token's context; new ones are given a number."""
        return self._number(tokens, True)

    def find(self, tokens: Sequence[int]) -> list[int]:
        """The same; NEW for what was never learned."""
        return self._number(tokens, False)

    def _number(self, tokens: Sequence[int], learns: bool) -> list[int]:
        if self.positions and not self.causal:
            first = self._one(tuple(tokens), learns, len(tokens))
            return [NEW] * len(tokens) if first == NEW else list(range(first, first + len(tokens)))
        found, before = [], NEW
        for place, token in enumerate(tokens):
            if self.positions:  # the context before this one, and the token: a tree of prefixes
                known = before != NEW or place == 0
                before = self._one((before, token), learns, 1) if known else NEW
                found.append(before)
            else:
                seen = frozenset(tokens[: place + 1] if self.causal else tokens)
                found.append(self._one((seen, token), learns, 1))
        return found

    def _one(self, key: Hashable, learns: bool, size: int) -> int:
        if learns and key not in self._numbers:
            self._numbers[key] = self.count
            self.count += size
        return self._numbers.get(key, NEW)
