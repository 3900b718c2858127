"""Constant matrices on the tokens as heads with constant scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weightwright.heads.registers import HIDDEN
from weightwright.numbers import Floats

#: Row sums that differ by less than this count as equal: what is left is rounding.
EQUAL = 1e-14


@dataclass(frozen=True)
class Mixing:
    """One head: softmax of scores_ij over the tokens j, times factor; `padding` are scores of a key of value 0."""

    factor: float
    scores: Floats  # (n, n)
    padding: Floats | None = None  # (n,)


def mixings(A: Floats) -> tuple[Mixing, ...]:
    """Heads that add up to the matrix: one if its entries have one sign, else two.

    The weights of a head add up to 1, so the rows of its matrix have one sum. Where those of A differ, a register of
    value 0 takes the rest.
    """
    if not A.any():
        return ()
    plus, minus = np.maximum(A, 0.0), np.maximum(-A, 0.0)
    return tuple(_one(part, sign) for part, sign in ((plus, 1.0), (minus, -1.0)) if part.any())


def _one(A: Floats, sign: float) -> Mixing:
    sums = A.sum(axis=1)
    D = float(sums.max())
    padded = bool(np.ptp(sums) > EQUAL * D)
    used = A != 0
    # equal entries share the weight evenly, and exactly, if their scores are 0
    entries = A[used]
    even = bool((entries == entries[0]).all()) and not padded
    scores = np.where(used, 0.0 if even else np.log(np.where(used, A, 1.0) / D), HIDDEN)
    if even:
        D = float(entries[0]) * int(used.sum(axis=1)[0])
    rest = np.maximum(1 - sums / D, 0.0)
    rest = np.where(rest > EQUAL, rest, 0.0)
    padding = np.where(rest > 0, np.log(np.where(rest > 0, rest, 1.0)), HIDDEN) if padded else None
    return Mixing(sign * D, scores, padding)
