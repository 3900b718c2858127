"""Torch's operations along axes: sums, means and variances, extremes and order, softmax, layer norm."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from weightwright.tracing.advice import advice
from weightwright.tracing.arithmetic import add, div, formula, larger, log_of_sum, mul, product, smaller, sub, tree
from weightwright.tracing.operands import constant
from weightwright.tracing.sheet import Codes
from weightwright.tracing.symbolic import Traced, Unusable, called, operation
from weightwright.tracing.user_source import refuse

Dims = int | Sequence[int] | None


def _gathered(x: Traced, dim: Dims) -> tuple[Codes, list[int], int | None]:
    """The codes with the axes to reduce flattened into the last one; these axes; where the axis of tokens is then."""
    listed = range(x.ndim) if dim is None or dim == () or dim == [] else ([dim] if isinstance(dim, int) else dim)
    if any(not -x.ndim <= d < x.ndim for d in listed) and x.ndim:
        raise IndexError(f"dim={dim} for a tensor of {x.ndim} axes")
    dims = sorted({d % x.ndim for d in listed}) if x.ndim else []
    kept = [axis for axis in range(x.ndim) if axis not in dims]
    codes = np.transpose(x.codes, [*kept, *dims]).reshape([*(x.shape[axis] for axis in kept), -1])
    return codes, dims, kept.index(x.token_axis) if x.token_axis in kept else None


def _reduced(x: Traced, codes: Codes, dims: list[int], axis: int | None, keepdim: bool) -> Traced:
    result = Traced(x.sheet, codes, axis)
    for d in dims if keepdim else ():
        result = called("unsqueeze", (result, d))
    return result


def _total(x: Traced, dim: Dims, keepdim: bool, divided_by: float | None) -> Traced:
    """The sum, or the sum divided by a number; by how many there are if that is None."""
    codes, dims, axis = _gathered(x, dim)
    weight = 1.0 / (codes.shape[-1] if divided_by is None else divided_by)
    made = x.sheet.linear(codes, np.full(codes.shape[-1], weight), np.zeros(()), axis)
    return _reduced(x, made, dims, axis, keepdim)


def _folded(make: Any, x: Traced, dim: Dims, keepdim: bool) -> Traced:
    codes, dims, axis = _gathered(x, dim)
    made = x.sheet.pointwise(lambda columns: [tree(make, x.sheet, list(columns))], codes, axis)[..., 0]
    return _reduced(x, made, dims, axis, keepdim)


@operation("sum")
def total(input: Traced, dim: Dims = None, keepdim: bool = False) -> Traced:
    return _total(input, dim, keepdim, 1.0)


@operation("mean")
def mean(input: Traced, dim: Dims = None, keepdim: bool = False) -> Traced:
    return _total(input, dim, keepdim, None)


@operation("var")
def var(
    input: Traced, dim: Any = None, unbiased: bool = True, keepdim: bool = False, correction: float | None = None
) -> Traced:
    """The mean square of x - mean, with torch's divisor N - 1 unless told otherwise."""
    if isinstance(dim, bool):  # torch takes x.var(False) for unbiased=False
        dim, unbiased = None, dim
    less = float(unbiased) if correction is None else float(correction)
    count = _gathered(input, dim)[0].shape[-1] - less
    if count <= 0:
        raise refuse(f"var over {count + less:g} numbers with correction {less:g}", "use unbiased=False")
    apart = sub(input, mean(input, dim, keepdim=True))
    return _total(mul(apart, apart), dim, keepdim, count)


@operation("std")
def std(
    input: Traced, dim: Any = None, unbiased: bool = True, keepdim: bool = False, correction: float | None = None
) -> Traced:
    return formula("sqrt(x)", var(input, dim, unbiased, keepdim, correction))


@operation("var_mean")
def var_mean(
    input: Traced, dim: Any = None, unbiased: bool = True, keepdim: bool = False, correction: float | None = None
) -> tuple[Traced, Traced]:
    return var(input, dim, unbiased, keepdim, correction), mean(input, dim, keepdim)


@operation("prod")
def prod(input: Traced, dim: int | None = None, keepdim: bool = False) -> Traced:
    return _folded(product, input, dim, keepdim)


@operation("amax")
def amax(input: Traced, dim: Dims = None, keepdim: bool = False) -> Traced:
    return _folded(larger, input, dim, keepdim)


@operation("amin")
def amin(input: Traced, dim: Dims = None, keepdim: bool = False) -> Traced:
    return _folded(smaller, input, dim, keepdim)


