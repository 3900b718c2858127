"""LR-2: a layer of hardmax attention is no contextual mapping: two sequences that none of them tells apart, and why.

Source: the low-rank self-attention paper, Theorem 1. Deviation: with W_K = 0 all scores tie, and a hardmax that shares
its weight among ties tells the paper's pair (1, 2, 4) v, (1, 3, 4) v apart. The repaired pair has equal extremes and
equal sums: (1, 2, 5, 6) v and (1, 3, 4, 6) v.

The proof. All tokens are multiples a of one vector v, so a head's score of token a seen from token b is t a b, with
t = (W_K v) . (W_Q v). Seen from a token that both sequences have, with c = t b:
- c > 0: the largest a, 6 in both, has all the weight;
- c < 0: the smallest, 1 in both;
- c = 0: all tie, and the mean is 14/4 in both.
So every head returns W_O W_V v times the same number for both sequences, and so does every sum of heads.
`hardmax_cases` computes these numbers for any pair, in rational arithmetic: the three cases are all there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from weightwright.numbers import Floats

#: Multiples of v in the two sequences.
PAIR = (1, 2, 5, 6), (1, 3, 4, 6)
#: The paper's own pair, which a head with W_K = 0 tells apart.
PRINTED_PAIR = (1, 2, 4), (1, 3, 4)

Rows = list[list[Fraction]]


@dataclass(frozen=True)
class HardmaxCase:
    """What a head's mean of the multiples is for each sequence, where its scores are c times the multiples."""

    sign: int  # of c
    means: tuple[Fraction, Fraction]

    @property
    def confused(self) -> bool:
        return self.means[0] == self.means[1]


@dataclass(frozen=True, eq=False)
class HardmaxHead:
    """W_O W_V Z hardmax((W_K Z)^T W_Q Z), tokens being rows here: (d, s) for the first three, (s, d) for the last."""

    W_Q: Floats
    W_K: Floats
    W_V: Floats
    W_O: Floats


def hardmax_cases(pair: tuple[Sequence[int], Sequence[int]] = PAIR) -> tuple[HardmaxCase, ...]:
    """All that a head can do with multiples of one vector: c positive, negative, zero.

    >>> [case.confused for case in hardmax_cases()], [case.confused for case in hardmax_cases(PRINTED_PAIR)]
    ([True, True, True], [True, True, False])
    """
    return tuple(HardmaxCase(sign, (_mean(pair[0], sign), _mean(pair[1], sign))) for sign in (1, -1, 0))


def _mean(multiples: Sequence[int], sign: int) -> Fraction:
    scores = [sign * a for a in multiples]
    seen = [a for a, score in zip(multiples, scores, strict=True) if score == max(scores)]
    return Fraction(sum(seen), len(seen))


def hardmax_attention(Z: Sequence[Sequence[float | Fraction]] | Floats, heads: Sequence[HardmaxHead]) -> Rows:
    """Z plus the sum of the heads, in rational arithmetic: every stored float is meant exactly, and ties share."""
    tokens = _exact(Z)
    total = [list(row) for row in tokens]
    for head in heads:
        W_Q, W_K, W_V, W_O = (_exact(W) for W in (head.W_Q, head.W_K, head.W_V, head.W_O))
        queries, keys = _product(tokens, W_Q), _product(tokens, W_K)
        values = _product(_product(tokens, W_V), W_O)
        for i, query in enumerate(queries):
            scores = [sum(q * k for q, k in zip(query, key, strict=True)) for key in keys]
            seen = [value for value, score in zip(values, scores, strict=True) if score == max(scores)]
            for j in range(len(total[i])):
                total[i][j] += sum((value[j] for value in seen), Fraction(0)) / len(seen)
    return total


def are_confused(
    v: Sequence[float] | Floats, heads: Sequence[HardmaxHead], pair: tuple[Sequence[int], Sequence[int]] = PAIR
) -> bool:
    """Whether the layer returns the same for every token that both sequences have: then it is no contextual mapping."""
    along = [Fraction(float(x)) for x in v]
    first, second = (hardmax_attention([[a * x for x in along] for a in part], heads) for part in pair)
    shared = [(i, list(pair[1]).index(a)) for i, a in enumerate(pair[0]) if a in pair[1]]
    return all(first[i] == second[j] for i, j in shared)


def random_heads(rng: np.random.Generator, d: int, s: int, count: int) -> list[HardmaxHead]:
    """Heads to try; now and then one whose keys are all 0, where every score ties."""
    heads = []
    for _ in range(count):
        W_Q, W_K, W_V = (np.round(rng.normal(size=(d, s)), 3) for _ in range(3))
        W_K = W_K * (rng.uniform() > 0.1)
        heads.append(HardmaxHead(W_Q, W_K, W_V, np.round(rng.normal(size=(s, d)), 3)))
    return heads


def _exact(rows: Sequence[Sequence[float | Fraction]] | Floats) -> Rows:
    return [[x if isinstance(x, Fraction) else Fraction(float(x)) for x in row] for row in rows]


def _product(A: Rows, B: Rows) -> Rows:
    columns = list(zip(*B, strict=True))
    return [[sum((a * b for a, b in zip(row, column, strict=True)), Fraction(0)) for column in columns] for row in A]
