"""Sums of products: matrix products, einsum, linear layers; small linear systems by determinants."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
import torch

from weightwright.tracing.arithmetic import add, div, mul, product
from weightwright.tracing.operands import constant, elementwise, operand
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


def matmul(input: Any, other: Any) -> Any:
    """As the user's own: a product of queries and keys may wait."""
    return called("matmul", (input, other))


def multiply_matrices(input: Any, other: Any) -> Traced:
    """Every product of columns as one."""
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


#: Rows of the largest system that is solved by determinants; those of four rows have 24 products of four numbers each.
LARGEST_SYSTEM = 3


@operation("linalg_det", "det")
def det(A: Any) -> Traced:
    """Of matrices of at most three rows: the sum of products along the first row and its cofactors."""
    a = _entries(A, "linalg.det")
    return add(0.0, _along_first_row(a, _cofactors(a)))


@operation("linalg_inv", "inverse")
def inv(A: Any) -> Traced:
    """The transposed cofactors over the determinant."""
    return _inverse(_entries(A, "linalg.inv"))


def _inverse(a: list[list[Any]]) -> Traced:
    cofactors, n = _cofactors(a), len(a)
    over = div(1.0, _along_first_row(a, cofactors))
    rows = [[mul(cofactors[j][i], over) for j in range(n)] for i in range(n)]
    return called("stack", ([called("stack", (row, -1)) for row in rows], -2))


@operation("linalg_solve")
def solve(A: Any, B: Any, left: bool = True) -> Traced:
    """Cramer's rule. B: (..., n), or (..., n, k) for several right-hand sides."""
    if not left:
        raise refuse("linalg.solve with left=False cannot be traced", "solve the transposed system")
    b = operand(B)
    vector = b.ndim == 1 or (b.ndim == A.ndim - 1 and tuple(b.shape) == tuple(A.shape[:-1]))
    found = matmul(_inverse(_entries(A, "linalg.solve")), b.unsqueeze(-1) if vector else b)
    return called("squeeze", (found, -1)) if vector else found


def _entries(A: Any, name: str) -> list[list[Any]]:
    """The entries of square matrices (..., n, n), each (...)."""
    a = operand(A)
    n = a.shape[-1]
    if a.ndim < 2 or a.shape[-2] != n:
        raise ValueError("the matrix must be square")
    if n > LARGEST_SYSTEM:
        raise refuse(
            f"{name} of a matrix of {n} rows cannot be traced: it takes at most {LARGEST_SYSTEM}",
            "let the state hold the solution and take steps towards it in every pass, such as w + step * (b - A @ w)",
        )
    return [[a[..., i, j] for j in range(n)] for i in range(n)]


def _cofactors(a: list[list[Any]]) -> list[list[Any]]:
    """(-1)^(i + j) times the determinant without row i and column j."""
    n = len(a)
    if n == 1:
        return [[torch.ones((), dtype=torch.float64)]]
    if n == 2:
        return [[a[1][1], -a[1][0]], [-a[0][1], a[0][0]]]
    return [[_minor(a, i, j) for j in range(n)] for i in range(n)]


def _minor(a: list[list[Any]], i: int, j: int) -> Any:
    """Of three rows, by the next two rows and columns in the order of a circle: then the sign is right."""
    (p, q), (r, s) = ((i + 1) % 3, (i + 2) % 3), ((j + 1) % 3, (j + 2) % 3)
    return a[p][r] * a[q][s] - a[p][s] * a[q][r]


def _along_first_row(a: list[list[Any]], cofactors: list[list[Any]]) -> Any:
    return reduce(lambda total, pair: total + pair[0] * pair[1], zip(a[0], cofactors[0], strict=True), 0.0)


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
