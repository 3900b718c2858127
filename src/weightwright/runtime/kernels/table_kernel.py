"""A table as a function of numbers: softmax over its keys, for all queries of all heads that share it.

A query s has the scores z_j = k_j s + c_j. Keys stand first, (p, N), so that every operation runs along the queries,
which are neighbours in memory; rows of a few keys would leave most of a processor's lanes empty.

Rounding, kernel "dot": one product and one sum a score (or a product of matrices, for queries of several numbers); the
largest score is taken off; exp; the sum of weights and its reciprocal; a product of matrices with the values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.util import find_spec

import torch
from torch import Tensor

#: Bytes of scores that a thread holds at a time, a quarter of the second cache of common processors, with as many of
#: weights beside them: with four times more every pass waits for memory, with a quarter the calls take as long.
_SCORES_AT_ONCE = 2**18
#: Queries are taken in multiples of this many, so that no vector register is left half empty.
_LANES = 64


@dataclass(frozen=True, eq=False)
class DenseTable:
    """Keys and values on registers, as the heads of a group share them."""

    K: Tensor  # (p, h): of each number of a query; h = 1 if all others are constant, and then in `offsets`
    offsets: Tensor | None  # (p, 1)
    V: Tensor  # (p, v)

    @property
    def keys(self) -> int:
        return len(self.K)

    @cached_property
    def flat(self) -> tuple[Tensor, Tensor, Tensor]:
        """Keys (p,), offsets (p,) and values (v, p), as the Triton kernel reads them."""
        offsets = torch.zeros_like(self.K) if self.offsets is None else self.offsets
        return self.K.flatten().contiguous(), offsets.flatten().contiguous(), self.V.T.contiguous()

    def from_inputs(self, ends: Tensor, mark: Tensor | None) -> Callable[[Tensor], Tensor]:
        """The outputs of a network that is one head with this table, (N,) at inputs (N,), as `table_triton` says."""
        from weightwright.runtime.kernels.table_triton import from_inputs

        return from_inputs(*self.flat, ends, mark)

    def __call__(self, Q: Tensor) -> Tensor:
        """(N, v) at the queries Q (N, h)."""
        if self.K.shape[1] == 1 and in_one_kernel(Q):
            from weightwright.runtime.kernels.table_triton import look_up

            return look_up(Q.contiguous().view(-1), *self.flat).T
        room = _SCORES_AT_ONCE if Q.device.type == "cpu" else 2**30  # elsewhere a hundredth of the memory
        rows = max(1, room // (self.keys * Q.element_size() * _LANES)) * _LANES
        if len(Q) <= rows:
            return self._at_once(Q)
        if torch.is_grad_enabled() and Q.requires_grad:
            return torch.cat([self._at_once(part) for part in Q.split(rows)])
        return self._in_blocks(Q, rows, torch.get_num_threads() if Q.device.type == "cpu" else 1)

    def _in_blocks(self, Q: Tensor, rows: int, blocks: int) -> Tensor:
        """What `_at_once` computes, for (B, p, rows) scores at a time: every operation gives each thread its own block
        again, which is in its cache then, in tensors that are used again."""
        (p, h), v, step = self.K.shape, self.V.shape[1], blocks * rows
        scores, weights = Q.new_empty(blocks, p, rows), Q.new_empty(blocks, p, rows)
        K, V = self.K.expand(blocks, p, h), self.V.T.expand(blocks, v, p)
        mixed, whole = Q.new_empty(v, len(Q)), len(Q) // step * step
        for start in range(0, whole, step):
            q = Q[start : start + step].view(blocks, rows, h).mT
            if h == 1:
                torch.mul(K, q, out=scores)
            else:
                torch.bmm(K, q, out=scores)
            if self.offsets is not None:
                scores.add_(self.offsets)
            torch.softmax(scores, 1, out=weights)
            torch.bmm(V, weights, out=mixed[:, start : start + step].view(v, blocks, rows).transpose(0, 1))
        for start in range(whole, len(Q), rows):
            mixed[:, start : start + rows] = self._at_once(Q[start : start + rows]).T
        return mixed.T

    def _at_once(self, Q: Tensor) -> Tensor:
        scores = self.K * Q[:, 0] if self.K.shape[1] == 1 else self.K @ Q.T  # (p, N)
        if self.offsets is not None:
            scores = scores.add_(self.offsets) if not scores.requires_grad else scores + self.offsets
        weights = torch.softmax(scores, 0)
        return (self.V.T @ weights).T  # (N, v)


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None


def in_one_kernel(Q: Tensor) -> bool:
    """On a GPU where triton is installed, in a dtype that it computes as the model says, and without a gradient."""
    gradient = torch.is_grad_enabled() and Q.requires_grad
    return Q.is_cuda and Q.dtype in (torch.float32, torch.float64) and not gradient and _has_triton()


def is_transformed(x: Tensor) -> bool:
    """Whether torch.func (vmap, grad and so on) is at work on it: its numbers cannot be looked at."""
    return not torch.compiler.is_compiling() and torch._C._functorch.is_functorch_wrapped_tensor(x)
