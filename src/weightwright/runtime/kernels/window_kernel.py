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

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from weightwright.runtime.kernels.table_kernel import in_one_kernel, is_transformed

#: Queries that a thread computes at a time: few enough for the intermediates to stay in its cache, and as many as torch
#: gives to one thread at least.
CHUNK = 2**16

#: Queries below which torch gives an operation to one thread.
_SPLIT = 2**15

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
    """(v, N), for v columns of p values: what `_chunk` computes, in tensors that are used again and again.

    Many queries are taken as (threads, n): every operation, that which gathers values too, gives each thread its own
    row again. A few, and what is left over, are one row.
    """
    M, p, threads = len(e) - 1, len(columns[0]), torch.get_num_threads()
    out = t.new_empty(len(columns), len(t))
    tables = [column.unfold(0, p - 2 * M, 1).contiguous() for column in columns]  # row j: the window's anchor j
    parts = max(1, round(len(t) / (CHUNK * threads)))
    n = len(t) // (parts * threads)
    step = n * threads if n >= _SPLIT else 0
    work = t.new_empty((2 * M + 7) * (step or len(t)))
    ends = [*(k * step for k in range(parts + 1 if step else 1)), len(t)]
    for begin, end in itertools.pairwise(ends):
        if begin < end:
            rows = threads if end - begin == step else 1
            part, mixed = t[begin:end].view(rows, -1), out[:, begin:end].unflatten(1, (rows, -1))
            _in_rows(part, tables, e.tolist(), first, c, work[: (2 * M + 7) * (end - begin)], mixed)
    return out


def _in_rows(
    t: Tensor, tables: list[Tensor], decays: list[float], first: float, c: float, work: Tensor, mixed: Tensor
) -> None:
    """mixed (v, T, n) from queries t (T, n), tables (2M + 1, p - 2M), and (2M + 7) T n numbers to work with."""
    M, starts = len(decays) - 1, tables[0].shape[1]
    z, z_inverse, total, weight, *powers = work[: 6 * t.numel()].view(6, *t.shape)
    values = work[6 * t.numel() :].view(len(t), 2 * M + 1, -1)
    inside = torch.clamp(t, first + M - 0.5, first + M + starts - 0.5, out=z)
    near = torch.round(inside, out=weight).clamp_(first + M, first + M + starts - 1)
    start = torch.sub(near, first + M, out=total).to(torch.int32)  # the window's first anchor
    start = start.clamp_(0, starts - 1).long()  # NaN is no number
    exponent = inside.sub_(near)
    torch.exp(exponent if c == 0.5 else exponent.mul_(2 * c), out=z)
    torch.reciprocal(z, out=z_inverse)
    for table, mix in zip(tables, mixed, strict=True):
        _gather(table, start, values)
        mix.copy_(values[:, M])
        above, below = z, z_inverse
        for m in range(1, M + 1):
            if m > 1:
                above, below = torch.mul(above, z, out=powers[0]), torch.mul(below, z_inverse, out=powers[1])
            for power, place in ((above, M + m), (below, M - m)):
                torch.mul(power, decays[m], out=weight)
                if table is tables[0]:
                    torch.add(weight, 1.0 if place == M + 1 else total, out=total)
                mix.addcmul_(weight, values[:, place])
    mixed.div_(total)


def _gather(table: Tensor, start: Tensor, values: Tensor) -> None:
    """values (T, w, n): of the windows of a table (w, starts) at starts (T, n)."""
    if len(start) == torch.get_num_threads():
        torch.gather(table.expand(len(start), -1, -1), 2, start[:, None].expand(values.shape), out=values)
        return
    for anchor, found in zip(table, values[0], strict=True):  # one row: `gather` would hand out anchors, not queries
        torch.index_select(anchor, 0, start[0], out=found)


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
