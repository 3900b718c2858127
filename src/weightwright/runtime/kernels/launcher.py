"""Triton kernels that are started again and again on inputs of one kind, without triton's look at every argument."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import triton
from torch import Tensor

#: What triton counts on addresses and whole numbers to be multiples of, where they were when the kernel was compiled.
_ALIGNED = 16
#: All arguments of a kernel, from inputs, outputs and N.
Arguments = Callable[[Tensor, Tensor, int], tuple[Any, ...]]


class Launcher:
    """A kernel of (inputs, outputs, N, ...) in which all else is fixed. What is compiled for the first N and addresses
    that are multiples of 16 is kept for all such; others go triton's own way."""

    def __init__(self, kernel: Any, arguments: Arguments, block: int, warps: int) -> None:
        self.kernel, self.arguments, self.block, self.warps = kernel, arguments, block, warps
        self.compiled: dict[torch.device, Any] = {}

    def __call__(self, x: Tensor) -> Tensor:
        """(N,), at inputs x (N,), contiguous."""
        out, N = torch.empty_like(x), x.numel()
        if N == 0:
            return out
        given, grid = self.arguments(x, out, N), (triton.cdiv(N, self.block), 1, 1)
        here = x.is_cuda and torch.cuda.current_device() == x.device.index
        usual = here and x.data_ptr() % _ALIGNED == 0 and N % _ALIGNED == 0 and N < 2**31
        compiled = self.compiled.get(x.device) if usual else None
        if compiled is not None:
            compiled[grid](*given)
            return out
        with torch.cuda.device_of(x):
            made = self.kernel[grid](*given, num_warps=self.warps)
        if usual:
            self.compiled[x.device] = made
        return out
