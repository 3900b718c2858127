"""A windowed head in torch: the anchors near the query are weighed by powers of one exponential.

Anchors L stand on whole numbers, i is the one nearest to the query t, and f = t - i, at most 1/2. Then

    exp(-c (t - i - m)^2) = exp(-c f^2) e_m z^m,    e_m = exp(-c m^2),    z = exp(2 c f),

and the first factor is common to all anchors: the head returns

    sum of e_m z^m v_{i+m} / sum of e_m z^m,    m = -M .. M.

Rounding: t - i and 2 c f are exact (c is a power of two), z is one exp, 1/z one division, every power one product
more than the one before, every weight one product more; then two sums and one division. No maximum is subtracted: the
weights lie between about e^(-c M (M + 1)) and e^c.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from weightwright.runtime.kernels.table_kernel import in_one_kernel, is_transformed

#: Queries that a thread computes at a time: few enough for the intermediates to stay in its cache, and as many as torch
#: gives to one thread at least.
CHUNK = 2**16

# The first exp of a process settles which of MKL's kernels is used. If two threads come first at the same time, one of
# them may compute its share with 26 bits (pytorch issue 188792; seen here once): so one thread comes first, here.
for _dtype in (torch.float32, torch.float64):
    torch.exp(torch.zeros(1, dtype=_dtype))


def decay(c: float, M: int, dtype: torch.dtype) -> Tensor:
    """e_m = exp(-c m^2) for m = 0 .. M, rounded to the dtype."""
    return torch.tensor([math.exp(-c * m * m) for m in range(M + 1)], dtype=torch.float64).to(dtype)


@dataclass(frozen=True, eq=False)
class WindowTable:
    """A table of anchors on whole numbers, of which those near the query are looked at."""

    V: Tensor  # (p, v)
    decay: Tensor  # (M + 1,)
    first: float  # anchor
    beta: float

    def from_inputs(self, ends: Tensor, mark: Tensor | None) -> Callable[[Tensor], Tensor]:
        """The outputs of a network that is one head with this table, (N,) at inputs (N,), as `window_triton` says."""
        from weightwright.runtime.kernels.window_triton import from_inputs

        return from_inputs(self.V, self.decay, self.first, self.beta, ends, mark)

    def __call__(self, Q: Tensor) -> Tensor:
        """(N, v) at the queries Q (N, 1), in units of the grid."""
        return attend(Q[:, 0], self.V, self.decay, self.first, self.beta)


def attend(t: Tensor, values: Tensor, e: Tensor, first: float, c: float) -> Tensor:
    """The head at the queries t (..., n): (..., n, v), for values (p, v) at the anchors first, first + 1, ...

    A query with fewer than M anchors on one side counts as the last that has them. NaN gives NaN.
    """
    flat = t.reshape(-1)
    if in_one_kernel(flat) and max(-first, first + len(values)) < 2**21:
        from weightwright.runtime.kernels.window_triton import attend as kernel

        mixed = kernel(flat, values, e, first, c)
    else:
        columns = values.T.contiguous().unbind()
        gradient = torch.is_grad_enabled() and (flat.requires_grad or values.requires_grad)
        plain = not (gradient or torch.compiler.is_compiling() or is_transformed(flat) or is_transformed(values))
        mixed = (_in_parts if plain else _chunk)(flat, columns, e, first, c)
    return mixed.T.reshape(*t.shape, values.shape[1])


def _in_parts(t: Tensor, columns: tuple[Tensor, ...], e: Tensor, first: float, c: float) -> Tensor:
    """(v, n), for v columns of p values: what `_chunk` computes, in tensors that are used again and again."""
    M, p, at_once = len(e) - 1, len(columns[0]), CHUNK * torch.get_num_threads()
    out = t.new_empty(len(columns), len(t))
    work, decays = t.new_empty(6, min(at_once, len(t))), e.tolist()
    for begin in range(0, len(t), at_once):
        part = t[begin : begin + at_once]
        mixed = out[:, begin : begin + at_once]
        z, z_inverse, total, weight, *powers = work[:, : len(part)]
        inside = torch.clamp(part, first + M - 0.5, first + p - 1 - M + 0.5, out=z)
        near = torch.round(inside, out=weight).clamp_(first + M, first + p - 1 - M)
        start = torch.sub(near, first + M, out=total).to(torch.int32)  # the window's first anchor
        start = start.clamp_(0, p - 1 - 2 * M).long()  # NaN is no number, and index_select likes long ones best
        exponent = inside.sub_(near)
        torch.exp(exponent if c == 0.5 else exponent.mul_(2 * c), out=z)
        torch.reciprocal(z, out=z_inverse)
        for column, mix in zip(columns, mixed, strict=True):
            torch.index_select(column[M:], 0, start, out=mix)
        above, below = z, z_inverse
        for m in range(1, M + 1):
            if m > 1:
                above, below = torch.mul(above, z, out=powers[0]), torch.mul(below, z_inverse, out=powers[1])
            for power, place in ((above, M + m), (below, M - m)):
                torch.mul(power, decays[m], out=weight)
                torch.add(weight, 1.0 if place == M + 1 else total, out=total)
                for column, mix in zip(columns, mixed, strict=True):
                    mix.addcmul_(weight, column[place:].index_select(0, start))
        mixed.div_(total)
    return out


def _chunk(t: Tensor, columns: tuple[Tensor, ...], e: Tensor, first: float, c: float) -> Tensor:
    """The same with gradients."""
    M, p = len(e) - 1, len(columns[0])
    t = t.clamp(first + M - 0.5, first + p - 1 - M + 0.5)
    start = (torch.round(t).to(torch.int32) - int(first) - M).clamp(0, p - 1 - 2 * M)  # the window's first anchor
    z = torch.exp(2 * c * (t - (start + int(first) + M)))
    z_inverse = 1 / z
    above, below = z, z_inverse  # z^m and z^-m
    total = torch.ones_like(t)
    mixed = [column[M:].index_select(0, start) for column in columns]
    for m in range(1, M + 1):
        if m > 1:
            above, below = above * z, below * z_inverse
        right, left = e[m] * above, e[m] * below
        total = total + right + left
        for j, column in enumerate(columns):
            mixed[j] = mixed[j].addcmul(right, column[M + m :].index_select(0, start))
            mixed[j] = mixed[j].addcmul(left, column[M - m :].index_select(0, start))
    return torch.stack([column / total for column in mixed])


def attend_densely(t: Tensor, values: Tensor, L: Tensor, M: int, c: float) -> Tensor:
    """The same at anchors L (p,) with gradients for them too: scores by squares, and no weight beyond the window."""
    t = t[..., None].clamp(L[M].item() - 0.5, L[-1 - M].item() + 0.5)
    near = (L - t.round().clamp(L[M].item(), L[-1 - M].item())).abs() <= M
    return torch.softmax((-c * (t - L) ** 2).masked_fill(~near, -torch.inf), -1) @ values
