"""What an interpreter costs, as formulas of its sizes: equal to what is built. And what the papers' would cost.

T tokens of a prompt, d features, h the size of queries and keys, m heads; R = 2 h + d rows of W_K, W_Q and W_V.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from weightwright.interpreter.frozen_module import Sizes


@dataclass(frozen=True)
class ModuleCost:
    """prompt: tokens and numbers of each. anchors: keys of tables, over all heads of layer 0, in the prompt.
    multiply_adds: for each token of the prompt, dense maps."""

    prompt: tuple[int, int]
    width: int
    layers: int
    heads: int
    anchors: int
    parameters: int
    multiply_adds: int


@dataclass(frozen=True)
class PapersCost:
    """product_error: of k, q and v, that leaves the asked error. heads: of layer 0, and one. anchors: in each.
    prompt: tokens and numbers of each."""

    theorem: str
    product_error: float
    heads: int
    anchors: int
    prompt: tuple[int, int]


def module_cost(sizes: Sizes, anchors: Sequence[int]) -> ModuleCost:
    """anchors: of the tables of keys, queries and values.

    numbers of a token   I = d + m R d + 2 T (embedding), d + 3 m d + 2 T (stacked)
    coordinates          D = 2 d + 2 T + 7 + m R (d + 1)
    maps of the prompt   t = 4 (embedding), 1 + R (stacked)
    parameters           t I D + T D + (t - 1) T² + m R D (2 d + 4) + m D (2 h + 2 T + 2 d) + D d + d
    """
    T, d, h, m = sizes.tokens, sizes.features, sizes.head_dim, sizes.heads
    R = 2 * h + d
    numbers = d + (3 * m * d if sizes.stacked else m * R * d) + 2 * T
    width = 2 * d + 2 * T + 7 + m * R * (d + 1)
    maps = 1 + (R if sizes.stacked else 3)
    product, attention = width * (2 * d + 4), width * (2 * h + 2 * T + 2 * d)  # weights of a head
    parameters = maps * numbers * width + T * width + (maps - 1) * T**2 + m * (R * product + attention) + width * d + d
    work = maps * T * numbers * width + (maps - 1) * T**2 * width + T * width * d
    work += m * R * (T * product + T**2 * (d + 2)) + m * (T * attention + T**2 * (h + T + d))
    held = sum(count * sizes.heads * sizes.rows(part) for count, part in zip(anchors, "kqv", strict=True))
    return ModuleCost((T, numbers), width, 2, m * (R + 1), held, parameters, -(-work // T))


def papers_cost(sizes: Sizes, n: int, reach: float, tol: float) -> PapersCost:
    """For one head on n tokens whose K, Q, V are up to B = reach.

    The error is e0 + n B e1 at most, e1 = 2 (e^(h (2 B + 1) e0) - 1) (the proof has 1 - e^-, for one sign only): e0 is
    what makes that tol. Theorem 4.1 takes H = 2 (b - a) / ((n - 2) e0) heads of n keys for each of R rows, b - a = 2 B;
    Theorem 4.2 3 n heads of P + 1 keys, P = 2 (b - a) / e0 for the same spacing of anchors.
    """
    if not tol > 0:
        raise ValueError(f"tol must be a positive number, not {tol!r}")
    d, h = sizes.features, sizes.head_dim
    low, high = 0.0, min(1.0, tol)
    for _ in range(200):
        middle = (low + high) / 2
        total = middle + n * reach * 2 * math.expm1(h * (2 * reach + 1) * middle)
        low, high = (middle, high) if total <= tol else (low, middle)
    spread = 2 * reach
    if sizes.stacked:
        P = math.ceil(2 * spread / low)
        return PapersCost("AE-10", low, 3 * n + 1, P + 1, (n, 4 * d))
    if n < 3:
        raise ValueError(f"the paper's first form needs 3 tokens at least, and the interpreter has tokens={n}")
    H = math.ceil(2 * spread / ((n - 2) * low))
    return PapersCost("AE-9", low, (2 * h + d) * H + 1, n, (n, d + 2 * (2 * h + d) * d + n))
