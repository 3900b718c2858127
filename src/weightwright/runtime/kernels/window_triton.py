"""The windowed head as one Triton kernel: one exponential per token, the values read from a table that stays in cache.

The same arithmetic as `window_kernel`, whose rounding it shares, but for the order of sums; the same input gives the
same bits on every run.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from weightwright.runtime.kernels.launcher import Launcher

#: Tokens per program, and warps: `benchmarks/window_gpu.py` tries others.
BLOCK, WARPS = 1024, 4
#: x + SHIFT - SHIFT is x rounded to a whole number, ties to even, for |x| < 2^22 and more.
_SHIFT = {torch.float32: 1.5 * 2.0**23, torch.float64: 1.5 * 2.0**52}


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _window(  # type: ignore[no-untyped-def]
    t_ptr,  # (n,)
    out_ptr,  # (v, n)
    values_ptr,  # (v, p)
    e_ptr,  # (M + 1,)
    ends_ptr,  # what is read of t, added to it, read of the answer, added to that; the least and the largest t
    flag_ptr,  # becomes 1 where a t lies outside
    n,
    p,
    first,  # this and what follows arrives as float32, which holds it exactly
    shift,
    two_c,
    M: tl.constexpr,
    BLOCK: tl.constexpr,
    FROM_X: tl.constexpr,  # whether t is the input, and the output is wanted
    CHECKS: tl.constexpr,
):
    tokens = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    column = tl.program_id(1).to(tl.int64)
    here = tokens < n
    t = tl.load(t_ptr + tokens, mask=here, other=0.0)
    if CHECKS:
        fits = (t >= tl.load(ends_ptr + 4)) & (t <= tl.load(ends_ptr + 5))
        outside = tl.max((here & (fits == 0)).to(tl.int32), axis=0)
        tl.store(flag_ptr, 1, mask=outside > 0)
    if FROM_X:
        t = t * tl.load(ends_ptr) + tl.load(ends_ptr + 1)
    lowest = tl.full((1,), M - 0.5, t.dtype) + first
    highest = tl.full((1,), p - 1 - M + 0.5, t.dtype) + first
    inside = tl.minimum(tl.maximum(tl.where(t == t, t, lowest), lowest), highest)
    nearest = (inside + shift) - shift
    k = tl.minimum(tl.maximum((nearest - first).to(tl.int32), M), p - 1 - M)
    z = tl.exp(two_c * (inside - (k.to(t.dtype) + first)))
    z_inverse = 1.0 / z
    above, below = z, z_inverse  # z^m and z^-m
    row = values_ptr + column * p + k
    mixed = tl.load(row)
    total = tl.full((BLOCK,), 1.0, t.dtype)
    for m in tl.static_range(1, M + 1):
        e = tl.load(e_ptr + m)
        right, left = e * above, e * below
        mixed += right * tl.load(row + m) + left * tl.load(row - m)
        total += right + left
        above, below = above * z, below * z_inverse
    mixed = mixed / total
    if FROM_X:
        mixed = mixed * tl.load(ends_ptr + 2) + tl.load(ends_ptr + 3)
    mixed = tl.where(t == t, mixed, t)  # NaN stays NaN
    tl.store(out_ptr + column * n + tokens, mixed, mask=here)


def attend(
    t: Tensor, values: Tensor, e: Tensor, first: float, c: float, block: int = BLOCK, warps: int = WARPS
) -> Tensor:
    """(v, n) for queries t (n,) and values (p, v) at the anchors first, first + 1, ..., all below 2^21 in size;
    float32 or float64."""
    (n,), (p, v), M = t.shape, values.shape, len(e) - 1
    out = t.new_empty(v, n)
    if n:
        given = (t.contiguous(), out, values.T.contiguous(), e, e, e, n, p, first, _SHIFT[t.dtype], 2 * c)
        with torch.cuda.device_of(t):
            _window[triton.cdiv(n, block), v](*given, M, block, False, False, num_warps=warps)
    return out


def from_inputs(values: Tensor, e: Tensor, first: float, c: float, ends: Tensor, mark: Tensor | None) -> Launcher:
    """What starts the kernel on (inputs, outputs, n); `mark` becomes 1 where an input lies outside its ends."""
    fixed = (values.T.contiguous(), e, ends, e if mark is None else mark)
    more = (len(values), first, _SHIFT[e.dtype], 2 * c, len(e) - 1, BLOCK, True, mark is not None)
    return Launcher(_window, fixed, more, BLOCK, WARPS)
