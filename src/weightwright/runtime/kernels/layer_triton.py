"""A layer of heads that share a dense table as one Triton kernel: queries, table, and the product with what they write.

A program takes a block of tokens and runs through the heads, BLOCK_H at a time. Their queries are columns of one piece
of the stream, each with a scale and a constant; the table is that of `table_triton`, with the same arithmetic; and
what the heads answer is multiplied by W, (H, k), before it leaves the registers. Nothing of the size (T, H) is written.

Rounding: a product and a sum a query, the table, a product of matrices in an order of its own and one more sum, as the
layer does them one by one. Products of float32 are those of float32, not of TF32.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from weightwright.runtime.kernels.table_triton import WRITTEN_OUT, mix_values

#: Tokens and heads of a program at a time, and warps. Of the blocks tried on an H200 (32 to 256 tokens, 16 to 64 heads)
#: the quickest; a product of matrices takes 16 heads at least.
BLOCK_T, BLOCK_H, WARPS = 128, 16, 4
#: Columns that are written, at most: with more, a block of sums would not fit into the registers.
MOST_COLUMNS = 64


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _layer(  # type: ignore[no-untyped-def]
    y_ptr,  # (T, m), rows y_stride apart
    out_ptr,  # (T, k)
    plus_ptr,  # (T, k), rows plus_stride apart: what is added
    columns_ptr,  # (H,): which column of y a head reads
    scales_ptr,  # (H,)
    row_ptr,  # (H,)
    keys_ptr,  # (p,)
    offsets_ptr,  # (p,)
    values_ptr,  # (p,)
    W_ptr,  # (H, k)
    T,
    H,
    k,
    y_stride,
    plus_stride,
    P: tl.constexpr,
    BLOCK_T: tl.constexpr,
    BLOCK_H: tl.constexpr,
    BLOCK_K: tl.constexpr,
    WRITTEN_OUT: tl.constexpr,
):
    tokens = tl.program_id(0).to(tl.int64) * BLOCK_T + tl.arange(0, BLOCK_T)
    columns = tl.arange(0, BLOCK_K)
    here, kept = (tokens < T)[:, None], (columns < k)[None, :]
    total = tl.load(plus_ptr + tokens[:, None] * plus_stride + columns[None, :], mask=here & kept, other=0.0)
    for first in range(0, H, BLOCK_H):
        heads = first + tl.arange(0, BLOCK_H)
        there = heads < H
        column = tl.load(columns_ptr + heads, mask=there, other=0)
        q = tl.load(y_ptr + tokens[:, None] * y_stride + column[None, :], mask=here & there[None, :], other=0.0)
        q = q * tl.load(scales_ptr + heads, mask=there, other=0.0)[None, :]
        q = q + tl.load(row_ptr + heads, mask=there, other=0.0)[None, :]
        mixed = mix_values(q, keys_ptr, offsets_ptr, values_ptr, P, WRITTEN_OUT)
        W = tl.load(W_ptr + heads[:, None] * k + columns[None, :], mask=there[:, None] & kept, other=0.0)
        total = tl.dot(mixed, W, total, input_precision="ieee", out_dtype=mixed.dtype)
    tl.store(out_ptr + tokens[:, None] * k + columns[None, :], total, mask=here & kept)


def run_layer(
    Y: Tensor, columns: Tensor, scales: Tensor, row: Tensor, table: tuple[Tensor, Tensor, Tensor], W: Tensor,
    plus: Tensor,
) -> Tensor:  # fmt: skip
    """(T, k): plus + answers W, the answers of a table (keys, offsets and values, (p,) each) at the queries
    Y[:, columns] scales + row.

    Y (T, m); columns (H,) whole numbers; scales, row (H,); W (H, k), contiguous; plus (T, k) or (k,). Rows of Y and of
    `plus` have their numbers side by side. float32 or float64.
    """
    T, (H, k), p = len(Y), W.shape, len(table[0])
    out = Y.new_empty(T, k)
    if T:
        strides = Y.stride(0), plus.stride(0) if plus.ndim == 2 else 0
        blocks = BLOCK_T, BLOCK_H, max(16, triton.next_power_of_2(k))
        written_out = p <= WRITTEN_OUT and Y.dtype == torch.float32
        given = (Y, out, plus, columns, scales, row, *table, W, T, H, k, *strides)
        with torch.cuda.device_of(Y):
            _layer[(triton.cdiv(T, BLOCK_T),)](*given, p, *blocks, written_out, num_warps=WARPS)
    return out
