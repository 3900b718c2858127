"""Passes recorded on a GPU: the kernels of all passes are one CUDA graph, which later inputs of that shape replay.

A pass is some ten small kernels, and starting each of them takes longer than it runs. The first run of a shape starts
them one by one; the second records them while it does so, and from then on nothing is started but the graph. What is
computed is the same, kernel for kernel.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

#: Steps of a run, all passes counted, up to which it is recorded: each is a few kernels, which take a kilobyte or so.
MOST_STEPS = 2**15
#: Graphs that are kept for a network, the newest: each holds what its run computes.
_KEPT = 4

#: Shapes that are remembered to have come once.
_MOST_SEEN = 256

#: What a run makes of an input: its output, and whether all that is watched was where it must be (None: unwatched).
Made = tuple[Tensor, Tensor | None]


class RecordedRun:
    """A run on one shape, on one stream."""

    def __init__(self, run: Callable[[Tensor], Made], x: Tensor) -> None:
        self.graph = torch.cuda.CUDAGraph()
        with torch.inference_mode(False), torch.no_grad():  # later inputs are written to x in any mode
            self.x = x.clone()
            with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):
                self.made = run(self.x)

    def __call__(self, x: Tensor) -> Made:
        self.x.copy_(x)
        self.graph.replay()
        y, inside = self.made
        return y.clone(), None if inside is None else inside.clone()


@dataclass(eq=False)
class Recorder:
    """The graphs of a network, by what decides which kernels run; None where a run cannot be recorded."""

    seen: set[Any] = field(default_factory=set)
    graphs: dict[Any, RecordedRun | None] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, run: Callable[[Tensor], Made], x: Tensor, kind: tuple[Any, ...]) -> Made:
        """`run(x)`, from its graph if there is one. kind: what beside shape and stream decides which kernels run."""
        with torch.cuda.device_of(x), self.lock:
            key = x.shape, torch.cuda.current_stream().cuda_stream, kind
            if key not in self.seen:
                made = run(x)
                if len(self.seen) >= _MOST_SEEN:
                    self.seen = set(self.graphs)
                self.seen.add(key)  # it has steps for this input
                return made
            if key in self.graphs:
                graph = self.graphs.pop(key)
            else:
                while len(self.graphs) >= _KEPT:  # what was used longest ago begins anew when it comes again
                    oldest = next(iter(self.graphs))
                    self.seen.discard(oldest)
                    del self.graphs[oldest]
                try:
                    graph = RecordedRun(run, x)
                except RuntimeError:  # torch's, of what no graph can hold: a wait for the host, or too little memory
                    graph = None
            self.graphs[key] = graph  # the newest
            return run(x) if graph is None else graph(x)
