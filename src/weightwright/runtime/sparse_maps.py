"""Linear maps that are mostly zeros, computed without them: the results are the same, and zeros cost nothing.

The maps of the prompted form repeat every token as a block of keys and gather the blocks again. Their matrices pick
coordinates and tokens; written out, a pass would multiply zeros for most of its time.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from weightwright.network import Linear, Term
from weightwright.numbers import Floats
from weightwright.runtime.weights import Weights


class Places(Weights):
    """Places along the last axis: a slice where they are neighbours, which copies nothing."""

    index: Tensor

    def __init__(self, places: npt.NDArray[np.int64]) -> None:
        super().__init__()
        first, count = int(places[0]) if len(places) else 0, len(places)
        together = bool((places == first + np.arange(count)).all())
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


class SparseTerm(Weights):
    """R X A, added to the columns that it reaches; of blocks only the tokens that count are read and written."""

    A: Tensor | None
    R: Tensor | None

    def __init__(self, term: Term, dtype: str) -> None:
        super().__init__()
        columns, R = np.flatnonzero(term.A.any(axis=0)), term.R
        self.pick = Picked(term.A, dtype) if picks(term.A) else None
        self.blocks = term.blocks
        if R is not None and term.blocks:
            self.after, self.before = R.shape
            tokens, rows = np.flatnonzero(R.any(axis=0)), np.flatnonzero(R.any(axis=1))
            self.tokens, self.rows = (Places(np.asarray(part, dtype=np.int64)) for part in (tokens, rows))
            R = R[np.ix_(rows, tokens)]
        elif R is not None and (R[:1] == R).all():
            R = R[:1]  # every token gets the same: computed once
        self.keep(dtype, A=None if self.pick is not None else term.A[:, columns], R=R)
        self.columns = Places(np.asarray(columns, dtype=np.int64))

    def add_to(self, total: Tensor, X: Tensor) -> None:
        """Add R X A to the total, of shape (B, tokens after, width)."""
        if self.R is None:
            total[..., self.columns.at] += self._on_features(X)
        elif not self.blocks:
            total[..., self.columns.at] += self.R @ self._on_features(X)
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
