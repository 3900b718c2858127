"""`net.predict`: what a network that remembers a data set says of sequences, in the words of that data set."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from weightwright.claims.memory_claim import UNCLAIMED, MemoryClaim
from weightwright.errors import WeightwrightError
from weightwright.numbers import Floats, rounded
from weightwright.runtime.data_sets.stored_contexts import NEW, Contexts

#: Numbers of the stream, or scores, that sequences of one length which run together may come to.
_TOGETHER = 2**22


class Unanswered:
    """In the place of a label that the memory does not have. It is false, and says why it stands there."""

    def __init__(self, why: str) -> None:
        self.why = why

    def __repr__(self) -> str:
        return self.why

    def __bool__(self) -> bool:
        return False

    def __reduce__(self) -> str:
        return "NOT_STORED" if self.why == NOT_STORED.why else "INCONSISTENT"


NOT_STORED = Unanswered("not stored")
INCONSISTENT = Unanswered("inconsistent in the data set")


class Remembers:
    """The part of a network's module that speaks the language of a data set."""

    def predict(self, sequences: Iterable[Any], margins: bool = False) -> Any:
        """The label of every token of every sequence, as it was given: a list of lists.

        sequences: as `ww.memorize` takes them. Where the context of a token was not in the data set the answer is
        `ww.memory.NOT_STORED`, where the data set contradicted itself `ww.memory.INCONSISTENT`.
        margins: return (labels, margins); a margin is the distance from a token's id to the nearest kink of the
        feed-forward layer, over the proven error of the id: above 1 rounding cannot change the answer. Infinite where
        there are no kinks, 0 for tokens that have no id.
        """
        memory = _memory(self)
        numbers = [memory.numbers(sequence) for sequence in sequences]
        labels: list[list[Any]] = [[NOT_STORED] * len(one) for one in numbers]
        room = [[0.0] * len(one) for one in numbers]
        parts = [memory.known_part(one) for one in numbers]
        for together in _by_length(parts):
            tokens = np.array([parts[i] for i in together])
            said = memory.run(tokens)
            away = memory.margins(tokens) if margins else said
            for row, i in enumerate(together):
                for place, context in enumerate(memory.contexts.find(parts[i])):
                    room[i][place] = float(away[row, place])
                    if context != NEW:
                        labels[i][place] = memory.answer(said[row, place], context)
        return (labels, room) if margins else labels


def _memory(net: Any) -> _Memory:
    said = net.said
    if said is None or not isinstance(said.claim, MemoryClaim):
        raise WeightwrightError("predict: this network remembers no data set; `ww.memorize` makes one that does")
    kept = net.__dict__.get("_memory")
    if kept is None or kept.claim is not said.claim:
        kept = net.__dict__["_memory"] = _Memory(net, said.claim)
    return cast(_Memory, kept)


class _Memory:
    """What a module and the claim about it say together."""

    def __init__(self, net: Any, claim: MemoryClaim) -> None:
        self.net, self.claim = net, claim
        self.words = {word: number for number, word in enumerate(claim.words)}
        self.rows = {row.tobytes(): number for number, row in enumerate(claim.vectors)}
        self.causal = any(head.sees.data == "earlier" for head in net.was.heads)
        self.contexts = Contexts(claim.positions, self.causal)
        tokens = claim.tokens.astype(int)
        ends = np.cumsum(claim.lengths.astype(int)).tolist()
        learned = [self.contexts.learn(tokens[a:b].tolist()) for a, b in zip([0, *ends], ends, strict=False)]
        flat = [number for one in learned for number in one]
        self.unclaimed = {flat[i] for i in np.flatnonzero(claim.labels == UNCLAIMED).tolist()}

    def numbers(self, sequence: Any) -> list[int]:
        """The numbers of tokens; NEW for those that are not in the vocabulary."""
        if self.claim.words:
            if isinstance(sequence, str):
                raise TypeError(f"a sequence is a list of tokens, not a text: split {sequence[:40]!r} first")
            return [self.words.get(_plain(token), NEW) for token in sequence]
        rows = np.asarray(sequence, dtype=np.float64) + 0.0
        rows = rows[:, None] if rows.ndim == 1 else rows
        if rows.ndim != 2 or rows.shape[1] != self.claim.vectors.shape[1]:
            raise ValueError(f"a sequence must have shape (n, {self.claim.vectors.shape[1]}), not {rows.shape}")
        return [self.rows.get(row.tobytes(), NEW) for row in rounded(rows, self.net.was.dtype)]

    def known_part(self, numbers: list[int]) -> list[int]:
        """What can be run: nothing of a sequence with a token that is not known, but what stands before it where no
        token looks ahead."""
        if NEW not in numbers:
            return numbers
        return numbers[: numbers.index(NEW)] if self.causal else []

    def inputs(self, tokens: np.ndarray) -> Floats:
        x = self.claim.vectors[tokens]
        if not self.claim.positions:
            return x
        places = np.broadcast_to(np.arange(float(tokens.shape[1]))[:, None], (*tokens.shape, 1))
        return np.concatenate([x, places], axis=-1)

    def run(self, tokens: np.ndarray) -> Floats:
        """(B, n): the numbers of labels that the network returns."""
        longest = self.net.said.domain.hi[-1] if self.claim.positions else np.inf
        if tokens.shape[1] - 1 > longest:  # longer than all that is stored: nothing of it is known
            return np.full(tokens.shape, -1.0)
        x: Tensor = torch.tensor(self.inputs(tokens), dtype=self.net.dtype, device=self.net.device)
        with torch.no_grad():
            out: Floats = self.net(x)[..., 0].double().cpu().numpy()
        return out

    def margins(self, tokens: np.ndarray) -> Floats:
        from weightwright.checker.memory.context_ids import enclose_ids, read_mapping  # needs python-flint
        from weightwright.network.ramps import ramps_of

        network, (B, n) = self.net.network, tokens.shape
        table = ramps_of(network.layers[1])
        stored = read_mapping(network, table.coordinate)
        ids, radii = enclose_ids(stored, self.claim.vectors, tokens.ravel(), np.full(B, n), self.claim.positions)
        if not len(table.kinks):
            return np.full((B, n), np.inf)
        right = np.searchsorted(table.kinks, ids)
        ends = table.kinks[np.maximum(right - 1, 0)], table.kinks[np.minimum(right, len(table.kinks) - 1)]
        distance = np.minimum(np.abs(ids - ends[0]), np.abs(ids - ends[1]))
        return (distance / radii).reshape(B, n)

    def answer(self, number: float, context: int) -> Any:
        """The label of a context that is stored."""
        if context in self.unclaimed:
            return INCONSISTENT
        index = int(np.clip(np.rint(number), 0, len(self.claim.answers) - 1))
        found = self.claim.answers[index]
        return np.array(found) if isinstance(found, tuple) else found


def _by_length(parts: Sequence[Sequence[int]]) -> Iterable[list[int]]:
    """Numbers of sequences that are of one length, as many as may run together."""
    groups: dict[int, list[int]] = defaultdict(list)
    for i, part in enumerate(parts):
        if part:
            groups[len(part)].append(i)
    for n, group in sorted(groups.items()):
        step = max(1, _TOGETHER // (n * n))
        yield from (group[i : i + step] for i in range(0, len(group), step))


def _plain(token: Any) -> Any:
    return token.item() if isinstance(token, np.generic) else token
