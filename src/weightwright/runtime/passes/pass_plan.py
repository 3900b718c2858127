"""A network that runs passes as steps on pieces of its stream: made once, from the layers alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from weightwright.network import Attention, Layer, Linear, Loop, Network
from weightwright.numbers import Floats
from weightwright.runtime.passes.looks import Look, Watcher, watch_pieces
from weightwright.runtime.passes.piece_steps import (
    HeadsStep,
    LinearStep,
    Place,
    Run,
    Step,
    Stream,
    TableStep,
    UnplannedError,
    is_table,
)
from weightwright.runtime.passes.pieces import Space, cut_together, group_ends
from weightwright.runtime.passes.recorded import MOST_STEPS, Recorder
from weightwright.runtime.passes.values import multiplied_out

NOWHERE: frozenset[Place] = frozenset()


@dataclass(eq=False)
class Passes:
    """Steps that run `times` times, each with its place and what is watched before it; loops in them are Passes too."""

    times: int
    steps: list[tuple[Place, list[Watcher], Step | Passes]] = field(default_factory=list)

    @property
    def length(self) -> int:
        """Steps that are run, all passes counted."""
        return self.times * sum(step.length if isinstance(step, Passes) else 1 for _, _, step in self.steps)

    def every(self) -> Iterator[Step | Watcher]:
        for _, watchers, step in self.steps:
            yield from watchers
            yield from step.every() if isinstance(step, Passes) else (step,)

    def __call__(self, stream: Stream, run: Run) -> Stream:
        for _ in range(self.times):
            run.memory.next_pass()
            for place, watchers, step in self.steps:
                if run.inside is not None:
                    run.inside += [watcher(stream, run.memory) for watcher in watchers]
                stream = step(stream, run)
                if place in run.hear:
                    run.heard.append(stream)
        return stream


class Plan:
    """All steps of a network. looks: by the place of a layer, what is watched before it. UnplannedError where a
    layer has no step."""

    def __init__(
        self, network: Network, looks: Mapping[Place, Sequence[Look]], dtype: torch.dtype, device: torch.device
    ) -> None:
        self.spaces: dict[tuple[str, ...], Space] = {}
        self.network, self.looks = network, looks
        self.inputs = Space(len(network.inputs), group_ends(network.inputs))
        self.start = self._space(network.embed.coordinates)
        self.embed = LinearStep(network.embed, self.inputs, self.start)
        self.passes, end = self._draft(network.layers, self.start, 1, ())
        self.read = LinearStep(network.read, end, self._space(network.read.coordinates), last=True)
        steps = [self.embed, *self.passes.every(), self.read]
        if not cut_together([map for step in steps for map in step.maps]):
            raise UnplannedError

        def held(numbers: Floats) -> Tensor:
            return torch.tensor(np.ascontiguousarray(numbers), dtype=dtype, device=device)

        for step in steps:
            step.settle(held)
        self.recorder = Recorder()

    def _space(self, names: tuple[str, ...]) -> Space:
        return self.spaces.setdefault(names, Space(len(names), group_ends(names)))

    def _draft(self, layers: Sequence[Layer], space: Space, times: int, place: Place) -> tuple[Passes, Space]:
        passes, at = Passes(times), 0
        while at < len(layers):
            layer, here = layers[at], (*place, at)
            watchers = [watch_pieces(look, space) for look in self.looks.get(here, ())]
            step: Step | Passes
            if is_table(layers[at : at + 3]):
                wide, after = (self._space(one.coordinates) for one in layers[at + 1 : at + 3])  # type: ignore[union-attr]
                if any(self.looks.get((*place, other)) for other in (at + 1, at + 2)):
                    raise UnplannedError
                step, space, at = TableStep(layers[at : at + 3], space, wide, after), after, at + 2
            elif isinstance(layer, Linear):
                after = self._space(layer.coordinates)
                step, space = LinearStep(layer, space, after), after
            elif isinstance(layer, Attention):
                step = HeadsStep(layer, self.network.registers, space)
            elif isinstance(layer, Loop):
                step, space = self._draft(layer.layers, space, layer.times, here)
            else:
                raise UnplannedError
            passes.steps.append(((*place, at), watchers, step))  # where it ends
            at += 1
        return passes, space

    def __call__(self, x: Tensor, watched: bool, hear: frozenset[Place] = NOWHERE) -> tuple[Tensor, Run] | None:
        """(B, tokens after, outputs) of x, (B, n, inputs), and the run; None where a number may have left its range."""
        same = (x == x[:, :1]).flatten(end_dim=1).all(0).tolist()  # what all tokens hold alike
        gradient = torch.is_grad_enabled() and x.requires_grad
        if gradient:  # every token has a gradient of its own
            same = [False] * len(same)

        def begin() -> Run:
            return Run(x.shape[1], [] if watched else None, hear)

        run = begin()
        if x.is_cuda and not gradient and not hear and self.passes.length <= MOST_STEPS:
            y, inside = self.recorder(lambda x: self._run(x, same, begin()), x, (*same, watched))
        else:
            y, inside = self._run(x, same, run)
        return None if inside is not None and not bool(inside) else (y, run)

    def _run(self, x: Tensor, same: Sequence[bool], run: Run) -> tuple[Tensor, Tensor | None]:
        """The output, and whether what is watched was inside; nobody waits for a GPU here."""
        pieces = self.inputs.pieces()
        given: Stream = [(x[:, :1] if all(same[piece]) else x)[..., piece].contiguous() for piece in pieces]
        stream = self.passes(self.embed(given, run), run)
        tokens = self.network.read.terms[0].tokens_after(run.n)
        every = range(self.read.target.width)
        y = spell_out(self.read(stream, run), self.read.target, every, x, tokens)
        return y, torch.stack(run.inside).all() if run.inside else None


def spell_out(stream: Stream, space: Space, columns: Sequence[int], x: Tensor, tokens: int) -> Tensor:
    """(B, tokens, columns): the pieces that make up these columns side by side, for every input of x and so many
    tokens."""
    pieces = {piece.start: (value, piece) for value, piece in zip(stream, space.pieces(), strict=True)}
    parts = []
    for value, piece in (pieces[column] for column in columns if column in pieces):
        shape = (len(x), tokens, piece.stop - piece.start)
        parts.append(x.new_zeros(shape) if value is None else multiplied_out(value).expand(shape))
    return torch.cat(parts, -1)
