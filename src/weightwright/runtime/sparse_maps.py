"""Linear maps that are mostly zeros, computed without them: the results are the same, and zeros cost nothing.

The maps of the prompted form repeat every token as a block of keys and gather the blocks again. Their matrices pick
coordinates and tokens; written out, a pass would multiply zeros for most of its time.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from weightwright.network import Block, Gather, Linear, Mixed, Term, TokenMap
from weightwright.numbers import Floats
from weightwright.runtime.weights import Setting, Weights, part_of, without_transforms

Place = slice | Tensor


def places(found: list[int], device: torch.device) -> Place:
    """Places along an axis: a slice where they are neighbours, which copies nothing."""
    first, count = found[0] if found else 0, len(found)
    together = first >= 0 and found == list(range(first, first + count))
    return slice(first, first + count) if together else torch.tensor(found, device=device)


class Picked:
    """X -> X A on the columns where A has an entry, for an A of at most one entry a column."""

    def __init__(self, A: Tensor) -> None:
        entries = numbers(A)
        columns = np.flatnonzero(entries.any(axis=0))
        sources = np.asarray(np.abs(entries[:, columns]).argmax(axis=0), dtype=np.int64)
        self.sources = places(sources.tolist(), A.device)
        ones = bool((entries[sources, columns] == 1).all())
        self.scales = None if ones else A[torch.tensor(sources), torch.tensor(columns)]

    def __call__(self, X: Tensor) -> Tensor:
        Y = X[..., self.sources]
        return Y if self.scales is None else Y * self.scales


def numbers(A: Tensor) -> Floats:
    """The entries, to look where they stand."""
    with without_transforms():
        return np.asarray(A.detach().double().cpu().numpy(), dtype=np.float64)


def picks(A: Floats) -> bool:
    """Whether every column has one entry at most."""
    return bool((np.count_nonzero(A, axis=0) <= 1).all())


class OnTokens(Weights):
    """A map on the token axis, (B, n, d) -> (B, tokens after, d)."""

    was: TokenMap

    def __init__(self, map: TokenMap, setting: Setting) -> None:
        super().__init__(map)
        self.map = map
        self.__dict__["_owner"] = setting.owner
        self.keep(setting.dtype, setting.trainable, *(("R",) if isinstance(map, Block | Mixed) else ()))

    def derive(self) -> tuple[Place, bool]:
        """Of a `Gather`: where the tokens come from, and whether one of them is left 0."""
        assert isinstance(self.map, Gather)
        sources = list(self.map.sources)
        return places(sources, self.__dict__["_owner"].matrix("registers").device), -1 in sources

    def parts(self) -> dict[str, Any]:
        return {"R": self.array("R")} if isinstance(self.map, Block | Mixed) else {}

    def read_back(self) -> TokenMap:
        self.__dict__.pop("_derived", None)
        R = self.parts().get("R")
        if R is None or R is self.map.R:  # type: ignore[union-attr]
            return self.map
        map: Any = self.map
        return cast(TokenMap, dataclasses.replace(map, R=R))

    def forward(self, Y: Tensor) -> Tensor:
        if isinstance(self.map, Gather):
            sources, leaves_out = self._kept()
            return (pad(Y, (0, 0, 0, 1)) if leaves_out else Y)[..., sources, :]  # -1: a token of zeros
        R = self.weight("R")
        if R is None:
            summed = Y.new_ones(1, Y.shape[-2]) @ Y  # every token gets the same: computed once
            return summed.expand(*Y.shape[:-2], self.map.tokens_after(Y.shape[-2]), -1)
        if isinstance(self.map, Mixed):
            return R @ Y
        k = R.shape[1]
        Y = Y.unflatten(-2, (Y.shape[-2] // k, k))  # (B, n/k, k, d)
        return (R * Y if k == 1 else R @ Y).flatten(-3, -2)


@dataclass(frozen=True, eq=False)
class Cut:
    """A term without the zeros of A and of a map on blocks."""

    pick: Picked | None
    A: Tensor | None  # if nothing is picked
    columns: Place  # that it reaches
    R: Tensor | None  # of a map on blocks, with what it reads and writes of every block
    tokens: Place
    rows: Place


class LinearTerm(Weights):
    """R (S * X) A"""

    was: Term

    def __init__(self, term: Term, setting: Setting) -> None:
        super().__init__(term)
        self.tokens = None if term.tokens is None else OnTokens(term.tokens, setting)
        self.keep(setting.dtype, setting.trainable, "A", "S")

    def parts(self) -> dict[str, Any]:
        tokens = None if self.tokens is None else part_of(self.tokens, (OnTokens,), "a map on the tokens")
        return {"A": self.array("A"), "S": self.array("S"), "tokens": tokens}

    def forward(self, X: Tensor) -> Tensor:
        S = self.weight("S")
        Y = (X if S is None else S * X) @ self.matrix("A")
        return Y if self.tokens is None else self.tokens(Y)


class SparseTerm(LinearTerm):
    """R X A, added to the columns that it reaches; of blocks only the tokens that count are read and written."""

    @property
    def handed(self) -> bool:
        return super().handed or (self.tokens is not None and self.tokens.handed)

    def derive(self) -> Cut:
        A, map = self.matrix("A"), None if self.tokens is None else self.tokens.map
        entries, every = numbers(A), slice(None)
        columns = np.flatnonzero(entries.any(axis=0))
        pick = Picked(A) if picks(entries) else None
        kept = None if pick is not None else A[:, torch.tensor(columns)].contiguous()
        reached = places(columns.tolist(), A.device)
        if self.tokens is None or not isinstance(map, Block):
            return Cut(pick, kept, reached, None, every, every)
        R = self.tokens.matrix("R")
        read, written = (np.flatnonzero(numbers(R).any(axis=axis)) for axis in (0, 1))
        cut = R[torch.tensor(written)][:, torch.tensor(read)].contiguous()
        return Cut(pick, kept, reached, cut, places(read.tolist(), A.device), places(written.tolist(), A.device))

    def add_to(self, total: Tensor, X: Tensor) -> None:
        """Add R X A to the total, of shape (B, tokens after, width)."""
        cut: Cut = self._kept()
        if cut.R is None:
            Y = X @ cut.A if cut.pick is None else cut.pick(X)  # type: ignore[operator]
            total[..., cut.columns] += Y if self.tokens is None else self.tokens(Y)
            return
        after, before = self.tokens.matrix("R").shape  # type: ignore[union-attr]
        read = X.unflatten(-2, (X.shape[-2] // before, before))[..., cut.tokens, :]
        Y = read @ cut.A if cut.pick is None else cut.pick(read)
        Y = cut.R * Y if cut.R.shape[1] == 1 else cut.R @ Y  # (B, n/k, tokens that count, columns)
        rows, columns = cut.rows, cut.columns
        place = total.unflatten(-2, (total.shape[-2] // after, after))
        if isinstance(rows, slice) and isinstance(columns, slice):
            place[..., rows, columns].add_(Y)  # += on a slice of all would be refused where X has a gradient
            return
        if isinstance(rows, Tensor) and isinstance(columns, Tensor):
            rows = rows[:, None]
        place[..., rows, columns] += Y


class LinearMap(Weights):
    """A `Linear`, written out."""

    was: Linear

    def __init__(self, linear: Linear, setting: Setting) -> None:
        super().__init__(linear)
        kind = SparseTerm if isinstance(self, SparseMap) else LinearTerm
        self.terms = nn.ModuleList(kind(term, setting) for term in linear.terms)
        self.keep(setting.dtype, setting.trainable, "C")

    def parts(self) -> dict[str, Any]:
        terms = (part_of(term, (LinearTerm, SparseTerm), f"term {i}") for i, term in enumerate(self.terms))
        return {"terms": tuple(terms), "C": self.array("C")}

    @property
    def alone(self) -> bool:
        """Whether no token looks at another, or knows where it stands."""
        plain = all(
            type(term) is LinearTerm and term.tokens is None and term.weight("S") is None for term in self.terms
        )
        return plain and self.matrix("C").shape[0] == 1

    def forward(self, X: Tensor) -> Tensor:
        total = self.matrix("C")
        for term in self.terms:
            total = total + term(X)
        return total if len(self.terms) else total.expand(*X.shape[:-1], -1).clone()  # no view of a weight leaves


class SparseMap(LinearMap):
    """A `Linear` with maps on the token axis, term by term."""

    def derive(self) -> bool:
        """Whether there is a constant part."""
        return bool(self.matrix("C").any())

    def forward(self, X: Tensor) -> Tensor:
        if torch.compiler.is_compiling():  # where the zeros stand is no part of a graph
            return super().forward(X)
        C, n, moved = self.matrix("C"), X.shape[-2], cast(LinearTerm, self.terms[0]).tokens
        after = n if moved is None else moved.map.tokens_after(n)
        total = X.new_zeros(*X.shape[:-2], after, C.shape[-1])
        if self._kept():
            total += C
        for term in self.terms:
            term.add_to(total, X)  # type: ignore[operator]
        return total
