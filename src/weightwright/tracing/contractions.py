"""Sums of products: matrix products, einsum, linear layers, attention."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from weightwright.tracing.arithmetic import add, mul, product
from weightwright.tracing.operands import constant, elementwise, operand
from weightwright.tracing.reductions import softmax
from weightwright.tracing.symbolic import Traced, called, operation
from weightwright.tracing.user_source import refuse


def contracted(a: Any, b: Any, last: int, bias: Any = None) -> Traced:
    """The product of two operands with equally many axes, which are broadcast, summed over the last axes."""
    if isinstance(a, Traced) and isinstance(b, Traced):
        return called("sum", (elementwise(product, a, b), tuple(range(-last, 0))))
    traced, fixed = (a, b) if isinstance(a, Traced) else (b, a)
    shape = np.broadcast_shapes(tuple(traced.shape), tuple(fixed.shape))
    kept = len(shape) - last
    codes = np.broadcast_to(traced.codes, (*traced.shape[:kept], *shape[kept:])).reshape(*traced.shape[:kept], -1)
    weights = np.broadcast_to(fixed.numpy(), (*fixed.shape[:kept], *shape[kept:])).reshape(*fixed.shape[:kept], -1)
    axis = _axis_of_sums(traced, fixed, kept)
    shift = np.zeros(()) if bias is None else constant(bias).numpy()
    return Traced(traced.sheet, traced.sheet.linear(codes, weights, shift, axis), axis)


def _axis_of_sums(traced: Traced, fixed: torch.Tensor, kept: int) -> int | None:
    """The axis of the tokens stays, or is summed over. Then a square matrix of constants gives a new one."""
    if traced.token_axis is None or traced.token_axis < kept:
        return traced.token_axis
    n = traced.sheet.n
    return next((axis for axis in range(kept) if fixed.shape[axis] == n and traced.shape[axis] == 1), None)


@operation("matmul", "mm", "bmm", "mv", "dot")
def matmul(input: Any, other: Any) -> Traced:
    a, b = operand(input), operand(other)
    if not a.ndim or not b.ndim:
        raise ValueError("both need at least one axis")
    rows = a.unsqueeze(0) if a.ndim == 1 else a
    columns = b.unsqueeze(1) if b.ndim == 1 else b
    if rows.shape[-1] != columns.shape[-2]:
        raise ValueError(f"{rows.shape[-1]} columns meet {columns.shape[-2]} rows")
    depth = max(rows.ndim, columns.ndim)
    rows, columns = (x[(None,) * (depth - x.ndim)] if x.ndim < depth else x for x in (rows, columns))
    result = contracted(rows.unsqueeze(-2), columns.mT.unsqueeze(-3), 1)
    result = result.squeeze(-1) if b.ndim == 1 else result
    return result.squeeze(-1 if b.ndim == 1 else -2) if a.ndim == 1 else result


@operation("rmatmul")
def rmatmul(input: Any, other: Any) -> Traced:
    return matmul(other, input)


@operation("linear")
def linear(input: Any, weight: Any, bias: Any = None) -> Traced:
    if isinstance(weight, Traced) or isinstance(bias, Traced):
        result = matmul(input, operand(weight).mT)
        return result if bias is None else add(result, bias)
    matrix = constant(weight)
    if input.shape[-1] != matrix.shape[1]:
        raise ValueError(f"the layer takes {matrix.shape[1]} features")
    fixed = matrix[(None,) * (input.ndim - 1)]
    return contracted(input.unsqueeze(-2), fixed, 1, bias)


@operation("inner")
def inner(input: Any, other: Any) -> Traced:
    return linear(operand(input), operand(other)) if operand(other).ndim == 2 else matmul(input, other)


@operation("outer", "ger")
def outer(input: Any, vec2: Any) -> Traced:
    return mul(operand(input).unsqueeze(1), operand(vec2).unsqueeze(0))


@operation("cumsum")
def cumsum(input: Traced, dim: int) -> Traced:
    earlier = torch.ones(input.shape[dim], input.shape[dim], dtype=torch.float64).triu()
    last = input.movedim(dim, -1)
    return (matmul(last, earlier) if input.ndim > 1 else matmul(earlier.T, last)).movedim(-1, dim)


@operation("linalg_vecdot")
def vecdot(x: Any, y: Any, dim: int = -1) -> Traced:
    return called("sum", (mul(x, y), dim))


@operation("addmm", "addmv", "baddbmm")
def addmm(input: Any, mat1: Any, mat2: Any, beta: float = 1, alpha: float = 1) -> Traced:
    return add(mul(matmul(mat1, mat2), alpha), mul(operand(input), beta))


@operation("einsum")
def einsum(equation: str, *operands: Any) -> Traced:
    """Of one or two tensors; every letter once in each of them."""
    parts = operands[0] if len(operands) == 1 and isinstance(operands[0], list | tuple) else operands
    inputs, arrow, output = equation.replace(" ", "").partition("->")
    letters = inputs.split(",")
    if len(parts) > 2:
        raise refuse(f"einsum {equation!r} has {len(parts)} tensors", "multiply two at a time")
    if "." in equation or any(len(set(part)) < len(part) for part in [*letters, output]):
        raise refuse(f"einsum {equation!r} has ... or a letter twice in one tensor", "use each letter once in a tensor")
    every = "".join(letters)
    if not arrow:
        output = "".join(sorted(letter for letter in set(every) if every.count(letter) == 1))
    if len(letters) != len(parts) or not set(output) <= set(every):
        raise ValueError(f"equation {equation!r}")
    summed = "".join(sorted(set(every) - set(output)))
    a, *rest = (
        _spread(operand(part), own, output + summed, equation) for part, own in zip(parts, letters, strict=True)
    )
    b = rest[0] if rest else torch.ones([1] * a.ndim, dtype=torch.float64)
    return contracted(a, b, len(summed)) if summed else mul(a, b)


def _spread(x: Any, letters: str, order: str, equation: str) -> Any:
    """The axes in this order, with axes of length 1 for letters that the tensor does not have."""
    if x.ndim != len(letters):
        raise ValueError(f"equation {equation!r}: {letters!r} for {x.ndim} axes")
    x = x.permute([letters.index(letter) for letter in order if letter in letters])
    for place, letter in enumerate(order):
        x = x if letter in letters else x.unsqueeze(place)
    return x


@operation("scaled_dot_product_attention")
def attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Traced:
    if is_causal or dropout_p or enable_gqa or getattr(attn_mask, "dtype", None) == torch.bool:
        raise refuse(
            "attention with is_causal, dropout_p, enable_gqa or a mask of truth values cannot be traced",
            "write softmax(q @ k.T / d**0.5, -1) @ v; for token t of a causal one with q[t], k[: t + 1], v[: t + 1]",
        )
    q, k, v = operand(query), operand(key), operand(value)
    scores = mul(matmul(q, k.mT), q.shape[-1] ** -0.5 if scale is None else scale)
    return matmul(softmax(scores if attn_mask is None else add(scores, attn_mask), -1), v)
