"""What is watched while passes run, by pieces: arguments of tables and states must stay where the bound holds.

Nothing is raised here. The largest numbers are kept, and looked at when all passes are done: no device waits for the
host in between. Where one lies outside, or may, the network runs once more as whole streams, which say what is wrong.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from weightwright.numbers import Floats
from weightwright.runtime.passes.piece_steps import Form, Held, Stream, UnplannedError, forms_of, tensor_of
from weightwright.runtime.passes.pieces import Map, Space
from weightwright.runtime.passes.values import Memory, inner_product, multiplied_out


@dataclass(frozen=True, eq=False)
class ArgumentLook:
    """q . k, q the stream times `query` (width, h), k these coordinates, lies between lo and hi, by more than `slack`
    times the sum of the sizes of its products."""

    query: Floats
    key: tuple[int, ...]
    lo: float
    hi: float
    slack: float


@dataclass(frozen=True, eq=False)
class StateLook:
    """The stream times `read` (width, states) lies between lo and hi, (1 or n, states) each."""

    read: Floats
    lo: Floats
    hi: Floats


class WatchArgument:
    """Keeps the largest and smallest arguments of a pass."""

    def __init__(self, look: ArgumentLook, space: Space) -> None:
        self.look, asked = look, Space(len(look.key))
        picked = np.zeros((space.width, len(look.key)))
        picked[list(look.key), np.arange(len(look.key))] = 1.0
        self.query, self.key = Map(look.query, space, asked), Map(picked, space, asked)
        self.maps = [self.query, self.key]
        self.even = look.lo == -look.hi

    def settle(self, held: Held) -> None:
        keys = {move.target: move.source for move in self.key.moves()}
        queries = forms_of(self.query, held)
        self.parts = [(form, _without_signs(form), keys[place]) for place, form in enumerate(queries) if form]

    def __call__(self, stream: Stream, memory: Memory) -> Tensor:
        """Whether it lies inside."""
        s = size = None
        for form, plain, k in self.parts:
            q, value = tensor_of(form, stream), stream[k]
            if q is None or value is None:
                continue
            key = multiplied_out(value)
            large = _sizes(plain, stream, memory)
            inner = memory.once(inner_product, q, key)
            product = memory.once(inner_product, large, memory.once(torch.abs, key))
            s = inner if s is None else memory.once(torch.add, s, inner)
            size = product if size is None else memory.once(torch.add, size, product)
        if s is None or size is None:
            raise UnplannedError
        if self.even:
            return torch.add(s.abs(), size, alpha=self.look.slack).amax() <= self.look.hi
        lowest, highest = (torch.add(s, size, alpha=sign * self.look.slack) for sign in (-1.0, 1.0))
        return (lowest.amin() >= self.look.lo) & (highest.amax() <= self.look.hi)


def _without_signs(form: Form) -> Form:
    return [(k, abs(weight) if isinstance(weight, float) else weight.abs()) for k, weight in form]


def _sizes(form: Form, stream: Stream, memory: Memory) -> Tensor:
    """The sum of the sizes of what the form adds up."""
    total = None
    for k, weight in form:
        value = stream[k]
        if value is not None:
            size = memory.once(torch.abs, multiplied_out(value)) * weight
            total = size if total is None else total + size
    assert total is not None
    return total


class WatchStates:
    """Looks at the states that a pass begins with."""

    def __init__(self, look: StateLook, space: Space) -> None:
        self.look, self.states = look, Space(look.read.shape[1])
        self.maps = [Map(look.read, space, self.states)]

    def settle(self, held: Held) -> None:
        look, pieces = self.look, self.states.pieces()
        device = held(np.zeros(1)).device
        # in float64, whatever the dtype: an end that is rounded may lie outside
        lo, hi = (torch.tensor(np.array(end), device=device) for end in (look.lo, look.hi))
        forms = forms_of(self.maps[0], held)
        self.forms = [(form, lo[:, piece], hi[:, piece]) for form, piece in zip(forms, pieces, strict=True)]

    def __call__(self, stream: Stream, memory: Memory) -> Tensor:
        """Whether all lie inside."""
        inside = None
        for form, lo, hi in self.forms:
            found = tensor_of(form, stream)
            state = torch.zeros_like(lo) if found is None else found
            fine = ((state >= lo) & (state <= hi)).all()
            inside = fine if inside is None else inside & fine
        assert inside is not None
        return inside


Look = ArgumentLook | StateLook
Watcher = WatchArgument | WatchStates


def watch_pieces(look: Look, space: Space) -> Watcher:
    return WatchArgument(look, space) if isinstance(look, ArgumentLook) else WatchStates(look, space)