class Extremes(NamedTuple):
    """What max, min, sort and the like return along an axis."""

    values: Traced
    indices: Unusable


@operation("max")
def largest(input: Traced, dim: Any = None, keepdim: bool = False, other: Any = None) -> Any:
    return _extreme("maximum", amax, input, dim, keepdim, other)


@operation("min")
def smallest(input: Traced, dim: Any = None, keepdim: bool = False, other: Any = None) -> Any:
    return _extreme("minimum", amin, input, dim, keepdim, other)


def _extreme(of_two: str, along: Any, input: Traced, dim: Any, keepdim: bool, other: Any) -> Any:
    """torch's three meanings: of all, along an axis, of two tensors."""
    second = dim if isinstance(dim, Traced | torch.Tensor) else other
    if second is not None:
        return called(of_two, (input, second))
    if dim is None:
        return along(input)
    positions = Unusable("the position of the largest or smallest value was asked for", advice("argmax"))
    return Extremes(along(input, dim, keepdim), positions)


def _in_order(x: Traced, dim: int) -> Traced:
    """Sorted along an axis, smallest first: Batcher's network, one relu for each pair that it compares."""
    codes, _, axis = _gathered(x, dim)

    def make(columns: Sequence[int]) -> list[int]:
        ordered = list(columns)
        for i, j in _pairs(len(ordered)):
            a, b = ordered[i], ordered[j]
            ordered[i], ordered[j] = smaller(x.sheet, a, b), larger(x.sheet, a, b)
        return ordered

    made = Traced(x.sheet, x.sheet.pointwise(make, codes, axis), axis)
    return called("movedim", (made, -1, dim))


def _pairs(n: int) -> Iterator[tuple[int, int]]:
    """Odd-even merge sort: which places are compared, one after the other (Knuth, 5.2.2, Algorithm M)."""
    top = p = 1 << max(n - 1, 1).bit_length() - 1
    while p:
        q, r, d = top, 0, p
        while True:
            yield from ((i, i + d) for i in range(n - d) if i & p == r)
            if q == p:
                break
            d, q, r = q - p, q // 2, p
        p //= 2


_NO_POSITIONS = "the positions of sorted values were asked for"


@operation("sort")
def sort(input: Traced, dim: int = -1, descending: bool = False, stable: bool | None = None) -> Extremes:
    ordered = _in_order(input, dim)
    values = called("flip", (ordered, [dim])) if descending else ordered
    return Extremes(values, Unusable(_NO_POSITIONS, advice("argsort")))


@operation("msort")
def msort(input: Traced) -> Traced:
    return _in_order(input, 0)


