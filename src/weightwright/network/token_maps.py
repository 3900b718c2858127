"""Maps on the token axis, stored as what they are: R of R (S * X) A, (tokens after, tokens before).

Written out, R has as many numbers as pairs of tokens; a `Gather` and a `Total` hold no more than a number for each
token. `matrix(n)` writes a map out for n tokens; `counts(n)` is what the written map would cost.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weightwright.network.frozen import Frozen
from weightwright.numbers import Floats


@dataclass(frozen=True)
class Counts:
    """Of a map that is written out."""

    parameters: int
    nonzeros: int
    multiply_adds: int  # for one column
    largest: float  # absolute value of an entry


@dataclass(frozen=True)
class Gather(Frozen):
    """Output token i is input token sources[i], or 0 where sources[i] is -1.

    >>> Gather((2, -1)).matrix(3)
    array([[0., 0., 1.],
           [0., 0., 0.]])
    """

    sources: tuple[int, ...]

    def tokens_after(self, n: int) -> int:
        return len(self.sources)

    def matrix(self, n: int) -> Floats:
        sources = np.array(self.sources, dtype=np.int64)
        R = np.zeros((len(sources), n))
        rows = np.flatnonzero(sources >= 0)
        R[rows, sources[rows]] = 1.0
        return R

    def counts(self, n: int) -> Counts:
        size = len(self.sources) * n
        taken = sum(source >= 0 for source in self.sources)
        return Counts(size, taken, size, float(taken > 0))


@dataclass(frozen=True)
class Total(Frozen):
    """Every one of `after` output tokens is the sum of all tokens. `total` makes it."""

    after: int

    def tokens_after(self, n: int) -> int:
        return self.after

    def matrix(self, n: int) -> Floats:
        return np.ones((self.after, n))

    def counts(self, n: int) -> Counts:
        size = self.after * n
        return Counts(size, size, size, 1.0)


@dataclass(frozen=True, eq=False)
class Block(Frozen):
    """R acts on every block of R.shape[1] neighbouring tokens alike and makes R.shape[0] tokens of it, so that (p, 1)
    repeats each token p times with factors and (1, p) makes one token of every p."""

    R: Floats

    def tokens_after(self, n: int) -> int:
        return n // self.R.shape[1] * self.R.shape[0]

    def matrix(self, n: int) -> Floats:
        return np.asarray(np.kron(np.eye(n // self.R.shape[1]), self.R), dtype=np.float64)

    def counts(self, n: int) -> Counts:
        return _counts(self.R, n // self.R.shape[1])


@dataclass(frozen=True, eq=False)
class Mixed(Frozen):
    """A matrix (tokens after, tokens before) that is none of the others."""

    R: Floats

    def tokens_after(self, n: int) -> int:
        return len(self.R)

    def matrix(self, n: int) -> Floats:
        return self.R

    def counts(self, n: int) -> Counts:
        return _counts(self.R, 1)


def _counts(R: Floats, times: int) -> Counts:
    return Counts(R.size, int(np.count_nonzero(R)), R.size * times, float(np.abs(R).max(initial=0.0)))


TokenMap = Gather | Total | Block | Mixed


def pick(token: int) -> Gather:
    """One token alone stays."""
    return Gather((token,))


def place(token: int, n: int) -> Gather:
    """A single token becomes token `token` of n; the others are 0."""
    return Gather(tuple(0 if i == token else -1 for i in range(n)))


def copy(n: int) -> Gather:
    """All of n tokens become the first."""
    return Gather((0,) * n)


def total(before: int, after: int) -> Gather | Total:
    """The sum of all tokens, `after` times. The sum of a single one is a copy: every map has one form."""
    return copy(after) if before == 1 else Total(after)


def token_map(R: Floats) -> TokenMap:
    """A matrix as what it is: the same numbers, in the form that `pick`, `place`, `copy` and `total` give it.

    >>> token_map(np.ones((2, 3))), token_map(np.eye(2, 1))
    (Total(after=2), Gather(sources=(0, -1)))
    """
    if R.ndim != 2 or not R.size:
        return Mixed(R)
    if (R == 1).all():
        return total(R.shape[1], len(R))
    if ((R == 0) | (R == 1)).all() and (np.count_nonzero(R, axis=1) <= 1).all():
        return Gather(tuple(np.where(R.any(axis=1), R.argmax(axis=1), -1).tolist()))
    return Mixed(R)
