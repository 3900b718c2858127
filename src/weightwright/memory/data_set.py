"""A data set as it is given, sequences of tokens and their labels, to numbers; and what contradicts itself in it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from weightwright.claims.memory_claim import UNCLAIMED
from weightwright.errors import WeightwrightError
from weightwright.numbers import Floats, rounded
from weightwright.runtime.data_sets.stored_contexts import NEW, Contexts

#: The largest number of all vectors, at least and at most, by dtype. Its inverse, times 16, is a float; the checker
#: encloses ids of scores below 2^500 in float64 and 2^60 in float32, and positions and codes may take a factor of 2^10.
_SIZES = {"float64": (2.0**-1018, 2.0**490), "float32": (2.0**-122, 2.0**50)}
#: Examples that an error message shows.
_SHOWN = 3


@dataclass(frozen=True, eq=False)
class Sequences:
    """N sequences, T tokens, V of them different. words: empty where tokens are vectors; vectors: None where not."""

    tokens: np.ndarray  # (T,): numbers of tokens
    lengths: np.ndarray  # (N,)
    words: tuple[str | int, ...]
    vectors: Floats | None  # (V, d)

    @cached_property
    def starts(self) -> np.ndarray:
        return np.cumsum(self.lengths) - self.lengths

    def place(self, token: int) -> tuple[int, int]:
        """(sequence, position) of a token, counted from 0."""
        sequence = int(np.searchsorted(self.starts, token, side="right")) - 1
        return sequence, token - int(self.starts[sequence])

    def name(self, token: int) -> Any:
        """What the token is called."""
        number = int(self.tokens[token])
        return self.words[number] if self.vectors is None else self.vectors[number].tolist()


@dataclass(frozen=True)
class Conflict:
    """A context for which the data set gives several labels."""

    places: tuple[tuple[int, int], ...]  # (sequence, position), counted from 0
    token: Any
    labels: tuple[Any, ...]

    def __str__(self) -> str:
        where = " and ".join(f"sequence {i}, position {k}" for i, k in self.places[:2])
        return f"token {self.token!r} ({where}) has the labels {', '.join(map(repr, self.labels))}"


def read_sequences(sequences: Iterable[Any], dtype: str) -> Sequences:
    """Words, whole numbers or vectors, one kind for all."""
    if isinstance(sequences, str):
        raise TypeError("sequences must be a list of sequences, each a list of tokens, not a text")
    given = [one.detach().cpu().numpy() if isinstance(one, torch.Tensor) else one for one in sequences]
    if not given:
        raise ValueError("sequences is empty: there is nothing to remember")
    for i, one in enumerate(given):
        if isinstance(one, str):
            raise TypeError(f"sequence {i} is the text {one[:40]!r}; split it into a list of tokens first")
        if not len(one):
            raise ValueError(f"sequence {i} is empty; leave it out")
    lengths = np.array([len(one) for one in given])
    first = _plain(given[0][0])
    if isinstance(first, str | int):
        return _words(given, lengths)
    return _vectors(given, lengths, dtype)


def _words(given: list[Any], lengths: np.ndarray) -> Sequences:
    known: dict[str | int, int] = {}
    tokens = []
    for i, one in enumerate(given):
        for k, token in enumerate(one):
            word = _plain(token)
            if type(word) not in (str, int):
                raise TypeError(
                    f"token {k} of sequence {i} is {word!r}; tokens are all words or whole numbers, or all vectors"
                )
            tokens.append(known.setdefault(word, len(known)))
    return Sequences(np.array(tokens), lengths, tuple(known), None)


def _vectors(given: list[Any], lengths: np.ndarray, dtype: str) -> Sequences:
    arrays: list[Floats] = []
    for i, one in enumerate(given):
        try:
            array = np.asarray(one, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise TypeError(f"sequence {i} is no array of numbers: {error}") from error
        array = array[:, None] if array.ndim == 1 else array  # numbers are vectors of one
        d = arrays[0].shape[1] if arrays else None
        if array.ndim != 2 or not array.shape[1] or (d is not None and array.shape[1] != d):
            raise ValueError(f"sequence {i} must have shape (n, {d or 'd'}), not {array.shape}")
        if not np.isfinite(array).all():
            k, j = np.argwhere(~np.isfinite(array))[0]
            raise ValueError(f"token {k} of sequence {i} must be finite, but number {j} is {array[k, j]!r}")
        arrays.append(array)
    rows = np.concatenate(arrays) + 0.0  # -0.0 is 0.0
    vectors, tokens = np.unique(rows, axis=0, return_inverse=True)
    _have_a_common_size(vectors, dtype)
    own = rounded(vectors, dtype)
    _stay_apart(vectors, own, dtype)
    return Sequences(tokens.reshape(-1), lengths, (), own)


def _have_a_common_size(vectors: Floats, dtype: str) -> None:
    """Sums and quotients of the numbers stay in the range of the dtype, and of what the checker encloses."""
    size, (least, most) = float(np.abs(vectors).max()), _SIZES[dtype]
    if size and not least <= size <= most:
        raise WeightwrightError(
            f"scale the vectors: the largest of their numbers is {size:.4g}, and in {dtype} it must lie between"
            f" {least:.1g} and {most:.1g}"
        )


def _stay_apart(vectors: Floats, own: Floats, dtype: str) -> None:
    """Different tokens are different in the dtype."""
    _, first, again = np.unique(own, axis=0, return_index=True, return_inverse=True)
    same = np.flatnonzero(first[again.reshape(-1)] != np.arange(len(own)))
    if len(same):
        a, b = vectors[first[again.reshape(-1)[same[0]]]], vectors[same[0]]
        apart = float(np.linalg.norm(a - b))
        raise WeightwrightError(
            f"the tokens {a.tolist()} and {b.tolist()} are {apart:.3g} apart and the same in {dtype};"
            " use float64, or make them one"
        )


def read_labels(labels: Iterable[Any], data: Sequences) -> tuple[np.ndarray, tuple[Any, ...]]:
    """(number of every token's label, what the labels are)."""
    given = list(labels)
    if len(given) != len(data.lengths):
        raise ValueError(f"labels has {len(given):,} sequences, but there are {len(data.lengths):,}")
    known: dict[Any, int] = {}
    numbers = []
    for i, (one, n) in enumerate(zip(given, data.lengths.tolist(), strict=True)):
        row = one.detach().cpu().numpy() if isinstance(one, torch.Tensor) else one
        if isinstance(row, str) or len(row) != n:
            raise ValueError(f"sequence {i} has {n} tokens, but {len(row)} labels")
        numbers += [known.setdefault(_answer(label, i, k), len(known)) for k, label in enumerate(row)]
    return np.array(numbers), tuple(known)


def _answer(label: Any, i: int, k: int) -> Any:
    label = _plain(label)
    if isinstance(label, list | tuple | np.ndarray | torch.Tensor):
        entries = np.asarray(label)
        label = tuple(entries.astype(float).tolist()) if entries.ndim == 1 and entries.dtype.kind in "biuf" else None
    numbers = label if isinstance(label, tuple) else (label,)
    if any(isinstance(x, float) and not math.isfinite(x) for x in numbers):
        raise ValueError(f"the label of token {k} of sequence {i} must be finite, not {label!r}")
    if not isinstance(label, str | int | float | tuple):
        raise TypeError(f"the label of token {k} of sequence {i} must be a class, a number or a vector")
    return label


def number_contexts(data: Sequences, positions: bool, causal: bool) -> np.ndarray:
    """(T,): the number of every token's context; NEW for tokens that have none, where a token is repeated."""
    contexts, tokens = Contexts(positions, causal), data.tokens.tolist()
    starts = zip(data.starts.tolist(), data.lengths.tolist(), strict=True)
    return np.array([number for start, n in starts for number in contexts.learn(tokens[start : start + n])])


def find_repeated(data: Sequences, contexts: np.ndarray) -> list[str]:
    """In words: for every sequence without a context somewhere the token that it has twice."""
    said = []
    without = np.searchsorted(data.starts, np.flatnonzero(contexts == NEW), side="right") - 1
    for i in np.unique(without).tolist():
        start = int(data.starts[i])
        one = data.tokens[start : start + int(data.lengths[i])].tolist()
        again = next(k for k, token in enumerate(one) if token in one[:k])
        first = one.index(one[again])
        said.append(f"sequence {i} has the token {data.name(start + first)!r} at positions {first} and {again}")
    return said


def refuse_repeated(repeated: Sequence[str], instead: str) -> None:
    """WeightwrightError with examples, if there are any."""
    if repeated:
        more = f"; and {len(repeated) - _SHOWN} more" if len(repeated) > _SHOWN else ""
        raise WeightwrightError(
            f"{'; '.join(repeated[:_SHOWN])}{more}; without positions no token may be repeated in a sequence: use"
            f" positions=True{instead}"
        )


def find_conflicts(data: Sequences, contexts: np.ndarray, labels: np.ndarray, answers: Sequence[Any]) -> list[Conflict]:
    """Every context with more than one label."""
    order = np.lexsort((labels, contexts))
    same = (contexts[order][1:] == contexts[order][:-1]) & (contexts[order][1:] != NEW)
    clash = np.unique(contexts[order][1:][same & (labels[order][1:] != labels[order][:-1])])
    places = np.flatnonzero(np.isin(contexts, clash))
    by_context: dict[int, list[int]] = {}
    for token in places.tolist():
        by_context.setdefault(int(contexts[token]), []).append(token)
    return [
        Conflict(
            tuple(data.place(t) for t in tokens),
            data.name(tokens[0]),
            tuple(answers[j] for j in dict.fromkeys(labels[tokens].tolist())),
        )
        for tokens in by_context.values()
    ]


def leave_out(data: Sequences, contexts: np.ndarray, conflicts: Sequence[Conflict], labels: np.ndarray) -> np.ndarray:
    """The labels, UNCLAIMED where they contradict each other or where there is no context."""
    kept = np.where(contexts == NEW, UNCLAIMED, labels)
    for conflict in conflicts:
        for i, k in conflict.places:
            kept[int(data.starts[i]) + k] = UNCLAIMED
    return kept


def conflicts_in_words(conflicts: Sequence[Conflict], positions: bool) -> str:
    """For an error message."""
    shown = "; ".join(map(str, conflicts[:_SHOWN]))
    more = f"; and {len(conflicts) - _SHOWN} more" if len(conflicts) > _SHOWN else ""
    sense = "its whole sequence and position" if positions else "the set of tokens that it sees"
    return f"a token's label must be a function of {sense}, but {shown}{more}"


def _plain(token: Any) -> Any:
    if isinstance(token, np.generic):
        token = token.item()
    return int(token) if isinstance(token, bool) else token