@operation("topk")
def topk(input: Traced, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Extremes:
    values, positions = sort(input, dim, descending=largest)
    return Extremes(called("narrow", (values, dim, 0, k)), positions)


@operation("kthvalue")
def kthvalue(input: Traced, k: int, dim: int = -1, keepdim: bool = False) -> Extremes:
    values, positions = sort(input, dim)
    place = called("narrow", (values, dim, k - 1, 1))
    return Extremes(place if keepdim else called("squeeze", (place, dim)), positions)


@operation("median")
def median(input: Traced, dim: int | None = None, keepdim: bool = False) -> Any:
    """torch's: of an even number the lower of the two in the middle."""
    if dim is None:
        flat = called("flatten", (input,))
        return kthvalue(flat, (flat.shape[0] + 1) // 2, 0).values
    return kthvalue(input, (input.shape[dim] + 1) // 2, dim, keepdim)


@operation("logsumexp")
def logsumexp(input: Traced, dim: Dims, keepdim: bool = False) -> Traced:
    return _folded(log_of_sum, input, dim, keepdim)


@operation("softmax")
def softmax(input: Traced, dim: int | None = None, _stacklevel: int = 3) -> Traced:
    if dim is None:
        raise refuse("softmax without dim cannot be traced", "say over which axis: dim=-1")
    sheet, place = input.sheet, range(input.ndim)[dim]
    axis = input.token_axis
    inner = None if axis is None or axis == place else axis - (axis > place)
    last = np.moveaxis(input.codes, place, -1)
    made = sheet.pointwise(lambda columns: sheet.columns.softmax(columns, sheet.label), last, inner)
    return Traced(sheet, np.moveaxis(made, -1, place), axis)


@operation("softmin")
def softmin(input: Traced, dim: int | None = None, _stacklevel: int = 3) -> Traced:
    return softmax(mul(input, -1.0), dim)


@operation("log_softmax")
def log_softmax(input: Traced, dim: int | None = None, _stacklevel: int = 3) -> Traced:
    if dim is None:
        raise refuse("log_softmax without dim cannot be traced", "say over which axis: dim=-1")
    return sub(input, logsumexp(input, dim, keepdim=True))


@operation("norm")
def norm(input: Traced, p: Any = "fro", dim: Dims = None, keepdim: bool = False) -> Traced:
    """Of all numbers along the axes, also with p="fro"."""
    return vector_norm(input, 2 if p in ("fro", None) else p, dim, keepdim)


@operation("linalg_vector_norm")
def vector_norm(x: Traced, ord: Any = 2, dim: Dims = None, keepdim: bool = False) -> Traced:
    if ord == 2:
        return formula("sqrt(x)", total(formula("x**2", x), dim, keepdim))
    if ord == 1:
        return total(formula("abs(x)", x), dim, keepdim)
    if ord == float("inf"):
        return amax(formula("abs(x)", x), dim, keepdim)
    raise refuse(f"the norm with p={ord!r} cannot be traced", "use p=1, p=2 or p=inf")


@operation("linalg_norm")
def linalg_norm(A: Traced, ord: Any = None, dim: Dims = None, keepdim: bool = False) -> Traced:
    """torch takes two axes for those of a matrix, once an order is said."""
    axes = A.ndim if dim is None else len([dim] if isinstance(dim, int) else dim)
    if ord is None or axes == 1:
        return norm(A, ord, dim, keepdim)
    return matrix_norm(A, ord, dim, keepdim)


@operation("linalg_matrix_norm")
def matrix_norm(A: Traced, ord: Any = "fro", dim: Dims = (-2, -1), keepdim: bool = False) -> Traced:
    if ord != "fro":
        raise refuse(f"the matrix norm of order {ord!r} cannot be traced", "use torch.linalg.vector_norm, or ord='fro'")
    return norm(A, "fro", dim, keepdim)


@operation("normalize")
def normalize(input: Traced, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: None = None) -> Traced:
    return div(input, called("clamp", (norm(input, p, dim, keepdim=True),), {"min": eps}))


@operation("layer_norm")
def layer_norm(
    input: Traced, normalized_shape: Sequence[int], weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Traced:
    dims = _last(input, normalized_shape)
    apart = sub(input, mean(input, dims, keepdim=True))
    return _scaled(apart, dims, weight, bias, eps)


@operation("rms_norm")
def rms_norm(input: Traced, normalized_shape: Sequence[int], weight: Any = None, eps: float | None = None) -> Traced:
    dims = _last(input, normalized_shape)
    return _scaled(input, dims, weight, None, torch.finfo(torch.float64).eps if eps is None else eps)


def _last(input: Traced, normalized_shape: Sequence[int]) -> list[int]:
    """The last axes, which must have this shape."""
    dims = list(range(-len(normalized_shape), 0))
    if tuple(input.shape[dims[0] :]) != tuple(normalized_shape):
        raise ValueError(f"normalized_shape={tuple(normalized_shape)}")
    return dims


def _scaled(x: Traced, dims: list[int], weight: Any, bias: Any, eps: float) -> Traced:
    """x over the root of its mean square plus eps, times weight, plus bias."""
    scale = formula("1/sqrt(x)", add(mean(mul(x, x), dims, keepdim=True), eps))
    result = mul(x, scale)
    result = result if weight is None else mul(result, weight)
    return result if bias is None else add(result, bias)


@operation("batch_norm")
def batch_norm(
    input: Traced,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Traced:
    """With the running averages, as in eval mode: a scale and a shift of every feature."""
    if training or running_mean is None:
        raise refuse("batch_norm in training mode cannot be traced", "call .eval() on the module first")
    scale = (constant(running_var) + eps).rsqrt() * (1.0 if weight is None else constant(weight))
    shift = (0.0 if bias is None else constant(bias)) - constant(running_mean) * scale
    if input.ndim != 2:
        raise refuse("batch_norm of other shapes than (tokens, features) cannot be traced", "use nn.LayerNorm")
    return add(mul(input, scale), shift)


@operation("dropout", "alpha_dropout", "feature_dropout")
def dropout(input: Traced, p: float = 0.5, training: bool = True) -> Traced:
    if training and p:
        raise refuse("dropout in training mode is random", "call .eval() on the module first")
    return input
