"""What a piece of the stream holds: (B or 1, n or 1, width), with 1 where all inputs or all tokens hold the same.

Every sum here is one that the written network has too, in another order: docs/certificates.md, "In context", counts
the roundings of both orders.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

Weight = float | Tensor


@dataclass(frozen=True, eq=False)
class Product:
    """coefficient (B, n or 1, 1) times base, not multiplied out: a sum over the tokens is then one matrix product."""

    coefficient: Tensor
    base: Tensor


Value = Tensor | Product | None  # None: all zeros


def multiplied_out(value: Tensor | Product) -> Tensor:
    return value.coefficient * value.base if isinstance(value, Product) else value


def scaled(value: Tensor, weight: Weight) -> Tensor:
    return value if isinstance(weight, float) and weight == 1.0 else value * weight


def add_up(terms: Sequence[tuple[Value, Weight]]) -> Value:
    """The sum of values times weights; the value itself where there is nothing to add or multiply."""
    there = [(value, weight) for value, weight in terms if value is not None]
    if len(there) == 1 and isinstance(there[0][1], float) and there[0][1] == 1.0:
        return there[0][0]
    return (_add_coefficients(there) or _add_numbers(there)) if there else None


def _add_coefficients(terms: Sequence[tuple[Tensor | Product, Weight]]) -> Product | None:
    """Products with one base: their coefficients are added. Not where a power of two times the base is added: that
    product is exact when multiplied out, and the bound counts no rounding for it."""
    bases = {id(value.base): value.base for value, _ in terms if isinstance(value, Product)}
    if len(bases) != 1:
        return None
    (base,), coefficient = bases.values(), None
    constant = 0.0
    for value, weight in terms:
        if not isinstance(weight, float):
            return None
        if isinstance(value, Product):
            part = scaled(value.coefficient, weight)
            coefficient = part if coefficient is None else coefficient + part
        elif value is base and constant == 0.0 and math.frexp(abs(weight))[0] != 0.5:
            constant = weight
        else:
            return None
    assert coefficient is not None
    return Product(coefficient + constant if constant else coefficient, base)


def _add_numbers(terms: Sequence[tuple[Tensor | Product, Weight]]) -> Tensor:
    total = None
    for value, weight in terms:
        number = multiplied_out(value)
        if total is None:
            total = scaled(number, weight)
        elif isinstance(weight, float):
            total = torch.add(total, number, alpha=weight)
        else:
            total = total + number * weight
    assert total is not None
    return total


def sum_over_tokens(value: Value, n: int) -> Tensor | None:
    """(B, 1, width): the sum of all n tokens."""
    if value is None:
        return None
    if isinstance(value, Tensor):
        return value.sum(-2, keepdim=True) if value.shape[-2] == n else value * float(n)
    c, base = value.coefficient, value.base
    if c.shape[-2] == n and base.shape[-2] == n:
        return c.mT @ base
    return sum_over_tokens(c, n) * base if c.shape[-2] == n else c * sum_over_tokens(base, n)  # type: ignore[operator]


def inner_product(a: Tensor, b: Tensor) -> Tensor:
    """(B, n or 1, 1)."""
    if a.shape[-1] == 1:
        return a * b
    if (a.shape[-2] == 1) != (b.shape[-2] == 1):
        return b @ a.mT if a.shape[-2] == 1 else a @ b.mT
    return (a * b).sum(-1, keepdim=True)


class Memory:
    """What was computed in this pass and the last, by the tensors that it was computed from: what does not change from
    pass to pass is computed once."""

    def __init__(self) -> None:
        self.last: dict[tuple[int, ...], tuple[tuple[Tensor, ...], Tensor]] = {}
        self.now: dict[tuple[int, ...], tuple[tuple[Tensor, ...], Tensor]] = {}

    def next_pass(self) -> None:
        self.last, self.now = self.now, {}

    def once(self, function: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
        key = (id(function), *map(id, tensors))
        held = self.now.get(key) or self.last.get(key)
        if held is None:
            held = tensors, function(*tensors)  # the tensors are held, so that no other gets their id
        self.now[key] = held
        return held[1]
