"""`ww.memorize`: one Transformer layer that returns the label of every token of a data set, exactly.

Source: "Are Transformers with One Layer Self-Attention Using Low-Rank Weight Matrices Universal Approximators?",
Corollaries 1 and 2. A rank-1 head gives every context an id (`projection`), and a feed-forward layer, a ramp for every
change of label along the line of ids, turns ids into labels (`memory_network`).

Deviations: the projection and the temperature are found by a search, since the theorem's own separation is below every
float; ids and labels have coordinates of their own in the stream, so that D = d + 2 numbers of it take the place of the
paper's d; the position code runs along the direction that the head looks along. The network returns the number of the
label, and the claim holds what the numbers stand for. Cost: 4 (s + D) numbers in the head, D + 3 m + 1 in the
feed-forward layer for m changes of label, at most 4 (s + D) + D (2 n N + D).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from weightwright.box import Box
from weightwright.certify import confirm
from weightwright.claims.certificate import Certificate, Terms
from weightwright.claims.files import network_digest
from weightwright.claims.memory_claim import UNCLAIMED, MemoryClaim, memory_in_words
from weightwright.errors import BudgetError, CertificateError, ToleranceError, WeightwrightError
from weightwright.memory.context_mapping import check_options, enclose_separation, search
from weightwright.memory.data_set import (
    Conflict,
    Sequences,
    conflicts_in_words,
    find_conflicts,
    leave_out,
    number_contexts,
    read_labels,
    read_sequences,
)
from weightwright.memory.memory_network import memory_network
from weightwright.memory.projection import Query
from weightwright.network import FeedForward, Network, cost
from weightwright.numbers import rounded
from weightwright.prover.machine import assumptions
from weightwright.runtime import AttentionNetwork
from weightwright.runtime.weights import dtype_name

#: Bytes that one token takes at most while a memory is built, checked and run, measured with a million different ones.
_BYTES_PER_TOKEN = 3000
#: MiB that may be taken unless the caller allows more.
_MEGABYTES = 8192.0

Kernel = Literal["sorted", "plain"]
Say = Callable[[str], None]


@dataclass(frozen=True)
class MemoryFacts:
    """What a memory says of itself, in `net.about`."""

    sequences: int
    tokens: int
    vocabulary: int
    contexts: int
    labels: int
    conflicts: tuple[Conflict, ...]  # contexts that are not remembered: their labels contradict each other
    changes: int  # of label along the line of ids
    separation: float  # ids of different labels are farther apart than this, as computed: enclosed by the checker
    id_error: float  # what an id may be off by, at most
    closest: tuple[tuple[int, int], tuple[int, int]] | None  # (sequence, position) of the two that are
    beta: float
    parameters: int  # as the paper counts: factors of rank 1, kinks and heights
    formula: int  # 4 (s + D) + D (2 n N + D)
    stored: int  # numbers that are stored, zeros included
    kernel: str

    @property
    def remembered(self) -> int:
        """Tokens that are returned with their label."""
        return self.tokens - sum(len(conflict.places) for conflict in self.conflicts)


def memorize(
    sequences: Iterable[Any],
    labels: Iterable[Any],
    positions: bool = True,
    *,
    mask: Literal["causal"] | None = None,
    on_conflict: Literal["raise", "skip"] = "raise",
    kernel: Kernel = "sorted",
    dtype: Any = "float64",
    head_size: int = 1,
    query: Query = "same",
    seed: int = 0,
    megabytes: float = _MEGABYTES,
    progress: Say | None = None,
) -> AttentionNetwork:
    """A network of one rank-1 attention layer and one feed-forward layer that returns the label of every stored token.

    sequences: lists of words or whole numbers, or arrays (n, d) of vectors; of any lengths.
    labels: for every sequence a list of as many classes, numbers or vectors.
    positions: False: a label is a function of the set of tokens that are seen and the token, none of them repeated.
    mask: "causal": a token sees itself and those before it.
    on_conflict: "skip" leaves out tokens whose labels contradict each other; `net.about.conflicts` has them.
    kernel: "sorted" (binary search among the kinks) or "plain" (all units are summed, where that is exact).
    head_size: the number of columns of W_Q, W_K and W_V, which have rank 1. query: "other": a direction of its own.
    megabytes: memory that may be taken. progress: called with a line of text at every stage.

    >>> import weightwright as ww
    >>> net = ww.memorize([["a", "b"], ["b", "a"]], [["X", "Y"], ["Y", "Z"]])
    >>> net.predict([["b", "a"], ["a", "a"]]), net.certificate.status
    ([['Y', 'Z'], [not stored, not stored]], 'PROVEN')
    """
    say = progress or (lambda line: None)
    name = dtype_name(dtype, ("float64", "float32"))
    check_options(mask, query, head_size)
    _options(on_conflict, kernel)
    data = read_sequences(sequences, name)
    _fits(data, megabytes)
    numbers, answers = read_labels(labels, data)
    causal = mask == "causal"
    contexts = number_contexts(data, positions, causal)
    conflicts = find_conflicts(data, contexts, numbers, answers)
    if conflicts and on_conflict == "raise":
        said = conflicts_in_words(conflicts, positions)
        raise WeightwrightError(f"labels are inconsistent: {said}; on_conflict='skip' leaves these out")
    kept = leave_out(data, conflicts, numbers)
    if (kept == UNCLAIMED).all():
        raise WeightwrightError("no token is left whose label does not contradict another's")
    say(f"{len(data.lengths):,} sequences, {len(data.tokens):,} tokens, {len(set(contexts.tolist())):,} contexts")
    found = search(data, kept, positions, causal, name, query, seed)
    say(f"ids found: the closest of different labels are {found.gap:.2g} apart, rounding about {found.error:.2g}")
    network = memory_network(found, kept, positions, causal, head_size, name, kernel == "plain")
    tokens, lengths, wanted = (part.astype(np.float64) for part in (data.tokens, data.lengths, kept))
    claim = MemoryClaim(found.projection.vectors, tokens, lengths, wanted, data.words, answers, positions)
    certificate = _proven(network, claim, kernel)
    say(f"the checker agrees: {certificate.formula}")
    net = AttentionNetwork(network, certificate)
    net.about = _facts(net, data, contexts, kept, conflicts, kernel)
    return net


def _options(on_conflict: Any, kernel: Any) -> None:
    for name, value, known in (
        ("on_conflict", on_conflict, ("raise", "skip")),
        ("kernel", kernel, ("sorted", "plain")),
    ):
        if value not in known:
            raise ValueError(f"{name} must be one of {', '.join(map(repr, known))}, not {value!r}")


def _fits(data: Sequences, megabytes: float) -> None:
    """BudgetError before memory is taken for a network."""
    d = 1 if data.vectors is None else data.vectors.shape[1]
    each = (_BYTES_PER_TOKEN + 200 * d) / 2**20
    if each * len(data.tokens) > megabytes:
        most = int(megabytes / each / (len(data.tokens) / len(data.lengths)))
        raise BudgetError(
            f"{len(data.tokens):,} tokens take about {each * len(data.tokens):,.0f} MiB, more than megabytes ="
            f" {megabytes:,.0f}; that is enough for about {most:,} such sequences"
        )


def _proven(network: Network, claim: MemoryClaim, kernel: Kernel) -> Certificate:
    """The certificate that the checker agreed with, from a file."""
    least, most = claim.vectors.min(axis=0), claim.vectors.max(axis=0)
    if claim.positions:
        least, most = np.append(least, 0.0), np.append(most, claim.lengths.max() - 1)
    most = np.where(most > least, most, rounded(most + np.maximum(np.abs(most), 1.0), network.dtype))  # a box has width
    words, nothing = memory_in_words(claim, network), Terms(0.0, 0.0, 0.0)
    said = assumptions(network.dtype, "dot")
    draft = Certificate(
        claim, words, Box(least, most), network.dtype, "dot", 0.0, nothing, network_digest(network), said
    )
    try:
        return confirm(network, draft)
    except CertificateError as error:
        instead = "; kernel='sorted' needs no exact sums" if kernel == "plain" else ""
        raise ToleranceError(f"the independent checker does not agree: {error}{instead}") from error


def _facts(
    net: AttentionNetwork,
    data: Sequences,
    contexts: np.ndarray,
    kept: np.ndarray,
    conflicts: list[Conflict],
    kernel: str,
) -> MemoryFacts:
    network, claim = net.network, net.said.claim if net.said else None
    assert isinstance(claim, MemoryClaim)
    known = enclose_separation(network, data, claim.vectors, kept, claim.positions)
    head, layer = next(iter(network.heads)), network.layers[1]
    assert isinstance(layer, FeedForward)
    changes, D, s, T = layer.b_1.shape[1] // 2, len(layer.coordinates), head.W_Q.shape[1], len(data.tokens)
    return MemoryFacts(
        sequences=len(data.lengths),
        tokens=T,
        vocabulary=len(claim.vectors),
        contexts=len(np.unique(contexts)),
        labels=len(claim.answers),
        conflicts=tuple(conflicts),
        changes=changes,
        separation=known.apart,
        id_error=known.error,
        closest=known.closest,
        beta=head.beta,
        parameters=4 * (s + D) + D + 3 * changes + 1,
        formula=4 * (s + D) + D * (2 * T + D),
        stored=cost(network).parameters,
        kernel=kernel,
    )
