"""Linear maps that are mostly zeros, computed without them: the results are the same, and zeros cost nothing.

The maps of the prompted form repeat every token as a block of keys and gather the blocks again. Their matrices pick
coordinates and tokens; written out, a pass would multiply zeros for most of its time.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from weightwright.network import Block, Gather, Linear, Mixed, Term, TokenMap
from weightwright.numbers import Floats
from weightwright.runtime.weights import Weights


class Places(Weights):
    """Places along the last axis: a slice where they are neighbours, which copies nothing."""

    index: Tensor

    def __init__(self, places: npt.NDArray[np.int64]) -> None:
        super().__init__()
        first, count = int(places[0]) if len(places) else 0, len(places)
        together = first >= 0 and bool((places == first + np.arange(count)).all())
        self.span = slice(first, first + count) if together else None
        self.constant("index", torch.tensor(places))

    @property
    def at(self) -> slice | Tensor:
        return self.index if self.span is None else self.span


class Picked(Weights):
    """X -> X A on the columns where A has an entry, for an A of at most one entry a column."""

    scales: Tensor | None

    def __init__(self, A: Floats, dtype: str) -> None:
        super().__init__()
        columns = np.flatnonzero(A.any(axis=0))
        sources = np.abs(A[:, columns]).argmax(axis=0)
        scales = A[sources, columns]
        self.sources = Places(np.asarray(sources, dtype=np.int64))
        self.keep(dtype, scales=None if (scales == 1).all() else scales)

    def forward(self, X: Tensor) -> Tensor:
        Y = X[..., self.sources.at]
        return Y if self.scales is None else Y * self.scales


def picks(A: Floats) -> bool:
    """Whether every column has one entry at most."""
    return bool((np.count_nonzero(A, axis=0) <= 1).all())


class OnTokens(Weights):
    """A map on the token axis, (B, n, d) -> (B, tokens after, d)."""

    R: Tensor | None

    def __init__(self, map: TokenMap, dtype: str) -> None:
        super().__init__()
        self.map = map
        self.keep(dtype, R=map.R if isinstance(map, Block | Mixed) else None)
        self.sources = Places(np.array(map.sources, dtype=np.int64)) if isinstance(map, Gather) else None
        self.leaves_out = isinstance(map, Gather) and -1 in map.sources

    def forward(self, Y: Tensor) -> Tensor:
        if self.sources is not None:
            return (pad(Y, (0, 0, 0, 1)) if self.leaves_out else Y)[..., self.sources.at, :]  # -1: a token of zeros
        if self.R is None:
            summed = Y.new_ones(1, Y.shape[-2]) @ Y  # every token gets the same: computed once
            return summed.expand(*Y.shape[:-2], self.map.tokens_after(Y.shape[-2]), -1)
        if isinstance(self.map, Mixed):
            return self.R @ Y
        k = self.R.shape[1]
        Y = Y.unflatten(-2, (Y.shape[-2] // k, k))  # (B, n/k, k, d)
        return (self.R * Y if k == 1 else self.R @ Y).flatten(-3, -2)


class SparseTerm(Weights):
    """R X A, added to the columns that it reaches; of blocks only the tokens that count are read and written."""

    A: Tensor | None
    R: Tensor | None

    def __init__(self, term: Term, dtype: str) -> None:
        super().__init__()
        columns, map, R = np.flatnonzero(term.A.any(axis=0)), term.tokens, None
        self.pick = Picked(term.A, dtype) if picks(term.A) else None
        self.moved = None
        if isinstance(map, Block):
            self.after, self.before = map.R.shape
            tokens, rows = np.flatnonzero(map.R.any(axis=0)), np.flatnonzero(map.R.any(axis=1))
            self.tokens, self.rows = (Places(np.asarray(part, dtype=np.int64)) for part in (tokens, rows))
            R = map.R[np.ix_(rows, tokens)]
        elif map is not None:
            self.moved = OnTokens(map, dtype)
        self.keep(dtype, A=None if self.pick is not None else term.A[:, columns], R=R)
        self.columns = Places(np.asarray(columns, dtype=np.int64))

    def add_to(self, total: Tensor, X: Tensor) -> None:
        """Add R X A to the total, of shape (B, tokens after, width)."""
        if self.R is None:
            Y = self._on_features(X)
            total[..., self.columns.at] += Y if self.moved is None else self.moved(Y)
        else:
            read = X.unflatten(-2, (X.shape[-2] // self.before, self.before))[..., self.tokens.at, :]
            Y = self._on_features(read)  # (B, n/k, tokens that count, columns)
            Y = self.R * Y if self.R.shape[1] == 1 else self.R @ Y
            rows, columns = self.rows.at, self.columns.at
            place = total.unflatten(-2, (total.shape[-2] // self.after, self.after))
            if isinstance(rows, slice) and isinstance(columns, slice):
                place[..., rows, columns].add_(Y)  # += on a slice of all would be refused where X has a gradient
                return
            if isinstance(rows, Tensor) and isinstance(columns, Tensor):
                rows = rows[:, None]
            place[..., rows, columns] += Y

    def _on_features(self, X: Tensor) -> Tensor:
        if self.pick is not None:
            return self.pick(X)
        assert self.A is not None
        return X @ self.A


class SparseMap(Weights):
    """A `Linear` with maps on the token axis, term by term."""

    C: Tensor

    def __init__(self, linear: Linear, dtype: str) -> None:
        super().__init__()
        self.tokens_after, self.width = linear.terms[0].tokens_after, len(linear.coordinates)
        self.terms = nn.ModuleList(SparseTerm(term, dtype) for term in linear.terms)
        self.keep(dtype, C=linear.C)
        self.constant_part = bool(linear.C.any())

    def forward(self, X: Tensor) -> Tensor:
        total = X.new_zeros(*X.shape[:-2], self.tokens_after(X.shape[-2]), self.width)
        if self.constant_part:
            total += self.C
        for term in self.terms:
            term.add_to(total, X)  # type: ignore[operator]
        return total
