"""Weights of a network as torch has them: buffers that may move to a device and are never cast."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from weightwright.limits import hold
from weightwright.numbers import Floats

DTYPES = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16}


class Weights(nn.Module):
    """Numpy arrays as buffers of the network's dtype. They may move to a device and are never cast: the
    certificate is about these numbers. No state dict holds them; `save` and `load` do."""

    def keep(self, dtype: str, **arrays: Floats | None) -> None:
        for name, array in arrays.items():
            hold(0 if array is None else array.size)
            self.constant(name, None if array is None else torch.tensor(array, dtype=DTYPES[dtype]))

    def constant(self, name: str, tensor: Tensor | None) -> None:
        self.register_buffer(name, tensor, persistent=False)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Weights:
        for buffer in self.buffers(recurse=False):
            if buffer.is_floating_point() and fn(buffer[:0]).dtype != buffer.dtype:
                raise TypeError(
                    f"the weights are {buffer.dtype} and stay so: the certificate is about them;"
                    " approximate with another dtype instead"
                )
        return super()._apply(fn, recurse)
