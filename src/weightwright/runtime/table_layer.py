"""A layer of heads on registers as a step of a plan; and a network that is one such head as one kernel on a GPU."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from weightwright.runtime.admission import Domain, inward
from weightwright.runtime.kernels.table_kernel import DenseTable, in_one_kernel, is_transformed
from weightwright.runtime.kernels.window_kernel import WindowTable
from weightwright.runtime.stream_pieces import Map, Sum

#: Heads with one table from which on they are one kernel on a GPU, which takes 16 at a time.
_HEADS_TO_FUSE = 16


@dataclass(frozen=True, eq=False)
class LookUp:
    """Heads with one table: their queries, the table, and what their answers add to the new piece."""

    queries: Sum  # (T, H h)
    beta: float  # 1 where it is in the weights of the queries already
    table: DenseTable | WindowTable
    size: int  # h
    out: Map  # (H v, columns of the piece)
    numbers: int  # H v

    @cached_property
    def fused(self) -> Fused | None:
        """The same as one kernel of a GPU, where queries are columns of one piece and every head has one answer."""
        if not isinstance(self.table, DenseTable) or self.table.K.shape[1] != 1 or self.table.V.shape[1] != 1:
            return None
        if self.beta != 1 or len(self.queries.terms) != 1 or self.numbers < _HEADS_TO_FUSE:
            return None
        if self.queries.row.dtype != torch.float32:  # in float64 a kernel for each part is quicker
            return None
        ((piece, asked),), row = self.queries.terms, self.queries.row
        if asked.W is not None:
            return None
        scales = torch.ones_like(row) if asked.scales is None else asked.scales
        W = self.out.matrix(self.numbers, row)
        return Fused(piece, asked.columns(len(row), row.device), scales, row, self.table.flat, W)

    def __call__(self, pieces: Sequence[Tensor], plus: Tensor | None) -> Tensor:
        if all(map(in_one_kernel, pieces)) and self.fused is not None and self.fused.fits(pieces):
            return self.fused(pieces, plus)
        Q = self.queries(pieces)
        Q = Q if self.beta == 1 else self.beta * Q
        mixed = self.table(Q.reshape(Q.numel() // self.size, self.size))  # (T H, v)
        return self.out(mixed.reshape(len(Q), self.numbers), plus)


@dataclass(frozen=True, eq=False)
class Fused:
    """Heads with one table as one kernel of a GPU: what `layer_triton` is given."""

    piece: int
    columns: Tensor  # (H,), of the piece
    scales: Tensor  # (H,)
    row: Tensor  # (H,)
    table: tuple[Tensor, Tensor, Tensor]
    W: Tensor  # (H, k)

    def fits(self, pieces: Sequence[Tensor]) -> bool:
        """Whether a row of sums fits into the registers, and rows of the piece have their numbers side by side."""
        from weightwright.runtime.kernels.layer_triton import MOST_COLUMNS

        return self.W.shape[1] <= MOST_COLUMNS and pieces[self.piece].stride(1) == 1

    def __call__(self, pieces: Sequence[Tensor], plus: Tensor | None) -> Tensor:
        from weightwright.runtime.kernels.layer_triton import run_layer

        plus = self.W.new_zeros(self.W.shape[1]) if plus is None else plus
        plus = plus if plus.stride(-1) == 1 else plus.contiguous()
        return run_layer(pieces[self.piece], self.columns, self.scales, self.row, self.table, self.W, plus)


@dataclass(frozen=True, eq=False)
class TableLayer:
    """A new piece: what its coordinates held before, and what heads on registers add."""

    before: Sum
    groups: tuple[LookUp, ...]

    def __call__(self, pieces: list[Tensor], shape: torch.Size) -> tuple[list[Tensor], torch.Size]:
        total = None if self.groups and not self.before.terms and self.before.is_zero else self.before(pieces)
        for group in self.groups:
            total = group(pieces, total)
        assert total is not None
        return [*pieces, total], shape


class OneHead:
    """A network of one head and one number, from x to y in one kernel, which looks at the domain as well."""

    def __init__(self, table: DenseTable | WindowTable, ends: Tensor) -> None:
        self.table, self.ends = table, ends
        self.started: dict[Domain | None, tuple[Callable[[Tensor], Tensor], Tensor | None]] = {}

    def start(self, x: Tensor, domain: Domain | None) -> tuple[Tensor, Tensor | None]:
        """The output at inputs (..., 1), and a number that is not 0 where one lies outside: nobody waits for either."""
        kernel, mark = self.started.get(domain) or self._kernel(x, domain)
        return kernel(x.contiguous().view(-1)).view(x.shape), mark

    def _kernel(self, x: Tensor, domain: Domain | None) -> tuple[Callable[[Tensor], Tensor], Tensor | None]:
        ends, mark = self.ends, None
        if domain is not None:
            inside = inward(domain.lo, x.dtype, math.inf), inward(domain.hi, x.dtype, -math.inf)
            ends = torch.cat([ends, *(end.flatten().to(x.device) for end in inside)])
            mark = torch.zeros(
                1, dtype=torch.int32, pin_memory=True
            )  # of the host: written to where something is wrong
        self.started = {domain: (self.table.from_inputs(ends, mark), mark)}
        return self.started[domain]


def one_head(steps: Sequence[object], read: Sum | None) -> OneHead | None:
    """The whole network as one kernel, if it is one head for a function of one number, a scale and a constant."""
    if len(steps) != 1 or not isinstance(steps[0], TableLayer) or len(steps[0].groups) != 1 or read is None:
        return None
    before, (group,) = steps[0].before, steps[0].groups
    query, out = group.queries.scale_and_row(0), read.scale_and_row(1)
    simple = group.out.W is None and group.out.picked is None and group.numbers == 1 and group.beta == 1
    several = isinstance(group.table, DenseTable) and group.table.K.shape[1] > 1
    if query is None or out is None or not simple or several or before.terms:
        return None
    scale, row = query[0].new_ones(()) if group.out.scales is None else group.out.scales[0], before.row[0]
    if out[0] == 1 and out[1] == 0:
        return OneHead(group.table, torch.stack([*query, scale, row]))
    return OneHead(group.table, torch.stack([*query, *out])) if scale == 1 and row == 0 else None


def begin(net: Any, x: Tensor) -> tuple[object, Tensor, Tensor | None] | None:
    """On a GPU a network of one head starts before anything is looked at, which goes on meanwhile: what it returns,
    with the plan that it ran by, counts only if that plan still holds and the input is admitted."""
    plan = net.__dict__.get("_plan")
    if plan is None or plan.one_head is None or type(x) is not Tensor or net.on_domain == "clamp":
        return None
    if not in_one_kernel(x) or is_transformed(x) or x.dtype != net.dtype or x.ndim < 2 or x.shape[-1] != 1:
        return None
    return plan, *plan.one_head.start(x, net._domain if net.on_domain == "raise" else None)
