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
from importlib.util import find_spec

import torch
from torch import Tensor

#: Tokens computed at a time: few enough for the intermediates to stay in cache, enough for two threads.
CHUNK = 2**17

# The first exp of a process settles which of MKL's kernels is used. If two threads come first at the same time, one of
# them may compute its share with 26 bits (pytorch issue 188792; seen here once): so one thread comes first, here.
for _dtype in (torch.float32, torch.float64):
    torch.exp(torch.zeros(1, dtype=_dtype))


def decay(c: float, M: int, dtype: torch.dtype) -> Tensor:
    """e_m = exp(-c m^2) for m = 0 .. M, rounded to the dtype."""
    return torch.tensor([math.exp(-c * m * m) for m in range(M + 1)], dtype=torch.float64).to(dtype)


def attend(t: Tensor, values: Tensor, e: Tensor, first: float, c: float) -> Tensor:
    """The head at the queries t (..., n): (..., n, v), for values (p, v) at the anchors first, first + 1, ...

    A query with fewer than M anchors on one side counts as the last that has them. NaN gives NaN.
    """
    flat = t.reshape(-1)
    if _in_one_kernel(t, max(-first, first + len(values))):
        from weightwright.runtime.window_triton import attend as kernel

        mixed = kernel(flat, values, e, first, c)
    else:
        columns = values.T.contiguous().unbind()
        mixed = torch.cat([_chunk(part, columns, e, first, c) for part in flat.split(CHUNK)], dim=1)
    return mixed.T.reshape(*t.shape, values.shape[1])


def _in_one_kernel(t: Tensor, farthest: float) -> bool:
    """On a GPU where triton is installed, no gradient is wanted, and no anchor is out of the kernel's reach."""
    gradient = torch.is_grad_enabled() and t.requires_grad
    fits = t.is_cuda and t.dtype in (torch.float32, torch.float64) and not gradient and farthest < 2**21
    return fits and find_spec("triton") is not None


def _chunk(t: Tensor, columns: tuple[Tensor, ...], e: Tensor, first: float, c: float) -> Tensor:
    """(v, n), for v columns of p values."""
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
