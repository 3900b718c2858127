"""A dense table as one Triton kernel: every key is looked at twice, for the largest score and for the sums.

The arithmetic of `table_kernel.DenseTable` for queries of one number: a product and a sum a score, the largest taken
off, exp, two sums and one division, rounded to nearest.
exp in float32: e^z = 2^t e^(z - t ln 2) for any t; t is z / ln 2, rounded, and the second factor 1 + (z - t ln 2). The
hardware's 2^t is within 2 units in the last place; the float next to ln 2 is off by less than 3e-9 of it, which costs
|z| 3e-9 of the result, 5 units roundoff at z = -87; the rest is less than one. Together 10 of the 40 that the rounding
model gives it. In float64 it is CUDA's own, within 1 unit in the last place.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra import libdevice

from weightwright.runtime.kernels.launcher import Launcher

#: Queries per program, and warps.
BLOCK, WARPS = 1024, 4
#: Keys up to which the loops over them are written out when the kernel is compiled; in float64 they are slower so.
WRITTEN_OUT = 32


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _exp(z):  # type: ignore[no-untyped-def]
    if z.dtype == tl.float32:
        t = z * 1.4426950408889634
        power = tl.math.exp2(t)
        return tl.fma(power, tl.fma(-t, 0.6931471805599453, z), power)
    else:
        return libdevice.exp(z)


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def mix_values(q, keys_ptr, offsets_ptr, values_ptr, P: tl.constexpr, WRITTEN_OUT: tl.constexpr):  # type: ignore[no-untyped-def]
    """The table (p,) at the queries q, a block of any shape."""
    most = tl.load(keys_ptr) * q + tl.load(offsets_ptr)
    mixed = tl.zeros_like(q)
    total = tl.zeros_like(q)
    if WRITTEN_OUT:
        for j in tl.static_range(1, P):
            most = tl.maximum(most, tl.load(keys_ptr + j) * q + tl.load(offsets_ptr + j))
        for j in tl.static_range(P):
            weight = _exp(tl.load(keys_ptr + j) * q + tl.load(offsets_ptr + j) - most)
            mixed += weight * tl.load(values_ptr + j)
            total += weight
    else:
        for j in range(1, P):
            most = tl.maximum(most, tl.load(keys_ptr + j) * q + tl.load(offsets_ptr + j))
        for j in range(P):
            weight = _exp(tl.load(keys_ptr + j) * q + tl.load(offsets_ptr + j) - most)
            mixed += weight * tl.load(values_ptr + j)
            total += weight
    mixed = tl.div_rn(mixed, total) if mixed.dtype == tl.float32 else mixed / total
    return tl.where(q == q, mixed, q)  # NaN stays NaN


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _table(  # type: ignore[no-untyped-def]
    q_ptr,  # (N,)
    out_ptr,  # (v, N)
    keys_ptr,  # (p,)
    offsets_ptr,  # (p,)
    values_ptr,  # (v, p)
    ends_ptr,  # what is read of q, added to it, read of the answer, added to that; the least and the largest q
    flag_ptr,  # becomes 1 where a q lies outside
    N,
    P: tl.constexpr,
    BLOCK: tl.constexpr,
    FROM_X: tl.constexpr,  # whether q is the input, and the output is wanted
    CHECKS: tl.constexpr,
    WRITTEN_OUT: tl.constexpr,
):
    places = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    column = tl.program_id(1).to(tl.int64)
    here = places < N
    q = tl.load(q_ptr + places, mask=here, other=0.0)
    if CHECKS:
        inside = (q >= tl.load(ends_ptr + 4)) & (q <= tl.load(ends_ptr + 5))
        outside = tl.max((here & (inside == 0)).to(tl.int32), axis=0)
        tl.store(flag_ptr, 1, mask=outside > 0)
    if FROM_X:
        q = q * tl.load(ends_ptr) + tl.load(ends_ptr + 1)
    values = values_ptr + column * P
    mixed = mix_values(q, keys_ptr, offsets_ptr, values, P, WRITTEN_OUT)
    if FROM_X:
        mixed = mixed * tl.load(ends_ptr + 2) + tl.load(ends_ptr + 3)
    tl.store(out_ptr + column * N + places, mixed, mask=here)


def look_up(Q: Tensor, keys: Tensor, offsets: Tensor, values: Tensor) -> Tensor:
    """(v, N) for queries Q (N,), keys and offsets (p,) and values (v, p), all contiguous; float32 or float64."""
    N, (v, p) = Q.numel(), values.shape
    out = Q.new_empty(v, N)
    if N:
        with torch.cuda.device_of(Q):
            given = (Q, out, keys, offsets, values, keys, keys, N)
            _table[triton.cdiv(N, BLOCK), v](*given, *settings(p, Q.dtype, False, False), num_warps=WARPS)
    return out


def settings(p: int, dtype: torch.dtype, from_x: bool, checks: bool) -> tuple[int | bool, ...]:
    """What the kernel is compiled for, in the order of its arguments."""
    return p, BLOCK, from_x, checks, p <= WRITTEN_OUT and dtype == torch.float32


def from_inputs(keys: Tensor, offsets: Tensor, values: Tensor, ends: Tensor, mark: Tensor | None) -> Launcher:
    """What starts the kernel on (inputs, outputs, N); `mark` becomes 1 where an input lies outside its ends."""
    fixed = (keys, offsets, values, ends, keys if mark is None else mark)
    compiled_for = settings(len(keys), keys.dtype, True, mark is not None)
    return Launcher(_table, fixed, compiled_for, BLOCK, WARPS)
