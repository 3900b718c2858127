"""Triton kernels that are started again and again on inputs of one kind, without triton's look at every argument."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

#: What triton counts on addresses and whole numbers to be multiples of, where they were when the kernel was compiled.
_ALIGNED = 16


class Launcher:
    """A kernel of (inputs, outputs, fixed tensors, N, fixed numbers). What is compiled for the first N and addresses
    that are multiples of 16 is kept for all such; others go triton's own way."""

    def __init__(
        self, kernel: Any, tensors: tuple[Tensor, ...], numbers: tuple[Any, ...], block: int, warps: int
    ) -> None:
        self.kernel, self.tensors, self.numbers, self.block, self.warps = kernel, tensors, numbers, block, warps
        self.addresses = tuple(tensor.data_ptr() for tensor in tensors)  # which triton need not ask a driver about
        self.compiled: dict[torch.device, Any] = {}

    def __call__(self, x: Tensor) -> Tensor:
        """(N,), at inputs x (N,), contiguous."""
        out, N = torch.empty_like(x), x.numel()
        if N == 0:
            return out
        here, grid = x.data_ptr(), ((N + self.block - 1) // self.block, 1, 1)
        current = x.is_cuda and torch.cuda.current_device() == x.device.index
        usual = current and here % _ALIGNED == 0 and N % _ALIGNED == 0 and N < 2**31
        compiled = self.compiled.get(x.device) if usual else None
        if compiled is not None:
            compiled[grid](here, out.data_ptr(), *self.addresses, N, *self.numbers)
            return out
        with torch.cuda.device_of(x):
            made = self.kernel[grid](x, out, *self.tensors, N, *self.numbers, num_warps=self.warps)
        if usual:
            self.compiled[x.device] = made
        return out
