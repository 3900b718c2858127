"""Gradient descent on every prefix of a prompt x_1, y_1, x_2, y_2, ...: the functions, and the network that runs them.

With c = 2^-k the least power of two that is at least 1/examples, every token i has A_i = c sum of x_j x_j^T and
b_i = c sum of y_j x_j over the examples before it. A pass of the loop takes w to alpha w - rate (A_i w - b_i), and the
prediction to w.x of the w that it begins with; so after `steps` + 1 passes the prediction is that of `steps` steps.

Layers: a head that brings x_j to y_j's token; products, two squares each; a head that adds up what stands before a
token, the rest of its weight being on a register of value 0; then the loop, in which no token sees another.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from weightwright.box import Box
from weightwright.compiler.loop.own_states import Stages
from weightwright.incontext.networks.descent_network import Ranges
from weightwright.tracing.following.traced_function import trace_function

#: The domain of a pass is wider than what exact sums can be, by this share of their size.
ROOM = 2.0**-10


@dataclass(frozen=True)
class PrefixDescent:
    """`steps` steps of gradient descent on the mean squared loss over `examples` examples, those to come counting as 0,
    with a ridge penalty: its numbers as floats, and how large everything may get."""

    features: int
    examples: int
    steps: int
    step: float
    ridge: float
    ranges: Ranges

    @property
    def tokens(self) -> int:
        return 2 * self.examples

    @property
    def share(self) -> float:
        """c: what every example counts in A and b, a power of two."""
        return 2.0 ** -math.floor(math.log2(self.examples))

    @property
    def rate(self) -> float:
        """The step for A and b, step / (examples c), rounded."""
        return self.step / (self.examples * self.share)

    @property
    def alpha(self) -> float:
        """What is kept of w, 1 - step ridge, rounded."""
        return 1.0 - self.step * self.ridge

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The entries of A that are stored, row by row: it is symmetric."""
        return [(r, s) for r in range(self.features) for s in range(r, self.features)]

    @property
    def names(self) -> tuple[str, ...]:
        """Features of a pass, then states."""
        d = range(self.features)
        A = [f"A[{r},{s}]" for r, s in self.pairs]
        return (*A, *(f"{group}[{r}]" for group in ("b", "x", "w") for r in d), "prediction")

    @property
    def sizes(self) -> np.ndarray:
        """How large features and states of a pass may be, in the order of their names."""
        d, largest = self.features, self.examples * self.share
        x, y, w = self.ranges.x, self.ranges.y, self.ranges.w
        sizes = [largest * x * x] * len(self.pairs) + [largest * x * y] * d + [x] * d + [w] * d + [d * x * w]
        return np.array(sizes) * (1 + ROOM)


def shift_tokens(descent: PrefixDescent) -> Tensor:
    """(tokens, tokens): x_j on the token of y_j, 0 on those of x."""
    n = descent.tokens
    moved = torch.zeros(n, n, dtype=torch.float64)
    moved[range(1, n, 2), range(0, n, 2)] = 1.0
    return moved


def sum_before(descent: PrefixDescent) -> Tensor:
    """(tokens, tokens): c times the sum over all y tokens up to a token."""
    n = descent.tokens
    total = torch.tril(torch.full((n, n), descent.share, dtype=torch.float64))
    total[:, 0::2] = 0.0
    return total


def moments(descent: PrefixDescent) -> Callable[[Tensor], Tensor]:
    """(tokens, features + 1), x and y, to (tokens, entries of A, then b)."""
    d, shift, total = descent.features, shift_tokens(descent), sum_before(descent)

    def moments(prompt: Tensor) -> Tensor:
        x = shift @ prompt[:, :d]
        products = [x[:, r] * x[:, s] for r, s in descent.pairs] + [x[:, r] * prompt[:, d] for r in range(d)]
        return total @ torch.stack(products, dim=1)

    return moments


def inner_product(a: list[Tensor], b: list[Tensor]) -> Tensor:
    return torch.stack([x * y for x, y in zip(a, b, strict=True)], dim=1).sum(dim=1)


def descend_once(descent: PrefixDescent, held: Tensor, w: list[Tensor]) -> list[Tensor]:
    """w after one more step. held: the entries of A, then b, on every token."""
    d, place = descent.features, {}
    for k, (r, s) in enumerate(descent.pairs):
        place[r, s] = place[s, r] = k
    b = len(descent.pairs)
    rows = [[held[:, place[r, s]] for s in range(d)] for r in range(d)]
    slopes = [inner_product(rows[r], w) - held[:, b + r] for r in range(d)]
    return [descent.alpha * w[r] - descent.rate * slopes[r] for r in range(d)]


def stages(descent: PrefixDescent) -> Stages:
    """What stands before the loop, and one pass of it, as graphs."""
    d, count = descent.features, len(descent.pairs) + descent.features
    e, sums = count + d, moments(descent)
    begin = torch.zeros(descent.tokens, d + 1, dtype=torch.float64)

    def sums_over_prefixes(prompt: Tensor) -> Tensor:
        return torch.cat([sums(prompt), prompt[:, :d], begin], dim=1)

    def step_of_descent(held: Tensor) -> Tensor:
        x, w = ([held[:, start + r] for r in range(d)] for start in (count, e))
        prediction = inner_product(w, x)
        return torch.cat([held, torch.stack([*descend_once(descent, held, w), prediction], dim=1)], dim=1)

    largest = np.array([descent.ranges.x] * d + [descent.ranges.y])
    return Stages(
        before=trace_function(sums_over_prefixes, d + 1, descent.tokens),
        prompt=Box(-largest, largest),
        rule=trace_function(step_of_descent, e + d + 1, None),
        one_pass=Box(-descent.sizes, descent.sizes),
        features=e,
        inputs=(*(f"x[{r}]" for r in range(d)), "y"),
        entering=descent.names,
        read=1,
    )


def all_steps(descent: PrefixDescent) -> Callable[[Tensor], Tensor]:
    """The whole algorithm as one function, (tokens, features + 1) -> (tokens, 1): its steps one after the other."""
    d, sums = descent.features, moments(descent)

    def descent_on_prefixes(prompt: Tensor) -> Tensor:
        held = sums(prompt)
        b = len(descent.pairs)
        w = [descent.rate * held[:, b + r] for r in range(d)]  # the first step, from 0
        for _ in range(descent.steps - 1):
            w = descend_once(descent, held, w)
        return inner_product(w, [prompt[:, r] for r in range(d)])[:, None]

    return descent_on_prefixes
